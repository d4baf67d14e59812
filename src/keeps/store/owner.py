"""Who owns a data folder: a lock one process holds, and a note that tells the others where it listens."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from keeps.core.errors import StoreRefused, Unavailable

LOCK_NAME: Final = "lock"
OWNER_NAME: Final = "owner.json"

_PATIENCE_S: Final = 0.25
"""Readers hold the lock for microseconds to see whether it is free; an owner outwaits them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """How to reach the process that owns a folder. The token is a secret of this user."""

    endpoint: str
    token: str = field(repr=False)
    pid: int
    started_at: datetime
    version: str


class FolderInUse(StoreRefused):
    """Another process owns the folder, or is about to."""


class FolderLock:
    """The ownership of one data folder, for `with` blocks. Freed by the system when the process ends in any
    way."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._lock: int | None = None

    def acquire(self) -> None:
        """Become the owner; the folder is made (mode 700) when missing.

        Raises:
            FolderInUse: another process owns it.
            StoreRefused: the folder cannot be written.
        """
        try:
            self._data.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(self._data / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise unusable(self._data, error) from error
        until = time.monotonic() + _PATIENCE_S
        while not _locked(lock, fcntl.LOCK_EX):
            if time.monotonic() > until:
                os.close(lock)
                raise FolderInUse(
                    f"Another keeps process owns the folder {self._data}: use it through that process, or stop it."
                )
            time.sleep(0.01)
        self._lock = lock
        with suppress(FileNotFoundError):
            (self._data / OWNER_NAME).unlink()  # left by a process that was killed

    def publish(self, owner: Owner) -> None:
        """Tell other processes of this user where the owner listens. Raises `StoreRefused` when it cannot."""
        if self._lock is None:
            raise RuntimeError("only the owner of a folder may publish itself")
        note = asdict(owner) | {"started_at": owner.started_at.isoformat()}
        fresh = self._data / f".{OWNER_NAME}.{os.getpid()}"
        try:
            with suppress(FileNotFoundError):
                fresh.unlink()
            with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                json.dump(note, file)
            fresh.replace(self._data / OWNER_NAME)
        except OSError as error:
            raise unusable(self._data, error) from error

    def release(self) -> None:
        """Let the folder go; nothing when it is not held."""
        if self._lock is not None:
            with suppress(OSError):
                (self._data / OWNER_NAME).unlink()
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def read_owner(data: Path) -> Owner | None:
    """The process that owns the folder now, or `None` when none does. The lock decides, never a process id.

    Raises:
        Unavailable: there is an owner, which has not said yet where it listens.
    """
    try:
        lock = os.open(data / LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if _locked(lock, fcntl.LOCK_SH):
            return None
    finally:
        os.close(lock)
    try:
        note: dict[str, Any] = json.loads((data / OWNER_NAME).read_bytes())
        note["started_at"] = datetime.fromisoformat(note["started_at"])
        return Owner(**note)
    except (OSError, ValueError, TypeError, KeyError):
        raise Unavailable("The process that owns this folder is starting; try again.", retry_after_s=1) from None


def unusable(folder: Path, error: OSError) -> StoreRefused:
    """What to tell about a folder that cannot be written."""
    if error.errno == errno.EROFS:
        return StoreRefused(f"The folder {folder} is on a read-only disk: choose another with --data.")
    if error.errno in (errno.EACCES, errno.EPERM):
        return StoreRefused(f"The folder {folder} cannot be written by you: change its mode, or choose another.")
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreRefused(f"The disk of the folder {folder} is full: make room, then start again.")
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return StoreRefused(f"{folder} is not a folder: choose another with --data.")
    return StoreRefused(f"The folder {folder} cannot be used: {error.strerror}.")


def _locked(lock: int, how: int) -> bool:
    try:
        fcntl.flock(lock, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
