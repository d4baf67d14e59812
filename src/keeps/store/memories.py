"""Reading what is kept the way people look at it: any status, newest first, a part at a time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, LiteralString

from keeps.core.facts import Row, Status
from keeps.core.proposals import Proposal
from keeps.core.sight import Sight
from keeps.store import proposals
from keeps.store.db import Db, RecordID
from keeps.store.facts import FACT_TABLES, from_record
from keeps.store.scopes import ScopeSets
from keeps.store.sight import seen_by

_LIST_S: Final = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which memories. `own`: scope sets that are seen whole, in `statuses`; `plain`: what is seen of the others, where
    it is in use. `before`: when the last one of the part before was written down, and its id."""

    own: Collection[str]
    plain: Sight
    statuses: Collection[Status]
    now: datetime
    kind: str | None = None
    slot: str | None = None
    words: str | None = None
    agent: str | None = None
    before: tuple[datetime, str] | None = None
    limit: int = 100
    tables: Sequence[str] = field(default=FACT_TABLES)


_SOURCES: Final[dict[str, LiteralString]] = {
    "attribute": "SELECT * FROM attribute",
    "relates_to": "SELECT * FROM relates_to",
    "action": "SELECT * FROM action",
}

_OWN: Final[LiteralString] = (
    " WHERE forgotten_at = NONE AND ((scope_set IN $own AND"
    " ((status IN $statuses AND !(status = 'confirmed' AND expires_at != NONE AND expires_at <= $now))"
    " OR ($expired AND status = 'confirmed' AND expires_at != NONE AND expires_at <= $now)))"
)
_IN_USE: Final[LiteralString] = (
    " OR (scope_set IN $others AND $confirmed AND status = 'confirmed' AND muted = false"
    " AND (valid_until = NONE OR valid_until > $now) AND (expires_at = NONE OR expires_at > $now)"
    " AND (taint = [] OR user_confirmed = true)"
)


def _asked(wanted: Wanted, table: str, seen: LiteralString) -> LiteralString:
    script = _SOURCES[table] + _OWN + _IN_USE + seen + "))"
    if wanted.kind is not None:
        script = script + " AND kind = $kind"
    if wanted.slot is not None:
        script = script + " AND key = $slot"
    if wanted.words is not None:
        script = script + " AND string::contains(string::lowercase(summary), $words)"
    if wanted.agent is not None:
        script = script + " AND proposed_by = $agent"
    if wanted.before is not None:
        script = script + " AND (recorded_at < $before_at OR (recorded_at = $before_at AND id < $before_id))"
    return script + " ORDER BY recorded_at DESC, id DESC LIMIT $limit TIMEOUT 10s;"


async def list_rows(db: Db, sets: ScopeSets, wanted: Wanted) -> list[Row]:
    """Up to `limit` rows of each table, newest first within each; of one moment, by their ids."""
    tables = ("attribute",) if wanted.slot is not None else wanted.tables
    before_at, before_key = wanted.before or (None, "")
    found: list[Row] = []
    seen, names = seen_by(wanted.plain)
    for table in tables:
        (rows,) = await db.run(
            _asked(wanted, table, seen),
            timeout_s=_LIST_S,
            own=sorted(wanted.own),
            others=sorted(wanted.plain.sets),
            statuses=sorted(str(status) for status in wanted.statuses),
            expired=Status.EXPIRED in wanted.statuses,
            confirmed=Status.CONFIRMED in wanted.statuses,
            now=wanted.now,
            kind=wanted.kind,
            slot=wanted.slot,
            words=wanted.words,
            agent=wanted.agent,
            before_at=before_at,
            before_id=RecordID(table, before_key),
            limit=wanted.limit,
            **names,
        )
        found += [from_record(row, sets) for row in rows if row["scope_set"] in sets]
    return found


_DECIDABLE: Final = frozenset({Status.PROPOSED, Status.QUARANTINED, Status.REJECTED})


async def list_proposals(db: Db, sets: ScopeSets, wanted: Wanted) -> list[Proposal]:
    """Up to `limit` proposals of the scope sets that are seen whole, newest first; of one moment, by their ids."""
    script: LiteralString = "SELECT * FROM proposal WHERE status IN $statuses AND scope_set IN $own"
    if wanted.kind is not None:
        script = script + " AND (kind = $kind OR row.kind = $kind)"
    if wanted.slot is not None:
        script = script + " AND row.key = $slot"
    if wanted.words is not None:
        script = script + " AND string::contains(string::lowercase(row.summary ?? ''), $words)"
    if wanted.agent is not None:
        script = script + " AND proposed_by = $agent"
    if wanted.before is not None:
        script = script + " AND (created_at < $before_at OR (created_at = $before_at AND id < $before_id))"
    before_at, before_key = wanted.before or (None, "")
    (rows,) = await db.run(
        script + " ORDER BY created_at DESC, id DESC LIMIT $limit TIMEOUT 10s;",
        timeout_s=_LIST_S,
        own=sorted(wanted.own),
        # What a person said yes to is listed as what it became; of what expired or was replaced nothing is left.
        statuses=sorted(str(status) for status in wanted.statuses if status in _DECIDABLE),
        kind=wanted.kind,
        slot=wanted.slot,
        words=wanted.words,
        agent=wanted.agent,
        before_at=before_at,
        before_id=proposals.record_id(before_key),
        limit=wanted.limit,
    )
    return [proposals.from_row(row, sets) for row in rows if row["scope_set"] in sets]


async def find_row(db: Db, sets: ScopeSets, key: str) -> Row | None:
    """The row of that id in whichever table, None when there is none or it was forgotten."""
    ids = [RecordID(table, key) for table in FACT_TABLES]
    (rows,) = await db.run("SELECT * FROM $ids WHERE forgotten_at = NONE TIMEOUT 5s;", ids=ids)
    return next((from_record(row, sets) for row in rows if row["scope_set"] in sets), None)


async def count_pinned(db: Db, scope_set: str, but: str) -> int:
    """How many memories in use of a scope set are pinned, one of them left out."""
    (rows,) = await db.run(
        "SELECT VALUE id FROM attribute WHERE scope_set = $set AND pinned = true AND status = 'confirmed'"
        " AND forgotten_at = NONE TIMEOUT 5s;",
        set=scope_set,
    )
    return sum(1 for id_ in rows if str(id_.id) != but)


async def doubts_about(db: Db, refs: Sequence[str]) -> list[RecordID]:
    """Open doubts that name any of the rows."""
    (rows,) = await db.run(
        "SELECT VALUE id FROM uncertainty WHERE contenders CONTAINSANY $refs AND resolved = false TIMEOUT 5s;",
        refs=list(refs),
    )
    return list(rows)
