"""The archive: a record as JSON Lines, in a form that outlives the engine under it.

One header, one line a row, one trailer with counts and a digest over every byte before it. A file is written
and read row by row; it takes its name only when it is whole and on the disk.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import json
import math
import os
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final, Self, cast

from keeps.core.contexts import check_context_id
from keeps.core.errors import Conflict, Invalid, KeepsError, StoreRefused, Unavailable
from keeps.store.contexts import check_row
from keeps.store.db import RecordID
from keeps.store.rows import Record

FORMAT: Final = "keeps-archive"
VERSION: Final = 1
CONTROL: Final = "control"
CONTEXT_PREFIX: Final = "context:"

MAX_LINE_BYTES: Final = 64 * 1024 * 1024
"""No row comes near: a turn holds half a megabyte of text at most, the list of rows of a large erasure some more."""

MAX_DEPTH: Final = 128
"""How deep a row is nested at most. What a caller gives is nested 32 deep at most, and twice that in an archive."""

_CONTEXT: Final = "context"

PART_PREFIX: Final = ".keeps-backup-"
"""How the name of an archive begins that is being written."""

Counts = Mapping[str, Mapping[str, int]]
"""Rows by database and table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What an archive says about itself. `pepper_check` tells whether a pepper is the one its hashes depend on."""

    created_at: datetime
    control_schema: int
    context_schema: int
    contexts: tuple[str, ...]
    ledger: tuple[int, str]
    pepper_check: str

    def to_json(self) -> dict[str, Any]:
        """The first line."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "created_at": _time(self.created_at),
            "schema": {"control": self.control_schema, "context": self.context_schema},
            "contexts": list(self.contexts),
            "ledger": {"seq": self.ledger[0], "digest": self.ledger[1]},
            "pepper_check": self.pepper_check,
        }

    def databases(self) -> frozenset[str]:
        """Every name that a row's `db` may have."""
        return frozenset((CONTROL, *map(section_of, self.contexts)))


@dataclass(frozen=True, slots=True)
class Line:
    """One row and where it belongs."""

    db: str
    table: str
    row: Record


def section_of(context_id: str) -> str:
    """How an archive names the database of a context."""
    return f"{CONTEXT_PREFIX}{context_id}"


# ---------------------------------------------------------------------- values
def encode(value: Any) -> Any:
    """A value of a row as JSON. What JSON has no word for is an object with one key that begins with `$`."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, datetime):
        return {"$at": _time(value)}
    if isinstance(value, RecordID):
        return {"$id": [value.table_name, encode(cast(Any, value.id))]}
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, list):
        return [encode(item) for item in cast(list[Any], value)]
    if isinstance(value, dict):
        content = {key: encode(item) for key, item in cast(dict[str, Any], value).items()}
        return {"$object": content} if _looks_typed(content) else content
    raise TypeError(f"an archive has no form for a {type(value).__name__}")


def decode(value: Any, depth: int = MAX_DEPTH) -> Any:
    """The value that `encode` wrote, nested `depth` deep at most. Raises: ValueError, OverflowError."""
    if depth < 0:
        raise ValueError("nested too deeply")
    if isinstance(value, list):
        return [decode(item, depth - 1) for item in cast(list[Any], value)]
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise OverflowError("a number of more than 64 bits")
    if not isinstance(value, dict):
        return value
    content = cast(dict[str, Any], value)
    if not _looks_typed(content):
        return {key: decode(item, depth - 1) for key, item in content.items()}
    ((kind, inner),) = content.items()
    match kind, inner:
        case "$at", str():
            return datetime.fromisoformat(inner).astimezone(UTC)
        case "$id", [str(table), key]:
            return RecordID(table, decode(key, depth - 1))
        case "$bytes", str():
            return base64.b64decode(inner, validate=True)
        case "$float", "nan" | "inf" | "-inf":
            return float(inner)
        case "$object", dict():
            return {key: decode(item, depth - 1) for key, item in cast(dict[str, Any], inner).items()}
        case _:
            raise ValueError(f"unknown kind of value {kind[:20]}")


def _looks_typed(content: Mapping[str, Any]) -> bool:
    return len(content) == 1 and next(iter(content)).startswith("$")


def _time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _dumped(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"


# ---------------------------------------------------------------------- writing
class Writer:
    """Writes one archive. Use it as a context manager: without `finish` nothing is left behind.

    Raises, from every method:
        Conflict: the file exists and `force` is not set.
        Unavailable: it cannot be written, for lack of room or otherwise.
    """

    def __init__(self, file: Path, header: Header, *, force: bool = False) -> None:
        self._target = file
        self._force = force
        # A name nobody can foresee: a file or link that lies there already is somebody else's.
        self._part = file.with_name(f"{PART_PREFIX}{secrets.token_hex(8)}")
        self._hash = hashlib.sha256()
        self._counts: dict[str, Counter[str]] = {name: Counter() for name in sorted(header.databases())}
        self._bytes = 0
        self._before: _Point | None = None
        if file.exists() and not force:
            raise self._exists()
        try:
            handle = os.open(self._part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._unwritable(error) from error
        self._file: BinaryIO = os.fdopen(handle, "wb")
        try:
            with suppress(PermissionError):  # a file system without modes
                os.fchmod(handle, 0o600)
            self._write(_dumped(header.to_json()))
        except BaseException:
            self._drop()
            raise

    @property
    def rows(self) -> int:
        """Rows written so far."""
        return sum(counts.total() for counts in self._counts.values())

    def row(self, db: str, table: str, row: Record) -> None:
        """Write one row."""
        self._write(_dumped({"db": db, "table": table, "row": encode(row)}))
        self._counts[db][table] += 1

    def begin(self) -> None:
        """Note this point, to come back to it with `again`."""
        counts = {name: Counter(tables) for name, tables in self._counts.items()}
        self._before = _Point(self._bytes, self._hash.copy(), counts)

    def again(self) -> None:
        """Drop what was written since `begin`."""
        point = self._before
        if point is None:
            raise RuntimeError("nothing was begun")
        try:
            self._file.seek(point.size)
            self._file.truncate()
        except OSError as error:
            raise self._unwritable(error) from error
        self._bytes, self._hash = point.size, point.hash.copy()
        self._counts = {name: Counter(tables) for name, tables in point.counts.items()}

    def finish(self) -> Written:
        """Write the trailer, bring the file to the disk and give it its name."""
        digest = self._hash.hexdigest()
        counts = {db: dict(sorted(tables.items())) for db, tables in self._counts.items()}
        self._write(_dumped({"trailer": {"counts": counts, "sha256": digest}}))
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._name()
            flush_folder(self._target.parent)
        except OSError as error:
            raise self._unwritable(error) from error
        self._file.close()
        return Written(counts=counts, size=self._bytes, digest=digest)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._file.closed:
            self._drop()

    def _drop(self) -> None:
        with suppress(OSError):
            self._part.unlink()
        with suppress(OSError):  # what is buffered still may find no room
            self._file.close()

    def _name(self) -> None:
        if self._force:
            self._part.replace(self._target)
            return
        try:
            os.link(self._part, self._target)  # unlike a rename it never takes the place of a file
        except FileExistsError:
            raise self._exists() from None
        except OSError:  # a file system without links
            self._part.replace(self._target)
        else:
            self._part.unlink()

    def _write(self, line: bytes) -> None:
        try:
            self._file.write(line)
        except OSError as error:
            raise self._unwritable(error) from error
        self._hash.update(line)
        self._bytes += len(line)

    def _exists(self) -> Conflict:
        return Conflict(f"{self._target} exists already: name another file, or overwrite it with --force.")

    def _unwritable(self, error: OSError) -> KeepsError:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return Unavailable(f"The disk of {self._target} is full: no backup was made. Make room, or choose another.")
        return Unavailable(f"The backup {self._target} cannot be written: {error.strerror}.")


@dataclass(frozen=True, slots=True)
class _Point:
    size: int
    hash: Any
    counts: dict[str, Counter[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """An archive that is complete: rows by database and table, bytes, digest of all but its trailer."""

    counts: Counts
    size: int
    digest: str


def flush_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# ---------------------------------------------------------------------- reading
@dataclass(slots=True)
class Archive:
    """An archive opened for reading."""

    path: Path
    header: Header
    counts: dict[str, Counter[str]] = field(default_factory=dict[str, "Counter[str]"])

    @classmethod
    def open(cls, path: Path) -> Archive:
        """The archive at `path`, its header read.

        Raises:
            Invalid: the file cannot be read or is no archive.
            StoreRefused: a newer version wrote it.
        """
        try:
            with path.open("rb") as file:
                first = file.readline(MAX_LINE_BYTES)
        except OSError as error:
            raise Invalid(f"The archive {path} cannot be read: {error.strerror}.") from error
        return cls(path, _header(path, first))

    def verify(self, watch: Callable[[int], None] | None = None) -> None:
        """Read it all and compare it with its trailer. `watch` is told the bytes read. Raises: Invalid."""
        for number, _ in enumerate(self.lines(watch), start=1):
            del number

    def lines(self, watch: Callable[[int], None] | None = None) -> Iterator[Line]:
        """Every row, in the order of the file; the end is reached only when the trailer agrees.

        Raises:
            Invalid: a line is damaged, the trailer is missing or disagrees. Undo what the rows were used for.
        """
        self.counts = {name: Counter() for name in sorted(self.header.databases())}
        unseen = set(self.header.contexts)
        digest = hashlib.sha256()
        with self.path.open("rb") as file:
            digest.update(file.readline(MAX_LINE_BYTES))
            for number, raw in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES), b""), start=2):
                content = _object(raw)
                if content is None:
                    raise self._damaged(f"line {number} is cut or unreadable")
                if "trailer" in content:
                    self._compare(content["trailer"], digest.hexdigest())
                    if file.read(1):
                        raise self._damaged("something follows its last line")
                    return
                digest.update(raw)
                line = self._line(content, number)
                if line.table == _CONTEXT:
                    self._check_context(line, unseen, number)
                self.counts[line.db][line.table] += 1
                if watch is not None:
                    watch(file.tell())
                yield line
        raise self._damaged("its last line is missing")

    def _line(self, content: dict[str, Any], number: int) -> Line:
        try:
            row = decode(content["row"])
            line = Line(content["db"], content["table"], row)
            sound = line.db in self.header.databases() and row["id"].table_name == line.table
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            sound, line = False, None
        if not sound or line is None:
            raise self._damaged(f"line {number} holds no row")
        return line

    def _check_context(self, line: Line, unseen: set[str], number: int) -> None:
        """A context names a folder and a database, so nothing is taken on trust: each is one that could be made here,
        is named by the first line, and comes once."""
        try:
            unseen.remove(check_row(line.row))
        except (ValueError, KeyError) as error:
            raise self._damaged(f"line {number} holds no context that this keeps could have made") from error

    def _compare(self, trailer: object, digest: str) -> None:
        counts = {db: dict(tables) for db, tables in self.counts.items()}
        if trailer != {"counts": counts, "sha256": digest}:
            raise self._damaged("its content does not agree with its last line")

    def _damaged(self, why: str) -> Invalid:
        return Invalid(f"The archive {self.path} is damaged: {why}. Nothing was changed; use another backup.")


def _object(raw: bytes) -> dict[str, Any] | None:
    if not raw.endswith(b"\n"):
        return None
    try:
        content = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", content) if isinstance(content, dict) else None


def _header(path: Path, raw: bytes) -> Header:
    content = _object(raw)
    if content is None or content.get("format") != FORMAT:
        raise Invalid(f"{path} is no archive of keeps: `keeps backup` writes them.")
    version = content.get("version")
    if isinstance(version, int) and version > VERSION:
        raise StoreRefused(
            f"The archive {path} has format {version}, this keeps reads up to {VERSION}: install the newer version."
        )
    try:
        contexts = _context_ids(content["contexts"])
        return Header(
            created_at=datetime.fromisoformat(content["created_at"]),
            control_schema=int(content["schema"]["control"]),
            context_schema=int(content["schema"]["context"]),
            contexts=contexts,
            ledger=(int(content["ledger"]["seq"]), str(content["ledger"]["digest"])),
            pepper_check=str(content["pepper_check"]),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise Invalid(f"The archive {path} is damaged: its first line lacks {error}. Use another backup.") from error


def _context_ids(given: object) -> tuple[str, ...]:
    """The ids in a first line, each one that a context may have and all of them different. Raises: ValueError."""
    if not isinstance(given, list):
        raise ValueError("a list of contexts")
    ids = cast("list[object]", given)
    for context_id in ids:
        try:
            check_context_id(str(context_id))
        except KeepsError as error:
            raise ValueError(f"proper names of contexts ({error.message})") from error
    if len({str(context_id).lower() for context_id in ids}) < len(ids):
        raise ValueError("different names for its contexts")
    return tuple(map(str, ids))
