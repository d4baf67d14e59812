"""Recall: legs find ids, the record decides what may be shown, and only then is anything read out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TypeVar

from keeps.core import access, words
from keeps.core.access import Caller, Verb
from keeps.core.entities import EntityRef
from keeps.core.errors import Invalid
from keeps.core.facts import Action, Fact, Relation, Row
from keeps.core.modes import Include, Mode
from keeps.core.scopes import Lens
from keeps.core.sessions import Chunk, Role, Turn
from keeps.core.text import check_bytes, clean, fold
from keeps.core.validity import NOW, When, answers, offered
from keeps.finder.base import Found, Kind, Name
from keeps.finder.local import stemmer
from keeps.services.runtime import Context, Runtime, new_id
from keeps.store import facts as store_facts
from keeps.store import hits as store_hits
from keeps.store import sessions as store_sessions
from keeps.store.rows import ref_of, stored_ref

MAX_K: Final = 50
MAX_QUERY_BYTES: Final = 64 * 1024
DEFAULT_K: Final = 10
POOL: Final = 256
"""How many candidates a leg may name."""

DEEP_POOL: Final = 16 * POOL
"""The same for a question that narrows what was found by time or subject: the record decides that, not the leg."""

LEG_TIMEOUT_S: Final = 3.0
"""How long a leg may take before the others answer without it, seconds."""

ASSISTANT_WEIGHT: Final = 0.8
"""What an assistant said weighs this much of what a person said, at equal relevance."""

_FIRST_PAGE: Final = 16
"""Rows read out at first, at least: a row costs more to read than to find."""

_MAX_SLOTS: Final = 16
"""Keys of entities that one question can name; further ones are left to the words."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """A question. `k` hits at most, 1..50; `lens` narrows what the caller may see; `labels` must all be there."""

    query: str
    k: int = DEFAULT_K
    mode: Mode = Mode.HYBRID
    include: frozenset[Include] = frozenset(Include)
    when: When = NOW
    labels: frozenset[str] = frozenset()
    lens: Lens = field(default_factory=Lens)
    session: str | None = None
    include_duplicates: bool = False
    subject: EntityRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One memory that answers. `score`: how much of the question it holds, 0..1. `unit`: the passage of a turn."""

    row: Row | Turn
    unit: str
    text: str
    score: float
    chunk_ids: tuple[str, ...] = ()

    @property
    def at(self) -> datetime:
        """When it happened, else when it became known."""
        if isinstance(self.row, Turn):
            return self.row.known_at
        return self.row.occurred_at or self.row.clocks.known_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """The answer: hits by falling score, and how they were found. `degraded` names legs that did not answer."""

    hits: Sequence[Hit]
    trace_id: str
    took_ms: int
    seeds: Sequence[str] = ()
    direct: bool = False
    reason: str = ""
    degraded: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class _Candidate:
    ref: str
    unit: str
    rank: float
    share: float
    direct: bool = False


async def recall(rt: Runtime, context: Context, caller: Caller, request: Recall) -> Recalled:
    """What the caller may see that answers the question; nothing readable gives no hits and no error.

    Raises:
        Invalid: an empty question, or `k` above 50.
        TooLarge: a question of more than 64 KiB.
        Forbidden: a strict key with a lens outside its region.
    """
    started = time.perf_counter()
    check_bytes(request.query, limit_bytes=MAX_QUERY_BYTES)
    query = clean(request.query).text
    if not query:
        raise Invalid("query is empty: ask something")
    if not 1 <= request.k <= MAX_K:
        raise Invalid(f"k must be 1 to {MAX_K}")
    sets = readable_sets(context, caller, request.lens)
    search = _Search(rt, context, request, query, sets)
    hits = await search.run() if sets else []
    return Recalled(
        hits=hits,
        trace_id=new_id(),
        took_ms=round((time.perf_counter() - started) * 1000),
        seeds=search.seeds,
        direct=search.direct,
        reason=search.reason(),
        degraded=search.degraded,
    )


def readable_sets(context: Context, caller: Caller, lens: Lens) -> frozenset[str]:
    """The scope sets a read may touch: the caller's region first, then the lens. Raises: Forbidden for strict keys."""
    region = caller.region(Verb.MEMORY_READ)
    if lens and caller.strict:
        access.check_lens(lens, region)
    readable = context.sets.readable(region)
    if not lens:
        return readable
    return frozenset(s for s in readable if lens.keeps(context.sets[s], region))


class _Search:
    """One question: runs the legs, joins what they found, and reads it out of the record."""

    def __init__(self, rt: Runtime, context: Context, request: Recall, query: str, sets: frozenset[str]) -> None:
        self._rt = rt
        self._context = context
        self._request = request
        self._query = query
        self._sets = sets
        self._now = rt.clock()
        self.seeds: list[str] = []
        self.direct = False
        self.degraded: list[str] = []

    async def run(self) -> list[Hit]:
        request = self._request
        wants_text = request.mode in (Mode.HYBRID, Mode.BM25)
        wants_exact = request.mode in (Mode.HYBRID, Mode.GRAPH) and Include.FACTS in request.include
        if request.mode is Mode.VECTOR:
            self.degraded.append("vector")
        found, exact = await asyncio.gather(
            self._leg("text", self._text_leg, wanted=wants_text),
            self._leg("exact", self._exact_leg, wanted=wants_exact),
        )
        return await self._read_out(_joined(found or [], exact or []))

    def reason(self) -> str:
        """Why these hits, in a few words."""
        if self.direct:
            return "an entity and one of its keys are named in the question"
        return "ranked by the words of the question"

    async def _leg(self, name: str, leg: Callable[[], Awaitable[T]], *, wanted: bool) -> T | None:
        """What a leg found; a leg that is late or fails is noted, and the others answer."""
        if not wanted:
            return None
        try:
            return await asyncio.wait_for(leg(), LEG_TIMEOUT_S)
        except Exception:  # noqa: BLE001 an edge: a failed leg is a note in the answer, never an error of the question
            self.degraded.append(name)
            return None

    async def _text_leg(self) -> list[Found]:
        kinds: set[Kind] = set()
        if Include.FACTS in self._request.include:
            kinds.add("fact")
        if Include.PASSAGES in self._request.include:
            kinds.add("passage")
        return await self._context.finder.find(
            self._query,
            self._sets,
            kinds=kinds,
            labels=self._request.labels,
            live_only=self._request.when.is_now,
            limit=POOL if self._request.when.is_now and self._request.subject is None else DEEP_POOL,
        )

    async def _exact_leg(self) -> list[_Candidate]:
        """Facts of entities the question names, those first whose key it names too."""
        names = await self._context.finder.names_in(self._query, self._sets)
        self.seeds = list(dict.fromkeys(name.name for name in names))
        if not names:
            return []
        stem = stemmer()
        asked = set(words.question(self._query, stem))
        db, sets = self._context.db, self._context.sets
        # An entity may have very many facts: only those of keys that the question names are read.
        entities = [stored_ref(entity) for entity in dict.fromkeys(name.entity for name in names)]
        slots = [
            (entity, key)
            for entity, key in await store_facts.keys_of(db, entities, self._sets)
            if (said := _key_words(key, stem)) and said <= asked
        ]
        slots.sort(key=lambda slot: (entities.index(slot[0]), slot[1]))
        read = (store_facts.versions(db, sets, entity, key, self._sets) for entity, key in slots[:_MAX_SLOTS])
        rows = [row for part in await asyncio.gather(*read) for row in part]
        candidates = _slots(rows, asked, names, self._request.when, self._now)
        self.direct = any(candidate.direct for candidate in candidates)
        return candidates

    async def _read_out(self, candidates: Sequence[_Candidate]) -> list[Hit]:
        """Hits in order until there are `k`: every one read from the record and checked again at this moment."""
        hits: list[Hit] = []
        seen: set[tuple[str, str]] = set()
        ranked: list[tuple[float, Hit]] = []
        page_size = max(_FIRST_PAGE, 2 * self._request.k)
        for start in range(0, len(candidates), page_size):
            page = candidates[start : start + page_size]
            read = await self._read(page)
            weighed = [
                (_weight(candidate, read[candidate.ref]), read[candidate.ref])
                for candidate in page
                if candidate.ref in read
            ]
            ranked += [pair for pair in sorted(weighed, key=_place, reverse=True) if not self._is_repeat(pair[1], seen)]
            if len(ranked) >= self._request.k:
                break
        ranked.sort(key=_place, reverse=True)
        best = 1.0
        for _, hit in ranked[: self._request.k]:
            best = min(best, hit.score)
            hits.append(Hit(row=hit.row, unit=hit.unit, text=hit.text, score=round(best, 6), chunk_ids=hit.chunk_ids))
        return hits

    def _is_repeat(self, hit: Hit, seen: set[tuple[str, str]]) -> bool:
        if self._request.include_duplicates:
            return False
        said = (type(hit.row).__name__ if not isinstance(hit.row, Turn) else str(hit.row.role), fold(hit.text))
        if said in seen:
            return True
        seen.add(said)
        return False

    async def _read(self, page: Sequence[_Candidate]) -> Mapping[str, Hit]:
        context = self._context
        found = await store_hits.by_refs(context.db, context.sets, [c.ref for c in page], self._sets)
        turns = [row for row in found.values() if isinstance(row, Turn)]
        chunks = await store_sessions.chunks_of(context.db, turns)
        hits: dict[str, Hit] = {}
        for candidate in page:
            row = found.get(candidate.ref)
            if isinstance(row, Turn):
                if self._shows_turn(row):
                    hits[candidate.ref] = _passage(candidate, row, chunks.get(row.id, ()))
            elif row is not None and self._shows_row(row):
                hits[candidate.ref] = Hit(row=row, unit=candidate.unit, text=row.summary, score=candidate.share)
        return hits

    def _shows_turn(self, turn: Turn) -> bool:
        when = self._request.when
        if not turn.active or turn.taint or not self._request.labels <= set(turn.labels):
            return False
        if when.at_instant is not None and turn.recorded_at > when.at_instant:
            return False
        if when.as_of is not None and turn.known_at > when.as_of:
            return False
        return (when.valid_from is None or turn.known_at >= when.valid_from) and (
            when.valid_until is None or turn.known_at <= when.valid_until
        )

    def _shows_row(self, row: Row) -> bool:
        subject = self._request.subject
        if subject is not None and subject not in store_facts.entities_of(row):
            return False
        if not offered(row.control, self._now):
            return False
        return self._request.labels <= set(row.labels) and answers(row, self._request.when, self._now)


def _passage(candidate: _Candidate, turn: Turn, chunks: Sequence[Chunk]) -> Hit:
    """The passage of a turn that answers."""
    best = next((chunk for chunk in chunks if f"memory_chunk:{chunk.id}" == candidate.unit), None)
    return Hit(
        row=turn,
        unit=candidate.unit,
        text=turn.content[best.start : best.end] if best else turn.content,
        score=candidate.share,
        chunk_ids=tuple(chunk.id for chunk in chunks),
    )


def _joined(found: Sequence[Found], exact: Sequence[_Candidate]) -> list[_Candidate]:
    """Both legs as one list, best first: a slot the question names outranks everything of less coverage."""
    by_ref = {f.ref: _Candidate(f.ref, f.unit, f.rank, f.share) for f in found}
    for candidate in exact:
        known = by_ref.get(candidate.ref)
        if known is not None:
            by_ref[candidate.ref] = _Candidate(known.ref, known.unit, known.rank, known.share, candidate.direct)
        elif candidate.direct:
            by_ref[candidate.ref] = candidate
    return sorted(by_ref.values(), key=lambda c: (c.rank, c.share), reverse=True)


def _slots(rows: Sequence[Fact], asked: set[str], names: Sequence[Name], when: When, now: datetime) -> list[_Candidate]:
    stem = stemmer()
    name_words = {word for name in names for word in words.question(name.name, stem)}
    candidates: list[_Candidate] = []
    for row in rows:
        if answers(row, when, now):
            covered = len(asked & (_key_words(row.key, stem) | name_words)) / max(1, len(asked))
            candidates.append(_Candidate(ref_of(row), ref_of(row), 0.0, covered, direct=covered >= _DIRECT_COVERAGE))
    return candidates


def _key_words(key: str, stem: words.Stem) -> frozenset[str]:
    return frozenset(words.question(key.replace("_", " "), stem))


_DIRECT_COVERAGE: Final = 0.75
"""Share of the question's words that entity and key must explain before the slot is the answer."""


def _place(ranked: tuple[float, Hit]) -> tuple[float, datetime, str]:
    """Where a hit stands, the largest first: of equals the newest, whatever order an index has them in."""
    weight, hit = ranked
    return weight, hit.at, hit.unit


def _weight(candidate: _Candidate, hit: Hit) -> float:
    """The order of hits: relevance by trust and speaker; slots that are the answer come before everything."""
    row = hit.row
    if isinstance(row, Turn):
        bound = ASSISTANT_WEIGHT if row.role is Role.ASSISTANT else 1.0
        return candidate.rank * (0.5 + 0.5 * row.trust) * bound
    first = _FIRST if candidate.direct else 0.0
    return first + candidate.rank * (0.5 + 0.5 * row.control.trust)


_FIRST: Final = 1e6


def kind_of(row: Row | Turn) -> str:
    """The kind of a hit as clients name it."""
    if isinstance(row, Turn):
        return "memory_chunk"
    return {Fact: "attribute", Relation: "attribute", Action: "action"}[type(row)]  # type: ignore[index]
