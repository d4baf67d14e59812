"""Missing, damaged, foreign and interrupted indexes."""

import asyncio
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from keeps.core.spaces import Point, Space
from keeps.finder import local
from keeps.finder.base import Entry, FinderFull, FinderLost, Name
from keeps.finder.local import LocalFinder
from tests.finder.making import SMALL, asked, drawn, stored, stream, turn

ROWS = [turn(n, f"apple pie number {n} with words{n}x to fill a few pages {n * 31}") for n in range(400)]


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def overwrite(file: Path, at: int, count: int) -> None:
    with file.open("r+b") as opened:
        opened.seek(at)
        opened.write(b"\xff" * count)


async def built(folder: Path, context: str = "c") -> Path:
    """A closed index with 400 rows; its file."""
    finder = await LocalFinder.open(folder, context)
    await finder.rebuild(context, stream(*ROWS), 7)
    await finder.close()
    (file,) = files(folder)
    return file


async def test_a_new_folder_must_be_built(tmp_path: Path) -> None:
    finder = await LocalFinder.open(tmp_path / "a" / "finder", "c")
    assert await finder.applied() is None
    for call in (
        finder.apply(1, put=[turn(1, "apple")]),
        finder.find("apple", ["s1"]),
        finder.names_in("apple", ["s1"]),
        finder.neighbours(["turn:1"]),
        finder.scrub(),
    ):
        with pytest.raises(FinderLost):
            await call
    await finder.rebuild("c", stream(), 0)
    assert await finder.applied() == 0
    assert await finder.find("apple", ["s1"]) == []
    await finder.close()


async def test_what_was_applied_is_there_after_closing(tmp_path: Path) -> None:
    await built(tmp_path)
    finder = await LocalFinder.open(tmp_path, "c")
    assert await finder.applied() == 7
    await finder.apply(8, put=[turn("new", "quince")])
    await finder.close()
    finder = await LocalFinder.open(tmp_path, "c")
    assert await finder.applied() == 8
    assert [hit.ref for hit in await finder.find("quince", ["s1"])] == ["turn:new"]
    assert len(await finder.find("apple", ["s1"], limit=1000)) == 400
    await finder.close()


async def test_only_the_owner_may_read_the_files(tmp_path: Path) -> None:
    folder = tmp_path / "finder"
    finder = await LocalFinder.open(folder, "c")
    await finder.rebuild("c", stream(*ROWS), 7)
    await finder.apply(8, put=[turn("new", "quince")])
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert len(files(folder)) == 3  # the file, its log, its shared memory
    assert {stat.S_IMODE(path.stat().st_mode) for path in files(folder)} == {0o600}
    await finder.close()


async def test_an_index_of_another_context_is_thrown_away(tmp_path: Path) -> None:
    file = await built(tmp_path, "other")
    finder = await LocalFinder.open(tmp_path, "c")
    assert await finder.applied() is None
    assert not file.exists()
    await finder.close()


async def test_an_index_of_another_format_is_thrown_away(tmp_path: Path) -> None:
    file = await built(tmp_path)
    connection = sqlite3.connect(file)
    connection.execute("UPDATE meta SET value = 'from the future' WHERE key = 'format'")
    connection.commit()
    connection.close()
    finder = await LocalFinder.open(tmp_path, "c")
    assert await finder.applied() is None
    assert not file.exists()
    await finder.close()


@pytest.mark.parametrize("keep", [0, 1, 100, 4096, 9000, -4096, -1])
async def test_a_truncated_index_is_never_believed(tmp_path: Path, keep: int) -> None:
    file = await built(tmp_path)
    os.truncate(file, keep if keep >= 0 else file.stat().st_size + keep)
    await works_or_is_lost(tmp_path)


@pytest.mark.parametrize("at", [0, 18, 100, 4096, 5000, 8192, 16_384, 30_000, 60_000])
async def test_a_damaged_index_is_never_believed(tmp_path: Path, at: int) -> None:
    file = await built(tmp_path)
    overwrite(file, at, 3000)
    await works_or_is_lost(tmp_path)


async def works_or_is_lost(folder: Path) -> None:
    """Damage is noticed at the latest when the bytes are needed, and a rebuild heals it."""
    finder = await LocalFinder.open(folder, "c")
    if await finder.applied() is not None:
        try:
            assert len(await finder.find("apple", ["s1"], limit=1000)) == 400
            for n in range(0, 400, 10):
                assert [hit.ref for hit in await finder.find(f"words{n}x", ["s1"], limit=1)] == [f"turn:{n}"]
            await finder.apply(8, drop=[f"turn:{n}" for n in range(400)])
        except FinderLost:
            assert await finder.applied() is None
            assert files(folder) == []
    await finder.rebuild("c", stream(*ROWS), 9)
    assert len(await finder.find("apple", ["s1"], limit=1000)) == 400
    assert await finder.applied() == 9
    await finder.close()


async def test_a_fault_while_in_use_costs_the_index_only(tmp_path: Path) -> None:
    finder = await LocalFinder.open(tmp_path, "c")
    await finder.rebuild("c", stream(*ROWS), 7)
    for path in files(tmp_path):
        if path.suffix == ".sqlite3":
            overwrite(path, 4096, path.stat().st_size - 4096)

    async def go_on() -> None:
        for n in range(400):
            await finder.find(f"words{n}x", ["s1"])
            await finder.apply(8 + n, put=[turn(f"new{n}", "quince " * 50)])

    with pytest.raises(FinderLost):
        await go_on()
    assert await finder.applied() is None
    await finder.rebuild("c", stream(turn(1, "apple")), 900)
    assert [hit.ref for hit in await finder.find("apple", ["s1"])] == ["turn:1"]
    await finder.close()


async def test_a_refused_change_leaves_all_as_it_was(finder: LocalFinder) -> None:
    await finder.apply(1, put=[turn(1, "apple")])
    with pytest.raises(UnicodeEncodeError):
        await finder.apply(2, drop=["turn:1"], put=[turn(2, "pear"), turn("\ud800", "fig", scope_set="new")])
    assert await finder.applied() == 1
    assert [hit.ref for hit in await finder.find("apple pear fig", ["s1", "new"])] == ["turn:1"]
    await finder.apply(2, put=[turn(3, "pear", scope_set="new")])
    assert [hit.ref for hit in await finder.find("apple pear fig", ["new"])] == ["turn:3"]


WRITER = """
import asyncio, sys
from pathlib import Path
from keeps.finder.local import LocalFinder
from tests.finder.making import SMALL, drawn, stored, turn

async def main():
    finder = await LocalFinder.open(Path(sys.argv[1]), "c")
    change = await finder.applied()
    await finder.begin_space(SMALL)
    while True:
        change += 1
        entry = turn(f"new{change}", f"apple number{change}x", before="pear", meaning="apple")
        await finder.apply(change, put=[entry])
        await finder.put_vectors(SMALL, {entry.unit: stored(drawn(change))})
        print(change, flush=True)

asyncio.run(main())
"""


def write_until_killed(folder: Path, changes: int) -> int:
    """Let another process apply `changes` or a few more and kill it; the last one it saw applied."""
    with subprocess.Popen([sys.executable, "-c", WRITER, folder], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        last = max(int(writer.stdout.readline()) for _ in range(changes))
        writer.send_signal(signal.SIGKILL)
        return max([last, *(int(line) for line in writer.stdout.read().split())])


@pytest.mark.slow
async def test_a_killed_process_loses_nothing_that_was_applied(tmp_path: Path) -> None:
    await built(tmp_path)
    for _ in range(3):
        last = write_until_killed(tmp_path, 150)
        finder = await LocalFinder.open(tmp_path, "c")
        applied = await finder.applied()
        assert applied is not None
        assert last <= applied <= last + 1
        assert len(await finder.find("apple", ["s1"], limit=10_000)) == 400 + applied - 7
        near = await finder.near(Point(SMALL, asked(drawn(last))), ["s1"], limit=10_000)
        lacking = {ref for ref, _ in await finder.lacking(SMALL)}
        assert near[0].ref == f"turn:new{last}"
        assert {hit.ref for hit in near} == {f"turn:new{n}" for n in range(8, applied + 1)} - lacking
        assert len(lacking) <= 3, "one a kill, between an entry and its vector"
        await finder.close()


async def test_vectors_without_room_leave_the_index_as_it_was(finder: LocalFinder) -> None:
    await finder.apply(1, put=[turn(n, f"apple {n}", meaning=f"apple {n}") for n in range(20)])
    await finder.begin_space(SMALL)
    await finder.put_vectors(SMALL, {"turn:0": stored(drawn(0))})
    wide = Space("wide", 4_000)
    await finder.begin_space(wide)
    assert finder._file is not None
    pages = finder._file._db.execute("PRAGMA page_count").fetchone()[0]
    finder._file._db.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(FinderFull):
        await finder.put_vectors(wide, {f"turn:{n}": bytes(8_000) for n in range(20)})
    assert [hit.ref for hit in await finder.near(Point(SMALL, asked(drawn(0))), ["s1"])] == ["turn:0"]
    assert [coverage.held for coverage in await finder.spaces()] == [1, 0]
    finder._file._db.execute("PRAGMA max_page_count = 1000000")
    assert await finder.put_vectors(wide, {f"turn:{n}": bytes(8_000) for n in range(20)}) == 20


async def test_an_index_in_use_when_the_machine_stopped_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await built(tmp_path)
    boots = iter(["monday", "monday", "tuesday"])
    monkeypatch.setattr(local, "_boot_id", lambda: next(boots))
    finder = await LocalFinder.open(tmp_path, "c")
    await finder.apply(8, put=[turn("new", "quince")])
    again = await LocalFinder.open(tmp_path, "c")  # as after a kill: the system kept the writes
    assert await again.applied() == 8
    after_a_power_cut = await LocalFinder.open(tmp_path, "c")
    assert await after_a_power_cut.applied() is None
    for each in (finder, again, after_a_power_cut):
        each._thread.shutdown()
        if each._file:
            each._file.abandon()


async def test_changes_during_a_rebuild_reach_the_new_index(tmp_path: Path) -> None:
    finder = await LocalFinder.open(tmp_path, "c")
    await finder.rebuild("c", stream(turn("old", "apple")), 1)
    reached, go = asyncio.Event(), asyncio.Event()

    async def rows() -> AsyncIterator[Entry | Name]:
        for n in range(1200):
            yield turn(n, "pear")
            if n == 1000:
                reached.set()
                await go.wait()

    rebuilding = asyncio.create_task(finder.rebuild("c", rows(), 5))
    await reached.wait()
    assert [hit.ref for hit in await finder.find("apple", ["s1"])] == ["turn:old"]  # the old one answers
    await finder.apply(6, put=[turn("during", "quince")], drop=["turn:3"])
    assert [hit.ref for hit in await finder.find("quince", ["s1"])] == ["turn:during"]
    go.set()
    await rebuilding
    assert await finder.applied() == 6
    assert await finder.find("apple", ["s1"]) == []
    assert [hit.ref for hit in await finder.find("quince", ["s1"])] == ["turn:during"]
    assert len(await finder.find("pear", ["s1"], limit=2000)) == 1199
    await finder.close()
    assert [path.suffix for path in files(tmp_path)] == [".sqlite3"]


async def test_a_rebuild_that_fails_leaves_the_old_index_in_use(tmp_path: Path) -> None:
    finder = await LocalFinder.open(tmp_path, "c")
    await finder.rebuild("c", stream(turn("old", "apple")), 1)

    async def rows() -> AsyncIterator[Entry | Name]:
        yield turn(1, "pear")
        raise RuntimeError("the record went away")

    with pytest.raises(RuntimeError, match="went away"):
        await finder.rebuild("c", rows(), 5)
    assert await finder.applied() == 1
    assert [hit.ref for hit in await finder.find("apple", ["s1"])] == ["turn:old"]
    assert [path.suffix for path in files(tmp_path) if "building" in path.name] == []
    await finder.apply(2, put=[turn("new", "apple")])
    await finder.close()


async def test_the_rest_of_an_interrupted_rebuild_is_swept(tmp_path: Path) -> None:
    file = await built(tmp_path)
    (tmp_path / "text-00000009.building").write_bytes(b"half")
    (tmp_path / "text-00000009.building-wal").write_bytes(b"half")
    (tmp_path / "text-00000000.sqlite3").write_bytes(b"older")
    finder = await LocalFinder.open(tmp_path, "c")
    assert await finder.applied() == 7
    await finder.close()
    assert files(tmp_path) == [file]


async def test_a_change_that_meets_a_rebuild_without_an_old_index_waits_for_the_new_one(tmp_path: Path) -> None:
    finder = await LocalFinder.open(tmp_path, "c")
    reached, go = asyncio.Event(), asyncio.Event()

    async def rows() -> AsyncIterator[Entry | Name]:
        yield turn(1, "apple")
        reached.set()
        await go.wait()

    rebuilding = asyncio.create_task(finder.rebuild("c", rows(), 5))
    await reached.wait()
    await finder.apply(6, put=[turn(2, "apple")])
    with pytest.raises(FinderLost):
        await finder.find("apple", ["s1"])
    go.set()
    await rebuilding
    assert await finder.applied() == 6
    assert {hit.ref for hit in await finder.find("apple", ["s1"])} == {"turn:1", "turn:2"}
    await finder.close()


async def test_a_cancelled_rebuild_leaves_the_old_index_in_use(tmp_path: Path) -> None:
    finder = await LocalFinder.open(tmp_path, "c")
    await finder.rebuild("c", stream(turn("old", "apple")), 1)
    reached = asyncio.Event()

    async def rows() -> AsyncIterator[Entry | Name]:
        yield turn(1, "pear")
        reached.set()
        await asyncio.Event().wait()

    rebuilding = asyncio.create_task(finder.rebuild("c", rows(), 5))
    await reached.wait()
    rebuilding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await rebuilding
    await finder.apply(2, put=[turn("new", "apple")])
    assert {hit.ref for hit in await finder.find("apple", ["s1"])} == {"turn:old", "turn:new"}
    await finder.rebuild("c", stream(turn("third", "apple")), 3)
    assert [hit.ref for hit in await finder.find("apple", ["s1"])] == ["turn:third"]
    await finder.close()


async def test_a_full_disk_keeps_the_index_as_it_is(tmp_path: Path) -> None:
    """What found no room is written again later; until then the index answers from what it has."""
    await built(tmp_path)
    finder = await LocalFinder.open(tmp_path, "c")
    await finder.apply(8, put=[turn("before", "quince")])
    assert finder._file is not None
    pages = finder._file._db.execute("PRAGMA page_count").fetchone()[0]
    finder._file._db.execute(f"PRAGMA max_page_count = {pages}")
    many = [turn(f"late{n}", f"medlar {n} " + " ".join(f"word{n}x{m}" for m in range(400))) for n in range(20)]
    for _ in range(2):
        with pytest.raises(FinderFull):
            await finder.apply(9, put=many)
        assert await finder.applied() == 8
        assert [hit.ref for hit in await finder.find("quince", ["s1"])] == ["turn:before"]
        assert await finder.find("medlar", ["s1"]) == []
    finder._file._db.execute("PRAGMA max_page_count = 1000000")
    await finder.apply(9, put=many)
    assert len(await finder.find("medlar", ["s1"])) == 20
    await finder.close()
    finder = await LocalFinder.open(tmp_path, "c")
    assert await finder.applied() == 9
    assert len(await finder.find("medlar", ["s1"])) == 20
    await finder.close()
