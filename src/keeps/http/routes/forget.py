"""Forgetting by words or ids."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from keeps.http.body import JsonBody
from keeps.http.deps import DataCall, reply
from keeps.services import erase
from keeps.services.erase import Forgotten
from keeps.wire.forget import ForgetIn, ForgetOut

router = APIRouter(prefix="/api/v1/{context:segment}", tags=["forget"])


@router.post("/forget", response_model=ForgetOut)
async def post_forget(call: DataCall, body: Annotated[ForgetIn, Depends(JsonBody(ForgetIn))]) -> Response:
    """Retire what the words equal or a reference names, or erase it with `purge`; `dryRun` only tells."""

    async def act() -> Forgotten:
        return await erase.forget(call.rt, call.context, call.caller, body.to_core())

    if body.dry_run:
        return reply(ForgetOut.of(await act(), body))
    return await call.once(act, lambda gone: ForgetOut.of(gone, body).to_json().decode(), rows=lambda _: ())
