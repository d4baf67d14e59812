"""Callers that act for others to get more, and keys that are guessed."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any
from unittest import mock

from keeps.core.access import Verb
from keeps.services import access
from keeps.store.embedded import EmbeddedEngine
from tests.hostile.place import Harbour, Place, Someone, refused
from tests.hostile.rows import row

HEADER = "X-Memory-On-Behalf-Of"


def rights(who: Someone, target: str) -> dict[str, list[str]]:
    reply = who.send("GET", "/me", headers={HEADER: target})
    assert reply.status_code == 200, reply.text
    return {verb: paths for verb, paths in reply.json()["effectiveGrants"].items() if paths}


@row("O28")
def acting_for_somebody_mightier(place: Place) -> None:
    harbour = place.harbour()
    narrow = harbour.someone("narrow", "user/owner/boat/*", verbs=(Verb.MEMORY_READ, Verb.MEMORY_WRITE))
    side = harbour.someone("side", "user/owner/boat/*", "team/*", home="team/side")
    owner = harbour.owner
    owner.save("the code of the safe is taped below", scopes=[["user/owner"]])
    owner.save("the boat is moored", scopes=[["user/owner/boat"]])
    names = {who["displayName"]: who["id"] for who in owner.get("/principals").json()["principals"]}

    # By default only who manages grants of the other may act for it.
    for target in ("principal:admin", "admin", "owner", names["side"], "system", "nobody", "", "owner, agent"):
        if target:
            refused(narrow.send("GET", "/me", headers={HEADER: target}), 401)
    with place.configured(delegation="any"):
        for target in ("principal:admin", "admin", "owner", "principal:owner", names["narrow"]):
            assert rights(narrow, target) == {
                "memory:read": ["user/owner/boat/*"],
                "memory:write": ["user/owner/boat/*"],
            }
            found = narrow.post("/query", {"query": "safe boat"}, headers={HEADER: target}).json()["hits"]
            assert {hit["text"] for hit in found} == {"the boat is moored"}
            for path, body in (
                ("/facts", {"text": "mine now", "infer": "none", "scopes": [["user/owner"]]}),
                ("/keys", {"name": "more"}),
                ("/principals", {"displayName": "puppet"}),
                ("/scopes/forget", {"path": "user/owner"}),
            ):
                refused(narrow.post(path, body, headers={HEADER: target}), 403)
        for target in ("system", "principal:system", "nobody", "owner, agent", "principal:principal:owner"):
            refused(narrow.send("GET", "/me", headers={HEADER: target}), 401)
        one_step_only(narrow, side, names)
        nobody_confirms_for_the_person(harbour)


def one_step_only(narrow: Someone, side: Someone, names: dict[str, str]) -> None:
    """A chain of two is refused, and whom the other may act for is never followed."""
    chained = {HEADER: names["side"], "X-Spectron-On-Behalf-Of": "owner"}
    refused(narrow.send("GET", "/me", headers=chained), 400)
    assert rights(narrow, names["side"]) == {
        "memory:read": ["user/owner/boat/*"],
        "memory:write": ["user/owner/boat/*"],
    }
    assert rights(side, names["narrow"]) == {
        "memory:read": ["user/owner/boat/*"],
        "memory:write": ["user/owner/boat/*"],
    }


def nobody_confirms_for_the_person(harbour: Harbour) -> None:
    """What is written for another carries nobody's word: neither an agent for a person, nor the other way round."""
    boat = [["user/owner/boat"]]
    for number, (who, target) in enumerate(((harbour.agent, "owner"), (harbour.owner, "agent"))):
        triple = {"entity": {"type": "person", "name": "Mara"}, "key": f"hue_{number}", "value": "blue"}
        body = {"infer": "triples", "triples": [triple], "scopes": boat}
        assert who.post("/facts", body, headers={HEADER: target}).status_code == 200
    facts = harbour.owner.get("/attributes").json()["attributes"]
    assert [fact["userConfirmed"] for fact in facts] == [False, False]
    assert {fact["origin"] for fact in facts} == {"auto_accepted"}


class Work:
    """What one request made the server do."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()

    def counted(self, name: str, inner: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.done[name] += 1
            return inner(*args, **kwargs)

        return call

    def looked_up(self, inner: Any) -> Any:
        """Counts what is read by its id, as keys and principals are: the server writes beside its requests."""

        def call(engine: Any, database: Any, request: tuple[Any, ...], *rest: Any) -> Any:
            self.done["read"] += any("FROM ONLY $id" in str(part) for part in request)
            return inner(engine, database, request, *rest)

        return call


def work_of(who: Someone, method: str, path: str, body: object) -> tuple[dict[str, Any], Counter[str]]:
    """The body of a refused request, and how much was read, hashed and compared for it."""
    work = Work()
    with (
        mock.patch.object(EmbeddedEngine, "ask", work.looked_up(EmbeddedEngine.ask)),
        mock.patch.object(access.hmac, "digest", work.counted("hash", access.hmac.digest)),
        mock.patch.object(access.hmac, "compare_digest", work.counted("compare", access.hmac.compare_digest)),
    ):
        reply = who.send(method, path, json=body)
    refused(reply, 401)
    return reply.json() | {"headers": sorted(set(reply.headers) - {"x-trace-id", "date"})}, work.done


@row("O46")
def a_key_that_is_guessed(place: Place) -> None:
    harbour = place.harbour()
    good = harbour.agent.key
    stem, secret = good[:23], good[24:]
    revoked = harbour.someone("gone", "team/*").key
    harbour.manage("DELETE", "/keys/gone")
    expired = harbour.owner.post("/keys?ttlSeconds=1", {"name": "short"}).json()["key"]
    guesses = {
        "unknown id": f"{stem[:-8]}aaaaaaaa-{secret}",
        "wrong secret": f"{stem}-{'A' * 43}",
        "last letter": good[:-1] + ("x" if good[-1] != "x" else "y"),
        "revoked": revoked,
        "expired": expired,
        "of another context": place.harbour().agent.key,
        "of management": harbour.management_key,
        "malformed": "pfx_AAAA_secret",
        "one letter more": good + "x",
        "other case": good.upper(),
        "not a word": "x" * 500,
    }
    assert harbour.agent.get("/me").status_code == 200
    clock, place.rt.clock = place.rt.clock, lambda: later(clock)
    try:
        for method, path, body in (("GET", "/me", None), ("POST", "/facts", {"text": "a note", "infer": "none"})):
            seen: dict[str, tuple[dict[str, Any], Counter[str]]] = {}
            for name, key in guesses.items():
                who = Someone(place.http, harbour.id, key)
                work_of(who, method, path, body)
                seen[name] = work_of(who, method, path, body)
            expected = seen["unknown id"]
            assert expected[1]["read"] >= 1
            assert expected[1]["hash"] >= 1
            # An expired key answers alike, and only who has the whole secret can try it: that may be quicker.
            assert seen.pop("expired")[0] == expected[0]
            for name, found in seen.items():
                assert (name, *found) == (name, *expected)
        elsewhere = Someone(place.http, "nosuchplace", good).get("/me")
        refused(elsewhere, 401)
        assert elsewhere.json()["message"] == expected[0]["message"]
    finally:
        place.rt.clock = clock
    assert harbour.owner.everything() == (0, 0)


def later(clock: Any) -> Any:
    return clock() + timedelta(seconds=30)
