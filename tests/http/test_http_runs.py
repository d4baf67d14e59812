"""Runs over HTTP: what an agent is offered, what it cites, who may look, and that no text is kept of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from tests.http.words import fresh

from keeps.core.runs import EndReason, Inclusion, Reason

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


async def of_new_principal(served: Any, scope: str, kind: str = "agent") -> str:
    """The key of a new principal that may read and write over one scope."""
    headers = {"Authorization": f"Bearer {served.management_key}"}
    async with httpx.AsyncClient(base_url=f"{served.endpoint}/api/v1", headers=headers, timeout=30) as management:
        grants = {"memory:read": [f"{scope}/*"], "memory:write": [f"{scope}/*"]}
        body = {"displayName": fresh("P"), "kind": kind, "grants": grants}
        made = await management.post(f"/contexts/{served.context}/principals", json=body)
        assert made.status_code in (200, 201), made.text
        principal = made.json()["id"]
        key = await management.post(f"/contexts/{served.context}/principals/{principal}/keys/{fresh('k')}")
        assert key.status_code in (200, 201), key.text
        return key.json()["key"]


async def say(http: httpx.AsyncClient, value: str, scope: str = HOME) -> str:
    entity = {"type": "person", "name": fresh("m")}
    body = {"infer": "triples", "triples": [{"entity": entity, "key": "hums", "value": value}], "scopes": [[scope]]}
    reply = await http.post("/facts", json=body)
    assert reply.status_code == 200, reply.text
    return f"attribute:{reply.json()['extraction']['attributes'][0]['id']}"


async def opened(http: httpx.AsyncClient, **body: Any) -> str:
    reply = await http.post("/runs", json=body)
    assert reply.status_code == 201, reply.text
    return reply.json()["id"]


async def ask(http: httpx.AsyncClient, query: str, **more: Any) -> dict[str, Any]:
    reply = await http.post("/context", json={"query": query, **more})
    assert reply.status_code == 200, reply.text
    return reply.json()


async def cite(http: httpx.AsyncClient, run: str, *cites: str) -> dict[str, Any]:
    reply = await http.post(f"/runs/{run}/citations", json={"cites": list(cites)})
    assert reply.status_code == 200, reply.text
    return reply.json()


async def seen(http: httpx.AsyncClient, run: str) -> dict[str, Any]:
    reply = await http.get(f"/runs/{run}")
    assert reply.status_code == 200, reply.text
    return reply.json()


async def everything_kept(served: Any, *, but: tuple[str, ...] = ()) -> str:
    """Every row of every table of the context, as text; read in the loop of the server."""

    async def read() -> str:
        context = await served.rt.context(served.context)
        await context.traces.flush()
        await context.runs.traces.flush()
        names = sorted((await context.db.run("INFO FOR DB;"))[0]["tables"])
        assert {"run", "run_memory", "memory_use", "turn", "proposal", "session", "reply"} <= set(names)
        told = [
            await context.db.run("SELECT * FROM type::table($table);", timeout_s=30, table=name)
            for name in names
            if name not in but
        ]
        return repr(told)

    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(read(), served.loop))


# ---------------------------------------------------------------------- what a run tells
async def test_e1_a_run_tells_all_its_fields_and_no_text(served: Any, agent: httpx.AsyncClient) -> None:
    word = fresh("tune")
    ref = await say(agent, f"the {word} song")
    session = (await agent.post("/sessions", json={})).json()["id"]
    run = await opened(agent, sessionId=session)
    block = await ask(agent, f"who hums {word}", runId=run)
    assert (block["runId"], ref in block["context"]) == (run, True)
    await cite(agent, run, ref)
    call = {"name": "search", "ok": False, "ms": 12, "contradicts": [ref]}
    closing = {"endReason": "answered", "toolCalls": [call], "cost": {"usd": 0.02}, "tokens": 900, "latencyMs": 2100}
    assert (await agent.patch(f"/runs/{run}", json=closing)).status_code == 200
    assert (await agent.post(f"/runs/{run}/outcome", json={"outcome": "helped"})).status_code == 200
    found = await seen(agent, run)
    assert (found["id"], found["agentId"], found["sessionId"]) == (run, "agent", session)
    assert (found["mode"], found["settingsVersion"]) == ("hybrid", 0)
    assert found["startedAt"] < found["endedAt"]
    assert found["endReason"] in set(EndReason)
    assert found["selectedMemoryIds"] == [ref]
    assert (found["toolCalls"], found["cost"], found["tokens"], found["latencyMs"]) == (
        [call],
        {"usd": 0.02},
        900,
        2100,
    )
    assert (found["citesKept"], found["citesDropped"], found["outcome"], found["degraded"]) == (1, 0, "helped", [])
    assert found["tokensMemory"] > 0
    memory = next(each for each in found["memories"] if each["id"] == ref)
    assert memory["retrievalReason"] in set(Reason)
    assert memory["promptInclusion"] == "included"
    assert {each["promptInclusion"] for each in found["memories"]} <= set(Inclusion)
    assert 0 < memory["retrievalScore"] <= 1
    assert (memory["rank"], memory["origin"], memory["cited"]) == (1, "auto_accepted", True)
    kept = await everything_kept(served, but=("attribute", "turn", "memory_chunk", "entity", "reply", "change"))
    assert run in kept
    assert word not in kept


async def test_e2_of_cites_only_real_ones_are_kept_once(
    served: Any, owner: httpx.AsyncClient, agent: httpx.AsyncClient
) -> None:
    word = fresh("tune")
    ref, forgotten = await say(agent, f"{word} one"), await say(agent, f"{word} two")
    elsewhere = await say(owner, f"{word} three", "org/north")
    run = await opened(agent)
    block = await ask(agent, word, runId=run)
    assert {ref, forgotten} <= {each["id"] for each in block["offered"]}
    await owner.post("/forget", json={"ids": [forgotten], "purge": True})
    cites = [ref, "attribute:" + "q" * 20, elsewhere, forgotten, ref, f" {ref} ", ref.upper(), "memory:x\u202ey"]
    done = await cite(agent, run, *cites)
    assert (done["kept"], done["dropped"], done["reason"]) == ([ref], 6, "not_offered")
    assert "uncited" not in done
    assert [each["id"] for each in done["memoriesUsed"]["cited"]] == [ref]
    assert word in done["memoriesUsed"]["cited"][0]["text"]
    bare = await opened(agent)
    assert await cite(agent, bare, ref) == {
        "kept": [],
        "dropped": 1,
        "reason": "not_offered",
        "uncited": True,
        "memoriesUsed": {"cited": [], "alsoShown": []},
    }
    found = await seen(agent, run)
    assert forgotten.partition(":")[2] not in str(found["memories"])
    assert found["citesKept"] == 1
    assert forgotten not in found["selectedMemoryIds"]


async def test_e3_the_same_run_five_times_counts_once(served: Any, agent: httpx.AsyncClient) -> None:
    word = fresh("tune")
    ref = await say(agent, word)
    run = await opened(agent)
    for _ in range(5):
        await ask(agent, word, runId=run)
        await cite(agent, run, ref)

    async def uses() -> list[dict[str, Any]]:
        context = await served.rt.context(served.context)
        await context.runs.traces.flush()
        return (await context.db.run("SELECT * FROM memory_use WHERE memory = $memory;", memory=ref))[0]

    (use,) = await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(uses(), served.loop))
    assert (use["offered"], use["cited"]) == (1, 1)
    assert (await seen(agent, run))["citesKept"] == 1


async def test_e4_who_may_look_at_a_run(served: Any, owner: httpx.AsyncClient, agent: httpx.AsyncClient) -> None:
    word = fresh("tune")
    ref = await say(agent, word)
    run = (await ask(agent, word))["runId"]
    async with (
        client_of(served, await of_new_principal(served, "org/south")) as tenant,
        client_of(served, await of_new_principal(served, HOME)) as other,
    ):
        absent = fresh("r" * 10)
        for stranger in (tenant, other):
            refusals = [await stranger.get(f"/runs/{id_}") for id_ in (run, absent)]
            assert [reply.status_code for reply in refusals] == [404, 404]
            assert refusals[0].json()["message"].replace(run, "X") == refusals[1].json()["message"].replace(absent, "X")
            for path, body in (("citations", {"cites": [ref]}), ("outcome", {"outcome": "hurt"})):
                assert (await stranger.post(f"/runs/{run}/{path}", json=body)).status_code == 404
            assert (await stranger.patch(f"/runs/{run}", json={"endReason": "answered"})).status_code == 404
            assert (await stranger.post("/context", json={"query": word, "runId": run})).status_code == 404
            listed = await stranger.get("/runs", params={"memory": ref})
            assert listed.json()["runs"] == []
    assert [each["id"] for each in (await agent.get("/runs", params={"memory": ref})).json()["runs"]] == [run]
    found = await seen(owner, run)
    assert found["selectedMemoryIds"] == [ref]
    assert (await owner.post(f"/runs/{run}/citations", json={"cites": [ref]})).status_code == 404
    assert (await owner.post(f"/runs/{run}/outcome", json={"outcome": "hurt"})).status_code == 200


async def test_runs_are_listed_in_pages_by_agent_session_and_memory(
    owner: httpx.AsyncClient, agent: httpx.AsyncClient
) -> None:
    session = (await agent.post("/sessions", json={})).json()["id"]
    made = [await opened(agent, sessionId=session) for _ in range(3)]
    first = (await agent.get("/runs", params={"sessionId": session, "limit": 2})).json()
    cursor = first["page"]["nextCursor"]
    rest = (await agent.get("/runs", params={"sessionId": session, "limit": 2, "cursor": cursor})).json()
    assert [each["id"] for each in first["runs"] + rest["runs"]] == made[::-1]
    assert rest["page"]["hasMore"] is False
    assert (await agent.get("/runs", params={"limit": 2, "cursor": cursor})).status_code == 400
    by_owner = await opened(owner)
    listed = (await owner.get("/runs", params={"agent": "owner", "limit": 1})).json()
    assert [each["id"] for each in listed["runs"]] == [by_owner]
    assert by_owner not in [each["id"] for each in (await agent.get("/runs", params={"limit": 500})).json()["runs"]]


# ---------------------------------------------------------------------- strict bodies
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "", {"sesionId": "x"}),
        ("POST", "", {"temporary": "yes please"}),
        ("POST", "", {"id": "a" * 20}),
        ("PATCH", "/{run}", {"endReason": "bored"}),
        ("PATCH", "/{run}", {"outcome": "helped"}),
        ("PATCH", "/{run}", {"toolCalls": [{"name": "search", "ok": True, "ms": 1, "arguments": "mara"}]}),
        ("PATCH", "/{run}", {"toolCalls": [{"name": "what mara said", "ok": True, "ms": 1}]}),
        ("PATCH", "/{run}", {"toolCalls": [{"name": "t", "ok": True, "ms": -1}]}),
        ("PATCH", "/{run}", {"toolCalls": [{"name": "t", "ok": True, "ms": 1, "contradicts": ["mara is a pilot"]}]}),
        ("PATCH", "/{run}", {"cost": {"what mara paid": 1}}),
        ("PATCH", "/{run}", {"cost": {"usd": -1}}),
        ("PATCH", "/{run}", {"cost": {"usd": "a lot"}}),
        ("PATCH", "/{run}", {"endReason": "temporary"}),
        ("POST", "/{run}/citations", {}),
        ("POST", "/{run}/citations", {"cites": "attribute:x"}),
        ("POST", "/{run}/citations", {"cites": ["a"], "because": "x"}),
        ("POST", "/{run}/outcome", {"outcome": "great"}),
        ("POST", "/{run}/outcome", {"outcome": "hurt", "text": "it was rude"}),
    ],
)
async def test_what_is_not_understood_is_refused(
    agent: httpx.AsyncClient, method: str, path: str, body: dict[str, Any]
) -> None:
    run = await opened(agent)
    reply = await agent.request(method, "/runs" + path.format(run=run), json=body)
    assert reply.status_code == 400, reply.text
    found = await seen(agent, run)
    assert found.get("endReason") is found.get("outcome") is None
    assert (found["toolCalls"], found["cost"], found["citesDropped"]) == ([], {}, 0)


# ---------------------------------------------------------------------- what is not kept
async def test_h9_a_temporary_chat_leaves_no_text_anywhere(served: Any, agent: httpx.AsyncClient) -> None:
    known, canary = fresh("known"), fresh("canary")
    await say(agent, f"the {known} song")
    session = (await agent.post("/sessions", json={})).json()["id"]
    run = await opened(agent, sessionId=session, temporary=True)
    entity = {"type": "person", "name": canary}
    triple = {"entity": entity, "key": "hums", "value": canary}
    for where in ({"runId": run}, {"sessionId": session}, {"runId": run, "sessionId": session}):
        for path, body in (
            ("/facts", {"text": f"my secret is {canary}", "infer": "none"}),
            ("/facts", {"infer": "triples", "triples": [triple]}),
            ("/facts/batch", {"messages": [{"content": canary}, {"content": f"{canary} again"}], "infer": "none"}),
        ):
            reply = await agent.post(path, json=body | where, headers={"Idempotency-Key": fresh("key")})
            assert reply.status_code == 200, reply.text
        block = await ask(agent, f"{known} {canary}", **where)
        assert (block["context"], known in str(block)) == ("", False)
        found = await agent.post("/query", json={"query": f"{known} {canary}"} | where)
        assert found.json()["hits"] == []
    turn = await agent.post(f"/sessions/{session}/turns", json={"role": "user", "content": canary})
    assert turn.status_code < 300, turn.text
    assert (await agent.get(f"/sessions/{session}/turns")).json()["turns"] == []
    around = await agent.post(f"/sessions/{session}/context", json={"query": f"{known} {canary}"})
    assert (around.status_code, known in around.text, canary in around.text) == (200, False, False)
    memory = {"kind": "note", "text": f"remember {canary}", "runId": run}
    assert (await agent.post("/memories", json=memory)).json().get("dropped") is True
    for change in ({"temporary": False}, {"saving": True}):
        assert (await agent.patch(f"/runs/{run}", json=change)).status_code == 409
    closed = await agent.patch(
        f"/runs/{run}", json={"endReason": "answered", "toolCalls": [{"name": canary, "ok": True}]}
    )
    assert closed.json()["endReason"] == "temporary"
    assert (await agent.post("/runs", json={"sessionId": session})).status_code == 409
    await agent.post("/facts", json={"text": f"late {canary}", "infer": "none", "sessionId": session})
    found = await seen(agent, run)
    assert (found["memories"], found["toolCalls"], found["endReason"]) == ([], [], "temporary")
    assert canary not in await everything_kept(served)
    for path in ("/query", "/context"):
        assert canary not in (await agent.post(path, json={"query": canary})).json()


async def test_a_run_that_saves_nothing_still_uses_memory(served: Any, agent: httpx.AsyncClient) -> None:
    known, canary = fresh("known"), fresh("canary")
    ref = await say(agent, f"the {known} song")
    run = await opened(agent, saving=False)
    assert ref in (await ask(agent, known, runId=run))["context"]
    reply = await agent.post("/facts", json={"text": f"keep {canary}", "infer": "none", "runId": run})
    assert reply.status_code == 200, reply.text
    assert canary not in await everything_kept(served)
    assert (await agent.patch(f"/runs/{run}", json={"saving": True})).status_code == 409
    assert (await seen(agent, run))["selectedMemoryIds"] == [ref]


async def test_a_run_id_of_somebody_else_is_refused_by_what_writes(
    owner: httpx.AsyncClient, agent: httpx.AsyncClient
) -> None:
    run = await opened(owner)
    for id_ in (run, "q" * 20, "no such run"):
        reply = await agent.post("/facts", json={"text": "hello", "infer": "none", "runId": id_})
        assert reply.status_code == 404, reply.text
