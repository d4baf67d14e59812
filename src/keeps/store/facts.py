"""Facts, relations and actions: reading them by id, by entity, by chain and by what they say."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, LiteralString

from keeps.core.entities import EntityRef
from keeps.core.facts import Action, Fact, Relation, Row
from keeps.core.scopes import Scope
from keeps.core.sight import Sight
from keeps.core.supersession import ranks_at_once
from keeps.store.db import INDEXED_VALUES, Db, RecordID
from keeps.store.entities import Presence, by_entity, presences
from keeps.store.rows import (
    Record,
    action_from_row,
    fact_from_row,
    key_of,
    relation_from_row,
    stored_ref,
)
from keeps.store.scopes import ScopeSets
from keeps.store.sight import seen_by

FACT_TABLES: Final = ("attribute", "relates_to", "action")

_LIST_S: Final = 15.0
_READ_S: Final = 10.0
"""Deadline of the reads here, seconds; each also carries the engine's own TIMEOUT."""

_PART: Final = 500
"""How many ids go into one read."""

_SLOTS: Final = 250
"""How many entities, each with what is looked for in it, go into one read."""


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
        refs=[str(ref) for ref in entities[:INDEXED_VALUES]],
    )
    further = await presences(db, entities[INDEXED_VALUES:], readable)
    facts: dict[str, Fact] = {key_of(row["id"]): fact_from_row(row, sets[row["scope_set"]]) for row in members}
    states: dict[str, ChainState] = {}
    for row in rows:
        head = facts.get(row.get("head") or "")
        beside = (facts[key_of(member)] for member in row["members"] if key_of(member) in facts)
        states[str(row["id"])] = ChainState(
            rev=row["rev"], head=head, contenders=tuple(f for f in beside if head is None or f.id != head.id)
        )
    return states, by_entity(known, readable) | further


# What is said of an entity by one scope set is found by an index over both, so that what others have there costs its
# readers nothing. The engine uses both columns of an index for equality alone: so one SELECT for each scope set,
# and above `INDEXED_VALUES` of them one over all, filtered.
_VERSIONS: Final[LiteralString] = (
    "RETURN array::flatten($sets.map(|$set| (SELECT * FROM attribute WITH INDEX attribute_entity WHERE"
    " entity = $entity AND scope_set = $set AND key = $key AND forgotten_at = NONE TIMEOUT 5s)));"
)
_VERSIONS_WIDE: Final[LiteralString] = (
    "SELECT * FROM attribute WITH INDEX attribute_entity WHERE entity = $entity AND key = $key"
    " AND scope_set IN $sets AND forgotten_at = NONE TIMEOUT 5s;"
)
_OF_ENTITY: Final[LiteralString] = (
    "RETURN array::flatten($sets.map(|$set| (SELECT * FROM attribute WITH INDEX attribute_entity WHERE"
    " entity = $entity AND scope_set = $set AND forgotten_at = NONE TIMEOUT 5s)));"
)
_OF_ENTITY_WIDE: Final[LiteralString] = (
    "SELECT * FROM attribute WITH INDEX attribute_entity WHERE entity = $entity"
    " AND scope_set IN $sets AND forgotten_at = NONE TIMEOUT 5s;"
)
_RELATIONS: Final[LiteralString] = (
    "RETURN array::flatten($sets.map(|$set| (SELECT * FROM relates_to WITH INDEX relation_subject WHERE"
    " subject = $entity AND scope_set = $set AND forgotten_at = NONE TIMEOUT 5s)));"
    "RETURN array::flatten($sets.map(|$set| (SELECT * FROM relates_to WITH INDEX relation_object WHERE"
    " object = $entity AND scope_set = $set AND forgotten_at = NONE TIMEOUT 5s)));"
)
_RELATIONS_WIDE: Final[LiteralString] = (
    "SELECT * FROM relates_to WITH INDEX relation_subject WHERE subject = $entity"
    " AND scope_set IN $sets AND forgotten_at = NONE TIMEOUT 5s;"
    "SELECT * FROM relates_to WITH INDEX relation_object WHERE object = $entity"
    " AND scope_set IN $sets AND forgotten_at = NONE TIMEOUT 5s;"
)


async def _said_of(
    db: Db, near: LiteralString, wide: LiteralString, entity: EntityRef, readable: Collection[str], key: str = ""
) -> list[Record]:
    """Rows about an entity in the readable scope sets, each once: by `near` when these are few, else by `wide`."""
    found = await db.run(
        near if len(readable) <= INDEXED_VALUES else wide,
        timeout_s=_READ_S,
        entity=str(entity),
        sets=sorted(readable),
        key=key,
    )
    return list({key_of(row["id"]): row for part in found for row in part}.values())


async def versions(db: Db, sets: ScopeSets, entity: EntityRef, key: str, readable: Collection[str]) -> list[Fact]:
    """Every version of a key of an entity in the readable scope sets, retired ones left out, newest known first."""
    return newest_first(_facts(await _said_of(db, _VERSIONS, _VERSIONS_WIDE, entity, readable, key), sets, readable))


async def versions_in(db: Db, scope: Scope, slots: Collection[tuple[EntityRef, str]]) -> list[Fact]:
    """Every version of each entity and key in one scope set, retired ones left out, in no order."""
    rows = await _in_parts(
        db,
        "RETURN array::flatten($wanted.map(|$w| (SELECT * FROM attribute WITH INDEX attribute_entity WHERE"
        " entity = $w.entity AND scope_set = $set AND key = $w.key AND forgotten_at = NONE TIMEOUT 5s)));",
        scope,
        [{"entity": str(entity), "key": key} for entity, key in slots],
    )
    return [fact_from_row(row, scope) for row in rows]


async def open_relations(db: Db, scope: Scope, wanted: Mapping[EntityRef, Collection[EntityRef]]) -> list[Relation]:
    """Relations of one scope set without an end, from each subject to any of its objects, newest known first."""
    rows = await _in_parts(
        db,
        "RETURN array::flatten($wanted.map(|$w| (SELECT * FROM relates_to WITH INDEX relation_subject WHERE"
        " subject = $w.ref AND scope_set = $set AND object IN $w.objects AND valid_until = NONE"
        " AND forgotten_at = NONE TIMEOUT 5s)));",
        scope,
        [{"ref": str(ref), "objects": sorted(map(str, objects))} for ref, objects in wanted.items()],
    )
    return newest_first(relation_from_row(row, scope) for row in rows)


async def open_actions(db: Db, scope: Scope, wanted: Mapping[EntityRef, Collection[str]]) -> list[Action]:
    """Actions of one scope set without an end, of each actor with any of its verbs, newest known first."""
    rows = await _in_parts(
        db,
        "RETURN array::flatten($wanted.map(|$w| (SELECT * FROM action WITH INDEX action_actor WHERE"
        " actor = $w.ref AND scope_set = $set AND verb IN $w.verbs AND valid_until = NONE"
        " AND forgotten_at = NONE TIMEOUT 5s)));",
        scope,
        [{"ref": str(ref), "verbs": sorted(verbs)} for ref, verbs in wanted.items()],
    )
    return newest_first(action_from_row(row, scope) for row in rows)


async def _in_parts(db: Db, surql: LiteralString, scope: Scope, wanted: Sequence[Record]) -> list[Record]:
    """What `surql` finds for all of `wanted`, a few hundred at a time."""
    rows: list[Record] = []
    for start in range(0, len(wanted), _SLOTS):
        (found,) = await db.run(surql, timeout_s=_READ_S, set=scope.id, wanted=list(wanted[start : start + _SLOTS]))
        rows += found
    return rows


async def keys_of(db: Db, entities: Sequence[EntityRef], readable: Collection[str]) -> set[tuple[EntityRef, str]]:
    """Entity and key of everything ever said of `entities` in the readable scope sets: to choose what to read."""
    if not entities:
        return set()
    (found,) = await db.run(
        "SELECT entity, key, scope_set FROM attribute WHERE entity IN $entities"
        " GROUP BY entity, key, scope_set TIMEOUT 5s;",
        timeout_s=_READ_S,
        entities=[str(entity) for entity in entities],
    )
    return {(stored_ref(row["entity"]), row["key"]) for row in found if row["scope_set"] in readable}


async def of_entity(db: Db, sets: ScopeSets, entity: EntityRef, readable: Collection[str]) -> list[Fact]:
    """Every version of every key of an entity, retired ones left out, newest known first."""
    return newest_first(_facts(await _said_of(db, _OF_ENTITY, _OF_ENTITY_WIDE, entity, readable), sets, readable))


async def relations_of(db: Db, sets: ScopeSets, entity: EntityRef, readable: Collection[str]) -> list[Relation]:
    """Relations with `entity` at either end, retired ones left out, newest known first."""
    rows = await _said_of(db, _RELATIONS, _RELATIONS_WIDE, entity, readable)
    return newest_first(relation_from_row(row, sets[row["scope_set"]]) for row in rows if row["scope_set"] in readable)


def newest_first(rows: Iterable[Any]) -> list[Any]:
    """Rows by known time, newest first; a value that closed another known at the same moment comes before it.

    What is left equal is ordered by id, so that the order is the same every time.
    """
    listed = list(rows)
    ranks = ranks_at_once({row.id: row for row in listed if isinstance(row, Fact)})

    def place(row: Row) -> tuple[datetime, int, str]:
        return row.clocks.known_at, ranks.get(row.id, 0), row.id

    return sorted(listed, key=place, reverse=True)


def _facts(records: Iterable[Record], sets: ScopeSets, readable: Collection[str]) -> list[Fact]:
    return [fact_from_row(row, sets[row["scope_set"]]) for row in records if row["scope_set"] in readable]


# -------------------------------------------------- what is live, listed and counted in the engine
_LIVE: Final[LiteralString] = (
    " scope_set IN $sets AND status = 'confirmed' AND forgotten_at = NONE"
    " AND (valid_until = NONE OR valid_until > $now) AND (expires_at = NONE OR expires_at > $now)"
    " AND muted = false AND (taint = [] OR user_confirmed = true)"
)
"""The same as `core.validity.live` and `offered`, for lists that are too long to read whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which live rows of one table, and which part of the list of them, newest first.

    `table`: of `FACT_TABLES`. `equal`: columns and the text they hold; `since`/`until` bound `occurred_at`, both
    included. `before`: the time and id of the row to go on after.
    """

    table: str
    equal: Mapping[str, str] = field(default_factory=dict[str, str])
    since: datetime | None = None
    until: datetime | None = None
    before: tuple[datetime, str] | None = None
    offset: int = 0
    limit: int


_LISTED: Final[Mapping[str, tuple[LiteralString, LiteralString]]] = {
    "attribute": (" FROM attribute", "known_at"),
    "relates_to": (" FROM relates_to", "known_at"),
    "action": (" FROM action", "recorded_at"),
}
"""How each table is listed: by the time a fact became known, by the time an action was written down."""

_INDEXES: Final[Mapping[str, LiteralString]] = {
    "entity": " WITH INDEX attribute_entity",
    "subject": " WITH INDEX relation_subject",
    "object": " WITH INDEX relation_object",
    "actor": " WITH INDEX action_actor",
    "key": " WITH INDEX attribute_key",
}
"""The index to use, the first that fits: left alone the engine may walk all rows of a scope set."""

_COLUMNS: Final[Mapping[str, LiteralString]] = {
    "entity": " AND entity = $entity",
    "key": " AND key = $key",
    "subject": " AND subject = $subject",
    "object": " AND object = $object",
    "label": " AND label = $label",
    "actor": " AND actor = $actor",
    "verb": " AND verb = $verb",
}


def _listing(wanted: Wanted, seen: LiteralString) -> tuple[LiteralString, LiteralString]:
    part, order = _LISTED[wanted.table]
    for column, hint in _INDEXES.items():
        if column in wanted.equal:
            part = part + hint
            break
    part = part + " WHERE" + _LIVE + seen
    for column in wanted.equal:
        part = part + _COLUMNS[column]
    if wanted.since is not None:
        part = part + " AND occurred_at >= $since"
    if wanted.until is not None:
        part = part + " AND occurred_at != NONE AND occurred_at <= $until"
    return part, order


async def list_live(db: Db, sets: ScopeSets, wanted: Wanted, sight: Sight, now: datetime) -> list[Any]:
    """Live rows that may be seen, newest first; actions in the order they were written down."""
    seen, names = seen_by(sight)
    part, order = _listing(wanted, seen)
    if wanted.before is not None:
        part = part + " AND (" + order + " < $before_at OR (" + order + " = $before_at AND id < $before_id))"
    script = "SELECT *" + part + " ORDER BY " + order + " DESC, id DESC LIMIT $limit START $offset TIMEOUT 10s;"
    before_at, before_key = wanted.before or (None, "")
    found = await db.run(
        script,
        timeout_s=_LIST_S,
        sets=sorted(sight.sets),
        now=now,
        since=wanted.since,
        until=wanted.until,
        before_at=before_at,
        before_id=RecordID(wanted.table, before_key),
        limit=wanted.limit,
        offset=wanted.offset,
        **wanted.equal,
        **names,
    )
    return [from_record(row, sets) for row in found[0]]


async def count_live(db: Db, wanted: Wanted, sight: Sight, now: datetime) -> int:
    """How many rows the whole list holds, of which `wanted` asks for a part."""
    seen, names = seen_by(sight)
    part, _ = _listing(wanted, seen)
    found = await db.run(
        "SELECT count()" + part + " GROUP ALL TIMEOUT 10s;",
        timeout_s=_LIST_S,
        sets=sorted(sight.sets),
        now=now,
        since=wanted.since,
        until=wanted.until,
        **wanted.equal,
        **names,
    )
    return int(found[0][0]["count"]) if found[0] else 0


async def count_stored(db: Db, scope_set: str) -> int:
    """How many facts, relations and actions of a scope set are in use, those that ended by themselves included."""
    parts = await db.run(
        "SELECT count() FROM attribute WITH INDEX attribute_scope WHERE scope_set = $set AND status = 'confirmed'"
        " AND forgotten_at = NONE GROUP ALL TIMEOUT 10s;"
        "SELECT count() FROM relates_to WITH INDEX relation_scope WHERE scope_set = $set AND status = 'confirmed'"
        " AND forgotten_at = NONE GROUP ALL TIMEOUT 10s;"
        "SELECT count() FROM action WITH INDEX action_scope WHERE scope_set = $set AND status = 'confirmed'"
        " AND forgotten_at = NONE GROUP ALL TIMEOUT 10s;",
        timeout_s=_LIST_S,
        set=scope_set,
    )
    return sum(int(part[0]["count"]) for part in parts if part)


@dataclass(frozen=True, slots=True)
class Tally:
    """How many live facts, outbound relations and actions an entity has, and when the last one became known."""

    count: int
    last_known_at: datetime


def _tallies(seen: LiteralString, *, of_some: bool) -> LiteralString:
    """Facts, outbound relations and actions of each entity, counted: of every one, or of `$refs`."""
    chosen: tuple[LiteralString, LiteralString, LiteralString] = (
        (
            " WITH INDEX attribute_entity WHERE entity IN $refs AND",
            " WITH INDEX relation_subject WHERE subject IN $refs AND",
            " WITH INDEX action_actor WHERE actor IN $refs AND",
        )
        if of_some
        else (" WHERE", " WHERE", " WHERE")
    )
    live: LiteralString = _LIVE + seen + " GROUP BY ref TIMEOUT 10s;"
    return (
        "SELECT entity AS ref, count() AS n, time::max(known_at) AS last FROM attribute"
        + chosen[0]
        + live
        + "SELECT subject AS ref, count() AS n, time::max(known_at) AS last FROM relates_to"
        + chosen[1]
        + live
        + "SELECT actor AS ref, count() AS n, time::max(known_at) AS last FROM action"
        + chosen[2]
        + live
    )


async def tallies(
    db: Db, sight: Sight, now: datetime, refs: Sequence[EntityRef] | None = None
) -> dict[EntityRef, Tally]:
    """Tallies of `refs`, or of every entity, over what may be seen; entities without any are left out."""
    if refs is not None and not refs:
        return {}
    seen, names = seen_by(sight)
    script = _tallies(seen, of_some=refs is not None)
    asked = [str(ref) for ref in refs or ()]
    parts = await db.run(script, timeout_s=_LIST_S, sets=sorted(sight.sets), now=now, refs=asked, **names)
    summed: dict[EntityRef, Tally] = {}
    for row in (row for part in parts for row in part):
        ref = stored_ref(row["ref"])
        held = summed.get(ref)
        last = row["last"] if held is None else max(held.last_known_at, row["last"])
        summed[ref] = Tally(row["n"] + (held.count if held else 0), last)
    return summed


async def sentences(db: Db, sight: Sight, now: datetime, refs: Sequence[EntityRef]) -> dict[EntityRef, str]:
    """The sentence of the most important live fact of each entity that may be seen: the surest, then the newest."""
    if not refs:
        return {}
    seen, names = seen_by(sight)
    (found,) = await db.run(
        "SELECT entity, summary, importance, confidence, known_at, id FROM attribute WITH INDEX attribute_entity"
        " WHERE entity IN $refs AND" + _LIVE + seen + " TIMEOUT 10s;",
        timeout_s=_LIST_S,
        sets=sorted(sight.sets),
        now=now,
        refs=[str(ref) for ref in refs],
        **names,
    )
    best: dict[EntityRef, tuple[tuple[float, float, datetime, str], str]] = {}
    for row in found:
        ref = stored_ref(row["entity"])
        weight = (row["importance"], row["confidence"], row["known_at"], key_of(row["id"]))
        if ref not in best or weight > best[ref][0]:
            best[ref] = (weight, row["summary"])
    return {ref: sentence for ref, (_, sentence) in best.items()}


async def between(
    db: Db,
    sets: ScopeSets,
    subjects: Sequence[EntityRef],
    label: str,
    objects: Sequence[EntityRef],
    readable: Collection[str],
) -> list[Relation]:
    """Relations of a label from any of `subjects` to any of `objects`, retired ones left out, newest known first."""
    (found,) = await db.run(
        "SELECT * FROM relates_to WITH INDEX relation_subject WHERE subject IN $subjects AND label = $label"
        " AND object IN $objects AND scope_set IN $sets AND forgotten_at = NONE TIMEOUT 5s;",
        timeout_s=_READ_S,
        subjects=[str(ref) for ref in subjects],
        objects=[str(ref) for ref in objects],
        label=label,
        sets=sorted(readable),
    )
    return newest_first(relation_from_row(row, sets[row["scope_set"]]) for row in found)


async def hidden(db: Db, rows: Iterable[Row], sight: Sight) -> frozenset[str]:
    """What `rows` point at that somebody with this sight cannot see, as `table:key`.

    Neighbours in a chain that were retired or are gone count; a turn or session that is gone does not, since the
    row's origin stays on record without it.
    """
    listed = list(rows)
    versions = {f"attribute:{link}" for row in listed if isinstance(row, Fact) for link in _links(row)}
    origins = {row.source.ref for row in listed if row.source.ref and row.source.ref.startswith("turn:")}
    origins |= {f"session:{row.source.session}" for row in listed if row.source.session}
    if not versions and not origins:
        return frozenset()
    shown, names = seen_by(sight)
    seen, foreign = await db.run(
        "SELECT VALUE id FROM $versions WHERE scope_set IN $sets AND forgotten_at = NONE" + shown + " TIMEOUT 5s;"
        "SELECT VALUE id FROM $origins WHERE scope_set NOT IN $sets TIMEOUT 5s;",
        timeout_s=_READ_S,
        versions=[record_id(ref) for ref in sorted(versions)],
        origins=[record_id(ref) for ref in sorted(origins)],
        sets=sorted(sight.sets),
        **names,
    )
    visible = {f"{id_.table_name}:{key_of(id_)}" for id_ in seen}
    return frozenset(versions - visible) | {f"{id_.table_name}:{key_of(id_)}" for id_ in foreign}


def _links(fact: Fact) -> tuple[str, ...]:
    return tuple(link for link in (fact.supersedes, fact.superseded_by) if link is not None)
