"""Rows that a phrase names exactly, and rows that belong together: what an erasure is chosen from."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, LiteralString

from keeps.core.erasure import Presence
from keeps.store.db import Db
from keeps.store.erasing import READ_S, read
from keeps.store.rows import Record, key_of


async def by_hash(db: Db, folded: str, scope_sets: Collection[str]) -> list[Record]:
    """Turns, facts, relations, actions and proposals whose text has this keyed hash."""
    parts = await db.run(
        "SELECT * FROM turn WHERE folds CONTAINS $folded TIMEOUT 10s;"
        "SELECT * FROM attribute WHERE folds CONTAINS $folded TIMEOUT 10s;"
        "SELECT * FROM relates_to WHERE folds CONTAINS $folded TIMEOUT 10s;"
        "SELECT * FROM action WHERE folds CONTAINS $folded TIMEOUT 10s;"
        "SELECT * FROM proposal WHERE row.folds CONTAINS $folded TIMEOUT 30s;",
        timeout_s=READ_S,
        folded=folded,
    )
    return _within(parts, scope_sets)


@dataclass(frozen=True, slots=True)
class Said:
    """What a live row says, as keyed hashes; the entity and the key of a fact."""

    folds: frozenset[str]
    entity: str | None
    key: str | None


_LIVE: Final[LiteralString] = (
    " WHERE folds CONTAINSANY $folds AND status = 'confirmed' AND forgotten_at = NONE"
    " AND (valid_until = NONE OR valid_until > $now) TIMEOUT 5s;"
)


async def live_with(db: Db, folds: Sequence[str], scope_sets: Collection[str], now: datetime) -> list[Said]:
    """What is live in the scope sets and has one of these keyed hashes."""
    parts = await db.run(
        "SELECT scope_set, folds, entity, key FROM attribute"
        + _LIVE
        + "SELECT scope_set, folds FROM relates_to"
        + _LIVE
        + "SELECT scope_set, folds FROM action"
        + _LIVE,
        timeout_s=READ_S,
        folds=list(folds),
        now=now,
    )
    return [Said(frozenset(r["folds"]), r.get("entity"), r.get("key")) for r in _within(parts, scope_sets)]


async def by_key(db: Db, key: str, scope_sets: Collection[str]) -> list[Record]:
    """Every version of every fact of this key."""
    parts = await db.run("SELECT * FROM attribute WHERE key = $key TIMEOUT 30s;", timeout_s=READ_S, key=key)
    return _within(parts, scope_sets)


async def of_slot(db: Db, entity: str, key: str, scope_sets: Collection[str]) -> list[Record]:
    """Every version of every fact of this key of one entity, retired ones too."""
    parts = await db.run(
        # Left to itself the engine reads every row of the key.
        "SELECT * FROM attribute WITH INDEX attribute_entity WHERE entity = $entity AND key = $key TIMEOUT 30s;",
        timeout_s=READ_S,
        entity=entity,
        key=key,
    )
    return _within(parts, scope_sets)


async def instructions(db: Db, scope_sets: Collection[str]) -> list[Record]:
    """Every instruction."""
    parts = await db.run("SELECT * FROM instruction TIMEOUT 30s;", timeout_s=READ_S)
    return _within(parts, scope_sets)


async def entities_named(db: Db, name: str, scope_sets: Collection[str], *, hidden: bool) -> list[Presence]:
    """Where entities of this name are known, of any type; with `hidden` also where all about them is retired."""
    parts = await db.run("SELECT * FROM entity WHERE name = $name TIMEOUT 30s;", timeout_s=READ_S, name=name)
    return _presences(_within(parts, scope_sets), hidden=hidden)


async def entity_in(db: Db, ref: str, scope_sets: Collection[str], *, hidden: bool) -> list[Presence]:
    """Where one entity is known; with `hidden` also where all about it is retired."""
    parts = await db.run("SELECT * FROM entity WHERE ref = $ref TIMEOUT 30s;", timeout_s=READ_S, ref=ref)
    return _presences(_within(parts, scope_sets), hidden=hidden)


def _presences(rows: Sequence[Record], *, hidden: bool) -> list[Presence]:
    return [(row["ref"], row["scope_set"]) for row in rows if hidden or row.get("forgotten_at") is None]


async def rows_of(db: Db, presences: Collection[Presence]) -> list[Record]:
    """Facts of the entities, relations at either end of them, and actions they did or were done to."""
    wanted = set(presences)
    refs = sorted({ref for ref, _ in wanted})
    found: dict[str, Record] = {}
    for surql in _OF_ENTITY:
        for row in await read(db, surql, refs):
            named = (row.get(name) for name in ("entity", "subject", "object", "actor"))
            if any((ref, row["scope_set"]) in wanted for ref in named):
                found[str(row["id"])] = row
    return list(found.values())


_OF_ENTITY: Final[tuple[LiteralString, ...]] = (
    "SELECT * FROM attribute WHERE entity IN $ids TIMEOUT 30s;",
    "SELECT * FROM relates_to WHERE subject IN $ids TIMEOUT 30s;",
    "SELECT * FROM relates_to WHERE object IN $ids TIMEOUT 30s;",
    "SELECT * FROM action WHERE actor IN $ids TIMEOUT 30s;",
    "SELECT * FROM action WHERE object IN $ids TIMEOUT 30s;",
)


async def versions_with(db: Db, facts: Sequence[Record]) -> list[Record]:
    """Every version of the chains that `facts` belong to, retired ones too, and those that a person put others in the
    place of: what took the place of `facts`, and what all of these took the place of."""
    entities = sorted({row["entity"] for row in facts})
    found = await read(db, "SELECT * FROM attribute WHERE entity IN $ids TIMEOUT 30s;", entities)
    by_key = {key_of(row["id"]): row for row in found}
    later = {key for row in facts for key in _successors(row, by_key)}
    wanted = {chain_name(row) for row in [*facts, *(by_key[key] for key in later)]}
    versions = {key: row for key, row in by_key.items() if chain_name(row) in wanted}
    closed_by: dict[str, list[str]] = {}
    for key, row in by_key.items():
        closed_by.setdefault(row.get("superseded_by") or "", []).append(key)
    open_ends = list(versions)
    while open_ends:
        earlier = [key for key in closed_by.get(open_ends.pop(), ()) if key not in versions]
        versions.update((key, by_key[key]) for key in earlier)
        open_ends += earlier
    return list(versions.values())


def _successors(row: Record, by_key: Mapping[str, Record]) -> list[str]:
    """What took the place of a row, one after the other."""
    found: list[str] = []
    while (key := row.get("superseded_by") or "") in by_key and key not in found:
        found.append(key)
        row = by_key[key]
    return found


def chain_name(row: Record) -> tuple[str, str, str, str]:
    """What the versions of one memory have in common."""
    return row["entity"], row["chain"], row["scope_set"], row["pillar"]


async def facts_from(db: Db, turns: Sequence[str]) -> list[Record]:
    """Facts, relations and actions that came from turns, by `turn:<id>`."""
    found: list[Record] = []
    for surql in _FROM_TURN:
        found += await read(db, surql, turns)
    return found


_FROM_TURN: Final[tuple[LiteralString, ...]] = (
    "SELECT * FROM attribute WHERE source_ref IN $ids TIMEOUT 30s;",
    "SELECT * FROM relates_to WHERE source_ref IN $ids TIMEOUT 30s;",
    "SELECT * FROM action WHERE source_ref IN $ids TIMEOUT 30s;",
)


async def turns_in(db: Db, session: str) -> list[Record]:
    """Every turn of a session."""
    found = await db.run("SELECT * FROM turn WHERE session = $name TIMEOUT 30s;", timeout_s=READ_S, name=session)
    return list(found[0])


async def everything_in(db: Db, scope_sets: Sequence[str]) -> list[Record]:
    """All rows with content that lie in the scope sets, of every table; for turns and facts whole rows."""
    found: list[Record] = []
    for surql in _IN_SETS:
        found += await read(db, surql, scope_sets)
    return found


_IN_SETS: Final[tuple[LiteralString, ...]] = (
    "SELECT * FROM attribute WHERE scope_set IN $ids TIMEOUT 50s;",
    "SELECT * FROM relates_to WHERE scope_set IN $ids TIMEOUT 50s;",
    "SELECT * FROM action WHERE scope_set IN $ids TIMEOUT 50s;",
    "SELECT * FROM instruction WHERE scope_set IN $ids TIMEOUT 50s;",
    "SELECT * FROM turn WHERE scope_set IN $ids TIMEOUT 50s;",
    "SELECT id, scope_set FROM session WHERE scope_set IN $ids TIMEOUT 50s;",
    "SELECT id, ref, scope_set FROM entity WHERE scope_set IN $ids TIMEOUT 50s;",
    "SELECT id, scope_set FROM uncertainty WHERE scope_set IN $ids TIMEOUT 50s;",
    "SELECT id, scope_set FROM proposal WHERE scope_set IN $ids TIMEOUT 50s;",
    "SELECT id, scope_set FROM sealed WHERE scope_set IN $ids TIMEOUT 50s;",
)


def _within(parts: Sequence[Sequence[Record]], scope_sets: Collection[str]) -> list[Record]:
    return [row for part in parts for row in part if row["scope_set"] in scope_sets]
