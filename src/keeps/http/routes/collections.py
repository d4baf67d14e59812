"""Lists of what is known now: facts, relations, actions, doubts."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from keeps.http.deps import DataCall, reply
from keeps.http.params import QueryOf
from keeps.services import facts
from keeps.wire.entities import (
    ActionsOut,
    ActionsQuery,
    AttributesOut,
    AttributesQuery,
    RelationsOut,
    RelationsQuery,
)
from keeps.wire.rows import ActionDetail, AttributeDetail, RelationDetail
from keeps.wire.uncertainties import UncertaintiesOut, UncertaintiesQuery, UncertaintyOut

router = APIRouter(prefix="/api/v1/{context:segment}", tags=["collections"])


@router.get("/attributes", response_model=AttributesOut)
async def list_attributes(
    call: DataCall, query: Annotated[AttributesQuery, Depends(QueryOf(AttributesQuery))]
) -> Response:
    """Live facts, newest first."""
    request = query.to_core(call.cursors.request(query, route="attributes"))
    page = await facts.attributes(call.rt, call.context, call.caller, request)
    meta = call.cursors.meta(page, query, route="attributes")
    return reply(AttributesOut(attributes=[AttributeDetail.of(row) for row in page.rows], page=meta))


@router.get("/relations", response_model=RelationsOut)
async def list_relations(
    call: DataCall, query: Annotated[RelationsQuery, Depends(QueryOf(RelationsQuery))]
) -> Response:
    """Live relations, newest first."""
    request = query.to_core(call.cursors.request(query, route="relations"))
    page = await facts.relations(call.rt, call.context, call.caller, request)
    meta = call.cursors.meta(page, query, route="relations")
    return reply(RelationsOut(relations=[RelationDetail.of(row) for row in page.rows], page=meta))


@router.get("/actions", response_model=ActionsOut)
async def list_actions(call: DataCall, query: Annotated[ActionsQuery, Depends(QueryOf(ActionsQuery))]) -> Response:
    """Live actions, the one written down last first."""
    request = query.to_core(call.cursors.request(query, route="actions"))
    page = await facts.actions(call.rt, call.context, call.caller, request)
    meta = call.cursors.meta(page, query, route="actions")
    return reply(ActionsOut(actions=[ActionDetail.of(row) for row in page.rows], page=meta))


@router.get("/uncertainty", response_model=UncertaintiesOut)
async def list_uncertainties(
    call: DataCall, query: Annotated[UncertaintiesQuery, Depends(QueryOf(UncertaintiesQuery))]
) -> Response:
    """Doubts, newest first."""
    request = query.to_core(call.cursors.request(query, route="uncertainty"))
    page = await facts.uncertainties(call.context, call.caller, request)
    meta = call.cursors.meta(page, query, route="uncertainty")
    rows = [
        UncertaintyOut.of(facts.doubt_as_seen(call.caller, row), resolvable=facts.resolvable(call.caller, row))
        for row in page.rows
    ]
    return reply(UncertaintiesOut(unknowns=rows, page=meta))
