"""The application on a socket of this process, in the event loop of whoever starts it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, Generator
from typing import Final

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from keeps.config import DEFAULT_HOST
from keeps.core.errors import Conflict
from keeps.http.shell import MAX_HEAD_BYTES

ANY_ADDRESS: Final = frozenset({"0.0.0.0", "::", ""})
DRAIN_S: Final = 5
"""How long requests that run may take to end when the server stops, seconds."""

_BACKLOG: Final = 1024


class _Server(uvicorn.Server):
    """A server that leaves signals to the program it runs in."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


class BoundedHead(HttpToolsProtocol):
    """HTTP/1.1 that reads no more headers of a request, or trailers of a body, than the shell takes, then closes.

    What arrives in one read is looked at afterwards: up to 256 KiB more than the bound are held.
    """

    _head_bytes = 0
    """Bytes read since something other than a header was: the parser holds them until the header is whole."""

    def on_headers_complete(self) -> None:
        self._head_bytes = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._head_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._head_bytes = 0
        super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response(f"the headers of a request may take at most {MAX_HEAD_BYTES} bytes")


@contextlib.asynccontextmanager
async def listening(app: ASGIApp, *, host: str = DEFAULT_HOST, port: int = 0) -> AsyncGenerator[str]:
    """The endpoint under which this machine reaches `app`, answering until the block ends; port 0 takes a free one.

    Raises: Conflict when the address cannot be taken.
    """
    with _bound(host, port) as listener:
        server = _Server(
            uvicorn.Config(
                app,
                http=BoundedHead,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                backlog=_BACKLOG,
                timeout_graceful_shutdown=DRAIN_S,
            )
        )
        running = asyncio.create_task(server.serve(sockets=[listener]), name="keeps-http")
        try:
            yield endpoint_of(host, listener.getsockname()[1])
        finally:
            server.should_exit = True
            await running


def endpoint_of(host: str, port: int) -> str:
    """Where a server bound to `host` is reached from this machine."""
    if host in ANY_ADDRESS:
        host = DEFAULT_HOST
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else "no such port"
        raise Conflict(f"{host} port {port} cannot be listened on ({why}): choose another with --port") from error
    # asyncio sends at once, without waiting for more to send, only on sockets that name their protocol; otherwise
    # the body of a reply waits 40 ms for the client to acknowledge its headers.
    return socket.socket(listener.family, listener.type, socket.IPPROTO_TCP, fileno=listener.detach())
