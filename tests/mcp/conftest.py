"""A folder with its owner in this process, and the official client of the protocol against it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest_asyncio
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from keeps.config import Config
from keeps.memory import Memory

TIMEOUT_S = 60.0
ENV = {
    "KEEPS_EMBEDDER": "none",
    "KEEPS_POLICY": "automatic",
    "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
}
"""The server finds the modules this process found."""


@dataclass(frozen=True, slots=True)
class Place:
    """A folder, its owner and the keys of its context."""

    memory: Memory
    agent_key: str
    owner_key: str

    @property
    def url(self) -> str:
        return f"{self.memory.endpoint}/mcp"

    def client(
        self, *, key: str | None = None, mode: str = "auto", **headers: str
    ) -> AbstractAsyncContextManager[Client]:
        """The official client over HTTP, with the agent's key unless another is given."""
        return over_http(self.url, key or self.agent_key, mode=mode, **headers)


@asynccontextmanager
async def over_http(url: str, key: str, *, mode: str = "auto", **headers: str) -> AsyncIterator[Client]:
    """The official client over HTTP. Headers are written with underscores."""
    sent = {"Authorization": f"Bearer {key}", **{name.replace("_", "-"): value for name, value in headers.items()}}
    async with httpx2.AsyncClient(headers=sent, timeout=TIMEOUT_S, trust_env=False) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=mode, read_timeout_seconds=TIMEOUT_S) as client:
            yield client


def over_stdio(folder: Path, *arguments: str, mode: str = "auto") -> Client:
    """The official client, which starts `keeps mcp` and speaks to it by its stdin and stdout."""
    command = ["-m", "keeps", "mcp", "--data", str(folder), *arguments]
    server = StdioServerParameters(command=sys.executable, args=command, env=ENV)
    return Client(server, mode=mode, read_timeout_seconds=TIMEOUT_S)


@asynccontextmanager
async def opened(folder: Path, **settings: object) -> AsyncIterator[Place]:
    """A folder owned by this process."""
    async with Memory.open(folder, config=Config(embedder="none", **settings)) as memory:  # type: ignore[arg-type]
        keys = json.loads((folder / "keys.json").read_text("utf-8"))["default"]
        yield Place(memory, keys["agent"], keys["owner"])


@pytest_asyncio.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with opened(tmp_path / "m") as place:
        yield place
