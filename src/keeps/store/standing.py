"""What may stand in a prompt whatever is asked: pinned memories, instructions, and how much waits for a person."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from keeps.core.facts import Row
from keeps.store.db import Db
from keeps.store.facts import from_record
from keeps.store.rows import key_of
from keeps.store.scopes import ScopeSets

MOST: Final = 100
"""Rows of each sort that are read, at most, the newest first."""

_LIVE: Final = "status = 'confirmed' AND forgotten_at IS NONE AND scope_set IN $sets ORDER BY known_at DESC LIMIT $most"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """`rows`: pinned ones and instructions, each once. `waiting`: how many proposals nobody decided on."""

    rows: tuple[Row, ...] = ()
    waiting: int = 0


async def standing(db: Db, sets: ScopeSets, readable: Collection[str], *, waiting_in: Collection[str]) -> Standing:
    """What stands there for a reader of these scope sets. What waits is counted in the scope sets `waiting_in`."""
    pinned, rules, waiting = await db.run(
        "SELECT * FROM attribute WITH INDEX attribute_pinned WHERE pinned = true AND " + _LIVE + " TIMEOUT 2s;"
        "SELECT * FROM attribute WITH INDEX attribute_kind WHERE kind = 'instruction' AND " + _LIVE + " TIMEOUT 2s;"
        "SELECT scope_set, count() AS waiting FROM proposal WHERE status = 'proposed' GROUP BY scope_set TIMEOUT 2s;",
        sets=sorted(readable),
        most=MOST,
    )
    rows = {key_of(row["id"]): from_record(row, sets) for row in (*pinned, *rules) if row["scope_set"] in sets}
    count = sum(int(row["waiting"]) for row in waiting if row["scope_set"] in waiting_in)
    return Standing(rows=tuple(rows.values()), waiting=count)
