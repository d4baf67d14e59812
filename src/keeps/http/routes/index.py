"""The vectors of a context: how far they are, and switching them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from keeps.http.body import JsonBody
from keeps.http.deps import AdminCall, DataCall, reply
from keeps.services import index_mode
from keeps.wire.index import IndexIn, IndexOut

management = APIRouter(prefix="/api/v1/contexts/{context_id:segment}", tags=["management: contexts"])
router = APIRouter(prefix="/api/v1/{context:segment}", tags=["index"])


@management.get("/index", response_model=IndexOut)
async def get_managed_index(context_id: str, call: AdminCall) -> Response:
    """The mode of a context, and how far its vectors are."""
    return reply(IndexOut.of(await index_mode.status(call.rt, context_id)))


@router.get("/index", response_model=IndexOut)
async def get_index(call: DataCall) -> Response:
    """The mode of the context, and how far its vectors are; for who manages all of it."""
    return reply(IndexOut.of(await index_mode.seen_by(call.context, call.caller)))


@router.patch("/index", response_model=IndexOut)
async def change_index(call: DataCall, body: Annotated[IndexIn, Depends(JsonBody(IndexIn))]) -> Response:
    """Switch the mode or the embedder, now; the vectors follow in the background."""
    return reply(IndexOut.of(await index_mode.switch(call.rt, call.context, call.caller, body.to_core())))
