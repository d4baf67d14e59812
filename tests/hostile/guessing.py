"""Ids that are guessed, ids that are statements, and names of fields where a list takes none."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any
from unittest import mock

import httpx

from keeps.store.embedded import EmbeddedEngine
from tests.hostile.place import Harbour, Place, Someone, refused
from tests.hostile.rows import row
from tests.hostile.screening import HOME

_ANY = re.compile(r"[a-z0-9]{20}|[0-9a-f]{16}")


def lived_in(place: Place) -> tuple[Harbour, dict[str, str]]:
    """A context with one thing of each kind that has an id, and these ids."""
    harbour = place.harbour("deliberate")
    owner, agent = harbour.owner, harbour.agent
    kept = owner.post("/memories", {"kind": "note", "text": "The canary sings", "scopes": HOME}).json()["id"]
    gone = owner.post("/memories", {"kind": "note", "text": "The heron flew", "scopes": HOME}).json()["id"]
    assert owner.send("DELETE", f"/memories/{gone}").status_code == 200
    waits = agent.post("/memories", {"kind": "note", "text": "The otter swims", "scopes": HOME}).json()["id"]
    run = agent.post("/runs", {}).json()["id"]
    asked = agent.post("/context", {"query": "canary", "runId": run})
    turn = owner.save("the canary sang", scopes=HOME).json()
    return harbour, {
        "memory": kept,
        "deleted": gone,
        "proposal": waits,
        "run": run,
        "trace": asked.headers["X-Trace-Id"],
        "turn": turn["turnId"],
        "session": turn["sessionId"],
    }


def near(identifier: str) -> str:
    """The same id but for its last letter."""
    return identifier[:-1] + ("a" if identifier[-1] != "a" else "b")


def tries(who: Someone, kind: str, identifier: str) -> list[httpx.Response]:
    """Replies to every request about one thing by its id."""
    if kind in {"memory", "deleted", "proposal"}:
        path = f"/memories/{identifier}"
        seen = [who.get(path), who.get(f"{path}/history"), who.send("DELETE", path)]
        seen += [who.get("/inspect", ref=f"attribute:{identifier}")]
        seen += [
            who.post(f"{path}/{move}", {}) for move in ("confirm", "reject", "release", "retire", "withdraw", "undo")
        ]
        return [*seen, who.send("PATCH", path, json={"text": "mine"}, headers={"If-Match": '"1"'})]
    if kind == "run":
        path = f"/runs/{identifier}"
        return [
            who.get(path),
            who.send("PATCH", path, json={"endReason": "answered"}),
            who.post(f"{path}/citations", {"cites": []}),
            who.post(f"{path}/outcome", {"outcome": "hurt"}),
            who.post("/context", {"query": "canary", "runId": identifier}),
            who.post("/facts", {"text": "x", "infer": "none", "runId": identifier}),
        ]
    if kind == "trace":
        return [who.get(f"/traces/{identifier}"), who.get("/inspect", ref=f"trace:{identifier}")]
    if kind == "turn":
        return [who.get("/inspect", ref=f"turn:{identifier}"), who.post("/promote", {"turnId": identifier})]
    path = f"/sessions/{identifier}"
    return [who.get(path), who.get(f"{path}/turns"), who.post(f"{path}/context", {"query": "canary"})]


def as_told(reply: httpx.Response) -> tuple[int, str, tuple[str, ...]]:
    """A reply without the ids in it, which are those that were sent."""
    names = tuple(sorted(set(reply.headers) - {"date", "x-trace-id", "content-length"}))
    return reply.status_code, _ANY.sub("ID", reply.text), names


def asked_of_the_record(who: Someone, kind: str, identifier: str) -> tuple[list[Any], int]:
    """What a stranger is told, and how often the record was asked for it."""
    done: Counter[str] = Counter()
    inner = EmbeddedEngine.ask

    def counted(engine: Any, database: Any, request: tuple[Any, ...], *rest: Any) -> Any:
        done["asked"] += any(identifier in str(part) for part in request)
        return inner(engine, database, request, *rest)

    with mock.patch.object(EmbeddedEngine, "ask", counted):
        replies = tries(who, kind, identifier)
    return [as_told(reply) for reply in replies], done["asked"]


@row("O27")
def an_id_of_somebody_else(place: Place) -> None:
    """One that is, one beside it and one that never was are the same to who may not see it: in words, and in work."""
    harbour, ids = lived_in(place)
    elsewhere = place.harbour("deliberate").owner
    for kind, identifier in ids.items():
        tries(elsewhere, kind, identifier)
        never = "".join(sorted(identifier))
        seen = [asked_of_the_record(elsewhere, kind, guess) for guess in (identifier, near(identifier), never)]
        assert seen[0] == seen[1] == seen[2], kind
        assert {status for status, _, _ in seen[0][0]} <= {404, 412, 403}, (kind, seen[0])
    # And to somebody in the same context whose it is not.
    stranger = harbour.someone("stranger", "team/stranger/*", home="team/stranger")
    person = harbour.someone("leo", "user/leo/*", home="user/leo", kind="human")
    for who in (stranger, person):
        for kind, identifier in ids.items():
            own, *others = (
                [as_told(reply) for reply in tries(who, kind, guess)]
                for guess in (identifier, near(identifier), "z" * 20)
            )
            assert own == others[0], (kind, who)
    whole(harbour, ids)


def whole(harbour: Harbour, ids: dict[str, str]) -> None:
    """Nothing came of all that."""
    owner = harbour.owner
    assert owner.get(f"/memories/{ids['memory']}").json()["status"] == "confirmed"
    assert owner.get(f"/memories/{ids['proposal']}").json()["status"] == "proposed"
    assert harbour.agent.get(f"/runs/{ids['run']}").json().get("endReason") is None


STATEMENTS = (
    "memory:\u27e8x\u27e9; DELETE memory",
    "attribute:\u27e8x\u27e9; REMOVE TABLE attribute; --",
    "x' OR true; --",
    "proposal:x OR 1=1",
    "attribute:1..",
    "attribute",
    "*",
    "$auth",
    "type::thing('attribute','x')",
)


@row("O31")
def an_id_that_is_a_statement(place: Place) -> None:
    harbour, ids = lived_in(place)
    before = {table: harbour.rows(table) for table in ("attribute", "proposal", "turn", "sealed")}
    stings = (*STATEMENTS, f"{ids['memory']}; DELETE attribute", f"{ids['memory']}\u27e9")
    for number, sting in enumerate(stings):
        for who in (harbour.owner, harbour.agent)[: 1 + (number % 4 == 0)]:
            for kind in ("memory", "run", "trace", "turn", "session"):
                for reply in tries(who, kind, quoted(sting) if kind not in {"turn"} else sting):
                    assert reply.status_code in {400, 403, 404, 412, 422}, (kind, sting, reply.text)
                    refused(reply, reply.status_code)
            decided = who.post("/inbox/decide", {"decisions": [{"id": sting, "decision": "keep"}]})
            assert decided.status_code != 200 or decided.json()["decided"][0]["error"] == "not-found", decided.text
    assert {table: harbour.rows(table) for table in before} == before


def quoted(sting: str) -> str:
    """As a segment of a path."""
    return httpx.QueryParams({"x": sting}).__str__()[2:].replace("+", "%20")


@row("O32")
def a_field_that_the_caller_names(place: Place) -> None:
    """No list is ordered by what a caller names; what is chosen from is a fixed list of words, all else a value."""
    harbour, _ = lived_in(place)
    owner = harbour.owner
    sting = "created_at; SELECT * FROM key"
    before = {table: harbour.rows(table) for table in ("attribute", "proposal", "turn")}
    for path, rows, fixed, values in (
        ("/memories", "memories", ("status",), ("kind", "slot", "q", "agent")),
        ("/inbox", "items", ("held",), ()),
        ("/runs", "runs", (), ("agent", "sessionId", "memory")),
        ("/audit", "entries", (), ("action", "target", "actor")),
        ("/attributes", "attributes", (), ("entity", "key")),
        ("/sessions", "sessions", (), ()),
    ):
        plain = owner.get(path).json()[rows]
        assert plain
        for name in ("sort", "order", "orderBy", "order_by", "fields", "where", "select", "group"):
            assert owner.get(path, **{name: sting}).json()[rows] == plain, (path, name)
        for name in (*fixed, "limit", "offset", "cursor"):
            refused(owner.get(path, **{name: sting}), 400, 422)
        for name in values:
            reply = owner.get(path, **{name: sting})
            assert reply.status_code in {200, 400, 404, 422}, (path, name, reply.text)
            assert reply.status_code != 200 or reply.json()[rows] == []
    assert {table: harbour.rows(table) for table in before} == before
