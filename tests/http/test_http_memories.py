"""Memories over HTTP: who decides, what is refused, and what a reply says."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.http.conftest import Served

from keeps.services import contexts


@pytest.fixture(scope="module")
def keys(served: Served) -> tuple[str, str, str]:
    """A context that asks, and the keys of its owner and their agent."""
    made = asyncio.run_coroutine_threadsafe(
        contexts.bootstrap(served.rt, "keeping", policy="deliberate"), served.loop
    ).result(30)
    return made.context, made.owner_key, made.agent_key


@pytest.fixture
def people(served: Served, keys: tuple[str, str, str]) -> Iterator[tuple[httpx.Client, httpx.Client]]:
    """The owner and their agent, each with a key of their own."""
    context, *both = keys
    base = f"{served.endpoint}/api/v1/{context}"
    clients = [httpx.Client(base_url=base, headers={"Authorization": f"Bearer {key}"}, timeout=30) for key in both]
    yield clients[0], clients[1]
    for client in clients:
        client.close()


def save(who: httpx.Client, text: str, **more: Any) -> httpx.Response:
    return who.post("/memories", json={"kind": "preference", "text": text} | more)


def test_a1_a_save_is_answered_with_the_memory_and_its_revision(people: tuple[httpx.Client, httpx.Client]) -> None:
    owner, agent = people
    answer = save(owner, "Studying patience", kind="note", source="sheet")
    memory = answer.json()
    assert (answer.status_code, answer.headers["ETag"]) == (201, '"1"')
    assert (memory["status"], memory["origin"], memory["userConfirmed"], memory["rev"]) == (
        "confirmed",
        "user_saved",
        True,
        1,
    )
    assert memory["source"]["kind"] == "sheet"
    assert owner.get(f"/memories/{memory['id']}").json()["uses"] == {"offered": 0, "cited": 0}
    assert "uses" not in agent.get(f"/memories/{memory['id']}").json()
    assert agent.get(f"/memories/{memory['id']}").json()["text"] == "Studying patience"


def test_a2_a3_a_proposal_waits_and_its_agent_cannot_confirm_it(people: tuple[httpx.Client, httpx.Client]) -> None:
    owner, agent = people
    answer = save(agent, "Prefers short answers")
    memory = answer.json()
    assert (answer.status_code, memory["status"], answer.headers["X-Keeps-Pending"]) == (201, "proposed", "1")
    assert "short answers" not in agent.post("/context", json={"query": "short answers"}).text
    refused = agent.post(f"/memories/{memory['id']}/confirm")
    assert (refused.status_code, refused.json()["type"].rpartition(":")[2]) == (403, "forbidden")
    for name in ("agent", "owner"):  # a key that manages nobody acts for nobody
        headers = {"X-Memory-On-Behalf-Of": name}
        assert agent.post(f"/memories/{memory['id']}/confirm", headers=headers).status_code == 401
    assert agent.get(f"/memories/{memory['id']}").json()["status"] == "proposed"
    assert owner.post(f"/memories/{memory['id']}/confirm").json()["status"] == "confirmed"
    assert "short answers" in agent.post("/context", json={"query": "short answers"}).text


@pytest.mark.parametrize(
    "field", ["status", "userConfirmed", "trust", "origin", "createdAt", "id", "taint", "nonsense"]
)
def test_a4_a_forged_field_is_refused_and_nothing_is_stored(
    people: tuple[httpx.Client, httpx.Client], field: str
) -> None:
    owner, _ = people
    for who in people:
        refused = save(who, f"Forged by {field}", **{field: "confirmed"})
        assert refused.status_code == 400
        assert field in refused.json()["detail"]
    for who in people:
        assert who.get("/memories", params={"q": "forged by"}).json()["memories"] == []
    memory = save(owner, f"Honest about {field}").json()
    path = f"/memories/{memory['id']}"
    before = owner.get(path).json()
    assert owner.patch(path, json={field: "x"}, headers={"If-Match": '"1"'}).status_code == 400
    assert owner.get(path).json() == before


def test_an_edit_names_the_revision_it_was_made_for(people: tuple[httpx.Client, httpx.Client]) -> None:
    owner, _ = people
    memory = save(owner, "Works at Mill Bakery", slot="work").json()
    path = f"/memories/attribute:{memory['id']}"
    for headers in ({}, {"If-Match": '"9"'}):
        stale = owner.patch(path, json={"pinned": True}, headers=headers)
        assert (stale.status_code, stale.json()["type"].rpartition(":")[2]) == (412, "stale-revision")
    pinned = owner.patch(path, json={"pinned": True}, headers={"If-Match": '"1"'})
    assert (pinned.json()["pinned"], pinned.headers["ETag"]) == (True, '"2"')
    ends = owner.patch(path, json={"expiresAt": "2099-01-01T00:00:00Z"}, headers={"If-Match": '"2"'})
    assert ends.json()["expiresAt"] == "2099-01-01T00:00:00Z"
    lasts = owner.patch(path, json={"expiresAt": None}, headers={"If-Match": '"3"'})
    assert "expiresAt" not in lasts.json()
    assert owner.patch(path, json={}, headers={"If-Match": '"4"'}).status_code == 400
    moved = owner.patch(path, json={"slot": "employer"}, headers={"If-Match": '"4"'})
    assert moved.status_code == 400
    assert "then retire this one" in moved.json()["detail"]


def test_a_move_that_is_not_possible_is_409_with_its_own_kind(people: tuple[httpx.Client, httpx.Client]) -> None:
    owner, _ = people
    memory = save(owner, "Keeps bees").json()
    refused = owner.post(f"/memories/{memory['id']}/confirm")
    assert (refused.status_code, refused.json()["type"].rpartition(":")[2]) == (409, "illegal-transition")
    assert owner.post("/memories/nosuchmemory00000000/confirm").status_code == 404


def test_a6_what_was_rejected_is_dropped_with_its_reason(people: tuple[httpx.Client, httpx.Client]) -> None:
    owner, agent = people
    memory = save(agent, "Collects old anchors at home").json()
    rejected = owner.post(f"/memories/{memory['id']}/reject").json()
    assert (rejected["status"], "text" in rejected) == ("rejected", False)
    again = save(agent, "collects OLD anchors at home")
    assert (again.status_code, again.json()["dropped"], again.json()["reason"]) == (200, True, "suppressed")
    assert "X-Keeps-Pending" not in again.headers


def test_a_repeated_save_is_done_once_and_its_reply_goes_with_the_memory(
    people: tuple[httpx.Client, httpx.Client],
) -> None:
    owner, agent = people
    body, headers = {"kind": "note", "text": "Sings on Sundays"}, {"Idempotency-Key": "sing"}
    first, second = (agent.post("/memories", json=body, headers=headers) for _ in range(2))
    assert (first.json(), second.headers["Idempotency-Replayed"]) == (second.json(), "true")
    memory_id = first.json()["id"]
    assert owner.post(f"/memories/{memory_id}/confirm").status_code == 200
    assert owner.delete(f"/memories/{memory_id}").status_code == 200
    gone = agent.post("/memories", json=body, headers=headers)
    assert (gone.status_code, "Sings" in gone.text) == (410, False)


def test_c14_a_deleted_memory_is_404_and_comes_back_by_undo(people: tuple[httpx.Client, httpx.Client]) -> None:
    owner, agent = people
    memory = save(owner, "Zanzibar").json()
    deleted = owner.delete(f"/memories/{memory['id']}").json()
    assert (deleted["status"], "text" in deleted, "undoUntil" in deleted) == ("forgotten", False, True)
    for who in people:
        assert who.get(f"/memories/{memory['id']}").status_code == 404
    assert agent.post(f"/memories/{memory['id']}/undo").status_code == 404
    back = owner.post(f"/memories/{memory['id']}/undo").json()
    assert (back["text"], back["rev"]) == ("Zanzibar", 1)


async def test_a11_of_twenty_decisions_at_once_one_is_made_and_nothing_fails(
    served: Served, keys: tuple[str, str, str]
) -> None:
    context, owner_key, agent_key = keys
    base = f"{served.endpoint}/api/v1/{context}"
    async with httpx.AsyncClient(base_url=base, headers={"Authorization": f"Bearer {owner_key}"}, timeout=60) as owner:
        headers = {"Authorization": f"Bearer {agent_key}"}
        made = await owner.post("/memories", json={"kind": "fact", "text": "Races pigeons"}, headers=headers)
        path = f"/memories/{made.json()['id']}"
        moves = ["confirm", "reject"] * 10
        done = await asyncio.gather(*(owner.post(f"{path}/{move}", headers={"If-Match": '"1"'}) for move in moves))
    codes = Counter(answer.status_code for answer in done)
    assert codes[200] == 1
    assert set(codes) <= {200, 404, 409, 412}


async def test_a17_of_twenty_saves_to_one_slot_one_value_stands(served: Served, keys: tuple[str, str, str]) -> None:
    context, owner_key, _ = keys
    base = f"{served.endpoint}/api/v1/{context}"
    async with httpx.AsyncClient(base_url=base, headers={"Authorization": f"Bearer {owner_key}"}, timeout=60) as owner:
        bodies = [{"kind": "preference", "text": f"colour {n}", "slot": "favourite"} for n in range(20)]
        done = await asyncio.gather(*(owner.post("/memories", json=body) for body in bodies))
        assert {answer.status_code for answer in done} == {201}
        listed = (await owner.get("/memories", params={"slot": "favourite"})).json()["memories"]
        assert len(listed) == 1
        history = (await owner.get(f"/memories/{listed[0]['id']}/history")).json()["versions"]
    assert [each["status"] for each in history] == ["confirmed", *["superseded"] * 19]
