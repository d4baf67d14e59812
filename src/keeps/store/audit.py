"""The audit rows of a context: appended with the commit they tell of, and never changed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, cast

from keeps.core.audit import FIRST, RESTART, Entry, Head, Sealed
from keeps.store.db import Db, RecordID
from keeps.store.rows import Record
from keeps.store.secrets import write_private

TABLE: Final = "audit"


def to_row(sealed: Sealed) -> Record:
    """An entry in its place as a row."""
    entry = sealed.entry
    return {
        "id": RecordID(TABLE, sealed.seq),
        "at_us": round(sealed.at.timestamp() * 1_000_000),
        "actor": entry.actor,
        "action": entry.action,
        "target": entry.target,
        "before": dict(entry.before) if entry.before is not None else None,
        "after": dict(entry.after) if entry.after is not None else None,
        "request": entry.request,
        "prev": sealed.prev,
        "mac": sealed.mac,
    }


def from_row(row: Record) -> Sealed:
    """The entry a row holds, in its place."""
    return Sealed(
        seq=int(row["id"].id),
        at=datetime.fromtimestamp(row["at_us"] / 1_000_000, UTC),
        entry=Entry(
            actor=row["actor"],
            action=row["action"],
            target=row["target"],
            before=row.get("before"),
            after=row.get("after"),
            request=row.get("request"),
        ),
        prev=row["prev"],
        mac=row["mac"],
    )


async def head(db: Db) -> tuple[int, str]:
    """The number and the seal of the last row; 0 and nothing when there is none."""
    (found,) = await db.run("SELECT id, mac FROM audit:1.. ORDER BY id DESC LIMIT 1 TIMEOUT 10s;", timeout_s=15.0)
    return (int(found[0]["id"].id), str(found[0]["mac"])) if found else (0, FIRST)


async def find(db: Db, seq: int) -> Sealed | None:
    """The row of a number; None when there is none."""
    row = (await db.run("SELECT * FROM ONLY $id TIMEOUT 2s;", id=RecordID(TABLE, seq)))[0]
    return from_row(row) if row else None


PAGE: Final = 1000


async def every(db: Db) -> AsyncIterator[Sealed]:
    """All rows in order of their numbers."""
    last, _ = await head(db)
    for start in range(1, last + 1, PAGE):
        for row in await _numbered(db, start, min(start + PAGE, last + 1)):
            yield row


async def _numbered(db: Db, start: int, end: int) -> list[Sealed]:
    """The rows with numbers from `start` up to but not `end`, in order."""
    ids = [RecordID(TABLE, number) for number in range(start, end)]
    (rows,) = await db.run("SELECT * FROM $ids TIMEOUT 20s;", timeout_s=25.0, ids=ids)
    return sorted(map(from_row, rows), key=lambda row: row.seq)


_CHOSEN: Final = """
    SELECT * FROM audit:1.. WHERE
        ($below = NONE OR record::id(id) < $below)
        AND ($action = NONE OR action = $action OR string::starts_with(action, string::concat($action, '.')))
        AND ($target = NONE OR target = $target)
        AND ($actor = NONE OR actor = $actor)
    ORDER BY id DESC LIMIT $limit TIMEOUT 20s;
"""


async def page(
    db: Db, *, action: str | None, target: str | None, actor: str | None, below: int | None, limit: int
) -> list[Sealed]:
    """Up to `limit` rows with numbers below `below`, the newest first. `action`: also what begins with it and a dot."""
    if action is None and target is None and actor is None:
        end = (await head(db))[0] + 1 if below is None else below
        return (await _numbered(db, max(1, end - limit), end))[::-1]
    (rows,) = await db.run(_CHOSEN, timeout_s=25.0, action=action, target=target, actor=actor, below=below, limit=limit)
    return list(map(from_row, rows))


async def restarts(db: Db) -> list[Sealed]:
    """The rows that say that the chain begins anew, in order."""
    (rows,) = await db.run("SELECT * FROM audit WHERE action = $action TIMEOUT 10s;", timeout_s=15.0, action=RESTART)
    return sorted(map(from_row, rows), key=lambda row: row.seq)


HEAD_NAME: Final = "audit.head"
"""The end of the audit as it was a minute ago, in the folder of the context and outside of the record."""


def write_head(folder: Path, head: Head) -> None:
    """Keep the end of the audit in the folder of a context."""
    folder.mkdir(exist_ok=True)
    said = {"seq": head.seq, "mac": head.mac, "at_us": round(head.at.timestamp() * 1_000_000), "seal": head.seal}
    write_private(folder / HEAD_NAME, json.dumps(said).encode())


def read_head(folder: Path) -> Head | None:
    """The end of the audit that is kept in the folder of a context; None without one, or for what is none."""
    try:
        said = cast("dict[str, Any]", json.loads((folder / HEAD_NAME).read_bytes()))
        return Head(
            seq=int(said["seq"]),
            mac=str(said["mac"]),
            at=datetime.fromtimestamp(int(said["at_us"]) / 1_000_000, UTC),
            seal=str(said["seal"]),
        )
    except (OSError, ValueError, TypeError, KeyError, OverflowError):
        return None
