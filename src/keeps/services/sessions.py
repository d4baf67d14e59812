"""Sessions: begun by hand, listed, read turn by turn, and as context for the next reply."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from keeps.core import access, fence
from keeps.core.access import Caller, Verb
from keeps.core.errors import NotFound
from keeps.core.fence import Note
from keeps.core.pages import Page, PageRequest, number_key, page_of, time_key
from keeps.core.scopes import Lens, Pattern, Scope
from keeps.core.sessions import Session, Turn
from keeps.services import context as context_service
from keeps.services.recall import Recall, recall
from keeps.services.runtime import Context, Runtime, new_id
from keeps.store import rows as store_rows
from keeps.store import scopes as store_scopes
from keeps.store import sessions as store_sessions
from keeps.store.commit import Batch

RECENT_TURNS: Final = 10
"""How many of the last turns stand in the context of a session."""

_STEP: Final = 200
"""How many turns are read at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSession:
    """A session to begin; `scope` None means where the caller's memories land."""

    scope: Scope | None = None
    metadata: Mapping[str, Any] | None = None


async def create(rt: Runtime, context: Context, caller: Caller, request: NewSession) -> Session:
    """A fresh, empty session.

    Raises:
        Forbidden: the scope lies outside what the caller may write.
        Invalid: it names nodes nobody registered, where that is asked for.
    """
    if request.scope is not None:
        access.check_write(request.scope, caller.region(Verb.MEMORY_WRITE))
    scope = request.scope or caller.default_scope()
    now = rt.clock()
    session = Session(id=new_id(), scope=scope, created_at=now, metadata=request.metadata)
    batch = Batch(at=now, rows=[f"session:{session.id}"])
    batch.sessions.append(store_rows.session_to_row(session))
    _first_use(rt, context, batch, scope)
    await context.commit(batch)
    return session


def _first_use(rt: Runtime, context: Context, batch: Batch, scope: Scope) -> None:
    """Register the scope set and nodes when nothing used them before."""
    if scope.id not in context.sets:
        batch.scope_sets.append(store_scopes.scope_set_row(scope, batch.at))
    fresh = [node for node in scope.nodes() if node not in context.nodes]
    if not fresh:
        return
    if not rt.config.auto_register_scopes:
        store_scopes.refuse_unregistered(fresh, frozenset(context.nodes))
    batch.scopes += [row for row in store_scopes.node_rows(fresh, batch.at) if row["id"].id not in context.nodes]


async def get(context: Context, caller: Caller, session_id: str) -> Session:
    """A session the caller may see. Raises: NotFound."""
    found = await store_sessions.find_session(context.db, context.sets, session_id, _readable(context, caller))
    if found is None:
        raise NotFound(f"session {session_id} does not exist")
    return found


async def list_all(context: Context, caller: Caller, page: PageRequest) -> Page[Session]:
    """Sessions the caller may see, newest first."""
    sessions = await store_sessions.list_sessions(context.db, context.sets, _readable(context, caller))
    return page_of(sessions, lambda s: (time_key(s.created_at), s.id), page, newest_first=True)


async def turns(context: Context, caller: Caller, session_id: str, page: PageRequest) -> Page[Turn]:
    """The turns of a session the caller may see, oldest first. Raises: NotFound."""
    session = await get(context, caller, session_id)
    if page.count or page.offset:
        everything = await _turns_from(context, caller, session, 0, limit=session.next_seq)
        return page_of(everything, _place, page)
    start = 0 if page.after is None else int(page.after[0]) + 1
    found = await _turns_from(context, caller, session, start, limit=page.limit + 1)
    return page_of(found, _place, replace(page, after=None))


async def block(rt: Runtime, context: Context, caller: Caller, session_id: str, request: Recall) -> str:
    """What answers the question within the session's scope, then its latest turns, inside one fence.

    Raises: NotFound, and as `recall`.
    """
    session = await get(context, caller, session_id)
    lens = Lens(tuple(frozenset(map(Pattern, clause)) for clause in session.scope.clauses))
    found = context_service.notes(await recall(rt, context, caller, replace(request, session=session.id, lens=lens)))
    latest = max(0, session.next_seq - RECENT_TURNS)
    shown = {note.id.removeprefix("memory_chunk:").partition("_")[0] for note in found}
    recent = [
        Note(
            id=f"turn:{turn.id}",
            kind="passage",
            label=fence.PASSAGE_LABEL,
            text=f"{turn.speaker or turn.role}: {turn.content}",
            at=turn.known_at,
        )
        for turn in await _turns_from(context, caller, session, latest, limit=RECENT_TURNS)
        if turn.id not in shown
    ]
    return fence.fence([*found, *recent], nonce=secrets.token_hex(8))


async def _turns_from(context: Context, caller: Caller, session: Session, start: int, *, limit: int) -> Sequence[Turn]:
    """Turns from number `start` on, oldest first, as many as `limit`: those the caller may see."""
    readable = _readable(context, caller)
    found: list[Turn] = []
    for first in range(start, session.next_seq, _STEP):
        places = range(first, min(first + _STEP, session.next_seq))
        turns = await store_sessions.turns_at(context.db, context.sets, session.id, places)
        seen = (turn for turn in turns if turn.active and turn.scope.id in readable)
        found += sorted(seen, key=lambda turn: turn.seq)
        if len(found) >= limit:
            break
    return found[:limit]


def _place(turn: Turn) -> tuple[str, str]:
    return number_key(turn.seq), turn.id


def _readable(context: Context, caller: Caller) -> frozenset[str]:
    return context.sets.readable(caller.region(Verb.MEMORY_READ))
