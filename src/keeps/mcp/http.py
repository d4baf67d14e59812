"""One HTTP request of the Model Context Protocol, answered: each stands for itself, no session is kept."""

from __future__ import annotations

import sys
from typing import Any, Final

from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import ASGIApp, Receive, Scope, Send

from keeps.client import Client
from keeps.mcp.server import Request, server_for

_MEMORY: Final = "memory"


def answering(memory: Client) -> ASGIApp:
    """The application that answers one request by asking `memory`, and closes it after."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"][_MEMORY] = memory
        # A manager keeps what sessions share. Without sessions it lives as long as its one request.
        manager = StreamableHTTPSessionManager(
            _SERVER,
            json_response=True,
            stateless=True,
            max_request_body_size=sys.maxsize,  # whoever hands the request on has read it, up to a bound of its own
        )
        async with memory, manager.run():
            await manager.handle_request(scope, receive, send)

    return answer


def _memory_of(ctx: Request) -> Client:
    assert ctx.request is not None
    memory = ctx.request.scope["state"][_MEMORY]
    assert isinstance(memory, Client)
    return memory


_SERVER: Final[Server[Any]] = server_for(_memory_of)
