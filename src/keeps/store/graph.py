"""The surroundings of entities: their newest relations and weightiest facts, at a cost that does not grow with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, LiteralString, TypeVar

from keeps.core.entities import EntityRef
from keeps.core.facts import Row
from keeps.core.scopes import Scope
from keeps.core.validity import When, answers, offered
from keeps.store.db import Db, RecordID
from keeps.store.rows import ENTITY, Record, fact_from_row, key_of, relation_from_row, stored_ref
from keeps.store.scopes import ScopeSets

PAST_FACTOR: Final = 4
"""How many times as many rows are read for a question about the past: which of them answer is seen in the row."""

MOST_PLACES: Final = 64
"""Pairs of entity and scope set that are looked up at once; of more, the first where the entity is known."""

_SPARE: Final = 2
"""How many times as many rows are read as are wanted, because some do not answer any more."""

_MOST_ASKED: Final = 2_000
_PART: Final = 500
_READ_S: Final = 4.0

# The engine finds the first rows of an index without reading the rest only when the statement names nothing but the
# columns of that index, and stands by itself: not inside a closure. So: ids first, a statement for each pair of entity
# and scope set, then the rows behind them.
_DIGITS: Final[tuple[LiteralString, ...]] = ("0", "1", "2", "3", "4", "5", "6", "7", "8", "9")
_pairs: list[LiteralString] = [tens + ones for tens in _DIGITS for ones in _DIGITS]
_NUMBERS: Final = _pairs[:MOST_PLACES]
"""Ends of names of parameters, made so that a query put together of them is still a constant."""

_ENDS: Final[tuple[tuple[LiteralString, LiteralString], ...]] = (
    ("relates_to WITH INDEX relation_subject_age WHERE subject = $entity_", " ORDER BY known_at DESC"),
    ("relates_to WITH INDEX relation_object_age WHERE object = $entity_", " ORDER BY known_at DESC"),
)
_FACTS: Final[tuple[tuple[LiteralString, LiteralString], ...]] = (
    ("attribute WITH INDEX attribute_entity WHERE entity = $entity_", ""),
)
_NOW: Final[LiteralString] = (
    " FROM $ids WHERE scope_set IN $sets AND forgotten_at = NONE AND status = 'confirmed'"
    " AND (valid_until = NONE OR valid_until > $now) AND (expires_at = NONE OR expires_at > $now)"
    " AND muted = false AND (taint = [] OR user_confirmed = true) TIMEOUT 3s;"
)
_PAST: Final[LiteralString] = " FROM $ids WHERE scope_set IN $sets AND forgotten_at = NONE TIMEOUT 3s;"
_EDGE: Final[LiteralString] = "id, subject, object, label, known_at"
_SLOT: Final[LiteralString] = "id, entity, key, importance, known_at"

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """A relation as far as finding a way needs it."""

    ref: str
    subject: EntityRef
    label: str
    object: EntityRef
    known_at: datetime


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
    """Relations with one of `entities` at either end, about the newest `limit` of each, each once, newest first.

    Two or three reads, whatever the number of entities and of their relations.
    """
    found = await _read(db, ask, entities, _ENDS, _EDGE, limit)
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


async def facts(db: Db, ask: Ask, entities: Sequence[EntityRef], *, limit: int) -> list[Slot]:
    """Facts of each of `entities`, its `limit` most important, most important first, then newest.

    Of an entity with more than twice as many only some are looked at. Two or three reads.
    """
    found = await _read(db, ask, entities, _FACTS, _SLOT, limit)
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


async def _read(
    db: Db,
    ask: Ask,
    entities: Sequence[EntityRef],
    sources: Sequence[tuple[LiteralString, LiteralString]],
    columns: LiteralString,
    limit: int,
) -> list[Record]:
    places = await _places(db, ask, entities)
    if not places:
        return []
    surql: LiteralString = ""
    for number in _NUMBERS[: len(places)]:
        for source, order in sources:
            surql += "SELECT VALUE id FROM " + source + number + " AND scope_set = $set_" + number + order
            surql += " LIMIT $most TIMEOUT 3s;"
    given: dict[str, object] = {}
    for number, (entity, scope_set) in zip(_NUMBERS, places, strict=False):
        given |= {f"entity_{number}": entity, f"set_{number}": scope_set}
    now = ask.when.is_now
    most = limit * (_SPARE if now else _SPARE * PAST_FACTOR)
    ids = [id_ for part in await db.run(surql, timeout_s=_READ_S, most=most, **given) for id_ in part]
    if not ids:
        return []
    chosen: LiteralString = "SELECT " + (columns if now else "*") + (_NOW if now else _PAST)
    (rows,) = await db.run(chosen, timeout_s=_READ_S, ids=ids, sets=sorted(ask.readable), now=ask.now)
    return rows


async def _places(db: Db, ask: Ask, entities: Sequence[EntityRef]) -> list[tuple[str, str]]:
    """Pairs of entity and readable scope set to look at; of many, those where the entity is known."""
    pairs = [(str(entity), scope_set) for entity in entities for scope_set in sorted(ask.readable)]
    if len(pairs) <= MOST_PLACES:
        return pairs
    known: set[tuple[str, str]] = set()
    asked = pairs[:_MOST_ASKED]
    for start in range(0, len(asked), _PART):
        ids = [RecordID(ENTITY, list(pair)) for pair in asked[start : start + _PART]]
        (rows,) = await db.run(
            "SELECT ref, scope_set FROM $ids WHERE forgotten_at = NONE TIMEOUT 3s;", timeout_s=_READ_S, ids=ids
        )
        known |= {(row["ref"], row["scope_set"]) for row in rows}
    return [pair for pair in asked if pair in known][:MOST_PLACES]


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
