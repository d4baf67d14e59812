"""Memory: the library. It owns a data folder, or uses it through the process that owns it."""

from __future__ import annotations

import asyncio
import importlib
import random
import time
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self

import httpx

from keeps.client import Call, Client
from keeps.client.calls import OnPending, answer, http_client, unreachable
from keeps.config import Config
from keeps.core.errors import NotFound, Unavailable
from keeps.store import secrets as store_secrets
from keeps.store.owner import FolderInUse, FolderLock, Owner, read_owner

if TYPE_CHECKING:
    from keeps.owning import Owned

DEFAULT_FOLDER: Final = Path("memory")
DEFAULT_CONTEXT: Final = "default"
PATIENCE_S: Final = 60.0
"""How long to wait for processes that begin or end to own a folder, seconds. Several commands at once each take
their turn, and each start takes seconds of a processor."""

HEALTH_TIMEOUT_S: Final = 5.0
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 0.25
_SOON_S: Final = 5
"""A record that asks to be tried again within this many seconds is waited for."""

_SERVER_HALF: Final = "keeps.owning"
"""Loaded only when a folder is free: it brings the engine and the web framework along."""

_IN_PROCESS: Final = "http://127.0.0.1"


class Memory(Client):
    """The memory in a folder, with the verbs of `Client`. Make one with `Memory.open`.

    Many processes may have one folder open: the first owns it, the others use it through that one, and when it
    ends the next of them takes over. A call that reads, a write with an `idempotency_key`, and any call that had
    not been sent yet is carried over; another write that was under way raises `Unavailable`.
    """

    def __init__(
        self,
        folder: Path | str,
        config: Config,
        *,
        context: str,
        key: str | None,
        saved_key: Literal["agent", "owner"],
        on_pending: OnPending | None = None,
    ) -> None:
        super().__init__(_IN_PROCESS, context=context, on_pending=on_pending)
        self.folder = Path(folder).expanduser().absolute()
        self.created = False
        self._config = config.model_copy(update={"data": self.folder})
        self._key = key
        self._saved_key = saved_key
        self._owned: Owned | None = None
        self._held = AsyncExitStack()
        self._moving = asyncio.Lock()

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        folder: Path | str = DEFAULT_FOLDER,
        *,
        context: str = DEFAULT_CONTEXT,
        key: str | None = None,
        saved_key: Literal["agent", "owner"] = "agent",
        config: Config | None = None,
        on_pending: OnPending | None = None,
    ) -> AsyncGenerator[Self]:
        """The memory in `folder`, made when missing: `async with Memory.open("./memory") as memory:`.

        Without a `key` the one saved in the folder is used: that of the agent, or of the owner when `saved_key`
        says so. `on_pending` is told what waits, as by `Client`.

        Raises:
            StoreRefused: the folder cannot be used, was written by a newer version, or its record lost rows.
            NotFound: the folder has no such context.
            Unavailable: for a minute nobody who owns the folder answers, and it cannot be owned.
        """
        memory = cls(folder, config or Config(), context=context, key=key, saved_key=saved_key, on_pending=on_pending)
        try:
            await memory._move()
            yield memory
        finally:
            await memory.close()

    @property
    def owner(self) -> bool:
        """Whether this process owns the folder."""
        return self._owned is not None

    @property
    def endpoint(self) -> str:
        """Where the memory can be reached by HTTP while its owner runs."""
        return super().endpoint if self._owned is None else self._owned.endpoint

    async def close(self) -> None:
        """Let the folder go; what was acknowledged is on the disk."""
        await super().close()
        self._owned = None
        await self._held.aclose()

    async def _ask(self, call: Call) -> Any:
        self._check_open()
        until = time.monotonic() + PATIENCE_S
        while True:
            asked = self._http
            try:
                return await answer(asked, self.context_id, call, on_pending=self._on_pending)
            except httpx.ConnectError:
                # Nothing was sent: the owner ended. The next one may have ended as well by the time it is asked.
                if self._owned is not None:
                    raise
            if time.monotonic() > until:
                raise unreachable(self.endpoint)
            async with self._moving:
                if self._http is asked:
                    await self._move()

    async def _move(self) -> None:
        """Own the folder when nobody does, else go to its owner. Raises as `open`."""
        until = time.monotonic() + PATIENCE_S
        pause_s = _FIRST_PAUSE_S
        while (failure := await self._seated()) is not None:
            if time.monotonic() > until:
                raise failure
            # Those that wait for the same folder do not all come back at the same moment.
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))
            pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)

    async def _seated(self) -> Unavailable | None:
        """Own the folder, or go to its owner; why neither can be yet, None when it is done."""
        starting = Unavailable(
            f"other processes have held {self.folder} for {PATIENCE_S:.0f} s, and none says where it listens: try again"
        )
        try:
            owner = read_owner(self.folder)
        except Unavailable:
            return starting
        if owner is not None:
            gone = f"the process {owner.pid} that owns {self.folder} does not answer: stop it, or try again"
            return None if await self._attach(owner) else Unavailable(gone)
        try:
            await self._own()
        except FolderInUse:  # somebody was faster, between the look and the lock
            return starting
        except Unavailable as error:
            if error.retry_after_s is None or error.retry_after_s > _SOON_S:
                raise
            return error
        return None

    async def _own(self) -> None:
        async with AsyncExitStack() as held:
            # Before the server's half is loaded, so that of several who come at once only one loads it.
            lock = held.enter_context(FolderLock(self.folder))
            owned = await held.enter_async_context(_owning(self._config, self.context_id, lock))
            transport = httpx.ASGITransport(owned.app, raise_app_exceptions=False)
            await self._sit(http_client(_IN_PROCESS, key=self._found_key(), transport=transport), owned)
            self._held.push_async_exit(held.pop_all())
        self.created = owned.minted is not None

    async def _attach(self, owner: Owner) -> bool:
        http = http_client(owner.endpoint, key=self._found_key(), timeout_s=self._timeout_s, direct=True)
        try:
            async with asyncio.timeout(HEALTH_TIMEOUT_S):
                await answer(http, self.context_id, Call(method="GET", path="/health", rooted=True))
        except (httpx.ConnectError, Unavailable, TimeoutError):
            await http.aclose()
            return False
        await self._sit(http, None)
        return True

    async def _sit(self, http: httpx.AsyncClient, owned: Owned | None) -> None:
        before, self._http, self._owned = self._http, http, owned
        await before.aclose()

    def _found_key(self) -> str:
        """The key to use. Raises: NotFound when none was given and none is saved for the context."""
        key = self._key or store_secrets.saved_keys(self.folder, self.context_id).get(self._saved_key)
        if key is None:
            raise NotFound(
                f"{self.folder} has no saved key for a context {self.context_id}: make the context with "
                f"`keeps bootstrap --data {self.folder} --context {self.context_id}`, or give a key"
            )
        return key


def _owning(config: Config, context: str, lock: FolderLock) -> AbstractAsyncContextManager[Owned]:
    return importlib.import_module(_SERVER_HALF).owning(config, context=context, lock=lock)
