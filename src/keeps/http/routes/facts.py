"""Writing memories."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Annotated, Final

from fastapi import APIRouter, Depends
from starlette.responses import Response

from keeps.core.errors import Limited
from keeps.core.modes import Infer
from keeps.core.replies import ReplyKey
from keeps.http.body import JsonBody
from keeps.http.deps import Call, DataCall
from keeps.http.shell import PENDING_HEADER
from keeps.services.remember import Remember, Remembered, remember
from keeps.wire.facts import BatchIn, BatchOut, FactsIn, FactsOut

AT_ONCE: Final = 50
"""Triples that are read where they arrive. 1,000 with long texts take a third of a second."""

router = APIRouter(prefix="/api/v1/{context:segment}", tags=["facts"])


def _check_budget(call: Call, infer: Infer) -> None:
    """Raises: Limited when an operator stopped what may call a model in this context."""
    if call.context.enforcement_blocked and infer in (Infer.FULL, Infer.PREVIEW):
        raise Limited("extraction is stopped in this context: use infer none or triples, or ask its operator")


async def _read(to_core: Callable[[], Remember], triples: int) -> Remember:
    """The write a body asks for; read in a thread when it is long, so that others are answered meanwhile."""
    return to_core() if triples <= AT_ONCE else await asyncio.to_thread(to_core)


def _pending(response: Response, done: Remembered | None) -> Response:
    """The response with how many proposals this write left; of a repeat nothing is told."""
    if done is not None and done.extraction is not None and done.extraction.proposals:
        response.headers[PENDING_HEADER] = str(len(done.extraction.proposals))
    return response


@router.post("/facts", response_model=FactsOut)
async def post_facts(call: DataCall, body: Annotated[FactsIn, Depends(JsonBody(FactsIn))]) -> Response:
    """Remember a text, or facts given as triples."""
    written: Remembered | None = None

    async def act(key: ReplyKey | None) -> Remembered:
        nonlocal written
        _check_budget(call, body.infer)
        lenient = call.rt.config.lenient_categories
        request = await _read(partial(body.to_core, now=call.rt.clock(), lenient=lenient, reply=key), len(body.triples))
        written = await remember(call.rt, call.context, call.caller, request)
        return written

    response = await call.keyed(act, lambda done: FactsOut.of(done).to_json().decode())
    return _pending(response, written)


@router.post("/facts/batch", response_model=BatchOut)
async def post_batch(call: DataCall, body: Annotated[BatchIn, Depends(JsonBody(BatchIn))]) -> Response:
    """Remember the messages of a conversation, in order."""
    written: Remembered | None = None

    async def act(key: ReplyKey | None) -> Remembered:
        nonlocal written
        _check_budget(call, body.infer)
        written = await remember(call.rt, call.context, call.caller, body.to_core(reply=key))
        return written

    per_message = body.extract == "per_message"
    response = await call.keyed(act, lambda done: BatchOut.of(done, per_message=per_message).to_json().decode())
    return _pending(response, written)
