"""One write a key: twins, other contents, failures, erased rows."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.requests import Request

from keeps.core.errors import Conflict, Gone, Invalid, Unavailable
from keeps.core.replies import StoredReply
from keeps.http.idempotency import Answer, Claim, Reservations, claim_of

CLAIM = Claim(namespace="n", fingerprint="f")


class Kept:
    def __init__(self) -> None:
        self.replies: dict[str, StoredReply] = {}

    async def find(self, namespace: str) -> StoredReply | None:
        await asyncio.sleep(0)
        return self.replies.get(namespace)


class Write:
    """A write that counts how often it runs and waits until it may end."""

    def __init__(self, kept: Kept, *, fails: int = 0, status: int = 200) -> None:
        self.kept, self.runs, self.fails, self.status = kept, 0, fails, status
        self.may_end = asyncio.Event()

    async def __call__(self) -> Answer:
        self.runs += 1
        await self.may_end.wait()
        if self.runs <= self.fails:
            raise Unavailable("restarting")
        self.kept.replies["n"] = StoredReply(fingerprint="f", status=self.status, body='{"a":1}')
        return Answer(self.status, '{"a":1}')


async def test_64_twins_run_once_and_all_get_the_answer() -> None:
    kept, reservations = Kept(), Reservations()
    write = Write(kept)
    twins = [asyncio.create_task(reservations.once(CLAIM, write, find=kept.find)) for _ in range(64)]
    await asyncio.sleep(0.01)
    write.may_end.set()
    responses = await asyncio.gather(*twins)
    assert write.runs == 1
    assert {bytes(response.body) for response in responses} == {b'{"a":1}'}
    replayed = [response.headers.get("Idempotency-Replayed") for response in responses]
    assert replayed.count(None) == 1
    assert len(reservations) == 0


async def test_a_repeat_after_the_end_is_replayed_with_its_status() -> None:
    kept, reservations = Kept(), Reservations()
    write = Write(kept, status=201)
    write.may_end.set()
    await reservations.once(CLAIM, write, find=kept.find)
    again = await reservations.once(CLAIM, write, find=kept.find)
    assert (write.runs, again.status_code) == (1, 201)
    assert again.headers["Idempotency-Replayed"] == "true"


async def test_another_content_is_refused_while_running_and_after() -> None:
    kept, reservations = Kept(), Reservations()
    write = Write(kept)
    other = Claim(namespace="n", fingerprint="other")
    first = asyncio.create_task(reservations.once(CLAIM, write, find=kept.find))
    await asyncio.sleep(0.01)
    with pytest.raises(Conflict, match="another request"):
        await reservations.once(other, write, find=kept.find)
    write.may_end.set()
    await first
    with pytest.raises(Conflict, match="another request"):
        await reservations.once(other, write, find=kept.find)


async def test_a_twin_gives_up_with_a_time_to_come_back() -> None:
    kept, reservations = Kept(), Reservations(wait_s=0.02)
    write = Write(kept)
    first = asyncio.create_task(reservations.once(CLAIM, write, find=kept.find))
    await asyncio.sleep(0)
    with pytest.raises(Conflict) as caught:
        await reservations.once(CLAIM, write, find=kept.find)
    assert caught.value.retry_after_s == 1
    write.may_end.set()
    await first


async def test_a_failure_releases_the_name_and_the_next_twin_tries() -> None:
    kept, reservations = Kept(), Reservations()
    write = Write(kept, fails=1)
    twins = [asyncio.create_task(reservations.once(CLAIM, write, find=kept.find)) for _ in range(5)]
    await asyncio.sleep(0.01)
    write.may_end.set()
    results = await asyncio.gather(*twins, return_exceptions=True)
    assert [type(result) for result in results].count(Unavailable) == 1
    assert write.runs == 2
    assert len(reservations) == 0


async def test_a_cancelled_write_releases_the_name() -> None:
    kept, reservations = Kept(), Reservations()
    write = Write(kept)
    first = asyncio.create_task(reservations.once(CLAIM, write, find=kept.find))
    second = asyncio.create_task(reservations.once(CLAIM, write, find=kept.find))
    await asyncio.sleep(0.01)
    first.cancel()
    write.may_end.set()
    assert (await second).status_code == 200
    assert first.cancelled()


async def test_c5_an_erased_reply_is_gone() -> None:
    kept, reservations = Kept(), Reservations()
    kept.replies["n"] = StoredReply(fingerprint="f", status=200, body="", erased=True)
    with pytest.raises(Gone):
        await reservations.once(CLAIM, Write(kept), find=kept.find)


def request(*keys: str, path: str = "/facts", method: str = "POST", query: str = "") -> Request:
    headers = [(b"idempotency-key", key.encode("latin-1")) for key in keys]
    return Request(
        {
            "type": "http",
            "method": method,
            "path": path,
            "headers": headers,
            "query_string": query.encode(),
        }
    )


def claimed(*args: Any, body: object = None, who: tuple[str | None, ...] = ("c", "p", None), **kw: Any) -> Claim:
    claim = claim_of(request(*args, **kw), body, who)
    assert claim is not None
    return claim


def test_the_name_covers_who_what_and_key() -> None:
    claims = [
        claimed("k"),
        claimed("other"),
        claimed("k", path="/sessions"),
        claimed("k", method="PUT"),
        claimed("k", who=("other", "p", None)),
        claimed("k", who=("c", "other", None)),
        claimed("k", who=("c", "p", "delegate")),
    ]
    assert len({claim.namespace for claim in claims}) == len(claims)
    assert len({claim.fingerprint for claim in claims}) == 1


def test_the_fingerprint_covers_body_and_query_in_any_order() -> None:
    one = claimed("k", body={"a": 1, "b": [2]}, query="x=1&y=2")
    assert one == claimed("k", body={"b": [2], "a": 1}, query="y=2&x=1")
    assert one.fingerprint != claimed("k", body={"a": 1, "b": [3]}, query="x=1&y=2").fingerprint
    assert one.fingerprint != claimed("k", body={"a": 1, "b": [2]}, query="x=1").fingerprint


@pytest.mark.parametrize("keys", [("a\x00b",), ("x" * 256,), ("é",), ("a\tb",), ("one", "two")])
def test_o18_keys_that_are_no_names_are_refused(keys: tuple[str, ...]) -> None:
    with pytest.raises(Invalid):
        claim_of(request(*keys), None, ())


def test_no_key_claims_nothing() -> None:
    assert claim_of(request(), None, ()) is None
    assert claim_of(request(""), None, ()) is None
    assert claimed("same", "same") == claimed("same")
