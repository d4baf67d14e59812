"""Backup and restore: the record as an archive that holds no old bytes, and back, with what was erased since."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

from keeps.config import Config
from keeps.core.errors import Invalid, StoreRefused, Unavailable
from keeps.services import audit, contexts, lineage
from keeps.services.contexts import Reissued
from keeps.services.lineage import LedgerChoice
from keeps.services.rehash import rehash
from keeps.services.runtime import (
    LEDGER_FOLDER,
    RECORD_FOLDER,
    WATERMARK_FOLDER,
    Clock,
    Runtime,
    open_runtime,
    system_clock,
)
from keeps.store import archive as store_archive
from keeps.store import commit as store_commit
from keeps.store import contexts as store_contexts
from keeps.store import meta as store_meta
from keeps.store import secrets as store_secrets
from keeps.store import swap as store_swap
from keeps.store import tables as store_tables
from keeps.store.address import folder_url
from keeps.store.archive import CONTROL, Archive, Counts, Header, Line, Writer, section_of
from keeps.store.contexts import ContextRow
from keeps.store.db import Db, Engine, open_engine
from keeps.store.migrate import known_version, migrate
from keeps.store.owner import FolderLock
from keeps.store.rows import Record

_TRIES: Final = 10
_AGAIN: Final = "record.again"
"""Where, in the folder being built, a record is written a second time."""


@dataclass(frozen=True, slots=True)
class Step:
    """How far a backup or restore is. `done` and `total` count rows while copying and loading, bytes while
    checking; `total` is 0 when unknown."""

    stage: Literal["copy", "check", "load", "open", "swap"]
    where: str = ""
    done: int = 0
    total: int = 0


Watch: TypeAlias = Callable[[Step], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """What a backup holds. `paused_s` is the longest time that writes of one context had to wait."""

    file: Path
    size: int
    digest: str
    counts: Counts
    contexts: tuple[str, ...]
    ledger: int
    paused_s: float

    @property
    def rows(self) -> int:
        """Rows of every table together."""
        return sum(sum(tables.values()) for tables in self.counts.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What a restore did. Keys are there when the old ones had to be revoked, to be shown once."""

    folder: Path
    counts: Counts
    contexts: tuple[str, ...]
    replayed: int
    """Tombstones younger than the backup that were carried out on it."""
    left_out: tuple[str, ...]
    """Contexts of the archive that were deleted since."""
    ledger: Literal["kept", "copied", "new"]
    aside: Mapping[str, Path]
    """Where the old `record` and `ledger` lie now; they still hold what was in them."""
    keys: Mapping[str, Reissued] = field(default_factory=dict[str, Reissued], repr=False)
    management_key: str | None = field(default=None, repr=False)


def _quiet(step: Step) -> None:
    del step


# ---------------------------------------------------------------------- backup
async def backup(rt: Runtime, file: Path, *, force: bool = False, progress: Watch = _quiet) -> Backup:
    """Write the record of every context into `file`, readable by its owner alone; writes may go on meanwhile.

    Each context is copied without holding anybody up; when it changed meanwhile, once more with its writes waiting.

    Raises:
        Conflict: the file exists and `force` is not set.
        Unavailable: it cannot be written (full disk), or the record cannot answer.
    """
    async with rt.registering:
        ids = tuple(row.id for row in await store_contexts.list_all(rt.control))
        header = Header(
            created_at=rt.clock(),
            control_schema=known_version("control"),
            context_schema=known_version("context"),
            contexts=ids,
            ledger=rt.ledger.head,
            pepper_check=lineage.pepper_check(rt.pepper),
        )
        paused = 0.0
        with Writer(file, header, force=force) as writer:
            await _copy_control(rt, writer, progress)
            for context_id in ids:
                paused = max(paused, await _copy_context(rt, context_id, writer, progress))
            written = await asyncio.to_thread(writer.finish)
    return Backup(
        file=file,
        size=written.size,
        digest=written.digest,
        counts=written.counts,
        contexts=ids,
        ledger=header.ledger[0],
        paused_s=paused,
    )


async def _copy_control(rt: Runtime, writer: Writer, progress: Watch) -> None:
    for _ in range(_TRIES):
        if await _copied_still(rt.control, CONTROL, writer, progress):
            return
    raise Unavailable("Contexts or their keys keep changing; try the backup again.", retry_after_s=1)


async def _copy_context(rt: Runtime, context_id: str, writer: Writer, progress: Watch) -> float:
    """The time that writes had to wait, seconds."""
    context = await rt.context(context_id)
    section = section_of(context_id)
    if await _copied_still(context.db, section, writer, progress):
        return 0.0
    async with context.still():
        began = time.monotonic()
        if not await _copied_still(context.db, section, writer, progress):
            raise Unavailable(f"Context {context_id} changes although its writes wait; try again.", retry_after_s=1)
        return time.monotonic() - began


async def _copied_still(db: Db, section: str, writer: Writer, progress: Watch) -> bool:
    """True when the database is copied as it was at one moment; else nothing of it is written."""
    writer.begin()
    before = await store_commit.last_change(db)
    for table in await store_tables.tables(db):
        where = f"{section} {table.name}"
        done = 0
        async for rows in store_tables.pages(db, table):
            for row in rows:
                writer.row(section, table.name, row)
            done += len(rows)
            progress(Step("copy", where, done))
    if await store_commit.last_change(db) == before:
        return True
    writer.again()
    return False


# ---------------------------------------------------------------------- restore
async def restore(
    folder: Path,
    file: Path,
    *,
    ledger: Path | None = None,
    new_ledger_reason: str | None = None,
    progress: Watch = _quiet,
    clock: Clock = system_clock,
) -> Restored:
    """Put the record of an archive in the place of the one in `folder`, and erase from it what was erased since.

    It is built and opened beside the old one, which is in use until the new one is whole on the disk. A crash
    leaves the one or the other; the leftovers are taken up by the next restore. `ledger` is the file of erased
    rows of the machine the backup comes from; `new_ledger_reason` says why to go on without one.

    Raises:
        Invalid: the archive is damaged or is none, or both options were given.
        StoreRefused: a newer version wrote it, another process owns the folder, or the ledger does not fit.
        Conflict: a new ledger was asked for and the one that is there fits.
        Unavailable: no room on the disk.
    """
    archive = await asyncio.to_thread(_verified, file, progress)
    with FolderLock(folder):
        store_swap.finish(folder)
        choice = await asyncio.to_thread(lineage.choose, folder, archive.header, ledger, new_ledger_reason)
        place = store_swap.staging(folder)
        try:
            done = await _build(folder, place, archive, choice, progress, clock)
            progress(Step("swap"))
            aside = await asyncio.to_thread(store_swap.swap, folder, _pieces(folder, choice, done), clock())
        except OSError as error:
            raise Unavailable(f"The backup was not restored, nothing was changed: {error.strerror}.") from error
        finally:
            store_swap.discard(folder)
    return Restored(
        folder=folder,
        counts={db: dict(tables) for db, tables in archive.counts.items()},
        contexts=done.contexts,
        replayed=done.replayed,
        left_out=tuple(id_ for id_ in archive.header.contexts if id_ not in done.contexts),
        ledger=choice.how,
        aside=aside,
        keys=done.keys,
        management_key=done.management_key,
    )


def _verified(file: Path, progress: Watch) -> Archive:
    archive = Archive.open(file)
    for kind, found in (("control", archive.header.control_schema), ("context", archive.header.context_schema)):
        known = known_version("control" if kind == "control" else "context")
        if found > known:
            raise StoreRefused(
                f"The archive {file} was written by a newer keeps: its {kind} schema is {found}, this version knows "
                f"{known}. Install the newer version, or restore an older backup."
            )
    size = file.stat().st_size
    archive.verify(lambda done: progress(Step("check", "", done, size)))
    return archive


@dataclass(frozen=True, slots=True, kw_only=True)
class _Built:
    contexts: tuple[str, ...]
    replayed: int
    keys: Mapping[str, Reissued]
    management_key: str | None


async def _build(
    folder: Path, place: Path, archive: Archive, choice: LedgerChoice, progress: Watch, clock: Clock
) -> _Built:
    """A whole data folder at `place`: loaded, opened once, with what was erased since the backup erased again."""
    own_pepper = folder / store_secrets.PEPPER_NAME
    if own_pepper.exists():
        store_secrets.write_private(place / store_secrets.PEPPER_NAME, own_pepper.read_bytes())
    head = lineage.stage(place, archive.header, choice)
    await _load(place, archive, choice, progress)
    config = Config(data=place, engine_url=None)
    async with open_runtime(config, clock=clock, any_pepper=True) as rt:
        rows = await store_contexts.list_all(rt.control)
        replayed = 0
        for row in rows:
            progress(Step("open", section_of(row.id)))
            replayed += await _open(rt, row, head)
        keys: dict[str, Reissued] = {}
        management: str | None = None
        if lineage.pepper_check(rt.pepper) != archive.header.pepper_check:
            for row in rows:
                await rehash(rt, await rt.context(row.id))
                keys[row.id] = await contexts.reissue(rt, row.id)
            management = await contexts.reissue_management(rt)
        else:
            for row in rows:
                await audit.put_back(rt, await rt.context(row.id), folder / row.id)
        for db in (rt.control, *(context.db for context in rt.contexts.values())):
            rt.watermark.write(db.name, await store_commit.last_change(db))
        again = bool(replayed) or len(rows) < len(archive.header.contexts)
        if again:
            await _write_again(rt, archive.header, [row.id for row in rows], place / _AGAIN, progress)
    if again:
        await asyncio.to_thread(shutil.rmtree, place / RECORD_FOLDER)
        (place / _AGAIN).rename(place / RECORD_FOLDER)
    return _Built(contexts=tuple(row.id for row in rows), replayed=replayed, keys=keys, management_key=management)


async def _write_again(rt: Runtime, header: Header, ids: Sequence[str], into: Path, progress: Watch) -> None:
    """Copy every row into new files: what was erased a moment ago still lies in those it was erased from."""
    sections = {CONTROL: rt.control} | {section_of(id_): (await rt.context(id_)).db for id_ in ids}
    now = replace(
        header,
        contexts=tuple(ids),
        control_schema=known_version("control"),
        context_schema=known_version("context"),
    )
    engine = await open_engine(str(folder_url(into, sync="never")))
    try:
        loader = _Loader(engine, now, keep_tombstones=True)
        counts = {section: Counter[str]() for section in sections}
        for section, db in sections.items():
            for table in await store_tables.tables(db):
                async for rows in store_tables.pages(db, table):
                    for row in rows:
                        await loader.take(Line(section, table.name, row))
                    counts[section][table.name] += len(rows)
            progress(Step("load", section, counts[section].total()))
        await loader.flush()
        await loader.compare(counts)
    finally:
        await engine.close()


async def _open(rt: Runtime, row: ContextRow, head: int) -> int:
    """How many tombstones were carried out on a context while it was opened for the first time."""
    applied = await store_meta.applied_tombstone(await rt.engine.database(row.database))
    if applied > head:
        raise StoreRefused(
            f"The ledger ends at number {head}, and the backup has carried out number {applied}: lines are missing. "
            "Give a complete copy with --ledger FILE, or go on without one with --new-ledger."
        )
    await rt.context(row.id)
    return sum(1 for _ in rt.ledger.since(row.id, applied))


def _pieces(folder: Path, choice: LedgerChoice, built: _Built) -> list[str]:
    pieces = [RECORD_FOLDER, WATERMARK_FOLDER]
    if choice.how != "kept":
        pieces.insert(0, LEDGER_FOLDER)
    if not (folder / store_secrets.PEPPER_NAME).exists():
        pieces.append(store_secrets.PEPPER_NAME)
    if built.keys:
        pieces.append(store_secrets.KEYS_NAME)
    return pieces


# ---------------------------------------------------------------------- loading
async def _load(place: Path, archive: Archive, choice: LedgerChoice, progress: Watch) -> None:
    url = folder_url(place / RECORD_FOLDER, sync="never")  # flushed as a whole before it is used
    engine = await open_engine(str(url))
    try:
        loader = _Loader(engine, archive.header, keep_tombstones=choice.how != "new")
        total = sum(sum(tables.values()) for tables in archive.counts.values())
        for done, line in enumerate(archive.lines(), start=1):
            if await loader.take(line):
                progress(Step("load", line.db, done, total))
        await loader.flush()
        await loader.compare(archive.counts)
    finally:
        await engine.close()


class _Loader:
    """Takes rows in the order of an archive and writes them in batches."""

    def __init__(self, engine: Engine, header: Header, *, keep_tombstones: bool) -> None:
        self._engine = engine
        self._header = header
        self._keep_tombstones = keep_tombstones
        self._dbs: dict[str, Db] = {}
        self._edges: dict[str, Mapping[str, bool]] = {}
        self._at: tuple[str, str] | None = None
        self._rows: list[Record] = []

    async def take(self, line: Line) -> bool:
        """Keep a row; True when a batch was written."""
        wrote = False
        if self._at != (line.db, line.table) or len(self._rows) >= store_tables.PAGE:
            await self.flush()
            wrote = True
            self._at = line.db, line.table
            if line.db not in self._dbs:
                await self._open(line.db)
            if line.table not in self._edges[line.db]:
                raise Invalid(f"The archive holds a table {line.table} that its version does not have.")
        row = line.row
        if line.table == "meta" and not self._keep_tombstones:
            row = {key: value for key, value in row.items() if key != "tombstone"}
        self._rows.append(row)
        return wrote

    async def flush(self) -> None:
        """Write what was taken."""
        if self._at is not None and self._rows:
            section, table = self._at
            await store_tables.write(self._dbs[section], self._rows, edges=self._edges[section][table])
        self._rows = []

    async def compare(self, counts: Counts) -> None:
        """Raises: Unavailable when the engine does not hold what it was given, Invalid when a context is missing."""
        for context_id in self._header.contexts:
            if section_of(context_id) not in self._dbs:
                raise Invalid(f"The archive names a context {context_id} that it does not hold. Use another backup.")
        for section, tables in counts.items():
            for table, wanted in tables.items():
                have = await store_tables.count(self._dbs[section], table)
                if have - (table == "meta") != wanted:
                    raise Unavailable(f"The engine kept {have} rows of {table} out of {wanted}; nothing was changed.")

    async def _open(self, section: str) -> None:
        if section == CONTROL:
            db = await self._engine.database("control")
            await migrate(db, "control", upto=self._header.control_schema)
        else:
            if CONTROL not in self._dbs:
                raise Invalid("The archive holds rows of a context before it names any. Use another backup.")
            row = await store_contexts.find(self._dbs[CONTROL], section.removeprefix(store_archive.CONTEXT_PREFIX))
            if row is None:
                raise Invalid(f"The archive holds rows of a context that it does not name ({section}).")
            db = await self._engine.database(row.database)
            await migrate(db, "context", upto=self._header.context_schema)
        self._dbs[section] = db
        self._edges[section] = {table.name: table.edges for table in await store_tables.tables(db)}
