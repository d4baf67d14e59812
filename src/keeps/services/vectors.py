"""Vectors kept equal to the record: made after the acknowledgement, in batches, one follower a context.

A write is whole without them. The follower asks the index which units lack a vector, reads their texts from the
record, embeds them, saves the vectors in the record and hands them to the index. What fails is tried again later.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, Final, Protocol

from keeps.core import contexts as core_contexts
from keeps.core.errors import Invalid, KeepsError
from keeps.core.generations import IndexMode, IndexStatus, SpaceStatus
from keeps.core.spaces import Coverage, Point, Space
from keeps.finder.base import FinderLost
from keeps.models.base import EmbedderLost
from keeps.services import index
from keeps.services.embedders import Embedders, Pause, Watched, happens
from keeps.services.filling import Behind, Filling
from keeps.services.index import Indexed
from keeps.store import vectors as store_vectors

_log = logging.getLogger(__name__)

BACKLOG: Final = 128
"""Above this many units without a vector in the scope set it goes to, a batch of writes waits: what it brings would be
found by words alone."""

BACKLOG_WAIT_S: Final = 10.0
"""How long one batch waits at most: below what clients wait for an answer."""

LINGER_S: Final = 0.05
"""How long the follower lets writes gather before it goes, unless a question waits: saving vectors takes the engine as
long as a write does."""

_COUNTED: Final = 1_000_000
"""Texts at most that are counted as waiting before their space is begun."""

LOAD_PATIENCE_S: Final = 3.0
"""How long the first question of a process waits for the model to be loaded: what the other legs may take too."""

_QUESTIONS_KEPT: Final = 128


class Embedded(Protocol):
    """What has vectors: a context."""

    @property
    def vectors(self) -> VectorFollower: ...


async def meaning_of(context: Embedded, question: str, deadline_s: float) -> Point | None:
    """Where a question lies, in the space that answers now.

    None when there is none in time; `why_not` then says whether that is a fault. Never raises.
    """
    return await context.vectors.question(question, deadline_s)


async def fill(context: Embedded, scope_sets: Collection[str], *, rows: int = 32, budget_s: float = 0.05) -> bool:
    """Have what lacks a vector in these scope sets embedded first, and wait for `rows` of it or for `budget_s`.

    True when nothing is lacking there afterwards, and where there are no vectors by choice. Never raises.
    """
    return await context.vectors.fill(scope_sets, rows=rows, budget_s=budget_s)


def patience_s(context: Embedded, usual_s: float) -> float:
    """How long a question may wait for its meaning: longer than usual while the model is loaded for the first time."""
    return context.vectors.patience_s(usual_s)


def why_not(context: Embedded) -> str | None:
    """Why questions have no vectors now; None when they have, and where there are none by choice."""
    return context.vectors.fault


class VectorFollower:
    """The follower of one context. `start` it once the context is open; `close` it before the finder."""

    def __init__(
        self,
        at: Indexed,
        embedders: Embedders,
        secret: bytes,
        config: Mapping[str, Any],
        *,
        still: Callable[[], AbstractAsyncContextManager[None]],
    ) -> None:
        """`still`: keeps every commit waiting, for bringing an index up to its record."""
        self._at = at
        self._embedders = embedders
        self._secret = secret
        self._still = still
        self._config = config
        self._filling = Filling(at, embedders, self._moved)
        self._arranged = False
        self._settled = False
        self._verified = False
        self._questions: OrderedDict[bytes, bytes] = OrderedDict()
        self._pause = Pause()
        self._woken = asyncio.Event()
        self._hurry = asyncio.Event()
        self._progress = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # ------------------------------------------------------------------ what a context says to it
    @property
    def mode(self) -> IndexMode:
        """Whether this context has vectors."""
        return core_contexts.mode_of(self._config)

    @property
    def embedder(self) -> str:
        """The name of what makes them."""
        return core_contexts.embedder_of(self._config, self._embedders.default)

    @property
    def embedders_used(self) -> set[str]:
        """The names of what makes them, and of what made those that answer until the new ones are complete."""
        turnout = self._filling.turnout
        return {self.embedder, *(each.embedder for each in (turnout.answers, turnout.fills) if each is not None)}

    @property
    def fault(self) -> str | None:
        """Why questions have no vectors now; None when they have, and where there are none by choice."""
        watched, fault = self._own()
        if watched is None:
            return fault
        answers = self._filling.turnout.answers
        asked = self._filling.watched(answers) if answers is not None else watched
        return (asked or watched).fault or self._pause.fault

    async def start(self) -> None:
        """Begin to follow. Where there are to be no vectors, those left from before go first."""
        own, _ = self._own()
        with suppress(KeepsError, FinderLost):  # the follower tries it again
            if self.mode is IndexMode.DURABLE:
                await self._remove()
            elif own is not None:
                await self._filling.look(own)
        self._begin()

    async def close(self) -> None:
        """Stop; what is being embedded is thrown away."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        self._questions.clear()

    async def configure(self, config: Mapping[str, Any]) -> None:
        """Take another mode or embedder: questions follow at once, the vectors behind it."""
        before = (self.mode, self.embedder)
        self._config = config
        if (self.mode, self.embedder) == before:
            return
        self._questions.clear()
        if self._task is not None:
            await self.close()
            self._arranged, self._settled, self._verified, self._pause = False, False, False, Pause()
            self._begin()

    def _begin(self) -> None:
        self._task = asyncio.create_task(self._follow())
        self._woken.set()
        self._hurry.set()

    def _hasten(self) -> None:
        """Note that somebody waits for vectors: the model is loaded now, and what was written is not left to gather."""
        self._filling.asked.set()
        self._hurry.set()

    def wake(self) -> None:
        """Say that rows may lack vectors."""
        self._settled = False
        self._woken.set()

    async def warm(self) -> None:
        """Load what makes the vectors, so that the first question does not wait for it. Never raises."""
        watched, _ = self._own()
        if watched is not None:
            with suppress(EmbedderLost):
                await watched.space()

    # ------------------------------------------------------------------ reading
    def patience_s(self, usual_s: float) -> float:
        """See `patience_s` of this module."""
        own, _ = self._own()
        loading = own is not None and not own.loaded and own.fault is None and self._pause.fault is None
        return max(usual_s, LOAD_PATIENCE_S) if loading else usual_s

    async def question(self, text: str, deadline_s: float) -> Point | None:
        """See `meaning_of`."""
        self._hasten()
        until = time.monotonic() + self.patience_s(deadline_s)
        await self._begun(until)
        for generation in (self._filling.turnout.answers, self._filling.turnout.fills):
            if generation is None or self._own()[0] is None:
                continue
            watched = self._filling.watched(generation)
            if watched is None:
                continue
            key = hmac.digest(self._secret, f"{generation.space.model}\0{text}".encode("utf-8", "replace"), "sha256")
            kept = self._questions.get(key)
            if kept is not None:
                self._questions.move_to_end(key)
                return Point(generation.space, kept)
            found = await watched.question(text, until - time.monotonic())
            if found is not None and found.space == generation.space and self.mode is IndexMode.HYBRID:
                self._questions[key] = found.vector
                if len(self._questions) > _QUESTIONS_KEPT:
                    self._questions.popitem(last=False)
                return found
        return None

    async def _begun(self, until: float) -> None:
        """Wait for the first space of a context that has none yet, and has something to make vectors of."""
        while self._filling.turnout.answers is None and not self._settled and not self._pause.left_s:
            left_s = until - time.monotonic()
            if left_s <= 0 or self._own()[0] is None:
                return
            await happens(self._progress, left_s)

    async def fill(self, scope_sets: Collection[str], *, rows: int = 32, budget_s: float = 0.05) -> bool:
        """See `fill` of this module."""
        own, fault = self._own()
        if self._settled or (own is None and fault is None):
            return True
        self._hasten()
        until = time.monotonic() + self.patience_s(budget_s)
        try:
            while True:
                progress = self._progress
                if own is None:
                    return False
                if not await self._at.finder.lacking(self._answering(own), scope_sets, limit=rows):
                    return True
                left_s = until - time.monotonic()
                if left_s <= 0 or own.fault is not None or self._pause.left_s:
                    return False
                self._filling.first.update(scope_sets)
                self._woken.set()
                self._hurry.set()
                await happens(progress, left_s)
        except FinderLost:
            return False

    def _answering(self, own: Watched) -> Space:
        """The space questions are answered from; before there is one, a space that everything lacks."""
        answers = self._filling.turnout.answers
        return answers.space if answers is not None else Space(own.model, 1)

    async def room(self, scope_set: str, *, rows: int = BACKLOG, timeout_s: float = BACKLOG_WAIT_S) -> None:
        """Wait while more than `rows` units of a scope set lack the vector they are found by, `timeout_s` at most.

        What others write elsewhere is not waited for: who may not read it must not learn of it. Nothing to wait for
        where there are no vectors, or while they cannot be made. Never raises.
        """
        until = time.monotonic() + timeout_s
        self._filling.asked.set()
        while True:
            progress, (own, _) = self._progress, self._own()
            left_s = until - time.monotonic()
            if own is None or left_s <= 0 or own.fault is not None or self._pause.fault is not None:
                return
            try:
                if len(await self._at.finder.lacking(self._answering(own), {scope_set}, limit=rows + 1)) <= rows:
                    return
            except FinderLost:
                return
            await happens(progress, left_s)

    async def status(self) -> IndexStatus:
        """What there is and what is left to do. Raises: Unavailable when the record does not answer."""
        settled = self._settled  # before the rest is read: what is counted while it changes must not pass for its end
        try:
            covered = await self._at.finder.spaces()
        except FinderLost:
            covered = []
        spaces = tuple(map(self._space_status, covered))
        own, fault = self._own()
        return IndexStatus(
            mode=self.mode,
            embedder=self.embedder,
            spaces=spaces,
            pending=await self._pending(own, spaces) if own is not None else 0,
            stored=await store_vectors.count(self._at.db),
            settled=settled,
            fault=fault or self.fault,
        )

    async def _pending(self, own: Watched, spaces: Collection[SpaceStatus]) -> int:
        if spaces:
            return max(each.wanted - each.held for each in spaces)
        try:  # right after a switch: there is no space yet
            return len(await self._at.finder.lacking(Space(own.model, 1), limit=_COUNTED))
        except FinderLost:
            return 0

    def _space_status(self, covered: Coverage) -> SpaceStatus:
        answers, fills = self._filling.turnout.answers, self._filling.turnout.fills
        if answers is not None and answers.space == covered.space:
            state = "answering"
        else:
            state = "filling" if fills is not None and fills.space == covered.space else "leaving"
        return SpaceStatus(space=covered.space, wanted=covered.wanted, held=covered.held, state=state)

    # ------------------------------------------------------------------ following
    async def _follow(self) -> None:
        while True:
            await self._woken.wait()
            await happens(self._hurry, LINGER_S)
            self._hurry.clear()
            self._woken.clear()
            try:
                await self._round()
                self._pause.worked()
                self._settled = not self._woken.is_set()
                self._moved()
                continue
            except (EmbedderLost, KeepsError) as error:
                self._pause.failed(str(error))
            except (FinderLost, Behind) as lost:
                self._pause.failed(str(lost))
                self._arranged = False  # an index that was built anew knows the spaces of its vectors only
                with suppress(FinderLost, KeepsError):
                    async with self._still():
                        await index.catch_up(self._at)
            except Exception as error:  # noqa: BLE001 an edge: a follower that ended would leave new rows without vectors
                self._pause.failed(type(error).__name__)
            _log.warning("vectors put off: %s", self._pause.fault)
            self._moved()
            await asyncio.sleep(self._pause.left_s)
            self._woken.set()

    def _moved(self) -> None:
        """Let those who wait look again."""
        event, self._progress = self._progress, asyncio.Event()
        event.set()

    async def _round(self) -> None:
        if self.mode is IndexMode.DURABLE:
            await self._remove()
            return
        own, fault = self._own()
        if own is None:
            self._arranged = False
            if fault is not None:
                raise EmbedderLost(fault)
            return
        if not self._arranged:
            try:
                self._arranged = await self._filling.arrange(own)
            except EmbedderLost:  # what answers goes on with what is written meanwhile
                await self._filling.bring_up(self._woken.is_set)
                raise
        if self._arranged:
            await self._filling.bring_up(self._woken.is_set)
            await self._filling.flip()

    async def _remove(self) -> None:
        """Leave no vector anywhere, once for each time that this is wanted."""
        if not self._verified:
            self._questions.clear()
            await self._filling.remove_all()
            self._verified = True

    # ------------------------------------------------------------------ embedders
    def _own(self) -> tuple[Watched | None, str | None]:
        """What makes the vectors of this context, and why nothing does; neither where there are none by choice."""
        if self.mode is IndexMode.DURABLE:
            return None, None
        try:
            return self._embedders.get(self.embedder), None
        except Invalid as error:
            return None, error.message
