"""Entities as a caller knows them: lists, look-up by name, one with its facts, its history, its neighbours.

An entity is one row in every scope set that names it; a reader gets one entity, made of the rows they may read
alone. So its display form, importance and times tell nothing about what others wrote.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from keeps.core.access import Caller
from keeps.core.entities import EntityRef, EntityType, normalise_key, normalise_name
from keeps.core.errors import Invalid, NotFound
from keeps.core.facts import IMPORTANCE, Category, Fact, Relation, RowId
from keeps.core.modes import TopBy
from keeps.core.pages import DEFAULT_LIMIT, FIRST_PAGE, MAX_LIMIT, Page, PageRequest, Place, page_of, time_key
from keeps.core.sight import Sight
from keeps.core.supersession import ranks_at_once
from keeps.core.validity import NOW, When, answers, offered
from keeps.services.facts import AnyRow, as_seen
from keeps.services.runtime import Context, Runtime
from keeps.services.sight import presences, sight_of
from keeps.store import entities as store_entities
from keeps.store import facts as store_facts
from keeps.store.entities import Presence

MAX_MATCHES: Final = 100

_AT_ONCE: Final = 500
"""Entities that are looked at together, at most."""

_WORD: Final = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """One entity, made of what a reader may see of it. `name` is the display form they would have met first."""

    ref: EntityRef
    name: str
    category: Category
    importance: float
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityView:
    """An entity with its facts and relations, newest first; `more_…` when there are further ones."""

    entity: Entity
    attributes: tuple[Fact, ...]
    relations: tuple[Relation, ...]
    more_attributes: bool = False
    more_relations: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityMatch:
    """An entity found. `score` 0..1; `fact_count` live facts, outbound relations and actions."""

    entity: Entity
    score: float
    fact_count: int
    distinguisher: str | None = None
    last_learned_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A live relation seen from one end: `outbound` when it begins there, `far` what stands at the other."""

    relation: Relation
    outbound: bool
    far: EntityMatch

    @property
    def label(self) -> str:
        """What the relation says."""
        return self.relation.label

    @property
    def relation_id(self) -> RowId:
        """The row of the relation."""
        return self.relation.id

    @property
    def valid_until(self) -> datetime | None:
        """When it ends; None while nothing is known of an end."""
        return self.relation.clocks.valid_until


@dataclass(frozen=True, slots=True, kw_only=True)
class GetEntity:
    """One entity at a time. `limit` facts and as many relations at most, 1..500."""

    ref: EntityRef
    when: When = NOW
    limit: int = DEFAULT_LIMIT


@dataclass(frozen=True, slots=True, kw_only=True)
class ListEntities:
    """A page of the entities, of one type or of all."""

    type: EntityType | None = None
    page: PageRequest = FIRST_PAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchEntities:
    """Entities by name. `limit` 1..100."""

    query: str
    type: EntityType | None = None
    limit: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class TopEntities:
    """The entities that stand out. `limit` 1..100."""

    by: TopBy = TopBy.COVERAGE
    type: EntityType | None = None
    limit: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """A page of every value an entity had, closed ones too."""

    ref: EntityRef
    page: PageRequest = FIRST_PAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbourhood:
    """A page of what an entity is related to; `min_facts` leaves out neighbours of whom less is known."""

    ref: EntityRef
    min_facts: int | None = None
    page: PageRequest = FIRST_PAGE


async def get(rt: Runtime, context: Context, caller: Caller, request: GetEntity) -> EntityView:
    """An entity with what answers for the time asked about, in the form it is stored in.

    Raises:
        NotFound: there is none, or nothing of it is visible.
        Invalid: a limit out of range.
    """
    _check_limit(request.limit, MAX_LIMIT)
    sight, now = sight_of(context, caller), rt.clock()
    entity = await find(context, request.ref, sight)
    facts = await store_facts.of_entity(context.db, context.sets, request.ref, sight.sets)
    related = await store_facts.relations_of(context.db, context.sets, request.ref, sight.sets)
    attributes = [f for f in _shown(facts, sight, now) if answers(f, request.when, now)]
    relations = [r for r in _shown(related, sight, now) if answers(r, request.when, now)]
    return EntityView(
        entity=entity,
        attributes=tuple(await as_seen(context, attributes[: request.limit], caller, sight)),
        relations=tuple(await as_seen(context, relations[: request.limit], caller, sight)),
        more_attributes=len(attributes) > request.limit,
        more_relations=len(relations) > request.limit,
    )


def _shown(rows: Iterable[AnyRow], sight: Sight, now: datetime) -> list[AnyRow]:
    """The rows that may be seen."""
    return [row for row in rows if offered(row.control, now) and sight.shows(row)]


async def find(context: Context, ref: EntityRef, sight: Sight) -> Entity:
    """The entity as the scope sets that are looked into know it. Raises: NotFound."""
    known = await presences(context, sight, [ref])
    if ref not in known:
        raise missing(ref)
    return _merged(known[ref])


def missing(ref: EntityRef) -> NotFound:
    """The one answer for an entity that is absent and for one of which nothing is visible."""
    return NotFound(f"entity {ref} does not exist")


async def list_all(context: Context, caller: Caller, request: ListEntities) -> Page[Entity]:
    """Entities by type and name, each once."""
    page, sight = request.page, sight_of(context, caller)
    after = page.after[1] if page.after else ""
    if sight.rest:
        # Of some of them nothing may be seen, so a page is as long as it takes to fill it.
        found = await _seen_after(context, sight, request.type, after, page.offset + page.limit + 1)
        found = found[page.offset :]
        total = len(await _seen_after(context, sight, request.type, "", None)) if page.count else None
    else:
        refs = await store_entities.list_refs(
            context.db, sight.sets, request.type, after=after, offset=page.offset, limit=page.limit + 1
        )
        known = await presences(context, sight, refs)
        found = [_merged(known[ref]) for ref in refs if ref in known]
        total = await store_entities.count_refs(context.db, sight.sets, request.type) if page.count else None
    more = len(found) > page.limit
    last = str(found[page.limit - 1].ref) if more else ""
    return Page(rows=tuple(found[: page.limit]), next=(last, last) if more else None, total=total)


async def _seen_after(
    context: Context, sight: Sight, type_: EntityType | None, after: str, most: int | None
) -> list[Entity]:
    """Entities by type and name that come after one, `most` of them; None for all."""
    found: list[Entity] = []
    limit = min(most or _AT_ONCE, _AT_ONCE)
    while True:
        refs = await store_entities.list_refs(context.db, sight.sets, type_, after=after, limit=limit)
        known = await presences(context, sight, refs)
        found += [_merged(known[ref]) for ref in refs if ref in known]
        if len(refs) < limit or (most is not None and len(found) >= most):
            return found[:most]
        after = str(refs[-1])


async def search(rt: Runtime, context: Context, caller: Caller, request: SearchEntities) -> list[EntityMatch]:
    """Entities whose name shares words with the query, the closest first.

    The same name in any spelling scores 1.0, others the share of words they have in common.
    Raises: Invalid for an empty query or a limit out of range.
    """
    _check_limit(request.limit, MAX_MATCHES)
    asked = normalise_name(request.query)
    words = set(_WORD.findall(asked))
    sight = sight_of(context, caller)
    refs = await store_entities.refs_with(context.db, sight.sets, sorted(words | {asked}))
    scores = {ref: _likeness(asked, words, ref.name) for ref in refs if request.type in (None, ref.type)}
    known = await presences(context, sight, [ref for ref, score in scores.items() if score])
    found = [_merged(seen) for seen in known.values()]
    found.sort(key=lambda entity: (-scores[entity.ref], -entity.importance, entity.ref))
    return await _matches(rt, context, found[: request.limit], sight, scores)


async def top(rt: Runtime, context: Context, caller: Caller, request: TopEntities) -> list[EntityMatch]:
    """The entities that stand out, each with a score of 1.0. Raises: Invalid for a limit out of range."""
    _check_limit(request.limit, MAX_MATCHES)
    sight = sight_of(context, caller)
    grouped: dict[EntityRef, list[Presence]] = {}
    for presence in await store_entities.list_presences(context.db, sight.sets, request.type):
        grouped.setdefault(presence.ref, []).append(presence)
    entities = [_merged(seen) for seen in grouped.values()]
    if request.by is TopBy.IMPORTANCE:
        entities.sort(key=lambda entity: (-entity.importance, entity.ref))
        return await _matches(rt, context, await _first(context, sight, entities, request.limit), sight, {})
    tallies = await store_facts.tallies(context.db, sight, rt.clock())
    if request.by is TopBy.COVERAGE:
        counts = {ref: tally.count for ref, tally in tallies.items()}
        entities.sort(key=lambda entity: (-counts.get(entity.ref, 0), entity.ref))
    else:
        learned = {ref: tally.last_known_at for ref, tally in tallies.items()}
        entities.sort(key=lambda entity: entity.ref)
        entities.sort(key=lambda entity: learned.get(entity.ref, entity.created_at), reverse=True)
    return await _matches(rt, context, await _first(context, sight, entities, request.limit), sight, {})


async def _first(context: Context, sight: Sight, entities: Sequence[Entity], most: int) -> list[Entity]:
    """The first of the entities of which something may be seen."""
    if not sight.rest:
        return list(entities[:most])
    found: list[Entity] = []
    for start in range(0, len(entities), most):
        part = [entity.ref for entity in entities[start : start + most]]
        known = await presences(context, sight, part)
        found += [_merged(known[ref]) for ref in part if ref in known]
        if len(found) >= most:
            break
    return found[:most]


async def history(rt: Runtime, context: Context, caller: Caller, request: History) -> Page[Fact]:
    """Every value of every key of an entity, newest first, superseded ones too. Raises: NotFound."""
    sight, now = sight_of(context, caller), rt.clock()
    await find(context, request.ref, sight)
    facts = await store_facts.of_entity(context.db, context.sets, request.ref, sight.sets)
    shown = _shown(facts, sight, now)
    places = _places(facts)
    page = page_of(shown, lambda fact: places[fact.id], request.page, newest_first=True)
    return replace(page, rows=tuple(await as_seen(context, page.rows, caller, sight)))


async def history_of_key(rt: Runtime, context: Context, caller: Caller, ref: EntityRef, key: str) -> list[Fact]:
    """Every value of one key, in any spelling, newest first. Raises: NotFound when there is none; Invalid."""
    sight, now = sight_of(context, caller), rt.clock()
    named = normalise_key(key)
    facts = await store_facts.versions(context.db, context.sets, ref, named, sight.sets)
    shown = _shown(facts, sight, now)
    if not shown:
        raise NotFound(f"entity {ref} has no key {named}")
    return await as_seen(context, shown, caller, sight)


async def neighbourhood(rt: Runtime, context: Context, caller: Caller, request: Neighbourhood) -> Page[Neighbour]:
    """Live relations of an entity from either end, newest first, with what stands at the other end.

    Raises:
        NotFound: the entity is absent or not visible.
        Invalid: a total was asked for together with `min_facts`.
    """
    if request.min_facts is not None and request.page.count:
        raise Invalid("count and minFacts cannot be used together: leave one out")
    sight, now = sight_of(context, caller), rt.clock()
    await find(context, request.ref, sight)
    related = await store_facts.relations_of(context.db, context.sets, request.ref, sight.sets)
    relations = [r for r in _shown(related, sight, now) if answers(r, NOW, now)]
    if request.min_facts:
        ends = list({_far(relation, request.ref) for relation in relations})
        tallies = await store_facts.tallies(context.db, sight, now, ends)
        known = {ref for ref, tally in tallies.items() if tally.count >= request.min_facts}
        relations = [relation for relation in relations if _far(relation, request.ref) in known]
    page = page_of(relations, lambda r: (time_key(r.clocks.known_at), r.id), request.page, newest_first=True)
    refs = list(dict.fromkeys(_far(relation, request.ref) for relation in page.rows))
    ends_seen = await presences(context, sight, refs)
    found = await _matches(rt, context, [_merged(seen) for seen in ends_seen.values()], sight, {})
    far = {match.entity.ref: match for match in found}
    rows = tuple(
        Neighbour(relation=r, outbound=r.subject == request.ref, far=far[_far(r, request.ref)])
        for r in page.rows
        if _far(r, request.ref) in far
    )
    return Page(rows=rows, next=page.next, total=page.total)


def _far(relation: Relation, near: EntityRef) -> EntityRef:
    return relation.object if relation.subject == near else relation.subject


def _merged(seen: Sequence[Presence]) -> Entity:
    """One entity out of its rows: the first display form, the strongest category, the widest times."""
    first = min(seen, key=lambda presence: (presence.created_at, presence.scope_set))
    return Entity(
        ref=first.ref,
        name=first.display,
        category=max((presence.category for presence in seen), key=IMPORTANCE.__getitem__),
        importance=max(presence.importance for presence in seen),
        created_at=first.created_at,
        updated_at=max(presence.updated_at for presence in seen),
    )


def _likeness(asked: str, words: set[str], name: str) -> float:
    """1.0 for the same name, else the share of words the two have in common, 0..1."""
    if name == asked:
        return 1.0
    own = set(_WORD.findall(name))
    return len(words & own) / len(words | own) if words & own else 0.0


async def _matches(
    rt: Runtime,
    context: Context,
    entities: Sequence[Entity],
    sight: Sight,
    scores: Mapping[EntityRef, float],
) -> list[EntityMatch]:
    if not entities:
        return []
    refs, now = [entity.ref for entity in entities], rt.clock()
    tallies = await store_facts.tallies(context.db, sight, now, refs)
    sentences = await store_facts.sentences(context.db, sight, now, refs)
    return [
        EntityMatch(
            entity=entity,
            score=scores.get(entity.ref, 1.0),
            fact_count=tallies[entity.ref].count if entity.ref in tallies else 0,
            distinguisher=sentences.get(entity.ref),
            last_learned_at=tallies[entity.ref].last_known_at if entity.ref in tallies else None,
        )
        for entity in entities
    ]


def _places(facts: Sequence[Fact]) -> dict[RowId, Place]:
    """Where each fact stands in a history: known time, then its place among the values known at that moment."""
    ranks = ranks_at_once({fact.id: fact for fact in facts})
    return {fact.id: (f"{time_key(fact.clocks.known_at)} {ranks[fact.id]:06d}", fact.id) for fact in facts}


def _check_limit(limit: int, most: int) -> None:
    if not 1 <= limit <= most:
        raise Invalid(f"limit must be 1 to {most}")
