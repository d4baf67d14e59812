"""Rows whose time is over: those in use that ended, and those that ended long enough ago."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Final, LiteralString

from keeps.core.facts import Row
from keeps.store.db import Db
from keeps.store.facts import from_record
from keeps.store.scopes import ScopeSets

_READ_S: Final = 35.0

_FROM: Final[Mapping[str, LiteralString]] = {
    "attribute": "SELECT * FROM attribute",
    "relates_to": "SELECT * FROM relates_to",
    "action": "SELECT * FROM action",
}

_OVER: Final[LiteralString] = (
    " WHERE status = 'confirmed' AND expires_at != NONE AND expires_at <= $now AND forgotten_at = NONE"
    " LIMIT $limit TIMEOUT 30s;"
)
_LONG_OVER: Final[LiteralString] = (
    " WHERE status = 'expired' AND status_at != NONE AND status_at <= $since AND forgotten_at = NONE"
    " LIMIT $limit TIMEOUT 30s;"
)


_PAGE: Final = 200

_WANTED: Final[LiteralString] = (
    " WHERE status = 'confirmed' AND user_confirmed = false AND origin IN $origins AND forgotten_at = NONE"
    " ORDER BY recorded_at, id TIMEOUT 30s;"
)
_UNASKED: Final[Mapping[str, LiteralString]] = {
    "attribute": "SELECT id, recorded_at FROM attribute" + _WANTED,
    "relates_to": "SELECT id, recorded_at FROM relates_to" + _WANTED,
    "action": "SELECT id, recorded_at FROM action" + _WANTED,
}


async def over(db: Db, sets: ScopeSets, now: datetime, *, limit: int) -> list[Row]:
    """Rows in use whose time is over, at most `limit`, in no order. Every row is looked at: not for every minute."""
    return await _found(db, sets, _OVER, limit, now=now)


async def long_over(db: Db, sets: ScopeSets, since: datetime, *, limit: int) -> list[Row]:
    """Rows that ended at `since` or before, at most `limit`, in no order."""
    return await _found(db, sets, _LONG_OVER, limit, since=since)


async def unasked(db: Db, sets: ScopeSets, origins: Sequence[str]) -> AsyncIterator[Row]:
    """Rows in use that no person stands behind, of these origins, the first written first."""
    for table in _FROM:
        (ids,) = await db.run(_UNASKED[table], timeout_s=_READ_S, origins=list(origins))
        for start in range(0, len(ids), _PAGE):
            (found,) = await db.run(
                "SELECT * FROM $ids TIMEOUT 30s;",
                timeout_s=_READ_S,
                ids=[row["id"] for row in ids[start : start + _PAGE]],
            )
            for row in found:
                if row["scope_set"] in sets:
                    yield from_record(row, sets)


async def _found(db: Db, sets: ScopeSets, which: LiteralString, limit: int, **params: datetime) -> list[Row]:
    rows: list[Row] = []
    for part in _FROM.values():
        if len(rows) < limit:
            (found,) = await db.run(part + which, timeout_s=_READ_S, limit=limit - len(rows), **params)
            rows += [from_record(row, sets) for row in found if row["scope_set"] in sets]
    return rows
