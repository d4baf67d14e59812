"""Entities: lists, look-up by name, one entity with its facts, its history, its neighbours."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import BeforeValidator, Field

from keeps.core.entities import EntityRef, EntityType, normalise_type, parse_ref
from keeps.core.modes import TopBy
from keeps.core.pages import DEFAULT_LIMIT, PageRequest
from keeps.wire.base import Instant, WireIn, WireOut
from keeps.wire.late import Late
from keeps.wire.pages import Limit, PageMeta, PageQuery
from keeps.wire.query import Temporal
from keeps.wire.rows import ActionDetail, AttributeDetail, RelationDetail

if TYPE_CHECKING:
    from keeps.services import entities, facts
    from keeps.services.entities import Entity, EntityView, SearchEntities, TopEntities
    from keeps.services.facts import ListActions, ListAttributes, ListRelations
else:
    entities = Late("keeps.services.entities")
    facts = Late("keeps.services.facts")


def _ten(value: object) -> object:
    return 10 if value in (0, "0") else value


FewRows = Annotated[int, BeforeValidator(_ten), Field(ge=1, le=100)]


class EntitiesQuery(PageQuery):
    type: str | None = None

    def entity_type(self) -> EntityType | None:
        """The type asked for, in any spelling; None for all."""
        return None if self.type is None else normalise_type(self.type)


class EntitySearchQuery(WireIn):
    q: str
    type: str | None = None
    limit: FewRows = 10

    def to_core(self) -> SearchEntities:
        """The search this asks for."""
        type_ = None if self.type is None else normalise_type(self.type)
        return entities.SearchEntities(query=self.q, type=type_, limit=self.limit)


class EntityTopQuery(WireIn):
    by: TopBy = TopBy.COVERAGE
    type: str | None = None
    limit: FewRows = 10

    def to_core(self) -> TopEntities:
        """The list this asks for."""
        type_ = None if self.type is None else normalise_type(self.type)
        return entities.TopEntities(by=self.by, type=type_, limit=self.limit)


class EntityQuery(Temporal):
    limit: Limit = DEFAULT_LIMIT


class HistoryQuery(PageQuery):
    pass


class NeighbourQuery(PageQuery):
    min_facts: Annotated[int, Field(ge=0)] | None = None


class EntityDetail(WireOut):
    id: str
    name: str
    entity_type: str
    memory_category: str
    importance: float
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, entity: Entity) -> Self:
        return cls(
            id=entity.ref.wire,
            name=entity.name,
            entity_type=entity.ref.type.value,
            memory_category=entity.category.value,
            importance=entity.importance,
            created_at=entity.created_at,
            updated_at=entity.updated_at,
        )


class EntityMatch(WireOut):
    entity: EntityDetail
    score: float
    fact_count: int
    distinguisher: str | None = None
    last_learned_at: datetime | None = None
    matched_alias: str | None = None

    @classmethod
    def of(cls, match: entities.EntityMatch) -> Self:
        return cls(
            entity=EntityDetail.of(match.entity),
            score=match.score,
            fact_count=match.fact_count,
            distinguisher=match.distinguisher,
            last_learned_at=match.last_learned_at,
        )


class Truncated(WireOut):
    attributes: bool = False
    relations: bool = False


class EntityOut(WireOut):
    entity: EntityDetail
    attributes: list[AttributeDetail]
    relations: list[RelationDetail]
    truncated: Truncated

    @classmethod
    def of(cls, view: EntityView) -> Self:
        return cls(
            entity=EntityDetail.of(view.entity),
            attributes=[AttributeDetail.of(fact) for fact in view.attributes],
            relations=[RelationDetail.of(relation) for relation in view.relations],
            truncated=Truncated(attributes=view.more_attributes, relations=view.more_relations),
        )


class EntityListOut(WireOut):
    entities: list[EntityDetail]
    page: PageMeta


class EntitySearchOut(WireOut):
    matches: list[EntityMatch]


class EntityTopOut(WireOut):
    entities: list[EntityMatch]


class HistoryOut(WireOut):
    """Newest first, superseded values too. `page` for the history of all keys."""

    history: list[AttributeDetail]
    page: PageMeta | None = None


class Neighbour(WireOut):
    label: str
    outbound: bool
    far: EntityMatch
    relation_id: str
    valid_until: datetime | None = None

    @classmethod
    def of(cls, neighbour: entities.Neighbour) -> Self:
        return cls(
            label=neighbour.label,
            outbound=neighbour.outbound,
            far=EntityMatch.of(neighbour.far),
            relation_id=neighbour.relation_id,
            valid_until=neighbour.valid_until,
        )


class NeighboursOut(WireOut):
    neighbours: list[Neighbour]
    page: PageMeta


class AttributesQuery(PageQuery):
    entity: str | None = None
    key: str | None = None

    def to_core(self, page: PageRequest) -> ListAttributes:
        """The list this asks for. Raises: Invalid for a bad reference."""
        return facts.ListAttributes(entity=_ref(self.entity), key=self.key, page=page)


class RelationsQuery(PageQuery):
    src: str | None = None
    dst: str | None = None
    label: str | None = None

    def to_core(self, page: PageRequest) -> ListRelations:
        """The list this asks for. Raises: Invalid for a bad reference."""
        return facts.ListRelations(subject=_ref(self.src), object=_ref(self.dst), label=self.label, page=page)


class ActionsQuery(PageQuery):
    actor: str | None = None
    verb: str | None = None
    since: Instant | None = None
    until: Instant | None = None

    def to_core(self, page: PageRequest) -> ListActions:
        """The list this asks for. Raises: Invalid for a bad reference."""
        return facts.ListActions(actor=_ref(self.actor), verb=self.verb, since=self.since, until=self.until, page=page)


def _ref(text: str | None) -> EntityRef | None:
    return None if text is None else parse_ref(text)


class AttributesOut(WireOut):
    attributes: list[AttributeDetail]
    page: PageMeta


class RelationsOut(WireOut):
    relations: list[RelationDetail]
    page: PageMeta


class ActionsOut(WireOut):
    actions: list[ActionDetail]
    page: PageMeta
