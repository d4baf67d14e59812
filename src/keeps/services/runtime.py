"""What a process works with: the engine, the contexts it has open, and the one way to commit."""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import shutil
import stat
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from keeps.config import Config
from keeps.core import audit
from keeps.core.audit import FIRST
from keeps.core.contexts import FOLDER_NAMES, LAID_ASIDE
from keeps.core.errors import KeepsError, NotFound, StoreRefused
from keeps.core.facts import RowId, Status
from keeps.core.marks import mark_of
from keeps.core.scopes import ScopePath
from keeps.core.sessions import Session, Turn
from keeps.core.text import fold
from keeps.core.traces import ReadTrace
from keeps.finder.base import Finder, FinderLost
from keeps.finder.local import LocalFinder
from keeps.models.base import Embedder
from keeps.services import audit_chain, consent, index, request_ids, run_buffer, undoing
from keeps.services.consent import Consent
from keeps.services.embedders import Embedders, embedders_of
from keeps.services.index import Changes, Indexed
from keeps.services.run_buffer import Kept, RunBuffer
from keeps.services.trace_buffer import TraceBuffer
from keeps.services.vectors import VectorFollower
from keeps.services.webhook import Webhook
from keeps.store import audit as store_audit
from keeps.store import commit as store_commit
from keeps.store import contexts as store_contexts
from keeps.store import erase as store_erase
from keeps.store import keys as store_keys
from keeps.store import ledger as store_ledger
from keeps.store import meta as store_meta
from keeps.store import runs as store_runs
from keeps.store import scopes as store_scopes
from keeps.store import secrets as store_secrets
from keeps.store import swap as store_swap
from keeps.store import traces as store_traces
from keeps.store import watermark as store_watermark
from keeps.store.address import folder_url
from keeps.store.commit import Batch
from keeps.store.db import Db, Duplicate, Engine, RecordID, open_engine
from keeps.store.keys import KnownCallers
from keeps.store.ledger import Ledger
from keeps.store.migrate import migrate
from keeps.store.scopes import ScopeSets
from keeps.store.tombstones import CONTEXT, Seal
from keeps.store.watermark import Watermark

_log = logging.getLogger(__name__)

Clock = Callable[[], datetime]

_ID_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz0123456789"
_ID_CHARS: Final = 20
_IDS: Final = len(_ID_LETTERS) ** _ID_CHARS
MAX_REPLANS: Final = 16
"""How often a write is planned again when other writers come first."""


def system_clock() -> datetime:
    """Now, aware UTC."""
    return datetime.now(UTC)


def new_id() -> RowId:
    """A fresh row id: 20 characters of a-z and 0-9, 103 random bits."""
    number = secrets.randbelow(_IDS)  # one question to the system for all letters: each costs more than the rest
    letters: list[str] = []
    for _ in range(_ID_CHARS):
        number, index = divmod(number, len(_ID_LETTERS))
        letters.append(_ID_LETTERS[index])
    return RowId("".join(letters))


@dataclass(frozen=True, slots=True)
class Thread:
    """The end of a session as this process last saw it; the number of its next turn is checked at every commit."""

    session: Session
    last: Turn | None


_THREADS_KEPT: Final = 1024


@dataclass(slots=True)
class EntityLock:
    """Keeps writers of one entity apart. `users` hold it or wait for it; without any it is forgotten."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


@dataclass(slots=True, kw_only=True)
class Context:
    """One open context: its database, its finder, its scope sets, and the lock that orders its commits."""

    id: str
    uid: str
    db: Db
    finder: Finder
    secret: bytes
    watermark: Watermark
    config: Mapping[str, Any]
    embedders: Embedders
    consent: Consent
    enforcement_blocked: bool = False
    clock: Clock = system_clock
    audit_head: tuple[int, str] = (0, FIRST)
    """The number and the seal of the last row of the audit."""
    denied_at: dict[tuple[str, str, str], datetime] = field(default_factory=dict[tuple[str, str, str], datetime])
    """When a refusal was last written down, by caller, act and target."""
    sets: ScopeSets = field(default_factory=ScopeSets)
    nodes: set[ScopePath] = field(default_factory=set[ScopePath])
    threads: dict[str, Thread] = field(default_factory=dict[str, "Thread"])
    known: KnownCallers = field(default_factory=KnownCallers)
    turns_written: int = 0
    """Since the engine's process began."""
    stored: dict[str, int] = field(default_factory=dict[str, int])
    """How many memories a scope set holds at most, as far as was counted."""
    unsettled: bool = False
    """True after an erasure that is in the ledger failed to reach the record: the next one carries it out first."""
    erased_at: datetime | None = None
    """When this process last erased something here."""
    swept_at: datetime | None = None
    """When this process last looked through the rows for such as have ended."""
    entity_locks: dict[str, EntityLock] = field(default_factory=dict[str, EntityLock])
    traces: TraceBuffer[ReadTrace] = field(init=False)
    """What reads leave behind, on its way to the record."""
    runs: RunBuffer = field(init=False)
    """Runs of agents, on their way to the record."""
    vectors: VectorFollower = field(init=False)
    """What keeps vectors equal to the record, behind the commits."""
    webhook_hosts: tuple[str, ...] = ()
    webhook: Webhook = field(init=False)
    """What tells the host that something waits for a person."""
    _committing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.vectors = VectorFollower(self.indexed, self.embedders, self.secret, self.config, still=self.still)
        self.traces = TraceBuffer(self._save_traces)
        self.runs = RunBuffer(self._save_runs)
        self.webhook = Webhook(
            self.id,
            self.secret,
            lambda: self.consent.settings.webhook_url,
            clock=self.clock,
            private_hosts=self.webhook_hosts,
        )

    @property
    def indexed(self) -> Indexed:
        """The record and finder of this context, as the index sees them."""
        return Indexed(self.db, self.finder, self.sets, self.uid)

    async def commit(self, batch: Batch, changes: Changes | None = None) -> int:
        """Write one durable commit and bring the finder along; the number of the change.

        Once begun it is carried through, also when the caller is cancelled. Raises: see `store.commit.commit`.
        """
        return await asyncio.shield(self._commit(batch, changes or Changes()))

    async def commit_apart(self, batch: Batch) -> int:
        """Write one durable commit that the finder does not follow; it must be built anew afterwards."""
        return await asyncio.shield(self._commit(batch, None))

    @asynccontextmanager
    async def still(self) -> AsyncGenerator[None]:
        """Keep every commit waiting, so that several reads see one state."""
        async with self._committing:
            yield

    def keep_thread(self, thread: Thread) -> None:
        """Remember the end of a session, so that the next turn need not read it."""
        self.threads.pop(thread.session.id, None)
        self.threads[thread.session.id] = thread
        if len(self.threads) > _THREADS_KEPT:
            self.threads.pop(next(iter(self.threads)))

    async def _commit(self, batch: Batch, changes: Changes | None) -> int:
        async with self._committing:
            if batch.deletes or any(patch["id"].table_name in ("turn", "session") for patch in batch.patches):
                self.threads.clear()
            head, number = await self._sealed_commit(batch)
            self.audit_head = head
            self.turns_written += len(batch.turns)
            self.watermark.write(self.db.name, number)
            for row in batch.scope_sets:
                self.sets.add(store_scopes.scope_of_row(row))
            self.nodes.update(ScopePath(row["id"].id) for row in batch.scopes)
            if changes is not None:
                await index.follow(self.indexed, number, changes)
                self.vectors.wake()
            self.webhook.tell([row["id"].id for row in batch.proposals if row["status"] == Status.PROPOSED])
            return number

    async def _sealed_commit(self, batch: Batch) -> tuple[tuple[int, str], int]:
        """Commit with the audit entries in their places; the new end of the audit, and the number of the change.

        Another process on the same engine may have written to the audit since: then the places are taken again.
        """
        while True:
            head = self._seal(batch)
            try:
                return head, await store_commit.commit(self.db, batch)
            except Duplicate:
                seen = await store_audit.head(self.db) if batch.entries else self.audit_head
                if seen[0] <= self.audit_head[0]:
                    raise
                self.audit_head = seen

    def _seal(self, batch: Batch) -> tuple[int, str]:
        """Give the audit entries of a batch their places, and the request they come of; the head of the audit once
        it is written."""
        seq, mac = self.audit_head
        request = request_ids.current()
        batch.audits = []
        for entry in batch.entries:
            asked = entry if request is None or entry.request is not None else replace(entry, request=request)
            sealed = audit.sealed(self.audit_secret, seq + 1, batch.at, asked, mac)
            batch.audits.append(store_audit.to_row(sealed))
            seq, mac = sealed.seq, sealed.mac
        return seq, mac

    @property
    def audit_secret(self) -> bytes:
        """What the audit is sealed with."""
        return hmac.new(self.secret, b"audit", sha256).digest()

    async def _save_traces(self, traces: Sequence[ReadTrace]) -> None:
        """Write traces between two commits. A question whose answer was erased since loses its text, and so does one
        that was asked before the last erasure and comes after it: it may quote what went."""
        async with self._committing:
            told = [trace for trace in traces if trace.query_text]
            if told:
                refs = {hit.row for trace in told for hit in trace.hits}
                gone = refs - await store_traces.standing(self.db, sorted(refs))
                erased = self.erased_at
                traces = [
                    replace(trace, query_text="")
                    if any(hit.row in gone for hit in trace.hits) or (erased is not None and trace.at <= erased)
                    else trace
                    for trace in traces
                ]
            await store_traces.save(self.db, traces)

    async def _save_runs(self, runs: Sequence[Kept]) -> None:
        """Write runs between two commits."""
        async with self._committing:
            await run_buffer.save(self.db, self.sets, self.consent, runs)

    def fold_key(self, text: str) -> str:
        """A keyed hash of a folded text: finds equal texts without keeping a guessable hash."""
        return hmac.new(self.secret, fold(text).encode(), sha256).hexdigest()[:32]

    @asynccontextmanager
    async def alone_on(self, names: Iterable[str]) -> AsyncGenerator[None]:
        """Keep other writers of the same entities out; always taken in one order, so nobody waits in a circle."""
        async with AsyncExitStack() as held:
            for name in sorted(set(names)):
                await held.enter_async_context(self._alone_on(name))
            yield

    @asynccontextmanager
    async def _alone_on(self, name: str) -> AsyncGenerator[None]:
        one = self.entity_locks.setdefault(name, EntityLock())
        one.users += 1
        try:
            async with one.lock:
                yield
        finally:
            one.users -= 1
            if not one.users:
                del self.entity_locks[name]


@dataclass(slots=True, kw_only=True)
class Runtime:
    """Everything a verb needs besides its request. `registering` is held while a context is made or removed."""

    config: Config
    folder: Path
    engine: Engine
    control: Db
    pepper: bytes
    ledger: Ledger
    watermark: Watermark
    embedders: Embedders
    clock: Clock = system_clock
    contexts: dict[str, Context] = field(default_factory=dict[str, Context])
    deleted: set[str] = field(default_factory=set[str])
    """What the ledger says of whole contexts, each by the name a line has for its record."""
    recycled_at: datetime | None = None
    """When the engine was last given a fresh process."""
    registering: asyncio.Lock = field(default_factory=asyncio.Lock)
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def context(self, context_id: str) -> Context:
        """The open context. Raises: NotFound when there is none of that id."""
        found = self.contexts.get(context_id)
        if found is not None:
            return found
        async with self._opening:
            if context_id not in self.contexts:
                row = await store_contexts.find(self.control, context_id)
                if row is None:
                    raise NotFound(f"context {context_id} does not exist")
                self.contexts[context_id] = await self._open(row)
        return self.contexts[context_id]

    def home_of(self, row: store_contexts.ContextRow) -> Path:
        """The folder of a context, directly in the data folder.

        Raises: StoreRefused for a row whose id or database would lead anywhere else.
        """
        home = (self.folder / row.id).resolve()
        outside = home.parent != self.folder.resolve() or home.name != row.id
        if outside or row.database != store_contexts.database_of(row.id):
            raise StoreRefused(
                f"The context {row.id!r} is registered with a name or place that no context has: its folder must lie "
                "in the data folder. Nothing was touched; restore another backup, or remove the link of that name."
            )
        return self.folder / row.id

    async def _open(self, row: store_contexts.ContextRow) -> Context:
        home = self.home_of(row)
        db = await self.engine.database(row.database)
        await migrate(db, "context")
        uid = await store_meta.uid(db)
        if Seal.by(uid).record() in self.deleted:
            raise NotFound(f"context {row.id} does not exist")
        store_watermark.check(await store_commit.last_change(db), self.watermark.read(db.name))
        config, held = await consent.read(db, row.config, self.config.policy, self.clock())
        context = Context(
            id=row.id,
            uid=uid,
            db=db,
            finder=await LocalFinder.open(home / FINDER_FOLDER, uid),
            secret=hmac.new(self.pepper, uid.encode(), sha256).digest(),
            watermark=self.watermark,
            config=config,
            embedders=self.embedders,
            consent=held,
            enforcement_blocked=row.enforcement_blocked,
            clock=self.clock,
            webhook_hosts=self.config.webhook_hosts,
            audit_head=await store_audit.head(db),
        )
        for run_id, session in await store_runs.temporary(db):
            context.runs.mark_temporary(run_id, session)
        await store_scopes.load_scope_sets(db, context.sets)
        context.nodes.update(node.path for node in await store_scopes.list_nodes(db))
        await self.replay(context)
        await undoing.finish(context, self.ledger, self.clock())
        await index.catch_up(context.indexed)
        if self._owed(context).exists():
            await self.scrub(context)
        await context.vectors.start()
        if dict(config) != dict(row.config):
            await self.mirror(row.id, config)
        return context

    async def mirror(self, context_id: str, config: Mapping[str, Any]) -> None:
        """Let the list of contexts show the settings of one; it is the copy, the context's own record the original."""
        row = await store_contexts.find(self.control, context_id)
        if row is not None and dict(row.config) != dict(config):
            batch = Batch(at=self.clock())
            shown = store_contexts.to_row(replace(row, config=config))
            batch.puts.append({"id": RecordID("context", row.id), "row": shown})
            await self.commit_control(batch)

    async def replay(self, context: Context) -> None:
        """Carry out every tombstone the record has not seen: a restored record brings nothing back.

        Raises: StoreRefused when the ledger is shorter than what the record has carried out.
        """
        applied = await store_meta.applied_tombstone(context.db)
        store_ledger.check(self.ledger.head[0], applied)
        pending = await asyncio.to_thread(lambda: list(self.ledger.since(context.id, applied)))
        for tombstone in pending:
            batch = await store_erase.plan_replay(context.db, context.sets, tombstone, self.clock())
            await context.commit_apart(batch)
        if pending:
            await index.rebuild(context.indexed)
        context.unsettled = False

    def owe_scrub(self, context: Context) -> None:
        """Note on disk that the finder is about to drop text whose bytes must go, in case this process dies first."""
        self._owed(context).touch()

    async def scrub(self, context: Context) -> None:
        """Leave no byte of dropped text in the finder's files."""
        try:
            await context.finder.scrub()
        except FinderLost:
            await index.rebuild(context.indexed)
        self._owed(context).unlink(missing_ok=True)

    def _owed(self, context: Context) -> Path:
        return self.folder / context.id / SCRUB_OWED

    async def commit_control(self, batch: Batch) -> int:
        """Write one durable commit to the control database."""
        number = await store_commit.commit(self.control, batch)
        self.watermark.write(self.control.name, number)
        return number

    async def forget_context(self, context_id: str) -> None:
        """Close a context and drop it from memory; its rows are the caller's business."""
        async with self._opening:
            context = self.contexts.pop(context_id, None)
        if context is not None:
            await context.webhook.close()
            await context.vectors.close()
            await context.runs.traces.close()
            await context.traces.close()
            await context.finder.close()
            with suppress(KeepsError, OSError):  # the next opening keeps it, and nothing is lost but a minute
                await audit_chain.keep_head(
                    context.db, context.audit_secret, self.folder / context_id, context.audit_head, self.clock()
                )

    async def clear(self, row: store_contexts.ContextRow) -> None:
        """Remove what lies under the name of a context that is not, or no longer, registered."""
        home = self.home_of(row)
        await self.engine.remove_database(row.database)
        self.watermark.forget(row.database)
        store_secrets.save_keys(self.folder, row.id, {})
        await asyncio.to_thread(_remove_index, home)

    async def leave_out_deleted(self) -> None:
        """Remove every context that the ledger says was deleted: from a backup made before, or by a deletion
        that did not come to its end. Call it before anything is served."""
        lines = await asyncio.to_thread(lambda: list(self.ledger.of_kind(CONTEXT)))
        self.deleted.update(id_ for line in lines for id_ in line.ids)
        named = {line.context for line in lines}
        for row in await store_contexts.list_all(self.control):
            if row.id in named and (await Seal.of(await self.engine.database(row.database))).record() in self.deleted:
                batch = Batch(at=self.clock())
                batch.deletes.append(RecordID("context", row.id))
                await self.commit_control(batch)
                await self.clear(row)

    async def close_unused_embedders(self) -> None:
        """Let go of the embedders that no open context has vectors of, nor the process itself."""
        await self.embedders.keep({name for each in self.contexts.values() for name in each.vectors.embedders_used})

    async def close(self) -> None:
        """Close every context, then the engine; what was acknowledged is on disk before and after."""
        for context_id in list(self.contexts):
            await self.forget_context(context_id)
        await self.embedders.close()
        await self.engine.close()
        self.ledger.close()
        self.watermark.close()


def _remove_index(folder: Path) -> None:
    """Remove the index of a context, and its folder unless somebody put something else there."""
    shutil.rmtree(folder / FINDER_FOLDER, ignore_errors=True)
    (folder / SCRUB_OWED).unlink(missing_ok=True)
    (folder / store_audit.HEAD_NAME).unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()


async def _pepper(folder: Path, control: Db, *, any_pepper: bool) -> bytes:
    """The pepper of a folder, made when it is missing and nothing depends on one yet."""
    names = [str(found.id) for found in await store_keys.management_ids(control)]
    missing = not (folder / store_secrets.PEPPER_NAME).exists()
    if any_pepper or not names:
        return store_secrets.pepper(folder)
    if not missing:
        pepper = store_secrets.pepper(folder)
        mark = mark_of(pepper, None)
        if any(name.startswith(mark) for name in names):
            return pepper
    wrong = "missing" if missing else "not the one this record was made with"
    raise StoreRefused(
        f"The file {folder / store_secrets.PEPPER_NAME} is {wrong}: no key would work, and nothing could be forgotten "
        "by its words. Put the file back, or restore a backup: `keeps restore --data NEW FILE`, or make new keys: "
        "`keeps doctor --accept-loss --data DIR`."
    )


def _shut(folder: Path) -> None:
    """Let nobody else into a data folder that others may enter. Where something else lies in it, or it belongs to
    somebody else, that is not ours to decide: the log says so."""
    with suppress(OSError):  # a folder that cannot be used is refused by what uses it
        mode = stat.S_IMODE(folder.stat().st_mode)
        if not mode & _OTHERS:
            return
        if all(map(_is_ours, folder.iterdir())):
            folder.chmod(mode & ~_OTHERS)
            return
    if folder.is_dir():
        _log.warning("others may enter the data folder %s; if only you should, run chmod go= %s", folder, folder)


def _is_ours(entry: Path) -> bool:
    if entry.name in FOLDER_NAMES or entry.name == store_swap.STAGING or entry.name.startswith(LAID_ASIDE):
        return True
    return not entry.is_symlink() and (entry / FINDER_FOLDER).is_dir()


_OTHERS: Final = 0o077
FINDER_FOLDER: Final = "finder"
SCRUB_OWED: Final = "scrub-owed"
"""An empty file beside a finder whose dropped text may not have left its files yet."""
RECORD_FOLDER: Final = "record"
LEDGER_FOLDER: Final = "ledger"
WATERMARK_FOLDER: Final = "watermark"


@asynccontextmanager
async def open_runtime(
    config: Config,
    *,
    clock: Clock = system_clock,
    engine: Engine | None = None,
    embedder: Embedder | None = None,
    any_pepper: bool = False,
) -> AsyncGenerator[Runtime]:
    """A runtime over the data folder, or over nothing but memory when there is none. The caller holds the folder.

    `engine`, `embedder`: one that is open already, instead of the one the config names; it is closed with the runtime.
    `any_pepper`: open a record also when its keys were made with another pepper, to make them anew.

    Raises:
        StoreRefused: the folder cannot be used, was written by a newer version, its record lost rows, or its pepper
            is missing or another one.
        Invalid: no embedder has the name in the config, or it lacks an address or a key.
    """
    embedders = embedders_of(config, embedder)
    async with AsyncExitStack() as held:
        if config.data is not None:
            store_swap.finish(config.data)
            _shut(config.data)
        folder = config.data or Path(held.enter_context(tempfile.TemporaryDirectory(prefix="keeps-")))
        engine = engine or await open_engine(
            config.engine_url or ("mem://" if config.data is None else str(folder_url(folder / RECORD_FOLDER))),
            namespace=config.engine_namespace,
            user=config.engine_user,
            password=config.engine_password.get_secret_value() if config.engine_password else None,
        )
        held.push_async_callback(engine.close)
        control = await engine.database("control")
        await migrate(control, "control")
        watermark = Watermark.open(folder / WATERMARK_FOLDER)
        store_watermark.check(await store_commit.last_change(control), watermark.read(control.name))
        rt = Runtime(
            config=config,
            folder=folder,
            engine=engine,
            control=control,
            pepper=await _pepper(folder, control, any_pepper=any_pepper),
            ledger=Ledger.open(folder / LEDGER_FOLDER),
            watermark=watermark,
            embedders=embedders,
            clock=clock,
        )
        try:
            await rt.leave_out_deleted()
            yield rt
        finally:
            await rt.close()
