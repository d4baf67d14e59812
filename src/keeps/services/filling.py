"""Bringing vectors up: what record and index lack is embedded and saved in both, what nobody wants goes from both."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from keeps.core.errors import Invalid
from keeps.core.generations import Generation, Turnout, turnout
from keeps.core.spaces import Space
from keeps.finder.base import FinderLost
from keeps.models.base import EmbedderLost
from keeps.services import index
from keeps.services.embedders import Embedders, Watched, happens
from keeps.services.index import Indexed
from keeps.store import commit as store_commit
from keeps.store import vectors as store_vectors

BATCH: Final = 64
"""Units embedded at once. Small, so that what a question waits for comes soon; the model cuts it further by tokens."""

BATCH_CHARS: Final = 65_536
"""Characters embedded at once, unless one text alone has more: long texts of one keep those of others waiting less."""

LOAD_AFTER_S: Final = 1.0
"""How long a model is left alone that nothing but rows needs: a command that ends before never loads it."""

_QUICK_S: Final = 5.0
"""A failure that took longer is not looked into text by text."""

_COVERS: Final = 256
"""Units that may lack a vector of both spaces when the new one takes over: texts that an embedder refuses."""

_ALL: Final = 2**31


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


class Behind(Exception):
    """The index holds what the record does not, or the other way round."""


class Filling:
    """The vectors of one context: `turnout` says which spaces there are, `first` which scope sets cannot wait, `asked`
    that a question waits for the model."""

    def __init__(self, at: Indexed, embedders: Embedders, moved: Callable[[], None]) -> None:
        """`moved`: called whenever vectors were saved."""
        self._at = at
        self._embedders = embedders
        self._moved = moved
        self._own: Watched | None = None
        self._writing = asyncio.Lock()
        self._size = BATCH
        self._refused: set[str] = set()
        self.turnout = Turnout()
        self.first: set[str] = set()
        self._asked_last = False
        self.asked = asyncio.Event()

    async def look(self, own: Watched) -> list[Generation]:
        """Let questions use what the record has, before anything is loaded; the spaces that can be used."""
        held = await store_vectors.generations(self._at.db)
        usable = [each for each in held if each.space.model == own.model or self.watched(each) is not None]
        self.turnout = turnout(usable, own.model)
        return usable

    async def arrange(self, own: Watched) -> bool:
        """Bring the spaces of record and index to what is wanted; False while there is nothing to have vectors of."""
        self._own = own
        db, finder = self._at.db, self._at.finder
        usable = await self.look(own)
        plan = self.turnout
        if not any(each.space.model == own.model for each in usable):
            if not await finder.lacking(Space(own.model, 1), limit=1):
                return False
            await self._load(own)
            space = await own.space()
            begun = Generation(space, own.name, answering=plan.answers is None)
            async with self._writing:
                await store_vectors.begin(db, begun)
            plan = turnout([*usable, begun], own.model)
        self.turnout = plan
        for generation in (plan.answers, plan.fills):
            if generation is not None:
                await finder.begin_space(generation.space)
        wanted = {each.space for each in (plan.answers, plan.fills) if each is not None}
        await self._drop([each.space for each in await store_vectors.generations(db) if each.space not in wanted])
        await self._drop([each.space for each in await finder.spaces() if each.space not in wanted])
        return True

    async def bring_up(self, woken: Callable[[], bool]) -> None:
        """Embed what lacks a vector, one batch read ahead and the one before saved meanwhile. `woken`: there is more
        to come anyway.

        Raises: EmbedderLost, FinderLost, KeepsError; Behind when record and index do not agree.
        """
        seen = _Round()
        work = await self._next(seen, ())
        saving: asyncio.Task[None] | None = None
        ahead: asyncio.Task[_Work | None] | None = None
        try:
            while work is not None:
                busy = work.texts.keys()
                ahead = asyncio.create_task(self._next_after(saving, seen, busy))
                made = await self._embed(work, seen)
                following = await ahead
                if saving is not None:
                    await saving
                saving = asyncio.create_task(self._keep(work, made, seen)) if made is not None else None
                if following is None and saving is not None:
                    await saving
                    saving, following = None, await self._next(seen, ())
                work = following
            if seen.passed and not woken():
                raise Behind("the index and the record do not agree")
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
        """What to embed next: what answers comes before what is filled, what a question waits for before the rest.

        After a batch that was asked for comes one of all, so that nobody's questions keep the rows of others waiting.
        """
        first = set[str]() if self._asked_last else set(self.first)
        self._asked_last = bool(first)
        self.first -= first
        for scope_sets in (first, None) if first else (None,):
            work = await self._of(scope_sets, seen, seen.passed | set(busy) | self._refused, among=None)
            if work is not None:
                return work
        return await self._of(None, seen, seen.passed | set(busy), among=self._refused) if self._refused else None

    async def _of(
        self,
        scope_sets: Collection[str] | None,
        seen: _Round,
        skipped: Collection[str],
        *,
        among: Collection[str] | None,
    ) -> _Work | None:
        """What lacks a vector in scope sets, without what is skipped; one of the units `among`, when given."""
        size = self._size if among is None else 1
        for generation in (self.turnout.answers, self.turnout.fills):
            watched = self.watched(generation) if generation is not None else None
            if generation is None or watched is None or generation.space in seen.lost:
                continue
            limit = None if among is not None else size + len(skipped)
            lacking = await self._at.finder.lacking(generation.space, scope_sets, limit=limit or _ALL)
            refs = {unit: ref for ref, unit in lacking if unit not in skipped and (among is None or unit in among)}
            refs = dict(list(refs.items())[:size])
            if not refs:
                continue
            since = await store_commit.last_change(self._at.db)
            texts = await index.read_meanings(self._at, refs.values())
            seen.passed |= refs.keys() - texts.keys()  # the record has changed since the index looked
            texts = _bounded({unit: texts[unit] for unit in refs if unit in texts})
            if texts:
                return _Work(generation, watched, texts, refs, since)
        return None

    async def _embed(self, work: _Work, seen: _Round) -> dict[str, bytes] | None:
        """Vectors of a batch by unit; None from an embedder that is being left and does not answer any more.

        A text that an embedder refuses does not keep the rest from having vectors: it comes after all others, alone.
        """
        try:
            await self._load(work.watched)
            made = await self._pieces(work.watched, list(work.texts.items()))
        except EmbedderLost:
            if work.watched is not self._own:
                seen.lost.add(work.generation.space)
                return None
            if len(work.texts) == 1:
                self._refused |= work.texts.keys()
            self._size = max(1, self._size // 2)
            raise
        self._size = min(BATCH, self._size * 2)
        self._refused = (self._refused | work.texts.keys()) - made.keys()
        return made

    async def _pieces(self, watched: Watched, texts: Sequence[tuple[str, str]]) -> dict[str, bytes]:
        """Vectors of as many of the texts as it gives, half by half once it refuses all; EmbedderLost for none."""
        began = time.monotonic()
        try:
            rows = await watched.embed([text for _, text in texts])
        except EmbedderLost as lost:
            if len(texts) == 1 or time.monotonic() - began > _QUICK_S:
                raise
            made: dict[str, bytes] = {}
            for half in (texts[: len(texts) // 2], texts[len(texts) // 2 :]):
                with suppress(EmbedderLost):
                    made |= await self._pieces(watched, half)
            if not made:
                raise lost from None
            return made
        return {unit: row.astype("<f2").tobytes() for (unit, _), row in zip(texts, rows, strict=True)}

    async def _load(self, watched: Watched) -> None:
        if not watched.loaded:
            if not watched.at_hand:
                await happens(self.asked, LOAD_AFTER_S)
            await watched.space()

    async def _keep(self, work: _Work, made: Mapping[str, bytes], seen: _Round) -> None:
        """Save vectors in the record, as far as their rows are still there, then in the index."""
        space = work.generation.space
        async with self._writing:
            rows = {unit: (work.refs[unit], vector) for unit, vector in made.items()}
            kept = await store_vectors.save(self._at.db, space, rows, since=work.since)
            put = {unit: vector for unit, vector in made.items() if unit in kept}
            taken = await self._at.finder.put_vectors(space, put, meanings=work.texts)
        if taken < len(made):
            seen.passed |= made.keys()
        self._moved()

    async def flip(self) -> None:
        """Let the space that was filled answer, once it has all that the one before has; then remove that one."""
        answers, fills = self.turnout.answers, self.turnout.fills
        if answers is None or fills is None:
            return
        missing = {unit for _, unit in await self._at.finder.lacking(fills.space, limit=_COVERS)}
        if missing:
            before = {unit for _, unit in await self._at.finder.lacking(answers.space, limit=_COVERS)}
            if len(missing) == _COVERS or missing - before:
                return
        async with self._writing:
            await store_vectors.answer(self._at.db, fills.space)
            self.turnout = Turnout(answers=replace(fills, answering=True))
        await self._drop([answers.space])

    async def _drop(self, spaces: Collection[Space]) -> None:
        """Remove spaces from the index and the record, the note of each last: what is interrupted is found again."""
        for space in spaces:
            async with self._writing:
                await self._at.finder.drop_space(space)
                await store_vectors.drop(self._at.db, space)

    async def remove_all(self) -> None:
        """Leave no vector anywhere, and look that it is so. Raises: KeepsError, FinderLost."""
        self.turnout = Turnout()
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

    def watched(self, generation: Generation) -> Watched | None:
        """The embedder behind a space, None when it cannot be opened any more or makes other vectors by now."""
        try:
            found = self._embedders.get(generation.embedder)
        except Invalid:
            return None
        return found if found is not None and found.model == generation.space.model else None


def _bounded(texts: Mapping[str, str]) -> dict[str, str]:
    """As many of the texts, from the first on, as one batch takes; the first one always."""
    kept: dict[str, str] = {}
    chars = 0
    for unit, text in texts.items():
        chars += len(text)
        if kept and chars > BATCH_CHARS:
            break
        kept[unit] = text
    return kept
