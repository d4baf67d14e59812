"""What a search found, read again: turns and remembered rows together, since every read has a price of its own."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from keeps.core.facts import Row
from keeps.core.sessions import Turn
from keeps.store.db import Db
from keeps.store.facts import from_record, record_id
from keeps.store.rows import key_of, turn_from_row
from keeps.store.scopes import ScopeSets

_READ_S: Final = 10.0


async def by_refs(db: Db, sets: ScopeSets, refs: Sequence[str], readable: Collection[str]) -> dict[str, Row | Turn]:
    """Turns and rows by `table:key`, those alone that lie in the readable scope sets."""
    if not refs:
        return {}
    (found,) = await db.run(
        "SELECT * FROM $ids TIMEOUT 5s;", timeout_s=_READ_S, ids=[record_id(ref) for ref in dict.fromkeys(refs)]
    )
    read: dict[str, Row | Turn] = {}
    for row in found:
        scope_set = row["scope_set"]
        if scope_set not in readable or scope_set not in sets:
            continue
        table = row["id"].table_name
        read[f"{table}:{key_of(row['id'])}"] = (
            turn_from_row(row, sets[scope_set]) if table == "turn" else from_record(row, sets)
        )
    return read
