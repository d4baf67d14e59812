"""Kept replies as rows: `reply:<namespace>`, with the rows each one tells of."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from keeps.core.replies import ReplyKey, StoredReply
from keeps.store.db import Db, RecordID
from keeps.store.rows import Record

TABLE: Final = "reply"


def record_id(namespace: str) -> RecordID:
    """The row of the reply kept under `namespace`."""
    return RecordID(TABLE, namespace)


def to_row(key: ReplyKey, body: str, rows: Sequence[str], at: datetime) -> Record:
    """A reply as a row, without its id. `rows`: erasing one of them empties the reply."""
    return {
        "fingerprint": key.fingerprint,
        "status": key.status,
        "body": body,
        "rows": list(rows),
        "erased": False,
        "created_at": at,
        "expires_at": key.expires_at,
    }


async def find(db: Db, namespace: str, now: datetime) -> StoredReply | None:
    """The reply kept under `namespace`; `None` when there is none or its time is over."""
    row = (await db.run("SELECT * FROM ONLY $id TIMEOUT 2s;", id=record_id(namespace)))[0]
    if not row or row["expires_at"] <= now:
        return None
    return StoredReply(
        fingerprint=row["fingerprint"],
        status=row["status"],
        body="" if row["erased"] else row["body"],
        erased=row["erased"],
    )


async def telling_of(db: Db, refs: Sequence[str]) -> list[RecordID]:
    """The replies that tell of one of these rows, by `table:id`, and still hold their text."""
    (found,) = await db.run(
        "SELECT VALUE id FROM reply WHERE rows CONTAINSANY $refs AND erased = false TIMEOUT 5s;", refs=list(refs)
    )
    return list(found)


async def prune(db: Db, now: datetime) -> int:
    """Remove replies whose time is over; how many there were."""
    removed = await db.run("DELETE reply WHERE expires_at <= $now RETURN BEFORE TIMEOUT 30s;", timeout_s=35.0, now=now)
    return len(removed[0])
