"""The legs of a question: words, meaning, slots it names, and what lies around the entities it names.

All run at once, each with a deadline. A leg gives what it has to say of rows, by ref; it reads nothing out.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from keeps.core import routing
from keeps.core.entities import EntityRef
from keeps.core.fusion import Signals
from keeps.core.modes import Include, Mode
from keeps.core.spaces import Space
from keeps.core.traces import Leg
from keeps.core.validity import NOW, When, answers, offered
from keeps.finder.base import Found, Kind, Name, Near
from keeps.finder.local import stemmer
from keeps.services import vectors
from keeps.services.runtime import Context
from keeps.store import facts as store_facts
from keeps.store import graph as store_graph
from keeps.store.graph import Ask, Edge
from keeps.store.rows import ref_of, stored_ref

POOL: Final = 256
"""How many candidates a leg may name."""

DEEP_FACTOR: Final = 16
"""How many times as many for a question that narrows what was found by time or subject: the record decides that, not
the leg."""

LEG_TIMEOUT_S: Final = 3.0
"""How long a leg may take before the others answer without it, seconds."""

VECTOR_TIMEOUT_S: Final = 1.0
"""The same for the leg of meaning, the embedding of the question included."""

MEANING_TIMEOUT_S: Final = 0.8
"""The part of it that the embedding may take: the search itself needs the rest."""

FURTHER_TIMEOUT_S: Final = 0.5
"""The same for each leg of a second, wider look."""

MAX_SLOTS: Final = 16
"""Keys of entities that one question can name; further ones are left to the words."""

MAX_SEEDS: Final = 8
"""Entities from which ways are looked for; a question may name more."""

MAX_DEGREE: Final = 64
"""Relations of one entity that are looked at, the newest."""

MAX_REACHED: Final = 16
"""Entities at the far end of them whose facts are looked at."""

_FACTS_REACHED: Final = 32
_FACTS_SHOWN: Final = 3
"""Facts of a reached entity that are candidates when the question names none of its keys."""

_ALSO_WAIT_S: Final = 0.25
"""How long the leg of meaning waits for what the others found, so that it can tell how near that is."""

SEED_SLOT: Final = 1.0
NAMED_EDGE: Final = 0.8
ONE_HOP: Final = 0.6
ONE_HOP_AROUND: Final = 0.45
TWO_HOPS: Final = 0.35
TWO_HOPS_AROUND: Final = 0.2
"""How near to what the question names: a slot of a named entity, a relation whose label is named too, what lies one
relation away, two; `AROUND`: facts whose key is not named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question as the legs see it. `asked`: its words as they are searched; `sets`: what may be read."""

    text: str
    asked: frozenset[str]
    sets: frozenset[str]
    now: datetime
    mode: Mode = Mode.HYBRID
    include: frozenset[Include] = frozenset(Include)
    when: When = NOW
    labels: frozenset[str] = frozenset()
    subject: EntityRef | None = None

    @property
    def kinds(self) -> frozenset[Kind]:
        """What the finder is to look among."""
        kinds: set[Kind] = set()
        if Include.FACTS in self.include:
            kinds.add("fact")
        if Include.PASSAGES in self.include:
            kinds.add("passage")
        return frozenset(kinds)

    @property
    def is_narrowed(self) -> bool:
        """True when the record leaves out some of what a leg finds."""
        return not self.when.is_now or self.subject is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What the legs say of one row. `lead`: above 0 it comes before what is ranked, the larger first."""

    unit: str
    signals: Signals
    lead: float = 0.0

    def __or__(self, other: Mark) -> Mark:
        """Both as one, each signal at its larger."""
        one, two = self.signals, other.signals
        nearer = max(one, two, key=lambda said: -2.0 if said.cosine is None else said.cosine)
        signals = Signals(
            text=max(one.text, two.text),
            share=max(one.share, two.share),
            cosine=nearer.cosine,
            usual=nearer.usual,
            graph=max(one.graph, two.graph),
            sparse=max(one.sparse, two.sparse),
            direct=one.direct or two.direct,
            assistant=one.assistant or two.assistant,
            before=one.before or two.before,
        )
        best = max(self, other, key=lambda mark: max(mark.signals.share, mark.signals.cosine or 0.0))
        return Mark(unit=best.unit, signals=signals, lead=max(self.lead, other.lead))


Marks = Mapping[str, Mark]
"""What is said of rows, by ref."""


@dataclass(slots=True)
class Looked:
    """What the legs have found so far. `degraded`: those that did not answer in full; `full`: those that may have
    more, had they been asked for more."""

    marks: dict[str, Mark] = field(default_factory=dict[str, Mark])
    legs: dict[str, Leg] = field(default_factory=dict[str, Leg])
    seeds: list[str] = field(default_factory=list[str])
    broad: bool = False
    degraded: dict[str, None] = field(default_factory=dict[str, None])
    full: set[str] = field(default_factory=set[str])

    def take(self, marks: Marks) -> None:
        """Join what a leg says to the rest."""
        for ref, mark in marks.items():
            known = self.marks.get(ref)
            self.marks[ref] = mark if known is None else known | mark


class Search:
    """One question and its legs. Call `look`, and where that is not enough `look_further`."""

    def __init__(self, context: Context, question: Question) -> None:
        self._context = context
        self._question = question
        self._meaning: tuple[Space, bytes] | None = None
        self._named: Sequence[Name] = ()
        self._seeds: Sequence[EntityRef] = ()
        self._stem = stemmer()
        self._hops = 1
        self._told = False
        self.found = Looked()

    async def look(self) -> None:
        """Ask every leg that the mode and the halves asked for need."""
        question = self._question
        mode = question.mode
        names: asyncio.Task[list[Name]] | None = None
        others: list[asyncio.Task[None]] = []
        try:
            async with asyncio.TaskGroup() as group:
                if mode in (Mode.HYBRID, Mode.BM25):
                    others.append(group.create_task(self._leg("text", self._text(POOL), LEG_TIMEOUT_S)))
                if mode in (Mode.HYBRID, Mode.GRAPH) and Include.FACTS in question.include:
                    names = asyncio.create_task(self._context.finder.names_in(question.text, question.sets))
                    others.append(group.create_task(self._leg("exact", self._exact(names), LEG_TIMEOUT_S)))
                    others.append(group.create_task(self._leg("graph", self._graph(names), LEG_TIMEOUT_S)))
                if mode in (Mode.HYBRID, Mode.VECTOR):
                    group.create_task(self._leg("vector", self._vector(POOL, others), VECTOR_TIMEOUT_S))
        finally:
            if names is not None:  # both legs may have given up before it came to an end
                names.cancel()
                await asyncio.gather(names, return_exceptions=True)

    @property
    def can_look_further(self) -> bool:
        """True when a wider look could find what the first did not."""
        return bool(self.found.full) or (bool(self._named) and self._hops < _MOST_HOPS and "graph" in self.found.legs)

    async def look_further(self) -> None:
        """Ask again for twice as much, and one relation further; legs that had no more to say are left alone."""
        full, self.found.full = self.found.full, set()
        others: list[asyncio.Task[None]] = []
        async with asyncio.TaskGroup() as group:
            if "text" in full:
                others.append(group.create_task(self._leg("text", self._text(2 * POOL), FURTHER_TIMEOUT_S)))
            if self._named and self._hops < _MOST_HOPS and "graph" in self.found.legs:
                self._hops = _MOST_HOPS
                others.append(group.create_task(self._leg("graph", self._ways(), FURTHER_TIMEOUT_S)))
            if "vector" in full:
                group.create_task(self._leg("vector", self._vector(2 * POOL, others), FURTHER_TIMEOUT_S))

    async def _leg(self, name: str, leg: Awaitable[Marks], limit_s: float) -> None:
        """Take what a leg says; one that is late or fails is noted, and the others answer."""
        started = time.perf_counter()
        marks: Marks = {}
        answered = True
        try:
            marks = await asyncio.wait_for(leg, limit_s)
        except Exception:  # noqa: BLE001 an edge: a failed leg is a note in the answer, never an error of the question
            answered = False
            self.found.degraded[name] = None
        took_ms = round((time.perf_counter() - started) * 1000, 3)
        before = self.found.legs.get(name)
        self.found.legs[name] = Leg(
            name=name,
            found=len(marks) if answered or before is None else before.found,
            took_ms=took_ms + (before.took_ms if before else 0.0),
            weight=0.0,
            answered=answered,
        )
        self.found.take(marks)

    def _limit(self, pool: int) -> int:
        return DEEP_FACTOR * pool if self._question.is_narrowed else pool

    async def _text(self, pool: int) -> Marks:
        question = self._question
        limit = self._limit(pool)
        found = await self._context.finder.find(
            question.text,
            question.sets,
            kinds=question.kinds,
            labels=question.labels,
            live_only=question.when.is_now,
            limit=limit,
        )
        if len(found) >= limit:
            self.found.full.add("text")
        return {one.ref: Mark(unit=one.unit, signals=_by_words(one)) for one in found}

    async def _vector(self, pool: int, others: Sequence[asyncio.Task[None]]) -> Marks:
        """Rows near in meaning, and how near those are that other legs found."""
        question = self._question
        if self._meaning is None:
            await self._find_meaning()
        if self._meaning is None:
            return {}
        if others:
            await asyncio.wait(others, timeout=_ALSO_WAIT_S)
        space, vector = self._meaning
        limit = self._limit(pool)
        found = await self._context.finder.near(
            space,
            vector,
            question.sets,
            kinds=question.kinds,
            labels=question.labels,
            live_only=question.when.is_now,
            limit=limit,
            also=list(self.found.marks),
        )
        if len(found) >= limit + len(self.found.marks):
            self.found.full.add("vector")
        return {one.ref: Mark(unit=one.unit, signals=_by_meaning(one)) for one in found}

    async def _find_meaning(self) -> None:
        """The question's vector, while rows that have none yet are given theirs; a note for what is missing."""
        context, question = self._context, self._question
        whole, self._meaning = await asyncio.gather(
            vectors.fill(context, question.sets),
            vectors.meaning_of(context, question.text, MEANING_TIMEOUT_S),
        )
        missed = self._meaning is None and (vectors.why_not(context) is not None or question.mode is Mode.VECTOR)
        if missed or not whole:
            self.found.degraded["vector"] = None

    async def _exact(self, names: asyncio.Task[list[Name]]) -> Marks:
        """Slots of named entities whose key is named too; for a question about everything, their weightiest facts."""
        entities = await self._entities(names)
        if not entities:
            return {}
        if routing.is_broad(self._question.text, self.found.seeds):
            return await self._everything(entities[:MAX_SEEDS])
        return await self._slots(entities)

    async def _entities(self, names: asyncio.Task[list[Name]]) -> list[EntityRef]:
        """The entities the question names, from left to right, the one it is about first."""
        self._named = await asyncio.shield(names)
        self.found.seeds = list(dict.fromkeys(name.name for name in self._named))
        named = [stored_ref(entity) for entity in dict.fromkeys(name.entity for name in self._named)]
        subject = self._question.subject
        return list(dict.fromkeys([subject, *named])) if subject is not None else named

    async def _everything(self, entities: Sequence[EntityRef]) -> Marks:
        slots = await store_graph.facts(self._context.db, self._ask(), entities, limit=MAX_DEGREE)
        self.found.broad = bool(slots)
        return {
            slot.ref: Mark(unit=slot.ref, signals=Signals(graph=SEED_SLOT), lead=1.0 + slot.importance)
            for slot in slots
        }

    async def _slots(self, entities: Sequence[EntityRef]) -> Marks:
        """An entity may have very many facts: only those of keys that the question names are read."""
        db, sets, question = self._context.db, self._context.sets, self._question
        slots = [
            (entity, key)
            for entity, key in await store_facts.keys_of(db, entities, question.sets)
            if (said := routing.key_words(key, self._stem)) and said <= question.asked
        ]
        self._told = self._told or bool(slots)
        slots.sort(key=lambda slot: (entities.index(slot[0]), slot[1]))
        read = (store_facts.versions(db, sets, entity, key, question.sets) for entity, key in slots[:MAX_SLOTS])
        marks: dict[str, Mark] = {}
        for row in (row for part in await asyncio.gather(*read) for row in part):
            if not answers(row, question.when, question.now) or not offered(row.control, question.now):
                continue
            explained = routing.key_words(row.key, self._stem) | self._name_words()
            covered = routing.coverage(question.asked, explained)
            signals = Signals(graph=SEED_SLOT, share=covered, direct=covered >= routing.DIRECT_COVERAGE)
            marks[ref_of(row)] = Mark(unit=ref_of(row), signals=signals)
        return marks

    async def _graph(self, names: asyncio.Task[list[Name]]) -> Marks:
        self._seeds = (await self._entities(names))[:MAX_SEEDS]
        return await self._ways() if self._seeds else {}

    async def _ways(self) -> Marks:
        """What lies around the named entities: their relations, and facts at the far ends of these."""
        db, ask = self._context.db, self._ask()
        seeds = list(self._seeds)
        same, edges = await asyncio.gather(
            store_graph.aliases(db, ask, seeds, limit=MAX_SEEDS),
            store_graph.edges(db, ask, seeds, limit=MAX_DEGREE),
        )
        marks: dict[str, Mark] = {}
        others = _far_ends(same, seeds)[:MAX_SEEDS]
        if others:
            more, slots = await asyncio.gather(
                store_graph.edges(db, ask, others, limit=MAX_DEGREE), self._slots(others)
            )
            edges, seeds = [*edges, *more], [*seeds, *others]
            marks.update(slots)
        hop = self._hop(edges, set(seeds))
        found, told = await self._around(edges, seeds, hop, named=ONE_HOP, around=ONE_HOP_AROUND)
        marks = dict(found) | marks
        if self._hops < _MOST_HOPS and (told or self._told):
            return marks
        self._hops = _MOST_HOPS
        reached = hop[:MAX_REACHED]
        further = await store_graph.edges(db, ask, reached, limit=MAX_REACHED)
        known = [*seeds, *reached]
        found, _ = await self._around(
            further, known, self._hop(further, set(known)), named=TWO_HOPS, around=TWO_HOPS_AROUND
        )
        return dict(found) | marks

    def _hop(self, edges: Sequence[Edge], from_: set[EntityRef]) -> list[EntityRef]:
        """Where relations lead, those with a named label first, else the newest."""
        ends = [
            (not self._names_label(edge), place, far)
            for place, edge in enumerate(edges)
            for far in (edge.subject, edge.object)
            if far not in from_
        ]
        return list(dict.fromkeys(far for _, _, far in sorted(ends)))

    async def _around(
        self,
        edges: Sequence[Edge],
        known: Sequence[EntityRef],
        reached: Sequence[EntityRef],
        *,
        named: float,
        around: float,
    ) -> tuple[Marks, bool]:
        """Marks of relations and of facts at their far ends; and whether the question names a key of any of these."""
        nearer = set(known)
        marks: dict[str, Mark] = {}
        for edge in edges:
            both = edge.subject in nearer and edge.object in nearer
            at = min(1.0, named + NAMED_EDGE - ONE_HOP) if both or self._names_label(edge) else named
            marks[edge.ref] = Mark(unit=edge.ref, signals=Signals(graph=at))
        slots = await store_graph.facts(self._context.db, self._ask(), reached[:MAX_REACHED], limit=_FACTS_REACHED)
        told = False
        left = dict.fromkeys(reached, _FACTS_SHOWN)
        for slot in slots:
            said = routing.key_words(slot.key, self._stem)
            if said and said <= self._question.asked:
                told = True
                left[slot.entity] = 0
                marks[slot.ref] = Mark(unit=slot.ref, signals=Signals(graph=named))
        for slot in slots:
            if left[slot.entity] > 0 and slot.ref not in marks:
                left[slot.entity] -= 1
                marks[slot.ref] = Mark(unit=slot.ref, signals=Signals(graph=around))
        return marks, told

    def _names_label(self, edge: Edge) -> bool:
        said = routing.key_words(edge.label, self._stem)
        return bool(said) and said <= self._question.asked

    def _name_words(self) -> frozenset[str]:
        return frozenset(word for name in self.found.seeds for word in routing.key_words(name, self._stem))

    def _ask(self) -> Ask:
        question = self._question
        return Ask(sets=self._context.sets, readable=question.sets, when=question.when, now=question.now)


def _by_words(one: Found) -> Signals:
    return Signals(text=one.rank, share=one.share, assistant=one.assistant, before=one.before)


def _by_meaning(one: Near) -> Signals:
    return Signals(cosine=one.cosine, usual=one.usual, assistant=one.assistant, before=one.before)


def _far_ends(edges: Sequence[Edge], from_: Sequence[EntityRef]) -> list[EntityRef]:
    ends = (end for edge in edges for end in (edge.subject, edge.object))
    return [end for end in dict.fromkeys(ends) if end not in from_]


def with_weights(legs: Mapping[str, Leg], weights: Mapping[str, float]) -> list[Leg]:
    """The legs with what each weighed in the answer, by name."""
    return [replace(leg, weight=weights.get(name, 0.0)) for name, leg in sorted(legs.items())]


_MOST_HOPS: Final = 2
