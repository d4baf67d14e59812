"""Remember: what was said becomes a turn, what was stated becomes facts, in one durable commit."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from keeps.core import access
from keeps.core.access import Caller, PrincipalKind, Verb
from keeps.core.errors import Forbidden, Invalid, StaleHead
from keeps.core.facts import PROVENANCE_TRUST, TRUST, Category, Control, Origin, RowId, Source
from keeps.core.modes import Infer
from keeps.core.replies import ReplyKey
from keeps.core.scopes import Scope
from keeps.core.sessions import MAX_TURN_BYTES, RENDERED, Chunk, Role, Session, Turn, check_repeated, chunk_id, cut
from keeps.core.text import check_bytes, clean, conceals
from keeps.core.triples import Triple
from keeps.services.index import Changes, entries_of
from keeps.services.reconcile import Extraction, Incoming, Reconciliation
from keeps.services.runtime import MAX_REPLANS, Context, Runtime, Thread, new_id
from keeps.services.scopes import first_use
from keeps.store import replies as store_replies
from keeps.store import rows as store_rows
from keeps.store import sessions as store_sessions
from keeps.store.commit import Batch
from keeps.store.db import RecordID

_LONG_CHARS: Final = 16_384
"""Above this a text is folded beside the loop, so that other requests need not wait for it."""

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
    `observed_at`: when all of it was known, if it is not now; not in the future."""

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
    reply: ReplyKey | None = None


@dataclass(slots=True, kw_only=True)
class Remembered:
    """What came of a write. `turns` and the first passage of each, in the order of the messages."""

    infer: Infer
    session: RowId
    turns: list[RowId] = field(default_factory=list[RowId])
    chunks: list[RowId | None] = field(default_factory=list[RowId | None])
    extraction: Extraction | None = None


async def remember(rt: Runtime, context: Context, caller: Caller, request: Remember) -> Remembered:
    """Store a write in one durable commit.

    Raises:
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
    messages = [_cleaned(message) for message in request.messages]
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
            write = _Write(rt, context, caller, request, messages)
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


def _cleaned(message: Message) -> tuple[Message, bool]:
    """The message in the form it is kept in, and whether invisible characters were removed, or are left in a row."""
    check_bytes(message.text, limit_bytes=MAX_TURN_BYTES)
    cleaned = clean(message.text)
    if not cleaned.text:
        raise Invalid("text is empty: say what to remember")
    speaker = clean(message.speaker, limit_chars=128).text.replace("\n", " ") if message.speaker else None
    return (
        Message(
            text=cleaned.text,
            role=message.role,
            speaker=speaker or None,
            observed_at=message.observed_at,
            addressees=message.addressees,
        ),
        cleaned.hidden_chars or conceals(cleaned.text),
    )


class _Write:
    """One attempt: reads, plans, and commits."""

    def __init__(
        self,
        rt: Runtime,
        context: Context,
        caller: Caller,
        request: Remember,
        messages: Sequence[tuple[Message, bool]],
    ) -> None:
        self._rt = rt
        self._context = context
        self._caller = caller
        self._request = request
        self._messages = messages
        self._now = rt.clock()
        self._batch = Batch(at=self._now)
        self._changes = Changes()
        self._last: Turn | None = None

    async def run(self) -> Remembered:
        session, is_new = await self._session()
        scope = self._request.scope or session.scope
        done = Remembered(infer=self._request.infer, session=session.id)
        if self._request.triples and not self._messages:
            rendered = "\n".join(_rendered(triple) for triple in self._request.triples)
            await self._add_turns(session, scope, [(Message(text=rendered), False)], done, passages=False)
        else:
            await self._add_turns(session, scope, self._messages, done, passages=True)
        if self._request.infer is Infer.TRIPLES:
            done.extraction = await self._reconcile(session, scope, done.turns[0])
        elif self._request.infer is Infer.FULL:
            done.extraction = Extraction()
        first_use(self._rt, self._context, self._batch, session.scope, scope)
        if is_new:
            self._batch.sessions.append(store_rows.session_to_row(session))
            self._batch.rows.append(f"session:{session.id}")
        self._reply(done)
        await self._context.commit(self._batch, self._changes)
        next_seq = (session.next_seq if self._batch.places else 0) + len(done.turns)
        self._context.keep_thread(Thread(replace(session, next_seq=next_seq, last_turn_at=self._now), self._last))
        return done

    async def _session(self) -> tuple[Session, bool]:
        """The session to write into, made when none was named; its number of turns is moved on by this write."""
        count = max(1, len(self._messages))
        if self._request.session is None:
            scope = self._request.scope or self._caller.default_scope()
            return (
                Session(
                    id=new_id(),
                    scope=scope,
                    created_at=self._now,
                    next_seq=count,
                    last_turn_at=self._now,
                    opened_by=self._caller.principal_id,
                ),
                True,
            )
        region = self._caller.region(Verb.MEMORY_WRITE)
        found = await self._thread(self._request.session)
        if found is None or not found.session.scope.within(region):
            raise Forbidden("this key may not write to that session, or it does not exist")
        self._last = found.last
        session = found.session
        self._batch.places.append(
            {
                "id": RecordID("session", session.id),
                "expected": session.next_seq,
                "next": session.next_seq + count,
                "at": self._now,
            }
        )
        self._batch.rows.append(f"session:{session.id}")
        return session, False

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

    async def _add_turns(
        self,
        session: Session,
        scope: Scope,
        messages: Sequence[tuple[Message, bool]],
        done: Remembered,
        *,
        passages: bool,
    ) -> None:
        first = session.next_seq if self._batch.places else 0
        previous = self._last
        for seq, (message, hidden) in enumerate(messages, first):
            turn = self._turn(session, scope, seq, message, hidden=hidden, rendered=not passages)
            chunks = [
                Chunk(id=chunk_id(turn.id, position), position=position, start=start, end=end)
                for position, (start, end) in enumerate(cut(turn.content) if passages else [])
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

    def _turn(
        self, session: Session, scope: Scope, seq: int, message: Message, *, hidden: bool, rendered: bool
    ) -> Turn:
        origin = self._origin()
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
            origin=origin,
            trust=PROVENANCE_TRUST["turn"],
            flags=frozenset({"hidden_chars"} if hidden else ()) | frozenset({RENDERED} if rendered else ()),
            addressees=message.addressees,
            metadata=self._request.metadata,
        )

    async def _folds(self, turn: Turn) -> list[str]:
        texts = turn_texts(turn)
        if len(turn.content) > _LONG_CHARS:
            return await asyncio.to_thread(lambda: [self._context.fold_key(text) for text in texts])
        return [self._context.fold_key(text) for text in texts]

    async def _reconcile(self, session: Session, scope: Scope, turn: RowId) -> Extraction:
        origin = self._origin()
        known_at = self._request.observed_at or self._now
        incoming = Incoming(
            triples=self._request.triples,
            scope=scope,
            source=Source(kind="upsert", ref=f"turn:{turn}", session=session.id, trust=PROVENANCE_TRUST["upsert"]),
            control=Control(
                kind=self._request.kind or "",
                origin=origin,
                trust=TRUST[origin],
                user_confirmed=origin is Origin.USER_SAVED,
            ),
            now=self._now,
            known_at=known_at,
            observed=self._request.observed_at is not None,
            readable=self._context.sets.readable(self._caller.region(Verb.MEMORY_READ)),
            proposed_by=self._caller.principal_id,
            category=self._request.category,
            labels=self._request.labels,
            metadata=self._request.metadata,
        )
        return await Reconciliation(self._context, incoming, self._batch, self._changes).run()

    def _origin(self) -> Origin:
        """Who stands behind this write: the person alone, with their own key, or whoever writes for them."""
        if self._caller.kind is PrincipalKind.HUMAN and self._caller.target is None:
            return Origin.USER_SAVED
        return Origin.APP_WRITTEN if self._caller.principal.trusted_writer else Origin.AUTO_ACCEPTED

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
