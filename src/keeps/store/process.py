"""The worker process seen from its parent: start it, ask it, notice that it died or went silent, end it."""

from __future__ import annotations

import os
import pickle
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, Final

from keeps.store.address import StoreUrl

STALL_S: Final = 3
"""How long one write to, or read from, the socket may make no progress at all."""


_CRASHES: Final = {-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS, -signal.SIGILL}


class WorkerDied(Exception):
    """The worker process ended."""


class WorkerSilent(Exception):
    """No reply in time."""


class WorkerProcess:
    """One life of the worker process. Used by one thread only."""

    def __init__(self, url: StoreUrl) -> None:
        ours, theirs = socket.socketpair()
        for option in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
            ours.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", STALL_S, 0))
        with theirs:
            # The child finds the modules this process found, and none that merely lie in the current folder.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "keeps.store.worker", str(theirs.fileno()), str(url)],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
                process_group=0,
            )
        self._pipe = Connection(ours.detach())
        self._poll = select.poll()  # kept, since `Connection.poll` builds a new one for every call
        self._poll.register(self._pipe.fileno(), select.POLLIN)
        self._owed_since: float | None = time.monotonic()  # it owes the word that it has started
        self.opening: str | None = None
        self.databases: set[str] = set()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def gone(self) -> bool:
        return self._process.poll() is not None

    def crashed(self) -> bool:
        """True when the dead process brought itself down, as opposed to having been killed."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STALL_S)
        return self._process.returncode in _CRASHES

    def ask(self, request: tuple[Any, ...] | bytes, timeout_s: float) -> Any:
        """The reply to one request. Raises `WorkerSilent` after `timeout_s`, `WorkerDied`."""
        self.send(request)
        return self.receive(timeout_s)

    def send(self, request: tuple[Any, ...] | bytes) -> None:
        try:
            self._pipe.send_bytes(request if isinstance(request, bytes) else pickle.dumps(request))
        except BlockingIOError as error:
            raise WorkerSilent from error
        except OSError as error:
            raise WorkerDied from error
        self._owed_since = time.monotonic()

    def receive(self, timeout_s: float) -> Any:
        try:
            if not self._poll.poll(max(0.0, timeout_s) * 1000):
                raise WorkerSilent
            reply = pickle.loads(self._pipe.recv_bytes())
        except BlockingIOError as error:
            raise WorkerSilent from error
        except (EOFError, OSError) as error:
            raise WorkerDied from error
        self._owed_since = None
        return reply

    @property
    def owes_since(self) -> float | None:
        """Since when a reply is owed that nobody waits for now; `None` when the worker is free."""
        return self._owed_since

    def close(self, timeout_s: float) -> None:
        """Have it flush and end; killed when that takes longer than `timeout_s`."""
        try:
            with suppress(WorkerDied, WorkerSilent):
                self.ask(("close",), timeout_s)
                self._process.wait(STALL_S)
        except subprocess.TimeoutExpired:
            pass
        self.kill()

    def kill(self) -> None:
        """End it now, and with it its locks on the folders."""
        self._process.kill()
        self._pipe.close()
        self._process.wait()
