"""The shell behind a real server: bytes on a socket rather than an in-process call."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated

import psutil
import pytest
import uvicorn
from fastapi import Depends
from starlette.responses import JSONResponse

from keeps.http.body import JsonBody
from keeps.http.shell import ShellSettings, new_app
from keeps.wire.base import WireIn


class Note(WireIn):
    text: str = ""


@pytest.fixture
async def port() -> AsyncIterator[int]:
    app = new_app(ShellSettings())

    @app.post("/note")
    async def note(body: Annotated[Note, Depends(JsonBody(Note))]) -> JSONResponse:
        return JSONResponse(len(body.text))

    @app.get("/n/{name:segment}")
    async def named(name: str) -> JSONResponse:
        return JSONResponse(name)

    server = uvicorn.Server(
        uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical", http="httptools", ws="none")
    )
    running = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    await running


async def exchange(port: int, *parts: bytes) -> tuple[int, bytes]:
    """The status and body of the reply to a request sent in parts, reading while sending."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def send() -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()

    sending = asyncio.create_task(send())
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
    )
    body = await reader.readexactly(length)
    sending.cancel()
    writer.close()
    return int(head.split(b" ")[1]), body


def post(*headers: bytes) -> bytes:
    return b"\r\n".join([b"POST /note HTTP/1.1", b"Host: 127.0.0.1", *headers, b"", b""])


MEBIBYTE = 1024 * 1024


async def test_o33_five_mebibytes_with_a_length(port: int) -> None:
    body = b'{"text":"' + b"A" * (5 * MEBIBYTE) + b'"}'
    status, reply = await exchange(port, post(b"Content-Length: %d" % len(body)), body)
    assert (status, json.loads(reply)["status"]) == (413, 413)


async def test_o33_an_endless_chunked_body_keeps_memory_flat(port: int) -> None:
    before = psutil.Process().memory_info().rss
    chunk = b"10000\r\n" + b"A" * 65536 + b"\r\n"
    status, _ = await exchange(port, post(b"Transfer-Encoding: chunked"), *[chunk] * 800)
    assert status == 413
    assert psutil.Process().memory_info().rss - before < 32 * MEBIBYTE


async def test_a_body_just_under_the_limit_is_read(port: int) -> None:
    body = b'{"text":"' + b"A" * (MEBIBYTE - 11) + b'"}'
    status, reply = await exchange(port, post(b"Content-Length: %d" % len(body)), body)
    assert (status, reply) == (200, str(MEBIBYTE - 11).encode())


async def test_an_encoded_slash_survives_the_server(port: int) -> None:
    status, reply = await exchange(port, b"GET /n/TCP%2FIP HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert (status, reply) == (200, b'"TCP/IP"')


@pytest.mark.parametrize(
    "request_line",
    [b"GET /n/%FF HTTP/1.1\r\nHost: localhost", b"GET /n/a HTTP/1.1\r\nHost: evil.example"],
)
async def test_refusals_reach_the_socket(port: int, request_line: bytes) -> None:
    status, reply = await exchange(port, request_line + b"\r\n\r\n")
    assert status == json.loads(reply)["status"] == 400
