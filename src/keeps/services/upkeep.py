"""What a long-running process does now and then: note when keys were used, drop what is over, bring an index that
stayed behind up to its record, give the engine a fresh process after an import."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Final

from keeps.core.errors import KeepsError
from keeps.services import access, audit, deletions, index, keys, replies, runs, sweep, traces
from keeps.services.runtime import Runtime
from keeps.store.embedded import EmbeddedEngine

EVERY_S: Final = 60.0

RECYCLE_TURNS: Final = 20_000
"""Turns written after which the engine gets a fresh process: so many were seen to leave 100 MB in the old one that no
answer needs. Ending it and beginning another takes one or two seconds then, and grows with what was written."""

RECYCLE_BYTES: Final = 512 * 1024 * 1024
"""The same for a process that holds this much, whatever it did: an index built anew reads every row through it.
Once an hour at most, for a large record may need as much."""

RECYCLE_EVERY: Final = timedelta(hours=1)

RECYCLE_IDLE_S: Final = 2.0
"""How long nobody may have asked for anything before, seconds."""

_log = logging.getLogger(__name__)


async def keep_up(rt: Runtime) -> None:
    """Do it once, in every open context. A record that cannot answer now is asked again next time."""
    await access.flush_usage(rt)
    for context in list(rt.contexts.values()):
        try:
            await replies.prune(rt, context)
            await keys.prune(rt, context)
            await traces.prune(rt, context)
            await audit.keep_head(rt, context)
            await runs.close_stale(rt, context)
            await runs.prune(rt, context)
            await deletions.finish_deletions(rt, context)
            await sweep.sweep(rt, context)
            async with context.still():
                await index.catch_up(context.indexed)
            context.vectors.wake()
        except KeepsError as error:
            _log.warning("upkeep of %s put off: %s", context.id, error.message)
    await rt.close_unused_embedders()


async def recycle(rt: Runtime) -> bool:
    """Give the engine a fresh process when the one it has is bloated and nobody needs it now; whether that was done.

    What is asked meanwhile waits and is answered. Raises: as `EmbeddedEngine.recycle`.
    """
    engine = rt.engine
    if not isinstance(engine, EmbeddedEngine) or engine.idle_s < RECYCLE_IDLE_S:
        return False
    now, before = rt.clock(), engine.worker_bytes
    written = sum(context.turns_written for context in rt.contexts.values())
    rested = rt.recycled_at is None or now - rt.recycled_at >= RECYCLE_EVERY
    if written <= RECYCLE_TURNS and not (before > RECYCLE_BYTES and rested):
        return False
    rt.recycled_at = now
    await engine.recycle()
    for context in rt.contexts.values():
        context.turns_written = 0
    _log.info(
        "the engine has a fresh process after %d turns: %d bytes, %d before", written, engine.worker_bytes, before
    )
    return True


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
            try:
                await recycle(rt)  # first, for the rest keeps the engine busy
            except KeepsError as error:
                _log.warning("the engine keeps its process: %s", error.message)
            await keep_up(rt)

    task = asyncio.create_task(go_on())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await access.flush_usage(rt)
