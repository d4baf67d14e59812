"""What describes the interface: the page for people, the document for machines, and the root that names both."""

from __future__ import annotations

import html
import json
import re
from collections.abc import AsyncIterator

import httpx
import pytest_asyncio

from keeps.config import Config
from keeps.http.app import create_app
from keeps.services import contexts
from keeps.services.runtime import open_runtime


@pytest_asyncio.fixture
async def owner() -> AsyncIterator[httpx.AsyncClient]:
    """The owner of a server of its own."""
    async with open_runtime(Config()) as rt:
        made = await contexts.bootstrap(rt, "harbour")
        headers = {"Authorization": f"Bearer {made.owner_key}"}
        transport = httpx.ASGITransport(create_app(rt))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client:
            yield client


async def test_the_root_names_ways_that_answer_without_a_key(owner: httpx.AsyncClient) -> None:
    del owner.headers["Authorization"]
    told = (await owner.get("/")).json()
    assert (told["name"], told["docs"], told["openapi"]) == ("keeps", "/docs", "/openapi.json")
    for way in ("docs", "openapi", "health"):
        assert (await owner.get(told[way])).status_code == 200


async def test_every_body_has_an_example_that_is_taken_and_shown(owner: httpx.AsyncClient) -> None:
    document = (await owner.get("/openapi.json")).json()
    page = html.unescape((await owner.get("/docs")).text)
    shapes = document["components"]["schemas"]
    sent = 0
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if "requestBody" not in operation:
                continue
            shape = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
            (example,) = shapes[shape]["examples"]
            assert example.keys() <= shapes[shape]["properties"].keys(), shape
            assert json.dumps(example, indent=2, ensure_ascii=False) in page, shape
            if method == "post" and path.startswith("/api/v1/{context}/") and path.count("{") == 1:
                reply = await owner.post(path.replace("{context}", "harbour"), json=example)
                assert reply.is_success, (path, reply.text)
                sent += 1
    assert sent >= 10


async def test_the_page_is_for_people_and_has_no_dead_links(owner: httpx.AsyncClient) -> None:
    page = (await owner.get("/docs")).text
    document = (await owner.get("/openapi.json")).json()
    assert len(page) < 150_000
    assert '"$ref"' not in html.unescape(page)
    assert "Post Facts" not in page
    assert (
        document["paths"]["/api/v1/{context}/facts"]["post"]["summary"] == "Remember a text, or facts given as triples"
    )
    for name in document["components"]["schemas"]:
        assert f"id='{name}'" in page
    for anchor in re.findall(r"href='#([^']+)'", page):
        assert f"id='{anchor}'" in page
    assert "title" not in document["components"]["schemas"]["ForgetOut"]["properties"]["nearMisses"]
