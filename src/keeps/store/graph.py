"""The surroundings of entities: relations and facts by what matters first, never more than asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, LiteralString, TypeVar

from keeps.core.entities import EntityRef
from keeps.core.facts import Row
from keeps.core.scopes import Scope
from keeps.core.validity import When, answers, offered
from keeps.store.db import INDEXED_VALUES, Db
from keeps.store.rows import Record, fact_from_row, key_of, relation_from_row, stored_ref
from keeps.store.scopes import ScopeSets

PAST_FACTOR: Final = 4
"""How many times as many rows are read for a question about the past: which of them answer is seen in the row."""

_READ_S: Final = 4.0

# For the present the engine leaves out what cannot answer, and of the rest only what is needed comes over.
_NOW: Final[LiteralString] = (
    " AND forgotten_at = NONE AND status = 'confirmed' AND (valid_until = NONE OR valid_until > $now)"
    " AND (expires_at = NONE OR expires_at > $now) AND muted = false AND (taint = [] OR user_confirmed = true)"
)
_PAST: Final[LiteralString] = (
    " AND forgotten_at = NONE AND ($as_of = NONE OR known_at <= $as_of)"
    " AND ($at_instant = NONE OR recorded_at <= $at_instant)"
)
_NEWEST: Final[LiteralString] = " ORDER BY known_at DESC, id DESC LIMIT $limit TIMEOUT 3s"
_WEIGHTIEST: Final[LiteralString] = " ORDER BY importance DESC, known_at DESC, id DESC LIMIT $limit TIMEOUT 3s"
_EDGE: Final[LiteralString] = "id, subject, object, label, known_at"
_SLOT: Final[LiteralString] = "id, entity, key, importance, known_at"
_SUBJECT: Final[LiteralString] = " FROM relates_to WITH INDEX relation_subject WHERE subject = $place.entity"
_OBJECT: Final[LiteralString] = " FROM relates_to WITH INDEX relation_object WHERE object = $place.entity"
_ENTITY: Final[LiteralString] = " FROM attribute WITH INDEX attribute_entity WHERE entity = $place.entity"

_MOST_PLACES: Final = 2 * INDEXED_VALUES
"""Up to this many pairs of entity and scope set each is looked up by both columns of an index; above it by the entity
alone, filtered."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """A relation as far as finding a way needs it."""

    ref: str
    subject: EntityRef
    label: str
    object: EntityRef
    known_at: datetime

    def far(self, from_: EntityRef) -> EntityRef:
        """The other end."""
        return self.object if self.subject == from_ else self.subject


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A fact as far as choosing it needs it."""

    ref: str
    entity: EntityRef
    key: str
    importance: float
    known_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Who asks and about which time: the readable scope sets, the time, and now."""

    sets: ScopeSets
    readable: frozenset[str]
    when: When
    now: datetime


async def edges(db: Db, ask: Ask, entities: Sequence[EntityRef], *, limit: int) -> list[Edge]:
    """Relations with one of `entities` at either end, the newest `limit` of each, each once, newest first.

    One read, whatever the number of entities and of their relations.
    """
    return await _edges(db, ask, entities, (_SUBJECT, _OBJECT), limit)


async def aliases(db: Db, ask: Ask, entities: Sequence[EntityRef], *, limit: int) -> list[Edge]:
    """The same for those relations alone that say of two entities that they are one."""
    same: LiteralString = " AND label = 'same_as'"
    return await _edges(db, ask, entities, (_SUBJECT + same, _OBJECT + same), limit)


async def facts(db: Db, ask: Ask, entities: Sequence[EntityRef], *, limit: int) -> list[Slot]:
    """Facts of each of `entities`, its `limit` most important, most important first, then newest. One read."""
    found = await _read(db, ask, entities, (_ENTITY,), _SLOT, _WEIGHTIEST, limit)
    slots = [
        Slot(
            ref=f"attribute:{key_of(row['id'])}",
            entity=stored_ref(row["entity"]),
            key=row["key"],
            importance=row["importance"],
            known_at=row["known_at"],
        )
        for row in found
        if _counts(row, ask, fact_from_row)
    ]
    slots.sort(key=lambda slot: (slot.importance, slot.known_at, slot.ref), reverse=True)
    return _of_each(slots, lambda slot: (slot.entity,), entities, limit)


async def _edges(
    db: Db, ask: Ask, entities: Sequence[EntityRef], ends: Sequence[LiteralString], limit: int
) -> list[Edge]:
    found = await _read(db, ask, entities, ends, _EDGE, _NEWEST, limit)
    edges = {
        key_of(row["id"]): Edge(
            ref=f"relates_to:{key_of(row['id'])}",
            subject=stored_ref(row["subject"]),
            label=row["label"],
            object=stored_ref(row["object"]),
            known_at=row["known_at"],
        )
        for row in found
        if _counts(row, ask, relation_from_row)
    }
    newest = sorted(edges.values(), key=lambda edge: (edge.known_at, edge.ref), reverse=True)
    return _of_each(newest, lambda edge: (edge.subject, edge.object), entities, limit)


async def _read(
    db: Db,
    ask: Ask,
    entities: Sequence[EntityRef],
    sources: Sequence[LiteralString],
    columns: LiteralString,
    order: LiteralString,
    limit: int,
) -> list[Record]:
    if not entities or not ask.readable:
        return []
    readable = sorted(ask.readable)
    narrow = len(entities) * len(readable) <= _MOST_PLACES
    within: LiteralString = " AND scope_set = $place.set" if narrow else " AND scope_set IN $sets"
    now = ask.when.is_now
    chosen: LiteralString = "SELECT " + (columns if now else "*")
    rest: LiteralString = within + (_NOW if now else _PAST) + order
    surql: LiteralString = ""
    for source in sources:
        surql += "RETURN array::flatten($places.map(|$place| (" + chosen + source + rest + ")));"
    found = await db.run(
        surql,
        timeout_s=_READ_S,
        places=[{"entity": str(one), "set": set_} for one in entities for set_ in (readable if narrow else ("",))],
        sets=readable,
        now=ask.now,
        as_of=ask.when.as_of,
        at_instant=ask.when.at_instant,
        limit=limit if now else limit * PAST_FACTOR,
    )
    return [row for part in found for row in part]


def _counts(row: Record, ask: Ask, made: Callable[[Record, Scope], Row]) -> bool:
    """For the present the engine has left out what does not count; for the past the row itself says."""
    if ask.when.is_now:
        return True
    if row["scope_set"] not in ask.sets:
        return False
    whole = made(row, ask.sets[row["scope_set"]])
    return answers(whole, ask.when, ask.now) and offered(whole.control, ask.now)


def _of_each(
    ranked: Iterable[T], ends: Callable[[T], Sequence[EntityRef]], entities: Sequence[EntityRef], limit: int
) -> list[T]:
    """Of what is ranked the first `limit` of each entity."""
    left = dict.fromkeys(entities, limit)
    kept: list[T] = []
    for one in ranked:
        wanted = [end for end in ends(one) if left.get(end, 0) > 0]
        if wanted:
            kept.append(one)
        for end in wanted:
            left[end] -= 1
    return kept
