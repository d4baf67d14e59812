"""The ledger of tombstones: what was erased, kept outside the database so that no restore brings it back.

One JSON line an erasure, chained by SHA-256, flushed to disk before the database changes. Lines name rows by
their random ids and never hold their content.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, cast

from keeps.core.errors import StoreRefused, Unavailable
from keeps.store.owner import unusable

FILE_NAME: Final = "tombstones.jsonl"
MAX_DETAIL_BYTES: Final = 4096
MAX_ID_CHARS: Final = 512

_CLOSED: Final = -1

GENESIS: Final = ""
"""What stands for the digest before the first line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstone:
    """One erasure: which rows, and at which change number of their database."""

    seq: int
    at: datetime
    context: str
    kind: str
    ids: tuple[str, ...]
    change: int
    detail: Mapping[str, Any]
    digest: str


def check(lines: int, applied: int) -> None:
    """Nothing when a ledger of that many lines holds all that a record has carried out.

    Raises:
        StoreRefused: lines are missing, so that a backup restored later could bring back what they erased.
    """
    if applied > lines:
        raise StoreRefused(
            f"The ledger of erased rows ends at number {lines}, and the record has carried out number {applied}: "
            "lines are missing. Put back the file ledger/tombstones.jsonl, or go on without them: `keeps doctor "
            "--accept-loss --data DIR`."
        )


class Ledger:
    """The tombstones of one data folder. One process, its owner, has it open; any thread may call."""

    def __init__(self, path: Path, file: int, head: tuple[int, str], size: int) -> None:
        self._path = path
        self._file = file
        self._head = head
        self._size = size
        self._turn = threading.Lock()

    @classmethod
    def open(cls, folder: Path) -> Ledger:
        """The ledger in `folder`, made when missing. A last line torn by a crash is cut off: nothing was
        erased for it yet.

        Raises:
            StoreRefused: any other line is damaged, or the folder cannot be written.
        """
        path = folder / FILE_NAME
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            new = not path.exists()
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            if new:
                _flush_folder(folder)
        except OSError as error:
            raise unusable(folder, error) from error
        try:
            head, size = _scan(path)
            if size < os.fstat(file).st_size:
                os.ftruncate(file, size)
                os.fsync(file)
        except OSError as error:
            os.close(file)
            raise unusable(folder, error) from error
        except BaseException:
            os.close(file)
            raise
        return cls(path, file, head, size)

    @property
    def head(self) -> tuple[int, str]:
        """Number and digest of the last line; `(0, "")` when there is none."""
        return self._head

    def append(
        self,
        context: str,
        kind: str,
        ids: Sequence[str],
        change: int,
        detail: Mapping[str, Any] | None = None,
    ) -> int:
        """The number of the new line, on disk when this returns. Blocks for one flush: call it in a thread.

        `ids` are row ids as `turn:abc`; `change` is the number the database stands at; `detail` is small and
        holds no content.

        Raises:
            Unavailable: it could not be written; erase nothing.
            ValueError: an id or the detail is too long.
        """
        if any(not 0 < len(id_) <= MAX_ID_CHARS for id_ in ids):
            raise ValueError(f"an id in the ledger has 1 to {MAX_ID_CHARS} characters")
        if len(json.dumps(detail or {})) > MAX_DETAIL_BYTES:
            raise ValueError(f"the detail of a tombstone has at most {MAX_DETAIL_BYTES} bytes")
        with self._turn:
            seq, prev = self._head[0] + 1, self._head[1]
            body = {
                "seq": seq,
                "at": datetime.now(UTC).isoformat(),
                "context": context,
                "kind": kind,
                "ids": list(ids),
                "change": change,
                "detail": dict(detail or {}),
                "prev": prev,
            }
            digest = _digest(body)
            line = json.dumps(body | {"digest": digest}, separators=(",", ":")).encode() + b"\n"
            self._write(line)
            self._head = (seq, digest)
            return seq

    def since(self, context: str, seq: int) -> Iterator[Tombstone]:
        """The tombstones of `context` after number `seq`, oldest first."""
        for line in _lines(self._path, self._size):
            if line["context"] == context and line["seq"] > seq:
                yield _tombstone(line)

    def of_kind(self, kind: str) -> Iterator[Tombstone]:
        """The tombstones of one kind in every context, oldest first."""
        for line in _lines(self._path, self._size):
            if line["kind"] == kind:
                yield _tombstone(line)

    def contains(self, seq: int, digest: str) -> bool:
        """True when line `seq` has that digest, so that a backup with this head was made from this ledger."""
        if seq == 0:
            return digest == GENESIS
        return any(line["seq"] == seq and line["digest"] == digest for line in _lines(self._path, self._size))

    def verify(self) -> int:
        """The number of lines, after checking every one of them and the chain. Raises `StoreRefused`."""
        with self._turn:
            head, size = _scan(self._path)
            if head != self._head or size != self._size:
                raise _damaged(self._path, head[0])
            return head[0]

    def close(self) -> None:
        """Close the file. Once is enough; again does nothing: the number may be another file's by then."""
        with self._turn:
            if self._file != _CLOSED:
                os.close(self._file)
                self._file = _CLOSED

    def _write(self, line: bytes) -> None:
        try:
            written = os.write(self._file, line)
            if written < len(line):
                raise OSError("short write")
            os.fsync(self._file)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._file, self._size)
                os.fsync(self._file)
            raise Unavailable(
                "The ledger of erased rows cannot be written (is the disk full?): nothing was erased, try again.",
                retry_after_s=30,
            ) from error
        self._size += len(line)


def read_ledger(path: Path) -> Iterator[Tombstone]:
    """The tombstones in a file that is not open, oldest first. Raises `StoreRefused` when it is damaged."""
    _, size = _scan(path)
    for line in _lines(path, size):
        yield _tombstone(line)


def _scan(path: Path) -> tuple[tuple[int, str], int]:
    """Head and length in bytes of the sound lines; what follows the last line feed is torn and left out."""
    head, size = (0, GENESIS), 0
    with path.open("rb") as file:
        for raw in file:
            if not raw.endswith(b"\n"):
                break
            line = _parsed(raw)
            body = {key: value for key, value in line.items() if key != "digest"}
            sound = line.get("seq") == head[0] + 1 and line.get("prev") == head[1]
            if not sound or line.get("digest") != _digest(body):
                raise _damaged(path, head[0] + 1)
            head, size = (line["seq"], line["digest"]), size + len(raw)
    return head, size


def _lines(path: Path, size: int) -> Iterator[dict[str, Any]]:
    with path.open("rb") as file:
        for raw in file:
            size -= len(raw)
            if size < 0:
                return
            yield _parsed(raw)


def _parsed(raw: bytes) -> dict[str, Any]:
    try:
        line = json.loads(raw)
    except ValueError:
        return {}
    return cast(dict[str, Any], line) if isinstance(line, dict) else {}


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _tombstone(line: dict[str, Any]) -> Tombstone:
    return Tombstone(
        seq=line["seq"],
        at=datetime.fromisoformat(line["at"]),
        context=line["context"],
        kind=line["kind"],
        ids=tuple(line["ids"]),
        change=line["change"],
        detail=line["detail"],
        digest=line["digest"],
    )


def _damaged(path: Path, number: int) -> StoreRefused:
    return StoreRefused(
        f"The ledger of erased rows is damaged at line {number} ({path}); without it they could come back. "
        "Put back a copy of that file, or restore with `keeps restore --data DIR FILE --ledger FILE`, or begin a "
        "new one with `keeps restore --data DIR FILE --new-ledger`."
    )


def _flush_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
