"""Traces of reads: what was asked when, how far the search went, and which rows came of it and why."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

from pydantic import Field
from pydantic_core import to_json

from keeps.core.traces import Classification, Leg, ReadTrace, Tier
from keeps.wire.base import Instant, WireIn, WireOut
from keeps.wire.pages import PageMeta, PageQuery

if TYPE_CHECKING:
    from keeps.services.traces import Shown, Stats, TraceView

TIERS: Final = {Tier.DIRECT: 1, Tier.HYBRID: 3, Tier.ESCALATED: 4}
"""How far a read went, as a number."""

FULL_CONTEXT_TIER: Final = 5
_MAX_WINDOW_HOURS: Final = 24 * 366


class TracesQuery(PageQuery):
    """`ref`: only reads that returned this row: `attribute:<id>`, `turn:<id>`, `attribute:<type>/<name>/<key>` …"""

    ref: Annotated[str, Field(max_length=2048)] | None = None


class TraceStatsQuery(WireIn):
    """A window of time: the last hours, or from `since` on."""

    window_hours: Annotated[int, Field(ge=1, le=_MAX_WINDOW_HOURS)] = 24
    since: Instant | None = None


class TraceRecord(WireOut):
    """One read. `query_text` is empty unless the context keeps it; `retrieved_count` counts its hits."""

    id: str
    query_text: str
    resolution_tier: str
    tier_reason: str
    latency_ms: int
    cached: bool = False
    created_at: datetime
    classification_kind: str | None = None
    mode: str | None = None
    source: str | None = None
    principal: str | None = None
    on_behalf_of: str | None = None
    session_id: str | None = None
    retrieved_count: int = 0
    degraded: tuple[str, ...] = ()

    @classmethod
    def of(cls, trace: ReadTrace) -> Self:
        return cls(**_record(trace))


def _record(trace: ReadTrace) -> dict[str, Any]:
    return {
        "id": trace.id,
        "query_text": trace.query_text,
        "resolution_tier": trace.tier.value,
        "tier_reason": trace.reason,
        "latency_ms": trace.took_ms,
        "created_at": trace.at,
        "classification_kind": trace.classification.value,
        "mode": trace.mode,
        "source": trace.source,
        "principal": trace.principal,
        "on_behalf_of": trace.on_behalf_of,
        "session_id": trace.session,
        "retrieved_count": len(trace.hits),
        "degraded": tuple(trace.degraded),
    }


class LegOut(WireOut):
    """One search of a read. `answered`: false when it was late or failed."""

    name: str
    found: int
    took_ms: float
    weight: float
    answered: bool

    @classmethod
    def of(cls, leg: Leg) -> Self:
        return cls(name=leg.name, found=leg.found, took_ms=leg.took_ms, weight=leg.weight, answered=leg.answered)


class ReturnedOut(WireOut):
    """A row a read weighed. `gone`: it cannot be seen now, erased or moved; then `id` is empty.

    `rank` is 1 for the first hit and 0 for what was not returned; `signals` says by search what spoke for it.
    """

    id: str
    table: str
    label: str | None = None
    rank: int
    score: float
    ref: str | None = None
    reason: str | None = None
    signals: dict[str, float] = Field(default_factory=dict[str, float])
    gone: bool | None = None

    @classmethod
    def of(cls, shown: Shown) -> Self:
        return cls(
            id=shown.unit,
            table=shown.table,
            label=shown.label,
            rank=shown.rank,
            score=shown.score,
            ref=shown.ref,
            reason=shown.reason,
            signals=dict(shown.signals),
            gone=shown.gone or None,
        )


class RetrievalOut(WireOut):
    """The search of a read. `retrieved_ids` and `scores` go together and leave out what is gone."""

    id: str
    mode: str
    tier_entered: int
    tier_reason: str
    retrieved_ids: tuple[str, ...]
    scores: tuple[float, ...]
    latency_ms: int
    created_at: datetime
    returned: tuple[ReturnedOut, ...]

    @classmethod
    def of(cls, view: TraceView) -> Self:
        trace = view.trace
        there = [shown for shown in view.returned if not shown.gone]
        full = trace.classification is Classification.FULL_CONTEXT
        return cls(
            id=trace.id,
            mode=trace.mode,
            tier_entered=FULL_CONTEXT_TIER if full else TIERS[trace.tier],
            tier_reason=trace.reason,
            retrieved_ids=tuple(shown.unit for shown in there),
            scores=tuple(shown.score for shown in there),
            latency_ms=trace.took_ms,
            created_at=trace.at,
            returned=tuple(map(ReturnedOut.of, view.returned)),
        )


class TraceOut(TraceRecord):
    """One read in full. `near_misses`: the best of what was weighed and not returned. `seed_entities`: how many
    entities the question named. `key_id`: only for who manages everything."""

    parent: dict[str, Any] | None = None
    retrievals: tuple[RetrievalOut, ...] = ()
    seed_entities: int = 0
    k: int | None = None
    key_id: str | None = None
    legs: tuple[LegOut, ...] = ()
    near_misses: tuple[ReturnedOut, ...] = ()

    @classmethod
    def seen(cls, view: TraceView) -> Self:
        """The trace as its reader sees it."""
        trace = view.trace
        return cls(
            **_record(trace),
            retrievals=(RetrievalOut.of(view),),
            seed_entities=trace.entities,
            k=trace.k,
            key_id=trace.key_id if view.manages else None,
            legs=tuple(map(LegOut.of, trace.legs)),
            near_misses=tuple(map(ReturnedOut.of, view.near_misses)),
        )

    def to_json(self) -> bytes:
        """As other replies, but that a read without a parent says so."""
        return to_json({"parent": None} | self.model_dump(mode="json", exclude_none=True))


class TracesOut(WireOut):
    """Reads, newest first."""

    traces: list[TraceRecord]
    page: PageMeta


class SourceKindCount(WireOut):
    kind: str
    count: int


class Contradiction(WireOut):
    """How often what was written spoke against what was there: no traces of writes are kept, so it is not counted."""

    reconciliations: int = 0
    contradictions: int = 0
    contradiction_rate: float = 0.0


class Supersession(WireOut):
    """How often values replaced others: not counted either."""

    supersession_events: int = 0
    entities_churned: int = 0
    churn_per_entity: float = 0.0


class RetrievalSizes(WireOut):
    """How many rows the searches of a read found, each search counted for itself."""

    traces: int
    avg_candidate_set: float
    max_candidate_set: int


class TraceStatsOut(WireOut):
    """Numbers about reads, all zero for who does not manage everything. What this server does not do yet is zero."""

    total_queries: int = 0
    cache_hits: int = 0
    avg_latency_ms: float = 0.0
    tier_counts: dict[str, int]
    response_traces_total: int = 0
    response_traces_cached: int = 0
    cache_hit_rate: float = 0.0
    window_hours: int
    source_kind_distribution: tuple[SourceKindCount, ...] = ()
    contradiction: Contradiction = Field(default_factory=Contradiction)
    supersession: Supersession = Field(default_factory=Supersession)
    retrieval: RetrievalSizes

    @classmethod
    def of(cls, stats: Stats) -> Self:
        total = sum(tally.count for tally in stats.tallies)
        tiers = dict.fromkeys((*(tier.value for tier in Tier), "fullContext"), 0)
        for tally in stats.tallies:
            full = tally.classification is Classification.FULL_CONTEXT
            tiers["fullContext" if full else tally.tier.value] += tally.count
        return cls(
            total_queries=total,
            avg_latency_ms=round(sum(tally.took_ms for tally in stats.tallies) / max(1, total), 3),
            tier_counts=tiers,
            window_hours=stats.window_hours,
            retrieval=RetrievalSizes(
                traces=total,
                avg_candidate_set=round(sum(tally.candidates for tally in stats.tallies) / max(1, total), 3),
                max_candidate_set=max((tally.most_candidates for tally in stats.tallies), default=0),
            ),
        )
