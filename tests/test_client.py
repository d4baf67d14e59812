"""What the client sends, what it makes of replies, and when it asks again."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from keeps.client import Client, calls, walk
from keeps.client.given import MEMBERS
from keeps.core.errors import Invalid, KeepsError, NotFound, Unavailable, Unprocessable
from keeps.http.rawpath import routable
from keeps.wire.facts import BatchIn, FactsIn
from keeps.wire.problems import PROBLEMS, body_of
from keeps.wire.query import QueryIn

HIT = {
    "id": "attribute:x1",
    "text": "Mara's role is pilot.",
    "source": "attribute",
    "score": 0.8,
    "resource": {"kind": "attribute", "entityType": "person", "name": "mara", "key": "role"},
    "occurredAt": "2026-11-30T09:00:00Z",
    "trust": 0.95,
    "origin": "user_saved",
    "status": "active",
}
FOUND = {
    "tier": "hybrid",
    "classificationKind": "hybrid",
    "seedEntities": [],
    "queryMs": 1,
    "hits": [HIT],
    "trace": {
        "traceId": "d1",
        "resolutionTier": "hybrid",
        "tierReason": "",
        "latencyMs": 1,
        "retrievedCount": 1,
        "topScores": [0.8],
    },
}


class Service:
    """Answers from a list, and keeps what it was asked."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def client(self, **options: Any) -> Client:
        return Client(key="sp-k1-secret", transport=httpx.MockTransport(self), **options)

    @property
    def body(self) -> dict[str, Any]:
        return json.loads(self.asked[-1].content)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "PAUSES_S", (0.0, 0.0, 0.0))


def ok(body: object, status: int = 200) -> httpx.Response:
    return httpx.Response(status, json=body)


WROTE = {"mode": "none", "sessionId": "s1", "turnId": "t1", "preview": False}


async def test_every_option_of_remember_arrives() -> None:
    service = Service(ok(WROTE))
    at = datetime(2026, 3, 1, 12, tzinfo=UTC)
    async with service.client(context="acme", on_behalf_of="mara") as client:
        done = await client.remember(
            "I pilot ships.",
            infer="none",
            session="s1",
            scopes=[["team/a", "x"], "team/b"],
            labels=["t=1"],
            role="assistant",
            speaker="Keel",
            observed_at=at,
            category="knowledge",
            kind="note",
            metadata={"a": 1},
            idempotency_key="k",
        )
    assert (done.session_id, done.turn_id) == ("s1", "t1")
    request = service.asked[0]
    assert request.url.path == "/api/v1/acme/facts"
    assert request.headers["authorization"] == "Bearer sp-k1-secret"
    assert request.headers["idempotency-key"] == "k"
    assert request.headers["x-memory-on-behalf-of"] == "mara"
    core = FactsIn.model_validate(service.body).to_core(now=at, lenient=False)
    assert core.messages[0].text == "I pilot ships."
    assert (core.messages[0].role, core.messages[0].speaker) == ("assistant", "Keel")
    assert core.scope is not None
    assert sorted(map(sorted, core.scope.to_wire())) == [["team/a/", "x/"], ["team/b/"]]
    assert (core.session, core.labels, core.observed_at) == ("s1", ("t=1",), at)
    assert (core.category, core.kind, core.metadata) == ("knowledge", "note", {"a": 1})


async def test_triples_say_how_they_are_to_be_taken() -> None:
    service = Service(ok({**WROTE, "mode": "triples"}))
    async with service.client() as client:
        await client.remember(triples=[{"entity": {"type": "person", "name": "Mara"}, "key": "role", "value": "x"}])
    assert service.body["infer"] == "triples"
    assert "text" not in service.body
    assert service.asked[0].url.path == "/api/v1/default/facts"


async def test_a_batch_arrives_in_order() -> None:
    service = Service(ok({"sessionId": "s1", "turnIds": ["a", "b"], "extractions": [], "chunkIds": []}))
    messages = [{"content": "one", "speaker": "Mara", "ts": "2026-03-01T00:00:00Z"}, {"content": "two"}]
    async with service.client() as client:
        done = await client.remember_many(messages, infer="none", session="s1")
    assert done.turn_ids == ["a", "b"]
    core = BatchIn.model_validate(service.body).to_core()
    assert [(m.text, m.speaker) for m in core.messages] == [("one", "Mara"), ("two", None)]


async def test_every_option_of_recall_arrives() -> None:
    service = Service(ok(FOUND))
    async with service.client() as client:
        found = await client.recall(
            "who?",
            k=3,
            mode="bm25",
            lens="team/*",
            labels=["t=1"],
            include=["facts"],
            session="s1",
            include_duplicates=True,
            as_of="2026-01-01T00:00:00Z",
            at_instant=datetime(2026, 1, 2, tzinfo=UTC),
            valid_from="2026-01-03T00:00:00Z",
            valid_until="2026-01-04T00:00:00Z",
        )
    assert [hit.id for hit in found.hits] == ["attribute:x1"]
    core = QueryIn.model_validate(service.body).to_core()
    assert (core.query, core.k, core.mode, core.session) == ("who?", 3, "bm25", "s1")
    assert (core.include, core.labels, core.include_duplicates) == ({"facts"}, {"t=1"}, True)
    days = [core.when.as_of, core.when.at_instant, core.when.valid_from, core.when.valid_until]
    assert [day and day.day for day in days] == [1, 2, 3, 4]


@pytest.mark.parametrize("name", ["a/b", "100%", "a b", "..", ".", "Ångström", "x?y#z", "a%2Fb"])
async def test_any_name_stays_one_segment(name: str) -> None:
    service = Service(httpx.Response(204), ok({"history": []}))
    async with service.client() as client:
        await client.keys.delete(name)
        await client.history("person/" + name, "role")
    matched = routable(service.asked[0].url.raw_path)
    assert matched == "/api/v1/default/keys/" + name.replace("%", "%25").replace("/", "%2F")
    assert routable(service.asked[1].url.raw_path).count("/") == 8


@pytest.mark.parametrize("kind", list(PROBLEMS))
async def test_an_error_comes_back_as_its_class(kind: type[KeepsError]) -> None:
    problem = PROBLEMS[kind]
    answer = ok(body_of(problem, "what to do", instance="/x"), problem.status)
    async with Service(answer, answer, answer, answer).client() as client:
        with pytest.raises(kind, match="what to do"):
            await client.recall("x")


@pytest.mark.parametrize("status", [500, 502, 418])
async def test_an_error_of_something_else_is_still_one_of_ours(status: int) -> None:
    async with Service(*[httpx.Response(status, text="<html>")] * 4).client() as client:
        with pytest.raises(KeepsError, match="<html>"):
            await client.health()


async def test_something_else_that_answers_well_is_noticed() -> None:
    async with Service(*[httpx.Response(200, text="<html>")] * 4).client() as client:
        with pytest.raises(Unavailable, match="something else"):
            await client.health()


LOST = httpx.ReadError("gone")
BUSY = httpx.Response(503, json={"message": "busy"}, headers={"Retry-After": "0"})

Ask = Callable[[Client], Any]


@pytest.mark.parametrize("failure", [LOST, BUSY], ids=["lost", "busy"])
@pytest.mark.parametrize(
    ("ask", "reply"),
    [
        (lambda c: c.recall("x"), FOUND),
        (lambda c: c.remember("x", idempotency_key="k"), WROTE),
        (lambda c: c.forget("x", dry_run=True), {"deleted": 0}),
    ],
    ids=["read", "keyed write", "dry run"],
)
async def test_what_may_be_repeated_is(failure: Any, ask: Ask, reply: object) -> None:
    service = Service(failure, failure, failure, ok(reply))
    async with service.client() as client:
        await ask(client)
    assert len(service.asked) == 4


async def test_patience_ends() -> None:
    service = Service(*[LOST] * 9)
    async with service.client() as client:
        with pytest.raises(Unavailable):
            await client.recall("x")
    assert len(service.asked) == 4


async def test_a_long_pause_is_the_callers_to_wait() -> None:
    service = Service(httpx.Response(503, json={"message": "busy"}, headers={"Retry-After": "60"}))
    async with service.client() as client:
        with pytest.raises(Unavailable) as caught:
            await client.recall("x")
    assert caught.value.retry_after_s == 60


@pytest.mark.parametrize("ask", [lambda c: c.remember("x"), lambda c: c.forget("x"), lambda c: c.scopes.forget("team")])
async def test_a_write_is_never_repeated_on_its_own(ask: Ask) -> None:
    service = Service(LOST)
    async with service.client() as client:
        with pytest.raises(Unavailable, match="not known"):
            await ask(client)
    assert len(service.asked) == 1


async def test_nobody_there_says_how_to_start() -> None:
    async with Service(httpx.ConnectError("refused")).client() as client:
        with pytest.raises(Unavailable, match="keeps serve"):
            await client.whoami()


@pytest.mark.parametrize("value", ["half \ud800", float("nan"), object(), datetime(2026, 1, 1)])
async def test_what_cannot_be_sent_is_refused_here(value: object) -> None:
    async with Service().client() as client:
        with pytest.raises(Invalid):
            await client.remember("x", metadata={"a": value})


async def test_endpoints_and_keys_are_checked() -> None:
    for endpoint in ("", "ftp://x", "127.0.0.1:9090", "http://:80:80", "http://x:port", "http://x:99999"):
        with pytest.raises(Invalid):
            Client(endpoint)
    for key in ("sp-k1-\n", "", "schlüssel"):
        with pytest.raises(Invalid):
            Client(key=key)
    with pytest.raises(Invalid):
        Client(on_behalf_of="mära")
    async with Service().client() as client:
        with pytest.raises(Invalid):
            await client.remember("x", idempotency_key="schlüssel")


async def test_walking_takes_every_page() -> None:
    first = {"entities": [], "page": {"hasMore": True, "nextCursor": "c2"}}
    service = Service(ok(first), ok({"entities": [], "page": {"hasMore": False}}))
    async with service.client() as client:
        pages = [page async for page in walk(client.entities, type="person")]
    assert len(pages) == 2
    assert [dict(request.url.params) for request in service.asked] == [
        {"type": "person", "limit": "500"},
        {"type": "person", "limit": "500", "cursor": "c2"},
    ]


async def test_missing_things_are_not_found() -> None:
    async with Service(httpx.Response(404, json={"message": "no"})).client() as client:
        with pytest.raises(NotFound):
            await client.entity("person/nobody")


async def test_a_local_service_is_not_reached_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.invalid:3128")
    http = calls.http_client("http://127.0.0.1:9090", key=None)
    assert not http.trust_env
    await http.aclose()
    assert calls.http_client("https://memory.example", key=None).trust_env
    assert not calls.http_client("https://memory.example", key=None, direct=True).trust_env


@pytest.mark.parametrize(
    ("verb", "given", "options", "says"),
    [
        ("recall", ["q"], {"asof": "2026-01-01"}, "recall() has no option 'asof': did you mean 'as_of'?"),
        ("recall", ["q"], {"limit": 3}, "recall() has no option 'limit': did you mean 'k'?"),
        ("context", ["q"], {"lense": "a"}, "context() has no option 'lense': did you mean 'lens'?"),
        ("remember", ["t"], {"scope": "a"}, "remember() has no option 'scope': did you mean 'scopes'?"),
        ("remember_many", [[{"content": "t"}]], {"lables": []}, "did you mean 'labels'?"),
        ("entity", ["person/mara"], {"asof": "x"}, "did you mean 'as_of'?"),
        ("inspect", ["person/mara"], {"zzz": "x"}, "there are as_of, at_instant, valid_from, valid_until"),
    ],
)
async def test_an_option_that_is_not_known_is_refused(
    verb: str, given: list[Any], options: dict[str, Any], says: str
) -> None:
    service = Service()
    async with service.client() as client:
        with pytest.raises(TypeError) as error:
            await getattr(client, verb)(*given, **options)
    assert says in str(error.value)
    assert service.asked == []


@pytest.mark.parametrize("k", [0, -1, 51, True, "3"])
async def test_k_is_a_number_from_1_to_50(k: Any) -> None:
    async with Service().client() as client:
        for asking in (client.recall("q", k=k), client.context("q", k=k), client.sessions.context("s", "q", k=k)):
            with pytest.raises(Invalid, match="from 1 to 50"):
                await asking


MARA = {"type": "person", "name": "Mara"}


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"key": "shoe", "valu": "44"}, "triples[1]: value is missing (unknown: valu)"),
        ({"key": "shoe", "value": None}, "triples[1]: value is missing"),
        ({"key": "shoe"}, "triples[1]: value is missing"),
        ({"key": "shoe", "value": "44", "validfrom": "x"}, "unknown: validfrom, did you mean 'valid_from'?"),
        ({"key": "born", "value": 1980}, 'triples[1]: value is text: write "1980" in quotes'),
        ({"key": "sails", "value": True}, 'value is text: write "true" in quotes'),
        ({"key": "born", "value": ["a"]}, "value is text, not a list"),
    ],
)
async def test_a_fact_that_would_be_lost_is_refused(entry: dict[str, object], says: str) -> None:
    service = Service()
    good = {"entity": MARA, "key": "role", "value": "pilot"}
    async with service.client() as client:
        with pytest.raises(Unprocessable) as error:
            await client.remember(triples=[good, {"entity": MARA, **entry}])
    assert says in error.value.message
    assert service.asked == []


@pytest.mark.parametrize(
    "entry",
    [
        {"key": "role", "value": "pilot", "validFrom": "2026-01-01", "memoryCategory": "identity", "confidence": 1},
        {"key": "works_at", "target": {"type": "organisation", "name": "Port"}, "value": None},
        {"verb": "docked", "object": "MV Teal", "summary": "s", "occurred_at": datetime(2026, 1, 1, tzinfo=UTC)},
        {},
    ],
)
async def test_a_fact_that_says_something_is_sent(entry: dict[str, object]) -> None:
    service = Service(ok(WROTE))
    async with service.client() as client:
        await client.remember(triples=[{"entity": MARA, **entry}])
    assert service.body["infer"] == "triples"


def test_the_members_of_a_fact_are_those_the_service_takes() -> None:
    taken = FactsIn.model_json_schema()["properties"]["triples"]["items"]["properties"]
    assert set(taken) == set(MEMBERS)


async def test_a_closed_client_says_so() -> None:
    async with Service().client() as client:
        pass
    with pytest.raises(Invalid, match="this Client is closed"):
        await client.recall("q")
    with pytest.raises(Invalid, match="this Client is closed"):
        await client.sessions.list()
