"""Trying something that must not break the agent: within a time, and whatever goes wrong is an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Tried(Generic[T]):
    """What came of a try: its value, or the error that ended it; `TimeoutError` when the time was up."""

    value: T | None = None
    error: BaseException | None = None

    @property
    def failed(self) -> str | None:
        """The name of the error's class, None when all went well. Never its message, which may quote a text."""
        return None if self.error is None else type(self.error).__name__


async def attempt(work: Coroutine[Any, Any, T], *, timeout_s: float) -> Tried[T]:
    """Run `work` for at most `timeout_s` seconds. Raises nothing; when the caller is cancelled, so is the work.

    Work that is told to stop and does not is left behind, so that it costs the caller no more than the time it had.
    """
    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait({task}, timeout=timeout_s)
    except asyncio.CancelledError:
        task.cancel()
        raise
    if not done:
        task.cancel()
        task.add_done_callback(_seen)
        return Tried(error=TimeoutError())
    if task.cancelled():
        return Tried(error=asyncio.CancelledError())
    error = task.exception()
    return Tried(task.result()) if error is None else Tried(error=error)


def _seen(task: asyncio.Future[Any]) -> None:
    """Look at how it ended, so that nobody is warned that nobody did."""
    if not task.cancelled():
        task.exception()
