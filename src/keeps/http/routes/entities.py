"""Entities: lists, look-up by name, one with its facts, its history, its neighbours."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from keeps.core.entities import EntityRef, entity_ref
from keeps.http.deps import DataCall, no_content, reply
from keeps.http.params import QueryOf
from keeps.services import entities, erase
from keeps.services.entities import GetEntity, History, ListEntities, Neighbourhood
from keeps.wire.entities import (
    EntitiesQuery,
    EntityDetail,
    EntityListOut,
    EntityMatch,
    EntityOut,
    EntityQuery,
    EntitySearchOut,
    EntitySearchQuery,
    EntityTopOut,
    EntityTopQuery,
    HistoryOut,
    HistoryQuery,
    Neighbour,
    NeighbourQuery,
    NeighboursOut,
)
from keeps.wire.rows import AttributeDetail

router = APIRouter(prefix="/api/v1/{context:segment}/entities", tags=["entities"])


@router.get("", response_model=EntityListOut)
async def list_entities(call: DataCall, query: Annotated[EntitiesQuery, Depends(QueryOf(EntitiesQuery))]) -> Response:
    """Entities by type and name."""
    request = ListEntities(type=query.entity_type(), page=call.cursors.request(query, route="entities"))
    page = await entities.list_all(call.context, call.caller, request)
    meta = call.cursors.meta(page, query, route="entities")
    return reply(EntityListOut(entities=[EntityDetail.of(row) for row in page.rows], page=meta))


@router.get("/search", response_model=EntitySearchOut)
async def search_entities(
    call: DataCall, query: Annotated[EntitySearchQuery, Depends(QueryOf(EntitySearchQuery))]
) -> Response:
    """Entities whose name shares words with `q`, the closest first."""
    found = await entities.search(call.rt, call.context, call.caller, query.to_core())
    return reply(EntitySearchOut(matches=[EntityMatch.of(match) for match in found]))


@router.get("/top", response_model=EntityTopOut)
async def top_entities(call: DataCall, query: Annotated[EntityTopQuery, Depends(QueryOf(EntityTopQuery))]) -> Response:
    """The entities most is known of, that matter most, or were learned of last."""
    found = await entities.top(call.rt, call.context, call.caller, query.to_core())
    return reply(EntityTopOut(entities=[EntityMatch.of(match) for match in found]))


def _ref(type_: str, name: str) -> EntityRef:
    return entity_ref(type_, name)


@router.get("/{type:segment}/{name:segment}", response_model=EntityOut)
async def get_entity(
    type: str,  # noqa: A002 - the name in the published path
    name: str,
    call: DataCall,
    query: Annotated[EntityQuery, Depends(QueryOf(EntityQuery))],
) -> Response:
    """One entity with its live facts and relations, newest first."""
    request = GetEntity(ref=_ref(type, name), when=query.when(), limit=query.limit)
    return reply(EntityOut.of(await entities.get(call.rt, call.context, call.caller, request)))


@router.delete("/{type:segment}/{name:segment}", status_code=204)
async def delete_entity(type: str, name: str, call: DataCall) -> Response:  # noqa: A002 - as above
    """Hide an entity and retire all that is known of it."""
    await erase.delete_entity(call.rt, call.context, call.caller, _ref(type, name))
    return no_content()


@router.get("/{type:segment}/{name:segment}/history", response_model=HistoryOut)
async def entity_history(
    type: str,  # noqa: A002 - the name in the published path
    name: str,
    call: DataCall,
    query: Annotated[HistoryQuery, Depends(QueryOf(HistoryQuery))],
) -> Response:
    """Every value of every key, newest first, superseded ones too."""
    ref = _ref(type, name)
    route = f"history/{ref}"
    request = History(ref=ref, page=call.cursors.request(query, route=route))
    page = await entities.history(call.rt, call.context, call.caller, request)
    meta = call.cursors.meta(page, query, route=route)
    return reply(HistoryOut(history=[AttributeDetail.of(fact) for fact in page.rows], page=meta))


@router.get("/{type:segment}/{name:segment}/history/{key:segment}", response_model=HistoryOut)
async def key_history(type: str, name: str, key: str, call: DataCall) -> Response:  # noqa: A002 - as above
    """Every value of one key, newest first."""
    found = await entities.history_of_key(call.rt, call.context, call.caller, _ref(type, name), key)
    return reply(HistoryOut(history=[AttributeDetail.of(fact) for fact in found]))


@router.get("/{type:segment}/{name:segment}/neighbourhood", response_model=NeighboursOut)
async def neighbourhood(
    type: str,  # noqa: A002 - the name in the published path
    name: str,
    call: DataCall,
    query: Annotated[NeighbourQuery, Depends(QueryOf(NeighbourQuery))],
) -> Response:
    """What an entity is related to, newest first."""
    ref = _ref(type, name)
    route = f"neighbourhood/{ref}"
    page_request = call.cursors.request(query, route=route)
    request = Neighbourhood(ref=ref, min_facts=query.min_facts, page=page_request)
    page = await entities.neighbourhood(call.rt, call.context, call.caller, request)
    meta = call.cursors.meta(page, query, route=route)
    return reply(NeighboursOut(neighbours=[Neighbour.of(row) for row in page.rows], page=meta))
