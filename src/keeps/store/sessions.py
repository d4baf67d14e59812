"""Sessions, turns and passages: reading them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, LiteralString

from keeps.core.sessions import RENDERED, Chunk, Session, Turn, chunk_id, is_short, most_chunks, whole
from keeps.store.db import Db, RecordID
from keeps.store.rows import chunk_from_row, key_of, session_from_row, turn_from_row
from keeps.store.scopes import ScopeSets

_READ_S: Final = 10.0


async def find_session(db: Db, sets: ScopeSets, session: str, readable: Collection[str]) -> Session | None:
    """The session, `None` when it is absent or lies outside the given scope sets."""
    row = (await db.run("SELECT * FROM ONLY $id TIMEOUT 2s;", id=RecordID("session", session)))[0]
    if not row or row["scope_set"] not in readable:
        return None
    return session_from_row(row, sets[row["scope_set"]])


@dataclass(frozen=True, slots=True)
class SessionsOf:
    """Those sessions alone that lie in the scope sets `everywhere` or were begun by `opened_by`."""

    everywhere: frozenset[str]
    opened_by: str


_ONLY_OF: Final[LiteralString] = " AND (scope_set IN $everywhere OR opened_by = $opened_by)"


def _of(only: SessionsOf | None) -> dict[str, object]:
    return {} if only is None else {"everywhere": sorted(only.everywhere), "opened_by": only.opened_by}


async def page_of_sessions(
    db: Db,
    sets: ScopeSets,
    readable: Collection[str],
    *,
    only: SessionsOf | None = None,
    before: tuple[datetime, str] | None = None,
    offset: int = 0,
    limit: int,
) -> list[Session]:
    """Sessions in the readable scope sets, newest first, those before the time and id given."""
    further: LiteralString = (
        "" if before is None else " AND (created_at < $before_at OR (created_at = $before_at AND id < $before_id))"
    )
    before_at, before_key = before or (None, "")
    (found,) = await db.run(
        "SELECT * FROM session WHERE scope_set IN $sets"
        + ("" if only is None else _ONLY_OF)
        + further
        + " ORDER BY created_at DESC, id DESC LIMIT $limit START $offset TIMEOUT 10s;",
        timeout_s=15.0,
        sets=sorted(readable),
        before_at=before_at,
        before_id=RecordID("session", before_key),
        limit=limit,
        offset=offset,
        **_of(only),
    )
    return [session_from_row(row, sets[row["scope_set"]]) for row in found]


async def count_sessions(db: Db, readable: Collection[str], only: SessionsOf | None = None) -> int:
    """How many sessions lie in the readable scope sets."""
    (found,) = await db.run(
        "SELECT count() FROM session WHERE scope_set IN $sets"
        + ("" if only is None else _ONLY_OF)
        + " GROUP ALL TIMEOUT 10s;",
        timeout_s=15.0,
        sets=sorted(readable),
        **_of(only),
    )
    return int(found[0]["count"]) if found else 0


@dataclass(frozen=True, slots=True)
class Spoken:
    """How many active turns of a session a reader sees, and when the last one was said."""

    count: int = 0
    last_at: datetime | None = None


async def spoken(db: Db, sessions: Sequence[str], readable: Collection[str]) -> dict[str, Spoken]:
    """What a reader of the scope sets sees of each session's turns; sessions without any are left out."""
    if not sessions:
        return {}
    (found,) = await db.run(
        "SELECT session, count() AS n, time::max(known_at) AS last FROM turn WITH INDEX turn_place"
        " WHERE session IN $sessions AND scope_set IN $sets AND forgotten_at = NONE GROUP BY session TIMEOUT 10s;",
        timeout_s=15.0,
        sessions=list(sessions),
        sets=sorted(readable),
    )
    return {row["session"]: Spoken(row["n"], row["last"]) for row in found}


async def last_turns(db: Db, sets: ScopeSets, session: str, readable: Collection[str], limit: int) -> list[Turn]:
    """The last active turns of a session, at most `limit`, oldest first."""
    (found,) = await db.run(
        "SELECT * FROM turn WITH INDEX turn_place WHERE session = $session_id AND scope_set IN $sets"
        " AND forgotten_at = NONE ORDER BY seq DESC LIMIT $limit TIMEOUT 5s;",
        timeout_s=_READ_S,
        session_id=session,
        sets=sorted(readable),
        limit=limit,
    )
    return [turn_from_row(row, sets[row["scope_set"]]) for row in reversed(found)]


async def find_chunk(db: Db, chunk: str) -> tuple[str, Chunk] | None:
    """A passage and the bare id of its turn; whoever may see the turn decides elsewhere."""
    (row,) = await db.run("SELECT * FROM ONLY $id TIMEOUT 2s;", id=RecordID("memory_chunk", chunk))
    return (row["turn"], chunk_from_row(row)) if row else None


async def turns_by_id(db: Db, sets: ScopeSets, ids: Sequence[str], readable: Collection[str]) -> dict[str, Turn]:
    """Turns by bare id, those alone that lie in the readable scope sets."""
    if not ids:
        return {}
    found = await db.run(
        "SELECT * FROM $ids TIMEOUT 5s;", timeout_s=_READ_S, ids=[RecordID("turn", turn) for turn in ids]
    )
    return {
        key_of(row["id"]): turn_from_row(row, sets[row["scope_set"]])
        for row in found[0]
        if row["scope_set"] in readable
    }


async def turns_of(
    db: Db,
    sets: ScopeSets,
    session: str,
    readable: Collection[str],
    *,
    after: int = -1,
    offset: int = 0,
    limit: int = 500,
) -> list[Turn]:
    """Active turns of a session with a number above `after`, oldest first, at most `limit`."""
    found = await db.run(
        "SELECT * FROM turn WITH INDEX turn_place WHERE session = $session_id AND seq > $after AND scope_set IN $sets"
        " AND forgotten_at = NONE ORDER BY seq LIMIT $limit START $offset TIMEOUT 5s;",
        timeout_s=_READ_S,
        session_id=session,
        after=after,
        sets=sorted(readable),
        limit=limit,
        offset=offset,
    )
    return [turn_from_row(row, sets[row["scope_set"]]) for row in found[0]]


async def turns_at(db: Db, sets: ScopeSets, session: str, places: Sequence[int]) -> list[Turn]:
    """Turns of a session by number, in no order; for windows, so whoever may see them decides elsewhere."""
    if not places:
        return []
    found = await db.run(
        "SELECT * FROM turn WITH INDEX turn_place WHERE session = $session_id AND seq IN $places TIMEOUT 5s;",
        timeout_s=_READ_S,
        session_id=session,
        places=list(places),
    )
    return [turn_from_row(row, sets[row["scope_set"]]) for row in found[0]]


async def chunks_of(db: Db, turns: Iterable[Turn]) -> dict[str, list[Chunk]]:
    """Passages of turns by bare turn id, in order; a turn we wrote from given facts has none.

    Only those of long turns are read, by their ids: the engine answers `turn IN $turns` from an index for a few turns
    and by reading the whole table for many.
    """
    spoken = [turn for turn in turns if RENDERED not in turn.flags]
    by_turn: dict[str, list[Chunk]] = {turn.id: [whole(turn)] for turn in spoken if is_short(turn)}
    ids = [
        RecordID("memory_chunk", chunk_id(turn.id, position))
        for turn in spoken
        if not is_short(turn)
        for position in range(most_chunks(turn))
    ]
    if not ids:
        return by_turn
    found = await db.run("SELECT * FROM $ids TIMEOUT 10s;", timeout_s=15.0, ids=ids)
    for row in found[0]:
        by_turn.setdefault(row["turn"], []).append(chunk_from_row(row))
    for chunks in by_turn.values():
        chunks.sort(key=lambda chunk: chunk.position)
    return by_turn
