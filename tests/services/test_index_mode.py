"""Modes: durable keeps no vector anywhere, and a context goes from one to the other while it is used."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from keeps.config import Config
from keeps.core.errors import Forbidden, Invalid
from keeps.core.spaces import Space
from keeps.models.fake import FakeEmbedder
from keeps.services import contexts, index_mode, vectors
from keeps.services.contexts import ContextChange
from keeps.services.erase import Forget, forget
from keeps.services.index_mode import Switch
from keeps.services.runtime import Context, Runtime, open_runtime
from keeps.store import vectors as store_vectors
from keeps.store.db import Engine
from tests.models.faulty import Faulty
from tests.services.conftest import caller
from tests.services.test_vectors import Held, is_settled, nearest, opened, say, until

ROOT = Path(__file__).resolve().parents[2]


async def switch(rt: Runtime, context: Context, mode: str) -> None:
    await index_mode.switch(rt, context, caller(), Switch(mode=mode))


async def test_durable_keeps_no_vector_and_hybrid_brings_them_back(engine_of_the_run: Engine) -> None:
    embedder = Faulty(FakeEmbedder())
    async with opened(engine_of_the_run, embedder) as (rt, context):
        (ships,) = await say(rt, context, "The lighthouse guides ships")
        await until(context, is_settled)
        assert await nearest(context, "ships and lighthouses") == [ships]
        await switch(rt, context, "durable")
        assert await vectors.meaning_of(context, "ships and lighthouses", 1.0) is None, "questions follow at once"
        assert vectors.why_not(context) is None
        status = await until(context, is_settled)
        assert (status.spaces, status.stored, await store_vectors.generations(context.db)) == ((), 0, [])
        calls = embedder.calls
        (bread,) = await say(rt, context, "Fresh bread smells of yeast")
        assert (await until(context, is_settled)).stored == 0
        assert embedder.calls == calls, "nothing is embedded"
        await switch(rt, context, "hybrid")
        assert (await until(context, lambda s: is_settled(s) and bool(s.spaces))).stored == 2
        assert await nearest(context, "yeast in the bread") == [bread]


async def test_who_does_not_manage_all_may_neither_see_nor_switch(engine_of_the_run: Engine) -> None:
    async with opened(engine_of_the_run) as (rt, context):
        with pytest.raises(Forbidden):
            await index_mode.seen_by(context, caller("team/*"))
        with pytest.raises(Forbidden):
            await index_mode.switch(rt, context, caller("team/*"), Switch(mode="durable"))


@pytest.mark.parametrize("config", [{"mode": "semantic"}, {"mode": 1}, {"embedder": "no such"}, {"embedder": ""}])
async def test_what_is_no_mode_and_no_embedder_is_refused(engine_of_the_run: Engine, config: dict[str, object]) -> None:
    async with opened(engine_of_the_run) as (rt, _):
        with pytest.raises(Invalid):
            await contexts.patch(rt, "acme", ContextChange(config=config))


async def test_switching_while_a_batch_is_embedded_keeps_nothing_of_it(engine_of_the_run: Engine) -> None:
    embedder = Held()
    async with opened(engine_of_the_run, embedder) as (rt, context):
        await say(rt, context, "The lighthouse guides ships")
        await embedder.begun.wait()
        async with asyncio.timeout(5):
            await switch(rt, context, "durable")
        embedder.go.set()
        status = await until(context, is_settled)
        assert (status.stored, status.spaces) == (0, ())


@pytest.mark.slow
async def test_switching_while_a_thousand_rows_come_and_go(engine_of_the_run: Engine) -> None:
    async with opened(engine_of_the_run, FakeEmbedder()) as (rt, context):
        kept: list[str] = []
        gone: list[str] = []

        async def write() -> None:
            for batch in range(20):
                refs = await say(rt, context, *(f"Ship number {batch * 50 + n} left the port" for n in range(50)))
                await forget(rt, context, caller("/*"), Forget(ids=tuple(refs[::2]), purge=batch % 2 == 0))
                kept.extend(refs[1::2])
                gone.extend(refs[::2])

        async def turn() -> None:
            for mode in ("durable", "hybrid") * 4:
                await switch(rt, context, mode)
                await asyncio.sleep(0.2)

        await asyncio.gather(write(), turn())
        status = await until(context, lambda s: is_settled(s) and bool(s.spaces), within_s=60)
        space = Space("fake-384", 384)
        stored = {unit async for page in store_vectors.all_of(context.db, space) for unit in page}
        assert stored == {f"memory_chunk:{ref.removeprefix('turn:')}_0" for ref in kept}
        assert (status.stored, status.spaces[0].held) == (len(kept), len(kept))
        await switch(rt, context, "durable")
        status = await until(context, is_settled, within_s=60)
        assert (status.stored, status.spaces) == (0, ())


# ---------------------------------------------------------------------- on disk
def traces_of(vector: np.ndarray, folder: Path) -> Iterator[Path]:
    """Files of a finder that hold the bytes of a vector, in any of the forms it is kept in."""
    forms = [vector.astype(kind).tobytes()[:64] for kind in ("<f2", "<f4")]
    for path in folder.rglob("finder/*"):
        data = path.read_bytes()
        if any(form in data for form in forms):
            yield path


async def test_durable_leaves_no_byte_of_a_vector_in_the_index(tmp_path: Path) -> None:
    config = Config(data=tmp_path / "m", embedder="fake")
    text = "The lighthouse guides ships"
    vector = (await FakeEmbedder().embed([text]))[0]
    async with open_runtime(config) as rt:
        await contexts.bootstrap(rt, "acme")
        context = await rt.context("acme")
        await say(rt, context, text)
        await until(context, is_settled)
    assert list(traces_of(vector, tmp_path)), "the test can find a vector"
    async with open_runtime(config) as rt:
        context = await rt.context("acme")
        await switch(rt, context, "durable")
        await until(context, is_settled)
        assert not list(traces_of(vector, tmp_path))
        assert await store_vectors.count(context.db) == 0
    assert not list(traces_of(vector, tmp_path))


async def test_a_switch_that_was_interrupted_is_completed_at_the_next_opening(tmp_path: Path) -> None:
    config = Config(data=tmp_path / "m", embedder="fake")
    async with open_runtime(config) as rt:
        await contexts.bootstrap(rt, "acme")
        context = await rt.context("acme")
        await say(rt, context, "The lighthouse guides ships")
        await until(context, is_settled)
        await context.vectors.close()  # as if the process died once the new mode was written
        await contexts.patch(rt, "acme", ContextChange(config={"mode": "durable"}))
        assert await store_vectors.count(context.db) == 1
    async with open_runtime(config) as rt:
        context = await rt.context("acme")
        assert await store_vectors.count(context.db) == 0
        assert await context.finder.spaces() == []


FILLER = """
    import asyncio, sys
    from pathlib import Path
    from keeps.config import Config
    from keeps.models.fake import FakeEmbedder
    from tests.models.faulty import Faulty
    from keeps.services import contexts
    from keeps.services.runtime import open_runtime
    from tests.services.test_vectors import say

    async def main():
        embedder = Faulty(FakeEmbedder(), delay_s=0.05)
        async with open_runtime(Config(data=Path(sys.argv[1])), embedder=embedder) as rt:
            if not await contexts.list_all(rt):
                await contexts.bootstrap(rt, "acme")
            context = await rt.context("acme")
            for batch in range(8):
                await say(rt, context, *(f"Ship number {batch * 50 + n} left the port" for n in range(50)))
            while (await context.vectors.status()).stored < 100:
                await asyncio.sleep(0.01)
            print("half", flush=True)
            await asyncio.sleep(60)

    asyncio.run(main())
"""


@pytest.mark.slow
async def test_filling_goes_on_after_a_kill(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(FILLER), str(tmp_path / "m")], stdout=subprocess.PIPE, cwd=ROOT
    ) as process:
        assert process.stdout is not None
        assert await asyncio.to_thread(process.stdout.readline) == b"half\n"
        process.kill()
    async with open_runtime(Config(data=tmp_path / "m", embedder="fake")) as rt:
        context = await rt.context("acme")
        status = await until(context, lambda s: is_settled(s) and s.stored == 400, within_s=60)
        assert [(each.wanted, each.held, each.state) for each in status.spaces] == [(400, 400, "answering")]
        assert len(await nearest(context, "Ship number 399 left the port", limit=5)) == 5


async def test_a_change_of_embedder_goes_on_after_a_restart(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    async with open_runtime(Config(data=folder, embedder="fake-64")) as rt:
        await contexts.bootstrap(rt, "acme")
        context = await rt.context("acme")
        (ships,) = await say(rt, context, "The lighthouse guides ships")
        await until(context, is_settled)
    held = Faulty(FakeEmbedder(768), fail=True)
    async with open_runtime(Config(data=folder), embedder=held) as rt:
        context = await rt.context("acme")
        await until(context, lambda status: status.fault is not None)
        assert await nearest(context, "ships and lighthouses") == [ships], "the old one goes on answering"
    async with open_runtime(Config(data=folder, embedder="fake-768")) as rt:
        context = await rt.context("acme")
        await until(context, lambda s: is_settled(s) and [each.space.dims for each in s.spaces] == [768])
        assert await nearest(context, "ships and lighthouses") == [ships]
