"""Traces over HTTP: what a read leaves, who may look at it, and that no text is in it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from tests.http.words import fresh

HOME = "user/owner"


def client_of(served: Any, key: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=served.base, headers={"Authorization": f"Bearer {key}"}, timeout=30)


@pytest.fixture
async def owner(served: Any) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(served, served.owner_key) as client:
        yield client


@pytest.fixture
async def agent(served: Any) -> AsyncIterator[httpx.AsyncClient]:
    """Reads and writes below the owner's home, and manages nothing."""
    async with client_of(served, served.agent_key) as client:
        yield client


async def say(http: httpx.AsyncClient, value: str, scope: str = HOME) -> str:
    entity = {"type": "person", "name": fresh("m")}
    body = {"infer": "triples", "triples": [{"entity": entity, "key": "hums", "value": value}], "scopes": [[scope]]}
    reply = await http.post("/facts", json=body)
    assert reply.status_code == 200, reply.text
    return f"attribute:{reply.json()['extraction']['attributes'][0]['id']}"


async def ask(http: httpx.AsyncClient, query: str, **more: Any) -> str:
    reply = await http.post("/query", json={"query": query, **more})
    assert reply.status_code == 200, reply.text
    assert reply.headers["X-Trace-Id"] == reply.json()["trace"]["traceId"]
    return reply.headers["X-Trace-Id"]


async def trace(http: httpx.AsyncClient, trace_id: str) -> dict[str, Any]:
    reply = await http.get(f"/traces/{trace_id}")
    assert reply.status_code == 200, reply.text
    return reply.json()


async def test_a_trace_says_what_the_reply_said(owner: httpx.AsyncClient) -> None:
    word = fresh("tune")
    ref = await say(owner, f"the {word} song")
    found = await trace(owner, await ask(owner, word, k=3, source="Notebook"))
    assert found["parent"] is None
    assert (found["source"], found["mode"], found["k"], found["retrievedCount"]) == ("notebook", "hybrid", 3, 1)
    assert found["keyId"]
    (retrieval,) = found["retrievals"]
    (hit,) = retrieval["returned"]
    assert (hit["id"], hit["table"], hit["label"], hit["rank"]) == (ref, "attribute", "hums", 1)
    assert hit["ref"].startswith("attribute:person/")
    assert hit["signals"]["text"] > 0
    assert (retrieval["mode"], retrieval["retrievedIds"], retrieval["scores"]) == ("hybrid", [ref], [hit["score"]])
    assert isinstance(retrieval["tierEntered"], int)
    assert {leg["name"] for leg in found["legs"]} >= {"text", "exact"}
    assert found["queryText"] == ""


async def test_the_block_for_a_prompt_leaves_a_trace_too(owner: httpx.AsyncClient) -> None:
    word = fresh("tune")
    ref = await say(owner, word)
    reply = await owner.post("/context", json={"query": word})
    found = await trace(owner, reply.headers["X-Trace-Id"])
    assert found["source"] == "context"
    assert found["retrievals"][0]["retrievedIds"] == [ref]


async def test_an_agent_sees_reads_of_its_own_region_alone(owner: httpx.AsyncClient, agent: httpx.AsyncClient) -> None:
    word = fresh("tune")
    await say(owner, word)
    by_owner, by_agent = await ask(owner, word), await ask(agent, word)
    assert (await trace(agent, by_agent))["id"] == by_agent
    assert "keyId" not in await trace(agent, by_agent)
    assert (await trace(owner, by_agent))["id"] == by_agent
    refused = await agent.get(f"/traces/{by_owner}")
    absent = await agent.get(f"/traces/{fresh()}")
    assert refused.status_code == absent.status_code == 404
    assert refused.json()["message"].replace(by_owner, "X") == absent.json()["message"].split()[0] + " X does not exist"
    listed = (await agent.get("/traces?count=true&limit=500")).json()
    ids = [row["id"] for row in listed["traces"]]
    assert by_agent in ids
    assert by_owner not in ids
    assert listed["page"]["totalSize"] == len(ids)
    stats = (await agent.get("/traces/stats")).json()
    assert stats["totalQueries"] == stats["retrieval"]["traces"] == 0
    assert set(stats["tierCounts"].values()) == {0}
    assert (await agent.get(f"/inspect?ref=trace:{by_owner}")).status_code == 404
    assert (await agent.get(f"/inspect?ref=trace:{by_agent}")).json()["trace"]["id"] == by_agent


async def test_the_reads_of_a_memory(owner: httpx.AsyncClient, agent: httpx.AsyncClient) -> None:
    word = fresh("tune")
    ref, hidden = await say(owner, word), await say(owner, fresh("hidden"), "org/north")
    asked = [await ask(owner, word), await ask(agent, word), await ask(owner, word)]
    page = (await owner.get("/traces", params={"ref": ref, "limit": 2, "count": True})).json()
    rest = (await owner.get("/traces", params={"ref": ref, "limit": 2, "cursor": page["page"]["nextCursor"]})).json()
    assert [row["id"] for row in page["traces"] + rest["traces"]] == asked[::-1]
    assert page["page"]["totalSize"] == 3
    assert rest["page"]["hasMore"] is False
    assert [r["id"] for r in (await agent.get("/traces", params={"ref": ref})).json()["traces"]] == [asked[1]]
    assert (await agent.get("/traces", params={"ref": hidden})).status_code == 404
    assert (await owner.get("/traces", params={"ref": "entity:person/mara"})).status_code == 400
    wrong = {"cursor": page["page"]["nextCursor"], "limit": 2}
    assert (await owner.get("/traces", params=wrong)).status_code == 400


async def test_what_was_erased_is_not_named(owner: httpx.AsyncClient) -> None:
    word = fresh("tune")
    ref, other = await say(owner, f"{word} one"), await say(owner, f"{word} two")
    trace_id = await ask(owner, word)
    await owner.post("/forget", json={"ids": [ref], "purge": True})
    found = await trace(owner, trace_id)
    (retrieval,) = found["retrievals"]
    assert retrieval["retrievedIds"] == [other]
    assert sorted((hit["id"], hit.get("gone", False)) for hit in retrieval["returned"]) == [("", True), (other, False)]
    assert ref.partition(":")[2] not in json.dumps(found)


async def test_windows_and_bad_values(owner: httpx.AsyncClient) -> None:
    await ask(owner, "anything")
    day = (await owner.get("/traces/stats?windowHours=48")).json()
    assert (day["windowHours"], day["totalQueries"] > 0) == (48, True)
    assert day["avgLatencyMs"] >= 0
    ahead = (await owner.get("/traces/stats?since=2199-01-01T00:00:00Z")).json()
    assert (ahead["totalQueries"], ahead["windowHours"]) == (0, 0)
    for query in ("windowHours=0", "windowHours=x", "since=x"):
        assert (await owner.get(f"/traces/stats?{query}")).status_code == 400, query


async def test_no_text_of_questions_or_memories_is_in_any_trace(served: Any, owner: httpx.AsyncClient) -> None:
    """50 reads with odd questions, labels, sources and sessions, and then every raw row of the tables."""
    words = [fresh("odd") for _ in range(50)]
    for number, word in enumerate(words):
        text = ("{w}", 'says "{w}"', "<b>{w}</b>", "{w}\u202e\u0301", "’ OR 1=1; {w}", "Où {w} où ?", "{w}\n{w}")[
            number % 7
        ]
        body = {"text": text.format(w=word), "infer": "none"}
        if number % 2:
            await say(owner, text.format(w=word))
        else:
            await owner.post("/facts", json=body)
        for mode in ("hybrid", "bm25"):
            await ask(
                owner, text.format(w=word), mode=mode, labels=[], sessionId=f"my {word}", source=f"{word}: the diary"
            )
        await owner.post("/context", json={"query": text.format(w=word), "sessionId": word, "source": f"my {word}"})
    raw = await _raw(served)
    assert raw.count("retrieval_trace") >= 150
    assert [word for word in words if word in raw] == []


async def _raw(served: Any) -> str:
    """All rows of the tables of traces, as text; read in the loop of the server."""

    async def read() -> str:
        context = await served.rt.context(served.context)
        await context.traces.flush()
        rows = await context.db.run("SELECT * FROM retrieval_trace; SELECT * FROM trace_region;", timeout_s=30)
        return repr(rows)

    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(read(), served.loop))
