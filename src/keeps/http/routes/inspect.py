"""Looking at one thing."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from keeps.http.deps import DataCall, reply
from keeps.http.params import QueryOf
from keeps.services.inspect import inspect
from keeps.wire.inspect import InspectOut, InspectQuery

router = APIRouter(prefix="/api/v1/{context:segment}", tags=["inspect"])


@router.get("/inspect", response_model=InspectOut)
async def get_inspect(call: DataCall, query: Annotated[InspectQuery, Depends(QueryOf(InspectQuery))]) -> Response:
    """The thing a reference names, now or at a time."""
    return reply(InspectOut.of(await inspect(call.rt, call.context, call.caller, query.to_core())))
