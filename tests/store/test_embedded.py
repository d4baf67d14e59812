"""The worker process: deadlines, replacement, order, and an end that frees its files."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from keeps.core.errors import StoreRefused, Unavailable
from keeps.store import worker
from keeps.store.address import folder_url, parse_store_url
from keeps.store.db import Db
from keeps.store.embedded import EmbeddedEngine


@asynccontextmanager
async def opened(folder: Path | None) -> AsyncIterator[EmbeddedEngine]:
    engine = EmbeddedEngine(parse_store_url("mem://") if folder is None else folder_url(folder))
    await engine.start()
    try:
        yield engine
    finally:
        await engine.close()


async def count(db: Db) -> int:
    return len((await db.run("SELECT VALUE id FROM t"))[0])


def pid_of(engine: EmbeddedEngine) -> int:
    assert engine.worker_pid is not None
    return engine.worker_pid


def kill(engine: EmbeddedEngine) -> None:
    """Kill the idle worker, and wait until all its threads are gone without asking for its status."""
    pid = pid_of(engine)
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def wait_for_end(pid: int, timeout_s: float = 10) -> None:
    """Until somebody else's child is gone."""
    until = time.monotonic() + timeout_s
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < until, "still running"
        time.sleep(0.01)


async def test_a_script_that_runs_too_long_is_given_up_and_the_worker_replaced(store_folder: Path) -> None:
    async with opened(store_folder) as engine:
        db = await engine.database("control")
        await db.run("DEFINE TABLE t; CREATE t:1")
        before = pid_of(engine)
        started = time.monotonic()
        with pytest.raises(Unavailable) as late:
            await db.run("RETURN sleep(30s)", timeout_s=0.2)
        assert time.monotonic() - started < 15
        assert late.value.retry_after_s == 1
        assert await count(db) == 1
        assert pid_of(engine) != before
        assert not psutil.pid_exists(before)


async def test_a_stopped_worker_is_replaced(store_folder: Path) -> None:
    async with opened(store_folder) as engine:
        db = await engine.database("control")
        await db.run("DEFINE TABLE t; CREATE t:1")
        os.kill(pid_of(engine), signal.SIGSTOP)
        with pytest.raises(Unavailable, match="did not answer"):
            await db.run("CREATE t:2", timeout_s=0.3)
        assert await count(db) == 1


@pytest.mark.slow
async def test_a_stopped_worker_does_not_block_a_large_write_for_ever(store_folder: Path) -> None:
    async with opened(store_folder) as engine:
        db = await engine.database("control")
        await db.run("DEFINE TABLE t")
        os.kill(pid_of(engine), signal.SIGSTOP)
        with pytest.raises(Unavailable, match="did not answer"):
            await db.run("CREATE t:1 SET v = $v", v="x" * 8_000_000)
        assert await count(db) == 0


async def test_a_worker_killed_while_idle_goes_unnoticed_by_callers(store_folder: Path) -> None:
    async with opened(store_folder) as engine:
        db = await engine.database("control")
        other = await engine.database("context_a")
        await db.run("DEFINE TABLE t; CREATE t:1")
        await other.run("DEFINE TABLE t")
        kill(engine)
        assert await count(db) == 1
        assert await count(other) == 0


async def test_calls_in_flight_fail_and_calls_behind_them_wait_for_the_next_worker(store_folder: Path) -> None:
    async with opened(store_folder) as engine:
        db = await engine.database("control")
        await db.run("DEFINE TABLE t; CREATE t:1")
        running = asyncio.create_task(db.run("RETURN sleep(20s)", timeout_s=30))
        await asyncio.sleep(0.2)
        waiting = [asyncio.create_task(count(db)) for _ in range(5)]
        await asyncio.sleep(0)
        os.kill(pid_of(engine), signal.SIGKILL)
        with pytest.raises(Unavailable, match="nothing was acknowledged") as died:
            await running
        assert died.value.retry_after_s == 1
        assert await asyncio.gather(*waiting) == [1] * 5


async def test_a_call_whose_turn_does_not_come_is_not_run_and_harms_nobody(store_folder: Path) -> None:
    async with opened(store_folder) as engine:
        db = await engine.database("control")
        await db.run("DEFINE TABLE t")
        before = pid_of(engine)
        slow = asyncio.create_task(db.run("RETURN sleep(2s)", timeout_s=30))
        await asyncio.sleep(0.05)
        with pytest.raises(Unavailable, match="busy"):
            await db.run("CREATE t:1", timeout_s=0.1)
        await slow
        assert await count(db) == 0
        assert pid_of(engine) == before


async def test_cancelled_calls_are_dropped_before_their_turn_and_ignored_after(store_folder: Path) -> None:
    async with opened(store_folder) as engine:
        db = await engine.database("control")
        await db.run("DEFINE TABLE t")
        running = asyncio.create_task(db.run("RETURN sleep(2s); CREATE t:ran", timeout_s=30))
        await asyncio.sleep(0.05)
        waiting = asyncio.create_task(db.run("CREATE t:waited"))
        await asyncio.sleep(0.05)
        for task in (running, waiting):
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert (await db.run("SELECT VALUE record::id(id) FROM t", timeout_s=30))[0] == ["ran"]


async def test_calls_run_in_order(store_folder: Path) -> None:
    async with opened(store_folder) as engine:
        db = await engine.database("control")
        await asyncio.gather(*[db.run("UPSERT t:1 SET seen += $n", n=[n]) for n in range(50)])
        assert (await db.run("SELECT VALUE seen FROM ONLY t:1"))[0] == list(range(50))


async def test_a_stop_signal_to_the_whole_group_leaves_the_worker_to_its_parent(store_folder: Path) -> None:
    async with opened(store_folder) as engine:
        db = await engine.database("control")
        pid = pid_of(engine)
        for stop in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(pid, stop)
        assert await db.run("RETURN 1") == [1]
        assert pid_of(engine) == pid
        assert os.getpgid(pid) != os.getpgid(0)


async def test_after_close_calls_are_refused_and_another_process_may_open(store_folder: Path) -> None:
    async with opened(store_folder) as engine:
        db = await engine.database("control")
        await db.run("DEFINE TABLE t; CREATE t:1")
        pid = pid_of(engine)
        last = asyncio.create_task(db.run("CREATE t:2"))
        await asyncio.sleep(0)
        await engine.close()
        await engine.close()
        await last
        assert not psutil.pid_exists(pid)
        with pytest.raises(Unavailable, match="closed"):
            await db.run("RETURN 1")
    assert not list((store_folder / "control" / "wal").iterdir()), "close writes the log into tables"
    async with opened(store_folder) as engine:
        assert await count(await engine.database("control")) == 2


async def test_a_database_another_engine_has_open_is_refused(
    store_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(store_folder) as engine, opened(store_folder) as second:
        await engine.database("control")
        with pytest.raises(StoreRefused, match="Another process"):
            await second.database("control")
        await second.database("context_a")


async def test_a_lost_memory_store_says_so_instead_of_starting_empty() -> None:
    async with opened(None) as engine:
        db = await engine.database("control")
        await db.run("DEFINE TABLE t; CREATE t:1")
        kill(engine)
        for _ in range(2):
            with pytest.raises(Unavailable, match="in-memory"):
                await count(db)


async def test_recycle_and_bulk_keep_everything_in_a_fresh_process(store_folder: Path) -> None:
    async with opened(store_folder) as engine:
        db = await engine.database("control")
        await db.run("DEFINE TABLE t; CREATE t:1")
        pids = [pid_of(engine)]
        await engine.recycle()
        pids.append(pid_of(engine))
        async with engine.bulk():
            pids.append(pid_of(engine))
            assert "sync=never" in " ".join(psutil.Process(pids[-1]).cmdline())
            await db.run("CREATE t:2")
        pids.append(pid_of(engine))
        assert "sync" not in " ".join(psutil.Process(pids[-1]).cmdline())
        assert await count(db) == 2
        assert len(set(pids)) == 4
        with pytest.raises(RuntimeError, match="import"):
            async with engine.bulk():
                raise RuntimeError("import")
        assert "sync" not in " ".join(psutil.Process(pid_of(engine)).cmdline())


async def test_what_is_asked_while_the_store_is_reopened_waits_and_is_answered(
    store_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow_close(engine: EmbeddedEngine, close: Any = EmbeddedEngine._close_worker) -> None:
        time.sleep(2.0)
        close(engine)

    async with opened(store_folder) as engine:
        db = await engine.database("control")
        await db.run("DEFINE TABLE t; CREATE t:1")
        pid = pid_of(engine)
        with monkeypatch.context() as patched:
            patched.setattr(EmbeddedEngine, "_close_worker", slow_close)
            reopening = asyncio.create_task(engine.recycle())
            await asyncio.sleep(0)
            asked = [db.run("SELECT VALUE id FROM t", timeout_s=1.5) for _ in range(20)]
            written = [db.run(f"CREATE t:{number}", timeout_s=1.5) for number in range(2, 12)]
            await asyncio.gather(*asked, *written)
            await reopening
        assert await count(db) == 11
        assert pid_of(engine) != pid
        blocked = asyncio.create_task(db.run("SLEEP 2s", timeout_s=30.0))
        await asyncio.sleep(0.05)
        with pytest.raises(Unavailable, match="busy"):  # time runs out again once it is open
            await db.run("SELECT VALUE id FROM t", timeout_s=0.2)
        assert engine.idle_s == 0.0
        await blocked
        async with asyncio.timeout(10):
            while engine.idle_s == 0.0:
                await asyncio.sleep(0.01)
        assert engine.worker_bytes > 2**20


async def test_recycling_memory_does_nothing() -> None:
    async with opened(None) as engine:
        db = await engine.database("control")
        await db.run("DEFINE TABLE t; CREATE t:1")
        await engine.recycle()
        async with engine.bulk():
            assert await count(db) == 1


async def test_removing_a_database_takes_its_files(store_folder: Path) -> None:
    async with opened(store_folder) as engine:
        db = await engine.database("context_a")
        await db.run("DEFINE TABLE t; CREATE t:1 SET text = 'gone with the folder'")
        await engine.remove_database("context_a")
        assert list(store_folder.iterdir()) == []
        with pytest.raises(StoreRefused, match="missing"):
            await db.run("SELECT * FROM t")
        assert await count(await fresh(engine)) == 0


async def fresh(engine: EmbeddedEngine) -> Db:
    db = await engine.database("context_a")
    await db.run("DEFINE TABLE t")
    return db


async def test_a_removal_that_was_interrupted_is_finished_at_the_next_start(store_folder: Path) -> None:
    (store_folder / ".removed-context_a" / "wal").mkdir(parents=True)
    (store_folder / ".removed-context_a" / "wal" / "0").write_text("left")
    async with opened(store_folder):
        assert list(store_folder.iterdir()) == []


def test_an_engine_is_not_bound_to_a_loop(store_folder: Path) -> None:
    engine = EmbeddedEngine(folder_url(store_folder))

    async def write() -> Db:
        await engine.start()
        db = await engine.database("control")
        await db.run("DEFINE TABLE t; CREATE t:1")
        return db

    db = asyncio.run(write())
    assert asyncio.run(count(db)) == 1
    asyncio.run(engine.close())


@pytest.mark.slow
async def test_more_databases_than_are_held_open_at_once(store_folder: Path) -> None:
    async with opened(store_folder) as engine:
        dbs = [await engine.database(f"context_{n}") for n in range(worker.MAX_OPEN + 6)]
        for n, db in enumerate(dbs):
            await db.run("DEFINE TABLE t; CREATE t:1 SET n = $n", n=n)
        found = await asyncio.gather(*[db.run("SELECT VALUE n FROM t", timeout_s=30) for db in dbs])
        assert [result[0][0] for result in found] == list(range(len(dbs)))
        threads = psutil.Process(pid_of(engine)).num_threads()
        assert threads < 5 * worker.MAX_OPEN + 100


OWNER = """
import asyncio, sys
from pathlib import Path
from keeps.store.address import folder_url
from keeps.store.embedded import EmbeddedEngine

async def main():
    engine = EmbeddedEngine(folder_url(Path(sys.argv[1])))
    db = await engine.database("control")
    await db.run("DEFINE TABLE t; CREATE t:1")
    print(engine.worker_pid, flush=True)
    await db.run(sys.argv[2], timeout_s=60)
    await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.mark.parametrize("doing", ["RETURN 1", "RETURN sleep(60s)"])
async def test_the_worker_ends_with_a_killed_parent_and_frees_its_files(
    store_folder: Path, tmp_path: Path, doing: str
) -> None:
    """Run from a script without a main guard, in a folder with a file named like a module the worker needs."""
    (tmp_path / "pickle.py").write_text("raise SystemExit('the wrong module')")
    parent = subprocess.Popen(
        [sys.executable, "-P", "-c", OWNER, str(store_folder), doing],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    try:
        assert parent.stdout
        pid = int(parent.stdout.readline())
        assert psutil.pid_exists(pid)
        parent.kill()
        parent.wait()
        async with opened(store_folder) as engine:
            assert await count(await engine.database("control")) == 1
        wait_for_end(pid)
    finally:
        parent.kill()
        parent.communicate()


@pytest.mark.slow
async def test_no_acknowledged_write_is_lost_when_the_worker_is_killed_again_and_again(store_folder: Path) -> None:
    """Rows come in pairs, one transaction each: none is lost, none is half there, calls in flight say so."""
    acknowledged = set[str]()
    refused = 0

    async def write(db: Db, stop: asyncio.Event, writer: int) -> None:
        nonlocal refused
        number = 0
        while not stop.is_set():
            number += 1
            key = f"{writer}_{number}"
            try:
                await db.run("BEGIN; CREATE t SET pair = $key; CREATE t SET pair = $key; COMMIT;", key=key)
            except Unavailable:
                refused += 1
            else:
                acknowledged.add(key)

    async with opened(store_folder) as engine:
        db = await engine.database("control")
        await db.run("DEFINE TABLE t")
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            for writer in range(4):
                tasks.create_task(write(db, stop, writer))
            for round_ in range(6):
                goal = len(acknowledged) + 20 + 7 * round_
                while len(acknowledged) < goal:
                    await asyncio.sleep(0.001)
                os.kill(pid_of(engine), signal.SIGKILL)
            stop.set()
        pairs: list[str] = (await db.run("SELECT VALUE pair FROM t"))[0]
    assert refused >= 1
    assert acknowledged <= set(pairs)
    assert all(pairs.count(key) == 2 for key in set(pairs))
    assert len(set(pairs)) <= len(acknowledged) + refused


@pytest.mark.slow
async def test_one_commit_is_one_flush_and_a_read_is_none(store_folder: Path, tmp_path: Path) -> None:
    """Counted by strace, also when two databases take turns."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    async with opened(store_folder) as engine:
        dbs = [await engine.database("control"), await engine.database("context_a")]
        for db in dbs:
            await db.run("DEFINE TABLE t")
        log = tmp_path / "calls"
        tracer = subprocess.Popen(
            ["strace", "-f", "-p", str(pid_of(engine)), "-e", "trace=fsync,fdatasync", "-o", str(log)],
            stderr=subprocess.PIPE,
            text=True,
        )
        assert tracer.stderr
        if "attached" not in (first := tracer.stderr.readline()):
            tracer.communicate()
            pytest.skip(f"strace may not attach here: {first.strip()}")
        before = engine.commits
        for _ in range(10):
            for db in dbs:
                await db.run("BEGIN; CREATE t SET n = 1; CREATE t SET n = 2; COMMIT;")
                await count(db)
        tracer.send_signal(signal.SIGINT)
        tracer.communicate()
        flushes = sum("sync(" in line and "= 0" in line for line in log.read_text().splitlines())
        assert engine.commits - before == 20
        assert flushes == 20
