"""The settings of a context, for its owners and admins; and how they want single agents to behave."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from keeps.core.access import PrincipalId
from keeps.core.errors import Invalid
from keeps.http.body import JsonBody
from keeps.http.deps import DataCall, no_content, reply
from keeps.http.params import QueryOf
from keeps.http.revisions import expected_revision, tagged
from keeps.services import procedures, settings
from keeps.wire.base import bare_id
from keeps.wire.controls import ProcedureIn, ProcedureOut, ProceduresOut
from keeps.wire.settings import (
    KillIn,
    ReasonIn,
    SettingsChangedOut,
    SettingsHistoryOut,
    SettingsHistoryQuery,
    SettingsIn,
    SettingsOut,
    SettingsQuery,
    SettingsVersion,
)

router = APIRouter(prefix="/api/v1/{context:segment}", tags=["settings"])


@router.get("/settings", response_model=SettingsOut)
async def get_settings(call: DataCall) -> Response:
    """What holds, with the version that a change has to name."""
    current = await settings.get(call.rt, call.context, call.caller)
    return reply(SettingsOut.of(current), headers=tagged(current.version))


@router.patch("/settings", response_model=SettingsChangedOut)
async def change_settings(
    request: Request,
    call: DataCall,
    body: Annotated[SettingsIn, Depends(JsonBody(SettingsIn))],
    query: Annotated[SettingsQuery, Depends(QueryOf(SettingsQuery))],
) -> Response:
    """Change some settings, now and without a restart; a null takes one back. Needs `If-Match`."""
    change = body.to_core(expected=expected_revision(request), dry_run=query.dry_run)
    changed = await settings.patch(call.rt, call.context, call.caller, change)
    return reply(SettingsChangedOut.of(changed), headers=tagged(changed.version))


@router.get("/settings/history", response_model=SettingsHistoryOut)
async def settings_history(
    call: DataCall, query: Annotated[SettingsHistoryQuery, Depends(QueryOf(SettingsHistoryQuery))]
) -> Response:
    """Every version, the newest first."""
    wanted = call.cursors.request(query, route="settings")
    page = await settings.history(call.rt, call.context, call.caller, wanted)
    meta = call.cursors.meta(page, query, route="settings")
    return reply(SettingsHistoryOut(versions=list(map(SettingsVersion.of, page.rows)), page=meta))


@router.post("/settings/revert/{version:segment}", response_model=SettingsChangedOut)
async def revert_settings(
    version: str, request: Request, call: DataCall, body: Annotated[ReasonIn, Depends(JsonBody(ReasonIn))]
) -> Response:
    """Let what held in a version hold again, as a new version. Needs `If-Match`."""
    if not version.isascii() or not version.isdecimal() or len(version) > 15:
        raise Invalid("a version is a whole number")
    changed = await settings.revert(
        call.rt, call.context, call.caller, int(version), expected=expected_revision(request), reason=body.reason
    )
    return reply(SettingsChangedOut.of(changed), headers=tagged(changed.version))


@router.post("/settings/kill", response_model=SettingsChangedOut)
async def kill(call: DataCall, body: Annotated[KillIn, Depends(JsonBody(KillIn))]) -> Response:
    """Stop the use of memory, saving, or both, at once; or let it go on."""
    changed = await settings.kill(call.rt, call.context, call.caller, body.to_core(), body.reason)
    return reply(SettingsChangedOut.of(changed), headers=tagged(changed.version))


def _agent(principal: str) -> PrincipalId:
    return PrincipalId(bare_id(principal, "principal") or principal)


@router.get("/agents/{principal:segment}/instructions", response_model=ProceduresOut)
async def get_instructions(principal: str, call: DataCall) -> Response:
    """How an agent was told to behave, now and before; for admins and the agent itself."""
    return reply(ProceduresOut.of(await procedures.get(call.rt, call.context, call.caller, _agent(principal))))


@router.put("/agents/{principal:segment}/instructions", response_model=ProcedureOut)
async def set_instructions(
    principal: str, call: DataCall, body: Annotated[ProcedureIn, Depends(JsonBody(ProcedureIn))]
) -> Response:
    """Tell an agent how to behave from now on."""
    made = await procedures.put(call.rt, call.context, call.caller, _agent(principal), body.text)
    return reply(ProcedureOut.of(made))


@router.delete("/agents/{principal:segment}/instructions", status_code=204)
async def delete_instructions(principal: str, call: DataCall) -> Response:
    """Take back what an agent was told."""
    await procedures.delete(call.rt, call.context, call.caller, _agent(principal))
    return no_content()
