"""How long writes take, beside a bare commit of one row in the same engine, in the same run, turn by turn."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import httpx
from evals.making import Writer
from evals.place import Library, counting_flushes, cpu_s, library, served, spread_ms

from keeps.core.spaces import Space
from keeps.core.triples import parse_triples
from keeps.models.base import Embedder
from keeps.models.opened import open_embedder
from keeps.services.remember import Infer, Message, Remember, remember
from keeps.store.db import Db, RecordID

_BARE_TABLE: Final = "DEFINE TABLE IF NOT EXISTS bare SCHEMALESS;"
_BARE: Final = "BEGIN; CREATE $id CONTENT $row RETURN NONE; COMMIT;"
EMBEDDER: Final = "minilm"
_WARM_UP: Final = 5
_FLUSHED: Final = 10

Act = Callable[[], Awaitable[object]]


async def writes(folder: Path, rounds: int) -> dict[str, Any]:
    """Times of single writes: bare, in the library (`none`, `triples`), and over HTTP with a server of its own.

    Each round does one of each, so that all of them meet the same disk and the same load.
    Raises: AssertionError when a write took other than one commit.
    """
    async with library(folder / "library") as at:
        ours = await _library_acts(at)
        with served(folder / "served") as server, server.client() as http:
            acts = ours | _http_acts(http)
            times: dict[str, list[float]] = {name: [] for name in acts}
            for number in range(-_WARM_UP, rounds):
                for name, act in acts.items():
                    before = at.commits
                    started = time.perf_counter()
                    await act()
                    took = time.perf_counter() - started
                    if name in ours:
                        assert at.commits == before + 1, f"{name} took {at.commits - before} commits"
                    if number >= 0:
                        times[name].append(took)
        flushes = {name: await _flushes(at, act) for name, act in ours.items()}
    figures: dict[str, Any] = {name: spread_ms(spent) for name, spent in times.items()}
    bare = figures["bare"]
    for name, figure in figures.items():
        figure["ratio_p50"] = round(figure["p50_ms"] / bare["p50_ms"], 2)
        if name in ours:
            figure["commits_each"] = 1
            figure["flushes_each"] = flushes[name]
        if name.startswith("http_"):
            inside = figures[name.removeprefix("http_")]
            figure["over_library_ms"] = round(figure["p50_ms"] - inside["p50_ms"], 3)
    return figures


async def _library_acts(at: Library) -> dict[str, Act]:
    writer = Writer(2)
    bare_db: Db = await at.rt.engine.database("bare_rows")
    await bare_db.run(_BARE_TABLE)
    first = await remember(at.rt, at.context, at.caller, Remember(messages=[Message(text=writer.message())]))
    number = 0

    async def bare() -> object:
        nonlocal number
        number += 1
        row = {"text": writer.message(), "at": datetime.now(UTC), "number": number}
        return await bare_db.run(_BARE, id=RecordID("bare", number), row=row)

    async def none() -> object:
        request = Remember(messages=[Message(text=writer.message())], session=first.session)
        return await remember(at.rt, at.context, at.caller, request)

    async def triples() -> object:
        given = parse_triples([writer.triple()], anchor=at.rt.clock())
        request = Remember(infer=Infer.TRIPLES, triples=given, session=first.session)
        return await remember(at.rt, at.context, at.caller, request)

    return {"bare": bare, "none": none, "triples": triples}


def _http_acts(http: httpx.Client) -> dict[str, Act]:
    writer = Writer(2)
    session = _posted(http, "/facts", {"text": writer.message(), "infer": "none"})["sessionId"]

    async def none() -> object:
        return _posted(http, "/facts", {"text": writer.message(), "infer": "none", "session_id": session})

    async def triples() -> object:
        body = {"triples": [writer.triple()], "infer": "triples", "session_id": session}
        return _posted(http, "/facts", body)

    return {"http_none": none, "http_triples": triples}


def _posted(http: httpx.Client, path: str, body: dict[str, Any]) -> dict[str, Any]:
    return http.post(path, json=body).raise_for_status().json()


async def _flushes(at: Library, act: Act) -> float | None:
    """How often the engine flushes to disk for one write, on average; None when that cannot be seen."""
    worker: int | None = getattr(at.rt.engine, "worker_pid", None)
    async with counting_flushes(worker) as counted:
        for _ in range(_FLUSHED):
            await act()
    return counted[0] / _FLUSHED if counted else None


async def batches(folder: Path, size: int, count: int) -> dict[str, Any]:
    """Messages a second, `count` batches of `size` messages each, in the library and over HTTP."""
    writer = Writer(3)
    written = size * count
    async with library(folder / "library") as at:
        listed = [[Message(text=text) for text in writer.messages(size)] for _ in range(count + 1)]
        await remember(at.rt, at.context, at.caller, Remember(messages=listed.pop()))
        before, used, started = at.commits, cpu_s(os.getpid()), time.perf_counter()
        for messages in listed:
            await remember(at.rt, at.context, at.caller, Remember(messages=messages))
        inside, used_inside = time.perf_counter() - started, cpu_s(os.getpid()) - used
        assert at.commits == before + count, "a batch took other than one commit"
    with served(folder / "served") as server, server.client() as http:
        bodies = [
            {"messages": [{"role": "user", "content": text} for text in writer.messages(size)], "infer": "none"}
            for _ in range(count + 1)
        ]
        _posted(http, "/facts/batch", bodies.pop())
        used, started = cpu_s(server.pid), time.perf_counter()
        for body in bodies:
            _posted(http, "/facts/batch", body)
        outside, used_outside = time.perf_counter() - started, cpu_s(server.pid) - used
    return {
        "messages": written,
        "batch": size,
        "library_messages_per_s": round(written / inside),
        "library_cpu_ms": round(used_inside / written * 1000, 3),
        "http_messages_per_s": round(written / outside),
        "http_cpu_ms": round(used_outside / written * 1000, 3),
    }


async def vectors(folder: Path, size: int, count: int) -> dict[str, Any]:
    """Messages a second until each has its vector, `count` batches of `size`, beside the embedder alone on the same
    texts: half of them before and half after, so that both meet the same load."""
    texts = Writer(4).messages(size * count)
    alone = open_embedder(EMBEDDER)
    assert alone is not None
    await alone.space()
    half = len(texts) // 2
    bare = await _embedding(alone, texts[:half])
    async with library(folder / "library", embedder=EMBEDDER) as at:
        space = await alone.space()
        started = time.perf_counter()
        for first in range(0, len(texts), size):
            messages = [Message(text=text) for text in texts[first : first + size]]
            await remember(at.rt, at.context, at.caller, Remember(messages=messages))
        while not await _covered(at, space, len(texts)):  # noqa: ASYNC110 the index tells nobody when it is whole
            await asyncio.sleep(0.02)
        ours = time.perf_counter() - started
    bare += await _embedding(alone, texts[half:])
    await alone.close()
    return {
        "messages": len(texts),
        "batch": size,
        "bare_embedder_per_s": round(len(texts) / bare, 1),
        "messages_per_s": round(len(texts) / ours, 1),
        "ratio": round(bare / ours, 3),
    }


async def _embedding(embedder: Embedder, texts: Sequence[str]) -> float:
    started = time.perf_counter()
    await embedder.embed(texts)
    return time.perf_counter() - started


async def _covered(at: Library, space: Space, wanted: int) -> bool:
    return any(c.space == space and c.held >= wanted for c in await at.context.finder.spaces())
