"""The real model, loaded once for the run, and a server that is none."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from keeps.models.minilm import MiniLM
from tests.models.double import Double


@pytest.fixture(scope="session")
def minilm() -> Iterator[MiniLM]:
    """The model with its real files; tests do not close it."""
    embedder = MiniLM()
    yield embedder
    asyncio.run(embedder.close())


@pytest.fixture
def double() -> Iterator[Double]:
    """A server on loopback that answers as OpenAI's would."""
    with Double() as running:
        yield running
