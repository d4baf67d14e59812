"""Forgetting: what a phrase or an id names is hidden or deleted everywhere, and stays so after a restore."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from keeps.core import erasure
from keeps.core.access import Caller, Region, Verb
from keeps.core.entities import EntityRef, EntityType, normalise_key, normalise_name, parse_ref
from keeps.core.erasure import Clause, Fate, Gone, Order, Presence
from keeps.core.errors import Forbidden, Invalid, NotFound, StaleHead
from keeps.core.scopes import Lens, Pattern, Scope, parse_path
from keeps.core.sessions import RENDERED
from keeps.core.text import fold
from keeps.finder.base import FinderLost, Name
from keeps.services import index
from keeps.services.index import Changes
from keeps.services.runtime import MAX_REPLANS, Context, Runtime
from keeps.store import commit as store_commit
from keeps.store import entities as store_entities
from keeps.store import erase as store_erase
from keeps.store import facts as store_facts
from keeps.store import named as store_named
from keeps.store import sessions as store_sessions
from keeps.store import tombstones
from keeps.store.erasing import Plan
from keeps.store.rows import Record, key_of, stored_ref

MAX_BY_WORDS: Final = 20
"""The most memories one phrase retires or purges; ids are not limited."""

NEAR_MISSES: Final = 20

_ERASING: Final = "erasing"
"""Erasures of a context come one after another: the record notes how far it has followed the ledger."""

_ID: Final = re.compile(r"(?:(?P<table>[a-z_]+):)?(?P<key>[a-z0-9]{20})(?P<chunk>_\d+)?")
_TABLES: Final[Mapping[str, str]] = {
    **{table: table for table in store_erase.MEMORY_TABLES},
    "fact": "attribute",
    "memory": "attribute",
    "relation": "relates_to",
    "memory_chunk": "turn",
    "chunk": "turn",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Forget:
    """What to forget: what `query` equals, and the rows of `ids`. `lens` bounds both; `purge` deletes."""

    query: str | None = None
    ids: tuple[str, ...] = ()
    purge: bool = False
    dry_run: bool = False
    lens: Lens = field(default_factory=Lens)


@dataclass(frozen=True, slots=True, kw_only=True)
class NearMiss:
    """A row that comes near the words and stays. `score` 0..1: how much of the words it holds."""

    ref: str
    text: str
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """What went. `rows` of the record, `memories` as a person counts them; of the rows, `released` stay for
    co-owners. `remaining`: memories the words name beyond the limit; say it again for those."""

    rows: int
    memories: int
    refs: tuple[str, ...] = ()
    near_misses: tuple[NearMiss, ...] = ()
    released: int = 0
    remaining: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeForgotten:
    """What went from every table; of the rows, `released` stay for co-owners."""

    rows: int
    memories: int
    released: int = 0


@dataclass(slots=True)
class _Unit:
    """One thing to forget: the rows of one memory, or an entity that has none."""

    rows: list[Record] = field(default_factory=list[Record])
    presence: Presence | None = None

    @property
    def known_at(self) -> datetime | None:
        return max((row["known_at"] for row in self.rows if "known_at" in row), default=None)


@dataclass(slots=True, kw_only=True)
class _Choice:
    """What was chosen: the order, the names to hold alone while it is carried out, the units behind it."""

    order: Order
    names: set[str]
    units: list[_Unit] = field(default_factory=list[_Unit])
    remaining: int = 0


async def forget(rt: Runtime, context: Context, caller: Caller, request: Forget) -> Forgotten:
    """Retire or purge what the request names exactly, inside what the caller may forget.

    Raises:
        Forbidden: memory:forget is held nowhere.
        Unavailable: nothing was erased.
    """
    region = caller.region(Verb.MEMORY_FORGET)
    if not region:
        raise Forbidden("this key may not forget anything: it needs memory:forget over some scope")
    gone = Gone.PURGE if request.purge else Gone.RETIRE
    chooser = _Chooser(context, region, request.lens, gone)

    async def choose() -> _Choice:
        return await chooser.choose(request.query, request.ids)

    if not request.dry_run:
        return _forgotten(*await _carry_out(rt, context, choose))
    choice = await choose()
    planned = await store_erase.plan(context.db, context.sets, choice.order, rt.clock())
    told = _forgotten(choice, planned)
    near = await _near_misses(context, chooser, request.query or "", set(told.refs))
    return Forgotten(
        rows=told.rows,
        memories=told.memories,
        refs=told.refs,
        near_misses=near,
        released=told.released,
        remaining=told.remaining,
    )


async def delete_entity(rt: Runtime, context: Context, caller: Caller, ref: EntityRef) -> Forgotten:
    """Retire every row of an entity inside what the caller may forget, and hide the entity there.

    Raises:
        NotFound: the caller cannot see such an entity.
        Forbidden: it lies outside what the caller may forget.
    """
    readable = context.sets.readable(caller.region(Verb.MEMORY_READ))
    if not await store_entities.presences(context.db, [ref], readable):
        raise NotFound(f"entity {ref} does not exist")
    chooser = _Chooser(context, caller.region(Verb.MEMORY_FORGET), Lens(), Gone.RETIRE)
    if not await store_named.entity_in(context.db, str(ref), chooser.own):
        raise Forbidden(f"memory:forget is not held over the scopes of {ref}")

    async def choose() -> _Choice:
        return await chooser.choose_entity(ref)

    return _forgotten(*await _carry_out(rt, context, choose))


async def delete_session(rt: Runtime, context: Context, caller: Caller, session_id: str) -> Forgotten:
    """Delete a session with its turns and passages. Facts drawn from them stay.

    Raises:
        NotFound: the caller cannot see such a session.
        Forbidden: it lies outside what the caller may write.
    """
    writable = caller.region(Verb.MEMORY_WRITE)

    async def choose() -> _Choice:
        everything = context.sets.everything()
        session = await store_sessions.find_session(context.db, context.sets, session_id, everything)
        visible = session is not None and session.scope.visible_to(caller.region(Verb.MEMORY_READ))
        if session is None or not (visible or session.scope.within(writable)):
            raise NotFound(f"session {session_id} does not exist")
        if not session.scope.within(writable):
            raise Forbidden("memory:write is not held over the scope of that session")
        chooser = _Chooser(context, writable, Lens(), Gone.PURGE)
        turns = await store_named.turns_in(context.db, session_id)
        rows = {f"turn:{key_of(row['id'])}": chooser.fate_of(row) for row in turns}
        rows[f"session:{session_id}"] = Gone.PURGE
        order = Order(rows={ref: fate for ref, fate in rows.items() if fate is not None})
        return _Choice(order=order, names={f"session:{session_id}"}, units=[_Unit([row]) for row in turns])

    return _forgotten(*await _carry_out(rt, context, choose))


async def forget_scope(rt: Runtime, context: Context, caller: Caller, path: str | None) -> ScopeForgotten:
    """Delete all that belongs to a scope and those below it; rows with other owners stay with those.

    Raises:
        Invalid: no path, or a bad one.
        Forbidden: memory:forget is not held over the whole of it.
    """
    if not path:
        raise Invalid("path is required: say which scope to forget, for example user/mara")
    pattern = Pattern(parse_path(path), subtree=True)
    if not caller.region(Verb.MEMORY_FORGET).covers_pattern(pattern):
        raise Forbidden(f"memory:forget is not held over {pattern}")

    async def choose() -> _Choice:
        return await _choose_scope(context, pattern)

    choice, planned = await _carry_out(rt, context, choose)
    gone = sum(planned.gone.values())
    released = sum(planned.released.values())
    return ScopeForgotten(rows=gone + released, memories=_memories(choice, planned), released=released)


async def _choose_scope(context: Context, pattern: Pattern) -> _Choice:
    touched = {s: context.sets[s] for s in context.sets.everything() if context.sets[s].touches(pattern)}
    fates: dict[str, Fate] = {s: scope.without(pattern) or Gone.PURGE for s, scope in touched.items()}
    found = await store_named.everything_in(context.db, sorted(fates))
    presences = {(row["ref"], row["scope_set"]): fates[row["scope_set"]] for row in found if "ref" in row}
    rows = {_ref(row): fates[row["scope_set"]] for row in found if "ref" not in row}
    nodes = frozenset(node for node in context.nodes if pattern.covers(node))
    names = _names(found) | {ref for ref, _ in presences}
    units = _units([row for row in found if row["id"].table_name in store_erase.UNIT_TABLES])
    units = [unit for unit in units if RENDERED not in unit.rows[0].get("flags", ())]
    return _Choice(order=Order(rows=rows, presences=presences, nodes=nodes), names=names, units=units)


# ---------------------------------------------------------------------- choosing
class _Chooser:
    """What a caller may give up, and what a phrase or an id names within it."""

    def __init__(self, context: Context, region: Region, lens: Lens, gone: Gone) -> None:
        self._context = context
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

    async def choose(self, query: str | None, ids: Sequence[str]) -> _Choice:
        """What the words equal, at most `MAX_BY_WORDS` memories, and what the ids name."""
        by_id = await self._by_ids(ids) if ids else []
        by_words = await self._by_words(query) if query and query.strip() else []
        return await self._choice([*by_id, *by_words[:MAX_BY_WORDS]], remaining=max(0, len(by_words) - MAX_BY_WORDS))

    async def choose_entity(self, ref: EntityRef) -> _Choice:
        """Everything about an entity."""
        presences = await store_named.entity_in(self._context.db, str(ref), self.own)
        choice = await self._choice(await self._of_entities(presences), remaining=0)
        fates = {presence: self._fate_in(presence[1]) for presence in presences}
        named = {presence: fate for presence, fate in fates.items() if fate is not None}
        choice.order = Order(rows=choice.order.rows, presences=named)
        choice.names.add(str(ref))
        return choice

    async def _choice(self, units: Sequence[_Unit], *, remaining: int) -> _Choice:
        rows: dict[str, Fate] = {}
        for unit in units:
            for row in unit.rows:
                if (fate := self.fate_of(row)) is not None:
                    rows[_ref(row)] = fate
        records = [row for unit in units for row in unit.rows]
        records += (taken := await self._source_turns(records, rows))
        rows |= {_ref(row): fate for row in taken if (fate := self.fate_of(row)) is not None}
        alone = {unit.presence: self._fate_in(unit.presence[1]) for unit in units if unit.presence is not None}
        presences = {presence: fate for presence, fate in alone.items() if fate is not None}
        names = _names(records) | {ref for ref, _ in presences}
        order = Order(rows=rows, presences=presences)
        return _Choice(order=order, names=names, units=list(units), remaining=remaining)

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
                if any(isinstance(fates.get(_ref(row)), Scope) for row in told[ref]):
                    taken.append(turn)
            elif self._gone is Gone.PURGE and any(
                erasure.holds(turn["content"], self._told_by(row)) for row in told[ref]
            ):
                taken.append(turn)
        return taken

    def _told_by(self, row: Record) -> str:
        return erasure.told_by(store_facts.from_record(row, self._context.sets))

    async def _by_words(self, query: str) -> list[_Unit]:
        """What the words equal: texts first, then what entities and keys of that name hold, newest first."""
        own, db = self.own, self._context.db
        texts = await store_named.by_hash(db, self._context.fold_key(query), own)
        folded = fold(query)
        texts += [
            row
            for row in await store_named.instructions(db, own)
            if folded in (fold(row["description"]), fold(row["summary"]), fold(row["label"]))
        ]
        units = await self._by_ids([query]) if _ID.fullmatch(query.strip()) else []
        units += await self._whole(texts)
        units += await self._of_entities(await self._entities(query, own))
        if (key := _key_of(query)) is not None:
            units += await self._whole(await store_named.by_key(db, key, own))
        return _distinct(units)

    async def _entities(self, query: str, own: Mapping[str, object]) -> list[Presence]:
        named = _named_entity(query)
        if named is not None:
            return await store_named.entity_in(self._context.db, str(named), own)
        try:
            return await store_named.entities_named(self._context.db, normalise_name(query), own)
        except Invalid:
            return []

    async def _by_ids(self, ids: Iterable[str]) -> list[_Unit]:
        refs: list[str] = []
        units: list[_Unit] = []
        for text in ids:
            found = _ID.fullmatch(text.strip())
            if found is not None:
                refs += _refs_of(found)
            elif (entity := _named_entity(text)) is not None:
                units += await self._of_entities(await store_named.entity_in(self._context.db, str(entity), self.own))
        own = self.own
        rows = (await store_facts.records(self._context.db, list(dict.fromkeys(refs)))).values()
        return _distinct([*await self._whole([row for row in rows if row["scope_set"] in own]), *units])

    async def _of_entities(self, presences: Sequence[Presence]) -> list[_Unit]:
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
        return [*units, *(_Unit(presence=presence) for presence in presences if presence not in named)]

    async def _whole(self, rows: Sequence[Record]) -> list[_Unit]:
        """The memories that rows belong to: facts with all their versions, a turn of ours with what it tells."""
        facts = [row for row in rows if row["id"].table_name == "attribute"]
        others = [row for row in rows if row["id"].table_name != "attribute"]
        rendered = [_ref(row) for row in others if RENDERED in row.get("flags", ())]
        if rendered:
            told = await store_named.facts_from(self._context.db, rendered)
            own = self.own
            facts += [row for row in told if row["id"].table_name == "attribute" and row["scope_set"] in own]
            others += [row for row in told if row["id"].table_name != "attribute" and row["scope_set"] in own]
            sources = {row["source_ref"] for row in told}
            others = [row for row in others if _ref(row) not in sources]
        if facts:
            others += await store_named.versions_with(self._context.db, facts)
        return _units(self._standing(others))

    def _standing(self, rows: Iterable[Record]) -> list[Record]:
        """Rows that can still go: what is retired can only be purged."""
        if self._gone is Gone.PURGE:
            return list(rows)
        return [row for row in rows if row.get("forgotten_at") is None and row.get("status") != "rejected"]


def _units(rows: Iterable[Record]) -> list[_Unit]:
    """Rows as memories, newest first: all versions of a chain are one."""
    units: dict[object, _Unit] = {}
    for row in rows:
        chained = row["id"].table_name == "attribute"
        name = store_named.chain_name(row) if chained else _ref(row)
        unit = units.setdefault(name, _Unit())
        if _ref(row) not in {_ref(known) for known in unit.rows}:
            unit.rows.append(row)
    dated = [unit for unit in units.values() if unit.known_at is not None]
    dated.sort(key=lambda unit: (unit.known_at, _ref(unit.rows[0])), reverse=True)
    return [*dated, *(unit for unit in units.values() if unit.known_at is None)]


def _distinct(units: Iterable[_Unit]) -> list[_Unit]:
    """Each memory once, in order."""
    seen: dict[object, _Unit] = {}
    for unit in units:
        seen.setdefault(unit.presence or _ref(unit.rows[0]), unit)
    return list(seen.values())


def _refs_of(found: re.Match[str]) -> list[str]:
    table, key = found["table"], found["key"]
    if found["chunk"]:
        return [f"turn:{key}"]
    if table is None:
        return [f"{name}:{key}" for name in store_erase.MEMORY_TABLES]
    return [f"{_TABLES[table]}:{key}"] if table in _TABLES else []


def _named_entity(text: str) -> EntityRef | None:
    """The entity behind `entity:person/mara` or `person/mara`."""
    bare = text.strip().removeprefix("entity:")
    type_, separator, _ = bare.partition("/")
    if not separator or (bare == text.strip() and type_ not in set(EntityType)):
        return None
    try:
        return parse_ref(bare)
    except Invalid:
        return None


def _key_of(query: str) -> str | None:
    try:
        return normalise_key(query)
    except Invalid:
        return None


def _ref(row: Record) -> str:
    return f"{row['id'].table_name}:{key_of(row['id'])}"


def _names(rows: Iterable[Record]) -> set[str]:
    """What to hold alone while rows go: their entities and sessions."""
    names: set[str] = set()
    for row in rows:
        names |= {row[name] for name in ("entity", "subject", "object", "actor") if row.get(name)}
        sessions = (row.get("session"), row.get("source_session"))
        names |= {f"session:{session}" for session in sessions if session}
        if row["id"].table_name == "session":
            names.add(_ref(row))
    return names


# ---------------------------------------------------------------------- carrying out
async def _carry_out(rt: Runtime, context: Context, choose: Callable[[], Awaitable[_Choice]]) -> tuple[_Choice, Plan]:
    """Choose, plan, note in the ledger, commit. Once begun it is carried through, also when the caller is gone."""
    return await asyncio.shield(_erase(rt, context, choose))


async def _erase(rt: Runtime, context: Context, choose: Callable[[], Awaitable[_Choice]]) -> tuple[_Choice, Plan]:
    names: set[str] = set()
    for attempt in range(1, MAX_REPLANS + 1):
        async with context.alone_on({*names, _ERASING}):
            if context.unsettled:
                await rt.replay(context)
            choice = await choose()
            if not choice.names <= names:
                names |= choice.names
                continue
            planned = await store_erase.plan(context.db, context.sets, choice.order, rt.clock())
            if not planned.done:
                return choice, planned
            try:
                await _commit(rt, context, planned)
            except StaleHead:
                if attempt == MAX_REPLANS:
                    raise
                # The next plan notes the same rows in the ledger again and commits for both lines.
                context.unsettled = False
                continue
            return choice, planned
    raise StaleHead("others keep writing to what is to be forgotten: try again", retry_after_s=1)


async def _commit(rt: Runtime, context: Context, planned: Plan) -> None:
    changes = await _changes(context, planned)
    seal = await tombstones.Seal.of(context.db)
    lines = tombstones.lines(planned.done, context.sets, planned.scope_sets, seal)
    change = await store_commit.last_change(context.db)

    def note() -> int:
        return [rt.ledger.append(context.id, line.kind, line.ids, change, line.detail) for line in lines][-1]

    context.unsettled = True
    store_erase.note_tombstone(planned.batch, await asyncio.to_thread(note))
    await context.commit(planned.batch, changes)
    context.unsettled = False
    if planned.purges:
        try:
            await context.finder.scrub()
        except FinderLost:
            await index.catch_up(context.indexed)


async def _changes(context: Context, planned: Plan) -> Changes:
    """What the finder must change, as rows stand after the commit."""
    windows = [turn for turn, _ in planned.windows]
    drop = [f"turn:{key}" for key in (*planned.turns, *(turn.id for turn in windows))]
    changes = Changes(drop=[*dict.fromkeys(drop), *planned.rows])
    chunks = await store_sessions.chunks_of(context.db, [turn.id for turn in windows if turn.active])
    for turn, previous in planned.windows:
        if turn.active:
            changes.put += index.entries_of(turn, chunks.get(turn.id, ()), previous)
    changes.put += [index.entry_of(row) for row in planned.rows.values() if row is not None]
    changes.names += [_name(presence) for presence in sorted(planned.names)]
    changes.drop_names += [_name(presence) for presence in sorted(planned.dropped_names - planned.names)]
    return changes


def _name(presence: Presence) -> Name:
    return Name(entity=presence[0], scope_set=presence[1], name=stored_ref(presence[0]).name)


# ---------------------------------------------------------------------- telling
def _forgotten(choice: _Choice, planned: Plan) -> Forgotten:
    alone = sum(1 for unit in choice.units if unit.presence is not None and unit.presence in planned.done.presences)
    rows = sum(planned.gone[table] + planned.released[table] for table in store_erase.MEMORY_TABLES)
    released = sum(planned.released[table] for table in store_erase.MEMORY_TABLES)
    return Forgotten(
        rows=rows + alone,
        memories=_memories(choice, planned),
        refs=tuple(planned.done.rows),
        released=released,
        remaining=choice.remaining,
    )


def _memories(choice: _Choice, planned: Plan) -> int:
    done = planned.done
    return sum(
        1
        for unit in choice.units
        if any(_ref(row) in done.rows for row in unit.rows) or unit.presence in done.presences
    )


async def _near_misses(context: Context, chooser: _Chooser, query: str, chosen: set[str]) -> tuple[NearMiss, ...]:
    """What comes near the words, best first, without what they name."""
    own = chooser.own
    if not query.strip() or not own:
        return ()
    try:
        hits = await context.finder.find(query, own.keys(), limit=NEAR_MISSES + len(chosen))
    except FinderLost:
        await index.catch_up(context.indexed)
        return ()
    hits = [hit for hit in hits if hit.ref not in chosen][:NEAR_MISSES]
    texts = await _texts(context, [hit.ref for hit in hits], own.keys())
    return tuple(NearMiss(ref=hit.ref, text=texts[hit.ref], score=hit.share) for hit in hits if hit.ref in texts)


async def _texts(context: Context, refs: Sequence[str], own: Iterable[str]) -> dict[str, str]:
    readable = frozenset(own)
    turns = [ref.removeprefix("turn:") for ref in refs if ref.startswith("turn:")]
    facts = [ref for ref in refs if not ref.startswith("turn:")]
    said = await store_sessions.turns_by_id(context.db, context.sets, turns, readable)
    rows = await store_facts.by_refs(context.db, context.sets, facts, readable)
    return {f"turn:{key}": turn.content for key, turn in said.items() if turn.active} | {
        ref: row.summary for ref, row in rows.items() if row.clocks.forgotten_at is None
    }
