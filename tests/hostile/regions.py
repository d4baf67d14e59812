"""Attempts to reach what belongs to others by the way it is named."""

from __future__ import annotations

from typing import Any

from tests.hostile.place import Harbour, Place, Someone, refused
from tests.hostile.rows import row


def neighbours(place: Place) -> tuple[Harbour, Someone, Someone]:
    """Two people in one context, each with one memory of their own."""
    harbour = place.harbour()
    alice = harbour.someone("alice", "user/alice/*", home="user/alice")
    bob = harbour.someone("bob", "user/bob/*", home="user/bob")
    alice.save("alice keeps a canary", labels=["pet=canary"])
    bob.save("bob keeps a canary", labels=["subject=bob", "scope=user/bob"])
    bob.state("pet", "a canary called Pip", name="bob")
    return harbour, alice, bob


def every_use(who: Someone, path: str) -> list[Any]:
    """Replies to requests that name a scope in each place that takes one, in a body or in the query."""
    return [
        who.post("/query", {"query": "canary", "lens": [[path]]}),
        who.post("/query", {"query": "canary", "lens": [["user/alice"], [path]]}),
        who.post("/query", {"query": "canary", "scopes": path}),
        who.post("/context", {"query": "canary", "lens": path}),
        who.post("/forget", {"query": "canary", "lens": path}),
        who.save("a canary", scopes=[[path]]),
        who.save("a canary", scope=path),
        who.post("/facts/batch", {"infer": "none", "messages": [{"content": "a canary"}], "scopes": [[path]]}),
        who.post("/sessions", {"scopes": [[path]]}),
        who.post("/scopes", {"path": path}),
        who.post("/scopes/forget", {"path": path}),
        who.send("DELETE", "/scopes", params={"path": path}),
        who.post("/keys", {"grants": {"memory:read": [path]}}),
        who.get("/principals/owner/effective", path=path),
    ]


def unreached(place: Place, *paths: str) -> None:
    """None of the paths is taken for a path, and none reaches bob."""
    harbour, alice, bob = neighbours(place)
    before = harbour.owner.everything()
    for path in paths:
        for who in (alice, harbour.owner):
            for reply in every_use(who, path):
                refused(reply, 400)
                assert "Pip" not in reply.text
    assert harbour.owner.everything() == before
    assert bob.texts("canary") == {"bob keeps a canary", *bob.texts("Pip")}


@row("O22")
def steps_up_the_tree(place: Place) -> None:
    unreached(place, "user/alice/../bob", "user/../user/bob", "../user/bob", "user/alice/./../bob", "user//bob", "..")


@row("O23")
def steps_up_the_tree_written_out(place: Place) -> None:
    unreached(
        place,
        "user/alice%2f..%2fbob",
        "user/alice/%2e%2e/bob",
        "user/alice/%2E%2E/bob",
        "user/alice/.%2e/bob",
        "user/alice%5c..%5cbob",
        "user/alice%252f..%252fbob",
        "team/a/%2e%2e/b",
        "team/a%2f%2e%2e%2fb",
    )
    harbour, alice, _ = neighbours(place)
    # In a path of the service a name is decoded once, and stays one name.
    harbour.owner.state("pet", "a cat", name="alice/../bob")
    whole = harbour.owner.get("/entities/person/alice%2F..%2Fbob")
    assert whole.json()["entity"]["name"] == "alice/../bob"
    assert harbour.owner.get("/entities/person/alice%252F..%252Fbob").status_code == 404
    assert alice.get("/entities/person/alice%2F..%2Fbob").status_code == 404
    for path in ("/sessions/%2e%2e%2fentities", "/entities/person/%2e%2e/bob", "/%2e%2e/other/me"):
        assert alice.get(path).status_code in {400, 404}


@row("O24")
def a_name_that_begins_like_another(place: Place) -> None:
    harbour = place.harbour()
    owner = harbour.owner
    for scope in ("user/al", "user/al/boat", "user/alice", "user/alice/boat", "user/a"):
        owner.save(f"a rope at {scope}", scopes=[[scope]])
        owner.state("rope", f"at {scope}", scopes=[[scope]])
    alice = harbour.someone("alice", "user/alice/*")
    kept, kept_texts = alice.everything(), alice.texts("rope")
    gone = owner.post("/scopes/forget", {"path": "user/al"})
    assert gone.status_code == 200
    assert gone.json()["memories"] == 4
    assert alice.everything() == kept == (2, 4)
    assert alice.texts("rope") == kept_texts
    left = owner.texts("rope")
    assert len(left) == 6
    assert not any(text.endswith(("user/al", "user/al/boat", "user/al.", "user/al/boat.")) for text in left)
    assert owner.everything() == (3, 6)


@row("O25")
def a_lens_wider_than_the_grant(place: Place) -> None:
    harbour = place.harbour()
    owner = harbour.owner
    scopes = ("org/acme/user/alice", "org/acme/user/bob", "org/acme", "org/beta", "org/acme/user/alice/boat", "/")
    for scope in scopes:
        owner.save(f"an anchor of {scope}", scopes=[[scope]])
    owner.save("an anchor of both", scopes=[["org/acme/user/alice", "org/acme/user/bob"]])
    assert len(owner.texts("anchor")) == 7
    alice = harbour.someone("alice", "org/acme/user/alice")
    own = {"an anchor of org/acme/user/alice"}
    assert alice.texts("anchor") == own
    for lens in ([["org/acme/*"]], [["*"]], [["/*"]], "*", [], None, [["org/acme/user/alice"], ["org/beta"]]):
        assert alice.texts("anchor", lens=lens) == own
        block = alice.post("/context", {"query": "anchor", "lens": lens}).json()["context"]
        assert block.count('"text"') == 1
    for lens in ([["org/beta"]], [["org/acme"]], [["org/acme/user/bob/*"]]):
        assert alice.texts("anchor", lens=lens) == set()
    for lens in ([[]], [[], []], [["org/beta"], []]):
        reply = alice.post("/query", {"query": "anchor", "lens": lens})
        assert reply.status_code == 400 or reply.json()["hits"] == []
        forgotten = owner.post("/forget", {"query": "an anchor of org/beta", "lens": lens})
        assert forgotten.status_code == 400 or forgotten.json()["deleted"] == 0 or ["org/beta"] in lens
    for lens in ([["*"]], [], None):
        assert alice.post("/forget", {"query": "an anchor of org/acme/user/bob", "lens": lens}).json()["deleted"] == 0


@row("O26")
def a_label_is_no_right(place: Place) -> None:
    _, alice, bob = neighbours(place)
    for labels in (["subject=bob", "scope=user/bob"], ["subject=bob"], ["scope=user/bob"], ["subject=*"]):
        assert alice.ask("bob keeps a canary", labels=labels) == []
        assert '"text"' not in alice.post("/context", {"query": "canary", "labels": labels}).json()["context"]
    assert alice.texts("canary", labels=["pet=canary"]) == {"alice keeps a canary"}
    # To carry a label of somebody gives nothing to them and takes nothing from them.
    alice.save("alice whistles to the canary", labels=["subject=bob", "scope=user/bob"])
    assert alice.texts("canary", labels=["subject=bob"]) == {"alice whistles to the canary"}
    assert bob.texts("canary", labels=["subject=bob"]) == {"bob keeps a canary"}


@row("O29")
def forgetting_what_others_know(place: Place) -> None:
    _, alice, bob = neighbours(place)
    before = bob.everything()
    (turn,) = (hit for hit in bob.ask("bob keeps a canary") if hit["source"] == "memory_chunk")
    absent = alice.post("/forget", {"query": "nobody keeps a heron", "purge": True}).json()
    for query in ("bob keeps a canary", "a canary called Pip", "bob", "pet", "Pip"):
        for more in ({"purge": True}, {"purge": False}, {"dryRun": True}, {"purge": True, "lens": "user/bob"}):
            told = alice.post("/forget", {"query": query, **more}).json()
            assert told["deleted"] == 0
            assert not any("bob" in miss["text"] for miss in told.pop("nearMisses", []))
            told.pop("ids", None)
            assert told.pop("matches", []) == []
            assert told == absent
    for ref in (turn["id"], turn["sourceRef"], turn["sourceRef"].partition(":")[2]):
        near = ref[:-1] + ("a" if ref[-1] != "a" else "b")
        real, made_up = (alice.post("/forget", {"ids": [name], "purge": True}) for name in (ref, near))
        assert real.status_code == made_up.status_code
        if real.status_code == 200:
            assert real.json() == made_up.json()
    refused(alice.post("/scopes/forget", {"path": "user/bob"}), 403)
    assert bob.everything() == before
    assert "bob keeps a canary" in bob.texts("canary")
    assert alice.texts("canary") == {"alice keeps a canary"}
