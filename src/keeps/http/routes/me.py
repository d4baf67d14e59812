"""Who is calling."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from keeps.http.deps import DataCall, reply
from keeps.wire.principals import MeOut

router = APIRouter(prefix="/api/v1/{context:segment}", tags=["principals"])


@router.get("/me", response_model=MeOut)
async def get_me(call: DataCall) -> Response:
    """The caller's principal and what its key may do where."""
    return reply(MeOut.of(call.caller))
