"""A person's own controls: pauses, rules, and what each agent may do with their memory."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from keeps.http.body import JsonBody
from keeps.http.deps import Call, DataCall, reply
from keeps.http.revisions import expected_revision, tagged
from keeps.services import controls
from keeps.wire.controls import AppOut, AppsIn, AppsOut, PausesIn, PausesOut, RulesIn, RulesOut

router = APIRouter(prefix="/api/v1/{context:segment}/me", tags=["controls"])


@router.get("/controls", response_model=PausesOut)
async def get_controls(call: DataCall) -> Response:
    """The pauses that hold for your memory."""
    found = await controls.get(call.rt, call.context, call.caller)
    return reply(PausesOut.of(found), headers=tagged(found.rev))


@router.put("/controls", response_model=PausesOut)
async def set_controls(
    request: Request, call: DataCall, body: Annotated[PausesIn, Depends(JsonBody(PausesIn))]
) -> Response:
    """Pause saving, use, or both; needs `If-Match`. What is said meanwhile is dropped, not kept for later."""
    pauses = [pause.to_core() for pause in body.pauses]
    found = await controls.set_pauses(call.rt, call.context, call.caller, pauses, expected_revision(request))
    return reply(PausesOut.of(found), headers=tagged(found.rev))


@router.get("/rules", response_model=RulesOut)
async def get_rules(call: DataCall) -> Response:
    """What may be kept about you, and what may not."""
    found = await controls.get(call.rt, call.context, call.caller)
    return reply(RulesOut.of(found), headers=tagged(found.rev))


@router.put("/rules", response_model=RulesOut)
async def set_rules(request: Request, call: DataCall, body: Annotated[RulesIn, Depends(JsonBody(RulesIn))]) -> Response:
    """Block topics in your own words, agree to sensitive ones, let agents find past conversations; needs `If-Match`."""
    found = await controls.set_rules(call.rt, call.context, call.caller, body.to_core(), expected_revision(request))
    return reply(RulesOut.of(found), headers=tagged(found.rev))


@router.get("/apps", response_model=AppsOut)
async def get_apps(call: DataCall) -> Response:
    """The agents that reach your memory, and what each may do."""
    return await _apps(call)


@router.put("/apps", response_model=AppsOut)
async def set_apps(request: Request, call: DataCall, body: Annotated[AppsIn, Depends(JsonBody(AppsIn))]) -> Response:
    """Say what agents may do; needs `If-Match`."""
    await controls.set_apps(call.rt, call.context, call.caller, body.to_core(), expected_revision(request))
    return await _apps(call)


async def _apps(call: Call) -> Response:
    found = await controls.get(call.rt, call.context, call.caller)
    agents = await controls.agents(call.rt, call.context, call.caller)
    return reply(AppsOut(rev=found.rev, apps=list(map(AppOut.of, agents))), headers=tagged(found.rev))
