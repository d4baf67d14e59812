"""Sessions and their turns."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Depends
from starlette.responses import Response

from keeps.core.replies import ReplyKey
from keeps.http.body import JsonBody
from keeps.http.deps import DataCall, no_content, reply
from keeps.http.params import QueryOf
from keeps.services import erase, sessions
from keeps.services.remember import Remembered, remember
from keeps.wire.base import bare_id
from keeps.wire.facts import FactsOut
from keeps.wire.sessions import (
    SessionContextIn,
    SessionContextOut,
    SessionIn,
    SessionListOut,
    SessionOut,
    SessionsQuery,
    TurnIn,
    TurnListOut,
    TurnOut,
    TurnsQuery,
)

router = APIRouter(prefix="/api/v1/{context:segment}/sessions", tags=["sessions"])
_TURNS: Final = "sessions/turns"


def _id(session: str) -> str:
    return bare_id(session, "session") or session


@router.post("", status_code=201, response_model=SessionOut)
async def create_session(call: DataCall, body: Annotated[SessionIn, Depends(JsonBody(SessionIn))]) -> Response:
    """Begin a session."""
    return await call.once(
        lambda: sessions.create(call.rt, call.context, call.caller, body.to_core()),
        lambda view: SessionOut.of(view).to_json().decode(),
        status=201,
        rows=lambda view: (f"session:{view.session.id}",),
    )


@router.get("", response_model=SessionListOut)
async def list_sessions(call: DataCall, query: Annotated[SessionsQuery, Depends(QueryOf(SessionsQuery))]) -> Response:
    """Sessions the caller may see, newest first."""
    page = await sessions.list_all(call.context, call.caller, call.cursors.request(query, route="sessions"))
    meta = call.cursors.meta(page, query, route="sessions")
    return reply(SessionListOut(sessions=[SessionOut.of(row) for row in page.rows], page=meta))


@router.get("/{session:segment}", response_model=SessionOut)
async def get_session(session: str, call: DataCall) -> Response:
    """One session."""
    return reply(SessionOut.of(await sessions.get(call.context, call.caller, _id(session))))


@router.delete("/{session:segment}", status_code=204)
async def delete_session(session: str, call: DataCall) -> Response:
    """Erase a session with its turns; facts drawn from them stay."""
    await erase.delete_session(call.rt, call.context, call.caller, _id(session))
    return no_content()


@router.post("/{session:segment}/context", response_model=SessionContextOut)
async def session_context(
    session: str, call: DataCall, body: Annotated[SessionContextIn, Depends(JsonBody(SessionContextIn))]
) -> Response:
    """What answers the question within the session's scope, and its latest turns."""
    block = await sessions.block(call.rt, call.context, call.caller, _id(session), body.to_core())
    return reply(SessionContextOut(context=block))


@router.get("/{session:segment}/context", response_model=SessionContextOut, include_in_schema=False)
async def session_context_by_query(
    session: str, call: DataCall, query: Annotated[SessionContextIn, Depends(QueryOf(SessionContextIn))]
) -> Response:
    """The same for clients that ask with a GET."""
    block = await sessions.block(call.rt, call.context, call.caller, _id(session), query.to_core())
    return reply(SessionContextOut(context=block))


@router.get("/{session:segment}/turns", response_model=TurnListOut)
async def list_turns(
    session: str, call: DataCall, query: Annotated[TurnsQuery, Depends(QueryOf(TurnsQuery))]
) -> Response:
    """What was said in a session, oldest first."""
    route = f"{_TURNS}/{_id(session)}"
    page = await sessions.turns(call.context, call.caller, _id(session), call.cursors.request(query, route=route))
    meta = call.cursors.meta(page, query, route=route)
    return reply(TurnListOut(turns=[TurnOut.of(turn) for turn in page.rows], page=meta))


@router.post("/{session:segment}/turns", response_model=FactsOut)
async def add_turn(session: str, call: DataCall, body: Annotated[TurnIn, Depends(JsonBody(TurnIn))]) -> Response:
    """Add one message to a session."""

    async def act(key: ReplyKey | None) -> Remembered:
        request = body.facts(_id(session)).to_core(
            now=call.rt.clock(), lenient=call.rt.config.lenient_categories, reply=key
        )
        return await remember(call.rt, call.context, call.caller, request)

    return await call.keyed(act, lambda done: FactsOut.of(done).to_json().decode())
