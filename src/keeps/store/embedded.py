"""The embedded engine: databases behind one worker process, asked in turn, replaced when it dies or hangs."""

from __future__ import annotations

import asyncio
import os
import pickle
import queue
import re
import threading
import time
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, LiteralString

from keeps.core.errors import KeepsError, Unavailable
from keeps.store.address import StoreUrl, checked_name
from keeps.store.outcome import LostConflict, error_for, retrying
from keeps.store.process import WorkerDied, WorkerProcess, WorkerSilent

OPEN_TIMEOUT_S: Final = 120.0
"""How long a database may take to open: one with a log of 170 MB takes about two seconds."""

CLOSE_TIMEOUT_S: Final = 300.0
"""How long the flush at the end may take: 40 s were seen after an import of 100,000 rows."""

SPARE_BYTES: Final = 1024 * 1024
"""Room, beside twice the logs, that must be free before a store whose disk was full is written again."""

_WRITES: Final = re.compile(
    r"\b(BEGIN|CREATE|INSERT|UPDATE|UPSERT|DELETE|RELATE|DEFINE|REMOVE|ALTER|REBUILD)\b", re.IGNORECASE
)

_DIED: Final = "The record's engine stopped and is being restarted; nothing was acknowledged, try again."
_HUNG: Final = "The record's engine did not answer in time and is being restarted; try again."
_BUSY: Final = "The record is busy; try again."
_STARTING: Final = "The record's engine is starting; try again."
_CLOSED: Final = "The record is closed."
_MEMORY_LOST: Final = "The process that held this in-memory store ended, and its contents with it."


@dataclass(slots=True)
class _Job:
    work: Callable[[], Any]
    future: Future[Any] = field(default_factory=Future[Any])
    expired: bool = False

    def expire(self) -> None:
        self.expired = self.future.cancel()


class EmbeddedEngine:
    """Databases of one embedded store. All calls go to one worker process, one at a time and in order.

    A call waits at most its `timeout_s` for its turn (then it was not run), and runs at most as long (then
    the worker counts as hung and is replaced). While the store is reopened on purpose nobody's time runs out. Not
    bound to an event loop.
    """

    def __init__(self, url: StoreUrl) -> None:
        self._url = url
        self._worker: WorkerProcess | None = None
        self._memory_lost = False
        self._refused_by_disk = False
        self._closed = False
        self._commits = 0
        self._reopening = 0
        self._reopened_at = float("-inf")
        self._idle_since: float | None = time.monotonic()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work_off, name="keeps-engine", daemon=True)
        self._thread.start()

    @property
    def commits(self) -> int:
        """Scripts with a COMMIT that succeeded since this engine was opened, counted in the worker."""
        return self._commits

    @property
    def worker_pid(self) -> int | None:
        """The worker's process id, for diagnosis; `None` while there is none."""
        worker = self._worker
        return None if worker is None else worker.pid

    @property
    def idle_s(self) -> float:
        """How long nobody has asked for anything, seconds; 0 while somebody waits."""
        since = self._idle_since
        return 0.0 if since is None or not self._jobs.empty() else time.monotonic() - since

    @property
    def worker_bytes(self) -> int:
        """Memory the worker holds, bytes; 0 without a worker, and where the system does not tell."""
        with suppress(OSError, ValueError, IndexError):
            return int(Path(f"/proc/{self.worker_pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return 0

    async def start(self) -> None:
        """Start the worker. Raises `StoreRefused` when the folder cannot be used."""
        await self._submit(lambda: self._ready(OPEN_TIMEOUT_S), OPEN_TIMEOUT_S)

    async def database(self, name: str) -> EmbeddedDb:
        """The database `name`, made when missing. Raises `StoreRefused` when its files are locked or bad."""
        checked_name(name)
        await self._submit(lambda: self._open("define", name, OPEN_TIMEOUT_S), OPEN_TIMEOUT_S)
        return EmbeddedDb(self, name)

    async def remove_database(self, name: str) -> None:
        """Drop the database `name` with its files; nothing when there is none."""
        await self.ask(None, ("remove", checked_name(name)), OPEN_TIMEOUT_S)

    async def recycle(self) -> None:
        """Close the store and open it again in a fresh process, to give memory back after an import.

        What is asked meanwhile waits, and is answered by the new process.
        """
        await self._reopen(self._url)

    @asynccontextmanager
    async def bulk(self) -> AsyncGenerator[None]:
        """Inside, commits are not flushed to disk one by one: for an import into a store that is thrown away
        when the import fails. At the end everything is flushed and the store reopened as before."""
        before = self._url
        await self._reopen(before.with_sync("never"))
        try:
            yield
        finally:
            await self._reopen(before)

    async def close(self) -> None:
        """Flush, then end the worker. Waits for the flush: up to a minute after a large import."""
        if self._closed:
            return
        self._closed = True
        job = _Job(self._close_worker)
        self._jobs.put(job)
        self._jobs.put(None)
        await asyncio.shield(asyncio.wrap_future(job.future))

    async def ask(self, database: str | None, request: tuple[Any, ...], timeout_s: float) -> Any:
        """The worker's answer to one request; see `Db.run` for what it raises."""
        message = pickle.dumps(request)  # here, so that what cannot be sent is the caller's error
        reads = request[0] == "run" and not _WRITES.search(request[2])
        return await self._submit(lambda: self._answer(database, message, timeout_s, reads), timeout_s)

    async def _reopen(self, url: StoreUrl) -> None:
        def reopen() -> None:
            if not url.in_memory:
                names = sorted(self._worker.databases) if self._worker is not None else []
                self._close_worker()
                self._url = url
                self._ready(OPEN_TIMEOUT_S)
                for name in names:  # here, where there is time: those who wait have less
                    self._open("reopen", name, OPEN_TIMEOUT_S)

        self._reopening += 1
        try:
            await self._submit(reopen, CLOSE_TIMEOUT_S)
        finally:
            self._reopened_at = time.monotonic()
            self._reopening -= 1

    async def _submit(self, work: Callable[[], Any], timeout_s: float) -> Any:
        if self._closed:
            raise Unavailable(_CLOSED)
        loop, job = asyncio.get_running_loop(), _Job(work)

        def expire() -> None:
            nonlocal timer
            left = timeout_s if self._reopening else self._reopened_at + timeout_s - time.monotonic()
            if left > 0:
                timer = loop.call_later(left, expire)
            else:
                job.expire()

        timer = loop.call_later(timeout_s, expire)
        self._jobs.put(job)
        try:
            return await asyncio.wrap_future(job.future)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if job.expired and not (task and task.cancelling()):
                raise Unavailable(_BUSY, retry_after_s=1) from None
            raise
        finally:
            timer.cancel()

    # What follows runs in the engine's own thread, which alone touches the worker.

    def _work_off(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._idle_since = None
            if job.future.set_running_or_notify_cancel():
                try:
                    job.future.set_result(job.work())
                except BaseException as error:  # noqa: BLE001 - handed to the caller, who waits for it
                    job.future.set_exception(error)
            self._idle_since = time.monotonic()
            del job  # an idle engine holds on to nobody's rows

    def _answer(self, database: str | None, message: bytes, timeout_s: float, reads: bool) -> Any:
        if self._refused_by_disk and not reads:
            self._start_over()
        worker = self._ready(timeout_s)
        if database is not None and database not in worker.databases:
            self._open("reopen", database, timeout_s)
        try:
            outcome, value, more = worker.ask(message, timeout_s)
        except (WorkerDied, WorkerSilent) as failure:
            self._replace()
            raise Unavailable(_HUNG if isinstance(failure, WorkerSilent) else _DIED, retry_after_s=1) from None
        if outcome == "ok":
            self._commits += more
            return value
        if value == "conflict":
            raise LostConflict
        self._refused_by_disk |= value == "storage"
        raise error_for(value, more)

    def _ready(self, timeout_s: float) -> WorkerProcess:
        """A worker that is free to answer. Raises `Unavailable` when that takes longer than `timeout_s`."""
        if self._worker is not None and self._worker.gone:
            self._drop()
        if self._memory_lost:
            raise Unavailable(_MEMORY_LOST)
        if self._worker is None:
            self._worker = WorkerProcess(self._url)
        self._settle(self._worker, timeout_s)
        return self._worker

    def _open(self, verb: str, database: str, timeout_s: float) -> None:
        worker = self._ready(timeout_s)
        try:
            worker.send((verb, database))
        except (WorkerDied, WorkerSilent):
            self._replace()
            raise Unavailable(_DIED, retry_after_s=1) from None
        worker.opening = database
        self._settle(worker, timeout_s)

    def _settle(self, worker: WorkerProcess, timeout_s: float) -> None:
        """Wait for what the worker still owes: that it has started, or opened a database.

        A long log may take longer to read than one caller waits; the next caller then waits on.
        """
        if worker.owes_since is None:
            return
        opening = worker.opening
        try:
            outcome, kind, text = worker.receive(timeout_s)
        except WorkerSilent:
            if time.monotonic() - worker.owes_since > OPEN_TIMEOUT_S:
                self._replace()
            raise Unavailable(_STARTING, retry_after_s=1) from None
        except WorkerDied:
            crashed = opening is not None and worker.crashed()
            self._drop()
            if crashed:
                raise error_for("open", f"datastore: its process crashed on opening {opening}") from None
            raise Unavailable(_DIED, retry_after_s=1) from None
        worker.opening = None
        if outcome == "error":
            raise error_for(kind, text)
        if opening is not None:
            worker.databases.add(opening)

    def _start_over(self) -> None:
        """Replace a worker whose write the disk refused, before it writes anything else.

        The engine keeps the refused commit in a buffer and would write it together with the next one, although its
        caller was told that it failed. Until there is room to repair the log, reads go on and writes are refused.
        """
        if self._free_bytes() < 2 * self._log_bytes() + SPARE_BYTES:
            raise error_for("storage", "")
        self._replace()

    def _free_bytes(self) -> int:
        disk = os.statvfs(self._url.rest)
        return disk.f_bavail * disk.f_frsize

    def _log_bytes(self) -> int:
        return sum(log.stat().st_size for log in Path(self._url.rest).glob("*/wal/*"))

    def _replace(self) -> None:
        """Kill the worker and start the next one, which is up before the next call needs it."""
        self._drop()
        if not self._memory_lost:
            self._worker = WorkerProcess(self._url)

    def _drop(self) -> None:
        self._refused_by_disk = False
        if self._worker is not None:
            self._memory_lost = self._url.in_memory and bool(self._worker.databases)
            self._worker.kill()
            self._worker = None

    def _close_worker(self) -> None:
        worker = self._worker
        if worker is not None:
            with suppress(KeepsError):
                self._settle(worker, OPEN_TIMEOUT_S)
                worker.close(CLOSE_TIMEOUT_S)
            self._drop()


@dataclass(frozen=True, slots=True)
class EmbeddedDb:
    """One database of an embedded engine."""

    engine: EmbeddedEngine
    name: str

    async def run(self, surql: LiteralString, /, *, timeout_s: float = 5.0, **params: object) -> list[Any]:
        """See `Db.run`."""
        request = ("run", self.name, surql, params)
        return await retrying(surql, lambda: self.engine.ask(self.name, request, timeout_s))
