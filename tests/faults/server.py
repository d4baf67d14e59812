"""`keeps serve` in a process of its own, made to be killed; and what is read from its folder afterwards."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import httpx
import psutil
from click.testing import Result
from typer.testing import CliRunner

from keeps.cli.app import app
from keeps.config import Config
from keeps.core.errors import Unavailable
from keeps.owning import owning
from keeps.store.owner import read_owner
from keeps.store.secrets import saved_keys

T = TypeVar("T")

READY_S = 60.0
CONTEXT = "default"


def until(found: Callable[[], T | None], *, limit_s: float = READY_S, what: str = "it") -> T:
    """The first true value that `found` gives. Fails after `limit_s`."""
    end = time.monotonic() + limit_s
    while True:
        value = found()
        if value:
            return value
        assert time.monotonic() < end, f"{what} did not happen within {limit_s} s"
        time.sleep(0.01)


def environment() -> dict[str, str]:
    """This environment without settings of ours, but with the embedder of the tests."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("KEEPS_") or name in ("KEEPS_EMBEDDER", "KEEPS_POLICY")
    }


def keeps(*arguments: str) -> Result:
    """One command of the command line, run to its end in this process: to start another takes seconds."""
    none = {name: None for name in os.environ if name not in environment()}
    with ThreadPoolExecutor(1) as beside:
        result = beside.submit(lambda: CliRunner().invoke(app, list(arguments), env=none)).result()
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


class Folder:
    """A data folder that somebody answers for at `endpoint`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.endpoint = ""

    def client(self, who: str = "owner", **more: Any) -> httpx.Client:
        """Requests below the context with a key saved in the folder."""
        headers = {"Authorization": f"Bearer {saved_keys(self.folder, CONTEXT)[who]}"}
        base = f"{self.endpoint}/api/v1/{CONTEXT}"
        return httpx.Client(base_url=base, headers=headers, trust_env=False, timeout=30, **more)


class Owner(Folder):
    """The folder owned by this process, as `keeps serve` owns it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._stopping = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Owner:
        self._thread.start()
        assert self._ready.wait(READY_S)
        assert self.endpoint
        return self

    def __exit__(self, *_: object) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(READY_S)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        async with owning(Config(data=self.folder), context="default") as owned:
            self.endpoint, self._loop = owned.endpoint, asyncio.get_running_loop()
            self._ready.set()
            await self._stopping.wait()


class Server(Folder):
    """`keeps serve` on a folder, which may die and be started again."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.log = folder.with_name(f"{folder.name}.log")
        self._process: subprocess.Popen[bytes] | None = None
        self._workers: set[psutil.Process] = set()

    def start(self) -> None:
        """Start it and wait until it answers."""
        process = self.launch()
        self.endpoint = until(lambda: self._answers(process), what="the server's first answer")

    def launch(self, *more: str) -> subprocess.Popen[bytes]:
        """Start it, and wait for nothing."""
        command = [sys.executable, "-m", "keeps", "serve", "--data", str(self.folder), "--port", "0", *more]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment()
            )
        return self._process

    def _answers(self, process: subprocess.Popen[bytes]) -> str | None:
        assert process.poll() is None, f"the server ended with {process.returncode}: {self.told()}"
        with suppress(Unavailable):
            owner = read_owner(self.folder)
            if owner is not None and owner.pid == process.pid:
                with suppress(httpx.TransportError):
                    if httpx.get(f"{owner.endpoint}/api/v1/health", trust_env=False).is_success:
                        self._workers.add(psutil.Process(self.worker_pid()))
                        return owner.endpoint
        return None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def worker_pid(self) -> int:
        """The process of its engine; waits until there is one."""

        def find() -> int | None:
            for child in psutil.Process(self.pid).children():
                with suppress(psutil.Error):
                    if "keeps.store.worker" in child.cmdline():
                        self._workers.add(child)
                        return child.pid
            return None

        return until(find, what="the engine's process")

    def told(self) -> str:
        """What it printed, in all its lives."""
        return self.log.read_text()

    def kill(self) -> None:
        """End it as a power cut would, and nothing else: its engine must notice by itself."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(READY_S)

    def stop(self) -> int:
        """Ask it to end; its exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(READY_S)

    def give_up(self) -> None:
        """Leave no process behind, whatever happened."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(READY_S)
        for worker in self._workers:
            with suppress(psutil.Error):
                worker.kill()


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """A server on `folder`, answering; it is gone afterwards."""
    server = Server(folder)
    try:
        server.start()
        yield server
    finally:
        server.give_up()


def note(text: str, **more: Any) -> dict[str, Any]:
    """The body that keeps a text as it is."""
    return {"text": text, "infer": "none", **more}


def fact(key: str, value: str, name: str = "Mara", **more: Any) -> dict[str, Any]:
    """The body that states a value of a key of a person."""
    triple = {"entity": {"type": "person", "name": name}, "key": key, "value": value, **more}
    return {"infer": "triples", "triples": [triple]}


def ids_in(reply: Any) -> set[str]:
    """The rows a write says it made."""
    extraction = reply.get("extraction") or {}
    return {f"turn:{reply['turnId']}", *(f"attribute:{row['id']}" for row in extraction.get("attributes", ()))}


def answers(client: httpx.Client, questions: Sequence[str]) -> list[list[tuple[str, str, float]]]:
    """What is found for each question: ids, texts and scores, in order."""
    found: list[list[tuple[str, str, float]]] = []
    for question in questions:
        reply = client.post("/query", json={"query": question, "k": 20})
        assert reply.status_code == 200, reply.text
        found.append([(hit["id"], hit["text"], hit["score"]) for hit in reply.json()["hits"]])
    return found
