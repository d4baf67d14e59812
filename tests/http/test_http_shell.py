"""The outermost layer, on an application with a few routes of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal

import httpx
import pytest
from fastapi import Depends, Request
from starlette.responses import JSONResponse, Response

from keeps.core.errors import KeepsError, NotFound, StoreRefused, Unauthenticated, Unavailable
from keeps.http.body import JsonBody
from keeps.http.envelope import ListShape, list_shape
from keeps.http.params import QueryOf
from keeps.http.shell import ShellSettings, hosts_for, new_app
from keeps.wire.base import TopK, WireIn
from keeps.wire.pages import PageQuery


class Ask(WireIn):
    query: str
    k: TopK = 10


AskBody = Annotated[Ask, Depends(JsonBody(Ask))]
Paged = Annotated[PageQuery, Depends(QueryOf(PageQuery))]

ERRORS: dict[str, Exception] = {
    "missing": NotFound("no such row"),
    "busy": Unavailable("restarting"),
    "lost": StoreRefused("lost changes"),
    "who": Unauthenticated("no key"),
    "fault": RuntimeError("secret text of a caller"),
    "base": KeepsError("unlisted"),
}


def make(settings: ShellSettings, gate: asyncio.Event | None = None) -> Any:
    app = new_app(settings)

    @app.get("/n/literal")
    async def literal() -> JSONResponse:
        return JSONResponse("literal")

    @app.get("/n/{name:segment}")
    async def named(name: str) -> JSONResponse:
        return JSONResponse(name)

    @app.get("/n/{kind:segment}/{name:segment}")
    async def pair(kind: str, name: str) -> JSONResponse:
        return JSONResponse([kind, name])

    @app.post("/ask")
    async def ask(body: AskBody) -> JSONResponse:
        return JSONResponse([body.query, body.k])

    @app.get("/list")
    async def listed(request: Request, page: Paged) -> JSONResponse:
        return JSONResponse([list_shape(request), page.limit])

    @app.get("/fail/{kind:segment}")
    async def fail(kind: str) -> None:
        raise ERRORS[kind]

    @app.get("/wait")
    async def wait() -> Response:
        assert gate is not None
        await gate.wait()
        return Response(status_code=204)

    return app


@asynccontextmanager
async def client(settings: ShellSettings | None = None, **kw: Any) -> AsyncIterator[httpx.AsyncClient]:
    app = make(settings or ShellSettings(), **kw)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:9090") as http:
        yield http


@pytest.mark.parametrize(
    ("path", "seen"),
    [
        ("/n/a%2Fb", "a/b"),
        ("/n/a%252Fb", "a%2Fb"),
        ("/n/100%25", "100%"),
        ("/n/Alice%20Smith%2F1", "Alice Smith/1"),
        ("/n/%3A%2A", ":*"),
        ("/n/caf%C3%A9", "café"),
        ("/n/plain/", "plain"),
        ("/n/lit%65ral", "literal"),
        ("/n/person/x%2Fy/", ["person", "x/y"]),
        ("/n/%2F", "/"),
        ("/n/a%2F", "a/"),
    ],
)
async def test_segments_arrive_as_meant(path: str, seen: object) -> None:
    async with client() as http:
        response = await http.get(path)
    assert (response.status_code, response.json()) == (200, seen)


@pytest.mark.parametrize("path", ["/n/%FF", "/n/%C3", "/n/%ED%A0%80", "/n/a%00b", "/n/" + "a" * 9000])
async def test_undecodable_paths_are_refused(path: str) -> None:
    async with client() as http:
        response = await http.get(path)
    assert response.status_code == 400
    assert response.json()["title"] == "Invalid request"


@pytest.mark.parametrize("path", ["/n/a/", "/ask/"])
async def test_nothing_is_redirected(path: str) -> None:
    async with client() as http:
        response = await http.post(path, json={"query": "q"})
    assert response.status_code in {200, 405}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nowhere", 404), ("POST", "/n/a", 405), ("GET", "/n//a/b", 404), ("GET", "/ask", 405)],
)
async def test_unrouted_requests_get_the_one_body(method: str, path: str, status: int) -> None:
    async with client() as http:
        response = await http.request(method, path)
    body = response.json()
    assert response.status_code == body["status"] == status
    assert {"type", "title", "detail", "instance", "message"} <= body.keys()
    assert response.headers["X-Trace-Id"]
    if status == 405:
        assert response.headers["Allow"]


@pytest.mark.parametrize(
    ("kind", "status"), [("missing", 404), ("busy", 503), ("lost", 503), ("who", 401), ("fault", 500), ("base", 500)]
)
async def test_every_error_has_the_one_body(kind: str, status: int, caplog: pytest.LogCaptureFixture) -> None:
    async with client() as http:
        response = await http.get(f"/fail/{kind}")
    assert response.status_code == response.json()["status"] == status
    assert response.json()["instance"] == f"/fail/{kind}"
    assert "secret" not in response.text + caplog.text
    waits = "1" if kind == "busy" else None  # nothing is gained by asking again for what a person has to mend
    assert response.headers.get("Retry-After") == waits
    assert response.json()["retry_after"] == (waits and int(waits))
    if status == 500:
        assert response.headers["X-Trace-Id"] in response.json()["detail"]


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (b'{"query":"q"}', {}, 200),
        (b'{"query":"q"}', {"Content-Type": "application/json; charset=UTF-8"}, 200),
        (b'{"query":"q"}', {"Content-Type": "text/plain"}, 415),
        (b'{"query":"q"}', {"Content-Type": "application/json; charset=utf-16"}, 415),
        (b'{"query":"q"}', {"Content-Encoding": "gzip"}, 415),
        (b"", {}, 400),
        (b"", {"Content-Type": "application/octet-stream"}, 400),
        (b'{"k":51,"query":"q"}', {}, 400),
        (b'{"query":null}', {}, 400),
        (b'{"query":"q","unknown":1}', {}, 200),
        (b"x" * (1024 * 1024 + 1), {}, 413),
    ],
)
async def test_bodies_are_read_or_refused(content: bytes, headers: dict[str, str], status: int) -> None:
    async with client() as http:
        response = await http.post("/ask", content=content, headers=headers)
    assert response.status_code == status, response.text


async def test_o33_a_body_without_a_length_is_refused_too() -> None:
    sent: list[int] = []

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(80):
            sent.append(65536)
            yield b"A" * 65536

    async with client() as http:
        response = await http.post("/ask", content=endless())
    assert response.status_code == 413
    assert sum(sent) <= 2 * 1024 * 1024


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:9090", "[::1]:9090", "[::1]"])
async def test_a_loopback_server_answers_to_its_names(host: str) -> None:
    async with client() as http:
        assert (await http.get("/n/a", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil",
        "[::1",
        "",
        "::1",
        "localhost:80@evil.example",
        "localhost:80:80",
        "localhost:http",
        "user@localhost",
        "localhost/",
        "localhost, evil.example",
        "[::1]:80@evil.example",
        "[localhost]",
    ],
)
async def test_a_loopback_server_refuses_other_names(host: str) -> None:
    async with client() as http:
        response = await http.get("/n/a", headers={"Host": host})
    assert response.status_code == 400


def test_only_loopback_addresses_restrict_the_name() -> None:
    assert hosts_for("0.0.0.0") is None
    assert hosts_for("memory.example") is None
    assert hosts_for("127.0.0.2") == {"localhost", "127.0.0.1", "::1", "127.0.0.2"}


async def test_a_public_server_answers_to_any_name() -> None:
    async with client(ShellSettings(allowed_hosts=None)) as http:
        assert (await http.get("/n/a", headers={"Host": "memory.example"})).status_code == 200


def test_nothing_of_a_request_is_reported_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    app = new_app(ShellSettings())
    assert app._telemetry["auto_configure"] is False
    assert not app._native_telemetry.enabled()


class Gate(asyncio.Event):
    """An event that knows how many came to wait for it."""

    waiting = 0

    async def wait(self) -> Literal[True]:
        self.waiting += 1
        return await super().wait()


async def test_too_many_at_once_are_told_to_come_back() -> None:
    gate = Gate()
    async with client(ShellSettings(max_in_flight=2), gate=gate) as http:
        running = [asyncio.create_task(http.get("/wait")) for _ in range(2)]
        while gate.waiting < 2:
            await asyncio.sleep(0)
        refused = await http.get("/n/a")
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
        gate.set()
        assert [(await task).status_code for task in running] == [204, 204]
        assert (await http.get("/n/a")).status_code == 200


async def test_cross_origin_calls_are_off_unless_listed() -> None:
    preflight = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST"}
    async with client() as http:
        closed = await http.options("/ask", headers=preflight)
    assert "access-control-allow-origin" not in closed.headers
    async with client(ShellSettings(cors_origins=("https://app.example",))) as http:
        opened = await http.options(
            "/ask", headers={**preflight, "Access-Control-Request-Headers": "authorization, x-any"}
        )
        foreign = await http.get("/n/a", headers={"Origin": "https://evil.example"})
    assert opened.headers["access-control-allow-origin"] == "https://app.example"
    assert "x-any" in opened.headers["access-control-allow-headers"]
    assert "access-control-allow-credentials" not in opened.headers
    assert "access-control-allow-origin" not in foreign.headers


async def test_the_version_asked_for_is_echoed_and_the_request_is_named() -> None:
    async with client() as http:
        one = await http.get("/n/a", headers={"api-version": "2026"})
        two = await http.get("/n/a", headers={"api-version": "a b"})
    assert one.headers["api-version"] == "2026"
    assert "api-version" not in two.headers
    assert one.headers["x-trace-id"] != two.headers["x-trace-id"]


@pytest.mark.parametrize(
    ("query", "headers", "shape"),
    [
        ("", {}, ListShape.OBJECT),
        ("", {"User-Agent": "surrealdb-py-spectron/1.0"}, ListShape.ARRAY),
        ("?limit=5", {"User-Agent": "surrealdb-py-spectron/1.0"}, ListShape.OBJECT),
        ("?count=true", {"User-Agent": "surrealdb-spectron-js/2"}, ListShape.OBJECT),
        ("?limit=5", {"X-List-Envelope": "array"}, ListShape.ARRAY),
        ("", {"X-List-Envelope": "object", "User-Agent": "surrealdb-py-spectron/1.0"}, ListShape.OBJECT),
        ("", {"User-Agent": "python-httpx surrealdb-py-spectron/"}, ListShape.OBJECT),
    ],
)
async def test_lists_take_the_shape_a_client_reads(query: str, headers: dict[str, str], shape: ListShape) -> None:
    async with client() as http:
        assert (await http.get(f"/list{query}", headers=headers)).json()[0] == shape
    async with client(ShellSettings(legacy_lists=True)) as http:
        expected = ListShape.ARRAY if not query and not headers else None
        if expected:
            assert (await http.get("/list")).json()[0] == expected


@pytest.mark.parametrize(
    ("query", "status"),
    [("?limit=", 200), ("?limit=9999", 200), ("?limit=1&limit=2", 400), ("?limit=x", 400), ("?zzz=1", 200)],
)
async def test_query_parameters_are_read_or_refused(query: str, status: int) -> None:
    async with client() as http:
        assert (await http.get(f"/list{query}")).status_code == status


async def test_the_description_is_complete_and_needs_nothing_from_elsewhere() -> None:
    async with client() as http:
        document = (await http.get("/openapi.json")).json()
        page = await http.get("/docs")
    body = document["paths"]["/ask"]["post"]["requestBody"]
    assert body["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Ask"}
    assert document["components"]["schemas"]["Ask"]["required"] == ["query"]
    names = [item["name"] for item in document["paths"]["/list"]["get"]["parameters"]]
    assert names == ["limit", "cursor", "count", "offset"]
    assert "POST /ask" in page.text
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    assert "http://" not in page.text
    assert "https://" not in page.text
    assert "<script" not in page.text


async def test_the_root_says_where_things_are_and_needs_no_key() -> None:
    async with client() as http:
        root = await http.get("/")
        assert root.status_code == 200
        told = root.json()
        assert (told["name"], told["docs"], told["openapi"]) == ("keeps", "/docs", "/openapi.json")
        for path in (told["docs"], told["openapi"]):
            assert (await http.get(path)).status_code == 200
        assert "/" not in (await http.get("/openapi.json")).json()["paths"]
