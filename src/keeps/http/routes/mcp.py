"""The door for the Model Context Protocol: who knocks is known, and the message is whole, before it is handed on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from keeps.core.access import refused
from keeps.core.errors import Forbidden
from keeps.http.body import check_shape, read_bytes
from keeps.http.deps import bearer, no_content, on_behalf_of
from keeps.http.shell import LOOPBACK_NAMES, ShellSettings, asked_from_inside
from keeps.services import access
from keeps.services.runtime import Runtime
from keeps.wire.base import bare_id

MCP_PATH: Final = "/mcp"
CONTEXT_HEADERS: Final = ("X-Memory-Context", "X-Spectron-Context", "X-Agent-Memory-Context")
"""Where a client may say which context it means; the key decides, and another one is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """Who sent a message: a good key, its context, whom it acts for; and the application to ask on their behalf."""

    key: str
    context: str
    on_behalf_of: str | None
    app: ASGIApp


Speaker = Callable[[Asker], Awaitable[ASGIApp]]
"""Gives what answers one message of an asker."""


def router(speaker: Speaker) -> APIRouter:
    """The route; what stands behind it is `speaker`."""
    routes = APIRouter(include_in_schema=False)

    @routes.post(MCP_PATH)
    async def _post(request: Request) -> Response:
        asker = await _asker(request)
        body = await read_bytes(request, limit_bytes=request.app.state.settings.max_body_bytes)
        check_shape(body)
        return _Handed(await speaker(asker), body)

    @routes.delete(MCP_PATH)
    async def _delete(request: Request) -> Response:
        await _asker(request)
        return no_content()  # there are no sessions to end

    return routes


async def _asker(request: Request) -> Asker:
    """Raises: Unauthenticated for any key but one of a context; Forbidden for a page of another site; Invalid."""
    _check_origin(request)
    rt: Runtime = request.app.state.rt
    secret = bearer(request)
    context = await access.context_of(rt, secret)
    named = {bare_id(value.strip(), "context") for name in CONTEXT_HEADERS for value in request.headers.getlist(name)}
    if secret is None or context is None or not named <= {context}:
        raise refused()
    target = on_behalf_of(request)
    await access.authenticate(rt, context, secret, target)
    return Asker(key=secret, context=context, on_behalf_of=target, app=asked_from_inside(request.app))


def _check_origin(request: Request) -> None:
    """A browser says which page asks. Raises: Forbidden unless that is one of this machine, or allowed by name."""
    origin = request.headers.get("origin")
    if origin is None:
        return
    settings: ShellSettings = request.app.state.settings
    try:
        host = urlsplit(origin).hostname
    except ValueError:
        host = None
    if origin not in settings.cors_origins and host not in LOOPBACK_NAMES | (settings.allowed_hosts or frozenset()):
        raise Forbidden("pages of this origin may not ask here: name it in KEEPS_CORS_ORIGINS")


class _Handed(Response):
    """The reply another application gives to a request whose body is here already."""

    def __init__(self, app: ASGIApp, body: bytes) -> None:
        super().__init__()
        self._app = app
        self._given: Message | None = {"type": "http.request", "body": body, "more_body": False}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def again() -> Message:
            given, self._given = self._given, None
            return await receive() if given is None else given

        await self._app(scope, again, send)
