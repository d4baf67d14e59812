"""Management of contexts, and the verbs that grants are made of."""

from __future__ import annotations

import json
from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from keeps.core.access import VERB_DESCRIPTIONS
from keeps.http.body import JsonBody
from keeps.http.deps import AdminCall, no_content, reply
from keeps.services import contexts
from keeps.wire.contexts import (
    ManagedContextIn,
    ManagedContextListOut,
    ManagedContextOut,
    ManagedContextPatchIn,
    VerbOut,
)

router = APIRouter(prefix="/api/v1", tags=["management: contexts"])


@router.get("/verbs", response_model=list[VerbOut])
async def list_verbs(call: AdminCall) -> Response:
    """Every verb a grant may hold."""
    verbs = [{"verb": verb.value, "description": text} for verb, text in VERB_DESCRIPTIONS.items()]
    return Response(json.dumps(verbs), media_type="application/json")


@router.get("/contexts", response_model=ManagedContextListOut)
async def list_contexts(call: AdminCall) -> Response:
    """All contexts, in order of their ids."""
    rows = await contexts.list_all(call.rt)
    return reply(ManagedContextListOut(contexts=[ManagedContextOut.of(row) for row in rows]))


@router.post("/contexts/{context_id:segment}", status_code=201, response_model=ManagedContextOut)
async def create_context(
    context_id: str,
    call: AdminCall,
    body: Annotated[ManagedContextIn, Depends(JsonBody(ManagedContextIn))],
) -> Response:
    """Make a context with its reserved principals, and no keys."""
    return reply(ManagedContextOut.of(await contexts.create(call.rt, body.to_core(context_id))), 201)


@router.get("/contexts/{context_id:segment}", response_model=ManagedContextOut)
async def get_context(context_id: str, call: AdminCall) -> Response:
    """A context with the configuration that holds in it."""
    return reply(ManagedContextOut.of(await contexts.get(call.rt, context_id)))


@router.patch("/contexts/{context_id:segment}", response_model=ManagedContextOut)
async def change_context(
    context_id: str,
    call: AdminCall,
    body: Annotated[ManagedContextPatchIn, Depends(JsonBody(ManagedContextPatchIn))],
) -> Response:
    """Change a context; its configuration is laid over what is there."""
    return reply(ManagedContextOut.of(await contexts.patch(call.rt, context_id, body.to_core(), by=call.caller)))


@router.delete("/contexts/{context_id:segment}", status_code=204)
async def delete_context(context_id: str, call: AdminCall) -> Response:
    """Remove a context with everything in it."""
    await contexts.delete(call.rt, context_id)
    return no_content()
