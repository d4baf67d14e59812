"""The whole record in the order an index is built in, page by page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final

from keeps.core.facts import Row
from keeps.core.sessions import Chunk, Turn
from keeps.store.db import Db, RecordID
from keeps.store.facts import from_record
from keeps.store.rows import key_of, turn_from_row
from keeps.store.scopes import ScopeSets
from keeps.store.sessions import chunks_of

_PAGE: Final = 500
_SCAN_S: Final = 120.0


async def turns_after(db: Db, turns: Sequence[str]) -> set[str]:
    """Bare ids of the turns that come right after `turns`."""
    if not turns:
        return set()
    found = await db.run(
        "RETURN array::flatten((SELECT VALUE ->follows->turn FROM $turns TIMEOUT 10s));",
        timeout_s=15.0,
        turns=[RecordID("turn", turn) for turn in turns],
    )
    return {key_of(turn) for turn in found[0]}


async def all_turns(db: Db, sets: ScopeSets) -> AsyncIterator[tuple[Turn, Sequence[Chunk], Turn | None]]:
    """Every active turn with its passages and the turn before it, session by session."""
    places = (await db.run("SELECT id, session, seq FROM turn TIMEOUT 120s;", timeout_s=_SCAN_S))[0]
    order = [row["id"] for row in sorted(places, key=lambda row: (row["session"], row["seq"]))]
    previous: Turn | None = None
    for start in range(0, len(order), _PAGE):
        page = order[start : start + _PAGE]
        rows = (await db.run("SELECT * FROM $ids TIMEOUT 30s;", timeout_s=60.0, ids=page))[0]
        turns = {key_of(row["id"]): turn_from_row(row, sets[row["scope_set"]]) for row in rows}
        chunks = await chunks_of(db, turns.values())
        for record_id in page:
            turn = turns.get(key_of(record_id))
            if turn is None:
                continue
            if turn.active:
                yield turn, chunks.get(turn.id, ()), previous
            previous = turn


async def all_entities(db: Db) -> list[tuple[str, str]]:
    """Reference and scope set of every entity that is known somewhere, with or without facts."""
    found = await db.run("SELECT ref, scope_set FROM entity WHERE forgotten_at = NONE TIMEOUT 60s;", timeout_s=_SCAN_S)
    return [(row["ref"], row["scope_set"]) for row in found[0]]


async def all_rows(db: Db, sets: ScopeSets) -> AsyncIterator[Row]:
    """Every fact, relation and action that is not retired."""
    ids: list[RecordID] = []
    for part in await db.run(
        "SELECT VALUE id FROM attribute TIMEOUT 60s;"
        "SELECT VALUE id FROM relates_to TIMEOUT 60s;"
        "SELECT VALUE id FROM action TIMEOUT 60s;",
        timeout_s=_SCAN_S,
    ):
        ids += part
    for start in range(0, len(ids), _PAGE):
        rows = await db.run("SELECT * FROM $ids TIMEOUT 30s;", timeout_s=60.0, ids=ids[start : start + _PAGE])
        for row in rows[0]:
            if row.get("forgotten_at") is None:
                yield from_record(row, sets)
