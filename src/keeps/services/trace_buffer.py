"""What reads leave behind on its way to the record: many traces become one commit, and no read waits for it."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, Generic, TypeVar

from keeps.core.errors import KeepsError
from keeps.store.db import EngineError

EVERY_S: Final = 0.25
"""A trace is saved this long after the read, unless a full batch comes first."""

BATCH: Final = 100
"""Traces one commit takes."""

MOST: Final = 10_000
"""Traces that may wait; then the oldest are dropped."""

TRIES: Final = 3
"""How often a batch is sent before it is dropped."""

CLOSE_S: Final = 2.0
"""How long closing may wait for the last traces, seconds."""

SETTLE_S: Final = 2.0
"""How long a look at traces may wait for the newest ones, seconds."""

_log = logging.getLogger(__name__)

LeftT = TypeVar("LeftT")
Save = Callable[[Sequence[LeftT]], Awaitable[None]]
_FAILURES: Final = (KeepsError, EngineError)


class TraceBuffer(Generic[LeftT]):
    """What waits to be saved in one context. Losing it loses traces and nothing else.

    `what`: its name in the log. `on_drop`: told of each one that is let go without being saved.
    """

    def __init__(
        self,
        save: Save[LeftT],
        *,
        what: str = "traces of reads",
        on_drop: Callable[[LeftT], None] = lambda _: None,
    ) -> None:
        self._save = save
        self._what = what
        self._on_drop = on_drop
        self._waiting: deque[LeftT] = deque()
        self._saving = asyncio.Lock()
        self._full = asyncio.Event()
        self._flusher: asyncio.Task[None] | None = None
        self._closed = False
        self.dropped = 0
        """Traces lost so far: too many waited, or the record would not take them."""

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, trace: LeftT) -> None:
        """Take a trace; it is saved soon, by a task of this buffer. One that comes after `close` is let go."""
        if self._closed:
            return
        self._waiting.append(trace)
        self._bound()
        if len(self._waiting) >= BATCH:
            self._full.set()
        if self._flusher is None or self._flusher.done():
            self._flusher = asyncio.get_running_loop().create_task(self._go_on())

    async def flush(self) -> None:
        """Save all that waits now. Raises: as the record; what was not saved waits on."""
        async with self._saving:
            await self._flush()

    async def settle(self) -> None:
        """Save what waits, so that it can be read; a record that cannot take it now, or in time, is not waited for."""
        try:
            async with asyncio.timeout(SETTLE_S):
                await self.flush()
        except (*_FAILURES, TimeoutError) as error:
            _log.warning("%s not saved yet: %s", self._what, type(error).__name__)

    @asynccontextmanager
    async def quiet(self) -> AsyncGenerator[None]:
        """Save all that waits, then nothing while the block runs: nothing is saved between two looks at the record."""
        async with self._saving:
            try:
                await self._flush()
            except _FAILURES as error:
                _log.warning("%s not saved: %s", self._what, type(error).__name__)
            yield

    async def close(self) -> None:
        """Save all that waits, within a deadline; what cannot be saved is dropped and counted in the log."""
        self._closed = True
        flusher, self._flusher = self._flusher, None
        if flusher is not None:
            flusher.cancel()
            with suppress(asyncio.CancelledError):
                await flusher
        try:
            async with asyncio.timeout(CLOSE_S):
                await self.flush()
        except (*_FAILURES, TimeoutError) as error:
            self._drop(len(self._waiting), type(error).__name__)

    async def _go_on(self) -> None:
        failures = 0
        while self._waiting:
            with suppress(TimeoutError):
                async with asyncio.timeout(EVERY_S * (1 + failures)):
                    await self._full.wait()
            if failures:  # a full buffer must not make a record that is away be asked without a pause
                await asyncio.sleep(EVERY_S * failures)
            try:
                await self.flush()
                failures = 0
            except _FAILURES as error:
                failures += 1
                if failures == TRIES:
                    self._drop(min(BATCH, len(self._waiting)), type(error).__name__)
                    failures = 0

    async def _flush(self) -> None:
        self._full.clear()
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
            try:
                await self._save(batch)
            except BaseException:
                self._waiting.extendleft(reversed(batch))
                self._bound()
                raise

    def _bound(self) -> None:
        # A batch at once, so that the log gets a line for each batch and not for each read.
        if len(self._waiting) > MOST:
            self._drop(BATCH, "too many wait")

    def _drop(self, number: int, why: str) -> None:
        for _ in range(number):
            self._on_drop(self._waiting.popleft())
        self.dropped += number
        if number:
            _log.warning("%s dropped: %d now, %d in all (%s)", self._what, number, self.dropped, why)
