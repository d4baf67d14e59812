"""Whoever wants to know what waits for a person is told with the reply, and cannot lose it."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from keeps.client import Client, calls

DONE = {"turnId": "t1", "sessionId": "s1"}


def client(on_pending: calls.OnPending, **headers: str) -> Client:
    def service(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"status": "ok", "version": "1", **DONE}, headers=headers)

    return Client(transport=httpx.MockTransport(service), on_pending=on_pending)


async def test_a_function_and_a_coroutine_function_are_told_before_the_reply() -> None:
    heard: list[int] = []

    async def later(number: int) -> None:
        await asyncio.sleep(0)
        heard.append(number)

    for told in (heard.append, later):
        async with client(told, **{calls.PENDING_HEADER: "3"}) as memory:
            await memory.health()
            assert heard.pop() == 3


@pytest.mark.parametrize("value", ["", "-1", "many", "9" * 30])
async def test_what_is_no_number_is_not_told(value: str) -> None:
    heard: list[int] = []
    async with client(heard.append, **{calls.PENDING_HEADER: value}) as memory:
        await memory.health()
    async with client(heard.append) as memory:
        await memory.health()
    assert heard == []


async def test_what_the_listener_raises_does_not_lose_the_reply() -> None:
    faults: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: faults.append(told["exception"]))

    def fails(number: int) -> None:
        raise RuntimeError(f"no room for {number}")

    async with client(fails, **{calls.PENDING_HEADER: "2"}) as memory:
        assert (await memory.health()).status == "ok"
    assert [str(fault) for fault in faults] == ["no room for 2"]


async def test_a_listener_that_hangs_does_not_hold_the_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "HEARD_S", 0.05)
    ended = asyncio.Event()

    async def hangs(_: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with client(hangs, **{calls.PENDING_HEADER: "2"}) as memory:
        assert (await memory.health()).status == "ok"
    assert ended.is_set()
