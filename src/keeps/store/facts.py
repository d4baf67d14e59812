"""Facts, relations and actions: reading them by id, by entity, by chain and by what they say."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from keeps.core.entities import EntityRef
from keeps.core.facts import Action, Fact, Relation, Row
from keeps.store.db import Db, RecordID
from keeps.store.entities import Presence, by_entity
from keeps.store.rows import (
    Record,
    action_from_row,
    fact_from_row,
    key_of,
    relation_from_row,
)
from keeps.store.scopes import ScopeSets

FACT_TABLES: Final = ("attribute", "relates_to", "action")

_READ_S: Final = 10.0
"""Deadline of the reads here, seconds; each also carries the engine's own TIMEOUT."""

_PART: Final = 500
"""How many ids go into one read."""


def from_record(record: Record, sets: ScopeSets) -> Row:
    """The remembered row behind a record of any of the three tables."""
    scope = sets[record["scope_set"]]
    table = record["id"].table_name
    if table == "attribute":
        return fact_from_row(record, scope)
    if table == "relates_to":
        return relation_from_row(record, scope)
    return action_from_row(record, scope)


def entities_of(row: Row) -> tuple[EntityRef, ...]:
    """The entities a row names."""
    if isinstance(row, Fact):
        return (row.entity,)
    if isinstance(row, Relation):
        return (row.subject, row.object)
    if isinstance(row, Action):
        return (row.actor,) if row.object is None else (row.actor, row.object)
    return ()


def record_id(ref: str) -> RecordID:
    """The row id behind `table:key`."""
    table, _, key = ref.partition(":")
    return RecordID(table, key)


async def records(db: Db, refs: Sequence[str]) -> dict[str, Record]:
    """Rows of any table as they are stored, by `table:key`; those that are not there are left out."""
    found: dict[str, Record] = {}
    for start in range(0, len(refs), _PART):
        ids = [record_id(ref) for ref in refs[start : start + _PART]]
        for row in (await db.run("SELECT * FROM $ids TIMEOUT 30s;", timeout_s=60.0, ids=ids))[0]:
            found[f"{row['id'].table_name}:{key_of(row['id'])}"] = row
    return found


async def by_refs(db: Db, sets: ScopeSets, refs: Sequence[str], readable: Collection[str]) -> dict[str, Row]:
    """Rows by `table:key`, those alone that lie in the readable scope sets."""
    if not refs:
        return {}
    found = await db.run("SELECT * FROM $ids TIMEOUT 5s;", timeout_s=_READ_S, ids=[record_id(r) for r in refs])
    rows = (row for row in found[0] if row["scope_set"] in readable and row["scope_set"] in sets)
    return {f"{row['id'].table_name}:{key_of(row['id'])}": from_record(row, sets) for row in rows}


@dataclass(frozen=True, slots=True)
class ChainState:
    """A chain as read: its revision (0: none yet), its head and the live contenders beside it."""

    rev: int = 0
    head: Fact | None = None
    contenders: tuple[Fact, ...] = ()


async def standing(
    db: Db, sets: ScopeSets, ids: Sequence[RecordID], entities: Sequence[EntityRef], readable: Collection[str]
) -> tuple[dict[str, ChainState], dict[EntityRef, list[Presence]]]:
    """What a write of facts must know, in one read: the chains by the text of their record ids (those without a
    row are left out), and where the entities are known within the readable scope sets."""
    rows, members, known = await db.run(
        "SELECT * FROM $chains TIMEOUT 5s;"
        "SELECT * FROM array::flatten((SELECT VALUE members FROM $chains)) TIMEOUT 5s;"
        "SELECT * FROM entity WHERE ref IN $refs AND forgotten_at = NONE TIMEOUT 5s;",
        timeout_s=_READ_S,
        chains=list(ids),
        refs=[str(ref) for ref in entities],
    )
    facts: dict[str, Fact] = {key_of(row["id"]): fact_from_row(row, sets[row["scope_set"]]) for row in members}
    states: dict[str, ChainState] = {}
    for row in rows:
        head = facts.get(row.get("head") or "")
        beside = (facts[key_of(member)] for member in row["members"] if key_of(member) in facts)
        states[str(row["id"])] = ChainState(
            rev=row["rev"], head=head, contenders=tuple(f for f in beside if head is None or f.id != head.id)
        )
    return states, by_entity(known, readable)


async def versions(db: Db, sets: ScopeSets, entity: EntityRef, key: str, readable: Collection[str]) -> list[Fact]:
    """Every version of a key of an entity in the readable scope sets, retired ones left out, newest known first."""
    found = await db.run(
        "SELECT * FROM attribute WHERE entity = $entity AND key = $key AND forgotten_at = NONE TIMEOUT 5s;",
        timeout_s=_READ_S,
        entity=str(entity),
        key=key,
    )
    return newest_first(_facts(found[0], sets, readable))


async def of_entity(db: Db, sets: ScopeSets, entity: EntityRef, readable: Collection[str]) -> list[Fact]:
    """Every version of every key of an entity, retired ones left out, newest known first."""
    found = await db.run(
        "SELECT * FROM attribute WHERE entity = $entity AND forgotten_at = NONE TIMEOUT 5s;",
        timeout_s=_READ_S,
        entity=str(entity),
    )
    return newest_first(_facts(found[0], sets, readable))


async def relations_of(
    db: Db, sets: ScopeSets, entities: Collection[EntityRef], readable: Collection[str]
) -> list[Relation]:
    """Relations with any of `entities` at either end, retired ones left out, newest known first."""
    refs = sorted(map(str, entities))
    found = await db.run(
        "SELECT * FROM relates_to WHERE subject IN $refs AND forgotten_at = NONE TIMEOUT 5s;"
        "SELECT * FROM relates_to WHERE object IN $refs AND forgotten_at = NONE TIMEOUT 5s;",
        timeout_s=_READ_S,
        refs=refs,
    )
    rows = {key_of(row["id"]): row for part in found for row in part}
    relations = [
        relation_from_row(row, sets[row["scope_set"]]) for row in rows.values() if row["scope_set"] in readable
    ]
    return newest_first(relations)


async def actions_of(
    db: Db, sets: ScopeSets, entities: Collection[EntityRef], readable: Collection[str]
) -> list[Action]:
    """What any of `entities` did, retired ones left out, newest known first."""
    found = await db.run(
        "SELECT * FROM action WHERE actor IN $refs AND forgotten_at = NONE TIMEOUT 5s;",
        timeout_s=_READ_S,
        refs=sorted(map(str, entities)),
    )
    actions = [action_from_row(row, sets[row["scope_set"]]) for row in found[0] if row["scope_set"] in readable]
    return newest_first(actions)


def newest_first(rows: Iterable[Any]) -> list[Any]:
    """Rows by known time, newest first; equal times by id, so that the order is the same every time."""
    return sorted(rows, key=lambda row: (row.clocks.known_at, row.id), reverse=True)


def _facts(records: Iterable[Record], sets: ScopeSets, readable: Collection[str]) -> list[Fact]:
    return [fact_from_row(row, sets[row["scope_set"]]) for row in records if row["scope_set"] in readable]
