"""The finder kept equal to the record: what each row gives it, how it catches up, how it is built anew."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from keeps.core.facts import Row, Status
from keeps.core.sessions import Chunk, Role, Turn, may_share_window
from keeps.finder.base import Entry, Finder, FinderFull, FinderLost, Name, Stored
from keeps.store import commit as store_commit
from keeps.store import facts as store_facts
from keeps.store import index as store_index
from keeps.store import sessions as store_sessions
from keeps.store import vectors as store_vectors
from keeps.store.db import Db
from keeps.store.rows import ref_of, stored_ref
from keeps.store.scopes import ScopeSets, load_scope_sets

_log = logging.getLogger(__name__)

WINDOW_CHARS: Final = 2_000
"""How much of the end of the previous turn may stand in a window, characters."""

MEANT_PASSAGES: Final = 1
"""How many passages of a turn have a vector, from its beginning."""

_PAGE: Final = 500


@dataclass(slots=True, kw_only=True)
class Changes:
    """What one commit changes in the finder."""

    put: list[Entry] = field(default_factory=list[Entry])
    drop: list[str] = field(default_factory=list[str])
    names: list[Name] = field(default_factory=list[Name])
    drop_names: list[Name] = field(default_factory=list[Name])


@dataclass(frozen=True, slots=True)
class Indexed:
    """A record and the finder over it; `uid` names the record, so that no finder of another is taken for it."""

    db: Db
    finder: Finder
    sets: ScopeSets
    uid: str


def entry_of(row: Row) -> Entry:
    """What a fact, relation or action gives the finder."""
    ref = ref_of(row)
    return Entry(
        ref=ref,
        unit=ref,
        kind="fact",
        scope_set=row.scope.id,
        text=f"{row.summary} {row.source_clause}" if row.source_clause else row.summary,
        labels=frozenset(row.labels),
        live=row.control.status is Status.CONFIRMED,
        at=_microseconds(row.clocks.known_at),
        meaning=row.summary,
        voice=voice_of(row),
    )


def voice_of(row: Row | Turn) -> str:
    """Whose words a row holds, or what they are about."""
    if isinstance(row, Turn):
        return (row.speaker or str(row.role)).casefold()
    return " ".join(map(str, store_facts.entities_of(row)))


def entries_of(turn: Turn, chunks: Sequence[Chunk], previous: Turn | None) -> list[Entry]:
    """What a turn gives the finder: an entry a passage, the first with the window of the previous turn."""
    before = previous if previous is not None and may_share_window(previous, turn) else None
    return [
        Entry(
            ref=f"turn:{turn.id}",
            unit=f"memory_chunk:{chunk.id}",
            kind="passage",
            scope_set=turn.scope.id,
            text=_spoken(turn, turn.content[chunk.start : chunk.end]),
            before=_spoken(before, before.content[-WINDOW_CHARS:]) if before and chunk.position == 0 else "",
            window_of=f"turn:{before.id}" if before and chunk.position == 0 else None,
            labels=frozenset(turn.labels),
            at=_microseconds(turn.known_at),
            meaning=_meaning(turn, chunk),
            assistant=turn.role is Role.ASSISTANT,
            session=turn.session,
            voice=voice_of(turn),
        )
        for chunk in chunks
    ]


def _meaning(turn: Turn, chunk: Chunk) -> str | None:
    """What the vector of a passage is made of; None when it has none."""
    text = turn.content[chunk.start : chunk.end]
    return _spoken(turn, text) if chunk.position < MEANT_PASSAGES and text.strip() else None


def _microseconds(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1)


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _spoken(turn: Turn, text: str) -> str:
    return f"{turn.speaker}: {text}" if turn.speaker else text


async def follow(at: Indexed, number: int, changes: Changes) -> None:
    """Bring the finder to change `number`, whose content is `changes`; by the record when it lags or is lost."""
    try:
        if await at.finder.apply(
            number,
            put=changes.put,
            drop=changes.drop,
            names=changes.names,
            drop_names=changes.drop_names,
            after=number - 1,
        ):
            return
    except FinderLost:
        pass
    await catch_up(at)


async def catch_up(at: Indexed) -> None:
    """Bring the finder to the record's last change, from the list of changes or, when that does not reach, anew.

    One that cannot be written, because the disk is full, stays behind, and answers from what it has; the next
    change, or upkeep, tries again. The record alone decides whether a write succeeded.
    """
    last = await store_commit.last_change(at.db)
    try:
        applied = await at.finder.applied()
        if applied == last:
            return
        await load_scope_sets(at.db, at.sets)
        if applied is not None and applied < last and await _apply_changes(at, applied, last):
            return
    except FinderFull as full:
        _log.warning("the index stays behind change %d: %s", last, full)
        return
    except FinderLost:
        pass
    try:
        await rebuild(at)
    except FinderLost as lost:
        _log.warning("the index stays behind change %d: %s", last, lost)


async def _apply_changes(at: Indexed, applied: int, last: int) -> bool:
    """True when every change up to `last` was there to apply, and none asks for a new index."""
    while applied < last:
        page = await store_commit.changes_since(at.db, applied)
        if not page or page[0][0] != applied + 1:
            return False
        refs = list(dict.fromkeys(ref for _, rows in page for ref in rows))
        if store_commit.ANEW in refs:
            return False
        changes = await read_changes(at, refs)
        applied = page[-1][0]
        if applied == last:  # changes name rows, and an entity may have none
            changes.names += await _names(at.db)
        await at.finder.apply(applied, put=changes.put, drop=changes.drop, names=changes.names)
    return True


async def read_changes(at: Indexed, refs: Sequence[str]) -> Changes:
    """What the finder must change for rows that changed, read from the record as it is now.

    The neighbour whose window held a changed turn is indexed again with it.
    """
    turns = {ref.partition(":")[2] for ref in refs if ref.startswith("turn:")}
    turns |= {ref.partition(":")[2] for ref in await at.finder.neighbours([f"turn:{turn}" for turn in sorted(turns)])}
    turns |= await store_index.turns_after(at.db, sorted(turns))
    changes = Changes(drop=[*refs, *(f"turn:{turn}" for turn in sorted(turns))])
    changes.drop = list(dict.fromkeys(ref for ref in changes.drop if _is_indexed(ref)))
    for turn, chunks, previous in await _windows(at.db, at.sets, sorted(turns)):
        if turn.active:
            changes.put += entries_of(turn, chunks, previous)
    facts = [ref for ref in refs if ref.partition(":")[0] in store_facts.FACT_TABLES]
    for start in range(0, len(facts), _PAGE):
        rows = await store_facts.by_refs(at.db, at.sets, facts[start : start + _PAGE], at.sets.everything())
        changes.put += [entry_of(row) for row in rows.values() if row.clocks.forgotten_at is None]
    return changes


async def read_meanings(at: Indexed, refs: Collection[str]) -> dict[str, str]:
    """What the vectors of rows are made of, by unit, as the record is now: only of what the index should hold."""
    everywhere = at.sets.everything()
    turns = [ref.partition(":")[2] for ref in dict.fromkeys(refs) if ref.startswith("turn:")]
    said = await store_sessions.turns_by_id(at.db, at.sets, turns, everywhere)
    spoken = [turn for turn in said.values() if turn.active]
    chunks = await store_sessions.chunks_of(at.db, spoken)
    entries = [entry for turn in spoken for entry in entries_of(turn, chunks.get(turn.id, ()), None)]
    facts = [ref for ref in dict.fromkeys(refs) if ref.partition(":")[0] in store_facts.FACT_TABLES]
    rows = await store_facts.by_refs(at.db, at.sets, facts, everywhere)
    entries += [entry_of(row) for row in rows.values() if row.clocks.forgotten_at is None]
    return {entry.unit: entry.meaning for entry in entries if entry.meaning is not None}


def _is_indexed(ref: str) -> bool:
    table = ref.partition(":")[0]
    return table == "turn" or table in store_facts.FACT_TABLES


async def _names(db: Db) -> list[Name]:
    return [
        Name(entity=ref, scope_set=scope_set, name=stored_ref(ref).name)
        for ref, scope_set in await store_index.all_entities(db)
    ]


async def _windows(db: Db, sets: ScopeSets, turns: Sequence[str]) -> list[tuple[Turn, Sequence[Chunk], Turn | None]]:
    found = await store_sessions.turns_by_id(db, sets, turns, sets.everything())
    chunks = await store_sessions.chunks_of(db, found.values())
    windows: list[tuple[Turn, Sequence[Chunk], Turn | None]] = []
    for turn in found.values():
        before = await store_sessions.turns_at(db, sets, turn.session, [turn.seq - 1]) if turn.seq else []
        windows.append((turn, chunks.get(turn.id, ()), before[0] if before else None))
    return windows


async def rebuild(at: Indexed) -> None:
    """Build the finder anew from the record."""
    number = await store_commit.last_change(at.db)
    await load_scope_sets(at.db, at.sets)
    await at.finder.rebuild(at.uid, everything(at.db, at.sets), number)


async def everything(db: Db, sets: ScopeSets) -> AsyncIterator[Entry | Name | Stored]:
    """All that the index of this record holds: entries, names, and the vectors that the record keeps."""
    async for turn, chunks, previous in store_index.all_turns(db, sets):
        for entry in entries_of(turn, chunks, previous):
            yield entry
    async for row in store_index.all_rows(db, sets):
        yield entry_of(row)
    for name in await _names(db):
        yield name
    for space in await store_vectors.spaces(db):
        yield Stored(space=space, vectors={})
        async for vectors in store_vectors.all_of(db, space):
            yield Stored(space=space, vectors=vectors)
