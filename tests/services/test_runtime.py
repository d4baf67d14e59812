"""A runtime let go: once, twice, by whoever comes first."""

from __future__ import annotations

import asyncio
import os
import stat
from contextlib import suppress
from pathlib import Path

import pytest

from keeps.config import Config
from keeps.core.errors import Forbidden
from keeps.services.remember import Message, Remember, remember
from keeps.services.runtime import Context, Runtime, open_runtime
from tests.services.conftest import caller
from tests.services.test_archive import opened


async def test_closing_again_does_no_harm(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with opened(home) as at:
        await at.say("The pilot boat leaves at six")
        await at.rt.close()
        others = [os.open(tmp_path, os.O_RDONLY) for _ in range(8)]  # take the numbers that were let go
        await at.rt.close()
        # Leaving the block closes once more.
    for other in others:
        os.close(other)
    async with open_runtime(Config(data=home)) as rt:
        assert rt.ledger.verify() == 0
        await rt.context("acme")


# ---------------------------------------------------------------------- locks
async def test_writers_of_one_entity_wait_for_each_other_and_leave_no_lock(context: Context) -> None:
    inside: list[str] = []

    async def write(*names: str) -> None:
        async with context.alone_on(names):
            assert not set(names) & set(inside)
            inside.extend(names)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            for name in names:
                inside.remove(name)

    await asyncio.gather(*(write(*names) for names in ("ab", "b", "ba", "a", "c", "cab") * 5))
    assert context.entity_locks == {}


async def test_who_gives_up_waiting_leaves_no_lock(context: Context) -> None:
    async def write() -> None:
        async with context.alone_on(["a", "b"]):
            raise KeyError

    async with context.alone_on(["b"]):
        waiting = asyncio.create_task(write())
        while context.entity_locks["b"].users < 2:
            await asyncio.sleep(0)
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        assert list(context.entity_locks) == ["b"]
    with pytest.raises(KeyError):
        await write()
    assert context.entity_locks == {}


async def test_refused_writes_leave_nothing_in_memory(rt: Runtime, context: Context) -> None:
    for name in ("no-such-session", "x" * 1_000_000):
        with pytest.raises(Forbidden):
            await remember(rt, context, caller(), Remember(messages=[Message(text="hello")], session=name))
    assert (context.entity_locks, context.threads) == ({}, {})


# ---------------------------------------------------------------------- who may enter the folder
@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
async def test_a_folder_of_ours_is_shut_to_others(tmp_path: Path, mode: int, caplog: pytest.LogCaptureFixture) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    for _ in range(2):  # an empty one, and one in use
        home.chmod(mode)
        async with opened(home):
            assert stat.S_IMODE(home.stat().st_mode) == 0o700
    (home / "letters").mkdir()
    home.chmod(mode)
    assert not caplog.records
    async with opened(home):
        pass
    assert stat.S_IMODE(home.stat().st_mode) == mode
    assert [record.name for record in caplog.records] == ["keeps.services.runtime"]
    assert f"chmod go= {home}" in caplog.text
