"""Principals and what they hold, for callers that manage grants."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from keeps.core.access import PrincipalId
from keeps.core.scopes import parse_path, wire_path
from keeps.http.body import JsonBody
from keeps.http.deps import DataCall, reply
from keeps.http.envelope import listed
from keeps.http.params import QueryOf
from keeps.services import principals
from keeps.wire.base import bare_id
from keeps.wire.principals import (
    EffectiveOut,
    EffectiveQuery,
    GrantIn,
    PrincipalChangeIn,
    PrincipalIn,
    PrincipalListOut,
    PrincipalOut,
    PrincipalsQuery,
)

router = APIRouter(prefix="/api/v1/{context:segment}/principals", tags=["principals"])


def _id(principal: str) -> PrincipalId:
    return PrincipalId(bare_id(principal, "principal") or principal)


@router.get("", response_model=PrincipalListOut)
async def list_principals(
    request: Request, call: DataCall, query: Annotated[PrincipalsQuery, Depends(QueryOf(PrincipalsQuery))]
) -> Response:
    """The principals the caller manages. Older clients get a bare array."""
    page = await principals.list_page(
        call.rt, call.context, call.caller, call.cursors.request(query, route="principals")
    )
    meta = call.cursors.meta(page, query, route="principals")
    rows = [PrincipalOut.of(principal) for principal in page.rows]
    return listed(request, PrincipalListOut(principals=rows, page=meta))


@router.post("", status_code=201, response_model=PrincipalOut)
async def create_principal(call: DataCall, body: Annotated[PrincipalIn, Depends(JsonBody(PrincipalIn))]) -> Response:
    """Make a principal; with an external id that is known, the one that has it comes back with 200."""
    return await call.once(
        lambda: principals.create(call.rt, call.context, call.caller, body.to_core()),
        lambda made: PrincipalOut.of(made.principal).to_json().decode(),
        status=lambda made: 201 if made.is_new else 200,
        rows=lambda made: (f"principal:{made.principal.id}",),
    )


@router.get("/{principal:segment}", response_model=PrincipalOut)
async def get_principal(principal: str, call: DataCall) -> Response:
    """One principal."""
    found = await principals.get(call.rt, call.context, call.caller, _id(principal))
    return reply(PrincipalOut.of(found))


@router.patch("/{principal:segment}", response_model=PrincipalOut)
async def change_principal(
    principal: str, call: DataCall, body: Annotated[PrincipalChangeIn, Depends(JsonBody(PrincipalChangeIn))]
) -> Response:
    """Give and take roles, for owners; vouch for a writer, for admins too. The rest is for management."""
    changed = await principals.patch(call.rt, call.context, call.caller, _id(principal), body.to_core())
    return reply(PrincipalOut.of(changed))


@router.get("/{principal:segment}/effective", response_model=EffectiveOut)
async def effective_grants(
    principal: str, call: DataCall, query: Annotated[EffectiveQuery, Depends(QueryOf(EffectiveQuery))]
) -> Response:
    """What a principal may do at a node, now or at a time."""
    path = parse_path(query.path)
    verbs = await principals.effective(call.rt, call.context, call.caller, _id(principal), path, query.as_of)
    return reply(EffectiveOut(path=wire_path(path), verbs=[verb.value for verb in verbs], as_of=query.as_of))


@router.post("/{principal:segment}/grants", response_model=PrincipalOut)
async def grant(principal: str, call: DataCall, body: Annotated[GrantIn, Depends(JsonBody(GrantIn))]) -> Response:
    """Give a principal verbs over a pattern."""
    pattern, verbs = body.to_core()
    changed = await principals.grant(call.rt, call.context, call.caller, _id(principal), pattern, verbs)
    return reply(PrincipalOut.of(changed))


@router.delete("/{principal:segment}/grants", response_model=PrincipalOut)
async def revoke(principal: str, call: DataCall, body: Annotated[GrantIn, Depends(JsonBody(GrantIn))]) -> Response:
    """Take exactly these verbs over this pattern from a principal."""
    pattern, verbs = body.to_core()
    changed = await principals.revoke(call.rt, call.context, call.caller, _id(principal), pattern, verbs)
    return reply(PrincipalOut.of(changed))
