"""The finder of one process: words and vectors in an SQLite file under the context's folder, behind one thread.

Each rebuild writes a new generation, `text-<n>.sqlite3`, beside the one in use and takes its place by a
rename. A file that is missing, damaged, of another context or of another format is thrown away; `applied`
then answers None until the index is rebuilt from the record.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections.abc import AsyncIterable, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Concatenate, Final, ParamSpec, Protocol, TypeVar, cast

import snowballstemmer  # pyright: ignore[reportMissingTypeStubs]

from keeps.core.spaces import Coverage, Point, Space
from keeps.finder import vectortable
from keeps.finder.base import ALL_KINDS, ANY, Entry, FinderFull, FinderLost, Found, Kind, Name, Near, Only, Stored
from keeps.finder.indexfile import IndexFile

P = ParamSpec("P")
R = TypeVar("R")

_log = logging.getLogger(__name__)
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_REBUILD_BATCH: Final = 500
_NO_ROOM: Final = frozenset({"SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE", "SQLITE_IOERR_TRUNCATE"})
"""What a write fails with on a full disk: what was written before is whole."""


def stemmer() -> Callable[[str], str]:
    """The English stem of a lower-case word. Not to be shared between threads."""
    make = cast("Callable[[str], _Stemmer]", snowballstemmer.stemmer)  # pyright: ignore[reportUnknownMemberType]
    return make("english").stemWord


class _Stemmer(Protocol):
    def stemWord(self, word: str) -> str: ...  # noqa: N802


class LocalFinder:
    """Search over one context. Made by `open`; one object a folder."""

    def __init__(self, folder: Path, context: str) -> None:
        self._folder = folder
        self._context = context
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="keeps-finder")
        self._stem = stemmer()
        self._boot = _boot_id()
        self._file: IndexFile | None = None
        self._meanwhile: list[Callable[[IndexFile], object]] | None = None
        self._rebuilding = asyncio.Lock()

    @classmethod
    async def open(cls, folder: Path, context: str) -> LocalFinder:
        """The finder of `context` in `folder`, which is made when missing."""
        finder = cls(folder, context)
        await finder._run(finder._open)
        return finder

    async def applied(self) -> int | None:
        """The number of the last change that is in the index; None when it must be rebuilt."""

        def applied() -> int | None:
            return self._file.applied() if self._file else None

        return await self._guarded(applied)

    async def apply(
        self,
        change: int,
        *,
        put: Sequence[Entry] = (),
        drop: Sequence[str] = (),
        names: Sequence[Name] = (),
        drop_names: Sequence[Name] = (),
        after: int | None = None,
    ) -> bool:
        """Drop, then put; all or nothing. While a rebuild runs, the new index takes the change too."""

        def change_file(file: IndexFile) -> None:
            file.apply(change, put, drop, names, drop_names)

        return await self._guarded(self._change, change_file, after) is not None

    async def neighbours(self, refs: Sequence[str]) -> list[str]:
        """Refs of the entries whose window holds text of one of `refs`."""
        return await self._use(IndexFile.neighbours, refs)

    async def find(
        self,
        query: str,
        scope_sets: Collection[str],
        *,
        kinds: Collection[Kind] = ALL_KINDS,
        only: Only = ANY,
        limit: int = 256,
        copies: int = 0,
    ) -> list[Found]:
        """The best `limit` rows in `scope_sets`, best first; nothing outside of them has any influence.

        Of those that say the same `copies` at most, unless that is 0. A caller that stops waiting frees the thread.
        """
        given_up = threading.Event()
        try:
            return await self._use(IndexFile.find, query, scope_sets, kinds, only, limit, copies, given_up.is_set)
        finally:
            given_up.set()

    async def spaces(self) -> list[Coverage]:
        """The spaces the index holds vectors of, oldest first."""
        return await self._use(IndexFile.spaces)

    async def begin_space(self, space: Space) -> None:
        """Make room for the vectors of a space; nothing when it is there."""
        await self._guarded(self._change, partial(IndexFile.begin_space, space=space))

    async def drop_space(self, space: Space) -> None:
        """Throw all vectors of a space away, with their bytes; nothing when it is not there."""
        await self._guarded(self._change, partial(IndexFile.drop_space, space=space))

    async def put_vectors(
        self, space: Space, vectors: Mapping[str, bytes], *, meanings: Mapping[str, str] | None = None
    ) -> int:
        """Take vectors by unit; how many were taken.

        Raises:
            ValueError: one is of another length than the space's, or holds what is no number.
        """
        for unit, content in vectors.items():
            if not vectortable.usable(content, space.dims):
                raise ValueError(f"not a vector of {space.dims} numbers: that of {unit}")
        put = partial(IndexFile.put_vectors, space=space, vectors=vectors, meanings=meanings)
        return sum(await self._guarded(self._change, put) or ())

    async def lacking(
        self, space: Space, scope_sets: Collection[str] | None = None, *, limit: int = 256
    ) -> list[tuple[str, str]]:
        """(ref, unit) of entries that should have a vector of `space` and have none, scope sets by turns."""
        return await self._use(IndexFile.lacking, space, scope_sets, limit)

    async def near(
        self,
        question: Point,
        scope_sets: Collection[str],
        *,
        kinds: Collection[Kind] = ALL_KINDS,
        only: Only = ANY,
        limit: int = 256,
        also: Collection[str] = (),
        copies: int = 0,
    ) -> list[Near]:
        """The rows in `scope_sets` nearest to `question`, nearest first, then those of `also`.

        Raises:
            ValueError: `question` is of another length than the space's vectors.
        """
        if len(question.vector) != question.space.dims * vectortable.SINGLE.itemsize:
            raise ValueError(f"not a question of {question.space.dims} numbers")
        return await self._use(IndexFile.near, question, scope_sets, kinds, only, limit, also, copies)

    async def names_in(self, query: str, scope_sets: Collection[str]) -> list[Name]:
        """Names of entities that `query` mentions, from left to right."""
        return await self._use(IndexFile.names_in, query, scope_sets)

    async def scrub(self) -> None:
        """Leave no byte of dropped text in any file."""
        await self._use(IndexFile.scrub)

    async def rebuild(self, context: str, entries: AsyncIterable[Entry | Name | Stored], change: int) -> None:
        """Build anew from `entries` and swap it in. The old index, if any, answers until then.

        `entries` shows the record at `change` or later; changes applied meanwhile are repeated on it.
        """
        async with self._rebuilding:
            self._context = context
            new = await self._run(self._begin_rebuild)
            filling: asyncio.Task[None] | None = None
            try:
                batch: list[Entry | Name | Stored] = []
                async for entry in entries:
                    batch.append(entry)
                    if len(batch) == _REBUILD_BATCH or isinstance(entry, Stored):
                        if filling is not None:
                            await filling
                        # The record is read further meanwhile: another process, and half of the work.
                        filling = asyncio.create_task(self._run(_fill, new, change, batch))
                        batch = []
                if filling is not None:
                    await filling
                await self._run(_fill, new, change, batch)
                await self._run(self._finish_rebuild, new)
            except BaseException as error:
                if filling is not None:
                    await asyncio.gather(filling, return_exceptions=True)
                await asyncio.shield(self._run(self._give_up_rebuild, new))
                if isinstance(error, sqlite3.DatabaseError):
                    raise FinderLost("the new index could not be written") from error
                raise

    async def close(self) -> None:
        """Close cleanly; nothing else may be called afterwards."""
        try:
            await self._guarded(self._close)
        finally:
            self._thread.shutdown(wait=False)

    async def _use(self, verb: Callable[Concatenate[IndexFile, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        def call() -> R:
            return verb(self._usable(), *args, **kwargs)

        return await self._guarded(call)

    async def _guarded(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run `call`; a fault of SQLite costs the index, not the record. Without room the index stays as it is."""

        def guarded() -> R:
            try:
                return call(*args, **kwargs)
            except sqlite3.DatabaseError as error:
                if _wants_room(error):
                    raise FinderFull("the index could not be written: the disk is full") from error
                self._discard(error)
                raise FinderLost("the index was damaged and thrown away") from error

        return await self._run(guarded)

    async def _run(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run `call` in the finder's thread, one call after another."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, partial(call, *args, **kwargs))

    # Everything below runs in the finder's thread.

    def _usable(self) -> IndexFile:
        if self._file is None:
            raise FinderLost("there is no index yet")
        return self._file

    def _open(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for leftover in self._folder.glob("*.building*"):
            leftover.unlink()
        generations = sorted(self._folder.glob("text-*.sqlite3"), reverse=True)
        for path in generations:
            if self._file is None:
                self._file = self._try_open(path)
                if self._file is not None:
                    continue
            _remove(path)

    def _try_open(self, path: Path) -> IndexFile | None:
        try:
            return IndexFile.open(path, self._context, self._boot, self._stem)
        except (sqlite3.DatabaseError, ValueError) as error:
            _log.warning("index not usable, to be rebuilt: %s", type(error).__name__)
            return None

    def _change(self, change_file: Callable[[IndexFile], R], after: int | None = None) -> list[R] | None:
        """Change the file, and the new one too while a rebuild runs; what the first of them gave, if there is one.

        None when the file is not at `after`.
        """
        if self._file is None and self._meanwhile is None:
            raise FinderLost("there is no index yet")
        if after is not None and (self._file is None or self._file.applied() != after):
            return None
        done: list[R] = []
        if self._file is not None:
            try:
                self._file.begin_use(self._boot)
                done = [change_file(self._file)]
            except sqlite3.DatabaseError as error:
                if self._meanwhile is None:
                    raise
                if not _wants_room(error):
                    self._discard(error)
        if self._meanwhile is not None:
            self._meanwhile.append(change_file)
        return done

    def _begin_rebuild(self) -> IndexFile:
        generations = [int(path.stem.removeprefix("text-")) for path in self._folder.glob("text-*.sqlite3")]
        path = self._folder / f"text-{max(generations, default=0) + 1:08}.building"
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove(path)
        try:
            new = IndexFile.create(path, self._context, self._stem)
        except sqlite3.DatabaseError as error:
            _remove(path)
            raise _lost_while_built(error) from error
        self._meanwhile = []
        return new

    def _finish_rebuild(self, new: IndexFile) -> None:
        for change_file in self._meanwhile or ():
            change_file(new)
        self._meanwhile = None
        new.scrub()
        new.close()
        path = new.path.with_suffix(".sqlite3")
        new.path.rename(path)
        old, self._file = self._file, None
        if old is not None:
            old.abandon()
            _remove(old.path)
        self._file = IndexFile.open(path, self._context, self._boot, self._stem)

    def _give_up_rebuild(self, new: IndexFile) -> None:
        self._meanwhile = None
        new.abandon()
        _remove(new.path)

    def _discard(self, error: sqlite3.DatabaseError) -> None:
        _log.warning("index thrown away, to be rebuilt: %s", type(error).__name__)
        if self._file is not None:
            lost, self._file = self._file, None
            lost.abandon()
            _remove(lost.path)

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _wants_room(error: sqlite3.DatabaseError) -> bool:
    return getattr(error, "sqlite_errorname", None) in _NO_ROOM


def _lost_while_built(error: sqlite3.DatabaseError) -> FinderLost:
    return (FinderFull if _wants_room(error) else FinderLost)("the new index could not be written")


def _fill(file: IndexFile, change: int, batch: Sequence[Entry | Name | Stored]) -> None:
    entries = [item for item in batch if isinstance(item, Entry)]
    file.apply(change, entries, put_names=[item for item in batch if isinstance(item, Name)])
    for item in batch:
        if isinstance(item, Stored):
            file.put_stored(item)


def _remove(path: Path) -> None:
    for part in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
        part.unlink(missing_ok=True)


def _boot_id() -> str:
    """Names the current run of the machine; empty where it cannot be told."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""
