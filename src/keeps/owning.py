"""Owning a data folder: the record opened, and the application over it on a socket of this process.

`keeps.memory` loads this when it finds a folder free. Whoever only joins an owner never pays for the server's half.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import secrets
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass
from importlib.metadata import version
from types import ModuleType
from typing import Final

import httpx
from fastapi import FastAPI
from starlette.types import ASGIApp

from keeps.client import Client
from keeps.config import DEFAULT_HOST, Config
from keeps.http.app import create_app
from keeps.http.listen import listening
from keeps.http.routes import local, mcp
from keeps.http.routes.mcp import Asker, Speaker
from keeps.services import contexts, upkeep
from keeps.services.contexts import Bootstrapped
from keeps.services.runtime import Runtime, open_runtime
from keeps.store.owner import FolderLock, Owner

_LOOKED_AT_FIRST: Final = 64
"""How many contexts are opened before the first answer; each takes a tenth of a second. Others open when asked for."""

_MCP_HALF: Final = "keeps.mcp.http"
"""Loaded by the first message: half a second that nobody else has to wait for."""

_IN_PROCESS: Final = "http://127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """A data folder this process owns and serves. `minted`: the keys made because it was empty."""

    rt: Runtime
    app: FastAPI
    endpoint: str
    minted: Bootstrapped | None


@asynccontextmanager
async def owning(
    config: Config,
    *,
    host: str = DEFAULT_HOST,
    port: int = 0,
    context: str | None,
    warm: bool = False,
    lock: FolderLock | None = None,
) -> AsyncGenerator[Owned]:
    """The data folder of `config`, owned and served until the block ends; an empty one gets `context`, if any.
    `warm`: load what makes vectors now, and not when it is first needed. `lock`: that of the folder, held already.

    Raises: StoreRefused: another process owns the folder, or it cannot be used as it is. Conflict: the port is taken.
    """
    if config.data is None:
        raise ValueError("only a folder can be owned")
    with FolderLock(config.data) if lock is None else nullcontext(lock) as lock:
        async with AsyncExitStack() as held:
            rt = await held.enter_async_context(open_runtime(config))
            minted = None
            if context is not None and not await contexts.list_all(rt):
                minted = await contexts.bootstrap(rt, context)
            for row in (await contexts.list_all(rt))[:_LOOKED_AT_FIRST]:
                await rt.context(row.id)  # a record that lost rows is refused here, not at somebody's first request
            await held.enter_async_context(upkeep.kept_up(rt))
            if warm:
                await held.enter_async_context(upkeep.warmed(rt))
            app, token = create_app(rt, host=host), secrets.token_urlsafe(32)
            app.include_router(local.router(token))
            app.include_router(mcp.router(speaking()))
            endpoint = await held.enter_async_context(listening(app, host=host, port=port))
            lock.publish(
                Owner(
                    endpoint=endpoint,
                    token=token,
                    pid=os.getpid(),
                    started_at=rt.clock(),
                    version=version("keeps"),
                )
            )
            yield Owned(rt=rt, app=app, endpoint=endpoint, minted=minted)


def speaking() -> Speaker:
    """Answers messages of the Model Context Protocol: the tools, over a client of this application."""
    half: ModuleType | None = None

    async def speak(asker: Asker) -> ASGIApp:
        nonlocal half
        if half is None:
            half = await asyncio.to_thread(importlib.import_module, _MCP_HALF)
        inside = httpx.ASGITransport(asker.app, raise_app_exceptions=False)
        memory = Client(
            _IN_PROCESS, key=asker.key, context=asker.context, on_behalf_of=asker.on_behalf_of, transport=inside
        )
        return half.answering(memory)

    return speak
