"""A runtime in memory with one context, an owner and an agent; a clock the tests move."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio

from keeps.config import Config
from keeps.core.access import Caller, KeyId, Principal, PrincipalId, PrincipalKind, Verb
from keeps.core.scopes import EVERYTHING, ScopePath, parse_pattern
from keeps.services import legs, meant
from keeps.services.runtime import Context, Runtime, open_runtime
from keeps.store import contexts as store_contexts
from keeps.store.commit import Batch
from keeps.store.db import Db, Engine, RecordID, open_engine


class HandClock:
    """Time that moves when told to, and one microsecond a look."""

    def __init__(self) -> None:
        self.now = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(microseconds=1)
        return self.now

    def forward(self, **by: float) -> None:
        self.now += timedelta(**by)


@pytest.fixture(autouse=True)
def patient_legs() -> Iterator[None]:
    """No leg of a question runs out of time on a slow machine; tests of deadlines set their own."""
    with pytest.MonkeyPatch.context() as patched:
        for name in ("LEG_TIMEOUT_S", "VECTOR_TIMEOUT_S", "MEANING_TIMEOUT_S", "FURTHER_TIMEOUT_S", "_ALSO_WAIT_S"):
            patched.setattr(legs, name, 60.0)
        for name in ("_DEADLINE_S", "_CATCH_UP_S"):
            patched.setattr(meant, name, 60.0)
        yield


@pytest_asyncio.fixture
async def clock() -> HandClock:
    return HandClock()


class Borrowed:
    """The engine of the whole run, for one test: its databases go when the test closes it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._names: set[str] = set()
        self._before = engine.commits

    @property
    def commits(self) -> int:
        return self._engine.commits - self._before

    async def database(self, name: str) -> Db:
        self._names.add(name)
        return await self._engine.database(name)

    async def remove_database(self, name: str) -> None:
        self._names.discard(name)
        await self._engine.remove_database(name)

    async def close(self) -> None:
        for name in self._names:
            await self._engine.remove_database(name)
        self._names.clear()


@pytest.fixture(scope="session")
def engine_of_the_run() -> Iterator[Engine]:
    """One process for all tests: starting it costs more than most of them."""
    engine = asyncio.run(open_engine("mem://"))
    yield engine
    asyncio.run(engine.close())


@pytest_asyncio.fixture
async def rt(clock: HandClock, engine_of_the_run: Engine) -> AsyncIterator[Runtime]:
    async with open_runtime(Config(), clock=clock, engine=Borrowed(engine_of_the_run)) as runtime:
        yield runtime


@pytest_asyncio.fixture
async def context(rt: Runtime) -> Context:
    row = store_contexts.ContextRow(
        id="acme", namespace="keeps", database=store_contexts.database_of("acme"), created_at=rt.clock()
    )
    batch = Batch(at=rt.clock())
    batch.puts.append({"id": RecordID("context", row.id), "row": store_contexts.to_row(row)})
    await rt.commit_control(batch)
    return await rt.context("acme")


def caller(
    *patterns: str, kind: PrincipalKind = PrincipalKind.AGENT, name: str = "bot", home: str | None = None
) -> Caller:
    """A caller that holds every verb over `patterns`; over everything when none is given."""
    held = tuple(map(parse_pattern, patterns)) or (EVERYTHING,)
    principal = Principal(
        id=PrincipalId(name),
        display_name=name,
        kind=kind,
        grants=dict.fromkeys(Verb, held),
        home=ScopePath(home) if home else None,
    )
    return Caller(principal=principal, key_id=KeyId("k1"))
