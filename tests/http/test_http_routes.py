"""Every list, its two shapes, its pages; look-ups by name; keys and principals over both doors."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from tests.http.words import fresh


@pytest.fixture
async def http(served: Any) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": f"Bearer {served.owner_key}"}
    async with httpx.AsyncClient(base_url=served.base, headers=headers, timeout=30) as client:
        yield client


@pytest.fixture
async def manager(served: Any) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": f"Bearer {served.management_key}"}
    base = f"{served.endpoint}/api/v1/contexts/{served.context}"
    async with httpx.AsyncClient(base_url=base, headers=headers, timeout=30) as client:
        yield client


async def state(http: httpx.AsyncClient, *triples: dict[str, Any], **more: Any) -> dict[str, Any]:
    reply = await http.post("/facts", json={"infer": "triples", "triples": list(triples), **more})
    assert reply.status_code == 200, reply.text
    return reply.json()


def fact(name: str, key: str, value: str, type_: str = "person") -> dict[str, Any]:
    return {"entity": {"type": type_, "name": name}, "key": key, "value": value}


def edge(name: str, label: str, target: str) -> dict[str, Any]:
    ends = {"entity": {"type": "person", "name": name}, "target": {"type": "project", "name": target}}
    return {**ends, "key": label}


LEGACY = {"User-Agent": "surrealdb-py-spectron/1.0"}


@pytest.mark.parametrize("noun", ["scopes", "principals", "keys"])
async def test_lists_are_arrays_for_older_clients_and_objects_for_others(http: httpx.AsyncClient, noun: str) -> None:
    await http.post("/scopes", json={"path": fresh("a/")})
    asked = {**LEGACY, "X-List-Envelope": "object"}
    bare = (await http.get(f"/{noun}", headers=LEGACY)).json()
    assert isinstance(bare, list)
    names = [row.get("id", row.get("path")) for row in bare]
    for query, headers, count in (("", {}, len(bare)), ("?limit=1&count=true", LEGACY, 1), ("", asked, len(bare))):
        whole = (await http.get(f"/{noun}{query}", headers=headers)).json()
        assert whole.keys() == {noun, "page"}
        assert [row.get("id", row.get("path")) for row in whole[noun]] == names[:count]
        assert whole["page"]["hasMore"] == (count < len(bare))
        assert whole["page"].get("totalSize", len(bare)) == len(bare)
    assert (await http.get(f"/{noun}?limit=9999")).status_code == 200


@pytest.mark.parametrize("noun", ["scopes", "principals", "keys", "entities", "attributes", "relations", "sessions"])
async def test_lists_are_walked_and_cursors_belong_to_one_list(http: httpx.AsyncClient, noun: str) -> None:
    for _ in range(3):
        name = fresh("m")
        await state(http, fact(name, "note", "x"), edge(name, "works_on", fresh()), scopes=fresh("walk/"))
        await http.post("/principals", json={"display_name": name})
        await http.post("/keys", json={"name": name})
    every = (await http.get(f"/{noun}?limit=500")).json()[noun]
    ids = [row.get("id", row.get("path")) for row in every]
    seen, query = [], "limit=2"
    while True:
        page = (await http.get(f"/{noun}?{query}")).json()
        seen += [row.get("id", row.get("path")) for row in page[noun]]
        if not page["page"]["hasMore"]:
            break
        query = f"limit=2&cursor={page['page']['nextCursor']}"
    assert seen == ids
    assert len(set(ids)) == len(ids) >= 3
    cursor = (await http.get(f"/{noun}?limit=1")).json()["page"]["nextCursor"]
    other = "entities" if noun != "entities" else "attributes"
    assert (await http.get(f"/{other}?cursor={cursor}")).status_code == 400
    assert (await http.get(f"/{noun}?cursor={cursor}x{cursor}")).status_code == 400


async def test_a_cursor_holds_for_its_filters_only(http: httpx.AsyncClient) -> None:
    for _ in range(2):
        await state(http, fact(fresh("q"), "note", "x", "topic"))
    first = (await http.get("/entities?type=topic&limit=1")).json()
    cursor = first["page"]["nextCursor"]
    assert (await http.get(f"/entities?type=topic&cursor={cursor}")).status_code == 200
    assert (await http.get(f"/entities?type=person&cursor={cursor}")).status_code == 400
    assert (await http.get(f"/entities?type=topic&cursor={cursor}&offset=1")).status_code == 400


@pytest.mark.parametrize(
    "name", ["TCP/IP", "100% wool", "a%2Fb", "Zoë Ångström", "日本 語", "x:y", "a+b", "..b", "history", "search"]
)
async def test_any_name_is_reached_by_its_path(http: httpx.AsyncClient, name: str) -> None:
    name = f"{name} {fresh()}"
    await state(http, fact(name, "kept", "yes"))
    path = f"/entities/person/{httpx.QueryParams({'n': name})['n']}"
    quoted = "/entities/person/" + "".join(f"%{byte:02X}" for byte in name.encode())
    got = await http.get(quoted)
    assert (got.status_code, got.json()["entity"]["name"]) == (200, name), path
    history = await http.get(f"{quoted}/history/kept/")
    assert [row["value"] for row in history.json()["history"]] == ["yes"]
    assert (await http.delete(quoted)).status_code == 204
    assert (await http.get(quoted)).status_code == 404


async def test_entities_are_found_by_name_and_by_neighbours(http: httpx.AsyncClient) -> None:
    name, project = fresh("Mara "), fresh("Teal ")
    await state(http, fact(name, "role", "pilot"), edge(name, "works_on", project))
    found = (await http.get("/entities/search", params={"q": name.upper()})).json()["matches"]
    (match,) = (match for match in found if match["score"] == 1.0)  # others may share a word of the name
    assert (match["entity"]["name"], match["score"], match["factCount"]) == (name, 1.0, 2)
    assert match["distinguisher"]
    assert match["lastLearnedAt"]
    around = (await http.get(f"/entities/person/{name}/neighbourhood?count=true")).json()
    (far,) = around["neighbours"]
    assert (far["label"], far["outbound"], far["far"]["entity"]["name"]) == ("works_on", True, project)
    assert around["page"] == {"hasMore": False, "totalSize": 1}
    back = (await http.get(f"/entities/project/{project}/neighbourhood")).json()["neighbours"]
    assert [(row["outbound"], row["far"]["entity"]["name"]) for row in back] == [(False, name)]
    refused = await http.get(f"/entities/person/{name}/neighbourhood?minFacts=1&count=true")
    assert refused.status_code == 400
    relations = (await http.get("/relations", params={"src": f"person/{name}"})).json()["relations"]
    assert [row["label"] for row in relations] == ["works_on"]
    listed = (await http.get("/attributes", params={"entity": f"person/{name}", "key": "Role"})).json()
    assert [row["value"] for row in listed["attributes"]] == ["pilot"]
    top = await http.get("/entities/top?by=importance&limit=2")
    assert len(top.json()["entities"]) == 2
    assert (await http.get("/entities/top?by=luck")).status_code == 400
    assert (await http.get("/entities/search")).status_code == 400


async def test_the_history_of_all_keys_is_paged(http: httpx.AsyncClient) -> None:
    name = fresh("Ines")
    for number in range(3):
        await state(http, fact(name, "role", f"r{number}"), fact(name, "mood", f"m{number}"))
    every = (await http.get(f"/entities/person/{name}/history")).json()
    assert len(every["history"]) == 6
    assert every["page"] == {"hasMore": False}
    first = (await http.get(f"/entities/person/{name}/history?limit=4")).json()
    cursor = first["page"]["nextCursor"]
    rest = (await http.get(f"/entities/person/{name}/history?cursor={cursor}")).json()
    assert [row["id"] for row in first["history"] + rest["history"]] == [row["id"] for row in every["history"]]
    assert (await http.get(f"/entities/person/{name}/history/none")).status_code == 404
    assert (await http.get(f"/entities/person/{fresh()}/history")).status_code == 404


async def test_actions_and_doubts_are_listed(http: httpx.AsyncClient) -> None:
    name = fresh("Mara")
    action = {"entity": {"type": "person", "name": name}, "verb": "docked", "object": "MV Teal"}
    hint = {**fact(name, "mood", "calm"), "temporal_hint": "some time in spring"}
    await state(http, {**action, "occurred_at": "2026-11-29T00:00:00Z"}, hint)
    params = {"actor": f"person/{name}", "since": "2026-11-29T00:00:00Z", "until": "2026-11-29T00:00:00Z"}
    (row,) = (await http.get("/actions", params=params)).json()["actions"]
    assert (row["actor"], row["verb"], row["objectText"]) == (f"entity:person/{name.lower()}", "docked", "MV Teal")
    assert row["occurredAt"] == "2026-11-29T00:00:00Z"
    assert "object" not in row
    doubts = (await http.get("/uncertainty?resolved=false&limit=500")).json()["unknowns"]
    assert "some time in spring" in [doubt["about"] for doubt in doubts]


@pytest.mark.parametrize(
    ("ref", "status"),
    [
        ("", 400),
        ("nonsense", 400),
        ("entity:person", 400),
        ("attribute:person/nobody/role", 404),
        ("entity:person/nobody", 404),
        ("person:nobody", 404),
        ("relation:person/a-[knows]->person/b", 404),
        ("turn:aaaaaaaaaaaaaaaaaaaa", 404),
        ("session:aaaaaaaaaaaaaaaaaaaa", 404),
        ("uncertainty:aaaaaaaaaaaaaaaaaaaa", 404),
    ],
)
async def test_references_that_name_nothing(http: httpx.AsyncClient, ref: str, status: int) -> None:
    reply = await http.get("/inspect", params={"ref": ref})
    assert reply.status_code == status, reply.text


async def test_every_kind_of_reference_is_looked_up(http: httpx.AsyncClient) -> None:
    name, project = fresh("Mara"), fresh("Teal")
    done = await state(http, fact(name, "role", "pilot"), edge(name, "works_on", project))
    attribute = done["extraction"]["attributes"][0]["id"]
    said = (await http.post("/facts", json={"text": fresh("word "), "infer": "none"})).json()
    kinds = {
        f"entity:person/{name}": "entity",
        f"person:{name}": "entity",
        f"attribute:person/{name}/role": "attribute",
        f"attribute:{attribute}": "attribute",
        f"relation:person/{name}-[works_on]->project/{project}": "relation",
        f"turn:{said['turnId']}": "turn",
        f"memory_chunk:{said['chunkId']}": "memory_chunk",
        f"session:{said['sessionId']}": "session",
    }
    for ref, kind in kinds.items():
        reply = await http.get("/inspect", params={"ref": ref})
        assert (reply.status_code, reply.json()["kind"]) == (200, kind), (ref, reply.text)
    found = (await http.get("/inspect", params={"ref": f"attribute:{attribute}"})).json()
    assert found["attribute"]["id"] == found["current"]["id"] == attribute


async def test_a_hit_leads_to_what_it_rests_on(http: httpx.AsyncClient) -> None:
    word = fresh()
    done = (await http.post("/facts", json={"text": f"the {word} bell", "infer": "none", "speaker": "Bo"})).json()
    (hit,) = (await http.post("/query", json={"query": word})).json()["hits"]
    assert hit["id"] == f"memory_chunk:{done['chunkId']}"
    assert hit["sourceRef"] == f"turn:{done['turnId']}"
    assert (hit["speaker"], hit["status"], hit["chunkIds"]) == ("Bo", "confirmed", [hit["id"]])
    assert {"trust", "origin", "occurredAt", "resource"} <= hit.keys()
    turn = (await http.get("/inspect", params={"ref": hit["sourceRef"]})).json()["turn"]
    assert word in turn["content"]


async def test_labels_come_back_as_they_were(http: httpx.AsyncClient) -> None:
    name = fresh("Lab")
    await state(http, fact(name, "gap.kind", "loops"), labels=["claude_session=1", "ticket=42"])
    (row,) = (await http.get(f"/entities/person/{name}")).json()["attributes"]
    assert (row["key"], row["labels"]) == ("gap_kind", ["claude_session=1", "ticket=42"])


async def test_principals_are_made_once_an_external_id(http: httpx.AsyncClient) -> None:
    external, name = fresh("ext-"), fresh("Bot ")
    body = {"displayName": name, "externalId": external, "kind": "agent"}
    one = await http.post("/principals", json=body)
    two = await http.post("/principals", json={**body, "displayName": fresh()})
    assert (one.status_code, two.status_code) == (201, 200)
    assert one.json() == two.json()
    assert (await http.post("/principals", json={"displayName": name})).status_code == 409
    assert (await http.post("/principals", json={"displayName": fresh(), "kind": "robot"})).status_code == 400
    path = f"/principals/{one.json()['id']}/grants"
    assert (await http.post(path, json={"path": "a/*", "verbs": ["read"]})).status_code == 400
    assert (await http.post(path, json={"path": "a/*", "verbs": []})).status_code == 400
    refused = await http.post("/principals/system/grants", json={"path": "a/*", "verbs": ["memory:read"]})
    assert refused.status_code == 403
    at = await http.get(f"/principals/{one.json()['id']}/effective?path=a&asOf=2020-01-01T00:00:00Z")
    assert at.json() == {"path": "a/", "verbs": [], "asOf": "2020-01-01T00:00:00Z"}


async def test_an_agent_key_may_not_manage(served: Any) -> None:
    headers = {"Authorization": f"Bearer {served.agent_key}"}
    async with httpx.AsyncClient(base_url=served.base, headers=headers) as agent:
        assert (await agent.get("/principals")).status_code == 403
        assert len((await agent.get("/keys")).json()["keys"]) == 1
        assert (await agent.post("/scopes", json={"path": "other/x"})).status_code == 403
        assert (await agent.post("/scopes/forget", json={"path": "other"})).status_code == 403
        wider = await agent.post("/keys", json={"grants": {"memory:read": ["/*"]}})
        assert wider.status_code == 400
        acting = {"X-Memory-On-Behalf-Of": "owner"}
        assert (await agent.get("/me", headers=acting)).status_code == 401


async def test_a_delegated_caller_mints_no_keys(http: httpx.AsyncClient) -> None:
    reply = await http.post("/keys", headers={"X-Memory-On-Behalf-Of": "agent"})
    assert reply.status_code == 403


async def test_a_minted_key_is_never_kept_for_a_repeat(http: httpx.AsyncClient) -> None:
    key = {"Idempotency-Key": fresh()}
    one = await http.post("/keys?ttl_seconds=60", headers=key)
    two = await http.post("/keys?ttl_seconds=60", headers=key)
    assert one.json()["key"] != two.json()["key"]


async def test_management_of_principals_and_keys(manager: httpx.AsyncClient, served: Any) -> None:
    name = fresh("Svc ")
    made = await manager.post("/principals", json={"display_name": name, "kind": "service", "home": "svc/a"})
    assert made.status_code == 201
    pid = made.json()["id"]
    assert {"id", "kind", "display_name", "grants"} <= made.json().keys()
    granted = await manager.post(f"/principals/{pid}/grants", json={"path": "svc/*", "verbs": ["memory:read"]})
    assert granted.json()["grants"] == {"memory:read": ["svc/*"]}
    object_form = {"grants": {"memory:write": [{"svc": "a"}]}, "trusted_writer": True}
    patched = await manager.patch(f"/principals/{pid}", json=object_form)
    assert patched.json()["grants"] == {"memory:write": ["svc/a"]}
    assert patched.json()["trusted_writer"] is True
    put = await manager.put(f"/principals/{pid}", json={"kind": "agent"})
    assert put.json()["kind"] == "agent"
    minted = await manager.post(f"/principals/{pid}/keys/main?ttl_seconds=60")
    assert minted.status_code == 201
    assert minted.json()["valid_until"]
    assert (await manager.post(f"/principals/{pid}/keys/main")).status_code == 409
    async with httpx.AsyncClient(
        base_url=served.base, headers={"Authorization": f"Bearer {minted.json()['key']}"}
    ) as client:
        assert (await client.get("/me")).json()["principalId"] == pid
        turned = await manager.post(f"/principals/{pid}/keys/main/rotate")
        assert turned.json()["id"] == minted.json()["id"]
        assert (await client.get("/me")).status_code == 401
    listed = (await manager.get(f"/principals/{pid}/keys")).json()
    assert [(row["name"], row["principal_id"]) for row in listed] == [("main", pid)]
    assert "main" in [row["name"] for row in (await manager.get("/keys")).json()]
    assert (await manager.post("/principals/owner/keys/main/rotate")).status_code == 404
    assert (await manager.delete(f"/principals/{pid}/keys/main")).status_code == 204
    token = await manager.post("/access-tokens", json={"external_id": fresh("u"), "ttl_seconds": 60})
    assert token.status_code == 201
    assert {"principal_id", "id", "key", "valid_until"} == token.json().keys()
    assert (await manager.delete(f"/principals/{pid}")).status_code == 204
    assert (await manager.get(f"/principals/{pid}")).status_code == 404
    assert (await manager.delete("/principals/admin")).status_code == 403
    assert pid not in [row["id"] for row in (await manager.get("/principals")).json()]


async def test_no_parameter_of_a_path_is_left_escaped(served: Any) -> None:
    async with httpx.AsyncClient(base_url=served.endpoint) as client:
        document = (await client.get("/openapi.json")).json()
    assert len(document["paths"]) >= 40
    for path, operations in document["paths"].items():
        for operation in operations.values():
            names = {item["name"] for item in operation.get("parameters", ()) if item["in"] == "path"}
            assert names == {part[1:-1] for part in path.split("/") if part.startswith("{")}, path
    shapes = document["components"]["schemas"]
    wanted = set(re.findall(r'"\$ref": "([^"]+)"', json.dumps(document)))
    assert wanted == {ref for ref in wanted if ref.removeprefix("#/components/schemas/") in shapes}
    ids = [operation["operationId"] for path in document["paths"].values() for operation in path.values()]
    assert len(ids) == len(set(ids))


async def test_worked_example_1_a_correction_leaves_a_history(http: httpx.AsyncClient) -> None:
    name = fresh("foo_")
    for value, label in (("A", "run=1"), ("B", "run=2")):
        await state(http, fact(name, "gap.kind", value, "topic"), labels=[label], scopes="learner/x")
    new, old = (await http.get(f"/entities/topic/{name}/history/gap_kind")).json()["history"]
    assert (new["value"], old["value"]) == ("B", "A")
    assert new["supersedes"] == old["id"]
    assert old["supersededBy"] == new["id"]
    assert "validUntil" not in new
    assert old["validUntil"] == new["validFrom"]
    assert (old["labels"], new["labels"]) == (["run=1"], ["run=2"])
    for row in (new, old):
        assert (row["source"]["kind"], row["source"]["trust"]) == ("upsert", 0.95)
        assert row["scope"] == [["learner/x/"]]


async def test_worked_example_5_what_was_forgotten_was_never_known(http: httpx.AsyncClient) -> None:
    name = fresh("Tom")
    for year, value in (("2020", "rigger"), ("2021", "bosun")):
        await state(http, fact(name, "role", value), observed_at=f"{year}-01-01T00:00:00Z")
    ref = {"ref": f"attribute:person/{name}/role", "asOf": "2020-06-01T00:00:00Z"}
    assert (await http.get("/inspect", params=ref)).json()["current"]["value"] == "rigger"
    gone = (await http.post("/forget", json={"query": f"entity:person/{name}"})).json()
    assert gone["memories"] == 1
    assert gone["deleted"] >= 2
    assert (await http.get("/inspect", params=ref)).status_code == 404
    asked = {"query": f"role of {name}", "asOf": ref["asOf"], "include": ["facts"]}
    hits = (await http.post("/query", json=asked)).json()["hits"]
    assert [hit for hit in hits if name in hit["text"]] == []
