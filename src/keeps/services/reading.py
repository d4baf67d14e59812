"""What the legs found, read out of the record and checked again: hits in their order, and what came close."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from keeps.core import fusion, weights
from keeps.core.duplicates import Comparison, Said
from keeps.core.facts import Action, Fact, Pillar, Relation, Row
from keeps.core.fusion import SMALL_POOL, Fused, Signals
from keeps.core.runs import Inclusion
from keeps.core.sessions import Chunk, Turn
from keeps.core.traces import Weighed
from keeps.core.validity import answers
from keeps.services import index
from keeps.services.gates import Gates
from keeps.services.question import Mark, Question
from keeps.services.runtime import Context
from keeps.store import facts as store_facts
from keeps.store import hits as store_hits
from keeps.store import sessions as store_sessions

NEAR_MISSES: Final = 10
"""How many of those that were weighed and not returned a trace names."""

_FIRST_PAGE: Final = 16
"""Rows read out at first, at least: a row costs more to read than to find."""

_NOTE: Final = "note"
_SAME_SHARE: Final = 0.5
_SHARE_APART: Final = 0.05
_ALIKE: Final = 0.04
"""Notes answer alike when each holds at least half of the question, as much as the other, and their evidence is no
further apart than this, in units of cosine."""

_LARGEST_PAGE: Final = 128
"""Rows read out at once, at most: each further page is twice as large as the one before, up to this."""

MOST_ROWS: Final = 512
"""Rows that may be shown, at most, among which an answer looks for `k` that differ."""

_CROWDED_ROWS: Final = 128
"""Rows read out, at most, where enough were found and limits keep some of them out: others may be of other kinds."""

_AT_ONCE_CHARS: Final = 64 * 1024
"""Texts of more characters together are compared in a thread: it would hold up other questions."""

# Why a row was, or was not, returned.
DIRECT: Final = "slot_named"
ABOUT: Final = "about_the_entity"
RANKED: Final = "ranked"
BELOW_K: Final = "below_k"
BELOW_FLOOR: Final = "below_floor"
DUPLICATE: Final = "duplicate"
NOT_CURRENT: Final = "not_current"
NOT_THEN: Final = "not_at_that_time"
WITHHELD: Final = "withheld"
OTHER_LABELS: Final = "other_labels"
OTHER_SUBJECT: Final = "other_subject"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One memory that answers. `score`: how likely it answers, 0..1. `unit`: the passage of a turn.

    `signals`: what each leg said of it."""

    row: Row | Turn
    unit: str
    text: str
    score: float
    chunk_ids: tuple[str, ...] = ()
    signals: Signals = field(default_factory=Signals)

    @property
    def at(self) -> datetime:
        """When it happened, else when it became known."""
        if isinstance(self.row, Turn):
            return self.row.known_at
        return self.row.occurred_at or self.row.clocks.known_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A row that may answer, before it is read. `order`: its place among the others, `score`: 0..1."""

    ref: str
    mark: Mark
    order: float
    score: float

    @property
    def leads(self) -> bool:
        """True when it is what was asked for by name: it comes first, and no floor holds it back."""
        return self.mark.signals.direct or self.mark.lead > 0.0

    @property
    def rank(self) -> tuple[bool, float, float, float]:
        """The larger the better."""
        return self.mark.signals.direct, self.mark.lead, self.order, self.score


@dataclass(frozen=True, slots=True)
class LeftOut:
    """One that answers and was left out, and why."""

    hit: Hit
    why: Inclusion


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Hits by falling score and why they are there; what came close; the best absolute score of what may be shown.

    `left_out`: what a gate, the floor or one that says the same kept out. `crowded`: there are fewer than asked for,
    and rows were left out that say the same as others; `cut`: further rows were not read, since so many had been."""

    hits: Sequence[Hit] = field(default_factory=list[Hit])
    left_out: Sequence[LeftOut] = ()
    reasons: Sequence[Weighed] = ()
    near_misses: Sequence[Weighed] = ()
    best: float = 0.0
    crowded: bool = False
    cut: bool = False

    @property
    def direct(self) -> bool:
        """True when a slot that the question names is among the hits."""
        return any(one.reason == DIRECT for one in self.reasons)


def candidates(marks: Mapping[str, Mark], fused: Iterable[Fused]) -> list[Candidate]:
    """What was found, best first: what was asked for by name, then by the order of the whole."""
    found = [Candidate(ref=one.ref, mark=marks[one.ref], order=one.order, score=one.score) for one in fused]
    return sorted(found, key=lambda one: (one.rank, one.ref), reverse=True)


@dataclass(frozen=True, slots=True)
class _Read:
    candidate: Candidate
    hit: Hit
    place: tuple[bool, float, float, datetime, str]


class Reader:
    """Reads for one question. What was read once is not read again for its second look.

    Rows that a gate keeps out take no place among the `k`."""

    def __init__(
        self, context: Context, question: Question, gates: Gates, *, k: int, floor: float, duplicates_too: bool
    ) -> None:
        self._context = context
        self._question = question
        self._gates = gates
        self._k = k
        self._floor = floor
        self._duplicates_too = duplicates_too
        self._rows: dict[str, Row | Turn] = {}
        self._chunks: dict[str, list[Chunk]] = {}
        self._asked: set[str] = set()
        self._said: dict[str, Said] = {}
        self._left_out: list[LeftOut] = []
        self._comparison = Comparison()

    async def answer(self, found: Sequence[Candidate]) -> Answer:
        """The best `k` of the candidates, given best first; every one read from the record and checked."""
        worth = [one for one in found if one.leads or one.score >= self._floor]
        below = [one for one in found if not one.leads and one.score < self._floor][:NEAR_MISSES]
        absolute = len(found) < SMALL_POOL
        page, start = max(_FIRST_PAGE, 2 * self._k), 0
        read: list[_Read] = []
        missed: list[Weighed] = []
        kept: list[_Read] = []
        self._left_out = []
        while start == 0 or (start < len(worth) and self._lacks(kept) and len(read) < MOST_ROWS):
            part = worth[start : start + min(page, MOST_ROWS - len(read))]
            await self._fetch([*part, *below] if start == 0 else part)
            for one in part:
                self._sort_in(one, read, missed, absolute=absolute)
            read.sort(key=lambda one: one.place, reverse=True)
            kept = await self._unrepeated(_newest_first(_current_first(read)))
            page, start = min(2 * page, _LARGEST_PAGE), start + max(1, len(part))
        ranked = _falling([one.hit for one in kept])
        places = self._gates.choose(ranked)
        shown, hits = [kept[place] for place in places], [ranked[place] for place in places]
        chosen, held = set(places), {id(one) for one in kept}
        rest = [one for place, one in enumerate(kept) if place not in chosen]
        close = [_weighed(one.candidate, one.hit, 0, BELOW_K) for one in rest]
        close += [_weighed(one.candidate, one.hit, 0, DUPLICATE) for one in read if id(one) not in held]
        for one in below:
            self._sort_in(one, [], missed, absolute=absolute, otherwise=BELOW_FLOOR)
        self._left_out += [LeftOut(one.hit, Inclusion.DROPPED_DUPLICATE) for one in read if id(one) not in held]
        close = sorted(close, key=lambda miss: -miss.score) + missed
        return Answer(
            hits=hits,
            left_out=self._left_out,
            reasons=[
                _weighed(one.candidate, hit, rank, _why(one.candidate))
                for rank, (one, hit) in enumerate(zip(shown, hits, strict=True), 1)
            ],
            near_misses=close[:NEAR_MISSES],
            best=max((one.candidate.score for one in read), default=0.0),
            crowded=len(kept) < min(self._k, len(read)),
            cut=start < len(worth) and len(kept) < self._k,
        )

    def _lacks(self, kept: Sequence[_Read]) -> bool:
        """True when more must be read to choose from."""
        if len(kept) < self._k:
            return True
        return len(kept) < _CROWDED_ROWS and not self._gates.full([one.hit for one in kept])

    def _sort_in(
        self, one: Candidate, read: list[_Read], missed: list[Weighed], *, absolute: bool, otherwise: str = ""
    ) -> None:
        """Put a candidate where it belongs; one that is outside the region, or no longer there, nowhere."""
        row = self._rows.get(one.ref)
        if row is None:
            return
        hit = self._hit(one, row)
        reason = self._refused(row)
        if not reason and (why := self._gates.refuses(row, hit.text, hit.score)) is not None:
            self._left_out.append(LeftOut(hit, why))
            reason = WITHHELD
        elif not reason and otherwise:
            self._left_out.append(LeftOut(hit, Inclusion.DROPPED_SCORE))
        if reason := reason or otherwise:
            missed.append(_weighed(one, hit, 0, reason))
            return
        moved = weights.moved(one.order, self._boost(row, hit), absolute=absolute)
        read.append(_Read(one, hit, (one.mark.signals.direct, one.mark.lead, moved, hit.at, hit.unit)))

    def _boost(self, row: Row | Turn, hit: Hit) -> float:
        when = self._question.when
        at = when.as_of or when.at_instant or self._question.now
        age = weights.age(hit.at, at)
        if isinstance(row, Turn):
            return weights.boost(trust=row.trust, importance=0.5, confidence=0.5, age=age)
        return weights.boost(trust=row.control.trust, importance=row.importance, confidence=row.confidence, age=age)

    async def _unrepeated(self, ranked: Sequence[_Read]) -> list[_Read]:
        """Of rows that say the same the best only."""
        if self._duplicates_too:
            return list(ranked)
        new = {one.hit.unit: _said(one.hit) for one in ranked if one.hit.unit not in self._said}
        self._said.update(new)
        said = [self._said[one.hit.unit] for one in ranked]
        if sum(len(one.text) for one in new.values()) > _AT_ONCE_CHARS:
            places = await asyncio.to_thread(self._comparison.survivors, said)
        else:
            places = self._comparison.survivors(said)
        return [ranked[place] for place in places]

    async def _fetch(self, wanted: Sequence[Candidate]) -> None:
        context = self._context
        refs = [one.ref for one in wanted if one.ref not in self._asked]
        self._asked.update(refs)
        found = await store_hits.by_refs(context.db, context.sets, refs, self._question.sets)
        self._rows.update(found)
        turns = [row for row in found.values() if isinstance(row, Turn)]
        self._chunks.update(await store_sessions.chunks_of(context.db, turns))

    def _hit(self, one: Candidate, row: Row | Turn) -> Hit:
        if isinstance(row, Turn):
            return _passage(one, row, self._chunks.get(row.id, ()))
        return Hit(row=row, unit=one.mark.unit, text=row.summary, score=one.score, signals=one.mark.signals)

    def _refused(self, row: Row | Turn) -> str:
        """Why the row must not be shown; empty when it may."""
        if not self._question.labels <= set(row.labels):
            return OTHER_LABELS
        return self._turn_refused(row) if isinstance(row, Turn) else self._row_refused(row)

    def _turn_refused(self, turn: Turn) -> str:
        when = self._question.when
        if not turn.active:
            return NOT_CURRENT
        late = (when.at_instant is not None and turn.recorded_at > when.at_instant) or (
            when.as_of is not None and turn.known_at > when.as_of
        )
        within = (when.valid_from is None or turn.known_at >= when.valid_from) and (
            when.valid_until is None or turn.known_at <= when.valid_until
        )
        return NOT_THEN if late or not within else ""

    def _row_refused(self, row: Row) -> str:
        question = self._question
        if question.subject is not None and question.subject not in store_facts.entities_of(row):
            return OTHER_SUBJECT
        if row.control.expires_at is not None and row.control.expires_at <= question.now:
            return WITHHELD
        if answers(row, question.when, question.now):
            return ""
        return NOT_CURRENT if question.when.is_now else NOT_THEN


def _passage(one: Candidate, turn: Turn, chunks: Sequence[Chunk]) -> Hit:
    """The passage of a turn that answers."""
    best = next((chunk for chunk in chunks if f"memory_chunk:{chunk.id}" == one.mark.unit), None)
    return Hit(
        row=turn,
        unit=one.mark.unit,
        text=turn.content[best.start : best.end] if best else turn.content,
        score=one.score,
        chunk_ids=tuple(chunk.id for chunk in chunks),
        signals=one.mark.signals,
    )


def _said(hit: Hit) -> Said:
    return Said(hit.text, voice=index.voice_of(hit.row), fact=not isinstance(hit.row, Turn))


def _current_first(ranked: Sequence[_Read]) -> list[_Read]:
    """Of the values of one slot the current one takes the best of their places, whatever the legs say of them."""
    slots: dict[tuple[object, ...], list[int]] = {}
    for place, one in enumerate(ranked):
        if isinstance(one.hit.row, Fact):
            row = one.hit.row
            slots.setdefault((row.entity, row.key, row.scope.id), []).append(place)
    return _sorted_within(ranked, slots.values(), _standing)


def _newest_first(ranked: Sequence[_Read]) -> list[_Read]:
    """Of notes of one entity that answer equally well the newest takes the best of their places: it may correct the
    others, and nothing else says so."""
    groups: list[list[int]] = []
    last: dict[tuple[object, ...], list[int]] = {}
    for place, one in enumerate(ranked):
        row, said = one.hit.row, one.candidate.mark.signals
        if not isinstance(row, Fact) or row.control.kind != _NOTE or said.share < _SAME_SHARE:
            continue
        about = (row.entity, row.scope.id, one.place[:2])
        places = last.get(about)
        if places is None or not _answer_alike(ranked[places[0]].candidate, one.candidate):
            places = last[about] = []
            groups.append(places)
        places.append(place)
    return _sorted_within(ranked, groups, lambda note: note.hit.at)


def _sorted_within(
    ranked: Sequence[_Read], groups: Iterable[Sequence[int]], key: Callable[[_Read], Any]
) -> list[_Read]:
    """The rows with those of each group, given by their places, by falling `key` in these same places."""
    ordered = list(ranked)
    for places in groups:
        best = sorted((ranked[place] for place in places), key=key, reverse=True)
        for place, one in zip(places, best, strict=True):
            ordered[place] = one
    return ordered


def _answer_alike(one: Candidate, other: Candidate) -> bool:
    """True when two candidates hold as much of the question, and what speaks for them is as good as equal."""
    said, again = one.mark.signals, other.mark.signals
    return abs(said.share - again.share) < _SHARE_APART and fusion.apart(one.score, other.score) < _ALIKE


def _standing(one: _Read) -> tuple[bool, bool, float, datetime, str]:
    """How much a value of a slot stands for it: open before closed, curated before said, then surer, then newer."""
    row = one.hit.row
    assert isinstance(row, Fact)
    clocks = row.clocks
    is_open = row.superseded_by is None and clocks.close_known_at is None
    sure = row.confidence if is_open else 0.0
    return is_open, row.source.pillar is Pillar.AUTHORITATIVE, sure, clocks.known_at, row.id


def _falling(hits: Sequence[Hit]) -> list[Hit]:
    best = 1.0
    falling: list[Hit] = []
    for hit in hits:
        best = min(best, hit.score)
        falling.append(replace(hit, score=round(max(0.0, best), 6)))
    return falling


def _why(one: Candidate) -> str:
    if one.mark.signals.direct:
        return DIRECT
    return ABOUT if one.mark.lead > 0.0 else RANKED


def _weighed(one: Candidate, hit: Hit, rank: int, reason: str) -> Weighed:
    said = one.mark.signals
    signals = {
        name: round(value, 6)
        for name, value in (("text", said.text), ("share", said.share), ("cosine", said.cosine), ("graph", said.graph))
        if value
    }
    return Weighed(unit=hit.unit, row=one.ref, rank=rank, score=round(hit.score, 6), reason=reason, signals=signals)


def kind_of(row: Row | Turn) -> str:
    """The kind of a hit as clients name it."""
    if isinstance(row, Turn):
        return "memory_chunk"
    return {Fact: "attribute", Relation: "attribute", Action: "action"}[type(row)]  # type: ignore[index]
