"""The entities a question names: slots of theirs whose key it names too, and what lies around them.

Bounded whatever the record holds: an entity with thousands of relations costs as many reads and rows as one with sixty.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from keeps.core import routing
from keeps.core.entities import EntityRef
from keeps.core.fusion import Signals
from keeps.core.validity import answers, offered
from keeps.finder.local import stemmer
from keeps.services.question import Mark, Marks, Question
from keeps.services.runtime import Context
from keeps.store import facts as store_facts
from keeps.store import graph as store_graph
from keeps.store.graph import Ask, Edge
from keeps.store.rows import ref_of

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

SEED_SLOT: Final = 1.0
NAMED_EDGE: Final = 0.8
ONE_HOP: Final = 0.6
ONE_HOP_AROUND: Final = 0.45
TWO_HOPS: Final = 0.35
TWO_HOPS_AROUND: Final = 0.2
"""How near to what the question names: a slot of a named entity, a relation whose label is named too, what lies one
relation away, two; `AROUND`: facts whose key is not named."""

MOST_HOPS: Final = 2

SAME_AS: Final = "same_as"
"""The label of a relation between two names of one thing."""

_EVERYTHING: Final = 256
"""Facts of an entity that a question about everything ranks by importance."""


class Graph:
    """What can be said of the entities that one question names. `hops`: how far it has looked; `told`: the question
    names a key of theirs, which is settled once `chosen` is set."""

    def __init__(self, context: Context, question: Question, names: Sequence[str]) -> None:
        """`names`: as the question mentions them."""
        self._context = context
        self._question = question
        self._stem = stemmer()
        self._name_words = frozenset(word for name in names for word in routing.key_words(name, self._stem))
        self.hops = 0
        self.told = False
        self.chosen = asyncio.Event()

    async def everything(self, entities: Sequence[EntityRef]) -> Marks:
        """The weightiest facts of entities, which come before all else."""
        slots = await store_graph.facts(self._context.db, self._ask(), entities, limit=_EVERYTHING)
        return {
            slot.ref: Mark(unit=slot.ref, signals=Signals(fact=True, graph=SEED_SLOT), lead=1.0 + slot.importance)
            for slot in slots
        }

    async def slots(self, entities: Sequence[EntityRef]) -> Marks:
        """Slots of entities whose key the question names. An entity may have very many facts: only these are read."""
        db, sets, question = self._context.db, self._context.sets, self._question
        slots = [
            (entity, key)
            for entity, key in await store_facts.keys_of(db, entities, question.sets)
            if self._is_named(key)
        ]
        self.told = self.told or bool(slots)
        slots.sort(key=lambda slot: (entities.index(slot[0]), slot[1]))
        read = (store_facts.versions(db, sets, entity, key, question.sets) for entity, key in slots[:MAX_SLOTS])
        marks: dict[str, Mark] = {}
        for row in (row for part in await asyncio.gather(*read) for row in part):
            if not answers(row, question.when, question.now) or not offered(row.control, question.now):
                continue
            explained = routing.key_words(row.key, self._stem) | self._name_words
            covered = routing.coverage(question.asked, explained)
            signals = Signals(fact=True, graph=SEED_SLOT, share=covered, direct=covered >= routing.DIRECT_COVERAGE)
            marks[ref_of(row)] = Mark(unit=ref_of(row), signals=signals)
        return marks

    async def ways(self, entities: Sequence[EntityRef], *, hops: int) -> Marks:
        """What lies around entities: their relations, and facts at the far ends of these.

        `hops`: 1 goes one relation further only where the question names no key of anything nearer; 2 always.
        """
        db, ask = self._context.db, self._ask()
        seeds = list(entities)
        edges = await store_graph.edges(db, ask, seeds, limit=MAX_DEGREE)
        marks: dict[str, Mark] = {}
        others = _far_ends([edge for edge in edges if edge.label == SAME_AS], seeds)[:MAX_SEEDS]
        if others:
            more, slots = await asyncio.gather(store_graph.edges(db, ask, others, limit=MAX_DEGREE), self.slots(others))
            edges, seeds = [*edges, *more], [*seeds, *others]
            marks.update(slots)
        hop = self._hop(edges, set(seeds))
        found, named = await self._around(edges, seeds, hop, near=ONE_HOP, around=ONE_HOP_AROUND)
        marks = dict(found) | marks
        self.hops = max(self.hops, 1)
        await self.chosen.wait()
        if hops < MOST_HOPS and (named or self.told):
            return marks
        self.hops = MOST_HOPS
        reached = hop[:MAX_REACHED]
        further = await store_graph.edges(db, ask, reached, limit=MAX_REACHED)
        known = [*seeds, *reached]
        hop = self._hop(further, set(known))
        found, _ = await self._around(further, known, hop, near=TWO_HOPS, around=TWO_HOPS_AROUND)
        return dict(found) | marks

    def _hop(self, edges: Sequence[Edge], from_: set[EntityRef]) -> list[EntityRef]:
        """Where relations lead, those with a named label first, else the newest."""
        ends = [
            (not self._is_named(edge.label), place, far)
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
        near: float,
        around: float,
    ) -> tuple[Marks, bool]:
        """Marks of relations and of facts at their far ends; and whether the question names a key of any of these."""
        nearer = set(known)
        marks: dict[str, Mark] = {}
        for edge in edges:
            both = edge.subject in nearer and edge.object in nearer
            at = near + NAMED_EDGE - ONE_HOP if both or self._is_named(edge.label) else near
            marks[edge.ref] = Mark(unit=edge.ref, signals=Signals(fact=True, graph=at))
        slots = await store_graph.facts(self._context.db, self._ask(), reached[:MAX_REACHED], limit=_FACTS_REACHED)
        named = [slot for slot in slots if self._is_named(slot.key)]
        marks |= {slot.ref: Mark(unit=slot.ref, signals=Signals(fact=True, graph=near)) for slot in named}
        left = dict.fromkeys(reached, _FACTS_SHOWN) | {slot.entity: 0 for slot in named}
        for slot in slots:
            if left[slot.entity] > 0:
                left[slot.entity] -= 1
                marks[slot.ref] = Mark(unit=slot.ref, signals=Signals(fact=True, graph=around))
        return marks, bool(named)

    def _is_named(self, key: str) -> bool:
        """True when the question holds every word of a key or label."""
        said = routing.key_words(key, self._stem)
        return bool(said) and said <= self._question.asked

    def _ask(self) -> Ask:
        question = self._question
        return Ask(sets=self._context.sets, readable=question.sets, when=question.when, now=question.now)


def _far_ends(edges: Sequence[Edge], from_: Sequence[EntityRef]) -> list[EntityRef]:
    ends = (end for edge in edges for end in (edge.subject, edge.object))
    return [end for end in dict.fromkeys(ends) if end not in from_]
