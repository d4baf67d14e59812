"""Random work of many owners at once: through every leg and service nothing of anybody else comes back."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from keeps.config import Config
from keeps.services.runtime import Context, Runtime, open_runtime
from keeps.store import contexts as store_contexts
from keeps.store.commit import Batch
from keeps.store.db import Engine, RecordID
from keeps.store.scopes import ScopeSets
from tests.services.asking import Services
from tests.services.conftest import Borrowed, HandClock, caller
from tests.services.interleaving import KEYS_OF, MODES, Reader, Work

pytestmark = pytest.mark.slow

STEPS = 10_000
SEED = 20260501


@pytest_asyncio.fixture(params=["fake"])
async def place(
    request: pytest.FixtureRequest, clock: HandClock, engine_of_the_run: Engine
) -> AsyncIterator[tuple[Runtime, Context]]:
    config = Config(embedder=request.param)
    async with open_runtime(config, clock=clock, engine=Borrowed(engine_of_the_run)) as rt:
        row = store_contexts.ContextRow(
            id="shared", namespace="keeps", database=store_contexts.database_of("shared"), created_at=rt.clock()
        )
        batch = Batch(at=rt.clock())
        batch.puts.append({"id": RecordID("context", row.id), "row": store_contexts.to_row(row)})
        await rt.commit_control(batch)
        yield rt, await rt.context("shared")


def work_at(place: tuple[Runtime, Context], seed: int) -> Work:
    readers = [Reader(patterns, Services(*place, caller(*patterns))) for patterns in KEYS_OF]
    return Work(random.Random(seed), readers)


@pytest.mark.timeout(300)
async def test_nothing_of_others_comes_back_in_ten_thousand_steps(place: tuple[Runtime, Context]) -> None:
    work = work_at(place, SEED)
    await work.steps(STEPS)
    assert sum(work.done.values()) == STEPS
    # A check that saw nothing would prove nothing.
    for mode in MODES:
        assert work.seen[f"recall {mode}"] > 20, mode
    for what in ("context", "inspect", "facts", "relations", "actions", "entities", "history", "session context"):
        assert work.seen[what] > 20, what


async def test_the_work_sees_a_leak(place: tuple[Runtime, Context], monkeypatch: pytest.MonkeyPatch) -> None:
    work = work_at(place, SEED)
    await work.steps(300)
    monkeypatch.setattr(ScopeSets, "readable", lambda sets, region: sets.everything())
    with pytest.raises(AssertionError):
        await work.steps(300)
