"""The inbox on the wire: what waits for a person, and what they decide."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import Field, model_validator

from keeps.core.facts import Fact, Status
from keeps.core.inbox import Choice, Rate, because, choices_of, one_by_one, words_of
from keeps.core.kinds import is_name
from keeps.core.text import reveal
from keeps.wire.base import StrictIn, WireOut, bare_id, example
from keeps.wire.late import Late
from keeps.wire.pages import PageMeta, PageQuery
from keeps.wire.problems import problem_of

if TYPE_CHECKING:
    from keeps.services import inbox, promote
    from keeps.services.inbox import Decision, Inbox, Item, Settled
    from keeps.services.promote import Promoted, Promotion
else:
    inbox = Late("keeps.services.inbox")
    promote = Late("keeps.services.promote")

MAX_DECISIONS = 100


class InboxQuery(PageQuery):
    """Which of what waits: `held` true for what is held back alone, false for the rest."""

    held: bool | None = None


class ReasonOut(WireOut):
    """A rule that holds something back, by its name and in words."""

    rule: str
    text: str


class SourceOut(WireOut):
    """Where it came from. `sentence`: what was said, as far as it is still there; `deleted`: it is not any more."""

    kind: str
    ref: str | None = None
    session: str | None = None
    sentence: str | None = None
    deleted: bool = False


class ConflictOut(WireOut):
    """What is saved and would be replaced."""

    id: str
    text: str
    since: datetime


class InboxItemOut(WireOut):
    """One thing that waits. `ids`: every proposal of it, the newest first, whose id is `id`; `times` counts them.

    `text` is its sentence, `value` what of it an edit replaces. `why` is one fixed word and `because` says it.
    `oneByOne`: it may not be decided on together with others. Of what is held back, `text` shows hidden characters as
    their codes.
    """

    id: str
    ids: tuple[str, ...]
    rev: int
    status: str
    kind: str
    text: str
    value: str | None = None
    why: str
    because: str
    reasons: tuple[ReasonOut, ...] = ()
    proposed_by: tuple[str, ...]
    at: datetime
    ends_at: datetime | None = None
    times: int
    asked: bool | None = None
    sensitivity: str
    topics: tuple[str, ...] = ()
    taint: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    scopes: list[list[str]]
    source: SourceOut
    conflict: ConflictOut | None = None
    choices: tuple[str, ...]
    one_by_one: bool

    @classmethod
    def of(cls, item: Item) -> Self:
        found, row = item.waiting.newest, item.row
        held = found.status is Status.QUARANTINED
        conflict = item.conflict
        return cls(
            id=found.id,
            ids=tuple(each.id for each in item.waiting.all),
            rev=found.rev,
            status=found.status.value,
            kind=found.kind,
            text=reveal(row.summary) if held else row.summary,
            value=row.value if isinstance(row, Fact) and not held else None,
            why=found.reason,
            because=because(found.reason),
            reasons=tuple(ReasonOut(rule=name, text=words_of(name)) for name in found.reasons),
            proposed_by=item.waiting.agents,
            at=found.created_at,
            ends_at=found.ends_at,
            times=item.waiting.times,
            asked=found.asked or None,
            sensitivity=row.control.sensitivity,
            topics=tuple(sorted(row.control.topics)),
            taint=tuple(sorted(row.control.taint)),
            flags=tuple(sorted(row.control.flags)),
            scopes=item.scope.to_wire(),
            source=SourceOut(
                kind=row.source.kind,
                ref=row.source.ref,
                session=row.source.session,
                sentence=item.sentence,
                deleted=item.deleted,
            ),
            conflict=None
            if conflict is None
            else ConflictOut(id=conflict.id, text=conflict.summary, since=conflict.clocks.known_at),
            choices=tuple(choice.value for choice in choices_of(found)),
            one_by_one=one_by_one(found),
        )


class CountsOut(WireOut):
    """How many proposals wait for this caller, those that are held back apart; `elsewhere`: of others, to an admin."""

    waiting: int
    held: int
    elsewhere: int | None = None


class RateOut(WireOut):
    """What became of an agent's proposals. `share`: `kept` of `decided`, 0..1; absent before anything was decided."""

    agent: str
    kept: int
    decided: int
    expired: int
    waiting: int
    share: float | None = None

    @classmethod
    def of(cls, rate: Rate) -> Self:
        return cls(
            agent=rate.agent,
            kept=rate.kept,
            decided=rate.decided,
            expired=rate.expired,
            waiting=rate.waiting,
            share=rate.share,
        )


class InboxOut(WireOut):
    """What waits, newest first, each thing once; how much; and what became of what each agent proposed."""

    items: list[InboxItemOut]
    counts: CountsOut
    rates: list[RateOut]
    page: PageMeta

    @classmethod
    def of(cls, found: Inbox, page: PageMeta) -> Self:
        return cls(
            items=[InboxItemOut.of(item) for item in found.page.rows],
            counts=CountsOut(waiting=found.waiting, held=found.held, elsewhere=found.elsewhere),
            rates=[RateOut.of(rate) for rate in found.rates],
            page=page,
        )


class DecisionIn(StrictIn):
    """What is decided about one thing. `text`: its new words, with `edit` alone. `rev`: it is decided only as it was
    seen."""

    id: Annotated[str, Field(min_length=1, max_length=200)]
    decision: Choice
    text: str | None = None
    rev: Annotated[int, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.text is not None) != (self.decision is Choice.EDIT):
            raise ValueError("give a text with edit, and with nothing else")
        return self

    def to_core(self) -> Decision:
        """The decision this is."""
        id_ = bare_id(self.id, "proposal", "memory", "attribute") or self.id
        return inbox.Decision(id=id_, choice=self.decision, text=self.text, rev=self.rev)


class DecideIn(StrictIn):
    """Decisions, each about another thing, at most 100."""

    model_config = example(decisions=[{"id": "3v9c0k2m7x1q8d4f6h5j", "decision": "keep"}])

    decisions: Annotated[tuple[DecisionIn, ...], Field(min_length=1, max_length=MAX_DECISIONS)]

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        if len({decision.id for decision in self.decisions}) < len(self.decisions):
            raise ValueError("one thing is decided on twice: name each once")
        return self

    def to_core(self) -> tuple[Decision, ...]:
        """The decisions."""
        return tuple(decision.to_core() for decision in self.decisions)


class SettledOut(WireOut):
    """What came of one decision: the `memory` it led to and where that stands now, or the `error` that kept it from
    being done, by type and in words."""

    id: str
    decision: str
    status: str | None = None
    memory: str | None = None
    error: str | None = None
    detail: str | None = None

    @classmethod
    def of(cls, settled: Settled) -> Self:
        memory, error = settled.memory, settled.error
        return cls(
            id=settled.decision.id,
            decision=settled.decision.choice.value,
            status=memory.status.value if memory is not None else None,
            memory=memory.id if memory is not None else None,
            error=problem_of(error).slug if error is not None else None,
            detail=error.message if error is not None else None,
        )


class DecidedOut(WireOut):
    """What came of each decision, in their order; `waiting` is what is left."""

    decided: list[SettledOut]
    waiting: int


class ReconsiderIn(StrictIn):
    """`dryRun` only counts."""

    model_config = example(dryRun=True)

    dry_run: bool = False


class ReconsideredOut(WireOut):
    """How many memories went back to be asked about, or would."""

    moved: int


class WebhookOut(WireOut):
    """What messages about proposals are signed with."""

    key: str


class PromoteIn(StrictIn):
    """A sentence of what was said, to be remembered. `text`: an exact part of it; all of it unless given. `slot`: what
    it is about, so that a new value replaces the old one."""

    model_config = example(turnId="3v9c0k2m7x1q8d4f6h5j", text="I work nights this week.", kind="note")

    turn_id: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    chunk_id: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    text: str | None = None
    kind: str = "note"
    slot: str | None = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.turn_id is None) == (self.chunk_id is None):
            raise ValueError("say where the sentence stands: turnId or chunkId")
        if not is_name(self.kind):
            raise ValueError("kind is note, preference, topic, insight, fact, goal or event")
        return self

    def to_core(self) -> Promotion:
        """The sentence this names."""
        return promote.Promotion(
            turn=bare_id(self.turn_id, "turn"),
            chunk=bare_id(self.chunk_id, "memory_chunk"),
            text=self.text,
            kind=self.kind,
            slot=self.slot,
        )


class SpanOut(WireOut):
    """Characters `start` to `end` of a turn."""

    turn: str
    start: int
    end: int


class PromotedOut(WireOut):
    """What is remembered now, and where it was said. `ref` leads to it in `/inspect`."""

    id: str
    ref: str
    text: str
    kind: str
    source: SpanOut

    @classmethod
    def of(cls, done: Promoted) -> Self:
        return cls(
            id=done.row.id,
            ref=done.ref,
            text=done.row.summary,
            kind=done.row.control.kind,
            source=SpanOut(turn=f"turn:{done.turn}", start=done.start, end=done.end),
        )
