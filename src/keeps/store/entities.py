"""Entities as each scope set knows them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString

from keeps.core.entities import EntityRef, EntityType
from keeps.core.facts import Category
from keeps.core.scopes import Scope
from keeps.store.db import INDEXED_VALUES, Db
from keeps.store.rows import Record, entity_id, stored_ref


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """An entity in one scope set: how it was first written there, how much it matters there."""

    ref: EntityRef
    scope_set: str
    display: str
    category: Category
    importance: float
    created_at: datetime
    updated_at: datetime


def to_row(ref: EntityRef, display: str, scope: Scope, category: Category, importance: float, at: datetime) -> Record:
    """A presence as a row; the first display form and time of a scope set stay."""
    return {
        "id": entity_id(ref, scope),
        "ref": str(ref),
        "type": ref.type.value,
        "name": ref.name,
        "display": display,
        "scope_set": scope.id,
        "category": str(category),
        "importance": importance,
        "created_at": at,
        "updated_at": at,
    }


async def presences(db: Db, refs: Sequence[EntityRef], readable: Collection[str]) -> dict[EntityRef, list[Presence]]:
    """Where each entity is known within the readable scope sets, earliest first; unknown ones are left out."""
    rows: list[Record] = []
    for start in range(0, len(refs), INDEXED_VALUES):
        part = [str(ref) for ref in refs[start : start + INDEXED_VALUES]]
        surql = "SELECT * FROM entity WHERE ref IN $refs AND forgotten_at = NONE TIMEOUT 5s;"
        rows += (await db.run(surql, timeout_s=10.0, refs=part))[0]
    return by_entity(rows, readable)


def by_entity(rows: Iterable[Record], readable: Collection[str]) -> dict[EntityRef, list[Presence]]:
    """Presences within the readable scope sets by entity, earliest first."""
    seen: dict[EntityRef, list[Presence]] = {}
    for row in rows:
        if row["scope_set"] in readable:
            presence = from_row(row)
            seen.setdefault(presence.ref, []).append(presence)
    for known in seen.values():
        known.sort(key=lambda presence: (presence.created_at, presence.scope_set))
    return seen


async def list_presences(db: Db, readable: Collection[str], type_: EntityType | None = None) -> list[Presence]:
    """Every presence in the readable scope sets, by type and name."""
    found = await db.run(
        "SELECT * FROM entity WHERE scope_set IN $sets AND forgotten_at = NONE TIMEOUT 10s;",
        timeout_s=15.0,
        sets=sorted(readable),
    )
    rows = (from_row(row) for row in found[0])
    return sorted(
        (presence for presence in rows if type_ is None or presence.ref.type is type_),
        key=lambda presence: (presence.ref, presence.created_at, presence.scope_set),
    )


async def list_refs(
    db: Db,
    readable: Collection[str],
    type_: EntityType | None,
    *,
    after: str = "",
    offset: int = 0,
    limit: int,
) -> list[EntityRef]:
    """Entities known in the readable scope sets, by type and name, each once, those after `after` (`type/name`)."""
    only: LiteralString = "" if type_ is None else " AND type = $type"
    (found,) = await db.run(
        "SELECT ref FROM entity WHERE scope_set IN $sets AND forgotten_at = NONE AND ref > $after"
        + only
        + " GROUP BY ref ORDER BY ref LIMIT $limit START $offset TIMEOUT 10s;",
        timeout_s=15.0,
        sets=sorted(readable),
        after=after,
        type=type_.value if type_ else None,
        limit=limit,
        offset=offset,
    )
    return [stored_ref(row["ref"]) for row in found]


async def count_refs(db: Db, readable: Collection[str], type_: EntityType | None) -> int:
    """How many entities are known in the readable scope sets."""
    only: LiteralString = "" if type_ is None else " AND type = $type"
    (found,) = await db.run(
        "SELECT count() FROM (SELECT ref FROM entity WHERE scope_set IN $sets AND forgotten_at = NONE"
        + only
        + " GROUP BY ref) GROUP ALL TIMEOUT 10s;",
        timeout_s=15.0,
        sets=sorted(readable),
        type=type_.value if type_ else None,
    )
    return int(found[0]["count"]) if found else 0


async def refs_with(db: Db, readable: Collection[str], parts: Sequence[str]) -> list[EntityRef]:
    """Entities known in the readable scope sets whose normal name contains any of `parts`, each once."""
    (found,) = await db.run(
        "SELECT ref FROM entity WHERE scope_set IN $sets AND forgotten_at = NONE AND name CONTAINSANY $parts"
        " GROUP BY ref TIMEOUT 10s;",
        timeout_s=15.0,
        sets=sorted(readable),
        parts=list(parts),
    )
    return [stored_ref(row["ref"]) for row in found]


def from_row(row: Record) -> Presence:
    """The presence a row holds."""
    return Presence(
        ref=stored_ref(row["ref"]),
        scope_set=row["scope_set"],
        display=row["display"],
        category=Category(row["category"]),
        importance=row["importance"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )
