"""What people decided about their own memory: a row for each home."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from keeps.core.controls import Controls, of_document, to_document
from keeps.core.scopes import ScopePath
from keeps.store.commit import Batch
from keeps.store.db import Db, RecordID
from keeps.store.rows import Record, key_of

TABLE: Final = "controls"


def record_id(home: ScopePath) -> RecordID:
    """The row of a home."""
    return RecordID(TABLE, home)


def add(batch: Batch, home: ScopePath, controls: Controls, at: datetime) -> None:
    """Keep controls, if they are still as they were read: their number is one more than that of what they replace."""
    row: dict[str, Any] = {"rev": controls.rev, "document": to_document(controls), "updated_at": at}
    record = {"id": record_id(home), "row": row}
    if controls.rev == 1:
        batch.creates.append(record)
        return
    batch.guards.append({"id": record_id(home), "rev": controls.rev - 1})
    batch.puts.append(record)


async def load(db: Db) -> dict[ScopePath, Controls]:
    """The controls of everybody, by their home."""
    (rows,) = await db.run("SELECT * FROM controls TIMEOUT 10s;", timeout_s=15.0)
    return {ScopePath(key_of(row["id"])): _from_row(row) for row in rows}


def _from_row(row: Record) -> Controls:
    document: Mapping[str, Any] = row["document"]
    return of_document(document, rev=int(row["rev"]))
