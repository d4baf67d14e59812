"""Chains of values while a write is planned: read once, and kept as each decision leaves them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from keeps.core.cardinality import chain_key
from keeps.core.entities import EntityRef
from keeps.core.facts import Category, Fact, Pillar, RowId
from keeps.core.scopes import Scope
from keeps.core.supersession import Place, Plan, Standing, last_said, place_after, place_at
from keeps.core.text import fold
from keeps.core.triples import Family, Triple
from keeps.services.runtime import Context
from keeps.store import entities as store_entities
from keeps.store import facts as store_facts
from keeps.store import rows as store_rows
from keeps.store.db import RecordID
from keeps.store.facts import ChainState


@dataclass(slots=True)
class Chain:
    """A chain as it stands in this write. `beside`: the live contenders by their folded value.

    `place`: where the next value of this write belongs, when it may lie before what is there.
    """

    record: RecordID
    fact: Fact
    rev: int = 0
    head: Fact | None = None
    beside: dict[str, dict[RowId, Fact]] = field(default_factory=dict[str, dict[RowId, Fact]])
    place: Place | None = None
    moved: bool = False

    def move(self, decided: Plan) -> None:
        """Take up a decision. All values of one write are known at the same moment."""
        opened = decided.opened
        for row in (*decided.changed, *([decided.confirmed] if decided.confirmed else [])):
            if self.head is not None and row.id == self.head.id:
                self.head = row
                continue
            same = self.beside.get(fold(row.value), {})
            if row.id in same:
                same[row.id] = row
                if row.superseded_by is not None:
                    del same[row.id]
        if decided.head is not None:
            self.head = decided.restored or opened
        elif opened is not None and opened.superseded_by is None:
            self.stand_beside(opened)
        if self.place is not None:
            self.place = place_after(self.place, decided)
        self.moved = self.moved or opened is not None

    def stand_beside(self, fact: Fact) -> None:
        """Take a live contender in."""
        self.beside.setdefault(fold(fact.value), {})[fact.id] = fact

    def leave(self, fact: Fact) -> None:
        """Let a value go that another took the place of."""
        if self.head is not None and self.head.id == fact.id:
            self.head = None
        self.beside.get(fold(fact.value), {}).pop(fact.id, None)
        self.moved = True

    def twins(self, value: str) -> tuple[Fact, ...]:
        """The contenders that hold `value`."""
        return tuple(self.beside.get(fold(value), {}).values())

    def row(self) -> store_rows.Record:
        """The chain as the commit compares and sets it."""
        head = self.head.id if self.head else None
        members: list[str] = [*([head] if head else []), *(id_ for same in self.beside.values() for id_ in same)]
        return {
            "id": self.record,
            "expected": self.rev,
            "set": store_rows.chain_to_row(self.fact, head, members, self.rev + 1),
        }


class Chains:
    """The chains one write may touch. `known_at`: when it was known, if the caller said so, else None."""

    def __init__(self, scope: Scope, known_at: datetime | None) -> None:
        self._scope = scope
        self._known_at = known_at
        self._chains: dict[str, Chain] = {}
        self._states: dict[str, ChainState] = {}
        self._versions: dict[str, list[Fact]] = {}

    async def read(
        self,
        context: Context,
        triples: Iterable[Triple],
        entities: Sequence[EntityRef],
        readable: frozenset[str],
        corrected: Sequence[Fact] = (),
    ) -> dict[EntityRef, list[store_entities.Presence]]:
        """Read the chains `triples` may touch in both pillars, those of `corrected`, and where `entities` are known."""
        records = {str(_record(fact)): _record(fact) for fact in corrected}
        slots: dict[str, tuple[EntityRef, str]] = {str(_record(fact)): (fact.entity, fact.key) for fact in corrected}
        for triple in triples:
            if triple.family is not Family.ATTRIBUTE or triple.key is None:
                continue
            chain = chain_key(triple.key, triple.value or "", Category.KNOWLEDGE, "")
            for pillar in Pillar:
                record = store_rows.chain_record(triple.entity.ref, chain, self._scope.id, pillar)
                records[str(record)] = record
                slots[str(record)] = (triple.entity.ref, triple.key)
        self._states, known = await store_facts.standing(
            context.db, context.sets, list(records.values()), entities, readable
        )
        behind = {slots[name] for name, state in self._states.items() if self._may_precede(state)}
        for version in await store_facts.versions_in(context.db, self._scope, behind):
            self._versions.setdefault(str(_record(version)), []).append(version)
        return known

    def _may_precede(self, state: ChainState) -> bool:
        """True when a value of this write may belong before one that is there."""
        return self._known_at is not None and (state.head is None or last_said(state.head) > self._known_at)

    def of(self, fact: Fact) -> Chain:
        """The chain of a fact, as it stands in this write; one of its own for a value of category `context`."""
        record = _record(fact)
        if fact.category is Category.CONTEXT:
            return Chain(record, fact)
        name = str(record)
        if name not in self._chains:
            self._chains[name] = self._opened(Chain(record, fact), self._states.get(name))
        return self._chains[name]

    def _opened(self, chain: Chain, state: ChainState | None) -> Chain:
        """A chain as it was read, before this write."""
        if state is None:
            return chain
        chain.rev, chain.head = state.rev, state.head
        for contender in state.contenders:
            chain.stand_beside(contender)
        if self._known_at is not None and self._may_precede(state):
            chain.place = place_at(self._versions.get(str(chain.record), ()), chain.head, self._known_at)
        return chain

    def standing(self, fact: Fact, chain: Chain) -> Standing:
        """What the plan of a fact must know of its chain."""
        confirmed = None
        if fact.category is Category.CONTEXT:
            confirmed = self.of(replace(fact, category=Category.KNOWLEDGE)).head
        return Standing(
            head=chain.head,
            contenders=chain.twins(fact.value),
            other_head=self.of(replace(fact, source=replace(fact.source, kind=_other_kind(fact.source.pillar)))).head,
            place=chain.place,
            confirmed=confirmed,
        )

    def rows(self) -> list[store_rows.Record]:
        """The chains that moved, as the commit compares and sets them."""
        return [chain.row() for chain in self._chains.values() if chain.moved]


def _record(fact: Fact) -> RecordID:
    return store_rows.chain_id(fact, chain_key(fact.key, fact.value, fact.category, fact.id))


def _other_kind(pillar: Pillar) -> str:
    return "turn" if pillar is Pillar.AUTHORITATIVE else "upsert"
