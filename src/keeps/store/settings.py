"""The settings in force, and every version of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from keeps.store.commit import Batch
from keeps.store.db import Db, RecordID
from keeps.store.rows import Record

TABLE: Final = "setting"
HISTORY: Final = "setting_history"
_CURRENT: Final = RecordID(TABLE, "current")


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One version of the document. `by`: who made it. `at`: when."""

    number: int
    document: Mapping[str, Any]
    by: str
    at: datetime
    reason: str | None = None


def add(batch: Batch, version: Version) -> None:
    """Make a version the one in force. The commit is a `Duplicate` when somebody else made one of that number."""
    _keep(batch, version)
    row = {"version": version.number, "document": dict(version.document)}
    batch.puts.append({"id": _CURRENT, "row": row})


def add_first(batch: Batch, version: Version) -> None:
    """Keep what held before anything was set, as a version to come back to."""
    _keep(batch, version)


def _keep(batch: Batch, version: Version) -> None:
    row = {"document": dict(version.document), "by": version.by, "at": version.at, "reason": version.reason}
    batch.creates.append({"id": RecordID(HISTORY, version.number), "row": row})


async def current(db: Db) -> tuple[int, Mapping[str, Any]] | None:
    """The number of the version in force, and its document; None before anything was set."""
    row = (await db.run("SELECT * FROM ONLY setting:current TIMEOUT 2s;"))[0]
    return (int(row["version"]), row["document"]) if row else None


async def find(db: Db, number: int) -> Version | None:
    """A version by its number; None when there is none."""
    row = (await db.run("SELECT * FROM ONLY $id TIMEOUT 2s;", id=RecordID(HISTORY, number)))[0]
    return _from_row(row) if row else None


async def before(db: Db, number: int, *, limit: int) -> list[Version]:
    """Up to `limit` versions with numbers below `number`, the newest first."""
    ids = [RecordID(HISTORY, one) for one in range(max(0, number - limit), number)]
    (rows,) = await db.run("SELECT * FROM $ids TIMEOUT 5s;", ids=ids)
    return sorted(map(_from_row, rows), key=lambda version: version.number, reverse=True)


def _from_row(row: Record) -> Version:
    return Version(
        number=int(row["id"].id),
        document=row["document"],
        by=row["by"],
        at=row["at"],
        reason=row.get("reason"),
    )


_OLD: Final = """
    SELECT count() FROM attribute
    WHERE kind = $kind AND status = 'confirmed' AND valid_until = NONE AND recorded_at < $before
    GROUP ALL TIMEOUT 30s;
"""
_UNASKED: Final = """
    SELECT count() FROM attribute
    WHERE user_confirmed = false AND status = 'confirmed' AND valid_until = NONE
    GROUP ALL TIMEOUT 30s;
"""


async def count_older(db: Db, kind: str, before: datetime) -> int:
    """How many memories of a kind in use were kept before a time."""
    return _count((await db.run(_OLD, timeout_s=35.0, kind=kind, before=before))[0])


async def count_unasked(db: Db) -> int:
    """How many memories in use nobody was asked about."""
    return _count((await db.run(_UNASKED, timeout_s=35.0))[0])


async def is_used(db: Db, kind: str) -> bool:
    """True when a memory or a proposal has the kind."""
    found = await db.run(
        "SELECT VALUE id FROM attribute WHERE kind = $kind LIMIT 1 TIMEOUT 20s;"
        "SELECT VALUE id FROM proposal WHERE row.kind = $kind LIMIT 1 TIMEOUT 20s;",
        timeout_s=45.0,
        kind=kind,
    )
    return any(found)


def _count(rows: list[Record]) -> int:
    return int(rows[0]["count"]) if rows else 0
