"""Consent over HTTP: what the official client sees under a policy that asks, and what a body cannot claim."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from surrealdb_memory import Memory
from tests.http.words import fresh

from keeps.services import access, contexts, runs
from keeps.services.runs import NewRun

HOME = [["user/owner"]]


@dataclass(frozen=True)
class Asking:
    """A context that asks, served beside the other one."""

    base: str
    context: str
    endpoint: str
    owner: dict[str, str]
    agent: dict[str, str]
    owner_key: str
    agent_key: str


@pytest.fixture(scope="session")
def asking(served: Any) -> Asking:
    making = contexts.bootstrap(served.rt, "asks", policy="deliberate")
    made = asyncio.run_coroutine_threadsafe(making, served.loop).result(30)
    return Asking(
        base=f"{served.endpoint}/api/v1/asks",
        context="asks",
        endpoint=served.endpoint,
        owner={"Authorization": f"Bearer {made.owner_key}"},
        agent={"Authorization": f"Bearer {made.agent_key}"},
        owner_key=made.owner_key,
        agent_key=made.agent_key,
    )


@pytest.fixture
def http(asking: Asking) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=asking.base, headers=asking.agent, timeout=30) as client:
        yield client


def triple(name: str, key: str, value: str, **more: Any) -> dict[str, Any]:
    return {"entity": {"type": "person", "name": name}, "key": key, "value": value, **more}


def stated(*triples: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"infer": "triples", "triples": list(triples), "scopes": HOME, **more}


def test_a2_the_official_client_sees_what_waits_without_our_pages(asking: Asking) -> None:
    name, value = fresh("Mara"), fresh("rye")
    with Memory(asking.context, endpoint=asking.endpoint, api_key=asking.agent_key, max_retries=0) as memory:
        done = memory.remember(infer="triples", triples=[triple(name, "likes", value)])
        assert done.extraction is not None
        assert (done.extraction.attributes, done.extraction.entities) == ([], [])
        assert done.extraction.uncertainties == [{"about": f"{name} likes {value}.", "reason": "waits for approval"}]
        assert [each.name for each in memory.entities.list().entities if each.name == name] == []
        assert memory.recall(f"what does {name} like?").hits == []
        assert value not in memory.query_context(f"what does {name} like?").context


def test_a2_the_reply_and_its_header_say_what_waits(http: httpx.Client, asking: Asking) -> None:
    value = fresh("rye")
    reply = http.post("/facts", json=stated(triple("Mara", "likes", value), triple("Mara", "enjoys", value)))
    assert (reply.status_code, reply.headers["X-Keeps-Pending"]) == (200, "2")
    extraction = reply.json()["extraction"]
    assert extraction["turnId"] == ""
    first = extraction["proposals"][0]
    assert {**first, "id": "", "expiresAt": ""} == {
        "id": "",
        "status": "proposed",
        "kind": "preference",
        "text": f"Mara likes {value}.",
        "reason": "policy",
        "key": "likes",
        "value": value,
        "expiresAt": "",
    }
    again = http.post("/facts", json=stated(triple("Mara", "likes", value)))
    assert "X-Keeps-Pending" not in again.headers
    assert again.json()["extraction"]["dropped"] == [{"reason": "known", "kind": "preference", "index": 0}]
    assert value not in str(again.json()["extraction"]["dropped"])
    batch = http.post("/facts/batch", json={"messages": [{"content": "hello"}], "infer": "none", "scopes": HOME})
    assert "X-Keeps-Pending" not in batch.headers


def test_the_owners_key_saves_at_once(http: httpx.Client, asking: Asking) -> None:
    reply = http.post("/facts", json=stated(triple("Mara", "likes", fresh("rye"))), headers=asking.owner)
    assert "X-Keeps-Pending" not in reply.headers
    assert len(reply.json()["extraction"]["attributes"]) == 1


def test_a4_what_a_body_claims_about_itself_has_no_effect(http: httpx.Client, asking: Asking) -> None:
    claims = {
        "status": "confirmed",
        "userConfirmed": True,
        "user_confirmed": True,
        "trust": 1.0,
        "origin": "user_saved",
        "createdAt": "2001-01-01T00:00:00Z",
        "created_at": "2001-01-01T00:00:00Z",
        "id": "aaaaaaaaaaaaaaaaaaaa",
        "taint": [],
        "confirmedBy": "owner",
        "proposedBy": "owner",
        "sensitivity": "normal",
        "pinned": True,
    }
    value = fresh("rye")
    reply = http.post("/facts", json=stated(triple("Mara", "likes", value, **claims), **claims))
    assert reply.status_code == 200
    (proposal,) = reply.json()["extraction"]["proposals"]
    assert reply.json()["extraction"]["attributes"] == []
    assert proposal["id"] != claims["id"]
    assert proposal["status"] == "proposed"
    assert not proposal["expiresAt"].startswith("2001")
    saved = http.post("/facts", json=stated(triple("Mara", "plays", value, **claims), **claims), headers=asking.owner)
    (row,) = saved.json()["extraction"]["attributes"]
    assert row["id"] != claims["id"]
    listed = http.get("/attributes", headers=asking.owner).json()
    (shown,) = [each for each in listed["attributes"] if each["id"].endswith(row["id"])]
    assert not shown["createdAt"].startswith("2001")


def test_a15_a_secret_is_refused_by_class_and_never_shown(http: httpx.Client, asking: Asking) -> None:
    secret = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
    for body in (
        stated(triple("Mara", "token", secret)),
        stated(triple("Mara", "likes", "rye"), labels=[f"token={secret}"]),
        stated(triple("Mara", "likes", "rye"), metadata={"k": secret}),
    ):
        for who in (asking.agent, asking.owner):
            reply = http.post("/facts", json=body, headers={**who, "Idempotency-Key": fresh("key")})
            assert reply.status_code == 422
            assert reply.json()["type"].endswith("secret-refused")
            assert "api key" in reply.json()["message"]
            assert secret not in reply.text
    reply = http.post("/facts", json={"text": f"mine is {secret}", "infer": "none", "scopes": HOME})
    assert reply.json()["removed"] == ["api key"]
    turns = http.get(f"/sessions/{reply.json()['sessionId']}/turns", headers=asking.owner).json()["turns"]
    assert [turn["content"] for turn in turns] == ["mine is [removed: api key]"]
    batch = {"messages": [{"content": f"it is {secret}"}, {"content": "fine"}], "infer": "none", "scopes": HOME}
    assert http.post("/facts/batch", json=batch).json()["removed"] == ["api key"]


def test_h9_a_temporary_run_keeps_nothing(http: httpx.Client, served: Any, asking: Asking) -> None:
    async def open_one() -> str:
        context = await served.rt.context("asks")
        who = await access.authenticate(served.rt, "asks", asking.agent_key, None)
        return (await runs.open_run(served.rt, context, who.caller, NewRun(temporary=True))).id

    run = asyncio.run_coroutine_threadsafe(open_one(), served.loop).result(30)
    word = fresh("rye")
    reply = http.post("/facts", json=stated(triple("Mara", "likes", word), text=word, runId=run))
    assert reply.status_code == 200
    assert "turnId" not in reply.json()
    assert reply.json()["dropped"] == [{"reason": "temporary", "kind": "turn"}]
    assert reply.json()["extraction"]["dropped"] == [{"reason": "temporary", "kind": "", "index": 0}]
    batch = {"messages": [{"content": word}], "scopes": HOME, "runId": run}
    reply = http.post("/facts/batch", json=batch)
    assert (reply.json()["turnIds"], reply.json()["dropped"]) == ([], [{"reason": "temporary", "kind": "turn"}])
    assert word not in http.post("/query", json={"query": word}, headers=asking.owner).text
    unknown = http.post("/facts", json=stated(triple("Mara", "likes", word), runId="a" * 20))
    assert unknown.status_code == 404


def test_an_answer_sent_again_is_the_one_that_was_given(http: httpx.Client) -> None:
    headers = {"Idempotency-Key": fresh("key")}
    body = stated(triple("Mara", "likes", fresh("rye")))
    first, second = (http.post("/facts", json=body, headers=headers) for _ in range(2))
    assert first.json() == second.json()
    assert len(first.json()["extraction"]["proposals"]) == 1
