"""Forgetting: what a phrase or an id names is hidden or deleted everywhere, and stays so after a restore."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from keeps.core.access import Caller, Verb
from keeps.core.audit import Entry
from keeps.core.entities import EntityRef
from keeps.core.erasure import Fate, Gone, Order, Presence
from keeps.core.errors import Forbidden, Invalid, NotFound, StaleHead, TooLarge
from keeps.core.facts import Row
from keeps.core.policy import Preset
from keeps.core.scopes import Lens, Pattern, parse_path
from keeps.core.sessions import Session
from keeps.finder.base import Name
from keeps.services import choosing, dry_run, index, roles, suppression
from keeps.services.choosing import Choice, Chooser, InSight, Unit, ref_of_row
from keeps.services.dry_run import Match, NearMiss, matches, near_misses
from keeps.services.history import reaches_session
from keeps.services.index import Changes
from keeps.services.runtime import MAX_REPLANS, Context, Runtime
from keeps.services.sight import presences, sight_of
from keeps.store import commit as store_commit
from keeps.store import erase as store_erase
from keeps.store import facts as store_facts
from keeps.store import named as store_named
from keeps.store import sessions as store_sessions
from keeps.store import tombstones
from keeps.store.erasing import Plan
from keeps.store.rows import stored_ref
from keeps.store.tombstones import Line

MAX_PHRASE_BYTES: Final = 64 * 1024

MOST_LINES: Final = 100
"""So many memories an erasure names in the audit one by one; of more it says the number."""

MAX_ROWS: Final = 2_000
"""How many rows one commit takes: a whole scope goes in several."""

ERASING: Final = "erasing"
"""Erasures of a context come one after another: the record notes how far it has followed the ledger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forget:
    """What to forget: what `query` equals, refers to or else means, and what `ids` name. `lens` bounds both. `purge`
    deletes, and takes what is named exactly alone."""

    query: str | None = None
    ids: tuple[str, ...] = ()
    purge: bool = False
    dry_run: bool = False
    lens: Lens = field(default_factory=Lens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """What went. `rows` of the record, `memories` as a person counts them; of the rows, `released` stay for
    co-owners. `remaining`: memories the words name beyond the limit; say it again for those. `unknown`: places
    among the ids of those that name nothing that can go. `matches`, `near_misses`: only when nothing went yet.
    `degraded`: `vector` when meaning was to be asked and could not."""

    rows: int
    memories: int
    refs: tuple[str, ...] = ()
    matches: tuple[Match, ...] = ()
    near_misses: tuple[NearMiss, ...] = ()
    released: int = 0
    remaining: int = 0
    unknown: tuple[int, ...] = ()
    degraded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeForgotten:
    """What went from every table; of the rows, `released` stay for co-owners."""

    rows: int
    memories: int
    released: int = 0


async def forget(rt: Runtime, context: Context, caller: Caller, request: Forget) -> Forgotten:
    """Retire what the request names exactly or, where it names nothing, what its words can only mean; or purge what it
    names exactly. All inside what the caller may forget.

    Raises:
        Invalid: neither words nor ids.
        TooLarge: the words take more than `MAX_PHRASE_BYTES`.
        Forbidden: memory:forget is held nowhere.
        Unavailable: nothing was erased.
    """
    if not (request.query or "").strip() and not request.ids:
        raise Invalid("query is required, or ids: say what to forget")
    if request.query is not None and (size := len(request.query.encode("utf-8", "surrogatepass"))) > MAX_PHRASE_BYTES:
        raise TooLarge(
            f"query of {size} bytes, at most {MAX_PHRASE_BYTES} are accepted: name longer texts by their ids"
        )
    region = caller.region(Verb.MEMORY_FORGET)
    if not region:
        raise Forbidden("this key may not forget anything: it needs memory:forget over some scope")
    gone = Gone.PURGE if request.purge else Gone.RETIRE
    # Who may forget need not be someone who may read: texts are told to readers alone.
    told_to = sight_of(context, caller).sets
    chooser = Chooser(context, region, request.lens, gone, in_sight=_sight(context, caller), readable=told_to)
    if request.purge and not (caller.is_person or roles.is_admin(context, caller)):
        _check_purge(context)

    async def choose() -> Choice:
        choice = await chooser.choose(request.query, request.ids)
        _check_decides(context, caller, choice, purge=request.purge)
        return _by(caller, choice, "memory.purge" if request.purge else "memory.forget")

    if not request.dry_run:
        return _forgotten(*await _carry_out(rt, context, choose))
    choice = await choose()
    planned = await store_erase.plan(context.db, context.sets, choice.order, rt.clock())
    told = _forgotten(choice, _Done().add(planned))
    return replace(
        told,
        matches=await matches(context, caller, choice, set(told.refs)),
        near_misses=await near_misses(context, caller, request.query or "", choice, chooser.own.keys()),
    )


async def delete_entity(rt: Runtime, context: Context, caller: Caller, ref: EntityRef) -> Forgotten:
    """Retire every row of an entity inside what the caller may forget, and hide the entity there.

    Raises:
        NotFound: the caller cannot see such an entity.
        Forbidden: it lies outside what the caller may forget.
    """
    if not await presences(context, sight_of(context, caller), [ref]):
        raise NotFound(f"entity {ref} does not exist")
    region = caller.region(Verb.MEMORY_FORGET)
    chooser = Chooser(context, region, Lens(), Gone.RETIRE, in_sight=_sight(context, caller))
    if not await store_named.entity_in(context.db, str(ref), chooser.own, hidden=False):
        raise Forbidden(f"memory:forget is not held over the scopes of {ref}")

    async def choose() -> Choice:
        choice = await chooser.choose_entity(ref)
        _check_decides(context, caller, choice, purge=False)
        return _by(caller, choice, "entity.forget")

    return _forgotten(*await _carry_out(rt, context, choose))


def _sight(context: Context, caller: Caller) -> InSight:
    async def in_sight(units: Sequence[Unit]) -> list[Unit]:
        return await dry_run.in_sight(context, caller, units)

    return in_sight


def _check_purge(context: Context) -> None:
    """Raises: Forbidden, except where everything is automatic."""
    if context.consent.settings.policy is not Preset.AUTOMATIC:
        raise Forbidden(
            "only the person it belongs to, a curator or an admin may erase for good: leave purge out to retire it"
        )


def _check_decides(context: Context, caller: Caller, choice: Choice, *, purge: bool) -> None:
    """Raises: Forbidden for what is not this caller's to take away alone, so that nothing of the request goes."""
    if context.consent.settings.policy is Preset.AUTOMATIC:
        return
    rows = [row for unit in choice.units for row in unit.rows if ref_of_row(row) in choice.order.rows]
    others = [row for row in rows if not dry_run.decides(context, caller, row["scope_set"])]
    if others and purge:
        _check_purge(context)
    agreed = [ref_of_row(row) for row in others if row.get("user_confirmed") and not row.get("superseded_by")]
    if agreed:
        raise Forbidden(
            f"the person said yes to {', '.join(agreed[:20])}: ask them whether to stop using it with "
            "POST /memories/{memory}/retire, or leave it out"
        )


def _check_gives_up(context: Context, caller: Caller, choice: Choice) -> None:
    """Raises: Forbidden for who may not give up all of a scope for good: an agent never may; its people, a curator, an
    admin may, and the code of an app that an admin vouched for."""
    if context.consent.settings.policy is Preset.AUTOMATIC or roles.is_admin(context, caller):
        return
    vouched = caller.principal.trusted_writer and caller.target is None
    if not vouched and not all(dry_run.decides(context, caller, each) for each in set(choice.scope_sets.values())):
        raise Forbidden(
            "only the person it belongs to, a curator, an admin or an app an admin vouched for may forget a whole scope"
        )


def _ends(context: Context, caller: Caller, session: Session) -> bool:
    """True for who may end a session: who began it, who decides about its scope, an admin."""
    if context.consent.settings.policy is Preset.AUTOMATIC or roles.is_admin(context, caller):
        return True
    return session.opened_by == caller.principal_id or dry_run.decides(context, caller, session.scope.id)


def _line(caller: Caller, action: str, target: str) -> Entry:
    return Entry(actor=caller.principal_id, action=action, target=target)


def _lines(caller: Caller, choice: Choice, action: str) -> list[Entry]:
    """What the audit says of an erasure: each memory, or how many when they are many."""
    refs = [ref_of_row(unit.rows[0]) for unit in choice.units if unit.rows]
    if len(refs) > MOST_LINES:
        return [_line(caller, action, f"{len(refs)} memories")]
    return [_line(caller, action, ref) for ref in refs]


def _by(caller: Caller, choice: Choice, action: str) -> Choice:
    """The choice, and what the audit says of it; what a person of their own forgets, they refuse as well."""
    choice = replace(choice, entries=_lines(caller, choice, action))
    return replace(choice, refused_by=caller.principal_id) if caller.is_person else choice


async def delete_session(rt: Runtime, context: Context, caller: Caller, session_id: str) -> Forgotten:
    """Delete a session with its turns and passages. Facts drawn from them stay.

    Raises:
        NotFound: the caller cannot see such a session.
        Forbidden: it lies outside what the caller may write.
    """
    writable = caller.region(Verb.MEMORY_WRITE)

    async def choose() -> Choice:
        everything = context.sets.everything()
        session = await store_sessions.find_session(context.db, context.sets, session_id, everything)
        visible = session is not None and session.scope.visible_to(caller.region(Verb.MEMORY_READ))
        seen = session is not None and reaches_session(context, caller, session)
        if session is None or not seen or not (visible or session.scope.within(writable)):
            raise NotFound(f"session {session_id} does not exist")
        if not session.scope.within(writable):
            raise Forbidden("memory:write is not held over the scope of that session")
        if not _ends(context, caller, session):
            raise Forbidden("only who began a session, its person or an admin may end it")
        choice = await choosing.session(context, session, writable)
        return replace(choice, entries=[_line(caller, "session.delete", f"session:{session.id}")])

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

    async def choose() -> Choice:
        choice = await choosing.in_scope(context, pattern)
        _check_gives_up(context, caller, choice)
        return replace(choice, entries=[_line(caller, "scope.forget", f"scope:{pattern.path}")])

    choice, done = await _carry_out(rt, context, choose)
    gone = sum(done.gone.values())
    released = sum(done.released.values())
    return ScopeForgotten(rows=gone + released, memories=_memories(choice, done), released=released)


async def forget_ended(rt: Runtime, context: Context, refs: Sequence[str], *, by: str) -> int:
    """Delete rows that ended and were not renewed, for the service itself; how many went. Raises: Unavailable."""

    async def choose() -> Choice:
        return await choosing.ended(context, refs, by=by)

    _, done = await _carry_out(rt, context, choose)
    return sum(1 for ref in refs if ref in done.rows)


# ---------------------------------------------------------------------- carrying out
async def carry_out_alone(rt: Runtime, context: Context, choice: Choice) -> None:
    """Note an order in the ledger and carry it out, for somebody who holds `ERASING` and what it names already."""
    if context.unsettled:
        await rt.replay(context)
    async with context.traces.quiet():
        try:
            await _commit(rt, context, choice)
        finally:
            context.erased_at = rt.clock()


@dataclass(slots=True)
class _Done:
    """What plans came to, added up."""

    gone: Counter[str] = field(default_factory=Counter[str])
    released: Counter[str] = field(default_factory=Counter[str])
    rows: dict[str, Fate] = field(default_factory=dict[str, Fate])
    presences: dict[Presence, Fate] = field(default_factory=dict[Presence, Fate])
    purges: bool = False

    def add(self, planned: Plan) -> _Done:
        self.gone += planned.gone
        self.released += planned.released
        self.rows |= planned.done.rows
        self.presences |= planned.done.presences
        self.purges |= planned.purges
        return self


async def _carry_out(rt: Runtime, context: Context, choose: Callable[[], Awaitable[Choice]]) -> tuple[Choice, _Done]:
    """Choose, note in the ledger, plan and commit. Once begun it is carried through, also when the caller is gone."""
    return await asyncio.shield(_erase(rt, context, choose))


async def _erase(rt: Runtime, context: Context, choose: Callable[[], Awaitable[Choice]]) -> tuple[Choice, _Done]:
    names: set[str] = set()
    for attempt in range(1, MAX_REPLANS + 1):
        async with context.alone_on({*names, ERASING}), context.traces.quiet():
            if context.unsettled:
                await rt.replay(context)
            choice = await choose()
            if not choice.names <= names:
                names |= choice.names
                continue
            try:
                return choice, await _commit(rt, context, choice)
            except StaleHead:
                if attempt == MAX_REPLANS:
                    raise
                # What is chosen next is noted in the ledger again, and its commit counts for both lines.
                context.unsettled = False
            finally:
                context.erased_at = rt.clock()
    raise StaleHead("others keep writing to what is to be forgotten: try again", retry_after_s=1)


async def _commit(rt: Runtime, context: Context, choice: Choice) -> _Done:
    """Carry out an order, in several commits when it is large; the last one says that the ledger was followed."""
    done = _Done()
    parts = list(_parts(choice.order))
    planned = await store_erase.plan(context.db, context.sets, parts[0], rt.clock())
    if len(parts) == 1 and not planned.done:
        return done
    refused = _refused(context, choice)
    seal = await tombstones.Seal.of(context.db)
    marks = [mark for row in refused for mark in suppression.marks_of(context, row)]
    lines = tombstones.lines(choice.order, context.sets, choice.scope_sets, seal, marks=marks)
    context.unsettled = True
    seq = await note(rt, context, lines)
    for number, part in enumerate(parts, 1):
        if number > 1:
            planned = await store_erase.plan(context.db, context.sets, part, rt.clock())
        if number == len(parts):
            planned.batch.entries += choice.entries
            suppression.suppress(planned.batch, context, refused, reason="forgotten", by=choice.refused_by or "")
            store_erase.note_tombstone(planned.batch, seq)
        if planned.purges:
            rt.owe_scrub(context)
        await context.commit(planned.batch, await changes_of(context, planned))
        done.add(planned)
    context.unsettled = False
    if done.purges:
        await rt.scrub(context)
    return done


def _refused(context: Context, choice: Choice) -> list[Row]:
    """What a person forgot, which is not learned again unasked."""
    if choice.refused_by is None:
        return []
    records = [row for unit in choice.units for row in unit.rows if row["id"].table_name in store_facts.FACT_TABLES]
    going = [row for row in records if isinstance(choice.order.rows.get(ref_of_row(row)), Gone)]
    return [store_facts.from_record(row, context.sets) for row in going]


def _parts(order: Order) -> Iterable[Order]:
    """An order in parts that one commit can take. Sessions and entities come last: they outlive their rows."""
    rows = sorted(order.rows.items(), key=lambda row: row[0].startswith("session:"))
    last = max(0, (len(rows) - 1) // MAX_ROWS)
    for number in range(last):
        yield Order(rows=dict(rows[number * MAX_ROWS : (number + 1) * MAX_ROWS]))
    yield Order(rows=dict(rows[last * MAX_ROWS :]), presences=order.presences, nodes=order.nodes)


async def note(rt: Runtime, context: Context, lines: Sequence[Line]) -> int:
    """Write lines, one at least, into the ledger; the number of the last.

    Raises: Unavailable, and nothing may be erased.
    """
    change = await store_commit.last_change(context.db)

    def append() -> int:
        return [rt.ledger.append(context.id, line.kind, line.ids, change, line.detail) for line in lines][-1]

    return await asyncio.to_thread(append)


async def changes_of(context: Context, planned: Plan) -> Changes:
    """What the finder must change, as rows stand after the commit."""
    windows = [turn for turn, _ in planned.windows]
    drop = [f"turn:{key}" for key in (*planned.turns, *(turn.id for turn in windows))]
    changes = Changes(drop=[*dict.fromkeys(drop), *planned.rows])
    chunks = await store_sessions.chunks_of(context.db, [turn for turn in windows if turn.active])
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
def _forgotten(choice: Choice, done: _Done) -> Forgotten:
    alone = sum(1 for unit in choice.units if unit.presence is not None and unit.presence in done.presences)
    rows = sum(done.gone[table] + done.released[table] for table in store_erase.MEMORY_TABLES)
    released = sum(done.released[table] for table in store_erase.MEMORY_TABLES)
    return Forgotten(
        rows=rows + alone,
        memories=_memories(choice, done),
        refs=tuple(done.rows),
        released=released,
        remaining=choice.remaining,
        unknown=choice.unknown,
        degraded=("vector",) if choice.meant.late else (),
    )


def _memories(choice: Choice, done: _Done) -> int:
    return sum(
        1
        for unit in choice.units
        if any(ref_of_row(row) in done.rows for row in unit.rows) or unit.presence in done.presences
    )
