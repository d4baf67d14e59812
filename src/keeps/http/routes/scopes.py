"""The tree of scopes, and erasing all that belongs to one."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from keeps.core.scopes import parse_path
from keeps.http.body import JsonBody
from keeps.http.deps import DataCall, no_content
from keeps.http.envelope import listed
from keeps.http.params import QueryOf
from keeps.services import erase, scopes
from keeps.wire.scopes import (
    ScopeForgetIn,
    ScopeForgetOut,
    ScopeIn,
    ScopeListOut,
    ScopeNode,
    ScopePathQuery,
    ScopesQuery,
)

router = APIRouter(prefix="/api/v1/{context:segment}/scopes", tags=["scopes"])


@router.get("", response_model=ScopeListOut)
async def list_scopes(
    request: Request, call: DataCall, query: Annotated[ScopesQuery, Depends(QueryOf(ScopesQuery))]
) -> Response:
    """The nodes the caller may know of, removed ones too. Older clients get a bare array."""
    page = await scopes.list_page(call.rt, call.context, call.caller, call.cursors.request(query, route="scopes"))
    meta = call.cursors.meta(page, query, route="scopes")
    return listed(request, ScopeListOut(scopes=[ScopeNode.of(node) for node in page.rows], page=meta))


@router.post("", status_code=201, response_model=ScopeNode)
async def register_scope(call: DataCall, body: Annotated[ScopeIn, Depends(JsonBody(ScopeIn))]) -> Response:
    """Register a node and those above it; one that is there is given back."""
    return await call.once(
        lambda: scopes.register(call.rt, call.context, call.caller, body.to_core()),
        lambda node: ScopeNode.of(node).to_json().decode(),
        status=201,
    )


@router.delete("", status_code=204)
async def remove_scope(call: DataCall, query: Annotated[ScopePathQuery, Depends(QueryOf(ScopePathQuery))]) -> Response:
    """Take a node out of use; its rows stay readable."""
    await scopes.tombstone(call.rt, call.context, call.caller, parse_path(query.path))
    return no_content()


@router.post("/forget", response_model=ScopeForgetOut)
async def forget_scope(call: DataCall, body: Annotated[ScopeForgetIn, Depends(JsonBody(ScopeForgetIn))]) -> Response:
    """Erase all that belongs to a node and those below; what has other owners stays with them."""
    return await call.once(
        lambda: erase.forget_scope(call.rt, call.context, call.caller, body.path),
        lambda gone: ScopeForgetOut.of(gone).to_json().decode(),
        rows=lambda _: (),
    )
