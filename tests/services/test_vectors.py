"""Vectors behind the acknowledgement: they follow the record, and nothing waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from keeps.config import Config
from keeps.core.generations import IndexStatus
from keeps.core.scopes import Scope
from keeps.core.spaces import Coverage, Space
from keeps.models.base import Embedder, EmbedderLost, Vectors
from keeps.models.fake import FakeEmbedder
from keeps.services import contexts, filling, vectors
from keeps.services.contexts import ContextChange
from keeps.services.erase import Forget, forget
from keeps.services.remember import Message, Remember, remember
from keeps.services.runtime import Context, Runtime, open_runtime
from keeps.store import vectors as store_vectors
from keeps.store.db import Engine
from tests.models.faulty import Faulty, Lie
from tests.services.conftest import Borrowed, caller


@asynccontextmanager
async def opened(engine: Engine, embedder: Embedder | None = None) -> AsyncIterator[tuple[Runtime, Context]]:
    """A runtime in memory with one context."""
    async with open_runtime(Config(), engine=Borrowed(engine), embedder=embedder) as rt:
        await contexts.bootstrap(rt, "acme")
        yield rt, await rt.context("acme")


async def until(context: Context, fits: Callable[[IndexStatus], bool], *, within_s: float = 20.0) -> IndexStatus:
    """The status once it fits."""
    async with asyncio.timeout(within_s):
        while not fits(status := await context.vectors.status()):
            await asyncio.sleep(0.01)
        return status


def is_settled(status: IndexStatus) -> bool:
    return status.settled and not status.pending


async def say(rt: Runtime, context: Context, *texts: str, scope: Scope | None = None) -> list[str]:
    """Write texts of one person; the refs of their turns."""
    messages = [Message(text=text) for text in texts]
    done = await remember(rt, context, caller("/*"), Remember(messages=messages, scope=scope))
    return [f"turn:{turn}" for turn in done.turns]


async def nearest(context: Context, question: str, *, limit: int = 1, deadline_s: float = 5.0) -> list[str]:
    """The refs whose meaning is nearest to a question."""
    found = await vectors.meaning_of(context, question, deadline_s)
    if found is None:
        return []
    return [near.ref for near in await context.finder.near(found, context.sets.everything(), limit=limit)]


class Held:
    """An embedder that begins a batch of rows and goes on when told to. Questions pass."""

    def __init__(self) -> None:
        self.behind = FakeEmbedder()
        self.begun = asyncio.Event()
        self.go = asyncio.Event()

    @property
    def model(self) -> str:
        return self.behind.model

    async def space(self) -> Space:
        return await self.behind.space()

    async def embed(self, texts: Sequence[str], *, asking: bool = False) -> Vectors:
        if not asking:
            self.begun.set()
            await self.go.wait()
        return await self.behind.embed(texts, asking=asking)

    async def close(self) -> None:
        await self.behind.close()


class Counted(Held):
    """The same, and notes the batches."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[str]] = []

    async def embed(self, texts: Sequence[str], *, asking: bool = False) -> Vectors:
        if not asking:
            self.batches.append(list(texts))
        return await super().embed(texts, asking=asking)


async def test_vectors_follow_what_is_written(engine_of_the_run: Engine) -> None:
    async with opened(engine_of_the_run, FakeEmbedder()) as (rt, context):
        ships, bread = await say(rt, context, "The lighthouse guides ships", "Fresh bread smells of yeast")
        status = await until(context, is_settled)
        assert status.stored == 2
        assert [(s.space, s.wanted, s.held, s.state) for s in status.spaces] == [
            (Space("fake-384", 384), 2, 2, "answering")
        ]
        assert await nearest(context, "ships and lighthouses") == [ships]
        assert await nearest(context, "yeast in the bread") == [bread]
        assert vectors.why_not(context) is None


async def test_a_write_does_not_wait_for_its_vector(engine_of_the_run: Engine) -> None:
    embedder = Held()
    async with opened(engine_of_the_run, embedder) as (rt, context):
        await say(rt, context, "The lighthouse guides ships")
        await embedder.begun.wait()
        await say(rt, context, "Fresh bread smells of yeast")
        assert (await context.vectors.status()).stored == 0
        embedder.go.set()
        assert (await until(context, is_settled)).stored == 2


async def test_what_a_question_needs_is_embedded_before_it_is_asked(engine_of_the_run: Engine) -> None:
    async with opened(engine_of_the_run, FakeEmbedder()) as (rt, context):
        await say(rt, context, "one thing")
        await until(context, is_settled)
        (ships,) = await say(rt, context, "The lighthouse guides ships")
        assert await vectors.fill(context, context.sets.everything(), budget_s=5.0)
        assert await nearest(context, "lighthouse for ships") == [ships]


async def test_fill_gives_up_in_time(engine_of_the_run: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "LOAD_PATIENCE_S", 600.0)  # that of a model that is not loaded yet
    embedder = Held()
    async with opened(engine_of_the_run, embedder) as (rt, context):
        await say(rt, context, "The lighthouse guides ships")
        await embedder.begun.wait()
        async with asyncio.timeout(30):
            assert not await vectors.fill(context, context.sets.everything(), budget_s=0.05)
        assert await vectors.fill(context, ["no such scope set"], budget_s=0.05)


async def test_without_an_embedder_nothing_is_missing(engine_of_the_run: Engine) -> None:
    async with opened(engine_of_the_run) as (rt, context):
        await say(rt, context, "The lighthouse guides ships")
        assert await vectors.fill(context, context.sets.everything())
        assert await vectors.meaning_of(context, "ships", 1.0) is None
        assert vectors.why_not(context) is None
        status = await until(context, is_settled)
        assert (status.spaces, status.stored, status.embedder) == ((), 0, "none")


async def test_what_is_counted_while_it_changes_does_not_pass_for_settled(engine_of_the_run: Engine) -> None:
    embedder = Held()
    async with opened(engine_of_the_run, embedder) as (rt, context):
        await say(rt, context, "The lighthouse guides ships")
        await embedder.begun.wait()
        spaces = context.finder.spaces

        async def before_the_end() -> list[Coverage]:
            found = await spaces()
            context.finder.spaces = spaces  # pyright: ignore[reportAttributeAccessIssue]
            embedder.go.set()
            await until(context, is_settled)
            return found

        context.finder.spaces = before_the_end  # pyright: ignore[reportAttributeAccessIssue]
        status = await context.vectors.status()
        assert (status.settled, status.pending) == (False, 1)


# ---------------------------------------------------------------------- faults
async def test_a_dead_embedder_stops_no_write_and_is_tried_again(engine_of_the_run: Engine) -> None:
    embedder = Faulty(FakeEmbedder(), fail=True)
    async with opened(engine_of_the_run, embedder) as (rt, context):
        (ships,) = await say(rt, context, "The lighthouse guides ships")
        await until(context, lambda status: status.fault is not None)
        assert await vectors.meaning_of(context, "ships", 1.0) is None
        assert not await vectors.fill(context, context.sets.everything())
        assert vectors.why_not(context)
        embedder.fail = False
        await until(context, is_settled)
        assert await nearest(context, "ships and lighthouses") == [ships]


async def test_a_hanging_embedder_holds_up_one_question_only(engine_of_the_run: Engine) -> None:
    embedder = Faulty(FakeEmbedder())
    async with opened(engine_of_the_run, embedder) as (rt, context):
        await say(rt, context, "The lighthouse guides ships")
        await until(context, is_settled)
        embedder.delay_s = 600.0
        assert await vectors.meaning_of(context, "ships", 0.2) is None
        assert "late" in (vectors.why_not(context) or "")
        calls = embedder.calls
        async with asyncio.timeout(60):
            for _ in range(20):
                assert await vectors.meaning_of(context, "other ships", 600.0) is None
            assert embedder.calls == calls, "no question is sent after one that hangs"
            await say(rt, context, "Fresh bread smells of yeast")
        begun_to_close = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - begun_to_close < 60, "closing waits for no answer"


@pytest.mark.parametrize("lie", ["width", "nan", "few", "zero"])
async def test_what_a_lying_embedder_says_is_kept_nowhere(engine_of_the_run: Engine, lie: Lie) -> None:
    embedder = Faulty(FakeEmbedder(), lie=lie)
    async with opened(engine_of_the_run, embedder) as (rt, context):
        await say(rt, context, "The lighthouse guides ships")
        status = await until(context, lambda status: status.fault is not None)
        assert status.stored == 0
        assert all(not space.held for space in status.spaces)
        assert await vectors.meaning_of(context, "ships", 1.0) is None


async def test_an_idle_follower_asks_for_nothing(engine_of_the_run: Engine) -> None:
    embedder = Faulty(FakeEmbedder())
    async with opened(engine_of_the_run, embedder) as (rt, context):
        await say(rt, context, "The lighthouse guides ships")
        await until(context, is_settled)
        asked = 0
        lacking = context.finder.lacking

        async def counted(*args: object, **kwargs: object) -> list[tuple[str, str]]:
            nonlocal asked
            asked += 1
            return await lacking(*args, **kwargs)  # pyright: ignore[reportArgumentType]

        context.finder.lacking = counted  # pyright: ignore[reportAttributeAccessIssue]
        await asyncio.sleep(0.3)
        assert (asked, embedder.calls) == (0, 1)


async def test_a_question_is_embedded_once(engine_of_the_run: Engine) -> None:
    embedder = Faulty(FakeEmbedder())
    async with opened(engine_of_the_run, embedder) as (rt, context):
        await say(rt, context, "The lighthouse guides ships")
        await until(context, is_settled)
        first = await vectors.meaning_of(context, "ships", 30.0)
        assert first is not None
        assert await vectors.meaning_of(context, "ships", 30.0) == first
        assert embedder.calls == 2


# ---------------------------------------------------------------------- erasing
@pytest.mark.parametrize("purge", [False, True])
async def test_what_is_erased_while_it_is_embedded_gets_no_vector(engine_of_the_run: Engine, purge: bool) -> None:
    embedder = Held()
    async with opened(engine_of_the_run, embedder) as (rt, context):
        ships, bread = await say(rt, context, "The lighthouse guides ships", "Fresh bread smells of yeast")
        await embedder.begun.wait()
        gone = await forget(rt, context, caller("/*"), Forget(ids=(ships,), purge=purge))
        assert gone.memories == 1
        embedder.go.set()
        status = await until(context, is_settled)
        assert status.stored == 1
        assert await nearest(context, "lighthouse for ships", limit=9) == [bread]


async def test_what_is_erased_takes_its_vector_along(engine_of_the_run: Engine) -> None:
    async with opened(engine_of_the_run, FakeEmbedder()) as (rt, context):
        ships, _ = await say(rt, context, "The lighthouse guides ships", "Fresh bread smells of yeast")
        await until(context, is_settled)
        await forget(rt, context, caller("/*"), Forget(ids=(ships,)))
        assert (await context.vectors.status()).stored == 1
        assert ships not in await nearest(context, "lighthouse for ships", limit=9)


# ---------------------------------------------------------------------- generations
async def change(rt: Runtime, **config: object) -> None:
    await contexts.patch(rt, "acme", ContextChange(config=config))


async def test_another_embedder_takes_over_once_it_has_everything(engine_of_the_run: Engine) -> None:
    async with opened(engine_of_the_run, FakeEmbedder()) as (rt, context):
        texts = [f"The lighthouse number {n} guides ships" for n in range(100)]
        refs = await say(rt, context, *texts)
        await until(context, is_settled)
        spaces: set[Space] = set()
        done, seen = asyncio.Event(), asyncio.Event()

        async def read() -> None:
            while not done.is_set():
                found = await vectors.meaning_of(context, "The lighthouse number 7 guides ships", 5.0)
                assert found is not None
                spaces.add(found[0])
                seen.set()
                near = await context.finder.near(found, context.sets.everything(), limit=1)
                assert [each.ref for each in near] == [refs[7]]
                await asyncio.sleep(0)

        async def write() -> None:
            for n in range(30):
                await say(rt, context, f"Bread number {n} smells of yeast")

        readers = [asyncio.create_task(read()) for _ in range(2)]
        await seen.wait()  # the old space has answered
        await change(rt, embedder="fake-768")
        await write()
        status = await until(
            context, lambda s: is_settled(s) and [each.space.dims for each in s.spaces] == [768], within_s=60
        )
        seen.clear()
        await asyncio.wait([asyncio.create_task(seen.wait()), *readers], return_when=asyncio.FIRST_COMPLETED)
        done.set()
        await asyncio.gather(*readers)
        assert spaces == {Space("fake-384", 384), Space("fake-768", 768)}
        assert (status.stored, await store_vectors.count(context.db, Space("fake-384", 384))) == (130, 0)


async def test_an_embedder_that_is_gone_leaves_the_answers_to_the_new_one(engine_of_the_run: Engine) -> None:
    async with opened(engine_of_the_run, FakeEmbedder()) as (rt, context):
        (ships,) = await say(rt, context, "The lighthouse guides ships")
        await until(context, is_settled)
        generation = (await store_vectors.generations(context.db))[0]
        await store_vectors.begin(context.db, replace(generation, embedder="no such"))
        await change(rt, embedder="fake-64")
        status = await until(context, lambda s: is_settled(s) and bool(s.spaces) and s.spaces[0].space.dims == 64)
        assert len(status.spaces) == 1
        assert await nearest(context, "ships and lighthouses") == [ships]


async def test_going_back_drops_what_was_begun(engine_of_the_run: Engine) -> None:
    async with opened(engine_of_the_run, FakeEmbedder()) as (rt, context):
        (ships,) = await say(rt, context, "The lighthouse guides ships")
        await until(context, is_settled)
        await change(rt, embedder="fake-768")
        await change(rt, embedder=None)
        status = await until(context, is_settled)
        assert [each.space.dims for each in status.spaces] == [384]
        assert await nearest(context, "ships and lighthouses") == [ships]


# ---------------------------------------------------------------------- many at once
async def test_batches_come_as_fast_as_they_are_embedded(engine_of_the_run: Engine) -> None:
    embedder = Held()
    async with opened(engine_of_the_run, embedder) as (rt, context):
        await say(rt, context, *(f"Ship number {n} left" for n in range(150)))
        await embedder.begun.wait()
        waiting = asyncio.create_task(say(rt, context, "one more", "and another"))
        (single,) = await say(rt, context, "A single write does not wait")
        assert single
        await asyncio.sleep(0.2)
        assert not waiting.done()
        embedder.go.set()
        async with asyncio.timeout(10):
            await waiting
        assert (await until(context, is_settled)).stored == 153


async def test_nobody_waits_for_what_others_wrote(engine_of_the_run: Engine) -> None:
    embedder = Counted()
    async with opened(engine_of_the_run, embedder) as (rt, context):
        bert, anna = Scope.from_lists([["r/bert"]]), Scope.from_lists([["r/anna"]])
        long = "harbour crane gull rope " * 60
        await say(rt, context, *(f"Long text {n} {long}" for n in range(500)), scope=bert)
        await embedder.begun.wait()
        async with asyncio.timeout(vectors.BACKLOG_WAIT_S - 1):  # no vector is made meanwhile
            await say(rt, context, "tiny one", "tiny two", scope=anna)
        full = asyncio.create_task(say(rt, context, "one more", "and another", scope=bert))
        await asyncio.sleep(0.2)
        assert not full.done()
        embedder.go.set()
        await until(context, is_settled)
        await full
        having = next(n for n, batch in enumerate(embedder.batches) if {"tiny one", "tiny two"} <= set(batch))
        assert having <= 2  # one was under way, one was read ahead
        assert max(sum(map(len, batch)) for batch in embedder.batches) <= filling.BATCH_CHARS


async def test_one_who_asks_all_the_time_keeps_nobody_waiting(engine_of_the_run: Engine) -> None:
    embedder = Counted()
    async with opened(engine_of_the_run, embedder) as (rt, context):
        bert, anna = Scope.from_lists([["r/bert"]]), Scope.from_lists([["r/anna"]])
        await say(rt, context, *(f"Text {n}" for n in range(500)), scope=bert)
        await embedder.begun.wait()
        await say(rt, context, "tiny", scope=anna)
        asking = asyncio.create_task(vectors.fill(context, {bert.id}, rows=500, budget_s=20.0))
        await asyncio.sleep(0)
        embedder.go.set()
        assert await asking
        assert next(n for n, batch in enumerate(embedder.batches) if "tiny" in batch) <= 3


async def test_batches_do_not_wait_for_an_embedder_that_fails(engine_of_the_run: Engine) -> None:
    embedder = Faulty(FakeEmbedder(), fail=True)
    async with opened(engine_of_the_run, embedder) as (rt, context):
        await say(rt, context, *(f"Ship number {n} left" for n in range(150)))
        await until(context, lambda status: status.fault is not None)
        async with asyncio.timeout(vectors.BACKLOG_WAIT_S - 1):
            await say(rt, context, "one more", "and another")


async def test_lost_embedders_say_what_happened_without_text(engine_of_the_run: Engine) -> None:
    class Telling(FakeEmbedder):
        async def embed(self, texts: Sequence[str], *, asking: bool = False) -> Vectors:
            raise EmbedderLost("the model is away")

    async with opened(engine_of_the_run, Telling()) as (rt, context):
        await say(rt, context, "A secret lighthouse")
        status = await until(context, lambda status: status.fault is not None)
        assert status.fault == "the model is away"


async def test_one_text_that_is_refused_keeps_no_other_from_its_vector(engine_of_the_run: Engine) -> None:
    class Choosy(FakeEmbedder):
        async def embed(self, texts: Sequence[str], *, asking: bool = False) -> Vectors:
            if any("poison" in text for text in texts):
                raise EmbedderLost("the model refuses that")
            return await super().embed(texts, asking=asking)

    async with opened(engine_of_the_run, Choosy()) as (rt, context):
        await say(rt, context, "A bottle of poison", *(f"Ship number {n} left" for n in range(40)))
        await until(context, lambda status: (status.stored, status.pending) == (40, 1))
        assert await vectors.meaning_of(context, "which ships left", 30.0) is not None


async def test_the_first_question_waits_for_the_model_to_be_loaded(
    engine_of_the_run: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "LOAD_PATIENCE_S", 60.0)
    loaded = asyncio.Event()

    class Slow(FakeEmbedder):
        async def space(self) -> Space:
            await loaded.wait()
            return await super().space()

    async with opened(engine_of_the_run, Slow()) as (rt, context):
        (ships,) = await say(rt, context, "The lighthouse guides ships")
        asked = asyncio.gather(
            vectors.fill(context, context.sets.everything()), nearest(context, "lighthouse for ships", deadline_s=0.1)
        )
        await asyncio.sleep(0.3)  # longer than either would wait for a model that is loaded
        assert not asked.done()
        loaded.set()
        assert await asked == [True, [ships]]
        assert vectors.patience_s(context, 0.1) == 0.1


async def test_a_question_to_an_empty_context_loads_nothing(engine_of_the_run: Engine) -> None:
    embedder = Faulty(FakeEmbedder())
    async with opened(engine_of_the_run, embedder) as (_, context):
        async with asyncio.timeout(30):
            assert await vectors.meaning_of(context, "ships", 600.0) is None
            assert await vectors.fill(context, context.sets.everything(), budget_s=600.0)
        assert (embedder.calls, vectors.why_not(context)) == (0, None)


async def test_an_index_that_lost_its_vectors_gets_them_again(engine_of_the_run: Engine) -> None:
    async with opened(engine_of_the_run, FakeEmbedder()) as (rt, context):
        ships, _ = await say(rt, context, "The lighthouse guides ships", "Fresh bread smells of yeast")
        await until(context, is_settled)
        await context.finder.drop_space(Space("fake-384", 384))
        assert await nearest(context, "lighthouse for ships") == []
        await say(rt, context, "one more")
        await until(context, lambda s: is_settled(s) and [each.held for each in s.spaces] == [3])
        assert await nearest(context, "lighthouse for ships") == [ships]
