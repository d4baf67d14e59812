"""Remember: what was said becomes a turn, what was stated becomes facts, in one durable commit."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from keeps.core import access
from keeps.core.access import Caller, Verb
from keeps.core.audit import Entry
from keeps.core.errors import Forbidden, Invalid, StaleHead
from keeps.core.facts import PROVENANCE_TRUST, Category, Control, Origin, RowId, Source
from keeps.core.modes import Infer
from keeps.core.policy import Drop
from keeps.core.replies import ReplyKey
from keeps.core.scopes import Scope
from keeps.core.screen import Screened
from keeps.core.sessions import MAX_TURN_BYTES, RENDERED, Chunk, Role, Session, Turn, check_repeated, chunk_id, cut
from keeps.core.text import check_bytes, clean, conceals
from keeps.core.triples import Triple
from keeps.services import candidates, proposing, runs
from keeps.services.echoes import without_echoes
from keeps.services.history import reaches_session
from keeps.services.incoming import Extraction, Incoming, Left
from keeps.services.index import Changes, entries_of
from keeps.services.reconcile import Reconciliation
from keeps.services.runtime import MAX_REPLANS, Context, Runtime, Thread, new_id
from keeps.services.scopes import first_use
from keeps.store import replies as store_replies
from keeps.store import rows as store_rows
from keeps.store import sessions as store_sessions
from keeps.store.commit import Batch
from keeps.store.db import RecordID

_LONG_CHARS: Final = 16_384
"""Above this a text is folded beside the loop, so that other requests need not wait for it."""

_AT_ONCE: Final = 50
"""How many messages are looked through before other requests get their turn."""

CLOCKS_DIFFER: Final = timedelta(hours=24)
"""How far the clock of who writes may be ahead of ours: what is known later than that is refused."""
_MAX_ID_CHARS: Final = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One thing said. `observed_at`: when, if it is not now; not in the future."""

    text: str
    role: Role = Role.USER
    speaker: str | None = None
    observed_at: datetime | None = None
    addressees: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Remember:
    """A write. `scope` None means the session's, else the caller's home. `triples` only with `Infer.TRIPLES`.
    `observed_at`: when all of it was known, if it is not now; not in the future. `run`: the caller's run it belongs to.
    `asked`: the person asked in a conversation that it be kept, which proves nothing. `source_kind`: by which way
    triples came. `audited`: what the audit says of the write, when it is a person's own."""

    infer: Infer = Infer.NONE
    messages: Sequence[Message] = ()
    triples: Sequence[Triple] = ()
    session: str | None = None
    scope: Scope | None = None
    labels: tuple[str, ...] = ()
    observed_at: datetime | None = None
    category: Category | None = None
    kind: str | None = None
    metadata: Mapping[str, Any] | None = None
    run: str | None = None
    asked: bool = False
    source_kind: str = "upsert"
    audited: str | None = None
    reply: ReplyKey | None = None


@dataclass(slots=True, kw_only=True)
class Remembered:
    """What came of a write. `turns` and the first passage of each, in the order of the messages; both empty when
    nothing of a conversation may be kept, and `stopped` says why. `removed`: classes of secrets that were taken out."""

    infer: Infer
    session: RowId
    turns: list[RowId] = field(default_factory=list[RowId])
    chunks: list[RowId | None] = field(default_factory=list[RowId | None])
    extraction: Extraction | None = None
    stopped: Drop | None = None
    removed: tuple[str, ...] = ()


async def remember(rt: Runtime, context: Context, caller: Caller, request: Remember) -> Remembered:
    """Store a write in one durable commit: what the policy keeps, as it is; what a person must see, as proposals.

    Secrets in what was said are replaced before anything else sees them.

    Raises:
        SecretRefused: a triple, a label or the metadata holds a secret. Nothing was stored.
        NotFound: a run that is not the caller's.
        Forbidden: the scope, or the session, lies outside what the caller may write.
        Invalid: empty or unstorable text, or known more than 24 hours from now.
        TooLarge: a turn above 512 KiB; metadata above 16 KiB of JSON, or with the labels above 1 MiB on all rows.
        Unavailable: nothing was stored; try again.
    """
    region = caller.region(Verb.MEMORY_WRITE)
    if request.scope is not None:
        access.check_write(request.scope, region)
    if not region:
        caller.default_scope()
    _check_known(request, rt.clock())
    check_repeated(request.metadata, request.labels, rows=max(1, len(request.messages)) + len(request.triples))
    if request.run is not None:
        await runs.of_caller(context, caller, request.run)
    messages, removed = await _cleaned(request.messages)
    screened = await candidates.refuse_secrets(request.triples, request.labels, request.metadata)
    if request.infer is Infer.PREVIEW:
        return Remembered(infer=request.infer, session=RowId(request.session or new_id()), extraction=Extraction())
    names = {str(named.ref) for t in request.triples for named in (t.entity, t.target) if named is not None}
    if request.session is not None:
        if len(request.session) > _MAX_ID_CHARS or not request.session.isprintable():  # no session is called so
            raise Forbidden("this key may not write to that session, or it does not exist")
        names.add(f"session:{request.session}")
    if len(request.messages) > 1:
        # Many at once come as fast as they are embedded, else they would be found by words alone for minutes.
        await context.vectors.room(_goes_to(context, caller, request).id)
    async with context.alone_on(names):
        for attempt in range(1, MAX_REPLANS + 1):
            write = _Write(rt, context, caller, request, _Heard(messages, removed, screened))
            try:
                return await write.run()
            except StaleHead:
                context.threads.pop(request.session or "", None)
                if attempt == MAX_REPLANS:
                    raise
    raise AssertionError("unreachable")


def _goes_to(context: Context, caller: Caller, request: Remember) -> Scope:
    """The scope of a write, as far as it is known without asking the record."""
    thread = context.threads.get(request.session or "")
    return request.scope or (thread.session.scope if thread is not None else None) or caller.default_scope()


def turn_texts(turn: Turn) -> list[str]:
    """The texts a turn may be named by in a forget."""
    return [turn.content, f"{turn.speaker}: {turn.content}"] if turn.speaker else [turn.content]


def _check_known(request: Remember, now: datetime) -> None:
    """Nothing is known in the future: such a value would answer at once, and before all that is written until then."""
    for moment in (request.observed_at, *(message.observed_at for message in request.messages)):
        if moment is not None and moment > now + CLOCKS_DIFFER:
            raise Invalid(
                "observed_at (ts of a message) lies in the future: at most 24 hours from now are accepted, for clocks "
                "that differ. It says when something was said or seen; for when it will be true use valid_from"
            )


@dataclass(frozen=True, slots=True)
class _Heard:
    """A write once its texts were looked through: each message as it is kept, and whether invisible characters were
    removed from it or are left in a row; the classes of secrets taken out; what was found in each triple."""

    messages: Sequence[tuple[Message, bool]]
    removed: tuple[str, ...]
    screened: Sequence[Screened]


async def _cleaned(messages: Sequence[Message]) -> tuple[list[tuple[Message, bool]], tuple[str, ...]]:
    """The messages in the form they are kept in, without secrets, and the classes of those that were in them."""
    kept: list[tuple[Message, bool]] = []
    removed: set[str] = set()
    for number, message in enumerate(messages, 1):
        if number % _AT_ONCE == 0:
            await asyncio.sleep(0)
        check_bytes(message.text, limit_bytes=MAX_TURN_BYTES)
        cleaned = clean(message.text)
        if not cleaned.text:
            raise Invalid("text is empty: say what to remember")
        text, secrets = await candidates.without_secrets(cleaned.text)
        removed.update(secrets)
        names: list[str] = []
        for name in (message.speaker or "", *message.addressees):
            shown, secrets = await candidates.without_secrets(clean(name, limit_chars=128).text.replace("\n", " "))
            removed.update(secrets)
            names.append(shown)
        made = replace(message, text=text, speaker=names[0] or None, addressees=tuple(names[1:]))
        kept.append((made, cleaned.hidden_chars or conceals(cleaned.text)))
    return kept, tuple(sorted(removed))


class _Write:
    """One attempt: reads, plans, and commits."""

    def __init__(
        self,
        rt: Runtime,
        context: Context,
        caller: Caller,
        request: Remember,
        heard: _Heard,
    ) -> None:
        self._rt = rt
        self._context = context
        self._caller = caller
        self._request = request
        self._heard = heard
        self._messages = heard.messages
        self._now = rt.clock()
        self._batch = Batch(at=self._now)
        self._changes = Changes()
        self._last: Turn | None = None
        self._incoming: Incoming

    async def run(self) -> Remembered:
        session, is_new = await self._session()
        scope = self._request.scope or session.scope
        done = Remembered(infer=self._request.infer, session=session.id, removed=self._heard.removed)
        if (why := self._keeps_nothing()) is not None:
            return self._nothing(done, why)
        origin = candidates.behind(self._context, self._caller, scope)
        done.stopped = candidates.history_stopped(self._context, scope, origin, self._caller.principal_id, self._now)
        # Known before the turn is made, for what stands on it; without a turn nothing does.
        turn = None if done.stopped else new_id()
        async with AsyncExitStack() as held:
            if self._request.infer is Infer.TRIPLES:
                done.extraction = await self._reconcile(
                    session, scope, candidates.taken_from(origin, (message.role for message, _ in self._messages)), turn
                )
                if done.extraction.waiting:
                    await held.enter_async_context(self._context.alone_on({proposing.INBOX}))
                    await proposing.enter(self._context, self._batch, self._incoming, done.extraction)
            elif self._request.infer is Infer.FULL:
                done.extraction = Extraction()
            if turn is not None:
                await self._add_turns(session, scope, origin, turn, done)
            await self._finish(session, scope, done, is_new=is_new)
        return done

    def _keeps_nothing(self) -> Drop | None:
        """Why nothing of this write is kept, whoever sends it: its chat is temporary, or its run saves nothing."""
        if runs.is_temporary(self._context, self._request.run, self._request.session):
            return Drop.TEMPORARY
        return None if runs.saves(self._context, self._request.run) else Drop.PAUSED

    def _nothing(self, done: Remembered, why: Drop) -> Remembered:
        done.stopped = why
        if self._request.infer in (Infer.TRIPLES, Infer.FULL):
            dropped = [Left(number, self._request.kind or "", why) for number in range(len(self._request.triples))]
            done.extraction = Extraction(dropped=dropped)
        return done

    async def _finish(self, session: Session, scope: Scope, done: Remembered, *, is_new: bool) -> None:
        """Write it all in one commit."""
        first_use(self._rt, self._context, self._batch, session.scope, scope)
        count = len(done.turns)
        if is_new:
            session = replace(session, last_turn_at=self._now if count else None)
            self._batch.sessions.append(store_rows.session_to_row(replace(session, next_seq=count)))
            self._batch.rows.append(f"session:{session.id}")
        elif count:
            self._claim(session, count)
        self._reply(done)
        self._audit(done)
        await self._context.commit(self._batch, self._changes)
        if count or is_new:
            ended = replace(session, next_seq=session.next_seq + count, last_turn_at=self._now)
            self._context.keep_thread(Thread(ended, self._last))

    def _claim(self, session: Session, count: int) -> None:
        """Move the number of turns of a session on, if nobody else did."""
        place = {"expected": session.next_seq, "next": session.next_seq + count, "at": self._now}
        self._batch.places.append({"id": RecordID("session", session.id), **place})
        self._batch.rows.append(f"session:{session.id}")

    async def _session(self) -> tuple[Session, bool]:
        """The session to write into, and whether it is made for this write."""
        if self._request.session is None:
            scope = self._request.scope or self._caller.default_scope()
            made = Session(id=new_id(), scope=scope, created_at=self._now, opened_by=self._caller.principal_id)
            return made, True
        region = self._caller.region(Verb.MEMORY_WRITE)
        found = await self._thread(self._request.session)
        within = found is not None and found.session.scope.within(region)
        if found is None or not within or not reaches_session(self._context, self._caller, found.session):
            raise Forbidden("this key may not write to that session, or it does not exist")
        self._last = found.last
        return found.session, False

    async def _thread(self, session_id: str) -> Thread | None:
        """The session and its last turn: as this process left it, else read."""
        context = self._context
        known = context.threads.get(session_id)
        if known is not None:
            return known
        session = await store_sessions.find_session(context.db, context.sets, session_id, context.sets.everything())
        if session is None:
            return None
        last = await store_sessions.turns_at(context.db, context.sets, session.id, [session.next_seq - 1])
        return Thread(session, last[0] if last else None)

    async def _add_turns(self, session: Session, scope: Scope, origin: Origin, first: RowId, done: Remembered) -> None:
        """Add what was said as turns, the first one under the id `first`; of triples alone, what was kept of them."""
        messages, flags = self._messages, frozenset[str]()
        if self._request.triples and not messages:
            assert done.extraction is not None
            kept = [_rendered(self._request.triples[number]) for number in sorted(done.extraction.kept)]
            if not kept:
                return
            messages, flags = [(Message(text="\n".join(kept)), False)], frozenset({RENDERED})
        previous = self._last
        for seq, (message, hidden) in enumerate(messages, session.next_seq):
            turn = self._turn(session, scope, seq, message, flags | frozenset({"hidden_chars"} if hidden else ()))
            turn = replace(turn, origin=candidates.kept_as(origin), id=turn.id if done.turns else first)
            chunks = [
                Chunk(id=chunk_id(turn.id, position), position=position, start=start, end=end)
                for position, (start, end) in enumerate([] if RENDERED in flags else cut(turn.content))
            ]
            self._batch.turns.append(store_rows.turn_to_row(turn, folds=await self._folds(turn)))
            self._batch.chunks += [store_rows.chunk_to_row(turn.id, chunk) for chunk in chunks]
            self._batch.rows.append(f"turn:{turn.id}")
            if previous is not None and previous.scope == turn.scope:
                self._batch.follows.append(
                    {
                        "in": RecordID("turn", previous.id),
                        "out": RecordID("turn", turn.id),
                        "strength": 1.0,
                        "scope_set": scope.id,
                    }
                )
            self._changes.put += entries_of(turn, chunks, previous)
            done.turns.append(turn.id)
            done.chunks.append(chunks[0].id if chunks else None)
            previous = turn
        self._last = previous

    def _turn(self, session: Session, scope: Scope, seq: int, message: Message, flags: frozenset[str]) -> Turn:
        return Turn(
            id=new_id(),
            session=session.id,
            seq=seq,
            role=message.role,
            content=message.text,
            scope=scope,
            known_at=message.observed_at or self._request.observed_at or self._now,
            recorded_at=self._now,
            speaker=message.speaker,
            labels=self._request.labels,
            trust=PROVENANCE_TRUST["turn"],
            taint=candidates.taint_of((message.role,)),
            flags=flags,
            addressees=message.addressees,
            metadata=self._request.metadata,
        )

    async def _folds(self, turn: Turn) -> list[str]:
        texts = turn_texts(turn)
        if len(turn.content) > _LONG_CHARS:
            return await asyncio.to_thread(lambda: [self._context.fold_key(text) for text in texts])
        return [self._context.fold_key(text) for text in texts]

    async def _reconcile(self, session: Session, scope: Scope, origin: Origin, turn: RowId | None) -> Extraction:
        """Judge the triples, and let those that are not dropped meet the record."""
        request, caller = self._request, self._caller
        said = [message for message, _ in self._messages]
        given = candidates.Given(
            scope=scope,
            origin=origin,
            agent=caller.principal_id,
            heard="\n".join(message.text for message in said if message.role is Role.USER),
            taint=candidates.taint_of(message.role for message in said),
            kind=request.kind,
            category=request.category,
            confirmed_by=caller.principal_id if origin is Origin.USER_SAVED else None,
        )
        judged = candidates.judge(self._context, given, request.triples, self._heard.screened, self._now)
        offered = runs.offered(self._context, request.run) if request.run else frozenset[str]()
        readable = self._context.sets.readable(caller.region(Verb.MEMORY_READ))
        if origin is not Origin.USER_SAVED:
            judged = await without_echoes(self._context, judged, request.triples, offered=offered, readable=readable)
        judged = await candidates.with_room(self._context, given, judged, len(request.triples))
        source = Source(
            kind=request.source_kind,
            ref=f"turn:{turn}" if turn else None,
            session=session.id,
            run=request.run,
            trust=PROVENANCE_TRUST["upsert"],
        )
        self._incoming = Incoming(
            triples=request.triples,
            scope=scope,
            source=source,
            control=Control(kind=request.kind or "", origin=candidates.kept_as(origin)),
            now=self._now,
            known_at=request.observed_at or self._now,
            observed=request.observed_at is not None,
            readable=readable,
            proposed_by=caller.principal_id,
            category=request.category,
            labels=request.labels,
            metadata=request.metadata,
            controls=judged.controls,
            waits=judged.waits,
            drops=judged.drops,
            unasked=origin is not Origin.USER_SAVED,
            offered=offered,
            # What waits is in no turn that was made of what was kept.
            waiting_source=source if said else replace(source, ref=None),
            asked=request.asked,
        )
        return await Reconciliation(self._context, self._incoming, self._batch, self._changes).run()

    def _audit(self, done: Remembered) -> None:
        """Say in the audit which facts a person saved."""
        if self._request.audited is None or done.extraction is None:
            return
        for fact in done.extraction.facts:
            entry = Entry(actor=self._caller.principal_id, action=self._request.audited, target=f"attribute:{fact.id}")
            self._batch.entries.append(entry)

    def _reply(self, done: Remembered) -> None:
        """Keep the reply in the same commit, with the rows it tells of."""
        reply = self._request.reply
        if reply is None:
            return
        row = store_replies.to_row(reply, reply.render(done), self._batch.rows, self._now)
        self._batch.puts.append({"id": store_replies.record_id(reply.namespace), "row": row})


def _rendered(triple: Triple) -> str:
    """A triple in words, for the turn that records that it was given."""
    said = triple.value or (triple.target.name if triple.target else None) or triple.object_text
    parts = [triple.entity.name, triple.key or triple.verb, said]
    return " ".join(part for part in parts if part)
