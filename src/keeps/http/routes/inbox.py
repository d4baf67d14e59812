"""What waits for a person, what they decide, and what they take out of history."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from keeps.http.body import JsonBody
from keeps.http.deps import DataCall, reply
from keeps.http.params import QueryOf
from keeps.http.shell import PENDING_HEADER
from keeps.services import inbox, promote, reconsider
from keeps.wire.inbox import (
    DecidedOut,
    DecideIn,
    InboxOut,
    InboxQuery,
    PromotedOut,
    PromoteIn,
    ReconsideredOut,
    ReconsiderIn,
    SettledOut,
    WebhookOut,
)

router = APIRouter(prefix="/api/v1/{context:segment}", tags=["inbox"])


@router.get("/inbox", response_model=InboxOut)
async def list_inbox(call: DataCall, query: Annotated[InboxQuery, Depends(QueryOf(InboxQuery))]) -> Response:
    """What waits for you, newest first, each thing once; how much; and what became of what each agent proposed."""
    request = call.cursors.request(query, route="inbox")
    found = await inbox.list_inbox(call.rt, call.context, call.caller, request, held=query.held)
    return reply(InboxOut.of(found, call.cursors.meta(found.page, query, route="inbox")))


@router.get("/inbox/webhook", response_model=WebhookOut)
async def get_webhook(call: DataCall) -> Response:
    """What messages about proposals are signed with, for an admin."""
    return reply(WebhookOut(key=inbox.webhook_key(call.context, call.caller)))


@router.post("/inbox/decide", response_model=DecidedOut)
async def decide(call: DataCall, body: Annotated[DecideIn, Depends(JsonBody(DecideIn))]) -> Response:
    """Decide about several things that wait, each by itself: one that cannot be done keeps no other from it."""
    settled = await inbox.decide(call.rt, call.context, call.caller, body.to_core())
    waiting = await inbox.count(call.context, call.caller)
    out = DecidedOut(decided=[SettledOut.of(each) for each in settled], waiting=waiting)
    return reply(out, headers={PENDING_HEADER: str(waiting)} if waiting else None)


@router.post("/inbox/reconsider", response_model=ReconsideredOut)
async def reconsider_kept(call: DataCall, body: Annotated[ReconsiderIn, Depends(JsonBody(ReconsiderIn))]) -> Response:
    """Put up to 100 memories that the policy in force would not keep unasked among what waits."""
    return await call.once(
        lambda: reconsider.reconsider(call.rt, call.context, call.caller, dry_run=body.dry_run),
        lambda moved: ReconsideredOut(moved=moved).to_json().decode(),
        rows=lambda _: (),
    )


@router.post("/promote", status_code=201, response_model=PromotedOut)
async def promote_sentence(call: DataCall, body: Annotated[PromoteIn, Depends(JsonBody(PromoteIn))]) -> Response:
    """Remember a sentence of what was said. Only the person it belongs to does that."""
    return await call.once(
        lambda: promote.promote(call.rt, call.context, call.caller, body.to_core()),
        lambda done: PromotedOut.of(done).to_json().decode(),
        status=201,
        rows=lambda done: (done.ref,),
    )
