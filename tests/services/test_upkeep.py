"""The engine gets a fresh process after an import, when nobody is busy, and no request fails for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from keeps.config import Config
from keeps.core.modes import Infer
from keeps.core.scopes import parse_scopes
from keeps.services import contexts, index, upkeep
from keeps.services.recall import Recall, recall
from keeps.services.remember import Message, Remember, remember
from keeps.services.runtime import Context, Runtime, open_runtime
from keeps.services.upkeep import kept_up, recycle
from keeps.store.embedded import EmbeddedEngine
from tests.services.conftest import HandClock, caller

pytestmark = pytest.mark.slow

BATCH = 200


@pytest_asyncio.fixture
async def rt(tmp_path: Path, clock: HandClock) -> AsyncIterator[Runtime]:
    async with open_runtime(Config(data=tmp_path / "memory", embedder="none"), clock=clock) as runtime:
        await contexts.bootstrap(runtime, "acme")
        yield runtime


@pytest_asyncio.fixture
async def context(rt: Runtime) -> Context:
    return await rt.context("acme")


async def bring(rt: Runtime, context: Context, batches: int) -> None:
    for number in range(batches):
        said = [Message(text=f"ferry {number} leaves pier {turn} at nine") for turn in range(BATCH)]
        request = Remember(infer=Infer.NONE, messages=said, scope=parse_scopes("team/north"))
        await remember(rt, context, caller(), request)


def engine_of(rt: Runtime) -> EmbeddedEngine:
    assert isinstance(rt.engine, EmbeddedEngine)
    return rt.engine


async def test_an_import_is_followed_by_a_fresh_process_once(
    rt: Runtime, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_of(rt)
    monkeypatch.setattr(upkeep, "RECYCLE_TURNS", 2 * BATCH)
    monkeypatch.setattr(upkeep, "RECYCLE_IDLE_S", 0.0)
    pid = engine.worker_pid
    await bring(rt, context, 2)
    assert not await recycle(rt)
    await bring(rt, context, 1)
    assert await recycle(rt)
    assert not await recycle(rt)
    assert engine.worker_pid != pid
    found = await recall(rt, context, caller(), Recall(query="ferry 2 pier 7"))
    assert found.hits


async def test_not_while_somebody_is_busy(rt: Runtime, context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "RECYCLE_TURNS", 1)
    monkeypatch.setattr(upkeep, "RECYCLE_IDLE_S", 600.0)
    await bring(rt, context, 1)
    assert not await recycle(rt)  # it was asked a moment ago


async def test_a_process_that_holds_much_is_replaced_once_an_hour(
    rt: Runtime, context: Context, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "RECYCLE_IDLE_S", 0.0)
    await index.rebuild(context.indexed)
    assert not await recycle(rt)
    monkeypatch.setattr(upkeep, "RECYCLE_BYTES", 1)
    assert await recycle(rt)
    assert not await recycle(rt)
    clock.now += timedelta(hours=1)
    assert await recycle(rt)


async def test_no_request_fails_while_it_happens(
    rt: Runtime, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_of(rt)
    monkeypatch.setattr(upkeep, "RECYCLE_TURNS", BATCH)
    monkeypatch.setattr(upkeep, "RECYCLE_IDLE_S", 0.0)
    await bring(rt, context, 5)
    pids: set[int | None] = {engine.worker_pid}
    async with kept_up(rt, every_s=0.2):
        for number in range(4):
            await bring(rt, context, 2)
            asked = [recall(rt, context, caller(), Recall(query=f"ferry {number} pier {n}")) for n in range(20)]
            for found in await asyncio.gather(*asked):
                assert found.hits
                assert not found.degraded
            async with asyncio.timeout(60):
                while engine.worker_pid in pids | {None}:  # so much was written that one is due in each round
                    await asyncio.sleep(0.01)
            pids.add(engine.worker_pid)
