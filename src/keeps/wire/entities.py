"""Entities: lists, look-up by name, one entity with its facts, its history, its neighbours."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from keeps.core.pages import DEFAULT_LIMIT
from keeps.wire.base import WireIn, WireOut
from keeps.wire.pages import Limit, PageMeta, PageQuery
from keeps.wire.query import Temporal
from keeps.wire.rows import ActionDetail, AttributeDetail, RelationDetail


def _ten(value: object) -> object:
    return 10 if value in (0, "0") else value


FewRows = Annotated[int, BeforeValidator(_ten), Field(ge=1, le=100)]


class EntitiesQuery(PageQuery):
    type: str | None = None


class EntitySearchQuery(WireIn):
    q: str
    type: str | None = None
    limit: FewRows = 10


class EntityTopQuery(WireIn):
    by: Literal["coverage", "importance", "recency"] = "coverage"
    type: str | None = None
    limit: FewRows = 10


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


class EntityMatch(WireOut):
    entity: EntityDetail
    score: float
    fact_count: int
    distinguisher: str | None = None
    last_learned_at: datetime | None = None
    matched_alias: str | None = None


class Truncated(WireOut):
    attributes: bool = False
    relations: bool = False


class EntityOut(WireOut):
    entity: EntityDetail
    attributes: list[AttributeDetail]
    relations: list[RelationDetail]
    truncated: Truncated


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


class NeighboursOut(WireOut):
    neighbours: list[Neighbour]
    page: PageMeta


class AttributesQuery(PageQuery):
    entity: str | None = None
    key: str | None = None


class RelationsQuery(PageQuery):
    src: str | None = None
    dst: str | None = None
    label: str | None = None


class AttributesOut(WireOut):
    attributes: list[AttributeDetail]
    page: PageMeta


class RelationsOut(WireOut):
    relations: list[RelationDetail]
    page: PageMeta


class ActionsOut(WireOut):
    actions: list[ActionDetail]
    page: PageMeta
