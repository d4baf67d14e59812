"""What goes into one prompt: the gates that hold there, and what of the rest the budget has room for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from keeps.core import fence, weights
from keeps.core.access import Caller
from keeps.core.cardinality import is_many_valued
from keeps.core.facts import Category, Fact, Origin, Row, Status
from keeps.core.fence import Note
from keeps.core.kinds import INSTRUCTION, KINDS, NOT_FOLLOWED
from keeps.core.packing import Budget, Item, Packed, Tainted, Unconfirmed, pack, tokens_of
from keeps.core.runs import Candidate, Inclusion, Reason
from keeps.core.scopes import Scope
from keeps.core.sessions import Turn
from keeps.services.gates import PASSAGE, Gates, is_sensitive, kind_in, topics_of
from keeps.services.reading import Hit
from keeps.services.runtime import Context
from keeps.store.rows import ref_of

NOT_CONFIRMED: Final = frozenset({Origin.AUTO_ACCEPTED, Origin.AGENT_INFERRED, Origin.DERIVED, Origin.IMPORTED})
"""Origins behind which no person and nobody's code stands."""

_PEOPLE: Final = frozenset({Origin.USER_SAVED, Origin.ADMIN_SET})
_PLACE: Final = 1e-7
"""What a place further down is worth where scores are equal, so that the order of the search stays: scores have six
digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing that may stand in the prompt, as it would: its line, and why it was looked at. `unconfirmed`: no person
    and nobody's code stands behind it."""

    item: Item
    hit: Hit
    line: str
    reason: Reason
    origin: Origin
    unconfirmed: bool = False


class Prompt(Gates):
    """The gates of a prompt, and what was chosen for it once the search is done.

    They hold for a person who asks about their own memory too: a prompt is read by a model, and whose key it was made
    with does not change who reads it.
    """

    def __init__(self, context: Context, caller: Caller, *, query: str, now: datetime, budget: Budget) -> None:
        super().__init__(context, caller, query=query, now=now, k=max(1, budget.max_memories))
        self._budget = budget
        self._entries: dict[str, Entry] = {}
        self._hidden: frozenset[str] = frozenset()
        self._found: Sequence[Hit] = ()
        self._always: list[Hit] = []
        self.packed = Packed()
        self.refused: list[tuple[Hit, Inclusion]] = []

    def _is_own(self, scope: Scope) -> bool:
        return False

    def refuses(self, row: Row | Turn, text: str, score: float) -> Inclusion | None:
        if row.id in self._hidden:
            return Inclusion.DROPPED_DUPLICATE
        if (why := super().refuses(row, text, score)) is not None:
            return why
        budget = self._budget
        if not _eligible(kind_in(row), budget):
            return Inclusion.DROPPED_KIND
        if not isinstance(row, Turn):
            control = row.control
            if control.taint and budget.allow_tainted is Tainted.NEVER:
                return Inclusion.DROPPED_TAINT
        if is_sensitive(row, text) and not self.on_topic(topics_of(row, text), score, budget):
            return Inclusion.DROPPED_SENSITIVE
        if not self._is_sure(row):
            return Inclusion.DROPPED_UNCONFIRMED
        if budget.max_age_days is not None and _at(row) < self._now - timedelta(days=budget.max_age_days):
            return Inclusion.DROPPED_BUDGET
        return None

    def full(self, hits: Sequence[Hit]) -> bool:
        kinds: Counter[str] = Counter()
        sources: Counter[str] = Counter()
        fit = 0
        for hit in hits:
            kind, source = kind_in(hit.row), source_of(hit.row)
            if kinds[kind] >= self._budget.max_per_kind or (source and sources[source] >= self._budget.max_per_source):
                continue
            kinds[kind] += 1
            if source:
                sources[source] += 1
            fit += 1
        return fit >= self._k

    def choose(self, hits: Sequence[Hit]) -> Sequence[int]:
        self._found = hits
        for place, hit in enumerate(hits):
            self._enter(hit, place)
        for hit in self._always:
            self._enter(hit, len(hits), standing=True)
        wanted = {id_of(hit) for hit in (*hits, *self._always)}
        items = [entry.item for name, entry in self._entries.items() if name in wanted]
        self.packed = pack(items, self._budget, overhead=fence.OVERHEAD)
        chosen = {item.id for item in self.packed.chosen}
        return [place for place, hit in enumerate(hits) if id_of(hit) in chosen]

    def stand(self, hits: Iterable[Hit]) -> None:
        """Choose anew, with what is there whatever is asked: pinned memories, instructions, and guesses."""
        for hit in hits:
            if (why := self.refuses(hit.row, hit.text, hit.score)) is None:
                self._always.append(hit)
            else:
                self.refused.append((hit, why))
        if self._always:
            self.choose(self._found)

    def hide(self, turns: Iterable[str]) -> None:
        """Let no passage of these turns in: they stand in the prompt as they are."""
        self._hidden = frozenset(turns)

    def chosen(self) -> list[Entry]:
        """What stands in the prompt, in the order of the packing."""
        return [self._entries[item.id] for item in self.packed.chosen]

    def left_out(self) -> list[tuple[Entry, Inclusion]]:
        """What had no place in the budget, or stood against something more trusted."""
        return [(self._entries[name], why) for name, why in self.packed.left_out.items()]

    def _is_sure(self, row: Row | Turn) -> bool:
        """True when the row is trusted enough for a prompt, or may stand there as a guess."""
        trust = row.trust if isinstance(row, Turn) else row.control.trust
        budget = self._budget
        if trust >= budget.min_trust and not _waits(row):
            return True
        if kind_in(row) == INSTRUCTION or budget.allow_unconfirmed is Unconfirmed.NEVER:
            return False
        return trust >= budget.min_trust_guess

    def _enter(self, hit: Hit, place: int, *, standing: bool = False) -> None:
        name = id_of(hit)
        known = self._entries.get(name)
        if known is not None and standing:
            return
        score = _faded(hit, self._now) - _PLACE * place
        if known is not None and known.item.score == score:
            return
        self._entries[name] = self._entry(hit, score, standing=standing)

    def _entry(self, hit: Hit, score: float, *, standing: bool) -> Entry:
        row = hit.row
        note = note_of(hit, guess=self._is_guess(row))
        line = fence.json_line(note)
        trust = row.trust if isinstance(row, Turn) else row.control.trust
        item = Item(
            id=note.id,
            kind=note.kind,
            score=score,
            at=hit.at,
            tokens=tokens_of(line + "\n"),
            source=source_of(row),
            pinned=not isinstance(row, Turn) and row.control.pinned,
            guess=self._is_guess(row),
            trust=trust,
            section=fence.INSTRUCTIONS if note.kind == INSTRUCTION else fence.NOTES,
            slot=_slot(row),
        )
        origin = row.origin if isinstance(row, Turn) else row.control.origin
        return Entry(
            item=item,
            hit=hit,
            line=line,
            reason=_reason(hit, standing=standing),
            origin=origin,
            unconfirmed=isinstance(row, Turn) or _waits(row) or origin in NOT_CONFIRMED,
        )

    def _is_guess(self, row: Row | Turn) -> bool:
        trust = row.trust if isinstance(row, Turn) else row.control.trust
        return _waits(row) or trust < self._budget.min_trust


def id_of(hit: Hit) -> str:
    """The name of a hit in a prompt: what an answer cites."""
    row = hit.row
    if isinstance(row, Turn):
        return hit.unit
    if _waits(row):
        return f"proposal:{row.id}"
    return f"{INSTRUCTION}:{row.id}" if _is_told(row) else ref_of(row)


def told(hit: Hit, inclusion: Inclusion, reason: Reason | None = None) -> Candidate:
    """What a run writes down of a hit; its rank is not known yet."""
    row = hit.row
    origin = row.origin if isinstance(row, Turn) else row.control.origin
    return Candidate(
        memory=id_of(hit),
        rank=0,
        reason=reason or _reason(hit, standing=False),
        score=hit.score,
        inclusion=inclusion,
        origin=origin.value,
    )


def note_of(hit: Hit, *, guess: bool = False) -> Note:
    """The hit ready to be rendered. An instruction that asks for more than how to answer is a note."""
    row = hit.row
    if isinstance(row, Turn):
        text = f"{row.speaker or row.role}: {hit.text}"
        return Note(id=id_of(hit), kind=PASSAGE, label=fence.PASSAGE_LABEL, text=text, at=row.known_at)
    kind, label = row.control.kind, fence.label_of(row.control.origin, guess=guess)
    if not _is_told(row):
        told = INSTRUCTION if NOT_FOLLOWED in row.control.flags else kind
        kind, label = fence.told_as(told, label, hit.text)
    return Note(id=id_of(hit), kind=kind, label=label, text=hit.text, at=row.clocks.known_at)


def said_note(turn: Turn) -> Note:
    """A whole turn ready to be rendered."""
    text = f"{turn.speaker or turn.role}: {turn.content}"
    return Note(id=f"turn:{turn.id}", kind=PASSAGE, label=fence.PASSAGE_LABEL, text=text, at=turn.known_at)


def source_of(row: Row | Turn) -> str | None:
    """What a memory came from, as narrowly as it is known: a session, else a document or tool, else an agent.

    None for what a person or an admin saved by hand.
    """
    if isinstance(row, Turn):
        return f"session:{row.session}"
    source = row.source
    if source.session is not None:
        return f"session:{source.session}"
    if source.ref is not None:
        return source.ref
    if row.control.origin in _PEOPLE or row.control.proposed_by is None:
        return None
    return f"agent:{row.control.proposed_by}"


def _is_told(row: Row) -> bool:
    """True for what an admin told the agent: it is no memory, and it may say what it likes."""
    return type(row) is Row


def _eligible(kind: str, budget: Budget) -> bool:
    if budget.kinds is not None:
        return kind in budget.kinds
    known = KINDS.get(kind)
    return known is None or known.prompted


def _waits(row: Row | Turn) -> bool:
    """True for what nobody decided on yet."""
    return not isinstance(row, Turn) and row.control.status is Status.PROPOSED


def _at(row: Row | Turn) -> datetime:
    return row.known_at if isinstance(row, Turn) else row.occurred_at or row.clocks.known_at


def _slot(row: Row | Turn) -> str | None:
    """What a value says something about, where one of two live values must be wrong."""
    if not isinstance(row, Fact) or row.category is Category.CONTEXT or is_many_valued(row.key):
        return None
    return f"{row.scope.id} {row.entity} {row.key}"


def _faded(hit: Hit, now: datetime) -> float:
    """The score of a hit; a kind that fades counts down to half of it the older it is."""
    kind = KINDS.get(kind_in(hit.row))
    if kind is None or not kind.fades:
        return hit.score
    return hit.score * (0.5 + 0.5 * 0.5 ** (weights.age(hit.at, now) / weights.HALF_LIFE))


def _reason(hit: Hit, *, standing: bool) -> Reason:
    row, said = hit.row, hit.signals
    if not isinstance(row, Turn):
        if row.control.kind == INSTRUCTION:
            return Reason.INSTRUCTION
        if row.control.pinned:
            return Reason.PINNED
    if standing:
        return Reason.KEYWORD
    if said.direct:
        return Reason.EXACT_SLOT
    if said.text > 0.0:
        return Reason.KEYWORD
    return Reason.GRAPH if said.graph > 0.0 else Reason.SEMANTIC
