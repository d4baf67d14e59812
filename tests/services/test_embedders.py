"""Which embedders a context may have, who gets the key, and when one is let go."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic import SecretStr

from keeps.config import Config
from keeps.core.errors import Invalid
from keeps.models.base import Embedder
from keeps.models.fake import FakeEmbedder
from keeps.services import contexts, upkeep
from keeps.services.contexts import ContextChange
from keeps.services.embedders import Embedders
from keeps.services.runtime import Runtime, open_runtime
from keeps.store.db import Engine
from tests.models.double import Double
from tests.services.conftest import Borrowed

KEY = SecretStr("sk-very-secret-0815")


@pytest.fixture
def double() -> Iterator[Double]:
    """A server of embeddings on loopback."""
    with Double() as running:
        yield running


@asynccontextmanager
async def opened(engine: Engine, **settings: Any) -> AsyncIterator[Runtime]:
    """A runtime in memory with one context and these settings."""
    async with open_runtime(Config(**settings), engine=Borrowed(engine)) as rt:
        await contexts.bootstrap(rt, "acme")
        yield rt


async def choose(rt: Runtime, name: str) -> None:
    await contexts.patch(rt, "acme", ContextChange(config={"embedder": name}))


@pytest.mark.parametrize("name", ["openai:small", "ollama:small", "compatible:small"])
async def test_no_context_sends_its_texts_to_a_server_by_itself(engine_of_the_run: Engine, name: str) -> None:
    where = {"embedder_url": "http://127.0.0.1:9/v1", "embedder_key": KEY}
    async with opened(engine_of_the_run, embedder="none", **where) as rt:
        with pytest.raises(Invalid, match="KEEPS_EMBEDDERS_ALLOWED"):
            await choose(rt, name)
        for local in ("fake", "fake-8", "none"):
            await choose(rt, local)
    async with opened(engine_of_the_run, embedder="none", embedders_allowed=(name,), **where) as rt:
        await choose(rt, name)
        with pytest.raises(Invalid, match="KEEPS_EMBEDDERS_ALLOWED"):
            await choose(rt, f"{name}-other")


async def test_the_embedder_of_the_process_may_be_chosen_by_name(engine_of_the_run: Engine) -> None:
    async with opened(engine_of_the_run, embedder="ollama:own") as rt:
        await choose(rt, "fake-8")
        await choose(rt, "ollama:own")
        with pytest.raises(Invalid):
            await choose(rt, "ollama:another")


async def asked_with(rt: Runtime, name: str, double: Double) -> str | None:
    """What an embedder shows as its key to the server it asks."""
    double.headers.clear()
    watched = rt.embedders.get(name)
    assert watched is not None
    await watched.space()
    return double.headers[0].get("authorization")


@pytest.mark.parametrize(
    ("own", "allowed", "name"),
    [
        ("compatible:own", (), "compatible:own"),
        ("compatible:own", ("compatible:more", "ollama:x"), "compatible:more"),
        ("none", ("compatible:only",), "compatible:only"),
        ("ollama:own", (), "ollama:own"),
    ],
)
async def test_the_key_goes_to_the_provider_it_is_for(
    engine_of_the_run: Engine, double: Double, own: str, allowed: tuple[str, ...], name: str
) -> None:
    settings = {"embedder": own, "embedders_allowed": allowed, "embedder_url": double.url, "embedder_key": KEY}
    async with opened(engine_of_the_run, **settings) as rt:
        assert await asked_with(rt, name, double) == f"Bearer {KEY.get_secret_value()}"


@pytest.mark.parametrize(
    ("own", "allowed", "url"),
    [
        ("openai:own", ("ollama:more",), None),
        ("openai:own", ("ollama:more",), "http://127.0.0.1:9/v1"),
        ("none", ("ollama:more", "openai:more"), "http://127.0.0.1:9/v1"),
        ("ollama:more", (), None),
    ],
)
async def test_the_key_goes_to_no_other(
    engine_of_the_run: Engine, double: Double, monkeypatch: pytest.MonkeyPatch, own: str, allowed: Any, url: str | None
) -> None:
    monkeypatch.setattr("keeps.models.opened._URLS", {"openai": "http://127.0.0.1:9/v1", "ollama": double.url})
    settings = {"embedder": own, "embedders_allowed": allowed, "embedder_url": url, "embedder_key": KEY}
    async with opened(engine_of_the_run, **settings) as rt:
        assert KEY.get_secret_value() not in str(await asked_with(rt, "ollama:more", double))


async def test_another_provider_has_no_address_of_the_first(engine_of_the_run: Engine) -> None:
    settings = {"embedder": "openai:own", "embedder_url": "http://127.0.0.1:9/v1", "embedder_key": KEY}
    async with opened(engine_of_the_run, embedders_allowed=("compatible:more",), **settings) as rt:
        with pytest.raises(Invalid, match="KEEPS_EMBEDDER_URL"):
            await choose(rt, "compatible:more")


class Closing(FakeEmbedder):
    """A fake that notes when it is closed."""

    def __init__(self, dims: int, closed: list[int]) -> None:
        super().__init__(dims)
        self._number, self._closed = dims, closed

    async def close(self) -> None:
        self._closed.append(self._number)


async def test_an_embedder_that_nobody_uses_is_closed() -> None:
    closed: list[int] = []

    def open_(name: str) -> Embedder | None:
        return Closing(int(name), closed)

    embedders = Embedders("1", open_)
    for name in ("1", "2", "3"):
        embedders.get(name)
    await embedders.keep({"2"})
    assert closed == [3]
    embedders.get("3")
    await embedders.close()
    assert sorted(closed) == [1, 2, 3, 3]


async def test_names_that_were_tried_are_not_kept(engine_of_the_run: Engine) -> None:
    async with opened(engine_of_the_run, embedder="fake") as rt:
        await rt.context("acme")
        for dims in range(10, 30):
            await choose(rt, f"fake-{dims}")
        await upkeep.keep_up(rt)
        assert rt.embedders.opened == {"fake", "fake-29"}
