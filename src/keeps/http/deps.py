"""What a route is given: who calls, in which context, and the one way to answer a write that may be repeated."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, TypeVar

from fastapi import Depends, Request
from starlette.responses import Response

from keeps.core.access import Caller
from keeps.core.errors import Invalid, Unprocessable
from keeps.core.replies import ReplyKey
from keeps.http.idempotency import Answer, Reservations, claim_of, reply_key
from keeps.http.shell import MEMORY_OFF, SETTINGS_VERSION
from keeps.services import access, replies, settings, sight
from keeps.services.access import ManagementCaller
from keeps.services.runtime import Context, Runtime
from keeps.wire.base import WireOut, bare_id
from keeps.wire.pages import Cursors

RESERVED_CONTEXTS: Final = frozenset({"health", "contexts", "verbs", "migrations"})
DELEGATION_HEADERS: Final = (
    "X-Memory-On-Behalf-Of",
    "X-Spectron-On-Behalf-Of",
    "X-Agent-Memory-On-Behalf-Of",
)
_CONTEXT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_MAX_SECRET_CHARS: Final = 512
_JSON: Final = "application/json"

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request by a caller in a context."""

    rt: Runtime
    context: Context
    caller: Caller
    request: Request

    @property
    def cursors(self) -> Cursors:
        """Makes and reads the cursors of this server."""
        return self.request.app.state.cursors

    def trace(self, trace_id: str) -> None:
        """Name the reply after the trace this request left, instead of after the request."""
        self.request.scope["state"]["trace_id"] = trace_id

    async def once(
        self,
        act: Callable[[], Awaitable[T]],
        render: Callable[[T], str],
        *,
        status: int | Callable[[T], int] = 200,
        rows: Callable[[T], Sequence[str]] | None = None,
    ) -> Response:
        """The reply to a write that keeps no reply itself; with `rows` it is kept afterwards for a repeat.

        `rows` names the rows the reply tells of, `table:key`: erasing one of them erases the reply. Without it
        a repeat finds only a twin running now: for replies with a secret, and writes that may well run twice.
        """

        async def perform(key: ReplyKey | None) -> Answer:
            done = await act()
            answer = Answer(status if isinstance(status, int) else status(done), render(done))
            if key is not None and rows is not None:
                kept = replace(key, status=answer.status)
                await replies.save(self.rt, self.context, kept, answer.body, rows=rows(done))
            return answer

        return await self._reserved(perform, render)

    async def keyed(
        self,
        act: Callable[[ReplyKey | None], Awaitable[T]],
        render: Callable[[T], str],
        *,
        status: int = 200,
    ) -> Response:
        """The reply to a write whose service keeps the reply in its own commit, under the key `act` is given."""

        async def perform(key: ReplyKey | None) -> Answer:
            return Answer(status, render(await act(key)))

        return await self._reserved(perform, render, status=status)

    async def _reserved(
        self,
        perform: Callable[[ReplyKey | None], Awaitable[Answer]],
        render: Callable[[Any], str],
        *,
        status: int = 200,
    ) -> Response:
        """The answer of `perform`, alone under its idempotency key when the request has one."""
        caller, context = self.caller, self.context
        # A key with grants of its own must not be handed the reply, or the new secret, that a wider one was given.
        narrowed = caller.key_id if caller.key_grants is not None else None
        who = (context.id, caller.principal_id, caller.delegate, narrowed)
        claim = claim_of(self.request, self.request.scope["state"].get("body"), who)
        if claim is None:
            return (await perform(None)).response()
        key = reply_key(claim, render, now=self.rt.clock(), status=status)

        async def find(namespace: str) -> Any:
            return await replies.find(self.rt, context, namespace)

        reservations: Reservations = self.request.app.state.reservations
        return await reservations.once(claim, lambda: perform(key), find=find)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagementCall:
    """One request with a management key."""

    rt: Runtime
    caller: ManagementCaller
    request: Request


async def data_call(request: Request, context: str) -> Call:
    """The caller of a route below `/api/v1/{context}`.

    Raises: Unprocessable for what cannot be the id of a context, Unauthenticated, Invalid for delegation headers
    that differ.
    """
    if context in RESERVED_CONTEXTS or not _CONTEXT.fullmatch(context):
        raise Unprocessable("this cannot be the id of a context")
    rt: Runtime = request.app.state.rt
    session = await access.authenticate(rt, context, bearer(request), on_behalf_of(request))
    await settings.fresh(rt, session.context)
    request.scope["state"][SETTINGS_VERSION] = session.context.consent.settings.version
    request.scope["state"][MEMORY_OFF] = sight.is_off(session.context, session.caller)
    return Call(rt=rt, context=session.context, caller=session.caller, request=request)


async def management_call(request: Request) -> ManagementCall:
    """The caller of a management route. Raises: Unauthenticated, Forbidden for a key of a context."""
    rt: Runtime = request.app.state.rt
    caller = await access.authenticate_management(rt, bearer(request))
    return ManagementCall(rt=rt, caller=caller, request=request)


DataCall = Annotated[Call, Depends(data_call)]
AdminCall = Annotated[ManagementCall, Depends(management_call)]


def bearer(request: Request) -> str | None:
    """The secret in the Authorization header; None without one, and for what cannot be a key."""
    values = request.headers.getlist("authorization")
    if not values:
        return None
    scheme, _, secret = values[0].strip().partition(" ")
    secret = secret.strip()
    if len(values) > 1 or scheme.lower() != "bearer" or not secret or len(secret) > _MAX_SECRET_CHARS:
        return None  # refused like any other wrong key, in the same words
    return secret


def on_behalf_of(request: Request) -> str | None:
    """The principal this request acts for; None for the caller itself. Raises: Invalid when headers differ."""
    named = {
        bare_id(value.strip(), "principal")
        for header in DELEGATION_HEADERS
        for value in request.headers.getlist(header)
        if value.strip()
    }
    if len(named) > 1:
        raise Invalid("the headers that name whom to act for differ: send one of them")
    return next(iter(named), None)


def reply(out: WireOut, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """`out` as a JSON reply."""
    return Response(out.to_json(), status, headers, _JSON)


def no_content() -> Response:
    """The reply of a delete."""
    return Response(status_code=204)
