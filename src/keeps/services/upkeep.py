"""What a long-running process does now and then: note when keys were used, drop what is over,
bring an index that stayed behind up to its record."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Final

from keeps.core.errors import KeepsError
from keeps.services import access, index, keys, replies, traces
from keeps.services.runtime import Runtime

EVERY_S: Final = 60.0

_log = logging.getLogger(__name__)


async def keep_up(rt: Runtime) -> None:
    """Do it once, in every open context. A record that cannot answer now is asked again next time."""
    await access.flush_usage(rt)
    for context in list(rt.contexts.values()):
        try:
            await replies.prune(rt, context)
            await keys.prune(rt, context)
            await traces.prune(rt, context)
            async with context.still():
                await index.catch_up(context.indexed)
            context.vectors.wake()
        except KeepsError as error:
            _log.warning("upkeep of %s put off: %s", context.id, error.message)


@asynccontextmanager
async def warmed(rt: Runtime) -> AsyncGenerator[None]:
    """Load what the open contexts make vectors with while the block begins, so that no first question waits for it."""
    task = asyncio.create_task(_warm(rt))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _warm(rt: Runtime) -> None:
    for context in list(rt.contexts.values()):
        await context.vectors.warm()


@asynccontextmanager
async def kept_up(rt: Runtime, *, every_s: float = EVERY_S) -> AsyncGenerator[None]:
    """Do it every minute while the block runs, and note the last uses when it ends."""

    async def go_on() -> None:
        while True:
            await asyncio.sleep(every_s)
            await keep_up(rt)

    task = asyncio.create_task(go_on())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await access.flush_usage(rt)
