"""The embedders of this process: each opened once, and never waited for longer than whoever asks can wait."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Final

from keeps.config import Config
from keeps.core.errors import Invalid
from keeps.core.spaces import Point, Space
from keeps.models.base import Embedder, EmbedderLost, Vectors
from keeps.models.checked import Checked
from keeps.models.opened import open_embedder, provider_of

NONE: Final = "none"
"""The name that stands for no embedder."""

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0
"""After a failure nobody asks for a second, after each further one twice as long, a minute at most."""


async def happens(event: asyncio.Event, within_s: float) -> None:
    """Wait for an event, `within_s` seconds at most."""
    with suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            await event.wait()


class Pause:
    """How long to leave alone what failed: twice as long after each failure, not at all after a success."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._failures = 0
        self._until = 0.0
        self.fault: str | None = None

    @property
    def left_s(self) -> float:
        """Seconds until it may be tried again, 0 when it may be now."""
        return max(0.0, self._until - self._now())

    def failed(self, fault: str) -> None:
        """Note a failure. `fault` is shown to people: it holds no text of a memory."""
        self.fault = fault
        self._until = self._now() + min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(self._failures, 10))
        self._failures += 1

    def worked(self) -> None:
        """Note that it works."""
        self.fault, self._failures, self._until = None, 0, 0.0


class Watched:
    """One embedder, and how it does. Questions are not sent after one that is late, nor for a while after a failure.

    Rows and questions fail apart: a text that an embedder refuses does not take the meaning of questions away.
    """

    def __init__(self, name: str, embedder: Embedder, *, at_hand: bool = False) -> None:
        """`at_hand`: it was made elsewhere, so there is no model to be careful with."""
        self.name = name
        self.at_hand = at_hand
        self._embedder = embedder
        self._space: Space | None = None
        self._calls: set[asyncio.Task[Vectors]] = set()
        self._overdue: set[asyncio.Task[Vectors]] = set()
        self._asking = Pause()

    @property
    def model(self) -> str:
        """The id kept with its vectors."""
        return self._embedder.model

    @property
    def loaded(self) -> bool:
        """True when it answered before, so that asking it again costs little."""
        return self._space is not None

    @property
    def fault(self) -> str | None:
        """Why it would not answer a question now; None when it may."""
        if self._overdue:
            return f"{self.model} is late with its last answer"
        return self._asking.fault if self._asking.left_s else None

    async def space(self) -> Space:
        """The space of its vectors; loads what it needs. Raises: EmbedderLost."""
        self._space = await self._embedder.space()
        return self._space

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """One vector a text, for rows. Raises: EmbedderLost."""
        return await self._embedder.embed(texts)

    async def question(self, text: str, deadline_s: float) -> Point | None:
        """Where a question lies; None when there is none in time.

        A call that is late runs on; until it ends, no other question is sent after it.
        """
        if self.fault is not None:
            return None
        call = asyncio.create_task(self._ask(text))
        self._calls.add(call)
        call.add_done_callback(self._ended)
        await asyncio.wait({call}, timeout=deadline_s)
        if not call.done():
            self._overdue.add(call)
            return None
        if call.cancelled() or call.exception() is not None or self._space is None:
            return None
        return Point(self._space, call.result()[0].astype("<f4").tobytes())

    async def close(self) -> None:
        """Give up the calls that run, and let go of the model."""
        calls = list(self._calls)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await self._embedder.close()

    async def _ask(self, text: str) -> Vectors:
        await self.space()
        return await self._embedder.embed([text], asking=True)

    def _ended(self, call: asyncio.Task[Vectors]) -> None:
        self._calls.discard(call)
        self._overdue.discard(call)
        if call.cancelled():
            return
        error = call.exception()
        if error is None:
            self._asking.worked()
        else:
            self._asking.failed(str(error) if isinstance(error, EmbedderLost) else type(error).__name__)


class Embedders:
    """Every embedder that contexts of this process use, by name."""

    def __init__(self, default: str, open_: Callable[[str], Embedder | None]) -> None:
        """`default`: the name that holds where a context says nothing. `open_`: the embedder of a name, None for
        `none`; raises Invalid."""
        self.default = default
        self._open = open_
        self._opened: dict[str, Watched] = {}

    def add(self, embedder: Embedder) -> None:
        """Take an embedder that was made elsewhere as the default, under the id of its model."""
        self.default = embedder.model
        self._opened[embedder.model] = Watched(embedder.model, Checked(embedder), at_hand=True)

    def get(self, name: str) -> Watched | None:
        """The embedder of a name, loading nothing yet; None for `none`. Raises: Invalid."""
        found = self._opened.get(name)
        if found is None and (embedder := self._open(name)) is not None:
            found = self._opened[name] = Watched(name, embedder)
        return found

    @property
    def opened(self) -> set[str]:
        """The names of those that were opened and not closed."""
        return set(self._opened)

    async def keep(self, used: Collection[str]) -> None:
        """Close all but the default and those `used`; one that is named again is opened anew."""
        for name in self._opened.keys() - {self.default, *used}:
            await self._opened.pop(name).close()

    async def close(self) -> None:
        """Close all of them."""
        for watched in self._opened.values():
            await watched.close()
        self._opened.clear()


def _addressed(config: Config) -> str | None:
    """The kind of provider that the address and the key are for: that of the process's own embedder, else the only
    one that is allowed. They go to no other: a key is not shown to whom it was not made for."""
    own = provider_of(config.embedder)
    kinds = {kind for name in config.embedders_allowed if (kind := provider_of(name)) is not None}
    return own or (kinds.pop() if len(kinds) == 1 else None)


def embedders_of(config: Config, given: Embedder | None) -> Embedders:
    """The embedders that contexts name, made of what the process was told of them; nothing is loaded yet."""

    allowed = {config.embedder, *config.embedders_allowed}
    addressed = _addressed(config)

    def open_(name: str) -> Embedder | None:
        kind = provider_of(name)
        if kind is not None and name not in allowed:
            raise Invalid(
                "that embedder would send texts to a server, and this process does not allow it: add its name to "
                "KEEPS_EMBEDDERS_ALLOWED, or choose minilm, none, or the one in KEEPS_EMBEDDER"
            )
        mine = kind == addressed
        return open_embedder(
            name,
            files=config.embedder_files,
            url=config.embedder_url if mine else None,
            key=config.embedder_key if mine else None,
        )

    embedders = Embedders(config.embedder, open_)
    if given is not None:
        embedders.add(given)
    else:
        embedders.get(config.embedder)
    return embedders
