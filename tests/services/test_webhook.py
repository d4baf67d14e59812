"""A host is told of proposals, by ids alone, behind the writes and within bounds."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from keeps.config import Config
from keeps.core import webhook as rules
from keeps.core.errors import Invalid, Unprocessable
from keeps.services import settings, webhook
from keeps.services.runtime import Runtime, open_runtime
from keeps.services.webhook import Webhook
from keeps.store.db import Engine
from tests.services.asking import Services
from tests.services.conftest import Borrowed, HandClock
from tests.services.waiting import people

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


@dataclass
class Host:
    """A host on loopback: what it was sent, and what it answers, the last answer again and again."""

    answers: Sequence[str] = ("200 OK",)
    port: int = 0
    messages: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    signed: list[bool] = field(default_factory=list[bool])
    heads: list[str] = field(default_factory=list[str])
    open_now: int = 0
    most_open: int = 0
    hold: asyncio.Event | None = None
    key: str = ""

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}/hook?team=a"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open_now += 1
        self.most_open = max(self.most_open, self.open_now)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            headers = dict(line.lower().partition(": ")[::2] for line in head.splitlines() if ": " in line)
            body = await reader.readexactly(int(headers["content-length"]))
            if self.hold is not None:
                await self.hold.wait()
            self.heads.append(head)
            self.messages.append(json.loads(body))
            self.signed.append(rules.is_signed(headers["x-keeps-signature"], self.key, body, now=NOW))
            answer = self.answers[min(len(self.messages), len(self.answers)) - 1]
            writer.write(f"HTTP/1.1 {answer}\r\nContent-Length: 0\r\n\r\n".encode())
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open_now -= 1
            writer.close()


@asynccontextmanager
async def listening(host: Host) -> AsyncIterator[Host]:
    server = await asyncio.start_server(host.serve, "127.0.0.1", 0)
    host.port = server.sockets[0].getsockname()[1]
    async with server:
        yield host
        if host.hold is not None:
            host.hold.set()
        while host.open_now:  # nobody is left over when the loop ends
            await asyncio.sleep(0.01)


def telling(host: Host, *, hosts: Sequence[str] = ("localhost",), url: str | None = None) -> Webhook:
    made = Webhook(
        "acme", b"secret", lambda: url or host.url, clock=lambda: NOW, private_hosts=hosts, pauses_s=(0.0, 0.0, 0.0)
    )
    host.key = made.key
    return made


async def test_what_is_proposed_together_is_told_in_one_signed_message() -> None:
    async with listening(Host()) as host:
        hook = telling(host)
        hook.tell(["a", "b"])
        hook.tell(["c"])
        await hook.settle()
        assert [(m["event"], m["ids"], m["count"]) for m in host.messages] == [("memory.proposed", ["a", "b", "c"], 3)]
        assert host.signed == [True]
        assert host.heads[0].startswith("POST /hook?team=a HTTP/1.1\r\n")
        assert f"\r\nHost: localhost:{host.port}\r\n" in host.heads[0]
        assert (hook.told, hook.dropped) == (1, 0)


async def test_one_message_is_under_way_at_a_time_and_tells_what_came_meanwhile_next() -> None:
    async with listening(Host(hold=asyncio.Event())) as host:
        hook = telling(host)
        hook.tell(["a"])
        while not host.open_now:
            await asyncio.sleep(0.01)
        for number in range(150):
            hook.tell([f"n{number}"])
        assert host.hold is not None
        host.hold.set()
        await hook.settle()
        assert host.most_open == 1
        assert [message["count"] for message in host.messages] == [1, 150]
        assert len(host.messages[1]["ids"]) == webhook.MOST_IDS


async def test_a_message_is_sent_again_a_bounded_number_of_times() -> None:
    async with listening(Host(answers=["500 No", "302 Elsewhere\r\nLocation: /other", "200 OK"])) as host:
        hook = telling(host)
        hook.tell(["a"])
        await hook.settle()
        assert (len(host.messages), hook.told, hook.dropped) == (3, 1, 0)
    async with listening(Host(answers=["500 No"])) as host:
        hook = telling(host)
        hook.tell(["a", "b"])
        await hook.settle()
        assert (len(host.messages), hook.told, hook.dropped) == (4, 0, 2)
    async with listening(Host(answers=["410 Gone"])) as host:
        hook = telling(host)
        hook.tell(["a"])
        await hook.settle()
        assert len(host.messages) == 1


async def test_a_host_that_hangs_is_given_up_and_closing_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "DEADLINE_S", 0.05)
    async with listening(Host(hold=asyncio.Event())) as host:
        hook = telling(host)
        hook.tell(["a"])
        await hook.settle()
        assert (hook.told, hook.dropped) == (0, 1)
    async with listening(Host(hold=asyncio.Event())) as host:
        monkeypatch.setattr(webhook, "DEADLINE_S", 600.0)
        hook = telling(host)
        hook.tell(["a"])
        while not host.open_now:
            await asyncio.sleep(0.01)
        await hook.close()
        hook.tell(["b"])
        assert hook.told == 0


@pytest.mark.parametrize("url", ["https://localhost:{port}/hook", "https://127.0.0.1:{port}/hook", "http://[::1]/hook"])
async def test_a_private_address_that_nobody_allowed_is_not_reached(url: str) -> None:
    async with listening(Host()) as host:
        hook = telling(host, hosts=(), url=url.format(port=host.port))
        hook.tell(["a"])
        await hook.settle()
        assert (host.messages, host.most_open, hook.dropped) == ([], 0, 1)


async def test_a_name_is_looked_up_once_and_the_answer_is_what_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    loop = asyncio.get_running_loop()

    async def answers(host: str, port: int, **_: Any) -> Any:
        looked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    async with listening(Host()) as host:
        monkeypatch.setattr(loop, "getaddrinfo", answers)
        hook = telling(host, hosts=["inner.example"], url=f"http://inner.example:{host.port}/hook")
        hook.tell(["a"])
        await hook.settle()
        assert hook.told == 1
        assert looked[0] == "inner.example"
        assert set(looked[1:]) <= {"127.0.0.1"}
        assert f"\r\nHost: inner.example:{host.port}\r\n" in host.heads[0]


async def test_nobody_is_told_without_an_address() -> None:
    hook = Webhook("acme", b"secret", lambda: None, clock=lambda: NOW)
    hook.tell(["a"])
    await hook.settle()
    assert (hook.told, hook.dropped) == (0, 0)


async def test_a_write_that_proposes_is_told_by_ids_and_waits_for_nobody(
    clock: HandClock, engine_of_the_run: Engine
) -> None:
    async with (
        listening(Host(hold=asyncio.Event())) as host,
        open_runtime(Config(webhook_hosts=("localhost",)), clock=clock, engine=Borrowed(engine_of_the_run)) as rt,
    ):
        at = await people(rt)
        change = settings.Change(document={"webhook_url": host.url}, expected=at.context.consent.settings.version)
        await settings.patch(rt, at.context, at.owner, change)
        triple = {"entity": {"type": "person", "name": "Mara"}, "key": "likes", "value": "quokkazanzibar"}
        done = await Services(rt, at.context, at.agent).remember(triples=[triple])
        assert host.messages == []  # the host holds its answer back, and the write did not wait for it
        assert host.hold is not None
        host.hold.set()
        await at.context.webhook.settle()
        (message,) = host.messages
        assert done.extraction is not None
        assert done.extraction.proposals is not None
        assert message["ids"] == [proposal.id for proposal in done.extraction.proposals]
        assert (message["context"], message["count"]) == ("deliberate", 1)
        assert "quokka" not in str(message) + "".join(host.heads)


async def test_settings_take_no_address_that_may_not_be_told(rt: Runtime) -> None:
    at = await people(rt)
    for url in ("http://localhost/hook", "ftp://host.example", "https://mara@host.example/"):
        change = settings.Change(document={"webhook_url": url}, expected=at.context.consent.settings.version)
        with pytest.raises((Invalid, Unprocessable)):
            await settings.patch(rt, at.context, at.owner, change)
