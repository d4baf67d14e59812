"""What was said: sessions, their turns, and the passages a long turn is cut into."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from keeps.core.errors import TooLarge
from keeps.core.facts import Origin, RowId, Status
from keeps.core.scopes import Scope

MAX_TURN_BYTES: Final = 512 * 1024
"""The most one turn may hold, in bytes of UTF-8."""

CHUNK_CHARS: Final = 2_000
"""The longest passage a turn is cut into, in characters. It may fall and never rise: see `is_short`."""

MAX_METADATA_BYTES: Final = 16 * 1024
"""The most metadata a row may carry, in bytes of JSON."""

MAX_REPEATED_BYTES: Final = 1024 * 1024
"""The most that metadata and labels of one write may take on all its rows together, in bytes of JSON."""

RENDERED: Final = "rendered"
"""Flag of a turn whose text we wrote from given facts: one line a fact, and no passage."""


class Role(StrEnum):
    """Who spoke."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    TOOL = "tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A conversation. `next_seq` is the number its next turn gets, from 0 without gaps. `opened_by`: the principal who
    began it; None for one that is older than this note."""

    id: RowId
    scope: Scope
    created_at: datetime
    next_seq: int = 0
    last_turn_at: datetime | None = None
    metadata: Mapping[str, Any] | None = None
    opened_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """Which passages a reader may find, within what it may read at all: those of `sessions`, and every one that lies in
    the scope sets `everywhere`."""

    sessions: frozenset[str] = frozenset()
    everywhere: frozenset[str] = frozenset()

    def shows(self, session: str, scope_set: str) -> bool:
        """True when a turn of that session and scope set may be found."""
        return session in self.sessions or scope_set in self.everywhere


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A passage of a turn: characters `start` to `end` of its text."""

    id: RowId
    position: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One thing said. History: it is shown as a passage, never as a fact."""

    id: RowId
    session: RowId
    seq: int
    role: Role
    content: str
    scope: Scope
    known_at: datetime
    recorded_at: datetime
    speaker: str | None = None
    labels: tuple[str, ...] = ()
    status: Status = Status.CONFIRMED
    forgotten_at: datetime | None = None
    origin: Origin = Origin.AUTO_ACCEPTED
    trust: float = 0.5
    taint: frozenset[str] = frozenset()
    flags: frozenset[str] = frozenset()
    addressees: tuple[str, ...] = ()
    metadata: Mapping[str, Any] | None = None

    @property
    def active(self) -> bool:
        """True while the turn may be found."""
        return self.status is Status.CONFIRMED and self.forgotten_at is None


def cut(text: str, *, limit_chars: int = CHUNK_CHARS) -> list[tuple[int, int]]:
    """Where to cut `text` into passages: (start, end) pairs that cover it in order, none longer than the limit.

    A cut falls after a paragraph, else a sentence, else a word, within the last half of a passage; text without
    any of these is cut at the limit. Empty text gives one empty passage.
    """
    pieces: list[tuple[int, int]] = []
    start = 0
    while len(text) - start > limit_chars:
        end = _cut_before(text, start, start + limit_chars)
        pieces.append((start, end))
        start = end
    pieces.append((start, len(text)))
    return pieces


def is_short(turn: Turn) -> bool:
    """True when all of a turn is one passage, so that its passages need not be read."""
    return len(turn.content) <= CHUNK_CHARS


def whole(turn: Turn) -> Chunk:
    """The one passage of a short turn."""
    return Chunk(id=chunk_id(turn.id, 0), position=0, start=0, end=len(turn.content))


def chunk_id(turn: RowId, position: int) -> RowId:
    """The id of a passage: the turn's and its place."""
    return RowId(f"{turn}_{position}")


def most_chunks(turn: Turn) -> int:
    """How many passages a turn can have at most: each but the last is longer than half the limit."""
    return len(turn.content) // (CHUNK_CHARS // 2) + 1


def _cut_before(text: str, start: int, limit: int) -> int:
    middle = start + (limit - start) // 2
    for mark in ("\n\n", "\n", ". ", "? ", "! ", "。", " "):
        found = text.rfind(mark, middle, limit)
        if found >= 0:
            return found + len(mark)
    return limit


def may_share_window(earlier: Turn, later: Turn) -> bool:
    """True when the text of `earlier` may help to find `later`: neighbours, equal in scope and labels, both active."""
    return (
        earlier.session == later.session
        and earlier.seq + 1 == later.seq
        and earlier.scope == later.scope
        and frozenset(earlier.labels) == frozenset(later.labels)
        and earlier.active
        and later.active
        and not earlier.taint
    )


def check_repeated(metadata: Mapping[str, Any] | None, labels: Sequence[str] = (), *, rows: int = 1) -> None:
    """What stands once in a write and is kept on every row of it: metadata of at most 16 KiB of JSON, and with the
    labels at most 1 MiB on all `rows` together.

    Raises: TooLarge.
    """
    size = _json_bytes(dict(metadata)) if metadata is not None else 0
    if size > MAX_METADATA_BYTES:
        raise TooLarge(f"metadata has {size} bytes, at most {MAX_METADATA_BYTES} are allowed")
    size += _json_bytes(labels) if labels else 0
    if size * rows > MAX_REPEATED_BYTES:
        raise TooLarge(
            f"metadata and labels have {size} bytes and are kept on each of {rows} rows: at most {MAX_REPEATED_BYTES} "
            "bytes in all are allowed; write fewer rows at once, or put the metadata on the session"
        )


def _json_bytes(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass"))
