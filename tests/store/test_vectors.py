"""Vectors in the record: kept while their rows stand, gone with them, whatever comes first."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
import pytest_asyncio

from keeps.core.generations import Generation
from keeps.core.spaces import Space
from keeps.store import vectors
from keeps.store.archive import decode, encode
from keeps.store.commit import Batch, commit, last_change
from keeps.store.db import Db, RecordID
from keeps.store.migrate import migrate

SPACE = Space("small/model:1", 4)
OTHER = Space("small/model:1", 8)
AT = datetime(2026, 5, 1, tzinfo=UTC)
HALF = bytes(range(8))


@pytest_asyncio.fixture
async def record(db: Db) -> Db:
    """A record with a table `said` of rows `a` to `e` and one that is retired, and a space to fill."""
    await migrate(db, "context")
    rows = [{"id": RecordID("said", key)} for key in "abcde"]
    rows.append({"id": RecordID("said", "retired"), "forgotten_at": AT})
    await db.run("DEFINE TABLE said SCHEMALESS; INSERT $rows RETURN NONE;", rows=rows)
    await commit(db, Batch(at=AT))
    await vectors.begin(db, Generation(SPACE, "fake", answering=False))
    return db


def of(*keys: str, content: bytes = HALF) -> dict[str, tuple[str, bytes]]:
    return {f"unit:{key}": (f"said:{key}", content) for key in keys}


async def units(db: Db, space: Space = SPACE) -> dict[str, bytes]:
    return {unit: content async for page in vectors.all_of(db, space) for unit, content in page.items()}


async def test_what_was_saved_is_read_by_unit(record: Db) -> None:
    number = await last_change(record)
    assert await vectors.save(record, SPACE, {}) == frozenset()
    assert await vectors.save(record, SPACE, of("a", "b")) == {"unit:a", "unit:b"}
    assert await vectors.save(record, SPACE, of("a", content=HALF[::-1])) == {"unit:a"}
    assert await units(record) == {"unit:a": HALF[::-1], "unit:b": HALF}
    assert await vectors.count(record) == await vectors.count(record, SPACE) == 2
    assert await last_change(record) == number


async def test_pages_hold_everything_once(record: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "_PAGE", 2)
    await vectors.save(record, SPACE, of(*"abcde"))
    pages = [sorted(page) async for page in vectors.all_of(record, SPACE)]
    assert sorted(len(page) for page in pages) == [1, 2, 2]
    assert sorted(unit for page in pages for unit in page) == [f"unit:{key}" for key in "abcde"]
    await vectors.drop(record, SPACE)
    assert await vectors.count(record) == 0


async def test_only_rows_that_stand_get_vectors(record: Db) -> None:
    assert await vectors.save(record, SPACE, of("a", "retired", "never")) == {"unit:a"}
    assert list(await units(record)) == ["unit:a"]


async def test_a_space_that_was_not_begun_keeps_nothing(record: Db) -> None:
    assert await vectors.save(record, OTHER, of("a")) == frozenset()
    await vectors.drop(record, SPACE)
    assert await vectors.save(record, SPACE, of("a")) == frozenset()
    assert await vectors.count(record) == 0


async def test_rows_touched_since_their_texts_were_read_get_none(record: Db) -> None:
    since = await last_change(record)
    await commit(record, Batch(at=AT, rows=["said:a"]))
    await commit(record, Batch(at=AT, rows=["said:b", "finder:anew"]))
    assert await vectors.save(record, SPACE, of("a", "b", "c"), since=since) == {"unit:c"}
    assert await vectors.save(record, SPACE, of("a", "b"), since=since + 1) == {"unit:a"}
    assert await vectors.save(record, SPACE, of("b"), since=since + 2) == {"unit:b"}


async def test_a_commit_takes_the_vectors_of_rows_in_every_space(record: Db) -> None:
    await vectors.begin(record, Generation(OTHER, "fake", answering=False))
    for space in (SPACE, OTHER):
        await vectors.save(record, space, of("a", "b"))
        await vectors.save(record, space, {"unit:a2": ("said:a", HALF)})
    await commit(record, Batch(at=AT, vectors=["said:a", "said:never"]))
    for space in (SPACE, OTHER):
        assert list(await units(record, space)) == ["unit:b"]


async def test_rows_that_go_while_vectors_come_leave_none(record: Db) -> None:
    """Whichever is first: nothing is prepared before the other, and each sees what the other did."""

    async def lose(key: str) -> None:
        batch = Batch(at=AT, deletes=[RecordID("said", key)], vectors=[f"said:{key}"])
        await commit(record, batch)

    async def gain(key: str) -> None:
        await vectors.save(record, SPACE, of(key))

    await asyncio.gather(*(step(key) for key in "abcd" for step in (lose, gain)), gain("e"))
    assert list(await units(record)) == ["unit:e"]


async def test_spaces_are_listed_oldest_first_and_dropped_apart(record: Db) -> None:
    await vectors.begin(record, Generation(OTHER, "other", answering=True))
    await vectors.save(record, SPACE, of("a", "b"))
    await vectors.save(record, OTHER, of("a"))
    assert await vectors.spaces(record) == [SPACE, OTHER]
    await vectors.answer(record, SPACE)
    await vectors.answer(record, Space("never", 4))
    assert await vectors.generations(record) == [Generation(SPACE, "fake", True), Generation(OTHER, "other", True)]
    assert (await vectors.count(record), await vectors.count(record, OTHER)) == (3, 1)
    await vectors.begin(record, Generation(SPACE, "renamed", answering=True))
    assert await vectors.spaces(record) == [SPACE, OTHER]
    await vectors.drop(record, SPACE)
    assert await vectors.spaces(record) == [OTHER]
    assert list(await units(record, OTHER)) == ["unit:a"]
    await vectors.save(record, OTHER, of("b"))
    await vectors.drop_all(record)
    assert (await vectors.spaces(record), await vectors.count(record)) == ([], 0)


async def test_an_archive_gives_the_same_bytes_back(record: Db) -> None:
    await vectors.save(record, SPACE, of("a"))
    (row,) = (await record.run("SELECT * FROM vector;"))[0]
    assert row["bytes"] == HALF
    again = decode(encode(row))
    assert again == row
    await record.run("DELETE vector RETURN NONE;")
    await record.run("INSERT $rows RETURN NONE;", rows=[again])
    assert await units(record) == {"unit:a": HALF}


async def test_vectors_of_a_row_are_found_by_an_index(record: Db) -> None:
    (told,) = await record.run("SELECT id FROM vector WHERE of = $of EXPLAIN;", of="said:a")
    assert "IndexScan" in str(told)
    assert "TableScan" not in str(told)


async def test_when_later_changes_are_no_longer_told_nothing_is_kept(record: Db) -> None:
    since = await last_change(record)
    await commit(record, Batch(at=AT))
    await commit(record, Batch(at=AT))
    await record.run("DELETE $change RETURN NONE;", change=RecordID("change", since + 1))
    assert await vectors.save(record, SPACE, of("a"), since=since) == frozenset()
    assert await vectors.save(record, SPACE, of("a"), since=since + 1) == {"unit:a"}
