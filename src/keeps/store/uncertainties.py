"""Doubts: reading them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Final, LiteralString

from keeps.core.entities import EntityRef
from keeps.core.facts import RowId
from keeps.core.scopes import Scope
from keeps.core.uncertainties import Uncertainty
from keeps.store.db import Db, RecordID
from keeps.store.rows import Record, key_of, stored_ref
from keeps.store.scopes import ScopeSets

_LIST_S: Final = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which doubts, and which part of the list of them, newest first."""

    entity: EntityRef | None = None
    resolved: bool | None = None
    before: tuple[datetime, str] | None = None
    offset: int = 0
    limit: int


def _listing(wanted: Wanted) -> LiteralString:
    part: LiteralString = " FROM uncertainty WHERE scope_set IN $sets"
    if wanted.entity is not None:
        part = part + " AND entity = $entity"
    if wanted.resolved is not None:
        part = part + " AND resolved = $resolved"
    return part


async def list_some(db: Db, sets: ScopeSets, wanted: Wanted, readable: Collection[str]) -> list[Uncertainty]:
    """Doubts in the readable scope sets, newest first."""
    part = _listing(wanted)
    if wanted.before is not None:
        part = part + " AND (created_at < $before_at OR (created_at = $before_at AND id < $before_id))"
    before_at, before_key = wanted.before or (None, "")
    (found,) = await db.run(
        "SELECT *" + part + " ORDER BY created_at DESC, id DESC LIMIT $limit START $offset TIMEOUT 10s;",
        timeout_s=_LIST_S,
        sets=sorted(readable),
        entity=str(wanted.entity),
        resolved=wanted.resolved,
        before_at=before_at,
        before_id=RecordID("uncertainty", before_key),
        limit=wanted.limit,
        offset=wanted.offset,
    )
    return [from_row(row, sets[row["scope_set"]]) for row in found]


async def count(db: Db, wanted: Wanted, readable: Collection[str]) -> int:
    """How many doubts the whole list holds."""
    (found,) = await db.run(
        "SELECT count()" + _listing(wanted) + " GROUP ALL TIMEOUT 10s;",
        timeout_s=_LIST_S,
        sets=sorted(readable),
        entity=str(wanted.entity),
        resolved=wanted.resolved,
    )
    return int(found[0]["count"]) if found else 0


async def find(db: Db, sets: ScopeSets, uncertainty: str, readable: Collection[str]) -> Uncertainty | None:
    """The doubt, `None` when it is absent or lies outside the given scope sets."""
    (row,) = await db.run("SELECT * FROM ONLY $id TIMEOUT 2s;", id=RecordID("uncertainty", uncertainty))
    if not row or row["scope_set"] not in readable:
        return None
    return from_row(row, sets[row["scope_set"]])


async def open_about(db: Db, scope_set: str, ref: str) -> list[RecordID]:
    """The doubts of a scope set that nobody settled and in which a row, by `table:id`, is a contender."""
    (found,) = await db.run(
        "SELECT VALUE id FROM uncertainty WITH INDEX uncertainty_scope WHERE scope_set = $set AND resolved = false"
        " AND contenders CONTAINS $ref TIMEOUT 5s;",
        set=scope_set,
        ref=ref,
    )
    return list(found)


def from_row(row: Record, scope: Scope) -> Uncertainty:
    """The doubt a row holds."""
    return Uncertainty(
        id=RowId(key_of(row["id"])),
        about=row["about"],
        reason=row["reason"],
        kind=row["kind"],
        scope=scope,
        created_at=row["created_at"],
        entity=stored_ref(row["entity"]) if row.get("entity") else None,
        key=row.get("key"),
        contenders=tuple(row["contenders"]),
        labels=tuple(row["labels"]),
        resolved=row["resolved"],
        resolved_at=row.get("resolved_at"),
        source_ref=row.get("source_ref"),
    )
