"""Questions over HTTP: how an answer says that it was found, and what holds it back."""

from __future__ import annotations

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


async def state(http: httpx.AsyncClient, name: str, **values: str) -> None:
    triples = [
        {"entity": {"type": "person", "name": name}, "key": key, "value": value} for key, value in values.items()
    ]
    await posted(http, "/facts", {"infer": "triples", "triples": triples, "scopes": [[HOME]]})


async def test_a_look_up_is_told_apart_and_keeps_the_published_tier(owner: httpx.AsyncClient) -> None:
    name = fresh("Mara")
    await state(owner, name, role="pilot", tea="genmaicha")
    found = await posted(owner, "/query", {"query": f"What is {name}'s role?"})
    assert (found["tier"], found["classificationKind"]) == ("hybrid", "direct_lookup")
    assert found["trace"]["resolutionTier"] == "hybrid"
    assert found["seedEntities"] == [name.lower()]
    assert found["hits"][0]["resource"]["key"] == "role"
    assert found["hits"][0]["signals"]["graph"] == 1.0
    assert 0 < found["hits"][0]["signals"]["share"] <= 1
    assert "cosine" not in found["hits"][0]["signals"], "nothing makes vectors here"
    every = await posted(owner, "/query", {"query": f"What do you know about {name}?"})
    assert (every["tier"], every["classificationKind"]) == ("hybrid", "full_context")
    assert {hit["resource"]["key"] for hit in every["hits"]} == {"role", "tea"}


async def test_a_floor_holds_back_what_scores_less(owner: httpx.AsyncClient) -> None:
    word = fresh("heron")
    await posted(owner, "/facts", {"text": f"the {word} nests behind the sluice", "infer": "none"})
    question = f"is there an opera about the {word} in the parliament of owls?"
    found = await posted(owner, "/query", {"query": question})
    score = found["hits"][0]["score"]
    assert 0 < score < 1
    assert (await posted(owner, "/query", {"query": question, "minScore": min(1.0, score + 0.01)}))["hits"] == []
    assert (await posted(owner, "/query", {"query": question, "minScore": score - 0.01}))["hits"]
    assert word in (await posted(owner, "/context", {"query": question, "minScore": 0}))["context"]
    assert (await posted(owner, "/context", {"query": question, "minScore": 1}))["context"] == ""
    refused = await owner.post("/query", json={"query": question, "minScore": 2})
    assert refused.status_code == 400
