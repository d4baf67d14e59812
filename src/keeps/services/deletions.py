"""Deleting one memory with its whole history, and bringing it back within a moment.

The rows leave every table at once, as a purge takes them. For as long as the deletion can be undone they lie apart,
where nothing reads them but the undo of the key that deleted them; only then does the ledger say that they are gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from keeps.core.access import Caller, Verb
from keeps.core.entities import EntityRef
from keeps.core.erasure import Fate, Gone, Order, fate, given_up
from keeps.core.errors import Conflict, Forbidden, IllegalTransition, NotFound
from keeps.core.errors import Gone as Erased
from keeps.core.facts import Row, Status
from keeps.core.memories import Memory, of_row
from keeps.core.scopes import Lens
from keeps.core.status import Move
from keeps.finder.base import Name
from keeps.services import discarding, erase, moves, standing, suppression, undoing
from keeps.services.choosing import Choice, Unit
from keeps.services.index import Changes, entry_of
from keeps.services.runtime import Context, Runtime
from keeps.services.standing import PEOPLE, Held
from keeps.store import erase as store_erase
from keeps.store import facts as store_facts
from keeps.store import memories as store_memories
from keeps.store import named as store_named
from keeps.store import rows as store_rows
from keeps.store import sealed as store_sealed
from keeps.store.commit import Batch
from keeps.store.rows import Record
from keeps.store.sealed import Image, Sealed


async def delete(rt: Runtime, context: Context, caller: Caller, memory_id: str, *, rev: int | None = None) -> Memory:
    """The memory as it was, gone with its history from everything that reads: it can be undone until `undo_until`,
    with the same key. What also belongs to others stays for those, and what only waited is gone at once; neither can be
    undone.

    Raises: NotFound, Forbidden, IllegalTransition, StaleRevision; Unavailable when nothing was deleted.
    """

    async def act() -> Memory:
        held = await standing.find(rt, context, caller, memory_id, moves=True)
        standing.check_rev(held.memory, rev)
        await standing.allowed(rt, context, caller, held, Move.FORGET)
        if held.actor not in PEOPLE:
            raise Forbidden("erasing what is another person's needs a request of theirs: use the routes that forget")
        if held.memory.proposal is not None:
            no = discarding.No(what=Move.FORGET, by=caller.principal_id, to=lambda _: Status.FORGOTTEN, remembers=True)
            return await discarding.discard(rt, context, held.memory, no)
        return await _delete_rows(rt, context, caller, held)

    return await moves.alone(rt, context, memory_id, act, rev=rev, erases=True)


async def _delete_rows(rt: Runtime, context: Context, caller: Caller, held: Held) -> Memory:
    row = held.memory.row
    assert row is not None
    region = caller.region(Verb.MEMORY_FORGET)
    becomes = fate(row.scope, given_up(row.scope, region, Lens()), Gone.PURGE)
    if becomes is None:
        raise Forbidden("memory:forget is not held over the scope of this memory")
    records = await _history(context, row)
    window = timedelta(seconds=context.consent.settings.undo_seconds)
    if becomes is not Gone.PURGE or not window:
        return await _for_good(rt, context, caller, held, records, becomes)
    now = rt.clock()
    order = Order(rows=dict.fromkeys(records, Gone.PURGE))
    if context.unsettled:
        await rt.replay(context)
    async with context.traces.quiet():
        planned = await store_erase.plan(context.db, context.sets, order, now)
        batch = planned.batch
        sealed = Sealed(
            memory=row.id,
            scope_set=row.scope.id,
            key_id=str(caller.key_id),
            ends_at=now + window,
            refs=tuple(records),
            images=await store_sealed.images_of(context.db, batch),
            marks=tuple(
                suppression.suppress(
                    batch, context, _rows(context, records), reason="forgotten", by=caller.principal_id
                )
            ),
        )
        batch.puts.append({"id": store_sealed.record_id(row.id), "row": store_sealed.to_row(sealed)})
        batch.entries.append(moves.entry(caller.principal_id, Move.FORGET, held.memory.ref))
        rt.owe_scrub(context)
        try:
            await context.commit(batch, await erase.changes_of(context, planned))
        finally:
            context.erased_at = rt.clock()
    await rt.scrub(context)
    return replace(held.memory, status=Status.FORGOTTEN, row=None, undo_until=sealed.ends_at)


async def _history(context: Context, row: Row) -> dict[str, Record]:
    """A row with every version of what it is a version of, by `table:id`."""
    ref = store_rows.ref_of(row)
    records = await store_facts.records(context.db, [ref])
    if ref.startswith("attribute:"):
        versions = await store_named.versions_with(context.db, list(records.values()))
        records |= {f"attribute:{store_rows.key_of(version['id'])}": version for version in versions}
    # What it was is what it is known by: it comes first.
    return {ref: records[ref], **records}


def _rows(context: Context, records: Mapping[str, Record]) -> list[Row]:
    return [store_facts.from_record(record, context.sets) for record in records.values()]


async def _for_good(
    rt: Runtime, context: Context, caller: Caller, held: Held, records: Mapping[str, Record], becomes: Fate
) -> Memory:
    """Delete without a way back: at once into the ledger, as every other erasure."""
    rows = list(records.values())
    lines = [moves.entry(caller.principal_id, Move.FORGET, held.memory.ref)]
    choice = Choice(
        order=Order(rows=dict.fromkeys(records, becomes)),
        scope_sets={ref: record["scope_set"] for ref, record in records.items()},
        names=set(),
        units=[Unit(rows)],
        entries=lines,
        refused_by=caller.principal_id,
    )
    await erase.carry_out_alone(rt, context, choice)
    return replace(held.memory, status=Status.FORGOTTEN, row=None)


async def undo(rt: Runtime, context: Context, caller: Caller, memory_id: str) -> Memory:
    """A deleted memory, back as it was, for the key that deleted it and while it can be undone.

    Raises:
        NotFound: nothing of that id was deleted lately with this key, and there is none for this caller.
        IllegalTransition: it is there, or only rests: nothing of it was deleted.
        Gone: it is too late.
        Conflict: something else stands in its place meanwhile.
    """
    async with context.alone_on({f"memory:{memory_id}", erase.ERASING}), context.traces.quiet():
        sealed = await store_sealed.find(context.db, memory_id)
        if sealed is None or sealed.key_id != caller.key_id or sealed.scope_set not in context.sets:
            await _refuse_undo(rt, context, caller, memory_id)
            raise NotFound(f"memory {memory_id} does not exist")
        if standing.actor_of(context, caller, context.sets[sealed.scope_set]) not in PEOPLE:
            raise NotFound(f"memory {memory_id} does not exist")
        now = rt.clock()
        if not sealed.images or sealed.ends_at <= now:
            raise Erased("it is too late to bring this memory back: what it said is erased. Save it anew")
        batch, changes = Batch(at=now), Changes()
        await _put_back(context, sealed.images, batch, changes)
        batch.deletes.append(store_sealed.record_id(memory_id))
        rows = [
            store_facts.from_record(image.before, context.sets)
            for image in sealed.images
            if f"{image.id.table_name}:{image.id.id}" in sealed.refs
        ]
        await suppression.lift(batch, context, rows)
        batch.entries.append(moves.entry(caller.principal_id, Move.UNDO, sealed.refs[0]))
        await context.commit(batch, changes)
    row = await store_memories.find_row(context.db, context.sets, memory_id)
    if row is None:
        raise NotFound(f"memory {memory_id} does not exist")
    return of_row(row, now)


async def _refuse_undo(rt: Runtime, context: Context, caller: Caller, memory_id: str) -> None:
    """Raises: NotFound, Forbidden; IllegalTransition when the memory is there, so that nothing is to be undone."""
    held = await standing.find(rt, context, caller, memory_id)
    if held.actor not in PEOPLE:
        await standing.allowed(rt, context, caller, held, Move.UNDO)
    if held.memory.status is Status.EXPIRED:
        raise IllegalTransition("this memory was not deleted, it only rests: renew it, and it is in use again")
    raise IllegalTransition(
        f"there is nothing to undo: this memory was not deleted, or is back; it is {held.memory.status}"
    )


async def _put_back(context: Context, images: Sequence[Image], batch: Batch, changes: Changes) -> None:
    """Let a commit also bring rows back as they were, as far as nobody wrote over them since."""
    current = await store_sealed.current(context.db, images)
    for image in images:
        row = current.get(str(image.id))
        table = image.id.table_name
        if table == "chain":
            _put_chain_back(image, row, batch)
        elif row is None and image.after is None:
            _put_row_back(context, image, batch, changes)
        elif row is not None and image.after is not None:
            # Only what the deletion wrote is taken back: what others wrote since stays.
            ours = {name: image.before.get(name) for name, value in image.after.items() if row.get(name) == value}
            if ours:
                batch.patch(image.id, **ours)
                batch.touch(image.id)
                _back_in_sight(image, changes)


def _put_chain_back(image: Image, row: Record | None, batch: Batch) -> None:
    before = {name: value for name, value in image.before.items() if name != "id"}
    left = image.after["rev"] if image.after is not None else None
    if (row["rev"] if row is not None else None) != left:
        raise Conflict("another value was saved in its place since: delete that one first")
    # Never a number again that somebody may have read of it.
    before["rev"] = (row["rev"] if row is not None else before["rev"]) + 1
    batch.chains.append({"id": image.id, "expected": row["rev"] if row is not None else 0, "set": before})


def _put_row_back(context: Context, image: Image, batch: Batch, changes: Changes) -> None:
    table = image.id.table_name
    if table == "relates_to":
        batch.relations.append(image.before)
    else:
        content = {name: value for name, value in image.before.items() if name != "id"}
        batch.puts.append({"id": image.id, "row": content})
    if table == store_rows.ENTITY:
        _back_in_sight(image, changes)
        return
    batch.touch(image.id)
    if table in store_facts.FACT_TABLES and image.before.get("forgotten_at") is None:
        changes.put.append(entry_of(store_facts.from_record(image.before, context.sets)))


def _back_in_sight(image: Image, changes: Changes) -> None:
    if image.id.table_name != store_rows.ENTITY or image.before.get("forgotten_at") is not None:
        return
    ref: EntityRef = store_rows.stored_ref(image.before["ref"])
    changes.names.append(Name(entity=str(ref), scope_set=image.before["scope_set"], name=ref.name))


async def finish_deletions(rt: Runtime, context: Context) -> int:
    """Make every deletion final that cannot be undone any more; how many there were.

    Raises: Unavailable when the ledger cannot be written; then nothing is final.
    """
    return await asyncio.shield(_finish(rt, context))


async def _finish(rt: Runtime, context: Context) -> int:
    async with context.alone_on({erase.ERASING}):
        if context.unsettled:
            await rt.replay(context)
        return await undoing.finish(context, rt.ledger, rt.clock())
