"""No request makes the server fail: hostile values in every place of every route."""

from __future__ import annotations

import json
import random
import re
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from keeps.core.access import Verb

VALUES: list[Any] = [
    None,
    True,
    0,
    -1,
    2**53,
    1.5,
    "",
    " ",
    "x",
    "*",
    "/*",
    "/",
    "user/owner",
    "a/../b",
    "%2e%2e",
    "x" * 3000,
    "\u202edrawkcab",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "'; DROP TABLE turn; --",
    "$scope",
    "⟨id⟩",
    "turn:x",
    "entity:person/mara",
    "person/mara",
    "sp-x-y",
    "=",
    "_a=b",
    "a=b",
    "memory:read",
    "2026-01-01T00:00:00Z",
    "9999-12-31T23:59:60Z",
    [],
    {},
    [None],
    [[]],
    [[[]]],
    ["a", ["b"]],
    {"a": {"b": None}},
    {"type": "person", "name": "Mara"},
    [{"entity": {"type": "person", "name": "Mara"}, "key": "k", "value": "v"}],
    [{"role": "user", "content": "x"}],
    {"memory:read": ["a/*"]},
    {"memory:read": [{"a": "b"}]},
]
GONE_FOR_GOOD = {("delete", "/api/v1/contexts/{context_id}")}


def body_for(rng: random.Random, schema: dict[str, Any]) -> dict[str, Any]:
    names = list(schema.get("properties", {}))
    chosen = {name: rng.choice(VALUES) for name in names if rng.random() < 0.25}
    for name in schema.get("required", ()):
        if rng.random() < 0.8:
            chosen.setdefault(name, rng.choice(["x", "a/b", "word", [{"content": "x"}], ["memory:read"]]))
    return chosen


async def context_of_its_own(client: httpx.AsyncClient, manager: dict[str, str], name: str) -> str:
    """A key that may do everything in a new context, so that nothing done here reaches other tests."""
    made = await client.post(f"/api/v1/contexts/{name}", json={}, headers=manager)
    assert made.status_code == 201
    grants = {verb.value: ["/*"] for verb in Verb}
    people = f"/api/v1/contexts/{name}/principals"
    body = {"display_name": "everything", "grants": grants}
    principal = (await client.post(people, json=body, headers=manager)).json()["id"]
    return (await client.post(f"{people}/{principal}/keys/main", headers=manager)).json()["key"]


@pytest.mark.parametrize("seed", range(8))
async def test_no_request_makes_the_server_fail(served: Any, seed: int) -> None:
    rng = random.Random(seed)
    let_in = 0
    async with httpx.AsyncClient(base_url=served.endpoint, timeout=60) as client:
        document = (await client.get("/openapi.json")).json()
        shapes = document["components"]["schemas"]
        manager = {"Authorization": f"Bearer {served.management_key}"}
        context = f"fuzz-{seed}"
        owner = {"Authorization": f"Bearer {await context_of_its_own(client, manager, context)}"}
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                if (method, path) in GONE_FOR_GOOD:
                    continue
                management = path.startswith(("/api/v1/contexts", "/api/v1/verbs"))
                fixed = {"context": context, "context_id": context}
                url = re.sub(
                    r"\{(\w+)\}",
                    lambda found, fixed=fixed: quote(fixed.get(found[1]) or str(rng.choice(VALUES)) or "-", safe=""),
                    path,
                )
                params = {
                    item["name"]: str(rng.choice(VALUES))
                    for item in operation.get("parameters", ())
                    if item["in"] == "query" and rng.random() < 0.25
                }
                content = b""
                if "requestBody" in operation:
                    schema = operation["requestBody"]["content"]["application/json"]["schema"]
                    shape = shapes[schema["$ref"].rpartition("/")[2]]
                    content = json.dumps(body_for(rng, shape)).encode()
                headers = manager if management else owner
                reply = await client.request(method, url, params=params, content=content, headers=headers)
                assert reply.status_code < 500 or reply.status_code == 501, (method, url, content, reply.text)
                let_in += reply.status_code < 400
                if reply.status_code >= 400:
                    assert reply.json()["status"] == reply.status_code
                    assert reply.headers["X-Trace-Id"]
        # Whatever was let in, questions still work afterwards.
        asked = await client.post(f"/api/v1/{context}/query", json={"query": "word"}, headers=owner)
        assert asked.status_code == 200
    # Refusing everything would prove nothing.
    assert let_in >= 5
