"""Asking: ranked hits, or one block of text for a prompt."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import Field

from keeps.core import fusion
from keeps.core.entities import EntityRef, parse_ref
from keeps.core.errors import Invalid, NotImplementedYet
from keeps.core.facts import Action, Fact, Relation, Row
from keeps.core.modes import Include, Mode
from keeps.core.packing import LOOSEST, Budget, SensitiveUse, Tainted, Unconfirmed
from keeps.core.scopes import parse_lens
from keeps.core.sessions import Turn
from keeps.core.text import check_label
from keeps.core.traces import Tier
from keeps.core.validity import When
from keeps.wire.base import K_DEFAULT, Instant, Labels, ScopeSets, TopK, WireIn, WireOut, bare_id, example
from keeps.wire.late import Late

if TYPE_CHECKING:
    from keeps.services import context, recall
    from keeps.services.context import Asked, Block
    from keeps.services.prompt import Entry
    from keeps.services.recall import Recall, Recalled
    from keeps.store import rows
else:
    context = Late("keeps.services.context")
    recall = Late("keeps.services.recall")
    rows = Late("keeps.store.rows")


ScopeView = Literal["strict", "merged", "crossTeam"]

_READ_NAMES: Mapping[str, tuple[str, ...]] = {"lens": ("scope", "scopes"), "k": ("limit",)}


class Temporal(WireIn):
    """The time a question is about; nothing given means now."""

    as_of: Instant | None = None
    at_instant: Instant | None = None
    valid_from: Instant | None = None
    valid_until: Instant | None = None

    def when(self) -> When:
        """The same as a value."""
        return When(
            as_of=self.as_of,
            at_instant=self.at_instant,
            valid_from=self.valid_from,
            valid_until=self.valid_until,
        )


class BudgetIn(WireIn):
    """What a prompt has room for. It only narrows what is allowed; what is left out narrows nothing.

    `maxTokens` counts the whole block. `maxPerSource`: from one session, document, tool or agent. `kinds`: those that
    may stand there. `timeoutMs`: after that there is no block.
    """

    max_memories: Annotated[int, Field(ge=0, le=50)] = LOOSEST.max_memories
    max_tokens: Annotated[int, Field(ge=0, le=8000)] = LOOSEST.max_tokens
    max_per_kind: Annotated[int, Field(ge=0, le=50)] = LOOSEST.max_per_kind
    max_per_source: Annotated[int, Field(ge=1, le=50)] = LOOSEST.max_per_source
    kinds: tuple[str, ...] | None = None
    allow_unconfirmed: Unconfirmed = LOOSEST.allow_unconfirmed
    allow_tainted: Tainted = LOOSEST.allow_tainted
    allow_sensitive: SensitiveUse = LOOSEST.allow_sensitive
    min_score: Annotated[float, Field(ge=0.0, le=1.0)] = LOOSEST.min_score
    min_trust: Annotated[float, Field(ge=0.0, le=1.0)] = LOOSEST.min_trust
    max_age_days: Annotated[int, Field(ge=0, le=36_500)] | None = None
    timeout_ms: Annotated[int, Field(ge=50, le=10_000)] = LOOSEST.timeout_ms

    def to_core(self) -> Budget:
        """The same as a value."""
        return Budget(
            max_memories=self.max_memories,
            max_tokens=self.max_tokens,
            max_per_kind=self.max_per_kind,
            max_per_source=self.max_per_source,
            kinds=None if self.kinds is None else frozenset(self.kinds),
            allow_unconfirmed=self.allow_unconfirmed,
            allow_tainted=self.allow_tainted,
            allow_sensitive=self.allow_sensitive,
            min_score=self.min_score,
            min_trust=self.min_trust,
            min_trust_guess=LOOSEST.min_trust_guess,
            max_age_days=self.max_age_days,
            timeout_ms=self.timeout_ms,
        )


class BudgetOut(WireOut):
    """The budget that held. `kinds` is left out when every kind may stand in a prompt."""

    max_memories: int
    max_tokens: int
    max_per_kind: int
    max_per_source: int
    kinds: tuple[str, ...] | None = None
    allow_unconfirmed: str
    allow_tainted: str
    allow_sensitive: str
    min_score: float
    min_trust: float
    max_age_days: int | None = None
    timeout_ms: int

    @classmethod
    def of(cls, budget: Budget) -> Self:
        return cls(
            max_memories=budget.max_memories,
            max_tokens=budget.max_tokens,
            max_per_kind=budget.max_per_kind,
            max_per_source=budget.max_per_source,
            kinds=None if budget.kinds is None else tuple(sorted(budget.kinds)),
            allow_unconfirmed=budget.allow_unconfirmed.value,
            allow_tainted=budget.allow_tainted.value,
            allow_sensitive=budget.allow_sensitive.value,
            min_score=budget.min_score,
            min_trust=budget.min_trust,
            max_age_days=budget.max_age_days,
            timeout_ms=budget.timeout_ms,
        )


class Asking(Temporal):
    """What both ways of asking share. Unknown members of `include` are ignored; what scores below `minScore`, 0 to 1,
    is left out."""

    also: ClassVar[Mapping[str, tuple[str, ...]]] = _READ_NAMES
    asked_by: ClassVar[str] = "query"

    query: str
    k: TopK = K_DEFAULT
    mode: Mode = Mode.HYBRID
    session_id: str | None = None
    include: tuple[str, ...] = ()
    labels: Labels = ()
    lens: ScopeSets = None
    scope_view: ScopeView = "strict"
    include_duplicates: bool = False
    source: str | None = None
    min_score: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
    run_id: str | None = None

    def to_core(self) -> Recall:
        """The question this asks. Raises: Invalid."""
        return recall.Recall(
            query=self.query,
            k=self.k,
            mode=self.mode,
            include=frozenset(half for half in Include if half.value in self.include) or frozenset(Include),
            when=self.when(),
            labels=frozenset(map(check_label, self.labels)),
            lens=parse_lens(self.lens),
            session=bare_id(self.session_id, "session"),
            include_duplicates=self.include_duplicates,
            subject=self.entity(),
            min_score=self.min_score,
            source=self.source or self.asked_by,
        )

    def entity(self) -> EntityRef | None:
        """The one entity the question is about; None for any. Raises: Invalid."""
        return None


class QueryIn(Asking):
    """A question to the memory."""

    model_config = example(query="When does Mara work?", k=5, lens="user/mara", asOf="2026-03-05T00:00:00Z")

    location: dict[str, Any] | None = None

    def asked(self) -> Asked:
        """The question and the run it is for. Raises: as `to_core`."""
        return context.Asked(recall=self.to_core(), run=self.run_id)

    def to_core(self) -> Recall:
        """The question this asks. Raises: Invalid, NotImplementedYet for a place."""
        if self.location is not None:
            if len({"near", "within"} & self.location.keys()) != 1:
                raise Invalid("location is near or within, one of them")
            raise NotImplementedYet("looking for things by place is not offered: leave location out")
        return super().to_core()


class ContextIn(Asking):
    """A question whose answer goes into a prompt. `subject` names one entity, `<type>/<name>`; `runId` the run of an
    agent that the block is for."""

    model_config = example(query="When does Mara work?", k=5, subject="person/mara", budget={"maxTokens": 400})

    asked_by: ClassVar[str] = "context"

    subject: str | None = None
    budget: BudgetIn | None = None

    def asked(self) -> Asked:
        """The question with the room the prompt has. Raises: Invalid."""
        budget = LOOSEST if self.budget is None else self.budget.to_core()
        return context.Asked(recall=self.to_core(), budget=budget, run=self.run_id)

    def entity(self) -> EntityRef | None:
        return None if self.subject is None else parse_ref(self.subject)


class Signals(WireOut):
    """Why something was found. `text`: rank by words; `share`: how much of the question it holds, 0..1; `cosine`:
    nearness of meaning; `graph`: nearness to what the question names, 0..1. What a leg did not say is left out."""

    text: float | None = None
    share: float | None = None
    cosine: float | None = None
    graph: float | None = None

    @classmethod
    def of(cls, said: fusion.Signals) -> Self:
        return cls(text=_told(said.text), share=_told(said.share), cosine=_told(said.cosine), graph=_told(said.graph))


def _told(value: float | None) -> float | None:
    return round(value, 4) if value else None


class Hit(WireOut):
    """One thing found. `id` is `table:key`, `score` how likely it answers, 0..1."""

    id: str
    text: str
    source: str
    score: float
    resource: dict[str, Any]
    occurred_at: datetime
    source_ref: str | None = None
    trust: float
    origin: str
    status: str
    kind: str | None = None
    speaker: str | None = None
    role: str | None = None
    chunk_ids: tuple[str, ...] | None = None
    labels: tuple[str, ...] = ()
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    signals: Signals | None = None

    @classmethod
    def of(cls, hit: recall.Hit) -> Self:
        if isinstance(hit.row, Turn):
            return cls._of_turn(hit, hit.row)
        row = hit.row
        return cls(
            id=rows.ref_of(row),
            text=hit.text,
            source=recall.kind_of(row),
            score=hit.score,
            resource=_resource(row),
            occurred_at=hit.at,
            source_ref=row.source.ref,
            trust=row.control.trust,
            origin=row.control.origin.value,
            status=row.control.status.value,
            kind=row.control.kind,
            labels=row.labels,
            valid_from=row.clocks.valid_from,
            valid_until=row.clocks.valid_until,
            signals=Signals.of(hit.signals),
        )

    @classmethod
    def _of_turn(cls, hit: recall.Hit, turn: Turn) -> Self:
        return cls(
            id=hit.unit,
            text=hit.text,
            source=recall.kind_of(turn),
            score=hit.score,
            resource={"kind": "session", "sessionId": turn.session, "turnId": turn.id, "position": turn.seq},
            occurred_at=hit.at,
            source_ref=f"turn:{turn.id}",
            trust=turn.trust,
            origin=turn.origin.value,
            status=turn.status.value,
            speaker=turn.speaker,
            role=turn.role.value,
            chunk_ids=tuple(f"memory_chunk:{chunk}" for chunk in hit.chunk_ids),
            labels=turn.labels,
            signals=Signals.of(hit.signals),
        )


def _resource(row: Row) -> dict[str, Any]:
    """Names by which a client can look the row up again."""
    if isinstance(row, Fact):
        entity = row.entity
        return {"kind": "attribute", "entityType": entity.type.value, "name": entity.name, "key": row.key}
    if isinstance(row, Relation):
        return {
            "kind": "relation",
            "subjectType": row.subject.type.value,
            "subjectName": row.subject.name,
            "label": row.label,
            "objectType": row.object.type.value,
            "objectName": row.object.name,
        }
    assert isinstance(row, Action)
    named = {"actorType": row.actor.type.value, "actorName": row.actor.name}
    if row.object is not None:
        named |= {"objectType": row.object.type.value, "objectName": row.object.name}
    return {"kind": "action", **named}


class QueryTrace(WireOut):
    trace_id: str
    resolution_tier: str
    tier_reason: str
    latency_ms: int
    retrieved_count: int
    top_scores: tuple[float, ...]


_TOP_SCORES: Final = 5


def _tier(found: Recalled) -> str:
    """The tier as it is published: what was asked for by name seeds the ranking, so a direct look-up counts as one."""
    return Tier.ESCALATED.value if found.trace.tier is Tier.ESCALATED else Tier.HYBRID.value


class QueryOut(WireOut):
    """Hits by falling score. `degraded` names what could not answer this time."""

    tier: str
    classification_kind: str
    seed_entities: tuple[str, ...]
    query_ms: int
    hits: tuple[Hit, ...]
    context_hits: tuple[Hit, ...] = ()
    trace: QueryTrace
    degraded: tuple[str, ...] | None = None

    @classmethod
    def of(cls, found: Recalled) -> Self:
        trace = QueryTrace(
            trace_id=found.trace_id,
            resolution_tier=_tier(found),
            tier_reason=found.reason,
            latency_ms=found.took_ms,
            retrieved_count=len(found.hits),
            top_scores=tuple(hit.score for hit in found.hits[:_TOP_SCORES]),
        )
        return cls(
            tier=_tier(found),
            classification_kind=found.trace.classification.value,
            seed_entities=tuple(found.seeds),
            query_ms=found.took_ms,
            hits=tuple(map(Hit.of, found.hits)),
            trace=trace,
            degraded=tuple(found.degraded) or None,
        )


class Offered(WireOut):
    """One memory of a block: what an answer cites, what it is, who stands behind it, and when it happened."""

    id: str
    kind: str
    origin: str
    when: datetime

    @classmethod
    def of(cls, entry: Entry) -> Self:
        return cls(id=entry.item.id, kind=entry.item.kind, origin=entry.origin.value, when=entry.hit.at)


class DroppedOut(WireOut):
    """One memory that answered and does not stand in the block, and why, in one fixed word."""

    id: str
    reason: str


class InfluenceOut(WireOut):
    """How many memories of a block nobody confirmed, and how many came from outside. Above 0, let a person agree
    before a tool does something that lasts."""

    unconfirmed: int = 0
    tainted: int = 0


class ContextOut(WireOut):
    """One block of text, empty when nothing was found; as text it is the block itself.

    `pending` counts the proposals that wait for a decision in what the caller may read. `traceId` names the read,
    `runId` the run it was noted for. `offered`: what stands in the block; `dropped`: what does not; `budgetApplied`:
    the room there was; `tokens`: about as many as the block takes.
    """

    context: str
    pending: int = 0
    tier: str
    query_ms: int
    trace_id: str | None = None
    degraded: tuple[str, ...] | None = None
    offered: tuple[Offered, ...] = ()
    dropped: tuple[DroppedOut, ...] = ()
    budget_applied: BudgetOut | None = None
    influence: InfluenceOut = InfluenceOut()
    tokens: int = 0
    run_id: str | None = None
    settings_version: int = 0

    def __str__(self) -> str:
        return self.context

    @classmethod
    def of(cls, block: Block) -> Self:
        return cls(
            context=block.text,
            pending=block.pending,
            tier=_tier(block.recalled),
            query_ms=block.recalled.took_ms,
            trace_id=block.recalled.trace_id,
            degraded=tuple(block.recalled.degraded) or None,
            offered=tuple(map(Offered.of, block.entries)),
            dropped=tuple(DroppedOut(id=name, reason=why.value) for name, why in block.dropped),
            budget_applied=BudgetOut.of(block.budget),
            influence=InfluenceOut(unconfirmed=block.influence.unconfirmed, tainted=block.influence.tainted),
            tokens=block.tokens,
            run_id=block.run,
            settings_version=block.settings_version,
        )
