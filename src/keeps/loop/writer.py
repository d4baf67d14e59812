"""Writes to a memory in the background, in order, so that an agent neither waits for them nor fails with them."""

from __future__ import annotations

import asyncio
import copy
import logging
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Protocol, Self
from uuid import uuid4

from keeps.core.errors import KeepsError, Limited, Unavailable
from keeps.core.scopes import parse_scopes
from keeps.loop.attempts import attempt

log = logging.getLogger(__name__)

MAX_WAITING: Final = 1_000
DEADLINE_S: Final = 60.0
TRY_S: Final = 15.0
AT_ONCE: Final = 4
PAUSES_S: Final = (0.25, 0.5, 1.0, 2.0, 5.0)
"""Waits before a write is tried again; the last one is repeated until its deadline."""

STOP_S: Final = 5.0
_MAX_PAUSE_S: Final = 30
_LOG_EACH: Final = 100


class Remembers(Protocol):
    """What writing needs of a memory: `Memory` and `Client` have it."""

    @property
    def remember(self) -> Any: ...
    @property
    def remember_many(self) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What became of the writes so far. `refused`: never taken, because the queue was full or the writer stopped.
    `failed`: the service said no. `late`: not written by their deadline, or by the end."""

    waiting: int = 0
    written: int = 0
    refused: int = 0
    failed: int = 0
    late: int = 0


@dataclass(frozen=True, slots=True)
class _Item:
    id: str
    lane: str
    verb: str
    args: tuple[object, ...]
    about: Mapping[str, object]


class Writer:
    """A queue before a memory: `async with Writer(memory) as writer:` and `writer.put("…", scopes="user/p1-…")`.

    `put` takes what `remember` takes, from any thread, and neither waits nor raises. Writes of one scope happen in the
    order they were put, each when the one before it is settled; those of other scopes do not wait for them, `at_once`
    go on together. A write is tried until `deadline_s` after its turn came, with one idempotency key, so that a try
    whose answer was lost is not written twice. When `max_waiting` writes wait, the newest is refused and counted.
    """

    def __init__(
        self,
        memory: Remembers,
        *,
        max_waiting: int = MAX_WAITING,
        deadline_s: float = DEADLINE_S,
        try_s: float = TRY_S,
        at_once: int = AT_ONCE,
        pauses_s: Sequence[float] = PAUSES_S,
    ) -> None:
        self._memory = memory
        self._max_waiting = max_waiting
        self._deadline_s = deadline_s
        self._try_s = try_s
        self._pauses_s = tuple(pauses_s)
        self._room = asyncio.Semaphore(at_once)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._settled = asyncio.Condition()
        self._lanes: dict[str, deque[_Item]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        # Touched by every thread that puts.
        self._lock = threading.Lock()
        self._early: list[_Item] = []
        self._waiting: set[str] = set()
        self._stopped = False
        self._closed = False
        self._counted = {"written": 0, "refused": 0, "failed": 0, "late": 0}

    @property
    def counts(self) -> Counts:
        """What became of the writes so far."""
        with self._lock:
            return Counts(waiting=len(self._waiting), **self._counted)

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def start(self) -> None:
        """Begin to write, in the event loop that runs now; what was put before goes first."""
        with self._lock:
            self._loop = asyncio.get_running_loop()
            early, self._early = self._early, []
        for item in early:
            self._take(item)

    def put(self, text: str | None = None, **about: object) -> bool:
        """Write this by and by, as `remember(text, **about)` does. False when it was refused; it is counted then."""
        return self._put("remember", (text,), about)

    def put_many(self, messages: Sequence[Mapping[str, object]], **about: object) -> bool:
        """Write the messages of one conversation by and by, as `remember_many` does. False when it was refused."""
        return self._put("remember_many", (messages,), about)

    async def flush(self, timeout_s: float = STOP_S) -> bool:
        """Wait until everything put so far is settled. False when the time was up before."""
        with self._lock:
            wanted = set(self._waiting)
        return (await attempt(self._until_settled(wanted), timeout_s=timeout_s)).error is None

    async def stop(self, timeout_s: float = STOP_S) -> bool:
        """Refuse new writes, wait for the others, and give up what is left then. True when nothing was left."""
        with self._lock:
            self._stopped = True
        done = await self.flush(timeout_s)
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with self._lock:
            left = len(self._waiting)
            self._waiting.clear()
            self._counted["late"] += left
        if left:
            log.warning("%d writes were given up at the end", left)
        return done and not left

    def _put(self, verb: str, args: tuple[object, ...], about: Mapping[str, object]) -> bool:
        item = _item_of(verb, args, about)
        with self._lock:
            if not self._stopped and len(self._waiting) < self._max_waiting and self._hand_over(item):
                return True
            self._counted["refused"] += 1
            refused = self._counted["refused"]
        if refused % _LOG_EACH == 1:
            log.warning("a write was refused, %d so far: the queue is full, or the writer stopped", refused)
        return False

    def _hand_over(self, item: _Item | None) -> bool:
        """Give an item to the loop, or keep it until there is one; False when that cannot be. Under the lock."""
        if item is None:
            return False
        if self._loop is None:
            self._early.append(item)
        else:
            try:
                self._loop.call_soon_threadsafe(self._take, item)
            except RuntimeError:  # the loop is closed
                return False
        self._waiting.add(item.id)
        return True

    def _take(self, item: _Item) -> None:
        if self._closed:
            return
        lane = self._lanes.get(item.lane)
        if lane is not None:
            lane.append(item)
            return
        self._lanes[item.lane] = deque([item])
        task = asyncio.ensure_future(self._work(item.lane))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work(self, lane: str) -> None:
        """Write what waits in one lane, in order, until nothing does."""
        items = self._lanes[lane]
        while items:
            outcome = await self._write(items[0])
            async with self._settled:
                with self._lock:
                    self._waiting.discard(items.popleft().id)
                    self._counted[outcome] += 1
                self._settled.notify_all()
        del self._lanes[lane]

    async def _write(self, item: _Item) -> str:
        """Try until it is written, refused, or its time is up; which of them, as `Counts` names it."""
        clock = asyncio.get_running_loop().time
        until = clock() + self._deadline_s
        pauses = list(self._pauses_s)
        while (left := until - clock()) > 0:
            async with self._room:
                tried = await attempt(self._sent(item), timeout_s=min(self._try_s, left))
            error = tried.error
            if error is None:
                return "written"
            if not _may_pass(error):
                log.warning("write %s failed: %s", item.id, tried.failed)
                return "failed"
            pause_s = pauses.pop(0) if len(pauses) > 1 else (pauses or [0.0])[0]
            await asyncio.sleep(max(0.0, min(max(pause_s, _asked_s(error)), until - clock())))
        log.warning("write %s was not written by its deadline", item.id)
        return "late"

    async def _sent(self, item: _Item) -> None:
        await getattr(self._memory, item.verb)(*item.args, **item.about)

    async def _until_settled(self, wanted: set[str]) -> None:
        async with self._settled:
            await self._settled.wait_for(lambda: not wanted & self._waiting)


def _item_of(verb: str, args: tuple[object, ...], about: Mapping[str, object]) -> _Item | None:
    """A copy of what is to be written, so that the caller may go on with its own; None for what cannot be copied."""
    id_ = uuid4().hex
    try:
        kept_args, kept = copy.deepcopy((args, dict(about)))
        kept.setdefault("idempotency_key", id_)
        return _Item(id_, _lane_of(kept.get("scopes")), verb, kept_args, kept)
    except Exception as error:  # noqa: BLE001 - copying runs code of whoever made the value
        log.warning("a write could not be copied: %s", type(error).__name__)
        return None


def _lane_of(scopes: object) -> str:
    """One name for scopes however they are written; what is no scope is refused later, by the service."""
    try:
        scope = parse_scopes(scopes)
    except KeepsError:
        return repr(scopes)
    return "" if scope is None else scope.id


def _may_pass(error: BaseException) -> bool:
    """True when trying again may help, and with the same idempotency key does no harm."""
    return isinstance(error, Unavailable | Limited | TimeoutError | OSError)


def _asked_s(error: BaseException) -> float:
    """How long the service asked to be left alone, seconds."""
    asked = error.retry_after_s if isinstance(error, KeepsError) else None
    return float(min(asked or 0, _MAX_PAUSE_S))
