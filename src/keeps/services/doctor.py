"""A data folder looked over while nobody uses it: what is not as it ought to be, and what to do about it."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

from keeps.core.erasure import Gone
from keeps.core.errors import Invalid, KeepsError, StoreRefused
from keeps.finder.look import look
from keeps.services import index
from keeps.services.runtime import LEDGER_FOLDER, RECORD_FOLDER, WATERMARK_FOLDER, Clock, system_clock
from keeps.store import checks as store_checks
from keeps.store import commit as store_commit
from keeps.store import contexts as store_contexts
from keeps.store import meta as store_meta
from keeps.store import swap as store_swap
from keeps.store.address import folder_url
from keeps.store.checks import Fault
from keeps.store.commit import Batch
from keeps.store.contexts import ContextRow
from keeps.store.db import Db, Engine, open_engine
from keeps.store.erase import note_tombstone
from keeps.store.ledger import FILE_NAME as LEDGER_FILE
from keeps.store.ledger import Ledger, read_ledger
from keeps.store.migrate import Kind, known_version, schema_version
from keeps.store.owner import LOCK_NAME, OWNER_NAME, FolderLock
from keeps.store.scopes import ScopeSets, load_scope_sets
from keeps.store.secrets import KEYS_NAME, PEPPER_NAME
from keeps.store.watermark import Watermark

ACCEPT_LOSS: Final = "accept-loss"
"""Kind of a line in the ledger that says what loss was accepted. It belongs to no context."""

_CONTROL: Final = "control"
_PRIVATE_FILES: Final = (PEPPER_NAME, KEYS_NAME, OWNER_NAME, LOCK_NAME)
_PRIVATE_FOLDERS: Final = (RECORD_FOLDER, LEDGER_FOLDER, WATERMARK_FOLDER)

Level = Literal["good", "note", "problem"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at. `check` names it; `message` says what to do unless all is good.

    `loss` is set when `--accept-loss` settles it."""

    level: Level
    check: str
    message: str
    where: str = ""
    loss: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was found in a folder, and the losses that were accepted on request."""

    folder: Path
    findings: tuple[Finding, ...]
    accepted: tuple[str, ...] = ()

    @property
    def sound(self) -> bool:
        """True when nothing needs doing."""
        return all(finding.level != "problem" for finding in self.findings)


@dataclass(frozen=True, slots=True)
class _Loss:
    """A number that ought to be higher: of a database behind its mark, or of a ledger behind the record."""

    what: Literal["record", "ledger"]
    database: str
    have: int
    wanted: int
    context: str | None = None


@dataclass(slots=True)
class _Visit:
    folder: Path
    watermark: Watermark
    findings: list[Finding] = field(default_factory=list[Finding])
    losses: list[_Loss] = field(default_factory=list[_Loss])
    lines: int = 0
    purges: set[str] = field(default_factory=set[str])
    """Contexts of which something was purged; "" when lines were lost, so that any may be."""
    ledger_damaged: bool = False

    def good(self, check: str, message: str, where: str = "") -> None:
        self.findings.append(Finding(level="good", check=check, message=message, where=where))

    def note(self, check: str, message: str, where: str = "") -> None:
        self.findings.append(Finding(level="note", check=check, message=message, where=where))

    def problem(self, check: str, message: str, where: str = "", *, loss: bool = False) -> None:
        self.findings.append(Finding(level="problem", check=check, message=message, where=where, loss=loss))


async def doctor(folder: Path, *, accept_loss: bool = False, clock: Clock = system_clock) -> Report:
    """What is right and wrong in a data folder. Nothing is changed, unless `accept_loss` is set: then a record
    behind its mark, or a ledger behind the record, is taken as it is, and the ledger says so.

    Raises:
        Invalid: there is no such folder.
        StoreRefused: a loss is to be accepted and the folder is in use.
    """
    if not await asyncio.to_thread(folder.is_dir):
        raise Invalid(f"There is no folder {folder}.")
    lock = FolderLock(folder)
    try:
        lock.acquire()
    except StoreRefused as error:
        if accept_loss:
            raise
        visit = _Visit(folder, Watermark(folder / WATERMARK_FOLDER))
        _modes(visit)
        visit.note("lock", f"{error.message} Stop it to have the record looked at.")
        return Report(folder=folder, findings=tuple(visit.findings))
    try:
        visit = await _visit(folder)
        accepted: list[str] = []
        if accept_loss and (visit.losses or visit.ledger_damaged):
            accepted = await _accept(visit, clock())
            visit = await _visit(folder)
        return Report(folder=folder, findings=tuple(visit.findings), accepted=tuple(accepted))
    finally:
        lock.release()


async def _visit(folder: Path) -> _Visit:
    visit = _Visit(folder, Watermark(folder / WATERMARK_FOLDER))
    _modes(visit)
    if store_swap.interrupted(folder):
        visit.note("restore", "A restore was interrupted: run it again, or start the server, which clears it up.")
    await asyncio.to_thread(_ledger, visit)
    await _record(visit)
    return visit


# ---------------------------------------------------------------------- files
def _modes(visit: _Visit) -> None:
    paths = [visit.folder, *(visit.folder / name for name in (*_PRIVATE_FOLDERS, *_PRIVATE_FILES))]
    paths += [visit.folder / LEDGER_FOLDER / LEDGER_FILE]
    # Inside a folder that only its owner may enter, the modes of what lies in it do not matter.
    shut = not stat.S_IMODE(visit.folder.stat().st_mode) & 0o077
    wide = [path for path in paths if path.exists() and stat.S_IMODE(path.stat().st_mode) & 0o077]
    secret = [path for path in wide if path.name in _PRIVATE_FILES[:3]]
    for path in wide if not shut else secret:
        mode = stat.S_IMODE(path.stat().st_mode)
        visit.problem("modes", f"Others may read {path} (mode {mode:o}): run chmod go= {path}", path.name)
    if not wide or (shut and not secret):
        visit.good("modes", "Only you can read the folder.")


def _ledger(visit: _Visit) -> None:
    path = visit.folder / LEDGER_FOLDER / LEDGER_FILE
    if not path.exists():
        visit.note("ledger", "There is no ledger of erased rows yet: the server makes one at its start.")
        return
    try:
        for tombstone in read_ledger(path):
            visit.lines = tombstone.seq
            if tombstone.kind != Gone.RETIRE:
                visit.purges.add(tombstone.context)
    except StoreRefused as error:
        visit.ledger_damaged = True
        visit.problem("ledger", error.message, loss=True)
    except OSError as error:
        visit.problem("ledger", f"The ledger cannot be read: {error.strerror}.")
    else:
        visit.good("ledger", f"The ledger of erased rows is whole: {visit.lines} lines.")


# ---------------------------------------------------------------------- the record
async def _record(visit: _Visit) -> None:
    root = visit.folder / RECORD_FOLDER
    marked = sorted(path.stem for path in (visit.folder / WATERMARK_FOLDER).glob("*.mark"))
    missing = [name for name in marked if not (root / name).is_dir() and visit.watermark.read(name)]
    for name in missing:
        _lost(visit, _Loss("record", name, 0, visit.watermark.read(name) or 0))
    if not (root / _CONTROL).is_dir():
        if not missing:
            visit.note("record", "There is no record yet: `keeps serve` begins one.")
        return
    engine: Engine | None = None
    try:
        engine = await open_engine(str(folder_url(root)))
        control = await _database(visit, engine, _CONTROL, "control", None)
        if control is not None:
            for row in await store_contexts.list_all(control):
                if row.database not in missing:
                    await _context(visit, engine, row)
    except KeepsError as error:
        visit.problem("record", error.message)
    finally:
        if engine is not None:
            await engine.close()


async def _database(visit: _Visit, engine: Engine, name: str, kind: Kind, context: str | None) -> Db | None:
    """A database that can be looked at; None when it cannot, which is then said."""
    where = context or name
    if not (visit.folder / RECORD_FOLDER / name).is_dir():
        visit.problem("record", f"The database {name} is missing: bring back a backup with `keeps restore`.", where)
        return None
    try:
        db = await engine.database(name)
        version, known = await schema_version(db), known_version(kind)
    except KeepsError as error:
        visit.problem("record", error.message, where)
        return None
    if version > known:
        visit.problem("schema", f"A newer keeps wrote it (schema {version}, this one knows {known}).", where)
        return None
    if version < known:
        visit.note("schema", f"Its schema is {version} and becomes {known} at the next start.", where)
        if version == 0:
            return None
    stored, marked = await store_commit.last_change(db), visit.watermark.read(name)
    if marked is not None and stored < marked:
        _lost(visit, _Loss("record", name, stored, marked, context))
    else:
        visit.good("record", f"It opens and ends at change {stored}.", where)
    return db


def _lost(visit: _Visit, loss: _Loss) -> None:
    visit.losses.append(loss)
    visit.problem(
        "watermark" if loss.what == "record" else "ledger",
        f"It ends at change {loss.have}, and {loss.wanted} was acknowledged: bring back a backup with `keeps restore "
        f"--data DIR FILE`, or go on without what is lost with `keeps doctor --accept-loss --data DIR`."
        if loss.what == "record"
        else f"The ledger ends at line {loss.have}, the record has carried out line {loss.wanted}: put back "
        "ledger/tombstones.jsonl, or go on without the lost lines with `keeps doctor --accept-loss --data DIR`.",
        loss.context or loss.database,
        loss=True,
    )


async def _context(visit: _Visit, engine: Engine, row: ContextRow) -> None:
    db = await _database(visit, engine, row.database, "context", row.id)
    if db is None:
        return
    applied = await store_meta.applied_tombstone(db)
    if applied > visit.lines and not visit.ledger_damaged:
        _lost(visit, _Loss("ledger", row.database, visit.lines, applied, row.id))
    faults: list[Fault] = []
    for check in (store_checks.scope_sets, store_checks.chains, store_checks.edges, store_checks.numbers):
        faults += await check(db)
    misplaced, gaps = await store_checks.turns(db)
    faults += misplaced
    if gaps is not None and not visit.purges & {row.id, ""}:
        faults.append(gaps)
    elif gaps is not None:
        visit.note("rows", f"{_told(gaps)}: purges leave them behind.", row.id)
    for fault in faults:
        visit.problem("rows", f"{_told(fault)}. Keep the folder as it is and report this.", row.id)
    if not faults:
        visit.good("rows", "Scope sets, chains, edges, turns and passages fit together.", row.id)
        await _finder(visit, db, row)


def _told(fault: Fault) -> str:
    return f"{fault.what}: {fault.count} ({', '.join(fault.ids)}{' …' if fault.count > len(fault.ids) else ''})"


async def _finder(visit: _Visit, db: Db, row: ContextRow) -> None:
    folder = visit.folder / row.id / store_swap.FINDER
    rebuilt = "it is built anew at the next start."
    try:
        seen = await asyncio.to_thread(look, folder)
    except sqlite3.DatabaseError:
        visit.note("finder", f"The index is damaged; {rebuilt}", row.id)
        return
    if seen is None:
        visit.note("finder", f"There is no index; {rebuilt}", row.id)
        return
    last = await store_commit.last_change(db)
    if seen.context != await store_meta.uid(db):
        visit.note("finder", f"The index is of another record; {rebuilt}", row.id)
        return
    if seen.applied != last:
        visit.note("finder", f"The index is at change {seen.applied} of {last}; it follows at the next start.", row.id)
        return
    sets = ScopeSets()
    await load_scope_sets(db, sets)
    missing, count = 0, 0
    left = dict(seen.entries)
    async for entry in index.everything(db, sets):
        if isinstance(entry, index.Entry):
            count += 1
            missing += left.pop(entry.unit, None) != (entry.ref, entry.scope_set)
    if missing or left:
        visit.problem(
            "finder",
            f"The index lacks {missing} entries of the record and has {len(left)} of its own: stop keeps and delete "
            f"{folder}; {rebuilt}",
            row.id,
        )
    else:
        visit.good("finder", f"The index equals the record: {count} entries.", row.id)


# ---------------------------------------------------------------------- accepting
async def _accept(visit: _Visit, now: datetime) -> list[str]:
    """Take the folder as it is: marks and numbers set to what is there, each with a line in the ledger."""
    done: list[str] = []
    place = visit.folder / LEDGER_FOLDER
    if visit.ledger_damaged:
        aside = place.with_name(f"{LEDGER_FOLDER}.damaged-{now:%Y%m%dT%H%M%SZ}")
        place.rename(aside)
        done.append(f"The damaged ledger was set aside as {aside.name}, and a new one begun.")
    ledger = Ledger.open(place)
    try:
        if visit.ledger_damaged:
            ledger.append("", ACCEPT_LOSS, [], 0, {"ledger": "damaged"})
        for loss in visit.losses:
            detail = {"what": loss.what, "database": loss.database, "have": loss.have, "wanted": loss.wanted}
            ledger.append("", ACCEPT_LOSS, [], loss.have, detail)
            if loss.what == "record":
                _accept_mark(visit, loss)
                done.append(f"{loss.database} goes on from change {loss.have}; {loss.wanted} was acknowledged.")
        await _accept_lines(visit, ledger.head[0], now, done)
    finally:
        ledger.close()
        visit.watermark.close()
    return done


def _accept_mark(visit: _Visit, loss: _Loss) -> None:
    visit.watermark.forget(loss.database)
    if loss.have:
        visit.watermark.write(loss.database, loss.have)
    if loss.context is not None:  # numbers will be given out again: the index must not take new changes for old
        shutil.rmtree(visit.folder / loss.context / store_swap.FINDER, ignore_errors=True)


async def _accept_lines(visit: _Visit, head: int, now: datetime, done: list[str]) -> None:
    """Let every record that has carried out more lines than there are go on from the last one."""
    root = visit.folder / RECORD_FOLDER
    names = sorted(path.name for path in root.glob("context_*") if path.is_dir())
    if not names or not (visit.ledger_damaged or any(loss.what == "ledger" for loss in visit.losses)):
        return
    engine = await open_engine(str(folder_url(root)))
    try:
        for name in names:
            db = await engine.database(name)
            applied = await store_meta.applied_tombstone(db)
            if applied <= head and not visit.ledger_damaged:
                continue
            batch = Batch(at=now)
            note_tombstone(batch, head)
            visit.watermark.write(name, await store_commit.commit(db, batch))
            done.append(f"{name} had carried out line {applied} of the ledger and goes on from line {head}.")
    finally:
        await engine.close()


def problems(findings: Sequence[Finding]) -> list[Finding]:
    """Those that need doing something about."""
    return [finding for finding in findings if finding.level == "problem"]
