"""A new index of several batches: filled while the record is read further."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from keeps.finder import local
from keeps.finder.base import Entry, FinderLost
from keeps.finder.local import LocalFinder
from tests.finder.making import turn


async def rows(count: int, *, fails: bool = False) -> AsyncIterator[Entry]:
    for number in range(count):
        yield turn(number, f"apple {number:06}")
    if fails:
        raise OSError("the record is gone")


async def test_every_row_of_every_batch_is_found(tmp_path: Path) -> None:
    finder = await LocalFinder.open(tmp_path, "c")
    await finder.rebuild("c", rows(1_750), 3)
    for number in (0, 499, 500, 1_499, 1_749):
        assert [hit.ref for hit in await finder.find(f"{number:06}", ["s1"])] == [f"turn:{number}"]
    assert await finder.applied() == 3
    await finder.close()


async def test_a_record_that_ends_in_the_middle_leaves_the_old_index(tmp_path: Path) -> None:
    finder = await LocalFinder.open(tmp_path, "c")
    await finder.rebuild("c", rows(1), 1)
    with pytest.raises(OSError, match="the record is gone"):
        await finder.rebuild("c", rows(1_200, fails=True), 3)
    assert not list(tmp_path.glob("*.building*"))
    assert [hit.ref for hit in await finder.find("apple", ["s1"])] == ["turn:0"]
    await finder.close()


async def test_a_batch_that_cannot_be_written_ends_the_rebuild(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finder = await LocalFinder.open(tmp_path, "c")

    def broken(*_: object) -> None:
        raise sqlite3.DatabaseError("database disk image is malformed")

    monkeypatch.setattr(local, "_fill", broken)
    with pytest.raises(FinderLost):
        await finder.rebuild("c", rows(1_200), 3)
    assert not list(tmp_path.glob("*.building*"))
    await finder.close()
