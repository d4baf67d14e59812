"""Keyed hashes of texts made again, for a record that lives on under another pepper.

Without this nothing could be forgotten by its words any more: the hashes it is found by would match nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from keeps.services import audit
from keeps.services.reconcile import fingerprint_of, texts_of
from keeps.services.remember import turn_texts
from keeps.services.runtime import Context, Runtime
from keeps.store import facts as store_facts
from keeps.store import tables as store_tables
from keeps.store.commit import Batch
from keeps.store.db import RecordID
from keeps.store.rows import Record, key_of, turn_from_row
from keeps.store.tables import Table

_PROPOSAL: Final = "proposal"
_TURN: Final = "turn"


async def rehash(rt: Runtime, context: Context) -> int:
    """Make every keyed hash of a text again from the text; how many rows have some.

    The audit goes on under the new key, and says from where.
    """
    done = 0
    for name in (*store_facts.FACT_TABLES, _TURN, _PROPOSAL):
        async for rows in store_tables.pages(context.db, Table(name, edges=False)):
            batch = Batch(at=rt.clock())
            for row in rows:
                _patch(context, name, row, batch)
            if batch.patches:
                await context.commit(batch)
            done += len(batch.patches)
    await audit.restart(rt, context, why="pepper", new_key=True)
    return done


def _patch(context: Context, table: str, row: Record, batch: Batch) -> None:
    if table == _TURN:
        batch.patch(
            row["id"], folds=_folds(context, row, turn_texts(turn_from_row(row, context.sets[row["scope_set"]])))
        )
        return
    if table == _PROPOSAL and not row["row"]:
        return
    content = row if table != _PROPOSAL else row["row"] | {"id": RecordID(row["target"], key_of(row["id"]))}
    said = store_facts.from_record(content, context.sets)
    again = {"folds": _folds(context, content, texts_of(said)), "fingerprint": fingerprint_of(context, said)}
    if table != _PROPOSAL:
        batch.patch(row["id"], **again)
    else:
        batch.patch(row["id"], row=row["row"] | again, fingerprint=again["fingerprint"])


def _folds(context: Context, row: Record, texts: Sequence[str]) -> list[str]:
    """Hashes where there were some: a row that lost part of its text has none, and gets none."""
    return [context.fold_key(text) for text in texts] if row["folds"] else []
