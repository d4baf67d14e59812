"""Lines that are no proper messages: whatever comes in, the server goes on answering."""

from __future__ import annotations

import asyncio
import io
import json
import os
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keeps.client import Client
from keeps.mcp.stdio import serve

HELLO = {
    "jsonrpc": "2.0",
    "id": "hello",
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}
PING = {"jsonrpc": "2.0", "id": "still there", "method": "ping"}

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
METHODS = st.sampled_from(
    [
        "notifications/cancelled",
        "notifications/progress",
        "notifications/initialized",
        "ping",
        "initialize",
        "tools/list",
        "tools/call",
        "logging/setLevel",
    ]
)
PARAMS = VALUES | st.fixed_dictionaries(
    {},
    optional={
        "requestId": VALUES,
        "progressToken": VALUES,
        "progress": VALUES,
        "name": VALUES,
        "arguments": VALUES,
        "cursor": VALUES,
        "level": VALUES,
        "_meta": VALUES,
        "protocolVersion": VALUES,
    },
)
MESSAGES = VALUES | st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0") | VALUES},
    optional={
        "id": VALUES,
        "method": METHODS | st.text(max_size=8),
        "params": PARAMS,
        "result": VALUES,
        "error": VALUES,
    },
)


async def answers(lines: list[bytes]) -> list[Any]:
    """What the server says to these lines, then to a ping, until stdin ends."""
    reading, writing = os.pipe()
    sink = io.BytesIO()
    with os.fdopen(writing, "wb") as into, os.fdopen(reading, "rb") as source:
        sent = b"\n".join([json.dumps(HELLO).encode(), json.dumps(READY).encode(), *lines, json.dumps(PING).encode()])
        feeding = asyncio.create_task(asyncio.to_thread(_feed, into, sent + b"\n"))
        async with Client("http://127.0.0.1:9", key="x") as memory:
            await serve(memory, source, sink)
        await feeding
    return [json.loads(line) for line in sink.getvalue().splitlines()]


def _feed(into: Any, sent: bytes) -> None:
    into.write(sent)
    into.close()


@pytest.mark.parametrize("number", [["x"], {"a": 1}, [], {}, None, True, 1.5, 10**400, "\x00"])
async def test_a_cancellation_of_no_request_ends_nothing(number: Any) -> None:
    line = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}
    said = await answers([json.dumps(line).encode()])
    assert [message["id"] for message in said] == ["hello", "still there"]


@settings(max_examples=30, derandomize=True, deadline=None)
@given(st.lists(MESSAGES.map(json.dumps).map(str.encode) | st.binary(max_size=20), min_size=10, max_size=10))
async def test_no_line_ends_the_server(lines: list[bytes]) -> None:
    said = await answers([line.replace(b"\n", b" ") for line in lines])
    assert {"hello", "still there"} <= {message.get("id") for message in said if isinstance(message.get("id"), str)}
