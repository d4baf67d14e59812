"""Asking the memory."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from keeps.http.body import JsonBody
from keeps.http.deps import DataCall, reply
from keeps.services import context as context_service
from keeps.wire.query import ContextIn, ContextOut, QueryIn, QueryOut

router = APIRouter(prefix="/api/v1/{context:segment}", tags=["query"])


@router.post("/query", response_model=QueryOut)
async def post_query(call: DataCall, body: Annotated[QueryIn, Depends(JsonBody(QueryIn))]) -> Response:
    """Ranked hits for a question, out of what the caller may see."""
    found = await context_service.search(call.rt, call.context, call.caller, body.asked())
    call.trace(found.trace_id)
    return reply(QueryOut.of(found))


@router.post("/context", response_model=ContextOut)
async def post_context(call: DataCall, body: Annotated[ContextIn, Depends(JsonBody(ContextIn))]) -> Response:
    """One block of text for a prompt; empty when nothing answers."""
    block = await context_service.block(call.rt, call.context, call.caller, body.asked())
    call.trace(block.recalled.trace_id)
    return reply(ContextOut.of(block))
