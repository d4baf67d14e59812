"""Writing in the background: in order, never in the agent's way, and honest about what was not written."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import uvicorn

from keeps.client import Client
from keeps.config import Config
from keeps.core.errors import Forbidden, Limited, Unavailable
from keeps.http.app import create_app
from keeps.loop import Counts, Writer
from keeps.memory import Memory
from keeps.services import contexts
from keeps.services.runtime import open_runtime

AT_ONCE = (0.0,)


class Heard:
    """A memory that notes what is written, and does first what a test tells it, by text."""

    def __init__(self, **first: list[Any]) -> None:
        self.first = first
        self.heard: list[str] = []
        self.keys: dict[str, list[object]] = {}

    async def remember(self, text: str, **about: Any) -> None:
        self.keys.setdefault(text, []).append(about["idempotency_key"])
        if self.first.get(text):
            step = self.first[text].pop(0)
            if isinstance(step, asyncio.Event):
                await step.wait()
            else:
                raise step
        self.heard.append(text)

    async def remember_many(self, messages: list[Any], **about: Any) -> None:
        self.heard.append(str(len(messages)))


def writer(memory: Any, **options: Any) -> Writer:
    return Writer(memory, **{"pauses_s": AT_ONCE} | options)


async def test_d5_writes_of_a_scope_keep_their_order_though_the_first_must_be_tried_again() -> None:
    memory = Heard(one=[Unavailable("away"), Unavailable("away"), OSError("broken"), Limited("slow down")])
    async with writer(memory) as writing:
        for text in ("one", "two", "three"):
            assert writing.put(text, scopes="user/a")
        assert await writing.flush()
        assert memory.heard == ["one", "two", "three"]
        assert writing.counts == Counts(written=3)
    assert len(set(memory.keys["one"])) == 1
    assert len(memory.keys["one"]) == 5
    assert len({keys[0] for keys in memory.keys.values()}) == 3


async def test_d5_a_scope_that_is_slow_holds_up_no_other() -> None:
    gate = asyncio.Event()
    memory = Heard(slow=[gate])
    async with writer(memory) as writing:
        for text, scopes in (("slow", "user/a"), ("next", [["/user/a/"]]), ("other", "user/b")):
            writing.put(text, scopes=scopes)
        while writing.counts.waiting > 2:
            await asyncio.sleep(0)
        assert memory.heard == ["other"]
        gate.set()
        assert await writing.flush()
    assert memory.heard == ["other", "slow", "next"]


async def test_d5_put_neither_waits_nor_raises_and_a_full_queue_refuses_the_newest(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gate = asyncio.Event()
    memory = Heard(a=[gate])
    async with writer(memory, max_waiting=2) as writing:
        assert [writing.put(text) for text in ("a", "b", "secret word", "d")] == [True, True, False, False]
        assert writing.counts == Counts(waiting=2, refused=2)
        gate.set()
        assert await writing.flush()
        assert writing.put("e")
        await writing.flush()
    assert memory.heard == ["a", "b", "e"]
    assert "1 so far" in caplog.text
    assert "secret" not in caplog.text


async def test_d5_what_the_service_refuses_is_counted_and_the_next_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    memory = Heard(one=[Forbidden("the text one is secret")], two=[KeyError("a bug")])
    caplog.set_level(logging.DEBUG)
    async with writer(memory) as writing:
        for text in ("one", "two", "three"):
            writing.put(text)
        assert await writing.flush()
        assert writing.counts == Counts(written=1, failed=2)
    assert memory.heard == ["three"]
    assert "Forbidden" in caplog.text
    assert "secret" not in caplog.text
    assert "a bug" not in caplog.text


async def test_d5_each_write_has_a_deadline() -> None:
    memory = Heard(one=[asyncio.Event()], two=[Unavailable("away")] * 10_000)
    async with writer(memory, deadline_s=0.05) as writing:
        for text in ("one", "two", "three"):
            writing.put(text)
        assert await writing.flush(60)
        assert writing.counts == Counts(written=1, late=2)
    assert memory.heard == ["three"]


async def test_d5_a_try_that_hangs_is_made_again_with_the_same_key() -> None:
    memory = Heard(one=[asyncio.Event(), asyncio.Event()])
    async with writer(memory, try_s=0.02) as writing:
        writing.put("one")
        assert await writing.flush(60)
    assert memory.heard == ["one"]
    assert len(memory.keys["one"]) == 3
    assert len(set(memory.keys["one"])) == 1


async def test_d5_flush_says_when_it_was_not_enough_and_waits_only_for_what_was_there() -> None:
    gate = asyncio.Event()
    memory = Heard(one=[gate], later=[asyncio.Event()])
    writing = writer(memory)
    writing.start()
    writing.put("one")
    assert not await writing.flush(0.01)
    flushing = asyncio.ensure_future(writing.flush(60))
    await asyncio.sleep(0)
    writing.put("later", scopes="user/b")
    gate.set()
    assert await flushing
    assert not await writing.stop(0.01)
    assert writing.counts == Counts(written=1, late=1)


async def test_d5_stopped_it_takes_nothing_and_leaves_no_task() -> None:
    memory = Heard(one=[asyncio.Event()])
    before = asyncio.all_tasks()
    writing = writer(memory)
    writing.start()
    for text in ("one", "two"):
        writing.put(text)
    assert not await writing.stop(0)
    assert not writing.put("three")
    assert writing.counts == Counts(late=2, refused=1)
    assert await writing.stop(0)
    await asyncio.sleep(0)
    assert asyncio.all_tasks() <= before
    assert memory.heard == []


async def test_d5_what_is_put_before_it_starts_goes_first_and_what_changes_later_does_not_change_it() -> None:
    memory = Heard()
    writing = writer(memory)
    messages = [{"role": "user", "content": "hello"}]
    writing.put("early")
    writing.put_many(messages)
    messages.append({"role": "user", "content": "too late"})
    async with writing:
        assert await writing.flush()
    assert memory.heard == ["early", "1"]


async def test_d5_it_takes_from_any_thread_and_anything() -> None:
    class Nasty:
        def __deepcopy__(self, memo: object) -> object:
            raise ZeroDivisionError("no copies")

    memory = Heard()
    async with writer(memory) as writing:
        threads = [
            threading.Thread(target=lambda n=n: [writing.put(f"{n}.{m}") for m in range(20)], daemon=True)
            for n in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            await asyncio.to_thread(thread.join)
        assert not writing.put("x", metadata={"a": Nasty()})
        assert not writing.put("x", metadata=threading.Lock())
        assert await writing.flush()
        assert writing.counts == Counts(written=80, refused=2)
    for n in range(4):
        assert [text for text in memory.heard if text.startswith(f"{n}.")] == [f"{n}.{m}" for m in range(20)]


def test_d5_a_loop_that_is_gone_costs_the_caller_nothing() -> None:
    memory = Heard()

    async def begin() -> Writer:
        writing = writer(memory)
        writing.start()
        return writing

    writing = asyncio.run(begin())
    assert not writing.put("too late")
    assert writing.counts.refused == 1


async def test_d5_an_answer_that_was_lost_writes_nothing_twice(tmp_path: Path) -> None:
    """Over the real service: the first tries arrive, and their answers do not."""
    async with Memory.open(tmp_path / "m", saved_key="owner") as memory:
        lost = 3
        session = (await memory.sessions.create()).id

        class Losing:
            async def remember(self, text: str, **about: Any) -> Any:
                nonlocal lost
                done = await memory.remember(text, **about)
                if lost:
                    lost -= 1
                    raise Unavailable("the answer was lost")
                return done

        async with writer(Losing()) as writing:
            for n in range(3):
                writing.put(f"lemma number {n} is proved", infer="none", session=session)
            assert await writing.flush(60)
            assert writing.counts == Counts(written=3)
        said = [turn.content for turn in (await memory.sessions.turns(session)).turns]
        assert said == [f"lemma number {n} is proved" for n in range(3)]


@pytest_asyncio.fixture
async def app_and_key() -> AsyncIterator[tuple[Any, str]]:
    async with open_runtime(Config()) as rt:
        made = await contexts.bootstrap(rt, "harbour")
        yield create_app(rt), made.owner_key


async def _serving(app: Any, port: int) -> tuple[uvicorn.Server, asyncio.Task[None], int]:
    config = uvicorn.Config(app, host="127.0.0.1", port=port, log_level="critical", http="httptools", ws="none")
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    return server, running, server.servers[0].sockets[0].getsockname()[1]


@pytest.mark.slow
async def test_d5_a_server_that_dies_and_comes_back_gets_everything_once_in_order(
    app_and_key: tuple[Any, str],
) -> None:
    app, key = app_and_key
    server, running, port = await _serving(app, 0)
    async with (
        Client(f"http://127.0.0.1:{port}", context="harbour", key=key) as client,
        writer(client, pauses_s=(0.05,)) as writing,
    ):
        put = [f"lemma number {n} is proved" for n in range(6)]
        session = (await client.sessions.create()).id
        for text in put[:2]:
            writing.put(text, infer="none", session=session)
        assert await writing.flush(60)
        server.should_exit = True
        await running
        with pytest.raises(Unavailable):
            await client.health()
        for text in put[2:]:
            assert writing.put(text, infer="none", session=session)
        assert not await writing.flush(0.2)
        assert writing.counts == Counts(waiting=4, written=2)
        server, running, _ = await _serving(app, port)
        assert await writing.flush(60)
        assert writing.counts == Counts(written=6)
        assert [turn.content for turn in (await client.sessions.turns(session)).turns] == put
    server.should_exit = True
    await running
