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
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from keeps.core import contexts as core_contexts
from keeps.core.errors import Invalid, KeepsError
from keeps.core.generations import Generation, IndexMode, Turnout, turnout
from keeps.core.spaces import Coverage, Space
from keeps.finder.base import FinderLost
from keeps.models.base import EmbedderLost
from keeps.models.base import Vectors as Rows
from keeps.services import index
from keeps.services.embedders import Embedders, Pause, Watched
from keeps.services.index import Indexed
from keeps.store import commit as store_commit
from keeps.store import vectors as store_vectors

_log = logging.getLogger(__name__)

BATCH: Final = 32
"""Units embedded at once. Small, so that what a question waits for comes soon; the model cuts it further by tokens."""

LOAD_AFTER_S: Final = 0.25
"""How long a model that was never asked is left alone after a write: a command that ends before never loads it."""

BACKLOG: Final = 128
"""Above this many units without a vector a batch of writes waits: what it brings would be found by words alone."""

BACKLOG_WAIT_S: Final = 10.0
"""How long one batch waits at most: below what clients wait for an answer."""

_QUESTIONS_KEPT: Final = 128
_COVERS: Final = 256


class Embedded(Protocol):
    """What has vectors: a context."""

    @property
    def vectors(self) -> Vectors: ...


async def meaning_of(context: Embedded, question: str, deadline_s: float) -> tuple[Space, bytes] | None:
    """The question's vector, little-endian 32-bit floats, and the space it is to be compared in.

    None when there is none in time; `why_not` then says whether that is a fault. Never raises.
    """
    return await context.vectors.question(question, deadline_s)


async def fill(context: Embedded, scope_sets: Collection[str], *, rows: int = 32, budget_s: float = 0.05) -> bool:
    """Have what lacks a vector in these scope sets embedded first, and wait for `rows` of it or for `budget_s`.

    True when nothing is lacking there afterwards, and where there are no vectors by choice. Never raises.
    """
    return await context.vectors.fill(scope_sets, rows=rows, budget_s=budget_s)


def why_not(context: Embedded) -> str | None:
    """Why questions have no vectors now; None when they have, and where there are none by choice."""
    return context.vectors.fault


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceStatus:
    """One space of a context: how many units should have a vector of it, how many have, and what it is for."""

    space: Space
    embedder: str
    wanted: int
    held: int
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexStatus:
    """The vectors of a context. `pending`: units that wait for one; `stored`: vectors in the record.

    `settled`: nothing is left to do. `fault`: why it does not go on; it is tried again.
    """

    mode: IndexMode
    embedder: str
    spaces: tuple[SpaceStatus, ...]
    pending: int
    stored: int
    settled: bool
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class _Work:
    """Units to embed: their texts, the row of each, and the last change before they were read."""

    generation: Generation
    watched: Watched
    texts: Mapping[str, str]
    refs: Mapping[str, str]
    since: int


@dataclass(slots=True)
class _Round:
    """What one round need not try again: units that record and index do not agree on, and spaces that are being left
    and whose embedder is gone."""

    passed: set[str] = field(default_factory=set[str])
    lost: set[Space] = field(default_factory=set[Space])


class _Behind(Exception):
    """The index holds what the record does not, or the other way round."""


class Vectors:
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
        self._turnout = Turnout()
        self._arranged = False
        self._settled = False
        self._first: set[str] = set()
        self._questions: OrderedDict[bytes, bytes] = OrderedDict()
        self._pause = Pause()
        self._woken = asyncio.Event()
        self._progress = asyncio.Event()
        self._writing = asyncio.Lock()
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
    def fault(self) -> str | None:
        """Why questions have no vectors now; None when they have, and where there are none by choice."""
        watched, fault = self._own()
        if watched is None:
            return fault
        answers = self._turnout.answers
        asked = self._watched(answers) if answers is not None else watched
        return (asked or watched).fault or self._pause.fault

    async def start(self) -> None:
        """Begin to follow. Where there are to be no vectors, those left from before go first."""
        if self.mode is IndexMode.DURABLE:
            with suppress(KeepsError, FinderLost):  # the follower tries it again
                await self._remove_all()
        self._task = asyncio.create_task(self._follow())
        self._woken.set()

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
            self._arranged, self._settled, self._pause = False, False, Pause()
            self._task = asyncio.create_task(self._follow())
            self._woken.set()

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
    async def question(self, text: str, deadline_s: float) -> tuple[Space, bytes] | None:
        """See `meaning_of`."""
        until = time.monotonic() + deadline_s
        for generation in (self._turnout.answers, self._turnout.fills):
            watched = self._watched(generation) if generation is not None and self._own()[0] is not None else None
            if generation is None or watched is None:
                continue
            key = hmac.digest(self._secret, f"{generation.space.model}\0{text}".encode("utf-8", "replace"), "sha256")
            kept = self._questions.get(key)
            if kept is not None:
                self._questions.move_to_end(key)
                return generation.space, kept
            found = await watched.question(text, until - time.monotonic())
            if found is not None and found[0] == generation.space and self.mode is IndexMode.HYBRID:
                self._questions[key] = found[1]
                if len(self._questions) > _QUESTIONS_KEPT:
                    self._questions.popitem(last=False)
                return found
        return None

    async def fill(self, scope_sets: Collection[str], *, rows: int = 32, budget_s: float = 0.05) -> bool:
        """See `fill` of this module."""
        own, fault = self._own()
        if self._settled or (own is None and fault is None):
            return True
        until = time.monotonic() + budget_s
        try:
            while True:
                progress, generation = self._progress, self._turnout.answers
                if own is None:
                    return False
                space = generation.space if generation is not None else Space(own.model, 1)
                if not await self._at.finder.lacking(space, scope_sets, limit=rows):
                    return True
                left_s = until - time.monotonic()
                if left_s <= 0 or not own.loaded or self._pause.left_s:
                    return False
                self._first.update(scope_sets)
                self._woken.set()
                with suppress(TimeoutError):
                    await asyncio.wait_for(progress.wait(), left_s)
        except FinderLost:
            return False

    async def room(self, *, rows: int = BACKLOG, timeout_s: float = BACKLOG_WAIT_S) -> None:
        """Wait while more than `rows` units lack the vector they are found by, `timeout_s` at most.

        Nothing to wait for where there are no vectors, or while they cannot be made. Never raises.
        """
        until = time.monotonic() + timeout_s
        while True:
            progress, (own, _) = self._progress, self._own()
            left_s = until - time.monotonic()
            if own is None or left_s <= 0 or own.fault is not None or self._pause.fault is not None:
                return
            try:
                if await self._lacking_now() <= rows:
                    return
            except FinderLost:
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(progress.wait(), left_s)

    async def status(self) -> IndexStatus:
        """What there is and what is left to do. Raises: Unavailable when the record does not answer."""
        held = {each.space: each for each in await store_vectors.generations(self._at.db)}
        try:
            covered = await self._at.finder.spaces()
        except FinderLost:
            covered = []
        spaces = tuple(self._space_status(each, held.get(each.space)) for each in covered)
        own, fault = self._own()
        return IndexStatus(
            mode=self.mode,
            embedder=self.embedder,
            spaces=spaces,
            pending=max((each.wanted - each.held for each in spaces), default=0) if own is not None else 0,
            stored=await store_vectors.count(self._at.db),
            settled=self._settled,
            fault=fault or self.fault,
        )

    def _space_status(self, covered: Coverage, generation: Generation | None) -> SpaceStatus:
        answers, fills = self._turnout.answers, self._turnout.fills
        if answers is not None and answers.space == covered.space:
            state = "answering"
        else:
            state = "filling" if fills is not None and fills.space == covered.space else "leaving"
        return SpaceStatus(
            space=covered.space,
            embedder=generation.embedder if generation is not None else "",
            wanted=covered.wanted,
            held=covered.held,
            state=state,
        )

    # ------------------------------------------------------------------ following
    async def _follow(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            try:
                await self._round()
                self._pause.worked()
                self._settled = not self._woken.is_set()
                self._moved()
                continue
            except (EmbedderLost, KeepsError) as error:
                self._pause.failed(str(error))
            except (FinderLost, _Behind) as lost:
                self._pause.failed(str(lost))
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
            await self._remove_all()
            return
        own, fault = self._own()
        if own is None:
            self._arranged = False
            if fault is not None:
                raise EmbedderLost(fault)
            return
        if not self._arranged:
            self._arranged = await self._arrange(own)
        if self._arranged:
            await self._bring_up()
            await self._flip()

    async def _arrange(self, own: Watched) -> bool:
        """Bring the spaces of record and index to what is wanted; False while there is nothing to have vectors of."""
        db, finder = self._at.db, self._at.finder
        held = await store_vectors.generations(db)
        usable = [each for each in held if each.space.model == own.model or self._watched(each) is not None]
        plan = turnout(usable, own.model)
        if not any(each.space.model == own.model for each in usable):
            if not await finder.lacking(Space(own.model, 1), limit=1):
                self._turnout = plan
                return False
            await self._load(own)
            space = await own.space()
            begun = Generation(space, own.name, answering=plan.answers is None)
            async with self._writing:
                await store_vectors.begin(db, begun)
            plan = turnout([*usable, begun], own.model)
        self._turnout = plan
        for generation in (plan.answers, plan.fills):
            if generation is not None:
                await finder.begin_space(generation.space)
        wanted = {each.space for each in (plan.answers, plan.fills) if each is not None}
        await self._drop([each.space for each in held if each.space not in wanted])
        await self._drop([each.space for each in await finder.spaces() if each.space not in wanted])
        return True

    async def _bring_up(self) -> None:
        """Embed what lacks a vector, one batch read ahead and the one before saved meanwhile."""
        seen = _Round()
        work = await self._next(seen, ())
        saving: asyncio.Task[None] | None = None
        ahead: asyncio.Task[_Work | None] | None = None
        try:
            while work is not None:
                busy = work.texts.keys()
                ahead = asyncio.create_task(self._next_after(saving, seen, busy))
                rows = await self._embed(work, seen)
                following = await ahead
                if saving is not None:
                    await saving
                saving = asyncio.create_task(self._keep(work, rows, seen)) if rows is not None else None
                if following is None and saving is not None:
                    await saving
                    saving, following = None, await self._next(seen, ())
                work = following
            if seen.passed and not self._woken.is_set():
                raise _Behind("the index and the record do not agree")
        finally:
            if ahead is not None:
                ahead.cancel()
            left = [task for task in (ahead, saving) if task is not None]
            await asyncio.gather(*left, return_exceptions=True)

    async def _next_after(self, saving: asyncio.Task[None] | None, seen: _Round, busy: Collection[str]) -> _Work | None:
        """The batch to come, read once the one before is saved: until then the index still lacks that one."""
        if saving is not None:
            await asyncio.wait({saving})
        return await self._next(seen, busy)

    async def _next(self, seen: _Round, busy: Collection[str]) -> _Work | None:
        """What to embed next: what answers comes before what is filled, what a question waits for before the rest."""
        first, self._first = self._first, set()
        for generation in (self._turnout.answers, self._turnout.fills):
            watched = self._watched(generation) if generation is not None else None
            if generation is None or watched is None or generation.space in seen.lost:
                continue
            for scope_sets in (first, None) if first else (None,):
                skipped = seen.passed | set(busy)
                lacking = await self._at.finder.lacking(generation.space, scope_sets, limit=BATCH + len(skipped))
                refs = {unit: ref for ref, unit in lacking if unit not in skipped}
                refs = dict(list(refs.items())[:BATCH])
                if not refs:
                    continue
                since = await store_commit.last_change(self._at.db)
                texts = await index.read_meanings(self._at, refs.values())
                seen.passed |= refs.keys() - texts.keys()  # the record has changed since the index looked
                texts = {unit: texts[unit] for unit in refs if unit in texts}
                if texts:
                    return _Work(generation, watched, texts, refs, since)
        return None

    async def _embed(self, work: _Work, seen: _Round) -> Rows | None:
        """Vectors of a batch; None from an embedder that is being left and does not answer any more."""
        try:
            await self._load(work.watched)
            return await work.watched.embed(list(work.texts.values()))
        except EmbedderLost:
            if work.watched is self._own()[0]:
                raise
            seen.lost.add(work.generation.space)
            return None

    async def _load(self, watched: Watched) -> None:
        if not watched.loaded:
            await asyncio.sleep(LOAD_AFTER_S)
            await watched.space()

    async def _keep(self, work: _Work, made: Rows, seen: _Round) -> None:
        """Save vectors in the record, as far as their rows are still there, then in the index."""
        halves = {unit: row.astype("<f2").tobytes() for unit, row in zip(work.texts, made, strict=True)}
        space = work.generation.space
        async with self._writing:
            rows = {unit: (work.refs[unit], half) for unit, half in halves.items()}
            kept = await store_vectors.save(self._at.db, space, rows, since=work.since)
            put = {unit: half for unit, half in halves.items() if unit in kept}
            taken = await self._at.finder.put_vectors(space, put, meanings=work.texts)
        if taken < len(halves):
            seen.passed |= halves.keys()
        self._moved()

    async def _lacking_now(self) -> int:
        """How many units lack a vector of the space that answers."""
        answers = self._turnout.answers
        covered = {each.space: each for each in await self._at.finder.spaces()}
        if answers is None or answers.space not in covered:
            model = answers.space.model if answers is not None else self.embedder
            return len(await self._at.finder.lacking(Space(model, 1), limit=BACKLOG + 1))
        return covered[answers.space].wanted - covered[answers.space].held

    async def _flip(self) -> None:
        """Let the space that was filled answer, once it has all that the one before has; then remove that one."""
        answers, fills = self._turnout.answers, self._turnout.fills
        if answers is None or fills is None:
            return
        missing = {unit for _, unit in await self._at.finder.lacking(fills.space, limit=_COVERS)}
        if missing:
            before = {unit for _, unit in await self._at.finder.lacking(answers.space, limit=_COVERS)}
            if len(missing) == _COVERS or missing - before:
                return
        async with self._writing:
            await store_vectors.answer(self._at.db, fills.space)
            self._turnout = Turnout(answers=replace(fills, answering=True))
        await self._drop([answers.space])

    async def _drop(self, spaces: Collection[Space]) -> None:
        """Remove spaces from the index and the record, the note of each last: what is interrupted is found again."""
        for space in spaces:
            async with self._writing:
                await self._at.finder.drop_space(space)
                await store_vectors.drop(self._at.db, space)

    async def _remove_all(self) -> None:
        """Leave no vector anywhere, and look that it is so. Raises: KeepsError, FinderLost."""
        self._turnout = Turnout()
        self._questions.clear()
        held = {each.space for each in await store_vectors.generations(self._at.db)}
        held |= {each.space for each in await self._at.finder.spaces()}
        if not held and not await store_vectors.count(self._at.db):
            return
        await self._drop(held)
        async with self._writing:
            await store_vectors.drop_all(self._at.db)
            await self._at.finder.scrub()
        if await store_vectors.count(self._at.db) or await self._at.finder.spaces():
            raise FinderLost("vectors are left: they are removed again")

    # ------------------------------------------------------------------ embedders
    def _own(self) -> tuple[Watched | None, str | None]:
        """What makes the vectors of this context, and why nothing does; neither where there are none by choice."""
        if self.mode is IndexMode.DURABLE:
            return None, None
        try:
            return self._embedders.get(self.embedder), None
        except Invalid as error:
            return None, error.message

    def _watched(self, generation: Generation) -> Watched | None:
        """The embedder behind a space, None when it cannot be opened any more or makes other vectors by now."""
        try:
            found = self._embedders.get(generation.embedder)
        except Invalid:
            return None
        return found if found is not None and found.model == generation.space.model else None
