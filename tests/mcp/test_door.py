"""`/mcp` on the wire: who is let in, what is read, and that no place among running requests is lost."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from keeps.client import Client
from keeps.config import Config
from keeps.owning import owning
from keeps.services import contexts
from tests.mcp.conftest import ENV, Place, opened

HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


def call(tool: str, /, **arguments: Any) -> dict[str, Any]:
    """One message that calls a tool."""
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


@pytest_asyncio.fixture
async def http(place: Place) -> AsyncIterator[httpx.AsyncClient]:
    headers = {**HEADERS, "Authorization": f"Bearer {place.agent_key}"}
    async with httpx.AsyncClient(base_url=place.memory.endpoint, headers=headers, trust_env=False) as http:
        yield http


async def send(http: httpx.AsyncClient, message: Any, headers: Mapping[str, str] | None = None) -> httpx.Response:
    return await http.post("/mcp", json=message, headers=headers)


async def test_any_client_of_http_may_call(http: httpx.AsyncClient) -> None:
    reply = await send(http, LIST)
    assert reply.status_code == 200
    assert reply.headers["content-type"] == "application/json"
    assert len(reply.json()["result"]["tools"]) == 5
    assert "mcp-session-id" not in reply.headers
    assert reply.headers["x-trace-id"]
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    reply = await send(http, {"jsonrpc": "2.0", "id": "a", "method": "initialize", "params": hello})
    assert reply.json()["result"]["protocolVersion"] == "2025-06-18"
    assert reply.json()["result"]["capabilities"]["tools"] == {"listChanged": False}
    reply = await send(http, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert (reply.status_code, reply.content) == (202, b"")
    reply = await send(http, call("remember", text="The kettle is blue.", infer="none"))
    assert reply.json()["result"]["isError"] is False
    reply = await send(http, call("recall", query="kettle"))
    assert reply.json()["result"]["structuredContent"]["hits"][0]["text"] == "The kettle is blue."


async def test_the_audit_names_the_message_that_came_in(http: httpx.AsyncClient, place: Place) -> None:
    http.headers["Authorization"] = f"Bearer {place.owner_key}"
    reply = await send(http, call("remember", text="The kettle is blue."))
    assert "memory" in reply.json()["result"]["structuredContent"]
    entries = (await http.get("/api/v1/default/audit")).json()["entries"]
    assert [entry["request"] for entry in entries] == [reply.headers["x-trace-id"]]


@pytest.mark.parametrize("key", [None, "sp-nobody-nothing", "Basic x", "the key of another folder"])
async def test_without_a_good_key_nothing_is_read(place: Place, tmp_path: Path, key: str | None) -> None:
    if key == "the key of another folder":
        async with opened(tmp_path / "other") as other:
            key = other.agent_key
    headers = HEADERS if key is None else {**HEADERS, "Authorization": key if " " in key else f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=place.memory.endpoint, headers=headers, trust_env=False) as http:
        for reply in (await http.post("/mcp", content=b"no json at all"), await http.delete("/mcp")):
            assert reply.status_code == 401
            assert reply.headers["www-authenticate"] == "Bearer"
            assert reply.json()["status"] == 401


async def test_the_key_says_which_context(tmp_path: Path) -> None:
    config = Config(data=tmp_path / "m", embedder="none")
    async with owning(config, context="default") as owned:
        other = await contexts.bootstrap(owned.rt, "harbour")
        assert owned.minted is not None
        async with httpx.AsyncClient(base_url=owned.endpoint, headers=HEADERS, trust_env=False) as http:

            async def ask(key: str, **headers: str) -> httpx.Response:
                sent = {"Authorization": f"Bearer {key}", **{n.replace("_", "-"): v for n, v in headers.items()}}
                return await send(http, call("remember", text="A ship.", infer="none"), sent)

            assert (await ask(other.agent_key)).json()["result"]["isError"] is False
            async with Client(owned.endpoint, key=other.owner_key, context="harbour") as harbour:
                assert len((await harbour.recall("ship")).hits) == 1
            async with Client(owned.endpoint, key=owned.minted.owner_key) as default:
                assert (await default.recall("ship")).hits == ()
            for name in ("X_Memory_Context", "X_Spectron_Context", "X_Agent_Memory_Context"):
                assert (await ask(other.agent_key, **{name: "harbour"})).status_code == 200
                for wrong in ("default", "nowhere"):
                    assert (await ask(other.agent_key, **{name: wrong})).status_code == 401
            assert (await ask(other.agent_key, X_Memory_Context="harbour", X_Spectron_Context="x")).status_code == 401
            assert other.management_key
            assert (await ask(other.management_key)).status_code == 401
            for headers in ({"X_Memory_On_Behalf_Of": "principal:nobody"},):
                assert (await ask(other.agent_key, **headers)).status_code == 401


async def test_acting_for_another_is_as_everywhere(place: Place) -> None:
    async with Client(place.memory.endpoint, key=place.owner_key) as owner:
        made = await owner.principals.create("Guest", grants={"memory:read": ["guest"]})
        await owner.remember("Guests may read this.", infer="none", scopes="guest")
        await owner.remember("The owner alone reads this.", infer="none")
    async with place.client(key=place.owner_key, X_Memory_On_Behalf_Of=made.id) as client:
        found = (await client.call_tool("recall", {"query": "reads this"})).structured_content
        assert [hit["text"] for hit in found["hits"]] == ["Guests may read this."]


async def test_pages_of_other_sites_are_turned_away(http: httpx.AsyncClient, place: Place) -> None:
    for origin in ("https://evil.example", "null", "http://127.0.0.1.evil.example", "http://[::1", "file://"):
        reply = await send(http, LIST, {"Origin": origin})
        assert (reply.status_code, reply.json()["status"]) == (403, 403), origin
        assert (await http.delete("/mcp", headers={"Origin": origin})).status_code == 403
    for origin in ("http://localhost:6274", "http://127.0.0.1:9090", "http://[::1]:80"):
        assert (await send(http, LIST, {"Origin": origin})).status_code == 200, origin
    reply = await send(http, LIST, {"Host": "evil.example"})
    assert reply.status_code == 400


async def test_a_site_that_is_named_may_ask(tmp_path: Path) -> None:
    async with opened(tmp_path / "m", cors_origins=("https://memory.example",)) as place:
        headers = {**HEADERS, "Authorization": f"Bearer {place.agent_key}"}
        async with httpx.AsyncClient(base_url=place.memory.endpoint, headers=headers, trust_env=False) as http:
            assert (await send(http, LIST, {"Origin": "https://memory.example"})).status_code == 200
            assert (await send(http, LIST, {"Origin": "https://other.example"})).status_code == 403


async def test_other_methods_and_the_end_of_a_session(http: httpx.AsyncClient) -> None:
    reply = await http.get("/mcp", headers={"Accept": "text/event-stream"})
    assert (reply.status_code, reply.json()["status"]) == (405, 405)
    assert (await http.put("/mcp", json=LIST)).status_code == 405
    assert (await http.delete("/mcp", headers={"Mcp-Session-Id": "x"})).status_code == 204


async def test_bodies_are_bounded(tmp_path: Path) -> None:
    async with opened(tmp_path / "m", max_body_bytes=4096) as place:
        headers = {**HEADERS, "Authorization": f"Bearer {place.agent_key}"}
        async with httpx.AsyncClient(base_url=place.memory.endpoint, headers=headers, trust_env=False) as http:
            assert (await send(http, call("recall", query="x" * 5000))).status_code == 413
            deep = b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":' + b"[" * 500 + b"]" * 500 + b"}"
            assert (await http.post("/mcp", content=deep)).status_code == 400
            assert (await send(http, LIST)).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"x"',
        b"\xff\xfe",
        b'{"jsonrpc":"2.0"}',
        b'{"jsonrpc":"1.0","id":1,"method":"tools/list"}',
        json.dumps([LIST, LIST]).encode(),
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"recall","arguments":{"query":"\\ud800"}}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"recall","arguments":[1]}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"recall","arguments":{"query":1e999}}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}',
        b'{"jsonrpc":"2.0","id":1,"method":"no/such"}',
    ],
)
async def test_what_is_no_message_is_refused_and_nothing_breaks(http: httpx.AsyncClient, body: bytes) -> None:
    reply = await http.post("/mcp", content=body)
    assert reply.status_code in {200, 400, 404}
    answer = reply.json()
    assert "error" in answer or answer["status"] == 400
    assert "Traceback" not in reply.text
    assert (await send(http, LIST)).status_code == 200


@pytest.mark.slow
async def test_many_calls_at_once_lose_no_place(tmp_path: Path) -> None:
    async with opened(tmp_path / "m", max_in_flight=8) as place:
        headers = {**HEADERS, "Authorization": f"Bearer {place.agent_key}"}
        limits = httpx.Limits(max_connections=64)
        async with httpx.AsyncClient(
            base_url=place.memory.endpoint, headers=headers, trust_env=False, limits=limits, timeout=60
        ) as http:
            await send(http, LIST)

            async def one(number: int) -> int:
                reply = await send(http, call("remember", text=f"thing {number}", infer="none"))
                if reply.status_code == 200:
                    assert reply.json()["result"]["isError"] is False, reply.text
                else:
                    assert reply.headers["retry-after"]
                return reply.status_code

            async with asyncio.timeout(60):
                statuses = [status for _ in range(3) for status in await asyncio.gather(*map(one, range(64)))]
            assert set(statuses) <= {200, 503}
            done = statuses.count(200)
            # Nested requests wait for no place of their own: as many get through as places there are, and more.
            assert done >= 3 * 8
            # Afterwards all places are free: eight at once are served, whatever was refused before.
            async with asyncio.timeout(60):
                again = [status for _ in range(4) for status in await asyncio.gather(*map(one, range(4)))]
            assert again == [200] * 16
        turns = [row.turn_count for row in (await place.memory.sessions.list(limit=500)).sessions]
        assert sum(turns) == done + 16


@pytest.mark.slow
async def test_the_protocol_is_loaded_by_its_first_message(tmp_path: Path) -> None:
    code = """
import asyncio, json, sys
import httpx, keeps
from keeps import Memory, SyncMemory
from keeps.cli import app, recall, serve
import keeps.cli.mcp

def loaded():
    return sorted({name.split(".")[0] for name in sys.modules} & {"mcp", "mcp_types", "httpx2"})

async def main():
    async with Memory.open(sys.argv[1]) as memory:
        await memory.recall("x")
        before = loaded()
        key = json.loads((memory.folder / "keys.json").read_text())["default"]["agent"]
        async with httpx.AsyncClient(trust_env=False) as http:
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
            headers = {"Authorization": "Bearer " + key, "Accept": "application/json"}
            first = await http.post(memory.endpoint + "/mcp", json=body, headers=headers)
        print(json.dumps([before, first.status_code, loaded()]))

asyncio.run(main())
"""
    ran = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", code, str(tmp_path / "m")],
        capture_output=True,
        text=True,
        check=False,
        env=ENV,
        timeout=100,
    )
    assert ran.returncode == 0, ran.stderr
    before, status, after = json.loads(ran.stdout)
    assert (before, status) == ([], 200)
    assert "mcp" in after


@pytest.mark.slow
@pytest.mark.parametrize("command", ["--help", "recall --help", "serve --help", "mcp --help"])
def test_commands_are_listed_without_the_protocol(command: str) -> None:
    code = (
        "import sys\nfrom keeps.cli.app import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "print([name for name in ('mcp', 'mcp_types') if name in sys.modules], file=sys.stderr)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, *command.split()], capture_output=True, text=True, check=True, env=ENV, timeout=60
    )
    assert ran.stderr == "[]\n"
