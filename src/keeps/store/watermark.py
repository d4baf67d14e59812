"""The last change number of each database, kept beside it, to notice a store that lost rows without a word.

A log that was cut or a manifest that vanished makes the engine open an older, or empty, state as if all were
well. The mark is written after a commit and not flushed, so it may lag behind the store; it is never ahead of
it unless acknowledged changes are gone.
"""

from __future__ import annotations

import logging
import os
import re
import zlib
from pathlib import Path
from typing import Final

from keeps.core.errors import StoreRefused
from keeps.store.address import checked_name

_log = logging.getLogger(__name__)

_SLOT: Final = re.compile(rb"(\d{20}) (\d{20}) ([0-9a-f]{8})\n")
_SLOT_BYTES: Final = 51


def check(stored: int, marked: int | None) -> None:
    """Nothing when the store holds all that was marked.

    Raises:
        StoreRefused: it is behind its mark, so acknowledged changes are missing.
    """
    if marked is not None and stored < marked:
        raise StoreRefused(
            f"The store has lost changes: it ends at number {stored}, and {marked} was acknowledged. Bring back a "
            "backup with `keeps restore --data DIR FILE`, or go on without the lost changes: `keeps doctor "
            "--accept-loss --data DIR`."
        )


class Watermark:
    """The marks of one data folder: a small file a database, two slots written in turn.

    A torn or missing file reads as unknown, which is no reason to refuse anything.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, tuple[int, int]] = {}  # name -> (file descriptor, writes so far)

    @classmethod
    def open(cls, folder: Path) -> Watermark:
        """The marks in `folder`, which is made when missing."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return cls(folder)

    def read(self, name: str) -> int | None:
        """The last number written for the database `name`; `None` when unknown."""
        latest = self._latest(name)
        return None if latest is None else latest[1]

    def write(self, name: str, number: int) -> None:
        """Note that `number` is committed. Never fails: without room for it the mark lags behind, that is
        all."""
        try:
            file, turn = self._files.get(name) or self._opened(name)
            slot = b"%020d %020d" % (turn + 1, number)
            os.pwrite(file, b"%s %08x\n" % (slot, zlib.crc32(slot)), (turn + 1) % 2 * _SLOT_BYTES)
        except OSError as error:
            _log.warning("mark of %s not written: %s", name, error.strerror)
        else:
            self._files[name] = (file, turn + 1)

    def forget(self, name: str) -> None:
        """Drop the mark of a database that is removed, or whose loss was accepted."""
        opened = self._files.pop(name, None)
        if opened is not None:
            os.close(opened[0])
        self._path(name).unlink(missing_ok=True)

    def close(self) -> None:
        """Close the files."""
        while self._files:
            os.close(self._files.popitem()[1][0])

    def _opened(self, name: str) -> tuple[int, int]:
        latest = self._latest(name)
        file = os.open(self._path(name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        return file, 0 if latest is None else latest[0]

    def _latest(self, name: str) -> tuple[int, int] | None:
        try:
            content = self._path(name).read_bytes()
        except OSError:
            return None
        slots = [_SLOT.fullmatch(content[at : at + _SLOT_BYTES]) for at in (0, _SLOT_BYTES)]
        valid = [
            (int(slot[1]), int(slot[2]))
            for slot in slots
            if slot is not None and int(slot[3], 16) == zlib.crc32(slot[1] + b" " + slot[2])
        ]
        return max(valid, default=None)

    def _path(self, name: str) -> Path:
        return self._folder / f"{checked_name(name)}.mark"
