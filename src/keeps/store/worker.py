"""The process that owns an embedded store: `python -m keeps.store.worker <socket fd> <store url>`.

It exists because the engine's asynchronous binding stops writing after some gigabytes, its synchronous one
blocks every thread of its process, and a panic inside it ends the process. It serves one request at a time
from its parent's socket and ends with it: on end of file it leaves at once, since everything acknowledged
is in the log.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import shutil
import signal
import sys
import time
from collections import OrderedDict
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import surrealdb

from keeps.store.address import NAMESPACE, StoreUrl, parse_store_url
from keeps.store.outcome import Kind, commits_in, failure_in, values_in

MAX_OPEN: Final = 64
"""Databases held open at once (each costs four threads and 0.3 MB); the least recently used is closed."""

LOCK_PATIENCE_S: Final = 2.0
"""How long the worker of a parent that was just killed may take to let go of its files."""

_PR_SET_PDEATHSIG: Final = 1
_REMOVED: Final = ".removed-"

Reply = tuple[str, Any, Any]
"""`("ok", results, number of commits)` or `("error", kind, text)`."""


class _OpenFailed(Exception):
    """A database cannot be opened. One that was open before and only lacks room counts as a full disk."""

    def __init__(self, text: str, *, anew: bool = False) -> None:
        super().__init__(text)
        kind: Kind = "storage" if anew and "No space left" in text else "open"
        self.reply: Reply = ("error", kind, text)


class Store:
    """The open databases of this process.

    Each database is an engine of its own in its own folder: selecting another database on one engine handle
    writes and flushes to disk twice, even for a read, and fails when the disk is full.
    """

    def __init__(self, url: StoreUrl) -> None:
        self._url = url
        self._open: OrderedDict[str, Any] = OrderedDict()
        if not url.in_memory:
            root = Path(url.rest)
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            for leftover in root.glob(f"{_REMOVED}*"):
                shutil.rmtree(leftover)

    def run(self, database: str, surql: str, params: dict[str, Any]) -> Reply:
        """Results of one script in a database that exists."""
        try:
            reply = self._handle(database, create=False).query_raw(surql, params)
        except _OpenFailed as error:
            return error.reply
        except (ValueError, OverflowError) as error:
            return "error", "value", type(error).__name__
        failure = failure_in(reply)
        if failure is not None:
            return "error", *failure
        return "ok", values_in(reply), commits_in(surql)

    def define(self, database: str) -> Reply:
        """Open a database, made when missing."""
        return self._opened(database, create=True)

    def reopen(self, database: str) -> Reply:
        """Open a database that exists."""
        return self._opened(database, create=False)

    def remove(self, database: str) -> Reply:
        """Drop a database with its files."""
        handle = self._open.pop(database, None)
        if handle is not None:
            handle.close()
        if not self._url.in_memory:
            folder, doomed = self._folder(database), self._folder(_REMOVED + database)
            if folder.exists():
                folder.rename(doomed)
                shutil.rmtree(doomed)
        return "ok", None, 0

    def close(self) -> None:
        """Flush what is in memory to disk: seconds to a minute after a large import."""
        while self._open:
            self._open.popitem()[1].close()

    def _opened(self, database: str, *, create: bool) -> Reply:
        try:
            self._handle(database, create=create)
        except _OpenFailed as error:
            return error.reply
        return "ok", None, 0

    def _handle(self, database: str, *, create: bool) -> Any:
        handle = self._open.get(database)
        if handle is None:
            handle = self._open[database] = self._connect(database, create=create)
        self._open.move_to_end(database)
        if len(self._open) > MAX_OPEN and not self._url.in_memory:
            self._open.popitem(last=False)[1].close()
        return handle

    def _connect(self, database: str, *, create: bool) -> Any:
        if self._url.in_memory:
            if not create:
                raise _OpenFailed(f"datastore: there is no database {database}")
            url = str(self._url)
        else:
            folder = self._folder(database)
            if not create and not folder.is_dir():
                raise _OpenFailed(f"datastore: the folder {folder.name} is missing")
            if any(folder.glob("sstables/*.sst")) and not any(folder.glob("manifest/*.manifest")):
                # The engine would take this for a new store and open it empty, without a word.
                raise _OpenFailed(f"datastore: the folder {folder.name} has lost its manifest")
            url = str(self._url.within(database))
            # A log left by a process that was killed may end in the middle of a commit. The engine repairs it in a new
            # file but goes on writing to the old one, so what it acknowledges then is lost at the next kill. Closing
            # moves all into tables and begins a sound log.
            if any(log.stat().st_size for log in folder.glob("wal/*")):
                self._handle_for(url, anew=not create).close()
        handle = self._handle_for(url, anew=not create)
        try:
            handle.use(NAMESPACE, database)
        except surrealdb.SurrealError as error:
            raise _OpenFailed(str(error), anew=not create) from error
        return handle

    def _handle_for(self, url: str, *, anew: bool) -> Any:
        until = time.monotonic() + LOCK_PATIENCE_S
        while True:
            try:
                return surrealdb.Surreal(url)
            except surrealdb.SurrealError as error:
                if "already locked" not in str(error) or time.monotonic() > until:
                    raise _OpenFailed(str(error), anew=anew) from error
                time.sleep(0.05)

    def _folder(self, name: str) -> Path:
        return Path(self._url.rest) / name


def serve(pipe: Connection, store: Store) -> None:
    """Answer requests until the parent asks to close or is gone."""
    while True:
        try:
            verb, *arguments = pickle.loads(pipe.recv_bytes())
        except (EOFError, OSError):
            os._exit(0)
        if verb == "close":
            store.close()
            _send(pipe, ("ok", None, 0))
            return
        try:
            reply: Reply = getattr(store, verb)(*arguments)
        except Exception as error:  # noqa: BLE001 - the edge of the process: it outlives a bad request
            kind: Kind = "storage" if isinstance(error, OSError) else "script"
            reply = "error", kind, f"{type(error).__name__}: {error}"
        _send(pipe, reply)


def _send(pipe: Connection, reply: Reply) -> None:
    try:
        pipe.send_bytes(pickle.dumps(reply))
    except OSError:
        os._exit(0)


def main() -> None:
    """Take the store's folder, say so (or why not), and serve."""
    # A terminal's Ctrl-C and a supervisor's stop reach every process; only the parent decides when to close.
    for stop in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(stop, signal.SIG_IGN)
    _end_with_parent()
    pipe = Connection(int(sys.argv[1]))
    try:
        store = Store(parse_store_url(sys.argv[2]))
    except OSError as error:
        _send(pipe, ("error", "open", f"datastore: {error.strerror} (os error {error.errno})"))
        return
    _send(pipe, ("ok", None, 0))
    serve(pipe, store)


def _end_with_parent() -> None:
    """Have Linux kill this process with its parent, even in a long script; elsewhere the pipe tells."""
    if sys.platform == "linux":
        parent = os.getppid()
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(0)


if __name__ == "__main__":
    main()
