"""The legs of a question: words, meaning, slots that it names, and what lies around the entities it names.

All run at once, each with a deadline. A leg gives what it has to say of rows, by ref; it reads nothing out.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from keeps.core import routing
from keeps.core.entities import EntityRef
from keeps.core.fusion import FULL_LEG, Signals
from keeps.core.modes import Include, Mode
from keeps.core.spaces import Point
from keeps.core.traces import Leg
from keeps.finder.base import Found, Name, Near
from keeps.services import vectors
from keeps.services.graph import MAX_SEEDS, MOST_HOPS, Graph
from keeps.services.question import Mark, Marks, Question, off_loop
from keeps.services.runtime import Context
from keeps.store.rows import stored_ref

POOL: Final = FULL_LEG
"""How many candidates a leg may name."""

COPIES: Final = 3
"""How many rows that say the same a leg names, so that they leave room for others: more than one, since the record may
withhold the first."""

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

_ALSO_WAIT_S: Final = 0.25
"""How long the leg of meaning waits for what the others found, so that it can tell how near that is."""


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
        self._meaning: Point | None = None
        self._entities: list[EntityRef] = []
        self._graph: Graph | None = None
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
                    others.append(group.create_task(self._leg("graph", self._ways(names), LEG_TIMEOUT_S)))
                if mode in (Mode.HYBRID, Mode.VECTOR):
                    patience_s = vectors.patience_s(self._context, VECTOR_TIMEOUT_S)
                    group.create_task(self._leg("vector", self._vector(POOL, others), patience_s))
        finally:
            if names is not None:  # both legs may have given up before it came to an end
                names.cancel()
                await asyncio.gather(names, return_exceptions=True)

    @property
    def can_look_further(self) -> bool:
        """True when a wider look could find what the first did not."""
        return bool(self.found.full) or self._has_further_hop

    @property
    def _has_further_hop(self) -> bool:
        return self._graph is not None and self._graph.hops == 1

    async def look_further(self) -> None:
        """Ask again for twice as much, and one relation further; legs that had no more to say are left alone."""
        full, self.found.full = self.found.full, set()
        others: list[asyncio.Task[None]] = []
        async with asyncio.TaskGroup() as group:
            if "text" in full:
                others.append(group.create_task(self._leg("text", self._text(2 * POOL), FURTHER_TIMEOUT_S)))
            if self._has_further_hop:
                others.append(group.create_task(self._leg("graph", self._around(MOST_HOPS), FURTHER_TIMEOUT_S)))
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

    @property
    def _copies(self) -> int:
        # Of rows that say the same only one may be of the time or about the subject that is asked for.
        return 0 if self._question.is_narrowed else self._question.copies

    async def _text(self, pool: int) -> Marks:
        question = self._question
        limit = self._limit(pool)
        found = await self._context.finder.find(
            question.text,
            question.sets,
            kinds=question.kinds,
            only=question.only,
            limit=limit,
            copies=self._copies,
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
        limit = self._limit(pool)
        found = await self._context.finder.near(
            self._meaning,
            question.sets,
            kinds=question.kinds,
            only=question.only,
            limit=limit,
            also=list(self.found.marks),
            copies=self._copies,
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
        graph, asked = await self._named(names), self._question.text
        try:
            if not self._entities:
                return {}
            if await off_loop(asked, routing.is_broad, asked, self.found.seeds):
                marks = await graph.everything(self._entities[:MAX_SEEDS])
                self.found.broad = bool(marks)
                return marks
            return await graph.slots(self._entities)
        finally:
            graph.chosen.set()

    async def _ways(self, names: asyncio.Task[list[Name]]) -> Marks:
        """What lies around the named entities."""
        await self._named(names)
        return await self._around(1)

    async def _around(self, hops: int) -> Marks:
        if self._graph is None or not self._entities:
            return {}
        return await self._graph.ways(self._entities[:MAX_SEEDS], hops=hops)

    async def _named(self, names: asyncio.Task[list[Name]]) -> Graph:
        """The entities the question names, from left to right, the one it is about first."""
        found = await asyncio.shield(names)
        if self._graph is None:
            self.found.seeds = list(dict.fromkeys(name.name for name in found))
            named = [stored_ref(entity) for entity in dict.fromkeys(name.entity for name in found)]
            subject = self._question.subject
            self._entities = list(dict.fromkeys([subject, *named])) if subject is not None else named
            self._graph = Graph(self._context, self._question, self.found.seeds)
        return self._graph


def _by_words(one: Found) -> Signals:
    return Signals(
        text=one.rank,
        share=one.share,
        named=one.named,
        fact=_is_fact(one.ref),
        assistant=one.assistant,
        asks=one.asks,
        before=one.before,
    )


def _by_meaning(one: Near) -> Signals:
    return Signals(
        cosine=one.cosine,
        usual=one.usual,
        fact=_is_fact(one.ref),
        assistant=one.assistant,
        asks=one.asks,
        before=one.before,
    )


def _is_fact(ref: str) -> bool:
    """True for a fact, relation or action; a turn is what was said."""
    return not ref.startswith("turn:")


def with_weights(legs: Mapping[str, Leg], weights: Mapping[str, float]) -> list[Leg]:
    """The legs with what each weighed in the answer, by name."""
    return [replace(leg, weight=weights.get(name, 0.0)) for name, leg in sorted(legs.items())]
