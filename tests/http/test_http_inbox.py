"""The inbox over HTTP: who sees what, what a decision answers, what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest
from tests.http.words import fresh

from keeps.services import contexts


def run(served: Any, work: Callable[[], Awaitable[Any]]) -> Any:
    """What `work` gives, in the loop of the server."""

    async def there() -> Any:
        return await work()

    return asyncio.run_coroutine_threadsafe(there(), served.loop).result(60)


@pytest.fixture(scope="module")
def asking(served: Any) -> Any:
    """A context that asks before it keeps, and the keys to it."""
    return run(served, lambda: contexts.bootstrap(served.rt, "asking", policy="deliberate"))


def door(served: Any, asking: Any, key: str) -> httpx.AsyncClient:
    base = f"{served.endpoint}/api/v1/{asking.context}"
    return httpx.AsyncClient(base_url=base, headers={"Authorization": f"Bearer {key}"}, timeout=30)


@pytest.fixture
async def owner(served: Any, asking: Any) -> AsyncIterator[httpx.AsyncClient]:
    async with door(served, asking, asking.owner_key) as client:
        yield client


@pytest.fixture
async def agent(served: Any, asking: Any) -> AsyncIterator[httpx.AsyncClient]:
    async with door(served, asking, asking.agent_key) as client:
        yield client


async def propose(agent: httpx.AsyncClient, value: str, key: str = "likes") -> None:
    triple = {"entity": {"type": "person", "name": "Mara"}, "key": key, "value": value}
    reply = await agent.post("/facts", json={"infer": "triples", "triples": [triple]})
    assert reply.status_code == 200, reply.text
    assert int(reply.headers["X-Keeps-Pending"]) == 1


async def item(owner: httpx.AsyncClient, word: str) -> dict[str, Any]:
    found = (await owner.get("/inbox", params={"limit": 500})).json()
    return next(each for each in found["items"] if word in each["text"])


async def decide(owner: httpx.AsyncClient, *decisions: dict[str, Any]) -> httpx.Response:
    return await owner.post("/inbox/decide", json={"decisions": list(decisions)})


async def test_a5_from_a_proposal_to_a_memory(owner: httpx.AsyncClient, agent: httpx.AsyncClient) -> None:
    word = fresh("rye")
    await propose(agent, word)
    waits = await item(owner, word)
    assert (waits["status"], waits["proposedBy"], waits["why"], waits["rev"]) == ("proposed", ["agent"], "policy", 1)
    assert waits["choices"][0] == "keep"
    before = (await owner.get("/inbox")).json()["counts"]["waiting"]
    reply = await decide(owner, {"id": waits["id"], "decision": "keep"})
    assert reply.status_code == 200, reply.text
    (done,) = reply.json()["decided"]
    assert (done["status"], done["memory"]) == ("confirmed", waits["id"])
    assert reply.json()["waiting"] == before - 1
    hits = (await agent.post("/query", json={"query": word})).json()["hits"]
    assert [hit["id"] for hit in hits] == [f"attribute:{waits['id']}"]


async def test_a5_what_is_rejected_is_gone_and_says_what_cannot_be_done(
    owner: httpx.AsyncClient, agent: httpx.AsyncClient
) -> None:
    word = fresh("rye")
    await propose(agent, word)
    waits = await item(owner, word)
    once = {"id": waits["id"], "decision": "discard"}
    assert (await decide(owner, once)).json()["decided"][0]["status"] == "rejected"
    (again,) = (await decide(owner, once)).json()["decided"]
    assert again["error"] == "illegal-transition"
    assert word not in (await owner.get("/inbox")).text


async def test_a_stale_revision_is_not_decided_on(owner: httpx.AsyncClient, agent: httpx.AsyncClient) -> None:
    word = fresh("rye")
    await propose(agent, word)
    waits = await item(owner, word)
    (done,) = (await decide(owner, {"id": waits["id"], "decision": "keep", "rev": 7})).json()["decided"]
    assert done["error"] == "stale-revision"


async def test_a9_both_values_stand_in_the_item(owner: httpx.AsyncClient, agent: httpx.AsyncClient) -> None:
    old, new, key = fresh("mill"), fresh("orchard"), fresh("employer").replace("-", "_")
    await propose(agent, old, key)
    await decide(owner, {"id": (await item(owner, old))["id"], "decision": "keep"})
    await propose(agent, new, key)
    waits = await item(owner, new)
    assert waits["why"] == "conflict"
    assert old in waits["conflict"]["text"]
    assert {"replace", "keep_both"} <= set(waits["choices"])
    await decide(owner, {"id": waits["id"], "decision": "replace"})
    texts = [hit["text"] for hit in (await agent.post("/query", json={"query": f"{key} {new}"})).json()["hits"]]
    assert (any(new in text for text in texts), any(old in text for text in texts)) == (True, False)


async def test_a3_an_agent_is_refused(owner: httpx.AsyncClient, agent: httpx.AsyncClient) -> None:
    word = fresh("rye")
    await propose(agent, word)
    waits = await item(owner, word)
    assert (await agent.get("/inbox")).status_code == 403
    assert (await agent.get("/inbox/webhook")).status_code == 403
    assert (await decide(agent, {"id": waits["id"], "decision": "keep"})).status_code == 403
    acting = await owner.get("/inbox", headers={"X-Memory-On-Behalf-Of": "agent"})
    assert acting.status_code == 403
    assert await item(owner, word)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"decisions": []},
        {"decisions": [{"id": "a", "decision": "burn"}]},
        {"decisions": [{"id": "a", "decision": "edit"}]},
        {"decisions": [{"id": "a", "decision": "keep", "text": "b"}]},
        {"decisions": [{"id": "a", "decision": "keep"}, {"id": "a", "decision": "discard"}]},
        {"decisions": [{"id": "a", "decision": "keep", "userConfirmed": True}]},
        {"decisions": [{"id": "a", "decision": "keep"}], "trust": 1},
        {"decisions": [{"id": str(n), "decision": "keep"} for n in range(101)]},
    ],
)
async def test_a4_what_does_not_belong_in_a_decision_is_refused(owner: httpx.AsyncClient, body: dict[str, Any]) -> None:
    assert (await owner.post("/inbox/decide", json=body)).status_code == 400


async def test_pages_counts_and_rates(owner: httpx.AsyncClient, agent: httpx.AsyncClient) -> None:
    for _ in range(3):
        await propose(agent, fresh("tea"))
    seen: list[str] = []
    cursor: dict[str, Any] = {}
    while True:
        found = (await owner.get("/inbox", params={"limit": 2, "count": True, **cursor})).json()
        seen += [each["id"] for each in found["items"]]
        if not found["page"]["hasMore"]:
            break
        cursor = {"cursor": found["page"]["nextCursor"]}
    assert len(seen) == len(set(seen)) == found["page"]["totalSize"] == found["counts"]["waiting"]
    assert [rate["agent"] for rate in found["rates"]] == ["agent"]
    assert (await owner.get("/inbox", params={"held": True})).json()["items"] == []


async def test_a_sentence_is_promoted_once(owner: httpx.AsyncClient, agent: httpx.AsyncClient) -> None:
    word = fresh("tide")
    said = (await agent.post("/facts", json={"infer": "none", "text": f"It rains. The {word} is late."})).json()
    body = {"turnId": f"turn:{said['turnId']}", "text": f"The {word} is late."}
    assert (await agent.post("/promote", json=body)).status_code == 403
    key = {"Idempotency-Key": fresh("k")}
    first = await owner.post("/promote", json=body, headers=key)
    assert first.status_code == 201, first.text
    assert first.json()["source"] == {"turn": body["turnId"], "start": 10, "end": 10 + len(body["text"])}
    assert (await owner.post("/promote", json=body, headers=key)).json() == first.json()
    for wrong in ({}, {**body, "chunkId": "x"}, {**body, "status": "confirmed"}, {**body, "kind": "Not a kind"}):
        assert (await owner.post("/promote", json=wrong)).status_code == 400
    assert (await owner.post("/promote", json={**body, "text": "late tide"})).status_code == 422


async def test_the_key_of_the_webhook_is_the_owners(owner: httpx.AsyncClient) -> None:
    assert (await owner.get("/inbox/webhook")).json()["key"].startswith("whk_")
