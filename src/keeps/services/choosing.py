"""What a phrase or an id names, inside what a caller may give up: the order to erase, before anything is planned."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, ParamSpec, TypeVar

from keeps.core import erasure
from keeps.core.access import Region
from keeps.core.audit import Entry
from keeps.core.entities import EntityRef, known_type, normalise_key, normalise_name
from keeps.core.erasure import Clause, Fate, Gone, Order, Presence
from keeps.core.errors import Invalid
from keeps.core.facts import Status
from keeps.core.policy import Why
from keeps.core.references import KeyReference, parse_reference
from keeps.core.scopes import Lens, Pattern, Scope
from keeps.core.sessions import RENDERED, Session
from keeps.core.text import fold
from keeps.services import meant
from keeps.services.meant import Meant
from keeps.services.runtime import Context
from keeps.store import erase as store_erase
from keeps.store import facts as store_facts
from keeps.store import named as store_named
from keeps.store import proposals as store_proposals
from keeps.store.rows import Record, key_of

MAX_BY_WORDS: Final = 20
"""The most memories one phrase retires or purges; ids are not limited."""

_AT_ONCE: Final = 4_096
_DECIDED: Final = frozenset({*store_facts.FACT_TABLES, store_proposals.PROPOSAL})
"""Tables of what somebody can decide about meanwhile."""
_RULE_TEXTS: Final = ("description", "summary", "label")
_P = ParamSpec("_P")
_T = TypeVar("_T")

_ID: Final = re.compile(r"(?:(?P<table>[a-z_]+):)?(?P<key>[a-z0-9]{20})(?P<chunk>_\d+)?")
_TABLES: Final[Mapping[str, str]] = {
    **{table: table for table in store_erase.MEMORY_TABLES},
    "fact": "attribute",
    "memory": "attribute",
    "relation": "relates_to",
    "memory_chunk": "turn",
    "chunk": "turn",
}


@dataclass(slots=True)
class Unit:
    """One thing to forget: the rows of one memory, or an entity that has none."""

    rows: list[Record] = field(default_factory=list[Record])
    presence: Presence | None = None

    @property
    def known_at(self) -> datetime | None:
        return max((row["known_at"] for row in self.rows if "known_at" in row), default=None)


InSight = Callable[[Sequence[Unit]], Awaitable[list[Unit]]]


@dataclass(slots=True, kw_only=True)
class Choice:
    """What was chosen: the order, where its rows lie, the names to hold alone meanwhile, the units behind it.

    `unknown`: places among the ids of those that name nothing. `meant`: what the words come near to. `entries`: what
    the audit is told with it.
    """

    order: Order
    scope_sets: dict[str, str]
    names: set[str]
    units: list[Unit] = field(default_factory=list[Unit])
    remaining: int = 0
    unknown: tuple[int, ...] = ()
    meant: Meant = field(default_factory=Meant)
    entries: list[Entry] = field(default_factory=list[Entry])
    refused_by: str | None = None
    """The person who forgets it, and does not want it learned again."""


class Chooser:
    """What a caller may give up, and what a phrase or an id names within it."""

    def __init__(
        self,
        context: Context,
        region: Region,
        lens: Lens,
        gone: Gone,
        *,
        in_sight: InSight | None = None,
        readable: Collection[str] = (),
    ) -> None:
        """`readable`: scope sets the caller may read: what words only come near to is looked for in those alone.
        `in_sight`: those of some memories the caller may take away; the others are not there for it. None: all."""
        self._sees = in_sight
        self._context = context
        self._readable = readable
        self._region = region
        self._lens = lens
        self._gone = gone

    @property
    def own(self) -> dict[str, frozenset[Clause]]:
        """The scope sets with clauses the caller may give up, and those clauses."""
        sets = self._context.sets
        given = {s: erasure.given_up(sets[s], self._region, self._lens) for s in sets.readable(self._region)}
        return {scope_set: clauses for scope_set, clauses in given.items() if clauses}

    def fate_of(self, row: Record) -> Fate | None:
        """What becomes of a row; None when the caller may give up nothing of it."""
        return self._fate_in(row["scope_set"])

    def _fate_in(self, scope_set: str) -> Fate | None:
        scope = self._context.sets[scope_set]
        return erasure.fate(scope, erasure.given_up(scope, self._region, self._lens), self._gone)

    async def choose(self, query: str | None, ids: Sequence[str]) -> Choice:
        """What the words equal or, where they equal nothing, mean: `MAX_BY_WORDS` memories at most; what the ids name.

        What is deleted for good must be named exactly.
        """
        by_id, unknown = await self._by_ids(ids)
        by_words = await self._by_words(query) if query and query.strip() else []
        near = Meant()
        if query and not by_words and not _names_something(query):
            near = await meant.meant_by(self._context, query, self.own.keys() & set(self._readable))
            if self._gone is Gone.RETIRE:
                by_words = await self._in_order(near.refs)
        choice = await self._choice([*by_id, *by_words[:MAX_BY_WORDS]], remaining=max(0, len(by_words) - MAX_BY_WORDS))
        choice.unknown, choice.meant = unknown, near
        return choice

    async def _in_order(self, refs: Sequence[str]) -> list[Unit]:
        """The memories of rows, in the order of the rows."""
        units, _ = await self._by_ids(refs)
        place = {ref: number for number, ref in enumerate(refs)}
        return sorted(units, key=lambda unit: min(place.get(ref_of_row(row), len(refs)) for row in unit.rows))

    async def _in_sight(self, units: list[Unit]) -> list[Unit]:
        return units if self._sees is None else await self._sees(units)

    async def choose_entity(self, ref: EntityRef) -> Choice:
        """Everything about an entity."""
        presences = await self._known(ref, self.own)
        everything = await self._of_entities(presences)
        units = await self._in_sight(everything)
        choice = await self._choice(units, remaining=0)
        if len(units) < len(everything):
            return choice  # something of it stays, and so does the entity
        fates = {presence: self._fate_in(presence[1]) for presence in presences}
        named = {presence: fate for presence, fate in fates.items() if fate is not None}
        choice.order = Order(rows=choice.order.rows, presences=named)
        choice.names.add(str(ref))
        return choice

    async def _choice(self, units: Sequence[Unit], *, remaining: int) -> Choice:
        rows: dict[str, Fate] = {}
        for unit in units:
            for row in unit.rows:
                if (fate := self.fate_of(row)) is not None:
                    rows[ref_of_row(row)] = fate
        records = [row for unit in units for row in unit.rows]
        records += (taken := await self._source_turns(records, rows))
        rows |= {ref_of_row(row): fate for row in taken if (fate := self.fate_of(row)) is not None}
        alone = {unit.presence: self._fate_in(unit.presence[1]) for unit in units if unit.presence is not None}
        presences = {presence: fate for presence, fate in alone.items() if fate is not None}
        names = _names(records) | {ref for ref, _ in presences}
        order = Order(rows=rows, presences=presences)
        return Choice(order=order, scope_sets=_lie(records), names=names, units=list(units), remaining=remaining)

    async def _source_turns(self, facts: Sequence[Record], fates: Mapping[str, Fate]) -> list[Record]:
        """Turns that go, or leave the caller's scope, along with facts that came from them."""
        told: dict[str, list[Record]] = {}
        for row in facts:
            source = row.get("source_ref") or ""
            if row["id"].table_name in store_facts.FACT_TABLES and source.startswith("turn:") and source not in fates:
                told.setdefault(source, []).append(row)
        taken: list[Record] = []
        for ref, turn in (await store_facts.records(self._context.db, list(told))).items():
            if RENDERED in turn["flags"]:
                # One that only loses lines is no part of the order: those go with the facts.
                if any(isinstance(fates.get(ref_of_row(row)), Scope) for row in told[ref]):
                    taken.append(turn)
            elif self._gone is Gone.PURGE and any(
                erasure.holds(turn["content"], self._told_by(row)) for row in told[ref]
            ):
                taken.append(turn)
        return taken

    def _told_by(self, row: Record) -> str:
        return erasure.told_by(store_facts.from_record(row, self._context.sets))

    async def _by_words(self, query: str) -> list[Unit]:
        """What the words equal: texts first, then what entities and keys of that name hold, newest first."""
        own, db = self.own, self._context.db
        texts = await store_named.by_hash(db, await _off_the_loop(len(query), self._context.fold_key, query), own)
        rules = await store_named.instructions(db, own)
        size = len(query) + sum(len(row[name]) for row in rules for name in _RULE_TEXTS)
        texts += await _off_the_loop(size, _equal_rules, query, rules)
        units = (await self._by_ids([query]))[0] if _ID.fullmatch(query.strip()) else []
        units += await self._whole(texts)
        units += (referred := await self._by_reference(query, own))
        if not referred and not _is_path(query):
            units += await self._of_entities(await self._entities(query, own))
            if (key := _key_of(query)) is not None:
                units += await self._whole(await store_named.by_key(db, key, own))
        return await self._in_sight(_distinct(units))

    async def _entities(self, query: str, own: Collection[str]) -> list[Presence]:
        try:
            name = normalise_name(query)
        except Invalid:
            return []
        return await store_named.entities_named(self._context.db, name, own, hidden=self._gone is Gone.PURGE)

    async def _by_reference(self, text: str, own: Collection[str]) -> list[Unit]:
        """What a reference to an entity, or to a key of one, names.

        `person/mara/role` is the entity `mara/role` where that is known, else the key `role` of `mara`.
        """
        reference = _reference(text)
        if isinstance(reference, EntityRef):
            presences = await self._known(reference, own)
            if presences:
                return await self._of_entities(presences)
            reference = _reference(f"attribute:{text.strip()}") if _is_bare_path(text) else None
        return await self._of_key(reference, own) if isinstance(reference, KeyReference) else []

    async def _of_key(self, reference: KeyReference, own: Collection[str]) -> list[Unit]:
        """Every value of a key of an entity."""
        rows = await store_named.of_slot(self._context.db, str(reference.entity), reference.key, own)
        return _units(self._standing(rows))

    async def _known(self, ref: EntityRef, own: Collection[str]) -> list[Presence]:
        """Where an entity is known; a hidden one can only be purged."""
        return await store_named.entity_in(self._context.db, str(ref), own, hidden=self._gone is Gone.PURGE)

    async def _by_ids(self, ids: Sequence[str]) -> tuple[list[Unit], tuple[int, ...]]:
        """What the ids name that can still go, and the places of those that name nothing."""
        own = self.own
        refs = {place: _refs_of(found) for place, text in enumerate(ids) if (found := _ID.fullmatch(text.strip()))}
        wanted = dict.fromkeys(ref for found in refs.values() for ref in found)
        became = await self._became(wanted)
        for found in refs.values():
            found += [became[ref] for ref in found if ref in became]
        wanted |= dict.fromkeys(became.values())
        stored = (await store_facts.records(self._context.db, list(wanted))).values()
        rows = [row for row in stored if row["scope_set"] in own]
        units = await self._in_sight(await self._whole(rows))
        standing = {ref_of_row(row) for unit in await self._in_sight(_units(self._standing(rows))) for row in unit.rows}
        unknown: list[int] = []
        named: dict[str, list[Unit]] = {}
        for place, text in enumerate(ids):
            if place in refs:
                known = not standing.isdisjoint(refs[place])
            else:
                if text not in named:
                    await asyncio.sleep(0)  # text that is no reference is read without ever waiting for the record
                    named[text] = await self._in_sight(await self._by_reference(text, own))
                    units += named[text]
                known = bool(named[text])
            if not known:
                unknown.append(place)
        return _distinct(units), tuple(unknown)

    async def _became(self, refs: Iterable[str]) -> dict[str, str]:
        """The rows that proposals became once somebody said yes: who names the one means the other."""
        named = [ref for ref in refs if ref.startswith(f"{store_proposals.PROPOSAL}:")]
        records = await store_facts.records(self._context.db, named)
        agreed = {ref: row for ref, row in records.items() if row["status"] == Status.CONFIRMED}
        own = {
            ref: f"{row['target']}:{key_of(row['id'])}" for ref, row in agreed.items() if row["reason"] != Why.RETIRE
        }
        kept = await store_facts.records(self._context.db, list(own.values()))
        became: dict[str, str] = {}
        for ref, row_ref in own.items():
            # What only repeated something leads to that.
            became[ref] = row_ref if row_ref in kept else agreed[ref].get("conflicts_with") or row_ref
        return became

    async def _of_entities(self, presences: Sequence[Presence]) -> list[Unit]:
        """Everything about entities; one that has no rows is a unit of its own."""
        if not presences:
            return []
        units = _units(self._standing(await store_named.rows_of(self._context.db, presences)))
        named = {
            (row[name], row["scope_set"])
            for unit in units
            for row in unit.rows
            for name in ("entity", "subject", "object", "actor")
            if row.get(name)
        }
        return [*units, *(Unit(presence=presence) for presence in presences if presence not in named)]

    async def _whole(self, rows: Sequence[Record]) -> list[Unit]:
        """The memories that rows belong to: facts with all their versions, a turn of ours with what it tells."""
        facts = [row for row in rows if _is_fact(row)]
        others = [row for row in rows if not _is_fact(row)]
        rendered = [ref_of_row(row) for row in others if RENDERED in row.get("flags", ())]
        if rendered:
            told = await store_named.facts_from(self._context.db, rendered)
            own = self.own
            facts += [row for row in told if _is_fact(row) and row["scope_set"] in own]
            others += [row for row in told if not _is_fact(row) and row["scope_set"] in own]
            sources = {row["source_ref"] for row in told}
            others = [row for row in others if ref_of_row(row) not in sources]
        if facts:
            others += await store_named.versions_with(self._context.db, facts)
        return _units(self._standing(others))

    def _standing(self, rows: Iterable[Record]) -> list[Record]:
        """Rows that can still go: what is retired can only be purged."""
        if self._gone is Gone.PURGE:
            return list(rows)
        return [row for row in rows if row.get("forgotten_at") is None and row.get("status") != "rejected"]


async def _off_the_loop(size: int, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """What `work` gives, made in a thread when it reads more than `_AT_ONCE` characters."""
    return work(*args, **kwargs) if size <= _AT_ONCE else await asyncio.to_thread(work, *args, **kwargs)


def _equal_rules(query: str, rules: Sequence[Record]) -> list[Record]:
    """The instructions that one of its texts makes equal to the words."""
    folded = fold(query)
    return [row for row in rules if any(fold(row[name]) == folded for name in _RULE_TEXTS)]


def _units(rows: Iterable[Record]) -> list[Unit]:
    """Rows as memories, newest first: all versions of a chain are one, with what a person corrected into it."""
    units: dict[object, Unit] = {}
    rows = list(rows)
    facts = {ref_of_row(row): row for row in rows if _is_fact(row)}
    for row in rows:
        name = store_named.chain_name(_latest(row, facts)) if _is_fact(row) else ref_of_row(row)
        unit = units.setdefault(name, Unit())
        if ref_of_row(row) not in {ref_of_row(known) for known in unit.rows}:
            unit.rows.append(row)
    dated = [unit for unit in units.values() if unit.known_at is not None]
    dated.sort(key=lambda unit: (unit.known_at, ref_of_row(unit.rows[0])), reverse=True)
    return [*dated, *(unit for unit in units.values() if unit.known_at is None)]


def _latest(row: Record, facts: Mapping[str, Record]) -> Record:
    """What took the place of a row in the end, as far as it is there."""
    seen: set[str] = set()
    while (later := f"attribute:{row.get('superseded_by')}") in facts and later not in seen:
        seen.add(later)
        row = facts[later]
    return row


def _distinct(units: Iterable[Unit]) -> list[Unit]:
    """Each memory once, in order."""
    seen: dict[object, Unit] = {}
    for unit in units:
        seen.setdefault(unit.presence or ref_of_row(unit.rows[0]), unit)
    return list(seen.values())


def _refs_of(found: re.Match[str]) -> list[str]:
    table, key = found["table"], found["key"]
    if found["chunk"]:
        return [f"turn:{key}"]
    if table is None:
        return [f"{name}:{key}" for name in store_erase.MEMORY_TABLES]
    return [f"{_TABLES[table]}:{key}"] if table in _TABLES else []


def _reference(text: str) -> EntityRef | KeyReference | None:
    """The entity, or the key of one, that a text is a reference to; None for all else."""
    try:
        reference = parse_reference(text)
    except Invalid:
        return None
    return reference if isinstance(reference, EntityRef | KeyReference) else None


def _names_something(text: str) -> bool:
    """True for an id and a reference: they name one thing, and mean nothing when that is not there."""
    return _ID.fullmatch(text.strip()) is not None or _is_path(text)


def _is_path(text: str) -> bool:
    """True for a reference with its parts divided by slashes: it is never meant as a name or a key."""
    return "/" in text and _reference(text) is not None


def _is_bare_path(text: str) -> bool:
    """True for `person/mara/role`, without a word before it that says what it names."""
    type_, _, rest = text.partition("/")
    return known_type(type_) is not None and "/" in rest


def _is_fact(row: Record) -> bool:
    return row["id"].table_name == "attribute"


def _key_of(query: str) -> str | None:
    try:
        return normalise_key(query)
    except Invalid:
        return None


def ref_of_row(row: Record) -> str:
    return f"{row['id'].table_name}:{key_of(row['id'])}"


def _lie(rows: Iterable[Record]) -> dict[str, str]:
    """The scope set of each row."""
    return {ref_of_row(row): row["scope_set"] for row in rows}


def _names(rows: Iterable[Record]) -> set[str]:
    """What to hold alone while rows go: themselves, their entities and sessions; as whoever decides about them does."""
    names: set[str] = set()
    for row in rows:
        said = row["row"] if row["id"].table_name == store_proposals.PROPOSAL else row
        names |= {said[name] for name in ("entity", "subject", "object", "actor") if said.get(name)}
        if row["id"].table_name in _DECIDED:
            names.add(f"memory:{key_of(row['id'])}")
        sessions = (row.get("session"), row.get("source_session"))
        names |= {f"session:{session}" for session in sessions if session}
        if row["id"].table_name == "session":
            names.add(ref_of_row(row))
    return names


async def in_scope(context: Context, pattern: Pattern) -> Choice:
    """All that belongs to the nodes of a pattern; what belongs to others as well stays for those."""
    touched = {s: context.sets[s] for s in context.sets.everything() if context.sets[s].touches(pattern)}
    fates: dict[str, Fate] = {s: scope.without(pattern) or Gone.PURGE for s, scope in touched.items()}
    found = await store_named.everything_in(context.db, sorted(fates))
    presences = {(row["ref"], row["scope_set"]): fates[row["scope_set"]] for row in found if "ref" in row}
    rows = {ref_of_row(row): fates[row["scope_set"]] for row in found if "ref" not in row}
    nodes = frozenset(node for node in context.nodes if pattern.covers(node))
    names = _names(found) | {ref for ref, _ in presences}
    units = _units([row for row in found if row["id"].table_name in store_erase.UNIT_TABLES])
    units = [unit for unit in units if RENDERED not in unit.rows[0].get("flags", ())]
    order = Order(rows=rows, presences=presences, nodes=nodes)
    return Choice(order=order, scope_sets=_lie(found), names=names, units=units)


async def ended(context: Context, refs: Sequence[str], *, by: str) -> Choice:
    """Those of some rows, `table:id`, that have ended and were not renewed: each alone, not its chain."""
    records = await store_facts.records(context.db, refs)
    over = {ref: row for ref, row in records.items() if row.get("status") == Status.EXPIRED}
    return Choice(
        order=Order(rows=dict.fromkeys(over, Gone.PURGE)),
        scope_sets=_lie(over.values()),
        names=_names(over.values()),
        units=[Unit([row]) for row in over.values()],
        entries=[Entry(actor=by, action="memory.forget", target=ref) for ref in over],
    )


async def session(context: Context, session: Session, writable: Region) -> Choice:
    """A session with its turns; a turn that belongs to others as well stays for those."""
    chooser = Chooser(context, writable, Lens(), Gone.PURGE)
    turns = await store_named.turns_in(context.db, session.id)
    ref = f"session:{session.id}"
    fates = {ref_of_row(row): chooser.fate_of(row) for row in turns}
    rows: dict[str, Fate] = {turn: fate for turn, fate in fates.items() if fate is not None}
    return Choice(
        order=Order(rows=rows | {ref: Gone.PURGE}),
        scope_sets=_lie(turns) | {ref: session.scope.id},
        names={ref},
        units=[Unit([row]) for row in turns],
    )
