"""Vectors behind the acknowledgement: they follow the record, and nothing waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from keeps.config import Config
from keeps.core.spaces import Space
from keeps.models.base import Embedder
from keeps.models.fake import FakeEmbedder
from keeps.services import contexts, vectors
from keeps.services.remember import Message, Remember, remember
from keeps.services.runtime import Context, Runtime, open_runtime
from keeps.services.vectors import IndexStatus
from keeps.store.db import Engine
from tests.services.conftest import Borrowed, caller

HALF_MINUTE_S = 30.0


@asynccontextmanager
async def opened(engine: Engine, embedder: Embedder | None, **config: str) -> AsyncIterator[tuple[Runtime, Context]]:
    """A runtime in memory with one context."""
    async with open_runtime(Config(**config), engine=Borrowed(engine), embedder=embedder) as rt:
        await contexts.bootstrap(rt, "acme")
        yield rt, await rt.context("acme")


async def until(context: Context, fits: Callable[[IndexStatus], bool], *, within_s: float = 20.0) -> IndexStatus:
    """The status once it fits."""
    async with asyncio.timeout(within_s):
        while not fits(status := await context.vectors.status()):
            await asyncio.sleep(0.01)
        return status


def is_settled(status: IndexStatus) -> bool:
    return status.settled and not status.pending


async def say(rt: Runtime, context: Context, *texts: str) -> list[str]:
    """Write texts of one person; the refs of their turns."""
    done = await remember(rt, context, caller("/*"), Remember(messages=[Message(text=text) for text in texts]))
    return [f"turn:{turn}" for turn in done.turns]


async def nearest(context: Context, question: str, *, limit: int = 1) -> list[str]:
    """The refs whose meaning is nearest to a question."""
    found = await vectors.meaning_of(context, question, 5.0)
    if found is None:
        return []
    return [near.ref for near in await context.finder.near(*found, context.sets.everything(), limit=limit)]


async def test_vectors_follow_what_is_written(engine_of_the_run: Engine) -> None:
    async with opened(engine_of_the_run, FakeEmbedder()) as (rt, context):
        ships, bread = await say(rt, context, "The lighthouse guides ships", "Fresh bread smells of yeast")
        status = await until(context, is_settled)
        assert status.stored == 2
        assert [(s.space, s.wanted, s.held, s.state) for s in status.spaces] == [
            (Space("fake-384", 384), 2, 2, "answering")
        ]
        assert await nearest(context, "ships and lighthouses") == [ships]
        assert await nearest(context, "yeast in the bread") == [bread]
