"""Vectors in the record: kept beside the rows they were made from, so that an index is built anew without a model.

A vector is no change of the record: it has no number, and followers do not see it. It never outlives its row.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Final

from keeps.core.generations import Generation
from keeps.core.spaces import Space
from keeps.store.db import Db, RecordID
from keeps.store.rows import Record

_PAGE: Final = 1_000
_SCAN_S: Final = 120.0
_SAVE_S: Final = 30.0

_ANSWERING: Final = "answering"
_FILLING: Final = "filling"

# What decides is read in the transaction that writes. `meta:state` is written too, as by every commit: where commits
# run at once, one that takes a row away and one that gives it a vector cannot both succeed without seeing each other.
_SAVE: Final = """
    BEGIN;
    LET $there = (SELECT VALUE id FROM $rows WHERE forgotten_at = NONE);
    LET $last = (SELECT VALUE seq FROM ONLY meta:state) ?? 0;
    LET $ids = (<array>((($since ?? $last) + 1)..=$last)).map(|$n| type::record('change', $n));
    LET $changes = (SELECT VALUE rows FROM $ids);
    LET $touched = array::flatten($changes);
    LET $open = record::exists($space) AND array::len($changes) = array::len($ids);
    FOR $v IN $vectors {
        IF $open AND $v.row IN $there AND $v.content.of NOT IN $touched {
            UPSERT $v.id CONTENT $v.content RETURN NONE
        }
    };
    UPDATE meta:state SET vectors = (vectors ?? 0) + 1 RETURN NONE;
    RETURN { there: $there, touched: $touched, open: $open };
    COMMIT;
"""


async def save(
    db: Db, space: Space, vectors: Mapping[str, tuple[str, bytes]], *, since: int | None = None
) -> frozenset[str]:
    """Keep vectors, by unit: the row each was made from, as `table:id`, and its bytes. The units that were kept.

    One whose row is gone, retired or, when `since` is given, touched by a later change than that is passed over, and
    all are when the space is not begun or those changes are no longer told. `since`: the last change when the texts
    were read. One transaction.

    Raises:
        Unavailable: the record cannot answer. Nothing was kept.
    """
    if not vectors:
        return frozenset()
    rows = {of: _row(of) for of, _ in vectors.values()}
    written: list[Record] = [
        {
            "id": RecordID("vector", [unit, space.model, space.dims]),
            "row": rows[of],
            "content": {"of": of, "unit": unit, "model": space.model, "dims": space.dims, "bytes": content},
        }
        for unit, (of, content) in vectors.items()
    ]
    results = await db.run(
        _SAVE, timeout_s=_SAVE_S, rows=list(rows.values()), vectors=written, since=since, space=_space_id(space)
    )
    seen = results[-2]
    there, touched = {str(row) for row in seen["there"]}, set(seen["touched"])
    return frozenset(
        unit for unit, (of, _) in vectors.items() if seen["open"] and str(rows[of]) in there and of not in touched
    )


async def all_of(db: Db, space: Space) -> AsyncIterator[dict[str, bytes]]:
    """Every vector of a space by unit, some at a time."""
    ids = await _ids(db, space)
    for start in range(0, len(ids), _PAGE):
        rows = await db.run("SELECT unit, bytes FROM $ids TIMEOUT 30s;", timeout_s=60.0, ids=ids[start : start + _PAGE])
        yield {row["unit"]: row["bytes"] for row in rows[0]}


async def count(db: Db, space: Space | None = None) -> int:
    """How many vectors there are: of one space, or in all."""
    if space is None:
        found = await db.run("SELECT count() FROM vector GROUP ALL TIMEOUT 60s;", timeout_s=_SCAN_S)
    else:
        found = await db.run(
            "SELECT count() FROM vector WHERE model = $model AND dims = $dims GROUP ALL TIMEOUT 60s;",
            timeout_s=_SCAN_S,
            model=space.model,
            dims=space.dims,
        )
    return int(found[0][0]["count"]) if found[0] else 0


async def drop(db: Db, space: Space) -> None:
    """Delete the vectors of a space, then what is noted of it: when it is interrupted, it is still known."""
    await _delete(db, await _ids(db, space))
    await db.run("DELETE $space RETURN NONE;", space=_space_id(space))


async def drop_all(db: Db) -> None:
    """Delete every vector and every space."""
    found = await db.run("SELECT VALUE id FROM vector TIMEOUT 60s;", timeout_s=_SCAN_S)
    await _delete(db, found[0])
    await db.run("DELETE space RETURN NONE;")


# ---------------------------------------------------------------------- spaces
async def begin(db: Db, generation: Generation) -> None:
    """Note a space, to be filled with vectors or answering already."""
    space = generation.space
    await db.run(
        "UPSERT $space SET model = $model, dims = $dims, embedder = $embedder, state = $state,"
        " created_at = created_at ?? time::now() RETURN NONE;",
        space=_space_id(space),
        model=space.model,
        dims=space.dims,
        embedder=generation.embedder,
        state=_ANSWERING if generation.answering else _FILLING,
    )


async def answer(db: Db, space: Space) -> None:
    """Note that questions may use a space; nothing when it is not there."""
    await db.run("UPDATE $space SET state = $state RETURN NONE;", space=_space_id(space), state=_ANSWERING)


async def generations(db: Db) -> list[Generation]:
    """The spaces that were begun, oldest first."""
    rows = (await db.run("SELECT * FROM space ORDER BY created_at, model TIMEOUT 5s;"))[0]
    return [Generation(Space(row["model"], row["dims"]), row["embedder"], row["state"] == _ANSWERING) for row in rows]


async def spaces(db: Db) -> list[Space]:
    """The spaces that vectors are, or will be, kept of, oldest first."""
    return [generation.space for generation in await generations(db)]


def _space_id(space: Space) -> RecordID:
    return RecordID("space", [space.model, space.dims])


def _row(ref: str) -> RecordID:
    table, _, key = ref.partition(":")
    return RecordID(table, key)


async def _ids(db: Db, space: Space) -> list[RecordID]:
    query = "SELECT VALUE id FROM vector WHERE model = $model AND dims = $dims TIMEOUT 60s;"
    return (await db.run(query, timeout_s=_SCAN_S, model=space.model, dims=space.dims))[0]


async def _delete(db: Db, ids: list[RecordID]) -> None:
    for start in range(0, len(ids), _PAGE):
        await db.run("DELETE $ids RETURN NONE;", timeout_s=60.0, ids=ids[start : start + _PAGE])
