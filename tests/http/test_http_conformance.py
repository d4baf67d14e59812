"""The official Python client, blocking and async, against the real server: contents compared, not only decoded."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from datetime import datetime
from operator import attrgetter
from typing import Any

import pytest
from surrealdb_memory import AsyncMemory, Memory, MemoryNotFoundError
from tests.http.words import fresh

from keeps.core.access import Verb


class Client:
    """One client of either kind, called by the name of a method."""

    def __init__(self, kind: str, served: Any, key: str) -> None:
        self.loop = asyncio.new_event_loop() if kind == "async" else None
        args = {"endpoint": served.endpoint, "api_key": key, "max_retries": 0}
        self.memory: Any = (AsyncMemory if self.loop else Memory)(served.context, **args)

    def __call__(self, method: str, *args: Any, **kwargs: Any) -> Any:
        call = attrgetter(method)(self.memory)
        if self.loop is None:
            return call(*args, **kwargs)

        async def run() -> Any:
            result = call(*args, **kwargs)
            return await result if inspect.isawaitable(result) else result

        return self.loop.run_until_complete(run())

    def close(self) -> None:
        if self.loop is None:
            self.memory.close()
            return
        self.loop.run_until_complete(self.memory.close())
        self.loop.run_until_complete(asyncio.sleep(0.05))
        self.loop.close()


@pytest.fixture(params=["blocking", "async"])
def client(request: pytest.FixtureRequest, served: Any) -> Iterator[Client]:
    client = Client(request.param, served, served.owner_key)
    yield client
    client.close()


def triple(name: str, key: str, value: str, **more: Any) -> dict[str, Any]:
    return {"entity": {"type": "person", "name": name}, "key": key, "value": value, **more}


def is_time(text: str) -> bool:
    return text.endswith("Z") and datetime.fromisoformat(text).tzinfo is not None


def test_health(client: Client) -> None:
    assert client("health")["status"] == "ok"


def test_remember_none_keeps_turn_and_passage(client: Client) -> None:
    text = f"The quay master counted {fresh('crate')} yesterday."
    done = client("remember", text, infer="none", labels=["ticket=42"])
    assert (done.mode, done.extraction) == ("none", None)
    assert done.session_id
    assert done.turn_id
    assert done.chunk_id
    turns = client("sessions.turns", done.session_id).turns
    assert [(turn.id, turn.session, turn.role, turn.content, turn.seq) for turn in turns] == [
        (done.turn_id, done.session_id, "user", text, 0)
    ]
    assert is_time(turns[0].created_at)


@pytest.mark.parametrize("infer", [None, "full"])
def test_remember_full_without_a_model_keeps_the_turn(client: Client, infer: str | None) -> None:
    done = client("remember", f"I pilot {fresh('ship')}.", infer=infer)
    assert done.mode == "full"
    assert done.extraction.turn_id == done.turn_id
    assert (done.extraction.attributes, done.extraction.entities) == ([], [])


def test_remember_preview_stores_nothing(client: Client) -> None:
    done = client("remember", "I pilot ships.", infer="preview")
    assert (done.mode, done.preview, done.turn_id) == ("preview", True, None)
    assert done.session_id
    assert done.extraction.turn_id == ""


def test_remember_triples_and_their_correction(client: Client) -> None:
    name = fresh("Mara")
    ref = f"entity:person/{name.casefold()}"
    first = client("remember", infer="triples", triples=[triple(name, "role", "deckhand")])
    assert first.mode == "triples"
    (entity,) = first.extraction.entities
    assert entity == {
        "id": ref,
        "name": name,
        "entityType": "person",
        "memoryCategory": "knowledge",
        "isNew": True,
    }
    (old,) = first.extraction.attributes
    assert {**old, "id": "x"} == {
        "id": "x",
        "entityId": ref,
        "key": "role",
        "value": "deckhand",
        "memoryCategory": "knowledge",
    }
    second = client("remember", infer="triples", triples=[triple(name, "role", "harbour pilot")])
    assert second.extraction.corrections == [
        {"entityId": ref, "key": "role", "oldValue": "deckhand", "newValue": "harbour pilot"}
    ]
    assert second.extraction.entities[0]["isNew"] is False
    (new,) = second.extraction.attributes

    got = client("entities.get", "person", name)
    assert (got.entity.id, got.entity.name, got.entity.entity_type) == (ref, name, "person")
    assert got.entity.importance > 0
    assert is_time(got.entity.created_at)
    assert is_time(got.entity.updated_at)
    assert [(a.id, a.entity, a.key, a.value, a.supersedes) for a in got.attributes] == [
        (new["id"], ref, "role", "harbour pilot", old["id"])
    ]
    history = client("entities.history", "person", name, "role").history
    assert [(a.value, a.supersedes, a.superseded_by) for a in history] == [
        ("harbour pilot", old["id"], None),
        ("deckhand", None, new["id"]),
    ]
    assert history[1].valid_until == history[0].valid_from
    assert all(is_time(a.created_at) and a.memory_category == "knowledge" for a in history)


def test_relations_and_actions(client: Client) -> None:
    name, port = fresh("Mara"), fresh("North Port ")
    done = client(
        "remember",
        infer="triples",
        triples=[
            {
                "entity": {"type": "person", "name": name},
                "key": "works_at",
                "target": {"type": "company", "name": port},
            },
            {"entity": {"type": "person", "name": name}, "verb": "docked", "object": "MV Teal"},
        ],
    )
    assert done.extraction.relations == [
        {
            "subject": name.casefold(),
            "label": "works_at",
            "object": port.casefold(),
            "memoryCategory": "knowledge",
        }
    ]
    got = client("entities.get", "person", name)
    assert [(r.subject, r.label, r.object_) for r in got.relations] == [
        (f"entity:person/{name.casefold()}", "works_at", f"entity:organisation/{port.casefold()}")
    ]


def test_remember_many_keeps_order(client: Client) -> None:
    items = [{"role": "user", "content": fresh("one ")}, {"role": "assistant", "content": fresh("two ")}]
    done = client("remember_many", items, infer="none", labels=["run=1"])
    assert len(done.turn_ids) == 2
    assert done.extractions == []
    turns = client("sessions.turns", done.session_id).turns
    assert [(turn.id, turn.role, turn.content, turn.seq) for turn in turns] == [
        (done.turn_ids[0], "user", items[0]["content"], 0),
        (done.turn_ids[1], "assistant", items[1]["content"], 1),
    ]
    more = client("remember_many", [{"content": "three"}], infer="none", session_id=done.session_id)
    assert more.session_id == done.session_id
    page = client("sessions.turns", done.session_id, limit=1, offset=2)
    assert [(turn.id, turn.seq) for turn in page.turns] == [(more.turn_ids[0], 2)]


@pytest.mark.parametrize(("extract", "count"), [(None, 1), ("whole_conversation", 1), ("per_message", 2)])
def test_remember_many_full_counts_extractions(client: Client, extract: str | None, count: int) -> None:
    items = [{"role": "user", "content": fresh("a ")}, {"role": "user", "content": fresh("b ")}]
    assert len(client("remember_many", items, extract=extract).extractions) == count


def test_recall_finds_words_with_everything_filled(client: Client) -> None:
    word, name = fresh("zephyr"), fresh("Mara")
    client("remember", f"The lighthouse keeper mentioned {word} at dusk.", infer="none", labels=["t=1"])
    client("remember", infer="triples", triples=[triple(name, "favourite_wind", word)])
    found = client("recall", f"what about {word}", k=5)
    assert {hit.source for hit in found.hits} == {"memory_chunk", "attribute"}
    assert all(word in hit.text and 0 < hit.score <= 1 for hit in found.hits)
    assert all(hit.id.partition(":")[0] == hit.source for hit in found.hits)
    assert [hit.score for hit in found.hits] == sorted((hit.score for hit in found.hits), reverse=True)
    assert found.tier
    assert found.classification_kind
    assert found.query_ms >= 0
    assert found.trace["traceId"]
    assert found.trace["retrievedCount"] == len(found.hits)
    labelled = client("recall", word, labels=["t=1"])
    assert [hit.source for hit in labelled.hits] == ["memory_chunk"]
    facts = client("recall", word, include=["facts"])
    assert {hit.source for hit in facts.hits} == {"attribute"}
    assert client("recall", fresh("nothing")).hits == []


def test_query_context(client: Client) -> None:
    word = fresh("halyard")
    client("remember", f"The {word} snapped in the gale.", infer="none")
    found = client("query_context", word, k=8)
    assert word in found.context
    assert found.tier
    empty = client("query_context", fresh("nothing"))
    assert empty.context == ""


def test_worked_example_4_as_of(client: Client) -> None:
    name = fresh("Tom")
    for year, value in (("2020", "rigger"), ("2021", "bosun")):
        body = {
            "infer": "triples",
            "triples": [triple(name, "role", value)],
            "observed_at": f"{year}-01-01T00:00:00Z",
        }
        base = client.memory._base
        client("_transport.request", "POST", f"{base}/facts", json=body)
    ref = f"attribute:person/{name}/role"
    assert client("inspect", ref)["current"]["value"] == "bosun"
    assert client("inspect", ref, as_of="2020-06-01T00:00:00Z")["current"]["value"] == "rigger"
    assert "current" not in client("inspect", ref, as_of="2019-06-01T00:00:00Z")
    hits = client("recall", f"role of {name}", as_of="2020-06-01T00:00:00Z", include=["facts"]).hits
    assert "rigger" in hits[0].text
    assert not any("bosun" in hit.text for hit in hits)


def test_inspect(client: Client) -> None:
    name = fresh("Ines")
    client("remember", infer="triples", triples=[triple(name, "role", "cook")])
    client("remember", infer="triples", triples=[triple(name, "role", "chef")])
    entity = client("inspect", f"entity:person/{name}")
    assert (entity["kind"], entity["entity"]["name"]) == ("entity", name)
    assert [row["value"] for row in entity["attributes"]] == ["chef"]
    assert entity["truncated"] == {"attributes": False, "relations": False}
    attribute = client("inspect", f"attribute:person/{name}/role")
    assert attribute["kind"] == "attribute"
    assert attribute["current"]["value"] == "chef"
    assert [row["value"] for row in attribute["history"]] == ["chef", "cook"]
    assert attribute["current"]["source"]["kind"] == "upsert"
    assert attribute["current"]["source"]["trust"] == 0.95


def test_forget_and_purge(client: Client) -> None:
    for purge in (False, True):
        word, name = fresh("sextant"), fresh("Nell")
        client("remember", infer="triples", triples=[triple(name, "carries", word)])
        assert client("recall", word).hits
        assert client("forget", word, purge=purge).deleted >= 1
        assert client("recall", word).hits == []
    assert client("forget", fresh("nothing")).deleted == 0


def test_whoami(client: Client, served: Any) -> None:
    me = client("whoami")
    assert me.principal_id
    assert me.display_name
    assert (me.kind, me.enforce, me.delegated_principal_id) == ("human", True, None)
    assert set(me.grants) == {verb.value for verb in Verb}
    assert me.effective_grants["memory:read"] == ["/*"]


def test_sessions(client: Client) -> None:
    session = client("sessions.create", scopes="team/boats", metadata={"x": 1})
    assert session.id
    assert session.scopes == [["team/boats/"]]
    assert is_time(session.created_at)
    assert client("sessions.create").scopes
    word = fresh("binnacle")
    done = client("remember", f"A {word} stood by the wheel.", infer="none", session_id=session.id)
    assert done.session_id == session.id
    assert word in client("sessions.context", session.id, word).context
    assert client("sessions.delete", session.id) is None
    with pytest.raises(Exception, match="404"):
        client("sessions.turns", session.id)
    assert client("recall", word).hits == []


def test_entities(client: Client) -> None:
    name = fresh("Alice Smith/")
    client("remember", infer="triples", triples=[triple(name, "dotted.key", "v")])
    listed = client("entities.list", entity_type="person").entities
    assert name in [entity.name for entity in listed]
    assert client("entities.get", "person", name).entity.name == name
    history = client("entities.history", "person", name, "dotted.key").history
    assert [(row.key, row.value) for row in history] == [("dotted_key", "v")]
    assert client("entities.delete", "person", name) is None
    for method, *args in (("entities.get",), ("entities.history", "dotted_key")):
        with pytest.raises(Exception, match="404"):
            client(method, "person", name, *args)


def test_scopes(client: Client) -> None:
    path = fresh("fleet/")
    node = client("scopes.register", path, description="d", display_name="Fleet")
    assert (node.path, node.tombstoned_at) == (f"{path}/", None)
    assert is_time(node.created_at)
    assert client("scopes.register", path).created_at == node.created_at
    assert f"{path}/" in [row.path for row in client("scopes.list")]
    client("remember", fresh("x "), infer="none", scopes=path)
    forgotten = client("scopes.forget", path)
    assert forgotten.forgotten >= 2
    assert client("scopes.forget", path).forgotten == 0
    assert client("scopes.delete", path) is None
    (row,) = [row for row in client("scopes.list") if row.path == f"{path}/"]
    assert is_time(row.tombstoned_at)
    with pytest.raises(Exception, match="400"):
        client("scopes.forget")


def test_principals(client: Client, served: Any) -> None:
    name = fresh("Pilot bot ")
    made = client(
        "_transport.request",
        "POST",
        f"{client.memory._base}/principals",
        json={"displayName": name, "kind": "agent"},
    )
    assert made["displayName"] == name
    listed = {row.id: row for row in client("principals.list")}
    assert listed[made["id"]].display_name == name
    granted = client("principals.grant", made["id"], "org/north/*", ["memory:read", "memory:write"])
    assert granted.grants == {"memory:read": ["org/north/*"], "memory:write": ["org/north/*"]}
    effective = client("principals.effective", made["id"], "org/north/user")
    assert (effective.path, sorted(effective.verbs)) == ("org/north/user/", ["memory:read", "memory:write"])
    left = client("principals.revoke", made["id"], "org/north/*", ["memory:write"])
    assert left.grants == {"memory:read": ["org/north/*"]}
    got = client("principals.get", made["id"])
    assert (got.kind, got.display_name, got.grants) == ("agent", name, left.grants)


def test_keys(client: Client, served: Any) -> None:
    name = fresh("ci-")
    made = client("keys.create", name=name, grants={"memory:read": ["org/north/*"]}, ttl_seconds=60)
    assert made.key.startswith(f"sp-{made.id}-")
    assert is_time(made.valid_until)
    (row,) = [row for row in client("keys.list") if row.id == made.id]
    assert (row.name, row.grants) == (name, {"memory:read": ["org/north/*"]})
    assert is_time(row.created_at)
    narrow = Client("blocking", served, made.key)
    assert narrow("whoami").token_grants == {"memory:read": ["org/north/*"]}
    turned = client("keys.rotate", name)
    assert turned.id == made.id
    assert turned.key != made.key
    with pytest.raises(Exception, match="401"):
        narrow("whoami")
    narrow.close()
    assert client("keys.delete", name) is None
    late = Client("blocking", served, turned.key)
    with pytest.raises(Exception, match="401"):
        late("whoami")
    late.close()
    assert client("keys.create").id


def test_delegation(client: Client) -> None:
    me = client("whoami")
    acting = client("whoami", on_behalf_of=f"principal:{me.principal_id}")
    assert acting.delegated_principal_id == me.principal_id
    with pytest.raises(Exception, match="401"):
        client("whoami", on_behalf_of="nobody")


def test_a_wrong_key_is_one_answer(served: Any) -> None:
    other = served.owner_key[:-1] + ("y" if served.owner_key.endswith("x") else "x")
    for key in ("sp-none-none", "nonsense", other, served.management_key):
        stranger = Client("blocking", served, key)
        with pytest.raises(Exception, match="401"):
            stranger("whoami")
        stranger.close()


def test_traces(client: Client) -> None:
    word = fresh("trace")
    fact = client("remember", infer="triples", triples=[triple(fresh("Mara"), "sails_with", word)])
    found = client("recall", f"who sails with {word}")
    trace_id = found.trace["traceId"]
    listed = client("traces.list", limit=5).traces
    assert listed[0].id == trace_id
    for name in (trace_id, f"trace:{trace_id}", f"decision_trace:{trace_id}"):
        got = client("traces.get", name)
        assert (got.id, got.query_text, got.cached) == (trace_id, "", False)
        assert got.resolution_tier in ("direct", "hybrid", "escalated")
        assert got.tier_reason == found.trace["tierReason"]
        assert got.latency_ms == found.trace["latencyMs"]
        assert is_time(got.created_at)
    seen = client("inspect", f"trace:{trace_id}")
    assert seen["kind"] == "trace"
    (retrieval,) = seen["trace"]["retrievals"]
    assert retrieval["retrievedIds"] == [hit.id for hit in found.hits]
    assert retrieval["scores"] == [hit.score for hit in found.hits]
    best = retrieval["returned"][0]
    assert (best["id"], best["rank"]) == (f"attribute:{fact.extraction.attributes[0]['id']}", 1)
    assert best["label"] == "sails_with"
    stats = client("traces.stats")
    assert stats.total_queries >= 1
    assert stats.total_queries == sum(stats.tier_counts.values()) == stats.retrieval["traces"]
    assert set(stats.tier_counts) == {"direct", "hybrid", "escalated", "fullContext"}
    assert stats.window_hours == 24
    assert (stats.cache_hits, stats.cache_hit_rate, stats.response_traces_total) == (0, 0.0, 0)
    assert stats.contradiction == {"reconciliations": 0, "contradictions": 0, "contradictionRate": 0.0}
    assert stats.supersession == {"supersessionEvents": 0, "entitiesChurned": 0, "churnPerEntity": 0.0}
    with pytest.raises(MemoryNotFoundError):
        client("traces.get", fresh("nothing"))
