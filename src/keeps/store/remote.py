"""The same databases on a SurrealDB server, over `ws://` or `wss://`: one connection a database, never switched."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, LiteralString

import surrealdb
from websockets.exceptions import WebSocketException

from keeps.core.errors import StoreRefused, Unavailable
from keeps.store.address import NAMESPACE, StoreUrl, checked_name
from keeps.store.outcome import LostConflict, commits_in, error_for, failure_in, retrying, values_in

CONNECT_TIMEOUT_S: Final = 30.0

_log = logging.getLogger(__name__)

_UNREACHABLE: Final = "The database server does not answer; nothing was acknowledged, try again."
_CLOSED: Final = "The record is closed."
_SIGNED_OUT: Final = ("Anonymous access not allowed", "Specify a namespace", "Specify a database")

# What the client library raises when the connection, and not the script, is at fault.
_LOST: Final = (TimeoutError, OSError, WebSocketException, surrealdb.errors.TransportError)


class RemoteEngine:
    """Databases of one namespace on a server. Bound to the event loop that first uses it.

    The user may be one of the server, of the namespace, or of the databases: tried in this order.
    """

    def __init__(
        self, url: StoreUrl, *, namespace: str = NAMESPACE, user: str | None = None, password: str | None = None
    ) -> None:
        self._url = url
        self._namespace = checked_name(namespace)
        self._credentials = None if user is None else {"username": user, "password": password or ""}
        self._open: dict[str, RemoteDb] = {}
        self._commits = 0
        self.closed = False
        if self._credentials and url.scheme == "ws":
            _log.warning("the database password travels unencrypted over ws://; use wss:// beyond this machine")

    @property
    def commits(self) -> int:
        """Scripts with a COMMIT that succeeded since this engine was opened."""
        return self._commits

    def count(self, commits: int) -> None:
        self._commits += commits

    async def database(self, name: str) -> RemoteDb:
        """The database `name`, made when missing and the user may.

        Raises:
            StoreRefused: the server does not accept the user.
            Unavailable: it does not answer.
        """
        db = self._open.get(checked_name(name))
        if db is None:
            db = RemoteDb(self, name)
            async with db.connection(CONNECT_TIMEOUT_S) as handle:
                await handle.query_raw(
                    f"DEFINE NAMESPACE IF NOT EXISTS `{self._namespace}`; DEFINE DATABASE IF NOT EXISTS `{name}`;", {}
                )
            self._open[name] = db
        return db

    async def remove_database(self, name: str) -> None:
        """Drop the database `name`; nothing when there is none."""
        db = await self.database(name)
        async with db.connection(CONNECT_TIMEOUT_S) as handle:
            reply = await handle.query_raw(f"REMOVE DATABASE IF EXISTS `{name}`", {})
        del self._open[name]
        await db.disconnect()
        failure = failure_in(reply)
        if failure is not None:
            raise error_for(*failure)

    async def close(self) -> None:
        """Close every connection. Later calls raise `Unavailable`."""
        self.closed = True
        while self._open:
            await self._open.popitem()[1].disconnect()

    async def connect(self, database: str) -> Any:
        """A connection that is signed in and stays on `database`."""
        handle: Any = surrealdb.AsyncSurreal(str(self._url), streaming=False)
        try:
            await handle.connect()
            if self._credentials is not None:
                await self._sign_in(handle, database)
            await handle.use(self._namespace, database)
        except BaseException:
            with suppress(Exception):
                await handle.close()
            raise
        return handle

    async def _sign_in(self, handle: Any, database: str) -> None:
        place: dict[str, str] = {}
        for level in ({}, {"namespace": self._namespace}, {"database": database}):
            place |= level
            try:
                await handle.signin({**(self._credentials or {}), **place})
            except surrealdb.errors.ServerError:
                continue
            return
        raise StoreRefused("The database server does not accept this user and password: check the settings.")


class RemoteDb:
    """One database on a server, with the connection that belongs to it."""

    def __init__(self, engine: RemoteEngine, name: str) -> None:
        self.name = name
        self._engine = engine
        self._handle: Any = None
        self._connecting = asyncio.Lock()

    async def run(self, surql: LiteralString, /, *, timeout_s: float = 5.0, **params: object) -> list[Any]:
        """See `Db.run`."""
        return await retrying(surql, lambda: self._run(surql, params, timeout_s))

    async def _run(self, surql: str, params: dict[str, object], timeout_s: float) -> list[Any]:
        async with self.connection(timeout_s) as handle:
            try:
                reply = await handle.query_raw(surql, params)
            except (ValueError, OverflowError) as error:
                raise error_for("value", type(error).__name__) from None
            except TypeError as error:
                raise error_for("script", str(error)) from None
        failure = failure_in(reply)
        if failure is None:
            self._engine.count(commits_in(surql))
            return values_in(reply)
        if failure[0] == "conflict":
            raise LostConflict
        if any(sign in failure[1] for sign in _SIGNED_OUT):
            await self.disconnect()  # the library reconnects by itself, but neither signs in nor selects
            raise Unavailable(_UNREACHABLE, retry_after_s=1)
        raise error_for(*failure)

    @asynccontextmanager
    async def connection(self, timeout_s: float) -> AsyncGenerator[Any]:
        """The connection, for at most `timeout_s`. Dropped when it is lost. Raises `Unavailable`, `StoreRefused`."""
        if self._engine.closed:
            raise Unavailable(_CLOSED)
        try:
            async with asyncio.timeout(timeout_s):
                yield await self._connected()
        except _LOST:
            await self.disconnect()
            raise Unavailable(_UNREACHABLE, retry_after_s=1) from None

    async def _connected(self) -> Any:
        async with self._connecting:
            if self._handle is not None and self._handle.recv_task.done():
                await self.disconnect()
            if self._handle is None:
                self._handle = await self._engine.connect(self.name)
            return self._handle

    async def disconnect(self) -> None:
        """Let the connection go; the next call makes a new one."""
        handle, self._handle = self._handle, None
        if handle is not None:
            with suppress(*_LOST):
                await asyncio.wait_for(handle.close(), 1)
