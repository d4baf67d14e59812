"""Over HTTP: what an agent finds at doors that are shut, and that a reply says when memory is off."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from keeps.services import contexts

HOME = [["user/owner"]]
READS = (
    "/attributes?count=true",
    "/relations?count=true",
    "/actions?count=true",
    "/entities?count=true",
    "/entities/top",
    "/entities/search?q=Zephyrine",
    "/uncertainty?count=true",
    "/sessions?count=true",
    "/memories",
)


@pytest.fixture(scope="module")
def keys(served: Any) -> dict[str, str]:
    making = contexts.bootstrap(served.rt, "doors", policy="automatic")
    made = asyncio.run_coroutine_threadsafe(making, served.loop).result(30)
    return {"base": f"{served.endpoint}/api/v1/doors", "owner": made.owner_key, "agent": made.agent_key}


@pytest.fixture
def owner(keys: dict[str, str]) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=keys["base"], headers={"Authorization": f"Bearer {keys['owner']}"}) as client:
        yield client


@pytest.fixture
def agent(keys: dict[str, str]) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=keys["base"], headers={"Authorization": f"Bearer {keys['agent']}"}) as client:
        yield client


def test_h8_r13_while_the_switch_is_on_agents_find_nothing_and_people_everything(
    owner: httpx.Client, agent: httpx.Client
) -> None:
    who = {"type": "person", "name": "Zephyrine"}
    triples = [
        {"entity": who, "key": "role", "value": "zither player"},
        {"entity": who, "key": "works_at", "target": {"type": "organisation", "name": "Quillfish"}},
        {"entity": who, "verb": "sold", "object": "a kite"},
    ]
    owner.post("/facts", json={"infer": "triples", "triples": triples, "scopes": HOME}).raise_for_status()
    before = {path: agent.get(path) for path in READS}
    assert "Zephyrine" in before["/attributes?count=true"].text
    assert all("X-Keeps-Memory" not in reply.headers for reply in before.values())
    try:
        owner.post("/settings/kill", json={"kill": "no_prompt"}).raise_for_status()
        for path in READS:
            shut = agent.get(path)
            assert (shut.status_code, shut.headers["X-Keeps-Memory"]) == (200, "off"), path
            assert "zephyrine" not in shut.text.casefold(), path
            assert shut.json().get("page", {}).get("total", 0) in (0, None), path
        for path in ("/entities/person/Zephyrine", "/inspect?ref=attribute:person/Zephyrine/role"):
            shut, absent = agent.get(path), agent.get(path.replace("Zephyrine", "Nobody"))
            assert (shut.status_code, absent.status_code) == (404, 404)
            assert shut.json()["title"] == absent.json()["title"]
            assert "zither" in owner.get(path).text
        mine = owner.get("/attributes?count=true")
        assert "Zephyrine" in mine.text
        assert "X-Keeps-Memory" not in mine.headers
    finally:
        owner.post("/settings/kill", json={"kill": "none"}).raise_for_status()
    assert "Zephyrine" in agent.get("/attributes").text
