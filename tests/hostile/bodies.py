"""Bodies that cost much, mean two things at once, or come twice."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import psutil

from keeps.http.idempotency import Reservations
from tests.hostile.place import Place, Someone, refused
from tests.hostile.rows import row

MEBIBYTE = 1024 * 1024


@row("O33")
def a_huge_body(place: Place) -> None:
    owner = place.harbour().owner
    owner.save("a small note")
    process = psutil.Process()
    huge = b'{"infer":"none","text":"' + b"A" * (5 * MEBIBYTE) + b'"}'
    refused(owner.post_bytes("/facts", huge), 413)
    refused(owner.post("/facts", {"infer": "none", "text": "é" * 300_000}), 413)
    before = process.memory_info().rss
    for _ in range(3):
        with_no_length(owner, b"A" * 65536, 1600)
    assert process.memory_info().rss - before < 24 * MEBIBYTE
    taken = place.run(taken_of(place, owner))
    assert MEBIBYTE < taken <= MEBIBYTE + 65536
    assert owner.everything() == (0, 1)


def with_no_length(owner: Someone, chunk: bytes, count: int) -> None:
    """Send a body of unknown length, up to a hundred mebibytes; the server must not wait for its end."""

    def parts() -> Iterator[bytes]:
        yield b'{"infer":"none","text":"'
        for _ in range(count):
            yield chunk

    # The server may answer and close while the client still sends.
    with suppress(httpx.TransportError):
        refused(owner.send("POST", "/facts", content=parts()), 413)


async def taken_of(place: Place, owner: Someone) -> int:
    """How many bytes of an endless body the application asks for before it answers 413."""
    taken = 0
    replies: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        nonlocal taken
        taken += 65536
        return {"type": "http.request", "body": b"A" * 65536, "more_body": True}

    async def send(message: Any) -> None:
        replies.append(message)

    path = f"/api/v1/{owner.context}/facts"
    headers = [(b"host", b"127.0.0.1"), (b"authorization", f"Bearer {owner.key}".encode())]
    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http"}
    scope |= {"path": path, "raw_path": path.encode(), "root_path": "", "query_string": b"", "headers": headers}
    await place.app(scope, receive, send)
    assert replies[0]["status"] == 413
    return taken


@row("O34")
def a_deep_body(place: Place) -> None:
    owner = place.harbour().owner
    many = 200_000
    for body in (
        b"[" * many,
        b'{"text":' + b"[" * many + b"]" * many + b"}",
        b'{"infer":"none","text":"a","metadata":' + b'{"a":' * 32 + b"1" + b"}" * 32 + b"}",
        b'{"infer":"none","text":"a","metadata":{"a":' + b"[" * 31 + b"]" * 31 + b"}}",
        b'{"query":"a","lens":' + b"[" * 33 + b"]" * 33 + b"}",
    ):
        for path in ("/facts", "/query", "/facts/batch", "/forget", "/sessions"):
            refused(owner.post_bytes(path, body), 400)
    assert owner.everything() == (0, 0)
    just = b'{"infer":"none","text":"a","metadata":' + b'{"a":' * 29 + b"1" + b"}" * 29 + b"}"
    assert owner.post_bytes("/facts", just).status_code == 200
    assert owner.everything() == (0, 1)


@row("O35")
def one_name_twice(place: Place) -> None:
    owner = place.harbour().owner
    for body in (
        b'{"infer":"none","text":"a","text":"b"}',
        b'{"infer":"none","text":"a","scopes":[["user/alice"]],"scopes":[["user/bob"]]}',
        b'{"infer":"none","text":"a","te\\u0078t":"a"}',
        b'{"infer":"none","text":"a","metadata":{"b":{"c":1,"c":2}}}',
        b'{"infer":"triples","triples":[{"entity":{"type":"person","type":"place","name":"x"},"key":"k","value":"v"}]}',
    ):
        refused(owner.post_bytes("/facts", body), 400)
    # Two spellings of one member are two names for JSON, but one for us.
    refused(owner.post_bytes("/facts", b'{"infer":"none","text":"a","session_id":"x","sessionId":"y"}'), 400)
    refused(owner.post_bytes("/query", b'{"query":"a","lens":[["user/alice"]],"scopes":[["user/bob"]]}'), 400)
    assert owner.everything() == (0, 0)


@row("O36")
def numbers_that_no_number_is(place: Place) -> None:
    harbour = place.harbour()
    owner = harbour.owner
    for number in (b"NaN", b"Infinity", b"-Infinity", b"1e999", b"9223372036854775808", b"-9007199254740993"):
        entry = b'{"entity":{"type":"person","name":"Mara"},"key":"role","value":"pilot","confidence":%s}' % number
        for path, body in (
            ("/query", b'{"query":"a","k":%s}' % number),
            ("/query", b'{"query":"a","minScore":%s}' % number),
            ("/context", b'{"query":"a","maxMemories":%s}' % number),
            ("/facts", b'{"infer":"none","text":"a","metadata":{"rev":%s}}' % number),
            ("/facts", b'{"infer":"none","text":"a","metadata":{"rev":[1,[%s]]}}' % number),
            ("/facts", b'{"infer":"triples","triples":[%s]}' % entry),
            ("/sessions", b'{"metadata":{"rev":%s}}' % number),
        ):
            refused(owner.post_bytes(path, body), 400, 422)
    for outside in (b"1.0001", b"-0.1", b"1e300", b"true", b'"high"'):
        entry = b'{"entity":{"type":"person","name":"Mara"},"key":"role","value":"pilot","confidence":%s}' % outside
        refused(owner.post_bytes("/facts", b'{"infer":"triples","triples":[%s]}' % entry), 400, 422)
    for k in (b"51", b"-1", b"1.5", b'"many"'):
        refused(owner.post_bytes("/query", b'{"query":"a","k":%s}' % k), 400, 422)
    assert owner.everything() == (0, 0)
    assert owner.post_bytes("/facts", b'{"infer":"none","text":"a","metadata":{"rev":9007199254740992}}').is_success
    assert harbour.stored("turn", "metadata") == [{"rev": 2**53}]


NO_TIMES = (
    "0000-00-00T00:00:00Z",
    "9999-12-31T23:59:60Z",
    "2026-02-30T00:00:00Z",
    "2026-01-01T00:00:00",
    "2026-01-01T00:00:00+99:99",
    "10000-01-01T00:00:00Z",
    "-271821-04-20T00:00:00Z",
    "2026-01-01T24:00:01Z",
    "2026-13-01T00:00:00Z",
    "1899-12-31T23:59:59Z",
    "2201-01-01T00:00:00Z",
    "٢٠٢٦-01-01T00:00:00Z",
    "noon",
    "",
)


@row("O37")
def moments_that_never_were(place: Place) -> None:
    owner = place.harbour().owner
    for moment in (*NO_TIMES, 1767225600, 1.5, True, [], {}):
        refused(owner.save("a note", observed_at=moment), 400, 422)
        refused(owner.post("/facts/batch", {"infer": "none", "messages": [{"content": "a", "ts": moment}]}), 400, 422)
        for member in ("valid_from", "valid_until", "occurred_at"):
            refused(owner.state("role", "pilot", triple={member: moment}), 400, 422)
        for member in ("asOf", "atInstant", "validFrom", "validUntil"):
            refused(owner.post("/query", {"query": "a", member: moment}), 400, 422)
            if isinstance(moment, str) and moment:
                refused(owner.get("/entities/person/Mara", **{member: moment}), 400, 422)
    assert owner.everything() == (0, 0)
    far = "2026-01-01T00:00:00+14:00"
    assert owner.state("role", "pilot", triple={"valid_from": far}, observed_at=far).status_code == 200
    (fact,) = owner.get("/attributes").json()["attributes"]
    assert fact["validFrom"] == fact["createdAt"] == "2025-12-31T10:00:00Z"
    said = owner.save("a note", observed_at=far).json()
    (turn,) = owner.get(f"/sessions/{said['sessionId']}/turns").json()["turns"]
    assert turn["createdAt"] == "2025-12-31T10:00:00Z"


@row("O38")
def a_key_that_is_used_again(place: Place) -> None:
    harbour = place.harbour()
    owner = harbour.owner
    key = {"Idempotency-Key": "k1"}
    first = owner.save_once("the ferry leaves at six", key)
    assert first.status_code == 200
    refused(owner.save_once("the ferry leaves at seven", key), 409)
    again = owner.save_once("the ferry leaves at six", key)
    assert (again.text, again.headers["Idempotency-Replayed"]) == (first.text, "true")
    other = harbour.someone("other", "user/other/*", home="user/other").save_once("the ferry leaves at six", key)
    assert other.status_code == 200
    assert other.json()["turnId"] != first.json()["turnId"]
    in_flight(place, owner)
    erased(owner, purge=False)
    erased(owner, purge=True)


def in_flight(place: Place, owner: Someone) -> None:
    """The first write is held up just before its commit."""
    key = {"Idempotency-Key": secrets.token_hex()}
    before = owner.everything()
    context = place.run(place.rt.context(owner.context))
    patience, place.app.state.reservations = place.app.state.reservations, Reservations(wait_s=0.3)
    try:
        with place.held(context.still()):
            running = place.aside(lambda: owner.save_once("held up", key))
            place.until(lambda: len(place.app.state.reservations) == 1)
            refused(owner.save_once("something else", key), 409)
            same = owner.save_once("held up", key)
            refused(same, 409)
            assert same.headers["Retry-After"] == "1"
            waiting = place.aside(lambda: owner.save_once("held up", key))
        assert running.result(30).status_code == 200
        assert waiting.result(30).text == running.result().text
    finally:
        place.app.state.reservations = patience
    assert owner.everything() == (before[0], before[1] + 1)


def erased(owner: Someone, *, purge: bool) -> None:
    text, key = f"canary {secrets.token_hex(8)}", {"Idempotency-Key": secrets.token_hex()}
    assert owner.save_once(text, key).status_code == 200
    assert owner.post("/forget", {"query": text, "purge": purge}).json()["memories"] == 1
    gone = owner.save_once(text, key)
    refused(gone, 410)
    assert text.split()[1] not in json.dumps(gone.json())
    assert text not in owner.texts(text)
