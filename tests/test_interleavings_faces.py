"""Random work of many owners through every face: HTTP by the client, and the tools of the protocol."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from keeps.client import Client
from keeps.config import Config
from keeps.core.errors import NotFound
from keeps.memory import Memory
from tests.services.interleaving import KEYS_OF, Reader, Work, scopes_of

pytestmark = pytest.mark.slow

STEPS = 600
CALLS = 200
HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


@dataclass(frozen=True, slots=True)
class Faced(Reader):
    """One key with a client, and with what speaks the protocol of tools."""

    tools: httpx.AsyncClient


@pytest_asyncio.fixture
async def readers(tmp_path: Path) -> AsyncIterator[list[Faced]]:
    """A key for each of the owners, each with a client over a socket."""
    async with AsyncExitStack() as held:
        memory = await held.enter_async_context(
            Memory.open(tmp_path / "memory", saved_key="owner", config=Config(embedder="fake"))
        )
        readers: list[Faced] = []
        for number, patterns in enumerate(KEYS_OF):
            verbs = ("memory:read", "memory:write", "memory:forget")
            minted = await memory.keys.create(f"k{number}", grants=dict.fromkeys(verbs, patterns))
            client = Client(memory.endpoint, key=minted.key, context=memory.context_id)
            headers = {**HEADERS, "Authorization": f"Bearer {minted.key}"}
            tools = httpx.AsyncClient(base_url=memory.endpoint, headers=headers, trust_env=False, timeout=60)
            await held.enter_async_context(client)
            readers.append(Faced(patterns, client, await held.enter_async_context(tools)))
        yield readers


async def test_nothing_of_others_comes_back_by_http_and_by_tools(readers: list[Faced]) -> None:
    work = Work(random.Random(7), readers)
    await work.steps(STEPS)
    assert work.seen["recall hybrid"]
    assert work.seen["inspect"]
    for _ in range(CALLS):
        reader = work.chance.choice(readers)
        tool, arguments = _call(work)
        told = await _tool(reader, tool, **arguments)
        work.check(reader, f"tool {tool}", told)
    assert work.seen["tool recall"]
    assert work.seen["tool context"]
    assert work.seen["tool inspect"]


def _call(work: Work) -> tuple[str, dict[str, Any]]:
    match work.chance.randrange(4):
        case 0:
            return "inspect", {"ref": work.chance.choice(work.refs)[0]}
        case 1:
            return "context", {"query": work.chance.choice(work.texts)[0], "k": 20}
        case 2:
            return "forget", {"query": work.chance.choice(work.texts)[0], "dry_run": True}
        case _:
            return "recall", {"query": work.chance.choice(work.texts)[0], "k": 50}


async def _tool(reader: Faced, tool: str, **arguments: Any) -> str:
    """What a call gives a model and a program. Which words and ids were asked for is not an answer."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    reply = await reader.tools.post("/mcp", json=message)
    assert reply.status_code == 200, reply.text
    result = reply.json()["result"]
    if result["isError"]:
        return ""
    told = str(result)
    return told.replace(arguments.get("query") or arguments["ref"], "…") if tool == "forget" else told


async def test_names_that_look_alike_are_kept_apart(readers: list[Faced]) -> None:
    """Each owner says the same; each finds their own only, by every way of naming it."""
    for mark, reader in enumerate(readers[:8]):
        done = await reader.door.remember(
            f"The ferry zz{mark:02}qq leaves at nine", infer="none", scopes=scopes_of(mark)
        )
        for other in readers[:8]:
            if other is reader:
                assert (await other.door.inspect(f"turn:{done.turn_id}")).turn.content.startswith("The ferry")
                continue
            with pytest.raises(NotFound):
                await other.door.inspect(f"turn:{done.turn_id}")
    for mark, reader in enumerate(readers[:8]):
        found = await reader.door.recall("When does the ferry leave?", k=50)
        assert [hit.text for hit in found.hits] == [f"The ferry zz{mark:02}qq leaves at nine"]
        for other in range(8):
            lens = scopes_of(other)
            found = await reader.door.recall("When does the ferry leave?", k=50, lens=lens)
            assert len(found.hits) == (other == mark)
