"""Where things are measured: a memory opened in this process, and one served by a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from typing import Any, Final

import httpx
import psutil

from keeps.config import Config
from keeps.core.access import Caller
from keeps.core.triples import parse_triples
from keeps.services import access, contexts
from keeps.services.remember import Infer, Message, Remember, remember
from keeps.services.runtime import Context, Runtime, open_runtime
from keeps.store.secrets import saved_keys

CONTEXT: Final = "default"
BATCH: Final = 250
_MAIN: Final = "from keeps.cli.app import main; main()"
_START_S: Final = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """A data folder open in this process, and its owner as the caller."""

    rt: Runtime
    context: Context
    caller: Caller

    @property
    def commits(self) -> int:
        """Commits that succeeded so far."""
        return self.rt.engine.commits


@asynccontextmanager
async def library(folder: Path, *, embedder: str = "none") -> AsyncGenerator[Library]:
    """The memory in `folder`, made when missing. What is timed beside a store without vectors has no `embedder`."""
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    async with open_runtime(Config().model_copy(update={"data": folder, "embedder": embedder})) as rt:
        if not await contexts.list_all(rt):
            await contexts.bootstrap(rt, CONTEXT)
        session = await access.authenticate(rt, CONTEXT, saved_keys(folder, CONTEXT)["owner"], None)
        yield Library(rt=rt, context=session.context, caller=session.caller)


async def fill(at: Library, messages: Sequence[str]) -> None:
    """Remember `messages`, a session for each batch of them, all in the owner's home."""
    for start in range(0, len(messages), BATCH):
        batch = [Message(text=text) for text in messages[start : start + BATCH]]
        await remember(at.rt, at.context, at.caller, Remember(infer=Infer.NONE, messages=batch))


async def state(at: Library, facts: Sequence[dict[str, Any]]) -> None:
    """Remember facts as given, in the owner's home."""
    for start in range(0, len(facts), BATCH):
        triples = parse_triples(facts[start : start + BATCH], anchor=at.rt.clock())
        await remember(at.rt, at.context, at.caller, Remember(infer=Infer.TRIPLES, triples=triples))


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A server in a process of its own. `started_s`: from the start of the process to its first answer."""

    pid: int
    endpoint: str
    key: str
    started_s: float

    def client(self) -> httpx.Client:
        """A client with the owner's key, for paths below the context."""
        return httpx.Client(
            base_url=f"{self.endpoint}/api/v1/{CONTEXT}",
            headers={"Authorization": f"Bearer {self.key}"},
            timeout=_START_S,
            trust_env=False,
        )


@contextmanager
def served(folder: Path, question: str | None = None, *, embedder: str = "none") -> Generator[Served]:
    """The memory in `folder` behind `keeps serve`. With a `question` the server counts as started once that is
    answered, else once it says that it is well."""
    folder.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    command = [sys.executable, "-c", _MAIN, "serve", "--data", str(folder), "--port", "0"]
    environment = os.environ | {"KEEPS_EMBEDDER": embedder}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
    try:
        at = _told(process, folder, started)
        with at.client() as http:
            if question is not None:
                http.post("/query", json={"query": question}).raise_for_status()
            else:
                http.get(f"{at.endpoint}/api/v1/health").raise_for_status()
        yield Served(pid=at.pid, endpoint=at.endpoint, key=at.key, started_s=time.perf_counter() - started)
    finally:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_START_S)
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def settled(http: httpx.Client, *, timeout_s: float = 1800.0) -> None:
    """Return once every row has its vector. Raises: TimeoutError."""
    until = time.monotonic() + timeout_s
    while not http.get("/index").raise_for_status().json()["settled"]:
        if time.monotonic() > until:
            raise TimeoutError(f"rows without vectors after {timeout_s:.0f} s")
        time.sleep(0.2)


def _told(process: subprocess.Popen[str], folder: Path, started: float) -> Served:
    """Where the server says that it answers."""
    assert process.stdout is not None
    for line in process.stdout:
        found = re.search(r"answers at (http://\S+?),", line)
        if found:
            key = saved_keys(folder, CONTEXT)["owner"]
            return Served(pid=process.pid, endpoint=found[1], key=key, started_s=time.perf_counter() - started)
    raise RuntimeError(f"the server ended with code {process.wait()} before it answered")


def resident_mb(pid: int) -> float:
    """Resident memory of a process and its children, MB (2^20 bytes)."""
    root = psutil.Process(pid)
    return round(sum(p.memory_info().rss for p in [root, *root.children(recursive=True)]) / 2**20, 1)


def cpu_s(pid: int) -> float:
    """Processor time that a process and its children have used, seconds: hardly touched by what else is running."""
    root = psutil.Process(pid)
    times = [process.cpu_times() for process in [root, *root.children(recursive=True)]]
    return sum(time.user + time.system for time in times)


def folder_bytes(folder: Path) -> int:
    """Size of all files below `folder`, bytes."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@asynccontextmanager
async def counting_flushes(pid: int | None) -> AsyncGenerator[list[int]]:
    """Counts what the process flushes to disk inside the block: one number afterwards, none when strace cannot."""
    counted: list[int] = []
    strace = which("strace")
    if strace is None or pid is None:
        yield counted
        return
    command = [strace, "-f", "-qq", "-e", "trace=fsync,fdatasync,sync_file_range,msync", "-p", str(pid)]
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    await asyncio.sleep(0.5)  # until it is attached
    attached = process.returncode is None
    try:
        yield counted
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
        _, output = await process.communicate()
        if attached:
            counted.append(sum(" resumed>" not in line and "sync(" in line for line in output.decode().splitlines()))


def spread_ms(times_s: Sequence[float]) -> dict[str, float]:
    """Median and 95th percentile of times, milliseconds."""
    ordered = sorted(times_s)
    return {
        "n": len(ordered),
        "p50_ms": round(statistics.median(ordered) * 1000, 3),
        "p95_ms": round(ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))] * 1000, 3),
    }


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    return {
        "cpus": os.cpu_count(),
        "load": [round(value, 2) for value in os.getloadavg()],
        "memory_mb": psutil.virtual_memory().total // 2**20,
        "python": sys.version.split()[0],
        "system": f"{os.uname().sysname} {os.uname().release} {os.uname().machine}",
    }


def save(out: Path, name: str, result: object) -> Path:
    """Write a result as JSON; where it lies."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{name}.json"
    path.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n")
    return path
