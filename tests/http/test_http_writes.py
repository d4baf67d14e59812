"""Writes over HTTP: repeats, twins, refusals, and what a key must not reach."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from tests.http.words import fresh

REPLAYED = "Idempotency-Replayed"


@pytest.fixture
async def http(served: Any) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": f"Bearer {served.owner_key}"}
    limits = httpx.Limits(max_connections=80)
    async with httpx.AsyncClient(base_url=served.base, headers=headers, limits=limits, timeout=30) as client:
        yield client


def note(text: str, **more: Any) -> dict[str, Any]:
    return {"text": text, "infer": "none", **more}


async def found(http: httpx.AsyncClient, query: str) -> list[dict[str, Any]]:
    return (await http.post("/query", json={"query": query, "k": 50})).json()["hits"]


async def test_64_identical_parallel_writes_are_one_row_and_64_good_answers(http: httpx.AsyncClient) -> None:
    text, key = fresh("word "), {"Idempotency-Key": secrets.token_hex()}
    replies = await asyncio.gather(*(http.post("/facts", json=note(text), headers=key) for _ in range(64)))
    assert [reply.status_code for reply in replies] == [200] * 64
    assert len({reply.text for reply in replies}) == 1
    assert [reply.headers.get(REPLAYED) for reply in replies].count("true") == 63
    turns = await http.get(f"/sessions/{replies[0].json()['sessionId']}/turns")
    assert len(turns.json()["turns"]) == 1
    assert len(await found(http, text.split()[-1])) == 1


async def test_20_parallel_values_on_one_key_have_one_head(http: httpx.AsyncClient) -> None:
    name = fresh("Mara")

    async def write(number: int) -> httpx.Response:
        triple = {"entity": {"type": "person", "name": name}, "key": "role", "value": f"role {number}"}
        return await http.post("/facts", json={"infer": "triples", "triples": [triple]})

    replies = await asyncio.gather(*map(write, range(20)))
    assert [reply.status_code for reply in replies] == [200] * 20
    entity = (await http.get(f"/entities/person/{name}")).json()
    assert [fact["key"] for fact in entity["attributes"]] == ["role"]
    history = (await http.get(f"/entities/person/{name}/history/role")).json()["history"]
    assert {fact["value"] for fact in history} == {f"role {number}" for number in range(20)}
    assert [fact["id"] for fact in history if "supersededBy" not in fact] == [entity["attributes"][0]["id"]]
    assert [fact["supersedes"] for fact in history[:-1]] == [fact["id"] for fact in history[1:]]


async def test_o38_a_key_for_another_body_is_refused(http: httpx.AsyncClient) -> None:
    key = {"Idempotency-Key": secrets.token_hex()}
    assert (await http.post("/facts", json=note(fresh("word ")), headers=key)).status_code == 200
    again = await http.post("/facts", json=note(fresh("word ")), headers=key)
    assert (again.status_code, again.json()["status"]) == (409, 409)


async def test_o38_the_key_of_another_principal_is_another_key(http: httpx.AsyncClient, served: Any) -> None:
    key = {"Idempotency-Key": secrets.token_hex()}
    other = {**key, "Authorization": f"Bearer {served.agent_key}"}
    mine = await http.post("/facts", json=note(text := fresh("word ")), headers=key)
    theirs = await http.post("/facts", json=note(text), headers=other)
    assert mine.status_code == theirs.status_code == 200
    assert mine.json()["turnId"] != theirs.json()["turnId"]


@pytest.mark.parametrize("purge", [True, False])
async def test_o38_c5_a_key_whose_rows_were_erased_is_gone(http: httpx.AsyncClient, purge: bool) -> None:
    text, key = fresh("word "), {"Idempotency-Key": secrets.token_hex()}
    assert (await http.post("/facts", json=note(text), headers=key)).status_code == 200
    gone = await http.post("/forget", json={"query": text, "purge": purge})
    assert gone.json()["memories"] == 1
    again = await http.post("/facts", json=note(text), headers=key)
    assert again.status_code == 410
    assert text not in again.text
    assert await found(http, text.split()[-1]) == []


@pytest.mark.parametrize("verb", ["entity", "session", "scope"])
async def test_o38_c5_a_key_is_gone_with_what_its_row_belonged_to(http: httpx.AsyncClient, verb: str) -> None:
    name, key = fresh("Mara "), {"Idempotency-Key": secrets.token_hex()}
    scope = "place/" + fresh("")
    triple = {"entity": {"type": "person", "name": name}, "key": "role", "value": fresh("pilot ")}
    body = {"infer": "triples", "triples": [triple], "scopes": [[scope]]}
    first = await http.post("/facts", json=body, headers=key)
    assert first.status_code == 200
    done = {
        "entity": lambda: http.delete(f"/entities/person/{name}"),
        "session": lambda: http.delete(f"/sessions/{first.json()['sessionId']}"),
        "scope": lambda: http.post("/scopes/forget", json={"path": scope}),
    }[verb]
    assert (await done()).is_success
    again = await http.post("/facts", json=body, headers=key)
    assert again.status_code == 410
    assert triple["value"] not in again.text


async def test_o38_c5_a_key_whose_row_went_to_its_other_owner_is_gone(http: httpx.AsyncClient) -> None:
    text, key = fresh("word "), {"Idempotency-Key": secrets.token_hex()}
    mine, theirs = "place/" + fresh(""), "place/" + fresh("")
    body = note(text, scopes=[[mine], [theirs]])
    assert (await http.post("/facts", json=body, headers=key)).status_code == 200
    assert (await http.post("/scopes/forget", json={"path": mine})).is_success
    assert (await http.post("/facts", json=body, headers=key)).status_code == 410
    assert len(await found(http, text.split()[-1])) == 1


async def test_a_failed_write_releases_its_key(http: httpx.AsyncClient) -> None:
    key = {"Idempotency-Key": secrets.token_hex()}
    refused = await http.post("/facts", json=note("x", labels=["_x=1"]), headers=key)
    assert refused.status_code == 400
    assert (await http.post("/facts", json=note(fresh("word ")), headers=key)).status_code == 200


async def test_a_session_is_begun_once_a_key(http: httpx.AsyncClient) -> None:
    key = {"Idempotency-Key": secrets.token_hex()}
    body = {"scopes": [["team/x"]], "metadata": {"n": 1}}
    one = await http.post("/sessions", json=body, headers=key)
    two = await http.post("/sessions", json=body, headers=key)
    assert (one.status_code, two.status_code) == (201, 201)
    assert one.json() == two.json()
    assert two.headers[REPLAYED] == "true"
    assert (await http.delete(f"/sessions/{one.json()['id']}")).status_code == 204
    assert (await http.post("/sessions", json=body, headers=key)).status_code == 410


async def test_a_key_on_a_question_changes_nothing(http: httpx.AsyncClient) -> None:
    key = {"Idempotency-Key": "same"}
    for query in ("one", "two"):
        reply = await http.post("/query", json={"query": query}, headers=key)
        assert reply.status_code == 200
        assert REPLAYED not in reply.headers


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/facts", b"{"),
        ("POST", "/query", b"\xff"),
        ("GET", "/me", b""),
        ("GET", "/nothing/here", b""),
        ("DELETE", "/sessions/x", b""),
    ],
)
async def test_nobody_learns_anything_without_a_key(served: Any, method: str, path: str, body: bytes) -> None:
    async with httpx.AsyncClient(base_url=served.base) as client:
        reply = await client.request(method, path, content=body)
    assert reply.status_code in {401, 404}
    if reply.status_code == 401:
        assert reply.json()["message"]
        assert reply.headers["WWW-Authenticate"] == "Bearer"


async def test_o46_every_wrong_key_and_context_gets_the_same_answer(served: Any) -> None:
    secret = served.owner_key
    wrong = [
        None,
        "nonsense",
        secret[:-1] + ("A" if secret[-1] != "A" else "B"),
        "sp-" + "a" * 20 + secret[23:],
        served.management_key,
        secret + "x",
    ]
    bodies: set[str] = set()
    async with httpx.AsyncClient(base_url=served.endpoint) as client:
        for context in (served.context, "unknown"):
            for key in wrong if context == served.context else [*wrong, secret]:
                headers = {} if key is None else {"Authorization": f"Bearer {key}"}
                reply = await client.get(f"/api/v1/{context}/me", headers=headers)
                assert reply.status_code == 401
                bodies.add(reply.json()["message"])
    assert len(bodies) == 1


@pytest.mark.parametrize(
    "context", ["contexts", "verbs", "health", "migrations", "-x", "a%2Fb", "a%20b", "%C3%A9", "x" * 129]
)
async def test_what_cannot_be_a_context_is_422(served: Any, context: str) -> None:
    async with httpx.AsyncClient(base_url=served.endpoint) as client:
        reply = await client.post(f"/api/v1/{context}/facts/batch", json={})
    assert reply.status_code == 422


@pytest.mark.parametrize("header", ["X-Memory-On-Behalf-Of", "X-Spectron-On-Behalf-Of", "X-Agent-Memory-On-Behalf-Of"])
@pytest.mark.parametrize("prefix", ["", "principal:"])
async def test_whom_to_act_for_is_read_from_three_headers(http: httpx.AsyncClient, header: str, prefix: str) -> None:
    reply = await http.get("/me", headers={header: f"{prefix}agent"})
    assert reply.json()["delegatedPrincipalId"] == "agent"
    assert reply.json()["effectiveGrants"]["memory:read"] == ["user/owner/*"]
    same = {header: "agent", "X-Memory-On-Behalf-Of": "principal:agent"}
    assert (await http.get("/me", headers=same)).status_code == 200


async def test_headers_that_differ_are_refused(http: httpx.AsyncClient) -> None:
    headers = {"X-Memory-On-Behalf-Of": "agent", "X-Spectron-On-Behalf-Of": "owner"}
    assert (await http.get("/me", headers=headers)).status_code == 400


async def test_worked_example_8_a_delegate_has_a_key_of_its_own(http: httpx.AsyncClient) -> None:
    key, text = {"Idempotency-Key": secrets.token_hex()}, fresh("word ")
    mine = await http.post("/facts", json=note(text), headers=key)
    acting = {**key, "X-Memory-On-Behalf-Of": "agent"}
    other = await http.post("/facts", json=note(text), headers=acting)
    assert mine.json()["turnId"] != other.json()["turnId"]


async def test_worked_example_7_writes_are_refused_and_reads_are_empty(served: Any) -> None:
    headers = {"Authorization": f"Bearer {served.agent_key}"}
    async with httpx.AsyncClient(base_url=served.base, headers=headers) as agent:
        refused = await agent.post("/facts", json=note("x", scopes="org/beta"))
        assert refused.status_code == 403
        empty = await agent.post("/query", json={"query": "anything", "lens": "org/beta"})
        assert (empty.status_code, empty.json()["hits"]) == (200, [])


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/facts", {"text": " "}, 400),
        ("/facts", {"text": "x", "session_id": "nobody"}, 403),
        ("/facts", {"text": "x" * (512 * 1024 + 1), "infer": "none"}, 413),
        ("/facts", {"infer": "triples", "triples": []}, 422),
        ("/facts", {"text": "x", "observed_at": "2026-01-01T00:00:00"}, 400),
        ("/facts", {"text": "x", "observed_at": "2062-01-01T00:00:00Z"}, 400),
        ("/facts/batch", {"messages": [{"content": "x", "ts": "2062-01-01T00:00:00Z"}]}, 400),
        ("/facts/batch", {"messages": []}, 400),
        ("/facts/batch", {"messages": [{"content": "x"}] * 1001}, 400),
        ("/query", {"query": " "}, 400),
        ("/query", {"query": "x", "k": 51}, 400),
        ("/query", {"query": "x", "mode": "best"}, 400),
        ("/query", {"query": "x", "location": {"near": {}}}, 501),
        ("/query", {"query": "x", "lens": "a/*/b"}, 400),
        ("/context", {"query": "x", "subject": "nothing"}, 400),
        ("/forget", {}, 400),
        ("/forget", {"query": "a " * 32_769}, 413),
        ("/forget", {"query": "a " * 400_000, "dryRun": True}, 413),
        ("/chat", {"message": "x"}, 501),
    ],
)
async def test_refusals(http: httpx.AsyncClient, path: str, body: dict[str, Any], status: int) -> None:
    reply = await http.post(path, json=body)
    assert (reply.status_code, reply.json()["status"]) == (status, status), reply.text


@pytest.mark.parametrize("place", ["text", "labels", "scopes", "session_id", "key", "value", "name"])
async def test_o18_nul_is_refused_everywhere_and_poisons_nothing(http: httpx.AsyncClient, place: str) -> None:
    body: dict[str, Any] = note(fresh("word "))
    if place in {"key", "value", "name"}:
        triple: dict[str, Any] = {"entity": {"type": "person", "name": "A"}, "key": "k", "value": "v"}
        if place == "name":
            triple["entity"] = {"type": "person", "name": "a\0b"}
        else:
            triple[place] = "a\0b"
        body = {"infer": "triples", "triples": [triple]}
    else:
        body[place] = ["l=a\0b"] if place == "labels" else "a\0b"
    assert (await http.post("/facts", json=body)).status_code == 400
    assert (await http.post("/query", json={"query": "anything"})).status_code == 200


async def test_k_zero_is_the_default_and_fifty_is_allowed(http: httpx.AsyncClient) -> None:
    for k in (0, 1, 50):
        assert (await http.post("/query", json={"query": "word", "limit": k})).status_code == 200


async def test_forget_tells_before_it_removes(http: httpx.AsyncClient) -> None:
    text = fresh("the tide table of ")
    await http.post("/facts", json=note(text))
    told = (await http.post("/forget", json={"query": text, "dryRun": True})).json()
    assert told["deleted"] == told["memories"] == 1
    assert len(told["ids"]) == 1
    assert told["matches"] == [{"id": told["ids"][0], "text": text}]
    near = (await http.post("/forget", json={"query": text.split()[-1], "dry_run": True})).json()
    assert near["deleted"] == 0
    assert [miss["text"] for miss in near["nearMisses"]] == [text]
    done = (await http.post("/forget", json={"ids": told["ids"]})).json()
    assert done["deleted"] == told["deleted"]


async def test_the_reply_of_a_real_forget_holds_no_text(http: httpx.AsyncClient) -> None:
    text = fresh("the spare key hangs behind ")
    await http.post("/facts", json=note(text))
    body = {"query": text, "ids": [text, "turn:" + "a" * 20, "person/nobody/pin"]}
    told = (await http.post("/forget", json={**body, "dryRun": True})).json()
    assert told["unknownIds"] == body["ids"]
    for purge in (False, True):
        key = {"Idempotency-Key": fresh("k")}
        for _ in range(2):
            done = await http.post("/forget", json={**body, "purge": purge}, headers=key)
            assert done.json() == {"deleted": 1, "memories": 1, "unknownIds": ["ids[0]", "ids[1]", "ids[2]"]}
    assert "unknownIds" not in (await http.post("/forget", json={"query": "nothing like it"})).json()


async def test_sessions_are_walked_page_by_page(http: httpx.AsyncClient) -> None:
    made = await http.post(
        "/facts/batch", json={"messages": [{"content": f"m {n}"} for n in range(7)], "infer": "none"}
    )
    session = made.json()["sessionId"]
    path, seen, query = f"/sessions/{session}/turns", [], "limit=3&count=true"
    while True:
        page = (await http.get(f"{path}?{query}")).json()
        seen += [turn["seq"] for turn in page["turns"]]
        assert page["page"].get("totalSize", 7) == 7
        if not page["page"]["hasMore"]:
            break
        query = f"limit=2&cursor={page['page']['nextCursor']}"
    assert seen == list(range(7))
    cursor = (await http.get(f"{path}?limit=1")).json()["page"]["nextCursor"]
    assert (await http.get(f"/sessions?cursor={cursor}")).status_code == 400
    listed = (await http.get("/sessions?limit=1")).json()["sessions"]
    assert (listed[0]["id"], listed[0]["turnCount"]) == (session, 7)
    added = await http.post(f"/sessions/{session}/turns", json={"content": "m 7", "infer": "none"})
    assert added.json()["sessionId"] == session
    got = await http.get(f"/sessions/session:{session}")
    assert got.json()["turnCount"] == 8


async def test_management_keys_and_data_keys_do_not_mix(served: Any) -> None:
    async with httpx.AsyncClient(base_url=f"{served.endpoint}/api/v1") as client:
        for key, status in ((None, 401), ("x", 401), (served.owner_key, 403), (served.management_key, 200)):
            headers = {} if key is None else {"Authorization": f"Bearer {key}"}
            assert (await client.get("/contexts", headers=headers)).status_code == status
            assert (await client.get("/verbs", headers=headers)).status_code == status


async def test_contexts_are_managed(served: Any) -> None:
    name = fresh("ctx-")
    headers = {"Authorization": f"Bearer {served.management_key}"}
    async with httpx.AsyncClient(base_url=f"{served.endpoint}/api/v1/contexts", headers=headers) as client:
        made = await client.post(f"/{name}", json={"description": "d"})
        assert made.status_code == 201
        assert {"id", "namespace", "database", "config", "created_at", "enforcement_blocked"} <= made.json().keys()
        assert (await client.post(f"/{name}", json={})).status_code == 409
        changed = await client.patch(f"/{name}", json={"config": {"response_cache": {"enabled": False}}})
        assert changed.json()["config"]["response_cache"]["enabled"] is False
        assert name in [row["id"] for row in (await client.get("")).json()["contexts"]]
        assert (await client.delete(f"/{name}")).status_code == 204
        assert (await client.get(f"/{name}")).status_code == 404
        assert (await client.post(f"/{name}/lifecycle/reindex")).status_code == 501
        assert (await client.get(f"{served.endpoint}/api/v1/migrations")).status_code == 501


async def test_the_description_covers_every_route_and_every_parameter_is_a_segment(served: Any) -> None:
    async with httpx.AsyncClient(base_url=served.endpoint) as client:
        document = (await client.get("/openapi.json")).json()
        page = await client.get("/docs")
    assert page.status_code == 200
    assert "POST /api/v1/{context}/facts" in page.text
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if method in {"post", "put", "patch"} and not path.endswith(("/rotate", "/verify")):
                assert "requestBody" in operation, path
            assert operation["summary"]
            assert operation["description"]


async def test_what_calls_a_model_can_be_stopped(served: Any) -> None:
    name, manager = fresh("ctx-"), {"Authorization": f"Bearer {served.management_key}"}
    contexts = f"{served.endpoint}/api/v1/contexts"
    async with httpx.AsyncClient() as client:
        await client.post(f"{contexts}/{name}", json={"enforcement_blocked": True}, headers=manager)
        key = (await client.post(f"{contexts}/{name}/principals/admin/keys/main", headers=manager)).json()["key"]
        http = {"url": f"{served.endpoint}/api/v1/{name}/facts", "headers": {"Authorization": f"Bearer {key}"}}
        stopped = await client.post(json={"text": "x"}, **http)
        assert (stopped.status_code, stopped.headers["Retry-After"]) == (429, "60")
        assert (await client.post(json=note("x"), **http)).status_code == 200


async def test_a_principal_is_made_once_a_key(http: httpx.AsyncClient) -> None:
    key = {"Idempotency-Key": secrets.token_hex()}
    body = {"displayName": fresh("Bot ")}
    one = await http.post("/principals", json=body, headers=key)
    two = await http.post("/principals", json=body, headers=key)
    assert (one.status_code, two.status_code) == (201, 201)
    assert one.json() == two.json()
