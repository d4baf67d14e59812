"""Sessions: begun by hand, listed, read turn by turn, and as context for the next reply.

Turns of a session may belong to narrower scopes than the session. So how many there are and when the last one was
said is told from the turns that the reader may see.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from keeps.core import access
from keeps.core.access import Caller, Verb
from keeps.core.errors import Invalid, NotFound
from keeps.core.pages import Page, PageRequest, Place, number_key, time_key
from keeps.core.scopes import ROOT, Lens, Pattern, Scope
from keeps.core.sessions import RENDERED, Session, Turn, check_repeated
from keeps.core.sight import Sight
from keeps.services import candidates
from keeps.services import context as context_service
from keeps.services.context import Asked
from keeps.services.facts import before_of, readable_by
from keeps.services.history import heard_in, is_shut, sessions_for, shows_session
from keeps.services.recall import Recall
from keeps.services.runtime import Context, Runtime, new_id
from keeps.services.scopes import first_use
from keeps.services.sight import hears, sight_of
from keeps.store import rows as store_rows
from keeps.store import sessions as store_sessions
from keeps.store.commit import Batch
from keeps.store.sessions import Spoken

RECENT_TURNS: Final = 10
"""How many of the last turns stand in the context of a session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionView:
    """A session as a reader sees it: how many of its turns they may read, and when the last of them was said.

    `next_seq`: the number of the turn that is written next, for those who may write it and read all that was
    written; it counts erased turns.
    """

    session: Session
    turn_count: int = 0
    last_turn_at: datetime | None = None
    next_seq: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSession:
    """A session to begin; `scope` None means where the caller's memories land."""

    scope: Scope | None = None
    metadata: Mapping[str, Any] | None = None


async def create(rt: Runtime, context: Context, caller: Caller, request: NewSession) -> SessionView:
    """A fresh, empty session.

    Raises:
        Forbidden: the scope lies outside what the caller may write.
        Invalid: it names nodes nobody registered, where that is asked for.
        SecretRefused: the metadata holds a secret.
        TooLarge: metadata above 16 KiB of JSON.
    """
    if request.scope is not None:
        access.check_write(request.scope, caller.region(Verb.MEMORY_WRITE))
    check_repeated(request.metadata)
    await candidates.refuse_secrets((), (), request.metadata)
    scope = request.scope or caller.default_scope()
    now = rt.clock()
    origin = candidates.behind(context, caller, scope)
    # What is written beside a conversation is kept where the conversation is.
    stopped = candidates.history_stopped(context, scope, origin, caller.principal_id, now)
    metadata = None if stopped else request.metadata
    session = Session(id=new_id(), scope=scope, created_at=now, metadata=metadata, opened_by=caller.principal_id)
    batch = Batch(at=now, rows=[f"session:{session.id}"])
    batch.sessions.append(store_rows.session_to_row(session))
    first_use(rt, context, batch, scope)
    await context.commit(batch)
    return _view(session, {}, {}, caller)


async def get(context: Context, caller: Caller, session_id: str) -> SessionView:
    """A session the caller may see. Raises: NotFound."""
    readable = readable_by(context, caller)
    session = await _find(context, caller, session_id, readable)
    spoken, whole = await _spoken(context, caller, [session], readable)
    return _view(session, spoken, whole, caller)


async def list_all(context: Context, caller: Caller, page: PageRequest) -> Page[SessionView]:
    """Sessions the caller may see, newest first."""
    readable = readable_by(context, caller)
    only = sessions_for(context, caller, readable)
    found = await store_sessions.page_of_sessions(
        context.db,
        context.sets,
        readable,
        only=only,
        before=before_of(page.after),
        offset=page.offset,
        limit=page.limit + 1,
    )
    shown = found[: page.limit]
    spoken, whole = await _spoken(context, caller, shown, readable)
    more = len(found) > len(shown)
    return Page(
        rows=tuple(_view(session, spoken, whole, caller) for session in shown),
        next=(time_key(shown[-1].created_at), shown[-1].id) if more else None,
        total=await store_sessions.count_sessions(context.db, readable, only) if page.count else None,
    )


async def turns(context: Context, caller: Caller, session_id: str, page: PageRequest) -> Page[Turn]:
    """The turns of a session the caller may see, oldest first. Raises: NotFound; Invalid for another list's place."""
    readable = readable_by(context, caller)
    session = await _find(context, caller, session_id, readable)
    sight = sight_of(context, caller)
    own = session.opened_by == caller.principal_id
    found = await _heard_after(context, sight, session, own=own, page=page)
    shown = tuple(found[: page.limit])
    total = None
    if page.count:
        spoken, _ = await _spoken(context, caller, [session], readable)
        total = spoken.get(session.id, Spoken()).count
    following = (number_key(shown[-1].seq), shown[-1].id) if len(found) > len(shown) else None
    return Page(rows=tuple(turn_as_seen(turn, caller) for turn in shown), next=following, total=total)


async def _heard_after(context: Context, sight: Sight, session: Session, *, own: bool, page: PageRequest) -> list[Turn]:
    """The turns of a page that may be seen, and one more when there is one. `own`: the reader began the session."""
    if is_shut(context, sight, session.id, session.scope):
        return []
    whole = own or not sight.rest
    found: list[Turn] = []
    after, offset = _number(page.after), page.offset if whole else 0
    most = page.limit + 1 if whole else page.offset + page.limit + 1
    while True:
        part = await store_sessions.turns_of(
            context.db, context.sets, session.id, heard_in(context, sight), after=after, offset=offset, limit=most
        )
        found += [turn for turn in part if hears(sight, turn, own=own)]
        if whole or len(part) < most or len(found) >= most:
            return found if whole else found[page.offset : most]
        after = part[-1].seq


def turn_as_seen(turn: Turn, caller: Caller) -> Turn:
    """The turn without owners its reader does not hold."""
    return replace(turn, scope=turn.scope.seen_by(caller.region(Verb.MEMORY_READ)))


async def block(rt: Runtime, context: Context, caller: Caller, session_id: str, request: Recall) -> str:
    """What answers the question within the session's scope, then its latest turns, inside one fence.

    Raises: NotFound, and as `recall`.
    """
    readable = readable_by(context, caller)
    session = await _find(context, caller, session_id, readable)
    # Only what the caller sees of the scope: a clause of others would be no filter they may set.
    clauses = session.scope.visible_clauses(caller.region(Verb.MEMORY_READ))
    lens = Lens(tuple(frozenset(map(Pattern, clause)) for clause in sorted(clauses, key=sorted)))
    latest = await store_sessions.last_turns(context.db, context.sets, session.id, readable, RECENT_TURNS)
    recent = tuple(turn for turn in latest if not turn.taint and RENDERED not in turn.flags)
    asked = replace(request, session=session.id, lens=lens, source="context")
    found = await context_service.block(rt, context, caller, Asked(recall=asked, said=recent))
    return found.text


async def _find(context: Context, caller: Caller, session_id: str, readable: frozenset[str]) -> Session:
    found = await store_sessions.find_session(context.db, context.sets, session_id, readable)
    if found is None or not shows_session(context, caller, found):
        raise NotFound(f"session {session_id} does not exist")
    return found


async def _spoken(
    context: Context, caller: Caller, sessions: Sequence[Session], readable: frozenset[str]
) -> tuple[Mapping[str, Spoken], Mapping[str, Spoken]]:
    """What a reader sees of each session's turns, and what there is."""
    sight = sight_of(context, caller)
    heard = heard_in(context, sight)
    ids = [session.id for session in sessions]
    spoken = await store_sessions.spoken(context.db, ids, heard)
    shut = {session.id for session in sessions if is_shut(context, sight, session.id, session.scope)}
    seen = {session: counted for session, counted in spoken.items() if session not in shut}
    everything = context.sets.everything()
    return seen, spoken if everything <= heard else await store_sessions.spoken(context.db, ids, everything)


def _view(session: Session, spoken: Mapping[str, Spoken], whole: Mapping[str, Spoken], caller: Caller) -> SessionView:
    seen = spoken.get(session.id, Spoken())
    writes = caller.region(Verb.MEMORY_WRITE)
    own = all(writes.covers(node) for node in session.scope.nodes() or {ROOT})
    return SessionView(
        session=replace(session, scope=session.scope.seen_by(caller.region(Verb.MEMORY_READ))),
        turn_count=seen.count,
        last_turn_at=seen.last_at,
        next_seq=session.next_seq if own and seen.count == whole.get(session.id, Spoken()).count else None,
    )


def _number(place: Place | None) -> int:
    """The number of the turn to go on after."""
    if place is None:
        return -1
    if not place[0].isdecimal():
        raise Invalid("this cursor belongs to another list: begin again without it")
    return int(place[0])
