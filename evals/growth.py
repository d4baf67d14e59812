"""What a memory of many rows costs: time to ask, memory, bytes on disk, time to start and to build the index anew."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final

from evals.making import Writer
from evals.place import CONTEXT, Library, cpu_s, fill, folder_bytes, library, resident_mb, served, spread_ms, state

from keeps.core.scopes import Lens
from keeps.services import index
from keeps.services.recall import Recall, readable_sets, recall

_WARM_UP: Final = 100
"""Questions asked before time is taken: the index reads a word's places from its file when it is first asked for."""

_MESSAGES_A_FACT: Final = 20


async def growth(folder: Path, rows: int, *, questions: int, recalls: int) -> dict[str, Any]:
    """Figures of a memory with `rows` messages in one scope, and a fact for every 20 of them about the people that
    they mention, in `folder`, which must be empty.

    `questions` are timed in the finder alone, in the library and over HTTP, others each time; `recalls` are made
    before the memory of the server's processes is read.
    """
    writer = Writer(4)
    messages = writer.messages(rows)
    count = _WARM_UP + questions
    asked = [[writer.question(messages[(at * 7919 + leg) % rows]) for at in range(count)] for leg in range(3)]
    async with library(folder) as at:
        started = time.perf_counter()
        await fill(at, messages)
        filled_s = time.perf_counter() - started
        facts = [writer.belief() for _ in range(rows // _MESSAGES_A_FACT)]
        await state(at, facts)
        figures: dict[str, Any] = {
            "rows": rows,
            "facts": len(facts),
            "fill_messages_per_s": round(rows / filled_s),
            "find": await _finding(at, asked[0]),
            "recall": await _recalling(at, asked[1]),
        }
    figures |= {
        "record_bytes": folder_bytes(folder / "record"),
        "finder_bytes_a_row": round(folder_bytes(folder / CONTEXT / "finder") / rows),
    }
    figures |= await asyncio.to_thread(_serving, folder, asked[2], recalls)
    inside, outside = figures["recall"]["p50_ms"], figures["http_recall"]["p50_ms"]
    figures["http_recall"]["over_library_ms"] = round(outside - inside, 3)
    figures["rebuild_s"] = await _rebuilding(folder)
    return figures


async def _finding(at: Library, asked: Sequence[str]) -> dict[str, float]:
    """The text leg alone: from the question to ids and scores."""
    sets = readable_sets(at.context, at.caller, Lens())
    return await _timed(lambda question: at.context.finder.find(question, sets), asked)


async def _recalling(at: Library, asked: Sequence[str]) -> dict[str, float]:
    async def ask(question: str) -> None:
        found = await recall(at.rt, at.context, at.caller, Recall(query=question))
        assert found.hits, "a question cut out of a message found nothing"

    return await _timed(ask, asked)


async def _timed(ask: Callable[[str], Awaitable[object]], asked: Sequence[str]) -> dict[str, float]:
    """Times of `ask`, the first questions left out, and the processor time of all processes for each."""
    times: list[float] = []
    used = 0.0
    for number, question in enumerate(asked):
        if number == _WARM_UP:
            used = cpu_s(os.getpid())
        started = time.perf_counter()
        await ask(question)
        times.append(time.perf_counter() - started)
    used = cpu_s(os.getpid()) - used
    return spread_ms(times[_WARM_UP:]) | {"cpu_ms": round(used / len(times[_WARM_UP:]) * 1000, 2)}


def _serving(folder: Path, asked: Sequence[str], recalls: int) -> dict[str, Any]:
    """A server started on the folder: until its first answer, over HTTP, and what its processes hold."""
    with served(folder, question=asked[0]) as server, server.client() as http:
        times: list[float] = []
        used = 0.0
        for number, question in enumerate(asked):
            if number == _WARM_UP:
                used = cpu_s(server.pid)
            started = time.perf_counter()
            http.post("/query", json={"query": question}).raise_for_status()
            times.append(time.perf_counter() - started)
        used = cpu_s(server.pid) - used
        for number in range(recalls - len(asked)):
            http.post("/query", json={"query": asked[number % len(asked)]}).raise_for_status()
        return {
            "start_to_first_answer_s": round(server.started_s, 2),
            "http_recall": spread_ms(times[_WARM_UP:]) | {"cpu_ms": round(used / len(times[_WARM_UP:]) * 1000, 2)},
            "recalls": max(recalls, len(asked)),
            "resident_mb": resident_mb(server.pid),
        }


async def _rebuilding(folder: Path) -> float:
    """Seconds for a new index from the record."""
    async with library(folder) as at:
        started = time.perf_counter()
        await index.rebuild(at.context.indexed)
        return round(time.perf_counter() - started, 2)
