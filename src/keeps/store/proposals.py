"""What waits for a person: counted here, made and settled with the rows it may become."""

from __future__ import annotations

from collections.abc import Collection

from keeps.store.db import Db


async def count_waiting(db: Db, readable: Collection[str]) -> int:
    """How many proposals in the readable scope sets nobody has decided on."""
    # Few wait, and a reader may hold very many scope sets: those that wait are read, by their index.
    (found,) = await db.run(
        "SELECT scope_set, count() AS waiting FROM proposal WHERE status = 'proposed' GROUP BY scope_set TIMEOUT 2s;"
    )
    return sum(int(row["waiting"]) for row in found if row["scope_set"] in readable)
