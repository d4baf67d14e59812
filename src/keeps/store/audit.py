"""The audit rows of a context: appended with the commit they tell of, and never changed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from keeps.core.audit import FIRST, Entry, Sealed
from keeps.store.db import Db, RecordID
from keeps.store.rows import Record

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
