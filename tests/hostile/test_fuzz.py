"""Every route, with bodies and parameters of the shapes it declares and with broken ones: never a fault of ours."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.hostile.place import PROBLEM_MEMBERS, Harbour, Place

pytestmark = pytest.mark.slow

EXAMPLES = 2000
NASTY = (
    *("", " ", "a", "0", "-1", "true", "null", "person/Mara", "attribute:person/mara/role", "turn:x", "/*", "*", "/"),
    *("..", "a/../b", "%2e%2e", "user/owner", "team/x", "x=y", "_x=1", "2026-01-01T00:00:00Z", "9999-12-31", "\u0000"),
    *(
        "\ud800",
        "\ufdd0",
        "\u202e",
        "e\u0301",
        "'; REMOVE TABLE turn; --",
        "⟨x⟩",
        "a:b:c",
        "\U0001f469\u200d",
        "x" * 600,
    ),
)
TAME = (
    *("Mara", "pilot", "role", "person", "user/owner", "team/x", "topic=boat", "2026-01-01T00:00:00Z", "none"),
    *("person/Mara", "attribute:person/mara/role", "agent", "memory:read", "triples", "works_at"),
)
MUTANTS: tuple[Any, ...] = (
    *(None, True, 0, -1, 2**31, 2**53, 2**53 + 1, 10**400, 1.5, 1e308),
    *([], {}, [[]], [None], {"a": {}}, "x"),
)

texts = st.sampled_from(NASTY) | st.text(st.characters(exclude_categories=[]), max_size=30)
tame = st.sampled_from(TAME)
anything = st.recursive(
    st.sampled_from(MUTANTS) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
)


@dataclass(frozen=True, slots=True, repr=False)
class Operation:
    method: str
    path: str
    parameters: list[dict[str, Any]]
    body: dict[str, Any] | None


def operations(document: dict[str, Any]) -> Iterator[Operation]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            content = operation.get("requestBody", {}).get("content", {})
            body = content.get("application/json", {}).get("schema")
            yield Operation(method.upper(), path, operation.get("parameters", []), body)


def quoted(text: str) -> str:
    """Every byte escaped, those of half characters too."""
    return "".join(f"%{byte:02X}" for byte in text.encode("utf-8", "surrogatepass"))


@dataclass(frozen=True, slots=True, repr=False)
class Shapes:
    """Values of declared shapes; when `wild`, now and then something else in the place of a part."""

    named: dict[str, Any]
    wild: bool

    def of(self, schema: dict[str, Any], depth: int = 0) -> st.SearchStrategy[Any]:
        if depth > 5:
            return anything if self.wild else st.none()
        exactly = self._exactly(schema, depth)
        if not self.wild:
            return exactly
        return st.integers(0, 11).flatmap(lambda dice: anything if dice == 0 else exactly)

    def _exactly(self, schema: dict[str, Any], depth: int) -> st.SearchStrategy[Any]:
        if "$ref" in schema:
            return self.of(self.named[schema["$ref"].rpartition("/")[2]], depth + 1)
        for choice in ("anyOf", "oneOf", "allOf"):
            if choice in schema:
                return st.one_of([self.of(each, depth + 1) for each in schema[choice]])
        if "enum" in schema:
            return st.sampled_from(schema["enum"])
        match schema.get("type"):
            case "string":
                return texts if self.wild else tame
            case "integer":
                return st.integers(0, 50) if not self.wild else st.sampled_from([-1, 51, 2**31, 2**53])
            case "number":
                return st.floats(0, 1) if not self.wild else st.sampled_from([-1.0, 1e300])
            case "boolean":
                return st.booleans()
            case "null":
                return st.none()
            case "array":
                return st.lists(self.of(schema.get("items", {}), depth + 1), max_size=4)
            case "object":
                return self._object(schema, depth)
            case _:
                return anything if self.wild else st.none()

    def _object(self, schema: dict[str, Any], depth: int) -> st.SearchStrategy[Any]:
        members = {name: self.of(each, depth + 1) for name, each in schema.get("properties", {}).items()}
        required = set(schema.get("required", ()))
        if not members:
            return st.dictionaries(texts if self.wild else tame, anything if self.wild else tame, max_size=3)
        return st.fixed_dictionaries(
            {name: each for name, each in members.items() if name in required},
            optional={name: each for name, each in members.items() if name not in required},
        )


def sent(value: Any) -> bytes:
    """JSON as a careless client writes it, half characters and numbers beyond reason included."""
    return json.dumps(value, ensure_ascii=True).encode()


@dataclass(frozen=True, slots=True, repr=False)
class Surface:
    """All there is to ask of one context."""

    operations: list[Operation]
    shapes: dict[str, Any]
    harbour: Harbour


@st.composite
def requests(draw: st.DrawFn, surface: Surface) -> httpx.Request:
    harbour = surface.harbour
    shapes = Shapes(surface.shapes, wild=draw(st.booleans()))
    words = texts if shapes.wild else tame
    operation = draw(st.sampled_from(surface.operations))
    path, query = operation.path, []
    for parameter in operation.parameters:
        name = parameter["name"]
        if parameter["in"] == "path":
            value = harbour.id if name in ("context", "context_id") and draw(st.integers(0, 19)) else draw(words)
            # The context in use must stay: its manager may take it away.
            if (operation.method, operation.path) == ("DELETE", "/api/v1/contexts/{context_id}"):
                value = "absent"
            path = path.replace(f"{{{name}}}", quoted(value))
        elif draw(st.booleans()):
            query.append(f"{name}={quoted(draw(words | st.integers(-1, 600).map(str)))}")
    headers = {"Content-Type": "application/json" if draw(st.integers(0, 19)) else "text/plain"}
    if draw(st.integers(0, 4)) == 0:
        headers["Idempotency-Key"] = draw(st.sampled_from(["k1", "k2", "k3"]))
    managed = operation.path.startswith(("/api/v1/contexts", "/api/v1/verbs"))
    key = harbour.management_key if managed != (draw(st.integers(0, 19)) == 0) else harbour.owner.key
    headers["Authorization"] = f"Bearer {key}"
    body = b""
    if operation.body is not None:
        body = sent(draw(shapes.of(operation.body)))
        if shapes.wild and draw(st.integers(0, 9)) == 0:
            body = body[: draw(st.integers(0, len(body)))]
    url = harbour.place.endpoint + path + (f"?{'&'.join(query)}" if query else "")
    return httpx.Request(operation.method, url, headers=headers, content=body)


def test_no_request_is_a_fault_of_ours(place: Place) -> None:
    harbour = place.harbour()
    harbour.owner.save("the first note")
    harbour.owner.state("role", "pilot")
    document = place.http.get("/openapi.json").json()
    surface = Surface(list(operations(document)), document["components"]["schemas"], harbour)
    seen: Counter[tuple[str, str]] = Counter()
    good: set[tuple[str, str]] = set()

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(requests(surface))
    def ask(request: httpx.Request) -> None:
        reply = place.http.send(request)
        status = reply.status_code
        assert status < 500 or status == 501, (request.method, str(request.url), request.content, reply.text)
        assert reply.headers["X-Trace-Id"]
        if status >= 400:
            body = reply.json()
            assert set(body) == PROBLEM_MEMBERS, (request.method, str(request.url), body)
            assert body["status"] == status
        elif status == 204:
            assert reply.content == b""
        else:
            json.loads(reply.content, parse_constant=no_number)
            good.add((request.method, request.url.path))
        seen[request.method, str(status)] += 1

    ask()
    assert len(good) >= 20, seen
    assert harbour.owner.get("/me").status_code == 200
    harbour.owner.everything()


def no_number(name: str) -> float:
    raise AssertionError(f"{name} in a reply")
