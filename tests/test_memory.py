"""A folder and the processes that want it: who owns it, who attaches, who takes over."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest

import keeps
from keeps import memory as memory_module
from keeps.client import Client
from keeps.core.errors import Invalid, NotFound, StoreRefused, Unauthenticated, Unavailable
from keeps.memory import Memory
from keeps.store.owner import LOCK_NAME, OWNER_NAME, FolderInUse, FolderLock, Owner, read_owner

MARA = {"entity": {"type": "person", "name": "Mara"}, "key": "role", "value": "pilot"}

HOLDER = """
import asyncio, sys
from keeps import Memory

async def main():
    async with Memory.open(sys.argv[1]) as memory:
        for number in range(int(sys.argv[2])):
            await memory.remember(f"holder says number {number}", infer="none")
        print("owner" if memory.owner else "guest", flush=True)
        await asyncio.to_thread(sys.stdin.readline)

asyncio.run(main())
"""


@contextmanager
def holder(folder: Path, writes: int = 0) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the folder open, until the block ends or a line is sent to it."""
    command = [sys.executable, "-c", HOLDER, str(folder), str(writes)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()


def said_by(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_the_package_exports_its_doors() -> None:
    assert keeps.Memory is Memory
    assert keeps.Client is Client
    assert issubclass(keeps.errors.NotFound, keeps.KeepsError)
    assert {"Memory", "Client", "verify_cites"} <= set(dir(keeps))
    assert keeps.verify_cites(["a", "x"], ["a"]) == keeps.Verified(("a",), ("x",))
    with pytest.raises(AttributeError):
        keeps.nothing_of_this_name  # noqa: B018 - looking is the test


def test_importing_the_package_loads_next_to_nothing() -> None:
    code = "import keeps, sys, json; print(json.dumps([m for m in sys.modules if m.split('.')[0] in sys.argv[1:]]))"
    heavy = ["surrealdb", "fastapi", "httpx", "numpy", "pydantic"]
    ran = subprocess.run([sys.executable, "-c", code, *heavy], capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout) == []


def test_memory_and_client_have_the_same_verbs() -> None:
    verbs = [name for name, _ in inspect.getmembers(Client, inspect.isfunction) if not name.startswith("_")]
    assert {"remember", "recall", "forget", "history", "inspect", "whoami"} <= set(verbs)
    for verb in verbs:
        assert inspect.signature(getattr(Memory, verb)) == inspect.signature(getattr(Client, verb)), verb


async def test_an_empty_folder_becomes_a_memory(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "memory"
    async with Memory.open(folder) as memory:
        assert memory.owner
        assert memory.created
        me = await memory.whoami()
        assert (me.kind, me.display_name) == ("agent", "Agent")
        done = await memory.remember(triples=[MARA])
        assert done.extraction is not None
        assert [fact.value for fact in done.extraction.attributes] == ["pilot"]
        found = await memory.recall("what is Mara's role?")
        assert found.hits[0].text == "Mara's role is pilot."
        assert "Mara's role is pilot." in str(await memory.context("what is Mara's role?"))
        assert [fact.value for fact in (await memory.history("person/mara", "role")).history] == ["pilot"]
        note = json.loads((folder / OWNER_NAME).read_text())
        assert stat.S_IMODE((folder / OWNER_NAME).stat().st_mode) == 0o600
        assert note["endpoint"] == memory.endpoint
    assert not (folder / OWNER_NAME).exists()
    assert (folder / LOCK_NAME).exists()
    async with Memory.open(folder, saved_key="owner") as memory:
        assert not memory.created
        assert (await memory.whoami()).kind == "human"
        assert (await memory.entity("person/mara")).attributes[0].value == "pilot"


async def test_closing_leaves_no_process_and_no_task(tmp_path: Path) -> None:
    before = set(psutil.Process().children(recursive=True))
    tasks = asyncio.all_tasks()
    async with Memory.open(tmp_path / "m") as memory:
        await memory.health()
        endpoint = memory.endpoint
    assert set(psutil.Process().children(recursive=True)) <= before
    assert asyncio.all_tasks() == tasks
    async with Client(endpoint) as client:
        with pytest.raises(Unavailable):
            await client.health()


async def test_the_same_folder_opened_again_attaches(tmp_path: Path) -> None:
    async with Memory.open(tmp_path / "m") as first:
        async with Memory.open(tmp_path / "m") as second:
            assert (first.owner, second.owner) == (True, False)
            assert second.endpoint == first.endpoint
            await second.remember("the kettle is blue", infer="none")
            assert len((await first.recall("kettle")).hits) == 1
        await first.health()


async def test_a_guest_takes_over_when_the_owner_ends(tmp_path: Path) -> None:
    first = Memory.open(tmp_path / "m")
    memory = await first.__aenter__()
    async with Memory.open(tmp_path / "m") as guest:
        await memory.remember("the kettle is blue", infer="none")
        await first.__aexit__(None, None, None)
        # A write that could not even be sent is carried over like a question is.
        await guest.remember("the kettle is red now", infer="none")
        assert guest.owner
        assert len((await guest.recall("kettle")).hits) == 2
        again = read_owner(tmp_path / "m")
        assert again is not None
        assert again.endpoint == guest.endpoint


async def test_many_calls_at_once_take_over_once(tmp_path: Path) -> None:
    first = Memory.open(tmp_path / "m")
    await first.__aenter__()
    async with Memory.open(tmp_path / "m") as guest:
        await first.__aexit__(None, None, None)
        answers = await asyncio.gather(*(guest.remember(f"thing {n}", infer="none") for n in range(12)))
        assert len({answer.turn_id for answer in answers}) == 12
        assert guest.owner


async def test_a_missing_context_says_how_to_make_it(tmp_path: Path) -> None:
    async with Memory.open(tmp_path / "m") as memory:
        await memory.health()
    with pytest.raises(NotFound, match="keeps bootstrap"):
        async with Memory.open(tmp_path / "m", context="other"):
            pass
    assert read_owner(tmp_path / "m") is None


async def test_a_wrong_key_is_refused_by_the_memory(tmp_path: Path) -> None:
    async with Memory.open(tmp_path / "m", key="sp-nobody-nothing") as memory:
        with pytest.raises(Unauthenticated):
            await memory.whoami()


async def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "m"
    file.write_text("not a folder")
    with pytest.raises(StoreRefused, match="not a folder"):
        async with Memory.open(file):
            pass


async def test_the_key_of_the_folder_opens_it_and_no_other(tmp_path: Path) -> None:
    async with Memory.open(tmp_path / "a") as first, Memory.open(tmp_path / "b") as second:
        keys = json.loads((tmp_path / "a" / "keys.json").read_text())["default"]
        async with Client(first.endpoint, key=keys["agent"]) as client:
            assert (await client.whoami()).display_name == "Agent"
        async with Client(second.endpoint, key=keys["agent"]) as client:
            with pytest.raises(Unauthenticated):
                await client.whoami()


@pytest.mark.slow
async def test_two_processes_write_to_one_folder(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    with holder(folder, writes=5) as other:
        async with Memory.open(folder) as memory:
            for number in range(5):
                await memory.remember(f"we say number {number}", infer="none")
            roles = {"owner" if memory.owner else "guest", await asyncio.to_thread(said_by, other)}
            assert roles == {"owner", "guest"}
            found = await memory.recall("number", k=50)
            assert len(found.hits) == 10


@pytest.mark.slow
async def test_when_the_owner_is_killed_the_next_one_opens(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    with holder(folder, writes=5) as other:
        assert await asyncio.to_thread(said_by, other) == "owner"
        async with Memory.open(folder) as guest:
            assert not guest.owner
            other.kill()
            other.wait()
            found = await guest.recall("number", k=50)
            assert len(found.hits) == 5
            assert guest.owner


@pytest.mark.slow
@pytest.mark.parametrize("keyed", [False, True])
async def test_a_write_under_way_when_the_owner_is_killed(tmp_path: Path, keyed: bool) -> None:
    folder = tmp_path / "m"
    with holder(folder) as other:
        assert await asyncio.to_thread(said_by, other) == "owner"
        async with Memory.open(folder) as guest:
            os.kill(other.pid, signal.SIGSTOP)
            about = {"idempotency_key": "k1"} if keyed else {}
            writing = asyncio.create_task(guest.remember("the kettle is blue", infer="none", **about))
            await _waiting_for_an_answer(guest)
            other.kill()
            other.wait()
            if keyed:
                assert (await writing).turn_id
                assert len((await guest.recall("kettle")).hits) == 1
            else:
                with pytest.raises(Unavailable, match="not known"):
                    await writing
                assert (await guest.recall("kettle")).hits == ()
            assert guest.owner


async def _waiting_for_an_answer(guest: Memory) -> None:
    """Until a connection to the owner has been written to."""
    port = int(guest.endpoint.rpartition(":")[2])
    for _ in range(500):
        found = psutil.Process().net_connections("tcp")
        if any(c.raddr and c.raddr.port == port and c.status == psutil.CONN_ESTABLISHED for c in found):
            await asyncio.sleep(0.05)
            return
        await asyncio.sleep(0.01)
    raise AssertionError("no connection to the owner")


async def test_only_who_may_write_a_session_is_told_its_next_number(tmp_path: Path) -> None:
    async with Memory.open(tmp_path / "m", saved_key="owner") as memory:
        done = await memory.remember_many([{"content": "one"}, {"content": "two"}], infer="none")
        await memory.forget(ids=[f"turn:{done.turn_ids[1]}"], purge=True)
        mine = await memory.sessions.get(done.session_id)
        assert (mine.turn_count, mine.next_seq) == (1, 2)
        reader = await memory.keys.create("reader", grants={"memory:read": ["/*"]})
        async with Client(memory.endpoint, key=reader.key) as client:
            theirs = await client.sessions.get(done.session_id)
            assert (theirs.turn_count, theirs.next_seq) == (1, None)


@pytest.mark.slow
async def test_opening_may_be_cancelled_at_any_moment(tmp_path: Path) -> None:
    folder, before = tmp_path / "m", set(psutil.Process().children(recursive=True))
    for after_s in (0.0, 0.05, 0.15, 0.3, 0.45, 0.6):
        opening = Memory.open(folder)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(after_s), opening as memory:
                await memory.health()
        assert read_owner(folder) is None
    async with Memory.open(folder) as memory:
        await memory.remember("the kettle is blue", infer="none")
        assert len((await memory.recall("kettle")).hits) == 1
    assert set(psutil.Process().children(recursive=True)) <= before


@pytest.mark.slow
async def test_processes_that_race_for_an_empty_folder(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    with contextlib.ExitStack() as running:
        racers = [running.enter_context(holder(folder, writes=3)) for _ in range(3)]
        said = await asyncio.gather(*(asyncio.to_thread(said_by, racer) for racer in racers))
        assert sorted(said) == ["guest", "guest", "owner"]
        async with Memory.open(folder) as memory:
            assert len((await memory.recall("number", k=50, include_duplicates=True)).hits) == 9


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("begun", [False, True], ids=["empty", "begun"])
async def test_commands_at_once_all_write(tmp_path: Path, begun: bool) -> None:
    folder = tmp_path / "m"
    if begun:
        async with Memory.open(folder):
            pass
    texts = {f"The ferry number {number} leaves at seven" for number in range(4)}
    command = [sys.executable, "-m", "keeps", "remember", "--data", str(folder)]

    def remember(text: str) -> tuple[int, str]:
        ran = subprocess.run([*command, text], capture_output=True, text=True, timeout=200, check=False)
        return ran.returncode, ran.stderr if ran.returncode else ""

    assert await asyncio.gather(*(asyncio.to_thread(remember, text) for text in texts)) == [(0, "")] * len(texts)
    async with Memory.open(folder, saved_key="owner") as memory:
        page = await memory.facts(limit=50)
        assert {fact.value for fact in page.attributes} == texts


async def test_a_folder_taken_and_let_go_between_look_and_lock_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    acquire = FolderLock.acquire
    refused = iter([True, True, False])

    def taken(lock: FolderLock) -> None:
        if next(refused):
            raise FolderInUse("somebody was faster, and is gone again")
        acquire(lock)

    monkeypatch.setattr(FolderLock, "acquire", taken)
    async with Memory.open(tmp_path / "m") as memory:
        assert memory.owner


async def test_owners_may_end_one_after_the_other_while_a_guest_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moves = 0
    move = Memory._move

    async with Memory.open(tmp_path / "m") as first, Memory.open(tmp_path / "m") as guest:

        async def late(memory: Memory) -> None:
            nonlocal moves
            moves += 1
            if moves > 2:  # the owners found before are gone by the time they are asked
                await move(memory)

        monkeypatch.setattr(Memory, "_move", late)
        await first.close()
        assert (await guest.whoami()).kind == "agent"
        assert (moves, guest.owner) == (3, True)


async def test_an_owner_that_hangs_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_module, "PATIENCE_S", 0.5)
    monkeypatch.setattr(memory_module, "HEALTH_TIMEOUT_S", 0.2)
    folder = tmp_path / "m"
    async with Memory.open(folder):
        pass
    with FolderLock(folder) as lock, socket.create_server(("127.0.0.1", 0)) as deaf:
        with pytest.raises(Unavailable, match=r"other processes have held .* none says where it listens"):
            async with Memory.open(folder):
                pass
        port = deaf.getsockname()[1]
        now = datetime.now(UTC)
        lock.publish(Owner(endpoint=f"http://127.0.0.1:{port}", token="t", pid=1, started_at=now, version="0"))
        with pytest.raises(Unavailable, match=r"the process 1 that owns .* does not answer"):
            async with Memory.open(folder):
                pass


async def test_a_closed_memory_says_so(tmp_path: Path) -> None:
    async with Memory.open(tmp_path / "m") as memory, Memory.open(tmp_path / "m") as guest:
        pass
    for closed in (memory, guest):
        with pytest.raises(Invalid, match="this Memory is closed"):
            await closed.recall("kettle")
    assert read_owner(tmp_path / "m") is None


GUEST = """
import asyncio, json, sys
from keeps import Memory

async def main():
    async with Memory.open(sys.argv[1]) as memory:
        await memory.remember("the kettle is blue", infer="none")
        assert (await memory.recall("kettle")).hits
        print(json.dumps([memory.owner, sorted(name for name in sys.argv[2:] if name in sys.modules)]))

asyncio.run(main())
"""


async def test_who_joins_an_owner_loads_nothing_of_the_server(tmp_path: Path) -> None:
    server_half = ["fastapi", "uvicorn", "surrealdb", "numpy", "keeps.http", "keeps.services", "keeps.owning"]
    async with Memory.open(tmp_path / "m"):
        command = [sys.executable, "-c", GUEST, str(tmp_path / "m"), *server_half]
        ran = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout) == [False, []]
