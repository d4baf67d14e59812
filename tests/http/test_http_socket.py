"""The shell behind a real server: bytes on a socket rather than an in-process call."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Annotated

import psutil
import pytest
from fastapi import Depends
from starlette.responses import JSONResponse

from keeps.http import body as http_body
from keeps.http.body import JsonBody
from keeps.http.listen import listening
from keeps.http.shell import HEALTH_PATH, MAX_HEAD_BYTES, ShellSettings, new_app
from keeps.wire.base import WireIn


class Note(WireIn):
    text: str = ""


IN_FLIGHT = 16


@pytest.fixture
async def port() -> AsyncIterator[int]:
    app = new_app(ShellSettings(max_in_flight=IN_FLIGHT))

    @app.post("/note")
    async def note(body: Annotated[Note, Depends(JsonBody(Note))]) -> JSONResponse:
        return JSONResponse(len(body.text))

    @app.get("/n/{name:segment}")
    async def named(name: str) -> JSONResponse:
        return JSONResponse(name)

    @app.get(HEALTH_PATH)
    async def health() -> JSONResponse:
        return JSONResponse("up")

    async with listening(app) as endpoint:
        yield int(endpoint.rpartition(":")[2])


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


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def slow_senders(port: int, count: int, key: bytes) -> list[Connection]:
    """Connections that promise a body and send one byte of it; each either waits or was answered."""
    opened: list[Connection] = []
    for _ in range(count):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(post(b"Authorization: Bearer " + key, b"Content-Length: 1000") + b"{")
        await writer.drain()
        opened.append((reader, writer))
    return opened


async def status_of(reader: asyncio.StreamReader) -> int:
    return int((await reader.readuntil(b"\r\n\r\n")).split(b" ")[1])


async def test_slow_bodies_lock_nobody_out(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_body, "BODY_S", 1.0)
    slow = await slow_senders(port, 40, b"one")
    # A quarter of the places may wait with one key; the others are told so at once.
    heads = [asyncio.create_task(status_of(reader)) for reader, _ in slow]
    refused = 0
    for head in asyncio.as_completed(heads):
        assert await head == 503
        refused += 1
        if refused == 40 - IN_FLIGHT // 4:
            break
    assert (await exchange(port, b"GET " + HEALTH_PATH.encode() + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"))[0] == 200
    for _ in range(3):
        assert (await exchange(port, post(b"Authorization: Bearer two", b"Content-Length: 2"), b"{}"))[0] == 200
        assert (await exchange(port, b"GET /n/a HTTP/1.1\r\nHost: localhost\r\n\r\n"))[0] == 200
    assert sorted(await asyncio.gather(*heads)) == [400] * (IN_FLIGHT // 4) + [503] * refused
    for _, writer in slow:
        writer.close()
    assert (await exchange(port, post(b"Authorization: Bearer one", b"Content-Length: 2"), b"{}"))[0] == 200


async def test_a_body_that_never_ends_is_told_why_and_closed(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_body, "BODY_S", 0.3)
    ((reader, writer),) = await slow_senders(port, 1, b"one")
    async with asyncio.timeout(5):
        whole = await reader.read()
    writer.close()
    head, _, body = whole.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert b"connection: close" in head.lower()
    assert "did not arrive within 0.3 seconds" in json.loads(body)["message"]


async def test_parts_that_keep_coming_do_not_move_the_deadline(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_body, "BODY_S", 0.4)
    ((reader, writer),) = await slow_senders(port, 1, b"one")

    async def trickle() -> None:
        while True:
            writer.write(b" ")
            await asyncio.sleep(0.05)

    trickling = asyncio.create_task(trickle())
    async with asyncio.timeout(5):
        assert await status_of(reader) == 400
    trickling.cancel()
    writer.close()


async def test_headers_end_at_the_bound(port: int) -> None:
    below = b"X-Much: " + b"a" * (MAX_HEAD_BYTES - 200)
    assert (await exchange(port, post(below, b"Content-Length: 2"), b"{}"))[0] == 200
    # Whole in few reads, and without an end in sight.
    above = b"X-Much: " + b"a" * (MAX_HEAD_BYTES + 200)
    assert (await exchange(port, post(above, b"Content-Length: 2"), b"{}"))[0] == 400


@pytest.mark.parametrize(
    "before",
    [b"POST /note HTTP/1.1\r\nHost: localhost\r\n", post(b"Transfer-Encoding: chunked") + b"2\r\n{}\r\n0\r\n"],
    ids=["headers", "trailers"],
)
@pytest.mark.parametrize("line", [b"X-A: b\r\n" * 8192, b"X" * 65536], ids=["many", "one"])
async def test_endless_headers_are_refused_and_closed(port: int, before: bytes, line: bytes) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    sent = 0
    writer.write(before)
    with contextlib.suppress(ConnectionError):
        for _ in range(1000):
            writer.write(line)
            await writer.drain()
            sent += len(line)
    # Closed long before 64 MiB were taken; what the sockets buffer counts as sent.
    assert sent < 16 * MEBIBYTE
    writer.close()
    assert (await exchange(port, b"GET /n/a HTTP/1.1\r\nHost: localhost\r\n\r\n"))[0] == 200
