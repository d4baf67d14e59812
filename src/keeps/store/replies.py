"""Replies kept under their idempotency key, with the ids of the rows they tell of."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from keeps.core.replies import ReplyKey, StoredReply
from keeps.store.db import Db, RecordID
from keeps.store.rows import Record

_FIND: Final = "SELECT fingerprint, status, body, erased FROM ONLY $id WHERE expires_at > $now TIMEOUT 2s;"


async def find(db: Db, namespace: str, now: datetime) -> StoredReply | None:
    """The reply kept under `namespace` that has not run out; None when there is none."""
    row = (await db.run(_FIND, id=RecordID("reply", namespace), now=now))[0]
    if not row:
        return None
    return StoredReply(fingerprint=row["fingerprint"], status=row["status"], body=row["body"], erased=row["erased"])


def to_put(key: ReplyKey, body: str, rows: Sequence[str], at: datetime) -> Record:
    """A reply as an entry of `Batch.puts`: it takes the place of one that ran out. `rows` are `table:key`."""
    return {
        "id": RecordID("reply", key.namespace),
        "row": {
            "fingerprint": key.fingerprint,
            "status": key.status,
            "body": body,
            "rows": list(rows),
            "erased": False,
            "created_at": at,
            "expires_at": key.expires_at,
        },
    }
