"""Many clients at the same moment: twins, values of one key, all kinds of writes on one entity."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.faults.audit import audit
from tests.faults.server import Server, fact, note, serving

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("parallel") / "memory") as server:
        yield server


def at_once(server: Server, requests: list[tuple[str, str, Any, dict[str, str]]]) -> list[httpx.Response]:
    """The replies to requests that are all sent at the same time."""
    limits = httpx.Limits(max_connections=len(requests), max_keepalive_connections=len(requests))
    with server.client(limits=limits) as http, ThreadPoolExecutor(len(requests)) as pool:
        sent = [
            pool.submit(http.request, method, path, json=body, headers=headers)
            for method, path, body, headers in requests
        ]
        return [each.result() for each in sent]


@pytest.mark.parametrize("body", [note("the tide turns at noon"), fact("role", "pilot", name="Twin")])
def test_64_twins_are_one_row_and_64_equal_answers(server: Server, body: dict[str, Any]) -> None:
    replies = at_once(server, [("POST", "/facts", body, {"Idempotency-Key": "twin" + body["infer"]})] * 64)
    assert [reply.status_code for reply in replies] == [200] * 64
    assert len({reply.text for reply in replies}) == 1
    assert [reply.headers.get("Idempotency-Replayed") for reply in replies].count("true") == 63
    told = replies[0].json()
    with server.client() as http:
        assert len(http.get(f"/sessions/{told['sessionId']}/turns").json()["turns"]) == 1
        if body["infer"] == "none":
            found = http.post("/query", json={"query": body["text"], "k": 50}).json()["hits"]
            assert [hit["sourceRef"] for hit in found] == [f"turn:{told['turnId']}"]
        else:
            history = http.get("/entities/person/Twin/history/role").json()["history"]
            assert [row["id"] for row in history] == [told["extraction"]["attributes"][0]["id"]]


def test_20_values_of_one_key_are_one_head_and_its_history(server: Server) -> None:
    values = [f"role {number}" for number in range(20)]
    replies = at_once(server, [("POST", "/facts", fact("role", value, name="Crowd"), {}) for value in values])
    assert [reply.status_code for reply in replies] == [200] * 20
    with server.client() as http:
        live = http.get("/attributes?entity=person/Crowd").json()["attributes"]
        history = http.get("/entities/person/Crowd/history/role").json()["history"]
    assert [row["id"] for row in live] == [history[0]["id"]]
    assert sorted(row["value"] for row in history) == sorted(values)


def test_many_valued_keys_never_supersede_each_other(server: Server) -> None:
    bodies = [fact("likes", f"harbour {number}", name="Fan") for number in range(20)]
    replies = at_once(server, [("POST", "/facts", body, {}) for body in bodies])
    assert [reply.status_code for reply in replies] == [200] * 20
    with server.client() as http:
        live = http.get("/attributes?entity=person/Fan").json()["attributes"]
    assert len(live) == 20
    assert all("supersededBy" not in row for row in live)


def test_50_mixed_writes_on_one_entity_and_no_fault(server: Server) -> None:
    with server.client() as http:
        session = http.post("/sessions", json={}).json()["id"]
        http.post("/facts", json=fact("role", "deckhand"))
        doomed = http.post("/facts", json=fact("hat", "a red one")).json()["extraction"]["attributes"][0]["id"]
    relation = {
        "entity": {"type": "person", "name": "Mara"},
        "key": "works_at",
        "target": {"type": "organisation", "name": "North Port"},
    }
    deed = {"entity": {"type": "person", "name": "Mara"}, "verb": "moored", "object": "the Teal"}
    kinds = [
        lambda n: ("POST", "/facts", fact("role", f"role {n}"), {}),
        lambda n: ("POST", "/facts", fact("likes", f"boat {n}"), {}),
        lambda n: ("POST", "/facts", {"infer": "triples", "triples": [relation, deed]}, {}),
        lambda n: ("POST", "/facts", note(f"Mara said {n}", session_id=session), {}),
        lambda n: ("POST", "/facts", fact("role", "pilot", observed_at=f"2026-01-{n % 28 + 1:02}T00:00:00Z"), {}),
        lambda n: ("POST", "/facts/batch", {"infer": "none", "messages": [{"content": f"a {n}"}] * 3}, {}),
        lambda n: ("POST", "/facts", fact("role", "same", confidence=0.5), {}),
        lambda n: ("POST", "/query", {"query": "what is Mara's role"}, {}),
        lambda n: ("GET", "/entities/person/Mara", None, {}),
        lambda n: ("POST", "/forget", {"ids": [f"attribute:{doomed}"]}, {}),
    ]
    replies = at_once(server, [kinds[n % len(kinds)](n) for n in range(50)])
    assert {reply.status_code for reply in replies} == {200}, [r.text for r in replies if r.status_code != 200]
    with server.client() as http:
        assert len(http.get("/attributes?key=role").json()["attributes"]) >= 1
        assert http.get("/attributes?key=hat").json()["attributes"] == []
        turns = http.get(f"/sessions/{session}/turns").json()["turns"]
        assert [turn["seq"] for turn in turns] == [0, 1, 2, 3, 4]


async def test_the_record_is_sound_after_all_that(server: Server) -> None:
    """Also: the values of one key stand in their history in the order of their commits."""
    assert server.stop() == 0
    found = await audit(server.folder)
    assert "\n".join(found.faults) == ""
    assert len(set(found.contents()) & {"the tide turns at noon"}) == found.contents()["the tide turns at noon"]
    first: dict[str, int] = {}
    for number, change in sorted(found.rows["change"].items(), key=lambda item: int(item[0])):
        for ref in change["rows"]:
            first.setdefault(ref, int(number))
    crowd = {key: row for key, row in found.rows["attribute"].items() if row["entity"] == "person/crowd"}
    for key, row in crowd.items():
        before = row.get("supersedes")
        assert before is None or first[f"attribute:{before}"] < first[f"attribute:{key}"]
