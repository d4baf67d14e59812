"""Databases for contract tests: each test runs in memory and on a file, in a database of its own."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest

from keeps.store.db import Db, Engine, open_engine

R = TypeVar("R")

_numbers = itertools.count(1)


def _apart(work: Coroutine[Any, Any, R]) -> R:
    """Run in a thread with a loop of its own: session fixtures outlive the loop of any test."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


@pytest.fixture(scope="session")
def memory_engine() -> Iterator[Engine]:
    """One in-memory engine for the whole run: starting its process takes half a second."""
    engine = _apart(open_engine("mem://"))
    yield engine
    _apart(engine.close())


@pytest.fixture(scope="session")
def file_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """One engine on files for the whole run."""
    engine = _apart(open_engine(f"surrealkv://{tmp_path_factory.mktemp('store')}"))
    yield engine
    _apart(engine.close())


@pytest.fixture(params=["memory", "file"])
async def db(request: pytest.FixtureRequest) -> AsyncIterator[Db]:
    """A fresh, empty database, once in memory and once on a file."""
    engine: Engine = request.getfixturevalue(f"{request.param}_engine")
    name = f"test_{next(_numbers)}"
    yield await engine.database(name)
    await engine.remove_database(name)


@pytest.fixture
def store_folder(tmp_path: Path) -> Path:
    """An absolute folder for an engine the test opens itself."""
    return tmp_path / "store"
