"""What describes the interface: the page for people, the document for machines, and the root that names both."""

from __future__ import annotations

import html
import json
import re
from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from keeps.config import Config
from keeps.http.app import create_app
from keeps.services import contexts
from keeps.services.runtime import Runtime, open_runtime

NOBODYS_ID = "3v9c0k2m7x1q8d4f6h5j"
"""What stands in examples for the id of something."""


@pytest_asyncio.fixture
async def runtime() -> AsyncIterator[Runtime]:
    async with open_runtime(Config()) as rt:
        yield rt


@pytest_asyncio.fixture
async def made(runtime: Runtime) -> contexts.Bootstrapped:
    return await contexts.bootstrap(runtime, "harbour")


@pytest_asyncio.fixture
async def owner(runtime: Runtime, made: contexts.Bootstrapped) -> AsyncIterator[httpx.AsyncClient]:
    """The owner of a server of its own."""
    headers = {"Authorization": f"Bearer {made.owner_key}"}
    transport = httpx.ASGITransport(create_app(runtime))
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
    paths = sorted(document["paths"].items(), key=lambda item: item[0].endswith("/kill"))  # what stops all the rest
    page = html.unescape((await owner.get("/docs")).text)
    shapes = document["components"]["schemas"]
    sent = 0
    for path, operations in paths:
        for method, operation in operations.items():
            if "requestBody" not in operation:
                continue
            shape = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
            (example,) = shapes[shape]["examples"]
            assert example.keys() <= shapes[shape]["properties"].keys(), shape
            assert json.dumps(example, indent=2, ensure_ascii=False) in page, shape
            if method == "post" and path.startswith("/api/v1/{context}/") and path.count("{") == 1:
                reply = await owner.post(path.replace("{context}", "harbour"), json=example)
                absent = reply.status_code == 404 and NOBODYS_ID in json.dumps(example)
                assert reply.is_success or absent, (path, reply.text)
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


# --- what the reference page says about the unexpected ---------------------------------------------------


async def test_unknown_members_and_parameters_are_ignored(owner: httpx.AsyncClient) -> None:
    stated = {"entity": {"type": "person", "name": "Mara", "age": 4}, "key": "role", "value": "pilot", "since": "noon"}
    written = await owner.post("/api/v1/harbour/facts", json={"infer": "triples", "triples": [stated], "obs": "noon"})
    assert written.status_code == 200
    plain = await owner.post("/api/v1/harbour/query", json={"query": "role of Mara"})
    assert plain.json()["hits"]
    # asOf in the past finds nothing; misspelt it is no time at all.
    for name, hits in (("asOf", 0), ("asof", len(plain.json()["hits"]))):
        asked = {"query": "role of Mara", name: "1990-01-01T00:00:00Z"}
        assert len((await owner.post("/api/v1/harbour/query", json=asked)).json()["hits"]) == hits
    for name, facts in (("asOf", 0), ("asof", 1)):
        path = f"/api/v1/harbour/entities/person/mara?{name}=1990-01-01"
        assert len((await owner.get(path)).json()["attributes"]) == facts


async def test_confirmed_is_in_force_and_not_confirmed_by_a_person(
    owner: httpx.AsyncClient, made: contexts.Bootstrapped
) -> None:
    stated = {"entity": {"type": "person", "name": "Mara"}, "key": "role", "value": "pilot"}
    agent = {"Authorization": f"Bearer {made.agent_key}"}
    await owner.post("/api/v1/harbour/facts", json={"infer": "triples", "triples": [stated]}, headers=agent)
    (fact,) = (await owner.get("/api/v1/harbour/attributes")).json()["attributes"]
    assert (fact["status"], fact["origin"], fact["userConfirmed"]) == ("confirmed", "auto_accepted", False)


@pytest.mark.parametrize(
    ("text", "words", "finds"),
    [
        ("Wir buchen die Ferienwohnung", "Ferienwohnung", True),
        ("Wir buchen die Ferienwohnung", "Wohnung", False),
        ("Wir buchen die Ferienwohnung", "Ferien", False),
        ("港の水先案内人です", "案内", True),
        ("港の水先案内人です", "水案", False),
        ("เขาทำงานที่ท่าเรือ", "ท่าเรือ", True),
    ],
)
async def test_where_words_begin_and_end(owner: httpx.AsyncClient, text: str, words: str, finds: bool) -> None:
    await owner.post("/api/v1/harbour/facts", json={"text": text, "infer": "none"})
    hits = (await owner.post("/api/v1/harbour/query", json={"query": words})).json()["hits"]
    assert [hit["text"] for hit in hits] == [text] * finds
