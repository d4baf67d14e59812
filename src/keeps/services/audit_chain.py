"""The chain of audit rows as a whole: whether none was changed or is missing, and its end kept beside the record."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from keeps.core import audit
from keeps.core.audit import Head, Sealed
from keeps.store import audit as store_audit
from keeps.store.db import Db

_log = logging.getLogger(__name__)


class Flaw(StrEnum):
    """What is wrong with a chain: a row changed, a row gone, or the last rows gone."""

    CHANGED = "changed"
    MISSING = "missing"
    TAIL = "tail_missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether the audit is whole. `rows`: how many are sound. `first_bad`: the first number that is wrong or missing.
    `under_older_key`: how many rows were sealed with a key that is lost; their order alone can be checked."""

    rows: int
    flaw: Flaw | None = None
    first_bad: int | None = None
    under_older_key: int = 0

    @property
    def ok(self) -> bool:
        """True when nothing is wrong."""
        return self.flaw is None


async def check(db: Db, secret: bytes, folder: Path, end: tuple[int, str], now: datetime) -> Verdict:
    """Every row looked at, and whether the chain reaches `end`, the last row this process knows of, and the last one
    that is kept in `folder`. Nothing may be committed meanwhile."""
    restarts = await _restarts(db, secret)
    anew = max((row.seq for row in restarts if audit.begins_a_key(row)), default=0)
    verdict = await _walk(db, secret, anew)
    if verdict.flaw is not None:
        return verdict
    known = [Head(seq=end[0], mac=end[1], at=now)]
    seen = await asyncio.to_thread(store_audit.read_head, folder)
    if seen is not None and audit.head_holds(secret, seen):
        known.append(seen)
    for head in known:
        if not await _reaches(db, head) and not _explained(restarts, head):
            return Verdict(rows=verdict.rows, flaw=Flaw.TAIL, first_bad=min(verdict.rows + 1, head.seq))
    return verdict


async def is_cut(db: Db, secret: bytes, folder: Path) -> bool:
    """True when the chain does not reach the last row that is kept in `folder`."""
    seen = await asyncio.to_thread(store_audit.read_head, folder)
    return seen is not None and audit.head_holds(secret, seen) and not await _reaches(db, seen)


async def keep_head(db: Db, secret: bytes, folder: Path, end: tuple[int, str], now: datetime) -> None:
    """Keep `end`, the last row, in `folder`.

    What is kept there stays when the chain does not reach it any more: that is what `check` has to find. Only a row
    which says that the record was put back since lets it go.
    """
    seen = await asyncio.to_thread(store_audit.read_head, folder)
    if not end[0] or (seen is not None and (seen.seq, seen.mac) == end):
        return
    lost = seen is not None and audit.head_holds(secret, seen) and not await _reaches(db, seen)
    if lost and seen is not None and not _explained(await _restarts(db, secret), seen):
        _log.warning("the audit in %s ends before its last known row %d", folder.name, seen.seq)
        return
    await asyncio.to_thread(store_audit.write_head, folder, audit.sealed_head(secret, *end, now))


async def _restarts(db: Db, secret: bytes) -> list[Sealed]:
    return [row for row in await store_audit.restarts(db) if audit.holds(secret, row)]


def _explained(restarts: Sequence[Sealed], head: Head) -> bool:
    """True when the record was put back after the end was kept, so that it may end earlier."""
    return any(row.at >= head.at for row in restarts)


async def _walk(db: Db, secret: bytes, anew: int) -> Verdict:
    """Check the rows one by one. Those before `anew` have seals of a lost key: only their order is checked."""
    expected, prev = 1, audit.FIRST
    async for row in store_audit.every(db):
        if row.seq != expected:
            return Verdict(rows=expected - 1, flaw=Flaw.MISSING, first_bad=expected)
        sealed = row.seq < anew or audit.holds(secret, row)
        if row.prev != prev or not sealed:
            return Verdict(rows=expected - 1, flaw=Flaw.CHANGED, first_bad=row.seq)
        expected, prev = row.seq + 1, row.mac
    return Verdict(rows=expected - 1, under_older_key=max(0, anew - 1))


async def _reaches(db: Db, head: Head) -> bool:
    """True when the row that was the last one is still there as it was."""
    if head.seq == 0:
        return True
    row = await store_audit.find(db, head.seq)
    return row is not None and row.mac == head.mac
