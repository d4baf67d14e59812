"""A stand-in for a SurrealDB server: the protocol over a real socket, the engine in memory behind it.

It knows `signin`, `use` and `query`, keeps sessions apart, and refuses what an anonymous session may not do. It is no
proof of how a real server behaves under load or in a cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import surrealdb
from surrealdb.data.cbor import decode, encode
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

USER, PASSWORD = "keeper", "a very private password"


class ServerDouble:
    """What a test sees of the server, and how it makes it fail."""

    def __init__(self, *, level: dict[str, str]) -> None:
        self.level = level
        self.used: list[tuple[str, str]] = []
        self.sign_ins: list[dict[str, str]] = []
        self.fail_next: list[str] = []
        self.silent = False
        self._server: Server | None = None
        self._databases: dict[tuple[str, str], Any] = {}

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"ws://127.0.0.1:{next(iter(self._server.sockets)).getsockname()[1]}"

    @property
    def connections(self) -> int:
        assert self._server is not None
        return len(self._server.connections)

    async def drop_connections(self) -> None:
        """Cut every line, as a server that restarts does."""
        assert self._server is not None
        lines = list(self._server.connections)
        for line in lines:
            line.transport.abort()
        for line in lines:
            await line.wait_closed()

    async def start(self) -> None:
        self._server = await serve(self._talk, "127.0.0.1", 0, subprotocols=["cbor"], max_size=None)  # type: ignore[list-item]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()
        for handle in self._databases.values():
            handle.close()

    async def _talk(self, line: ServerConnection) -> None:
        session: dict[str, Any] = {"in": False, "place": None}
        try:
            async for frame in line:
                request = decode(frame)
                if self.silent and request["method"] == "query":
                    continue
                await line.send(encode({"id": request["id"], **self._answer(request, session)}))
        except ConnectionClosed:
            pass

    def _answer(self, request: dict[str, Any], session: dict[str, Any]) -> dict[str, Any]:
        method, params = request["method"], request.get("params") or []
        if method == "signin":
            self.sign_ins.append(dict(params[0]))
            wanted = {"user": USER, "pass": PASSWORD}
            given = {
                key: params[0].get(key) or params[0].get(long)
                for key, long in (("user", "username"), ("pass", "password"))
            }
            place = {
                key: params[0][key] for key in ("namespace", "database", "NS", "DB", "ns", "db") if key in params[0]
            }
            if given != wanted or len(place) != len(self.level):
                return _error("There was a problem with authentication")
            session["in"] = True
            return {"result": "a.token.x"}
        if not session["in"]:
            return _error("Anonymous access not allowed: Not enough permissions to perform this action")
        if method == "use":
            session["place"] = (params[0], params[1])
            self.used.append(session["place"])
            return {"result": None}
        if method == "query":
            if session["place"] is None:
                return _error("Specify a namespace to use")
            if self.fail_next:
                return {"result": [{"status": "ERR", "result": self.fail_next.pop(0), "time": "0ns"}]}
            reply = self._handle(session["place"]).query_raw(params[0], params[1] if len(params) > 1 else {})
            return {key: reply[key] for key in ("result", "error") if key in reply}
        return _error(f"Method not found: {method}")

    def _handle(self, place: tuple[str, str]) -> Any:
        if place not in self._databases:
            self._databases[place] = surrealdb.Surreal("mem://")
            self._databases[place].use(*place)
        return self._databases[place]


def _error(message: str) -> dict[str, Any]:
    return {"error": {"code": -32000, "message": message}}


@asynccontextmanager
async def server_double(level: dict[str, str] | None = None) -> AsyncIterator[ServerDouble]:
    """A running double whose user stands at `level`: `{}` the server, else the namespace, or the database too."""
    server = ServerDouble(level=level or {})
    await server.start()
    try:
        yield server
    finally:
        await asyncio.wait_for(server.stop(), 10)
