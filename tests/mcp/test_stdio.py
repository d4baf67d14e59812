"""`keeps mcp` as a process: what is on its stdout, how it ends, and several of them on one folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from mcp import Client
from mcp_types import TextContent

from keeps.store.owner import read_owner
from keeps.store.secrets import saved_keys
from tests.mcp.conftest import ENV, Place, over_http, over_stdio

pytestmark = pytest.mark.slow

HELLO = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def call(number: int, tool: str, /, **arguments: Any) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def lines(*messages: dict[str, Any]) -> str:
    return "".join(json.dumps(message) + "\n" for message in messages)


@contextmanager
def started(folder: Path, *arguments: str, **env: str) -> Iterator[subprocess.Popen[str]]:
    """`keeps mcp`, ended with the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "keeps", "mcp", "--data", str(folder), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**ENV, **env},
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def said(process: subprocess.Popen[str]) -> Any:
    """The next message."""
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def say(process: subprocess.Popen[str], *messages: dict[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write(lines(*messages))
    process.stdin.flush()


def gone(children: list[psutil.Process]) -> bool:
    """Whether these processes end within a moment."""
    return not psutil.wait_procs(children, timeout=30)[1]


def test_an_empty_folder_becomes_a_memory_of_its_agent(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "m"
    with started(folder) as process:
        say(process, HELLO, READY, call(1, "remember", text="The kettle is blue.", infer="none"))
        assert said(process)["result"]["serverInfo"]["name"] == "keeps"
        assert said(process)["result"]["isError"] is False
        keys = saved_keys(folder, "default")
        assert keys.keys() >= {"agent", "owner"}
        say(process, call(2, "remember", text="x", scope="org/elsewhere", infer="none"))
        assert said(process)["result"]["structuredContent"]["error"]["status"] == 403
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "")
    assert "Began a new memory" in err
    with started(folder, KEEPS_KEY=keys["owner"]) as process:
        say(process, HELLO, READY, call(2, "remember", text="x", scope="org/elsewhere", infer="none"))
        said(process)
        assert said(process)["result"]["isError"] is False


def test_what_was_asked_is_answered_before_it_ends(tmp_path: Path) -> None:
    asked = [call(number, "remember", text=f"thing {number}", infer="none") for number in range(1, 21)]
    with started(tmp_path / "m") as process:
        out, err = process.communicate(lines(HELLO, READY, *asked), timeout=100)
    assert process.returncode == 0, err
    answers = [json.loads(line) for line in out.splitlines()]
    assert sorted(answer["id"] for answer in answers) == list(range(21))
    assert not any(answer["result"].get("isError") for answer in answers)
    assert read_owner(tmp_path / "m") is None


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_at_once(tmp_path: Path, how: signal.Signals) -> None:
    with started(tmp_path / "m") as process:
        say(process, HELLO, READY, call(1, "recall", query="x"))
        said(process)
        said(process)
        children = psutil.Process(process.pid).children(recursive=True)
        assert children
        process.send_signal(how)
        assert process.wait(timeout=30) == 0
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()
        assert gone(children)
    assert read_owner(tmp_path / "m") is None


def test_a_host_that_is_killed_leaves_nothing_running(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, time\n"
        "p = subprocess.Popen([sys.executable, '-m', 'keeps', 'mcp', '--data', sys.argv[1]],"
        " stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "p.stdin.write(sys.argv[2].encode()); p.stdin.flush(); p.stdout.readline(); print(p.pid, flush=True)\n"
        "time.sleep(100)"
    )
    host = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "m"), lines(HELLO)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **ENV},
    )
    with host:
        assert host.stdout is not None
        server = psutil.Process(int(host.stdout.readline()))
        children = [server, *server.children(recursive=True)]
        host.kill()
    assert gone(children)


def test_what_is_no_message_is_passed_over(tmp_path: Path) -> None:
    with started(tmp_path / "m") as process:
        assert process.stdin is not None
        process.stdin.write("no json\n\n[]\n{}\n\udcff\n".encode("utf-8", "replace").decode())
        say(process, HELLO, READY, call(1, "recall", query="x"))
        assert [said(process)["id"] for _ in range(2)] == [0, 1]
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "")
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (("--context", "nowhere"), 3, "no saved key for a context nowhere"),
        (("--key", "half\na key"), 1, "not copied whole"),
    ],
)
def test_what_cannot_begin_says_why(tmp_path: Path, arguments: tuple[str, ...], code: int, why: str) -> None:
    with started(tmp_path / "m") as process:
        process.communicate("", timeout=60)
    with started(tmp_path / "m", *arguments) as process:
        out, err = process.communicate(lines(HELLO), timeout=60)
    assert (process.returncode, out) == (code, ""), err
    assert why in err
    assert "Traceback" not in err


async def test_a_service_elsewhere_is_asked_over_http(place: Place, tmp_path: Path) -> None:
    elsewhere = ("--endpoint", place.memory.endpoint, "--key", place.agent_key)
    async with over_stdio(tmp_path / "unused", *elsewhere) as client:
        assert not (await client.call_tool("remember", {"text": "The kettle is blue.", "infer": "none"})).is_error
    assert len((await place.memory.recall("kettle")).hits) == 1
    assert not (tmp_path / "unused").exists()
    async with over_stdio(tmp_path / "unused", "--endpoint", "http://127.0.0.1:9", "--key", place.agent_key) as client:
        failed = await client.call_tool("inspect", {"ref": "turn:x"})
        assert failed.structured_content["error"]["status"] == 503


async def write(client: Client, text: str) -> None:
    done = await client.call_tool("remember", {"text": text, "infer": "none"})
    assert not done.is_error, done.structured_content


async def seen(client: Client, query: str) -> set[str]:
    found = await client.call_tool("recall", {"query": query, "k": 50})
    assert not found.is_error, found.structured_content
    return {hit["text"] for hit in found.structured_content["hits"]}


@pytest.mark.timeout(300)
async def test_three_on_one_folder_outlive_their_owner(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    async with AsyncExitStack() as held:
        three = [await held.enter_async_context(over_stdio(folder)) for _ in range(3)]
        for number, client in enumerate(three):
            await write(client, f"program {number} was here")
        everyone = {f"program {number} was here" for number in range(3)}
        for client in three:
            assert await seen(client, "program was here") == everyone
        owner = read_owner(folder)
        assert owner is not None
        key = saved_keys(folder, "default")["agent"]
        async with over_http(f"{owner.endpoint}/mcp", key) as fourth:
            await write(fourth, "program 3 was here")
        everyone.add("program 3 was here")
        os.kill(owner.pid, signal.SIGKILL)
        for number, client in enumerate(three[1:], start=4):
            await write(client, f"program {number} was here")
            everyone.add(f"program {number} was here")
        for client in three[1:]:
            assert await seen(client, "program was here") == everyone
        after = read_owner(folder)
        assert after is not None
        assert after.pid != owner.pid
        texts = (await three[1].call_tool("context", {"query": "program was here"})).content
        assert isinstance(texts[0], TextContent)
        assert texts[0].text.startswith("<memory-")
