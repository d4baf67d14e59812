"""Who did what in a context, for its owners and admins."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from keeps.http.deps import DataCall, reply
from keeps.http.params import QueryOf
from keeps.services import audit
from keeps.wire.audit import AuditOut, AuditQuery, AuditRow, AuditVerdictOut

router = APIRouter(prefix="/api/v1/{context:segment}/audit", tags=["audit"])


@router.get("", response_model=AuditOut)
async def list_audit(call: DataCall, query: Annotated[AuditQuery, Depends(QueryOf(AuditQuery))]) -> Response:
    """What was done and refused, the newest first. Ids and fixed words, never the text of a memory."""
    wanted = call.cursors.request(query, route="audit")
    page = await audit.list_(call.rt, call.context, call.caller, query.to_core(), wanted)
    meta = call.cursors.meta(page, query, route="audit")
    return reply(AuditOut(entries=list(map(AuditRow.of, page.rows)), page=meta))


@router.post("/verify", response_model=AuditVerdictOut)
async def verify_audit(call: DataCall) -> Response:
    """Check every entry: none was changed, none is missing, also not at the end."""
    return reply(AuditVerdictOut.of(await audit.verify(call.rt, call.context, call.caller)))
