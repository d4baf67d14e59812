"""What a data folder has lost, and going on without it: every step is said, and leaves a line in the ledger."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

from keeps.config import Config
from keeps.core.contexts import check_context_id
from keeps.core.errors import Unprocessable
from keeps.services import access, contexts
from keeps.services.contexts import NAMESPACE, Reissued
from keeps.services.rehash import rehash
from keeps.services.runtime import LEDGER_FOLDER, RECORD_FOLDER, WATERMARK_FOLDER, Clock, Runtime, open_runtime
from keeps.store import audit as store_audit
from keeps.store import commit as store_commit
from keeps.store import contexts as store_contexts
from keeps.store import keys as store_keys
from keeps.store import meta as store_meta
from keeps.store import swap as store_swap
from keeps.store.address import folder_url
from keeps.store.commit import Batch
from keeps.store.contexts import ContextRow
from keeps.store.db import Engine, RecordID, StoreDamaged, open_engine
from keeps.store.erase import note_tombstone
from keeps.store.ledger import Ledger
from keeps.store.migrate import migrate, schema_version
from keeps.store.tombstones import CONTEXT, Seal
from keeps.store.watermark import Watermark

ACCEPT_LOSS: Final = "accept-loss"
"""Kind of a line in the ledger that says what loss was accepted. It belongs to no context."""

CONTROL: Final = "control"

What = Literal["record", "files", "registry", "access", "ledger"]


@dataclass(frozen=True, slots=True)
class Loss:
    """Something of a database that is not there any more.

    `what`: "record", changes that were acknowledged (it ends at `have`, `wanted` was noted); "files", the whole
    database, because it cannot be read or is missing; "registry", the row of a context whose record is there;
    "access", every key that lets somebody in; "ledger", lines that the record has carried out.
    """

    what: What
    database: str
    have: int = 0
    wanted: int = 0
    context: str | None = None


@dataclass(slots=True)
class Accepted:
    """What was done about losses, in sentences, and the secrets that were made, to be shown once."""

    done: list[str] = field(default_factory=list[str])
    keys: dict[str, Reissued] = field(default_factory=dict[str, Reissued], repr=False)
    management_key: str | None = field(default=None, repr=False)
    databases: set[str] = field(default_factory=set[str])
    """Those that lost something of their own."""


async def accept(
    folder: Path,
    losses: Sequence[Loss],
    accepted: Accepted,
    *,
    known: Sequence[str],
    ledger_damaged: bool,
    clock: Clock,
) -> None:
    """Take the folder as it is and go on without what is lost. `known`: ids of contexts that somebody has named.

    The caller owns the folder, and looks again afterwards: what lies behind one loss may show another. Every step
    may be repeated after a crash, and a mark is moved last, so that until then the folder is refused.
    """
    work = _Work(folder, losses, accepted, known, clock(), Watermark(folder / WATERMARK_FOLDER))
    try:
        ledger = await asyncio.to_thread(work.ledger, ledger_damaged)
        try:
            if any(loss.what != "access" for loss in losses) or ledger_damaged:
                await work.record(ledger, ledger_damaged)
        finally:
            ledger.close()
    finally:
        work.watermark.close()
    if any(loss.what == "access" for loss in losses):
        async with open_runtime(Config(data=folder, engine_url=None), clock=clock, any_pepper=True) as rt:
            await _readmit(rt, [loss for loss in losses if loss.what == "access"], accepted)


@dataclass(frozen=True, slots=True)
class _Work:
    folder: Path
    losses: Sequence[Loss]
    accepted: Accepted
    known: Sequence[str]
    now: datetime
    watermark: Watermark

    def ledger(self, damaged: bool) -> Ledger:
        """The ledger, with a line for each loss; a new one when the old one is damaged."""
        place = self.folder / LEDGER_FOLDER
        if damaged:
            aside = place.with_name(f"{LEDGER_FOLDER}.damaged-{self.now:%Y%m%dT%H%M%SZ}")
            place.rename(aside)
            self.accepted.done.append(f"The damaged ledger was set aside as {aside.name}, and a new one begun.")
        ledger = Ledger.open(place)
        if damaged:
            ledger.append("", ACCEPT_LOSS, [], 0, {"ledger": "damaged"})
        for loss in self.losses:
            detail = {"what": loss.what, "database": loss.database, "have": loss.have, "wanted": loss.wanted}
            ledger.append("", ACCEPT_LOSS, [], loss.have, detail)
        return ledger

    async def record(self, ledger: Ledger, ledger_damaged: bool) -> None:
        root = self.folder / RECORD_FOLDER
        for loss in self.losses:
            if loss.what == "files":
                self._set_aside(root / loss.database)
        engine = await open_engine(str(folder_url(root)))
        try:
            for loss in self.losses:
                if loss.what == "files":
                    await self._begin_anew(engine, loss, ledger.head[0])
            if any(loss.database == CONTROL and loss.what != "access" for loss in self.losses):
                await self._register(engine, ledger)
            for loss in self.losses:
                if loss.what == "record":
                    self._forget(loss)
            if ledger_damaged or any(loss.what == "ledger" for loss in self.losses):
                await self._cut_back(engine, ledger.head[0], ledger_damaged)
        finally:
            await engine.close()

    def _set_aside(self, place: Path) -> None:
        if not place.is_dir():
            return
        aside = place.with_name(f"{place.name}.lost-{self.now:%Y%m%dT%H%M%SZ}")
        while aside.exists():
            aside = aside.with_name(f"{aside.name}-again")
        place.rename(aside)
        self.accepted.done.append(
            f"The files of {place.name} were set aside as {RECORD_FOLDER}/{aside.name}; whoever can read them may find "
            "texts in them, also such as are forgotten later: delete them when you are done with them."
        )

    async def _begin_anew(self, engine: Engine, loss: Loss, head: int) -> None:
        db = await engine.database(loss.database)
        await migrate(db, "control" if loss.database == CONTROL else "context")
        self.accepted.databases.add(loss.database)
        self.accepted.done.append(f"{loss.database} begins anew, empty; {loss.wanted} changes had been acknowledged.")
        if loss.database == CONTROL:
            return  # its mark moves when the contexts are registered
        await store_meta.uid(db)
        batch = Batch(at=self.now)
        note_tombstone(batch, head)
        number = await store_commit.commit(db, batch)
        self._remove_index(loss)
        self.watermark.forget(loss.database)
        self.watermark.write(loss.database, number)

    async def _register(self, engine: Engine, ledger: Ledger) -> None:
        """Register every context whose record is there, so that nobody takes its place for free."""
        control = await engine.database(CONTROL)
        await migrate(control, "control")
        registered = {row.database for row in await store_contexts.list_all(control)}
        gone = {name for line in ledger.of_kind(CONTEXT) for name in line.ids}
        batch = Batch(at=self.now)
        for name in databases_in(self.folder):
            id_ = store_contexts.id_of(name, self.known)
            if name in registered or not await is_context(engine, self.watermark, name, id_, gone):
                continue
            row = ContextRow(id=id_, namespace=NAMESPACE, database=name, created_at=self.now)
            batch.creates.append({"id": RecordID("context", id_), "row": store_contexts.to_row(row)})
            self.accepted.done.append(f"The context {id_} is registered anew; settings that its record holds go on.")
        number = await store_commit.commit(control, batch)
        self.watermark.forget(CONTROL)
        self.watermark.write(CONTROL, number)

    def _forget(self, loss: Loss) -> None:
        self.accepted.databases.add(loss.database)
        self.accepted.done.append(f"{loss.database} goes on from change {loss.have}; {loss.wanted} was acknowledged.")
        if loss.database != CONTROL:
            self.watermark.forget(loss.database)
            if loss.have:
                self.watermark.write(loss.database, loss.have)
        self._remove_index(loss)
        if loss.context is not None:  # what was lost may have been entries of the audit: that is accepted with it
            (self.folder / loss.context / store_audit.HEAD_NAME).unlink(missing_ok=True)

    def _remove_index(self, loss: Loss) -> None:
        """Numbers will be given out again: an index must not take new changes for those it knows."""
        if loss.context is not None:
            shutil.rmtree(self.folder / loss.context / store_swap.FINDER, ignore_errors=True)

    async def _cut_back(self, engine: Engine, head: int, ledger_damaged: bool) -> None:
        """Let every record that has carried out more lines than there are go on from the last one."""
        for name in databases_in(self.folder):
            try:
                db = await engine.database(name)
            except StoreDamaged:
                continue  # a loss of its own
            applied = await store_meta.applied_tombstone(db)
            if applied <= head and not ledger_damaged:
                continue
            batch = Batch(at=self.now)
            note_tombstone(batch, head)
            self.watermark.write(name, await store_commit.commit(db, batch))
            self.accepted.done.append(
                f"{name} had carried out line {applied} of the ledger and goes on from line {head}."
            )


def databases_in(folder: Path) -> list[str]:
    """The names of the databases of contexts in a data folder, registered or not."""
    places = (folder / RECORD_FOLDER).glob("context_*")
    return sorted(place.name for place in places if "." not in place.name and place.is_dir())


async def is_context(engine: Engine, watermark: Watermark, name: str, id_: str, gone: set[str]) -> bool:
    """True when a database is that of a context which was not deleted. `gone`: how the ledger names deleted ones."""
    try:
        check_context_id(id_)
        db = await engine.database(name)
    except Unprocessable:
        return False
    except StoreDamaged:
        return True  # nobody can tell: better an empty context than one that others write over
    if await schema_version(db) == 0:
        return bool(watermark.read(name))
    return (await Seal.of(db)).record() not in gone


async def _readmit(rt: Runtime, losses: Sequence[Loss], accepted: Accepted) -> None:
    for loss in losses:
        if loss.context is None:
            accepted.management_key = await contexts.reissue_management(rt)
            accepted.done.append("No management key was left: there is a new one.")
            continue
        context = await rt.context(loss.context)
        keys = await store_keys.list_all(context.db)
        if keys and not any(access.minted_for(rt.pepper, context.id, key, key.created_at) for key in keys):
            await rehash(rt, context)  # of another pepper: nothing could be forgotten by its words
        accepted.keys[context.id] = await contexts.readmit(rt, context.id)
        accepted.done.append(f"Nobody could get into the context {context.id}: its owner and agent have new keys.")
