"""Management of the principals and keys of a context."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from keeps.core.access import PrincipalId
from keeps.http.body import JsonBody
from keeps.http.deps import AdminCall, no_content, reply
from keeps.http.params import QueryOf
from keeps.services import keys, principals
from keeps.wire.contexts import (
    AccessTokenIn,
    AccessTokenOut,
    ManagedKeyDetail,
    ManagedKeyIn,
    ManagedMintedKey,
    ManagedPrincipalOut,
    ManagementOut,
)
from keeps.wire.keys import KeyTtlQuery
from keeps.wire.principals import GrantIn, PrincipalChangeIn, PrincipalIn

router = APIRouter(prefix="/api/v1/contexts/{context_id:segment}", tags=["management: principals and keys"])
Ttl = Annotated[KeyTtlQuery, Depends(QueryOf(KeyTtlQuery))]


def _array(rows: Sequence[ManagementOut]) -> Response:
    text = json.dumps([row.model_dump(mode="json", exclude_none=True) for row in rows])
    return Response(text, media_type="application/json")


@router.get("/principals", response_model=list[ManagedPrincipalOut])
async def list_principals(context_id: str, call: AdminCall) -> Response:
    """All principals of a context."""
    found = await principals.list_all(call.rt, await call.rt.context(context_id), call.caller)
    return _array([ManagedPrincipalOut.of(principal) for principal in found])


@router.post("/principals", status_code=201, response_model=ManagedPrincipalOut)
async def create_principal(
    context_id: str, call: AdminCall, body: Annotated[PrincipalIn, Depends(JsonBody(PrincipalIn))]
) -> Response:
    """Make a principal; with an external id that is known, the one that has it comes back with 200."""
    context = await call.rt.context(context_id)
    made = await principals.create(call.rt, context, call.caller, body.to_core())
    return reply(ManagedPrincipalOut.of(made.principal), 201 if made.is_new else 200)


@router.get("/principals/{principal:segment}", response_model=ManagedPrincipalOut)
async def get_principal(context_id: str, principal: str, call: AdminCall) -> Response:
    """One principal."""
    context = await call.rt.context(context_id)
    found = await principals.get(call.rt, context, call.caller, PrincipalId(principal))
    return reply(ManagedPrincipalOut.of(found))


async def _change(
    context_id: str,
    principal: str,
    call: AdminCall,
    body: Annotated[PrincipalChangeIn, Depends(JsonBody(PrincipalChangeIn))],
) -> Response:
    """Change a principal; grants replace all it holds."""
    context = await call.rt.context(context_id)
    changed = await principals.patch(call.rt, context, call.caller, PrincipalId(principal), body.to_core())
    return reply(ManagedPrincipalOut.of(changed))


for _method in ("PATCH", "PUT"):
    router.add_api_route(
        "/principals/{principal:segment}",
        _change,
        methods=[_method],
        name=f"{_method.lower()} principal",
        response_model=ManagedPrincipalOut,
    )


@router.delete("/principals/{principal:segment}", status_code=204)
async def delete_principal(context_id: str, principal: str, call: AdminCall) -> Response:
    """Remove a principal and its keys."""
    context = await call.rt.context(context_id)
    await principals.delete(call.rt, context, call.caller, PrincipalId(principal))
    return no_content()


@router.post("/principals/{principal:segment}/grants", response_model=ManagedPrincipalOut)
async def grant(
    context_id: str, principal: str, call: AdminCall, body: Annotated[GrantIn, Depends(JsonBody(GrantIn))]
) -> Response:
    """Give a principal verbs over a pattern."""
    context, (pattern, verbs) = await call.rt.context(context_id), body.to_core()
    changed = await principals.grant(call.rt, context, call.caller, PrincipalId(principal), pattern, verbs)
    return reply(ManagedPrincipalOut.of(changed))


@router.delete("/principals/{principal:segment}/grants", response_model=ManagedPrincipalOut)
async def revoke(
    context_id: str, principal: str, call: AdminCall, body: Annotated[GrantIn, Depends(JsonBody(GrantIn))]
) -> Response:
    """Take exactly these verbs over this pattern from a principal."""
    context, (pattern, verbs) = await call.rt.context(context_id), body.to_core()
    changed = await principals.revoke(call.rt, context, call.caller, PrincipalId(principal), pattern, verbs)
    return reply(ManagedPrincipalOut.of(changed))


@router.get("/principals/{principal:segment}/keys", response_model=list[ManagedKeyDetail])
async def list_keys_of(context_id: str, principal: str, call: AdminCall) -> Response:
    """The keys of a principal, by name."""
    context = await call.rt.context(context_id)
    found = await keys.list_for(call.rt, context, call.caller, PrincipalId(principal))
    return _array([ManagedKeyDetail.of(key) for key in found])


@router.post("/principals/{principal:segment}/keys/{name:segment}", status_code=201, response_model=ManagedMintedKey)
async def create_key(
    context_id: str,
    principal: str,
    name: str,
    call: AdminCall,
    ttl: Ttl,
    body: Annotated[ManagedKeyIn, Depends(JsonBody(ManagedKeyIn))],
) -> Response:
    """Mint a key for a principal; its secret is shown here and never again."""
    context = await call.rt.context(context_id)
    request = body.to_core(name, ttl.ttl_seconds)
    minted = await keys.create_for(call.rt, context, call.caller, PrincipalId(principal), request)
    return reply(ManagedMintedKey.of(minted), 201)


@router.post("/principals/{principal:segment}/keys/{name:segment}/rotate", response_model=ManagedMintedKey)
async def rotate_key_of(context_id: str, principal: str, name: str, call: AdminCall, ttl: Ttl) -> Response:
    """Give a key of a principal a new secret."""
    context = await call.rt.context(context_id)
    minted = await keys.rotate_for(call.rt, context, call.caller, name, PrincipalId(principal), ttl.ttl_seconds)
    return reply(ManagedMintedKey.of(minted))


@router.delete("/principals/{principal:segment}/keys/{name:segment}", status_code=204)
async def delete_key_of(context_id: str, principal: str, name: str, call: AdminCall) -> Response:
    """Revoke a key of a principal."""
    context = await call.rt.context(context_id)
    await keys.delete_for(call.rt, context, call.caller, name, PrincipalId(principal))
    return no_content()


@router.get("/keys", response_model=list[ManagedKeyDetail])
async def list_keys(context_id: str, call: AdminCall) -> Response:
    """All keys of a context, by name."""
    found = await keys.list_for(call.rt, await call.rt.context(context_id), call.caller)
    return _array([ManagedKeyDetail.of(key) for key in found])


@router.delete("/keys/{name:segment}", status_code=204)
async def delete_key(context_id: str, name: str, call: AdminCall) -> Response:
    """Revoke a key."""
    await keys.delete_for(call.rt, await call.rt.context(context_id), call.caller, name)
    return no_content()


@router.post("/keys/{name:segment}/rotate", response_model=ManagedMintedKey)
async def rotate_key(context_id: str, name: str, call: AdminCall, ttl: Ttl) -> Response:
    """Give a key a new secret."""
    context = await call.rt.context(context_id)
    minted = await keys.rotate_for(call.rt, context, call.caller, name, ttl_s=ttl.ttl_seconds)
    return reply(ManagedMintedKey.of(minted))


@router.post("/access-tokens", status_code=201, response_model=AccessTokenOut)
async def access_token(
    context_id: str, call: AdminCall, body: Annotated[AccessTokenIn, Depends(JsonBody(AccessTokenIn))]
) -> Response:
    """A short-lived key for the principal with this external id, made when it is new."""
    context = await call.rt.context(context_id)
    minted = await keys.access_token(call.rt, context, call.caller, body.to_core())
    return reply(AccessTokenOut.of(minted), 201)
