"""Keys a caller makes for itself."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from keeps.http.body import JsonBody
from keeps.http.deps import DataCall, no_content
from keeps.http.envelope import listed
from keeps.http.params import QueryOf
from keeps.services import keys
from keeps.wire.keys import KeyDetail, KeyIn, KeyListOut, KeysQuery, KeyTtlQuery, MintedKey

router = APIRouter(prefix="/api/v1/{context:segment}/keys", tags=["keys"])
Ttl = Annotated[KeyTtlQuery, Depends(QueryOf(KeyTtlQuery))]


@router.get("", response_model=KeyListOut)
async def list_keys(
    request: Request, call: DataCall, query: Annotated[KeysQuery, Depends(QueryOf(KeysQuery))]
) -> Response:
    """The caller's key, or all for who manages everything. Older clients get a bare array."""
    page = await keys.list_page(call.rt, call.context, call.caller, call.cursors.request(query, route="keys"))
    meta = call.cursors.meta(page, query, route="keys")
    return listed(request, KeyListOut(keys=[KeyDetail.of(key) for key in page.rows], page=meta))


@router.post("", status_code=201, response_model=MintedKey)
async def create_key(call: DataCall, ttl: Ttl, body: Annotated[KeyIn, Depends(JsonBody(KeyIn))]) -> Response:
    """Mint a key for the caller's principal; its secret is shown here and never again."""
    return await call.once(
        lambda: keys.create(call.rt, call.context, call.caller, body.to_core(ttl.ttl_seconds)),
        lambda key: MintedKey.of(key).to_json().decode(),
        status=201,
    )


@router.delete("/{name:segment}", status_code=204)
async def delete_key(name: str, call: DataCall) -> Response:
    """Revoke a key at once."""
    await keys.delete(call.rt, call.context, call.caller, name)
    return no_content()


@router.post("/{name:segment}/rotate", response_model=MintedKey)
async def rotate_key(name: str, call: DataCall, ttl: Ttl) -> Response:
    """Give a key a new secret; the one before is worth nothing any more."""
    return await call.once(
        lambda: keys.rotate(call.rt, call.context, call.caller, name, ttl.ttl_seconds),
        lambda key: MintedKey.of(key).to_json().decode(),
    )
