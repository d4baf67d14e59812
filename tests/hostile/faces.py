"""Every way in and out of a context: over HTTP, through the door of models, and through the loop of an agent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from keeps.client import Client
from keeps.loop import ByQuestion, with_memory
from tests.hostile.place import Someone

_MCP = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


def tool(who: Someone, name: str, **arguments: Any) -> dict[str, Any]:
    """The result of a tool as a model gets it, or the refusal of the call."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
    reply = who.http.post("/mcp", json=message, headers=_MCP | {"Authorization": f"Bearer {who.key}"})
    assert reply.status_code == 200, reply.text
    body = reply.json()
    return body["result"] if "result" in body else body["error"]


def answered(who: Someone, question: str, reply: str = "") -> tuple[str, Any]:
    """What an agent in the loop is given beside a question, and what is made of its reply."""
    given: list[str] = []

    async def agent(_: str, messages: Sequence[Any]) -> str:
        given.append(str(messages))
        return reply

    async def ask() -> Any:
        async with Client(str(who.http.base_url), context=who.context, key=who.key) as memory:
            call = with_memory(agent, ByQuestion(memory=memory), agents={"tutor"}, timeout_s=30)
            return await call("tutor", [{"role": "user", "content": question}])

    answer = asyncio.run(ask())
    return given[0], answer


def told(who: Someone, question: str) -> dict[str, str]:
    """What each face tells in answer to a question. The question itself may stand in it."""
    session = who.post("/sessions", {"scopes": None}).json()["id"]
    faces = {
        "query": who.post("/query", {"query": question, "k": 50}),
        "context": who.post("/context", {"query": question, "k": 50}),
        "session": who.post(f"/sessions/{session}/context", {"query": question}),
        "facts": who.get("/attributes"),
    }
    for name, reply in faces.items():
        assert reply.status_code == 200, (name, reply.text)
    texts = {name: reply.text for name, reply in faces.items()}
    texts |= {f"tool {name}": str(tool(who, name, query=question)) for name in ("recall", "context")}
    return texts | {"loop": answered(who, question)[0]}


def untold(who: Someone, question: str, *texts: str) -> None:
    """No face tells any of the texts."""
    for face, said in told(who, question).items():
        for text in texts:
            assert text not in said, (face, text)


def told_everywhere(who: Someone, question: str, text: str) -> None:
    """Every face tells the text."""
    silent = [face for face, said in told(who, question).items() if text not in said]
    assert silent in ([], ["session"])  # a session tells what was said in it, and facts beside
