"""A data folder looked over while nobody uses it: what is not as it ought to be, and what to do about it."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

from keeps.core.access import KeyId
from keeps.core.erasure import Gone
from keeps.core.errors import Invalid, KeepsError, StoreRefused
from keeps.finder.base import Entry, Stored
from keeps.finder.look import Seen, digest_of, look
from keeps.services import index, losses
from keeps.services.access import ADMIN, is_secret_of, minted_for
from keeps.services.contexts import OWNER, Reissued
from keeps.services.losses import CONTROL, Accepted, Loss, databases_in, is_context
from keeps.services.runtime import LEDGER_FOLDER, RECORD_FOLDER, WATERMARK_FOLDER, Clock, system_clock
from keeps.store import checks as store_checks
from keeps.store import commit as store_commit
from keeps.store import contexts as store_contexts
from keeps.store import keys as store_keys
from keeps.store import meta as store_meta
from keeps.store import principals as store_principals
from keeps.store import swap as store_swap
from keeps.store.address import folder_url
from keeps.store.checks import Fault
from keeps.store.contexts import ContextRow
from keeps.store.db import Db, Engine, StoreDamaged, open_engine
from keeps.store.ledger import FILE_NAME as LEDGER_FILE
from keeps.store.ledger import read_ledger
from keeps.store.migrate import Kind, known_version, schema_version
from keeps.store.owner import LOCK_NAME, OWNER_NAME, FolderLock
from keeps.store.rows import key_of
from keeps.store.scopes import ScopeSets, load_scope_sets
from keeps.store.secrets import KEYS_NAME, PEPPER_NAME, all_saved_keys
from keeps.store.tombstones import CONTEXT
from keeps.store.watermark import Watermark

_ROUNDS: Final = 4
"""How often what was lost is gone on without and looked for again: behind a registry lie records, behind them keys."""

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
    """What was found in a folder, the losses that were accepted on request, and secrets made for that."""

    folder: Path
    findings: tuple[Finding, ...]
    accepted: tuple[str, ...] = ()
    keys: Mapping[str, Reissued] = field(default_factory=dict[str, Reissued], repr=False)
    """New keys of contexts that nobody could get into."""
    management_key: str | None = field(default=None, repr=False)

    @property
    def sound(self) -> bool:
        """True when nothing needs doing."""
        return all(finding.level != "problem" for finding in self.findings)


@dataclass(slots=True, kw_only=True)
class _Visit:
    folder: Path
    watermark: Watermark
    findings: list[Finding] = field(default_factory=list[Finding])
    losses: list[Loss] = field(default_factory=list[Loss])
    lines: int = 0
    purges: set[str] = field(default_factory=set[str])
    """Contexts of which something was purged; "" when lines were lost, so that any may be."""
    named: list[str] = field(default_factory=list[str])
    """Ids of contexts that something in the folder names."""
    gone: set[str] = field(default_factory=set[str])
    """How the ledger names the records of contexts that were deleted."""
    accepted: Accepted = field(default_factory=Accepted)
    """What was accepted before this visit."""
    saved: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]], repr=False)
    pepper: bytes | None = field(default=None, repr=False)
    now: datetime
    ledger_damaged: bool = False

    def good(self, check: str, message: str, where: str = "") -> None:
        self.findings.append(Finding(level="good", check=check, message=message, where=where))

    def note(self, check: str, message: str, where: str = "") -> None:
        self.findings.append(Finding(level="note", check=check, message=message, where=where))

    def problem(self, check: str, message: str, where: str = "", *, loss: bool = False) -> None:
        self.findings.append(Finding(level="problem", check=check, message=message, where=where, loss=loss))


async def doctor(folder: Path, *, accept_loss: bool = False, clock: Clock = system_clock) -> Report:
    """What is right and wrong in a data folder. Nothing is changed, unless `accept_loss` is set: then what is lost
    of the record, of the ledger, or of the keys is gone on without, and the ledger says so.

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
        visit = _Visit(folder=folder, watermark=Watermark(folder / WATERMARK_FOLDER), now=clock())
        _modes(visit)
        visit.note("lock", f"{error.message} Stop it to have the record looked at.")
        return Report(folder=folder, findings=tuple(visit.findings))
    try:
        accepted = Accepted()
        visit = await _visit(folder, accepted, clock())
        for _ in range(_ROUNDS if accept_loss else 0):
            if not visit.losses and not visit.ledger_damaged:
                break
            damaged = visit.ledger_damaged
            await losses.accept(folder, visit.losses, accepted, known=visit.named, ledger_damaged=damaged, clock=clock)
            visit = await _visit(folder, accepted, clock())
        return Report(
            folder=folder,
            findings=tuple(visit.findings),
            accepted=tuple(accepted.done),
            keys=accepted.keys,
            management_key=accepted.management_key,
        )
    finally:
        lock.release()


async def _visit(folder: Path, accepted: Accepted, now: datetime) -> _Visit:
    visit = _Visit(folder=folder, watermark=Watermark(folder / WATERMARK_FOLDER), accepted=accepted, now=now)
    _modes(visit)
    _secrets(visit)
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


def _secrets(visit: _Visit) -> None:
    try:
        visit.pepper = (visit.folder / PEPPER_NAME).read_bytes()
    except OSError:
        visit.pepper = None  # then no key opens anything, which is said
    try:
        visit.saved = all_saved_keys(visit.folder)
    except (OSError, ValueError):
        visit.problem("access", f"{visit.folder / KEYS_NAME} cannot be read: give commands a key, and delete it.")
    visit.named += [*visit.saved, *(place.parent.name for place in visit.folder.glob(f"*/{store_swap.FINDER}"))]


def _ledger(visit: _Visit) -> None:
    path = visit.folder / LEDGER_FOLDER / LEDGER_FILE
    if not path.exists():
        visit.note("ledger", "There is no ledger of erased rows yet: the server makes one at its start.")
        return
    try:
        for tombstone in read_ledger(path):
            visit.lines = tombstone.seq
            visit.named.append(tombstone.context)
            if tombstone.kind == CONTEXT:
                visit.gone.update(tombstone.ids)
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
    vanished = [name for name in marked if not (root / name).is_dir() and visit.watermark.read(name)]
    if not (root / CONTROL).is_dir() and not databases_in(visit.folder):
        for name in vanished:
            _lost(visit, Loss("record", name, 0, visit.watermark.read(name) or 0))
        if not vanished:
            visit.note("record", "There is no record yet: `keeps serve` begins one.")
        return
    engine: Engine | None = None
    try:
        engine = await open_engine(str(folder_url(root)))
        control = await _database(visit, engine, CONTROL, "control", None)
        if control is not None:
            await _contexts(visit, engine, control, vanished)
    except KeepsError as error:
        visit.problem("record", error.message)
    finally:
        if engine is not None:
            await engine.close()


async def _contexts(visit: _Visit, engine: Engine, control: Db, vanished: Sequence[str]) -> None:
    rows = await store_contexts.list_all(control)
    registered = {row.database for row in rows}
    for name in vanished:
        if name not in registered:
            _lost(visit, Loss("record", name, 0, visit.watermark.read(name) or 0))
    for name in databases_in(visit.folder):
        id_ = store_contexts.id_of(name, visit.named)
        if name in registered or id_ not in visit.saved:
            continue
        if await is_context(engine, visit.watermark, name, id_, visit.gone):
            _lost(visit, Loss("registry", CONTROL, context=id_))
    if rows:
        await _management(visit, control)
    for row in rows:
        await _context(visit, engine, row)


async def _database(visit: _Visit, engine: Engine, name: str, kind: Kind, context: str | None) -> Db | None:
    """A database that can be looked at; None when it cannot, which is then said."""
    where, marked = context or name, visit.watermark.read(name)
    files = Loss("files", name, 0, marked or 0, context)
    if not (visit.folder / RECORD_FOLDER / name).is_dir():
        _lost(visit, files, "The database is missing")
        return None
    try:
        db = await engine.database(name)
        version, known = await schema_version(db), known_version(kind)
    except StoreDamaged as error:
        visit.losses.append(files)
        visit.problem("record", error.message, where, loss=True)
        return None
    except KeepsError as error:
        visit.problem("record", error.message, where)
        return None
    if version > known:
        visit.problem("schema", f"A newer keeps wrote it (schema {version}, this one knows {known}).", where)
        return None
    if version == 0 and (marked or context is not None or databases_in(visit.folder)):
        _lost(visit, files, "The database is empty")
        return None
    if version < known:
        visit.note("schema", f"Its schema is {version} and becomes {known} at the next start.", where)
        if version == 0:
            return None
    stored = await store_commit.last_change(db)
    if marked is not None and stored < marked:
        _lost(visit, Loss("record", name, stored, marked, context))
    else:
        visit.good("record", f"It opens and ends at change {stored}.", where)
    return db


def _lost(visit: _Visit, loss: Loss, found: str = "") -> None:
    """Say what is lost, and the ways on."""
    visit.losses.append(loss)
    backup = "bring back a backup with `keeps restore --data DIR FILE`"
    on = "with `keeps doctor --accept-loss --data DIR`"
    told = {
        "record": f"It ends at change {loss.have}, and {loss.wanted} was acknowledged: {backup}, or go on without "
        f"what is lost {on}.",
        "files": f"{found}: {backup}, or go on with an empty one {on}.",
        "registry": f"The record of the context {loss.context} is there, and it is not registered: {backup}, or "
        f"register it anew {on}.",
        "access": f"{found}: {backup}, or make new keys {on}.",
        "ledger": f"The ledger ends at line {loss.have}, the record has carried out line {loss.wanted}: put back "
        f"ledger/tombstones.jsonl, or go on without the lost lines {on}.",
    }
    check = {"record": "watermark", "files": "record", "registry": "record"}.get(loss.what, loss.what)
    visit.problem(check, told[loss.what], loss.context or loss.database, loss=True)


async def _management(visit: _Visit, control: Db) -> None:
    for found in await store_keys.management_ids(control):
        key = await store_keys.find_management(control, KeyId(key_of(found)))
        if key is not None and visit.pepper is not None and minted_for(visit.pepper, None, key, visit.now):
            return
    _lost(visit, Loss("access", CONTROL), "No management key is left that works")


async def _access(visit: _Visit, db: Db, row: ContextRow) -> None:
    """Whether the people of a context can get in: with the keys saved in the folder, or at least with others."""
    pepper, uid, saved = visit.pepper or b"", await store_meta.uid(db), visit.saved.get(row.id, {}).values()
    ids = {stored.principal.id for stored in await store_principals.list_all(db)}
    keys = [
        key
        for key in await store_keys.list_all(db)
        if visit.pepper is not None and key.principal in ids and minted_for(pepper, row.id, key, visit.now)
    ]
    if any(is_secret_of(pepper, uid, key, secret) for secret in saved for key in keys):
        visit.good("access", "A key saved in the folder opens it.", row.id)
    elif ADMIN not in ids or (saved and (not keys or OWNER not in ids or row.database in visit.accepted.databases)):
        _lost(visit, Loss("access", row.database, context=row.id), "Its owner and agent cannot get in any more")
    elif saved:
        visit.note("access", f"No key in {KEYS_NAME} opens it any more; others that were given out do.", row.id)
    else:
        visit.note("access", f"No key of it is saved in {KEYS_NAME}; {len(keys)} were given out.", row.id)


async def _context(visit: _Visit, engine: Engine, row: ContextRow) -> None:
    db = await _database(visit, engine, row.database, "context", row.id)
    if db is None:
        return
    await _access(visit, db, row)
    applied = await store_meta.applied_tombstone(db)
    if applied > visit.lines and not visit.ledger_damaged:
        _lost(visit, Loss("ledger", row.database, visit.lines, applied, row.id))
    faults: list[Fault] = []
    for check in (
        store_checks.scope_sets,
        store_checks.chains,
        store_checks.edges,
        store_checks.numbers,
        store_checks.vectors,
    ):
        faults += await check(db)
    misplaced, gaps = await store_checks.turns(db)
    faults += misplaced
    if gaps is not None and not visit.purges & {row.id, ""}:
        faults.append(gaps)
    elif gaps is not None:
        visit.note("rows", f"{_told(gaps)}: harmless, purges leave them behind.", row.id)
    for fault in faults:
        visit.problem("rows", f"{_told(fault)}. Keep the folder as it is and report this.", row.id)
    if not faults:
        visit.good("rows", "Scope sets, chains, edges, turns, passages and vectors fit together.", row.id)
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
    vectors = _Vectors(seen)
    async for entry in index.everything(db, sets):
        if isinstance(entry, Entry):
            count += 1
            missing += left.pop(entry.unit, None) != (entry.ref, entry.scope_set)
        elif isinstance(entry, Stored):
            vectors.compare(entry)
    if missing or left:
        visit.problem(
            "finder",
            f"The index lacks {missing} entries of the record and has {len(left)} of its own: stop keeps and delete "
            f"{folder}; {rebuilt}",
            row.id,
        )
    elif vectors.foreign:
        visit.problem(
            "finder",
            f"The index holds {vectors.foreign} vectors that are not those of the record: stop keeps and delete "
            f"{folder}; {rebuilt}",
            row.id,
        )
    else:
        visit.good("finder", f"The index equals the record: {count} entries, {vectors.equal} vectors.", row.id)
        if vectors.missing:
            visit.note("finder", f"The index lacks {vectors.missing} vectors: they are made at the next start.", row.id)


class _Vectors:
    """How the vectors of an index agree with those of its record, counted."""

    def __init__(self, seen: Seen) -> None:
        self.equal = 0
        self.missing = 0
        self._left = {space: dict(units) for space, units in seen.vectors.items()}

    def compare(self, stored: Stored) -> None:
        """Hold some vectors of the record against the index."""
        units = self._left.get(stored.space, {})
        for unit, content in stored.vectors.items():
            found = units.get(unit)
            if found is None:
                self.missing += 1
            elif found == digest_of(content):
                del units[unit]
                self.equal += 1

    @property
    def foreign(self) -> int:
        """Vectors of the index that the record does not have, or has otherwise."""
        return sum(map(len, self._left.values()))
