"""Deletions made final: once nothing can be undone any more, the ledger says so and the last copy goes.

It needs nothing of a runtime but its ledger, so that a record that is opened finishes what a crash left open.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from keeps.core.audit import Entry
from keeps.core.erasure import Gone, Order
from keeps.store import commit as store_commit
from keeps.store import erase as store_erase
from keeps.store import sealed as store_sealed
from keeps.store import tombstones
from keeps.store.commit import Batch
from keeps.store.ledger import Ledger
from keeps.store.sealed import Sealed

if TYPE_CHECKING:
    from keeps.services.runtime import Context

KNOWN_FOR: Final = timedelta(days=1)
"""How long it is still said of a deletion that it came too late to undo it."""

_BY: Final = "sweep"


async def finish(context: Context, ledger: Ledger, now: datetime) -> int:
    """Make every deletion final whose time to undo it is over; how many there were.

    Nobody else may erase meanwhile. Raises: Unavailable when the ledger cannot be written; then nothing is final.
    """
    done = 0
    for one in await store_sealed.ended(context.db, now):
        if one.images:
            await _seal(context, ledger, one, now)
            done += 1
        elif one.ends_at + KNOWN_FOR <= now:
            batch = Batch(at=now)
            batch.deletes.append(store_sealed.record_id(one.memory))
            await context.commit(batch)
    return done


async def _seal(context: Context, ledger: Ledger, one: Sealed, now: datetime) -> None:
    order = Order(rows=dict.fromkeys(one.refs, Gone.PURGE))
    lie = dict.fromkeys(one.refs, one.scope_set)
    seal = await tombstones.Seal.of(context.db)
    lines = tombstones.lines(order, context.sets, lie, seal, marks=one.marks)
    change = await store_commit.last_change(context.db)

    def append() -> int:
        return [ledger.append(context.id, line.kind, line.ids, change, line.detail) for line in lines][-1]

    context.unsettled = True
    seq = await asyncio.to_thread(append)
    batch = Batch(at=now)
    row = store_sealed.to_row(replace(one, images=()))
    batch.puts.append({"id": store_sealed.record_id(one.memory), "row": row})
    batch.entries.append(Entry(actor=_BY, action="memory.forgotten", target=one.refs[0]))
    store_erase.note_tombstone(batch, seq)
    await context.commit(batch)
    context.unsettled = False
