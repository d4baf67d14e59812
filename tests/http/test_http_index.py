"""The vectors of a context over HTTP: who may see and switch them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest_asyncio

from keeps.config import Config
from keeps.http.app import create_app
from keeps.services import contexts
from keeps.services.contexts import Bootstrapped
from keeps.services.runtime import open_runtime


@pytest_asyncio.fixture
async def http() -> AsyncIterator[tuple[httpx.AsyncClient, Bootstrapped]]:
    async with open_runtime(Config()) as rt:
        keys = await contexts.bootstrap(rt, "acme")
        transport = httpx.ASGITransport(create_app(rt))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1/api/v1") as client:
            yield client, keys


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


async def test_managers_see_and_switch_and_others_do_not(http: tuple[httpx.AsyncClient, Bootstrapped]) -> None:
    client, keys = http
    owner, agent, management = map(bearer, (keys.owner_key, keys.agent_key, keys.management_key))
    empty = {"mode": "hybrid", "embedder": "none", "spaces": [], "pending": 0, "stored": 0}
    seen = (await client.get("/acme/index", headers=owner)).json()
    assert {name: seen[name] for name in empty} == empty
    assert (await client.get("/contexts/acme/index", headers=management)).json()["mode"] == "hybrid"
    assert (await client.get("/acme/index", headers=agent)).status_code == 403
    assert (await client.patch("/acme/index", headers=agent, json={"mode": "durable"})).status_code == 403
    assert (await client.get("/contexts/acme/index", headers=owner)).status_code == 403
    assert (await client.get("/contexts/other/index", headers=management)).status_code == 404
    switched = await client.patch("/acme/index", headers=owner, json={"mode": "durable"})
    assert (switched.status_code, switched.json()["mode"]) == (200, "durable")
    config = (await client.get("/contexts/acme", headers=management)).json()["config"]
    assert config["mode"] == "durable"
    back = await client.patch("/contexts/acme", headers=management, json={"config": {"mode": None}})
    assert back.status_code == 200
    assert (await client.get("/acme/index", headers=owner)).json()["mode"] == "hybrid"
    for wrong in ({"mode": "semantic"}, {"embedder": "no such"}, {"embedder": ""}):
        assert (await client.patch("/acme/index", headers=owner, json=wrong)).status_code == 400
