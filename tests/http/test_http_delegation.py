"""Acting for another principal over HTTP reads what both may read, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from keeps.config import Config
from keeps.http.app import create_app
from keeps.http.deps import DELEGATION_HEADERS
from keeps.services import contexts
from keeps.services.runtime import open_runtime

PLACES = ("org/acme", "org/acme/plan", "org/acme/user/al", "org/acme/user/al/diary", "org/acme/user/bo", "org/beta")


class Place:
    """A context with a row of one word in every scope of `PLACES`."""

    def __init__(self, http: httpx.AsyncClient, owner_key: str, management_key: str) -> None:
        self.http = http
        self.owner = {"Authorization": f"Bearer {owner_key}"}
        self.management = {"Authorization": f"Bearer {management_key}"}

    async def ask(self, method: str, path: str, headers: dict[str, str], body: dict[str, Any] | None = None) -> Any:
        answer = await self.http.request(method, path, headers=headers, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    async def principal(self, name: str, pattern: str) -> tuple[str, dict[str, str]]:
        """A principal that may read and write `pattern`: its id, and what a request with its key carries."""
        at = "/contexts/harbour/principals"
        grants = {"memory:read": [pattern], "memory:write": [pattern]}
        made = await self.ask("POST", at, self.management, {"displayName": name, "grants": grants})
        key = await self.ask("POST", f"{at}/{made['id']}/keys/{name}", self.management, {})
        return made["id"], {"Authorization": f"Bearer {key['key']}"}

    async def readable(self, headers: dict[str, str]) -> set[str]:
        """The places whose row these headers can find."""
        found = await self.ask("POST", "/harbour/query", headers, {"query": "canary", "k": 50})
        return {hit["text"].removeprefix("canary of ") for hit in found["hits"]}


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    async with open_runtime(Config(delegation="any")) as rt:
        made = await contexts.bootstrap(rt, "harbour")
        transport = httpx.ASGITransport(app=create_app(rt))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1/api/v1") as http:
            place = Place(http, made.owner_key, made.management_key)
            for where in PLACES:
                body = {"infer": "none", "text": f"canary of {where}", "scopes": [[where]]}
                await place.ask("POST", "/harbour/facts", place.owner, body)
            yield place


async def test_worked_example_6_a_delegate_reads_only_what_the_target_covers(place: Place) -> None:
    _, key = await place.principal("k", "org/acme/*")
    al, _ = await place.principal("al", "org/acme/user/al/*")
    assert await place.readable(key) == set(PLACES) - {"org/beta"}
    for header in DELEGATION_HEADERS:
        assert await place.readable(key | {header: al}) == {"org/acme/user/al", "org/acme/user/al/diary"}
    acting = key | {DELEGATION_HEADERS[0]: al}
    body = {"infer": "none", "text": "canary", "scopes": [["org/acme/plan"]]}
    refused = await place.http.post("/harbour/facts", headers=acting, json=body)
    assert refused.status_code == 403


async def test_worked_example_6_an_exact_grant_of_the_target_covers_one_node(place: Place) -> None:
    _, key = await place.principal("k", "org/acme/*")
    al, _ = await place.principal("al", "org/acme/user/al")
    assert await place.readable(key | {DELEGATION_HEADERS[0]: al}) == {"org/acme/user/al"}


async def test_a_wider_target_lends_a_narrow_key_nothing(place: Place) -> None:
    wide, _ = await place.principal("wide", "org/*")
    _, key = await place.principal("al", "org/acme/user/al")
    assert await place.readable(key | {DELEGATION_HEADERS[0]: wide}) == {"org/acme/user/al"}
