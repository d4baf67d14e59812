"""A block for a prompt over HTTP: its budget, what stands in it and what does not, and the run it is for."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from tests.http.words import fresh

HOME = "user/owner"


@pytest.fixture
async def owner(served: Any) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": f"Bearer {served.owner_key}"}
    async with httpx.AsyncClient(base_url=served.base, headers=headers, timeout=30) as client:
        yield client


async def posted(http: httpx.AsyncClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    reply = await http.post(path, json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


async def likes(http: httpx.AsyncClient, name: str, count: int) -> None:
    triples = [
        {"entity": {"type": "person", "name": name}, "key": "likes", "value": f"tea of sort {n}"} for n in range(count)
    ]
    await posted(http, "/facts", {"infer": "triples", "triples": triples, "scopes": [[HOME]]})


async def test_d1_d2_a_block_says_what_stands_in_it_and_what_room_there_was(owner: httpx.AsyncClient) -> None:
    name = fresh("Mara")
    await likes(owner, name, 12)
    asked = {"query": f"What does {name} like?", "k": 50, "budget": {"maxMemories": 3, "maxTokens": 8000}}
    found = await posted(owner, "/context", asked)
    ids = [each["id"] for each in found["offered"]]
    assert len(ids) == len(set(ids)) == 3
    assert all(name in found["context"] for name in ids)
    assert {(each["kind"], each["origin"]) for each in found["offered"]} == {("preference", "user_saved")}
    assert all(each["when"] for each in found["offered"])
    assert found["budgetApplied"]["maxMemories"] == 3
    assert {each["reason"] for each in found["dropped"]} == {"dropped_budget"}
    assert len(found["dropped"]) == 9
    assert not {each["id"] for each in found["dropped"]} & set(ids)
    assert found["influence"] == {"unconfirmed": 0, "tainted": 0}
    assert 0 < found["tokens"] <= 8000
    assert found["settingsVersion"] >= 0
    assert re.fullmatch("[a-z0-9]{20}", found["runId"])
    again = await posted(owner, "/context", asked | {"runId": found["runId"]})
    assert again["runId"] == found["runId"]


async def test_d2_a_request_cannot_widen_the_room(owner: httpx.AsyncClient) -> None:
    name = fresh("Mara")
    await likes(owner, name, 4)
    found = await posted(owner, "/context", {"query": f"What does {name} like?", "k": 2, "budget": {"maxMemories": 50}})
    assert found["budgetApplied"]["maxMemories"] == len(found["offered"]) == 2
    assert found["budgetApplied"]["minTrust"] == 0.35, "what the context asks for at least"
    assert found["budgetApplied"]["allowUnconfirmed"] == "label", "the context allows no more"


@pytest.mark.parametrize(
    "budget",
    [
        {"maxMemories": 51},
        {"maxMemories": -1},
        {"maxTokens": 8001},
        {"maxPerSource": 0},
        {"minScore": 2},
        {"timeoutMs": 10},
        {"allowUnconfirmed": "always"},
        {"kinds": "fact"},
        "much",
    ],
)
async def test_a_budget_out_of_range_is_refused(owner: httpx.AsyncClient, budget: object) -> None:
    assert (await owner.post("/context", json={"query": "heron", "budget": budget})).status_code == 400


async def test_a_budget_of_nothing_gives_an_empty_block(owner: httpx.AsyncClient) -> None:
    name = fresh("Mara")
    await likes(owner, name, 2)
    question = f"What does {name} like?"
    for budget in ({"maxMemories": 0}, {"maxTokens": 10}, {"kinds": []}):
        found = await posted(owner, "/context", {"query": question, "budget": budget})
        assert (found["context"], found["offered"], found["tokens"]) == ("", [], 0)
    full = await posted(owner, "/context", {"query": question, "budget": None})
    assert len(full["offered"]) == 2


@pytest.mark.parametrize("path", ["/context", "/query"])
async def test_a_run_that_is_not_the_callers_does_not_exist(owner: httpx.AsyncClient, path: str) -> None:
    reply = await owner.post(path, json={"query": "heron", "runId": "abcdefghij0123456789"})
    assert reply.status_code == 404
