"""Disks that fail and files that lose their end: never a silent loss, always a message with a way on."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from keeps.core.errors import StoreRefused
from keeps.store.address import folder_url
from keeps.store.db import Db
from keeps.store.embedded import EmbeddedEngine
from keeps.store.watermark import Watermark, check
from tests.store.faults import run_on_small_disk

_COMMIT = (
    "BEGIN; LET $n = (UPSERT ONLY counter:change SET n += 1 RETURN VALUE n); CREATE t SET n = $n; RETURN $n; COMMIT;"
)


async def written(folder: Path, marks: Watermark, count: int, *, clean: bool) -> None:
    """A store with `count` commits, each marked; closed, or left as a killed process leaves it."""
    engine = EmbeddedEngine(folder_url(folder))
    db = await engine.database("context_a")
    await db.run("DEFINE TABLE IF NOT EXISTS counter; DEFINE TABLE IF NOT EXISTS t;")
    for _ in range(count):
        marks.write("context_a", (await db.run(_COMMIT))[-2])
    if not clean:
        assert engine.worker_pid is not None
        os.kill(engine.worker_pid, signal.SIGKILL)
    await engine.close()


async def stored_number(db: Db) -> int:
    return (await db.run("DEFINE TABLE IF NOT EXISTS counter; SELECT VALUE n FROM ONLY counter:change"))[1] or 0


@pytest.mark.parametrize("cut", ["last bytes", "half", "emptied", "deleted"])
async def test_a_cut_log_is_noticed(store_folder: Path, tmp_path: Path, cut: str) -> None:
    marks = Watermark.open(tmp_path / "marks")
    await written(store_folder, marks, 40, clean=False)
    (log,) = (file for file in (store_folder / "context_a" / "wal").iterdir() if file.stat().st_size)
    content = log.read_bytes()
    if cut == "deleted":
        log.unlink()
    else:
        log.write_bytes(content[: {"last bytes": -5, "half": len(content) // 2, "emptied": 0}[cut]])
    engine = EmbeddedEngine(folder_url(store_folder))
    try:
        db = await engine.database("context_a")  # the engine itself opens it without a word
        number = await stored_number(db)
        assert number < 40
        with pytest.raises(StoreRefused, match=rf"ends at number {number}, and 40"):
            check(number, marks.read("context_a"))
    finally:
        await engine.close()
        marks.close()


async def test_an_intact_log_of_a_killed_process_passes(store_folder: Path, tmp_path: Path) -> None:
    marks = Watermark.open(tmp_path / "marks")
    await written(store_folder, marks, 40, clean=False)
    engine = EmbeddedEngine(folder_url(store_folder))
    try:
        number = await stored_number(await engine.database("context_a"))
        assert number == 40
        check(number, marks.read("context_a"))
    finally:
        await engine.close()
        marks.close()


async def test_a_missing_manifest_is_refused_not_opened_empty(store_folder: Path, tmp_path: Path) -> None:
    marks = Watermark.open(tmp_path / "marks")
    await written(store_folder, marks, 5, clean=True)
    for manifest in (store_folder / "context_a" / "manifest").iterdir():
        manifest.unlink()
    engine = EmbeddedEngine(folder_url(store_folder))
    try:
        with pytest.raises(StoreRefused, match=r"manifest"):
            await engine.database("context_a")
        await engine.database("context_b")
    finally:
        await engine.close()
        marks.close()


async def test_a_folder_that_vanished_is_behind_its_mark(store_folder: Path, tmp_path: Path) -> None:
    marks = Watermark.open(tmp_path / "marks")
    marks.write("context_a", 5)
    engine = EmbeddedEngine(folder_url(store_folder))
    try:
        with pytest.raises(StoreRefused, match="ends at number 0, and 5"):
            check(await stored_number(await engine.database("context_a")), marks.read("context_a"))
    finally:
        await engine.close()
        marks.close()


@pytest.mark.parametrize("damage", ["truncated", "version", "table count"])
async def test_a_damaged_manifest_is_refused_with_the_way_on(store_folder: Path, tmp_path: Path, damage: str) -> None:
    """Some damage aborts the engine's process: the caller still gets an answer."""
    marks = Watermark.open(tmp_path / "marks")
    await written(store_folder, marks, 5, clean=True)
    (manifest,) = (store_folder / "context_a" / "manifest").iterdir()
    content = bytearray(manifest.read_bytes())
    if damage == "truncated":
        del content[10:]
    else:
        content[{"version": 0, "table count": 27}[damage]] ^= 0xFF
    manifest.write_bytes(content)
    engine = EmbeddedEngine(folder_url(store_folder))
    try:
        with pytest.raises(StoreRefused, match="keeps restore --data DIR FILE"):
            await engine.database("context_a")
    finally:
        await engine.close()
        marks.close()


FULL = """
import asyncio, os, signal, sys
from pathlib import Path
from keeps.core.errors import Unavailable
from keeps.store.address import folder_url
from keeps.store.embedded import EmbeddedEngine

PAIR = "BEGIN; CREATE t SET n = $n, x = $x; CREATE t SET n = $n, x = $x; COMMIT;"
ballast = Path("/mnt/ballast")

def kill(engine):
    pid = engine.worker_pid
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)

async def numbers(db):
    return sorted((await db.run("SELECT VALUE n FROM t"))[0])

async def main():
    engine = EmbeddedEngine(folder_url(Path("/mnt/store")))
    control, db = await engine.database("control"), await engine.database("context_a")
    await control.run("DEFINE TABLE t; CREATE t:1 SET n = 0")
    await db.run("DEFINE TABLE t")
    kept, n = [], 0
    for round in range(2):
        disk = os.statvfs("/mnt")
        ballast.write_bytes(b"x" * (disk.f_bavail * disk.f_frsize - 2_000_000))
        try:
            while True:
                n += 1
                await db.run(PAIR, n=n, x="y" * 10_000)
                kept += [n, n]
        except Unavailable as error:
            print("refused:", error.message, error.retry_after_s)
        assert await numbers(db) == kept
        assert await numbers(control) == [0]
        try:
            await db.run(PAIR, n=-1, x="")
        except Unavailable as error:
            print("still full:", error.retry_after_s)
        assert await numbers(db) == kept
        if sys.argv[1] == "killed":
            kill(engine)
            try:
                await db.run("RETURN 1")
            except Unavailable as error:
                print("restarting:", error.retry_after_s)
        ballast.unlink()
        for _ in range(5):
            n += 1
            await db.run(PAIR, n=n, x="")
            kept += [n, n]
        assert await numbers(db) == kept
        kill(engine)
        assert await numbers(db) == kept
    await engine.close()
    engine = EmbeddedEngine(folder_url(Path("/mnt/store")))
    print(len(kept) > 30, await numbers(await engine.database("context_a")) == kept)
    await engine.close()

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("also", ["left running", "killed"])
def test_a_full_disk_refuses_writes_keeps_reads_and_loses_nothing(also: str) -> None:
    """Nor does a refused write come back, whether the engine lives on or is killed before there is room."""
    *lines, sound = run_on_small_disk(FULL, also, size="16m").splitlines()
    assert sound == "True True"
    assert [line.partition(":")[0] for line in lines] == [
        "refused",
        "still full",
        *["restarting"] * (also == "killed"),
    ] * 2
    assert all(line.endswith(" 30") for line in lines)


async def test_writes_after_a_torn_log_was_repaired_survive_the_next_kill(store_folder: Path, tmp_path: Path) -> None:
    """The engine alone loses them: it repairs a torn log, then writes to the file it has just replaced."""
    marks = Watermark.open(tmp_path / "marks")
    await written(store_folder, marks, 10, clean=False)
    (log,) = (file for file in (store_folder / "context_a" / "wal").iterdir() if file.stat().st_size)
    log.write_bytes(log.read_bytes()[:-5])
    await written(store_folder, marks, 5, clean=False)
    engine = EmbeddedEngine(folder_url(store_folder))
    try:
        assert await stored_number(await engine.database("context_a")) == 14
    finally:
        await engine.close()
        marks.close()


FULL_LEDGER = """
from pathlib import Path
from keeps.core.errors import Unavailable
from keeps.store.ledger import Ledger

ledger = Ledger.open(Path("/mnt/ledger"))
number = 0
try:
    while True:
        number = ledger.append("default", "purge", ["turn:" + "x" * 500] * 20, 1)
except Unavailable as error:
    print(error.message)
ledger.close()
again = Ledger.open(Path("/mnt/ledger"))
print(number > 1, again.verify() == number)
"""


@pytest.mark.slow
def test_a_full_disk_stops_the_ledger_without_harming_it() -> None:
    message, sound = run_on_small_disk(FULL_LEDGER, size="1m").splitlines()
    assert "nothing was erased" in message
    assert sound == "True True"


READ_ONLY = """
import asyncio, subprocess
from datetime import UTC, datetime
from pathlib import Path
from keeps.core.errors import StoreRefused
from keeps.store.address import folder_url
from keeps.store.embedded import EmbeddedEngine
from keeps.store.ledger import Ledger
from keeps.store.owner import FolderLock, Owner

data = Path("/mnt/data")

async def open_store():
    engine = EmbeddedEngine(folder_url(data / "store"))
    try:
        await engine.database("control")
    finally:
        await engine.close()

def refused(what, work):
    try:
        work()
    except StoreRefused as error:
        print(what, "|", error.message)

with FolderLock(data):
    asyncio.run(open_store())
    Ledger.open(data / "ledger").close()
subprocess.run(["mount", "-o", "remount,ro", "/mnt"], check=True)
refused("lock", lambda: FolderLock(data).acquire())
refused("new", lambda: FolderLock(Path("/mnt/other")).acquire())
refused("store", lambda: asyncio.run(open_store()))
refused("ledger", lambda: Ledger.open(data / "ledger"))
"""


@pytest.mark.slow
def test_a_read_only_folder_is_refused_and_says_so() -> None:
    lines = dict(line.split(" | ") for line in run_on_small_disk(READ_ONLY).splitlines())
    assert lines.keys() == {"lock", "new", "store", "ledger"}
    assert all("read-only" in message or "cannot be written" in message for message in lines.values())
