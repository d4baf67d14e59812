"""What of past conversations a caller may find: everything, or its own sessions and what a person opened to it."""

from __future__ import annotations

from collections.abc import Iterable

from keeps.core.access import Caller
from keeps.core.policy import History, Preset
from keeps.core.scopes import Scope, ScopePath
from keeps.core.sessions import Past, Session, Turn
from keeps.core.sight import Sight
from keeps.services.consent import NOTHING_SAID, Consent
from keeps.services.gates import PASSAGE
from keeps.services.runtime import Context
from keeps.services.sight import hears, sight_of
from keeps.store import sessions as store_sessions
from keeps.store.sessions import SessionsOf

_EVERYTHING = History.ON


async def past_of(context: Context, caller: Caller, readable: frozenset[str], session_id: str | None) -> Past | None:
    """Which passages a question may find within the scope sets `readable`; None for all of them.

    An agent finds those of the session it is in, when it began that session itself, and those of other sessions where
    the person they belong to agreed. A person finds all of their own and what is shared.
    """
    consent = context.consent
    if consent.settings.history is _EVERYTHING and consent.settings.policy is not Preset.OPERATIONAL:
        return None
    everywhere = frozenset(each for each in readable if _is_open(consent, caller, context.sets[each]))
    if everywhere == readable:
        return None
    own = session_id is not None and await _is_own(context, caller, session_id, readable)
    return Past(sessions=frozenset({session_id}) if own and session_id else frozenset(), everywhere=everywhere)


def sessions_for(context: Context, caller: Caller, readable: frozenset[str]) -> SessionsOf | None:
    """Which sessions the caller may see; None for all that it can read."""
    sight = sight_of(context, caller)
    everywhere = frozenset(
        each
        for each in readable
        if _is_open(context.consent, caller, context.sets[each]) and sight.shows_kind(context.sets[each], PASSAGE)
    )
    return None if everywhere == readable else SessionsOf(everywhere, caller.principal_id)


def shows_session(context: Context, caller: Caller, session: Session) -> bool:
    """True when the caller may see what was said in a session that it can read."""
    if session.opened_by == caller.principal_id:
        return True
    return _is_open(context.consent, caller, session.scope) and sight_of(context, caller).shows_kind(
        session.scope, PASSAGE
    )


def reaches_session(context: Context, caller: Caller, session: Session) -> bool:
    """True when the caller began a session, or those of its scope are open to it: it may write there and end it."""
    return session.opened_by == caller.principal_id or _is_open(context.consent, caller, session.scope)


def heard_in(context: Context, sight: Sight) -> frozenset[str]:
    """The scope sets of which somebody may see what was said, as far as they may see the session."""
    return frozenset(each for each in sight.sets if sight.shows_kind(context.sets[each], PASSAGE))


async def heard(context: Context, caller: Caller, turns: Iterable[Turn], *, answered: bool = False) -> set[str]:
    """Of turns that the caller can read those it may see, by bare id.

    `answered`: they were given for a question, whose gates they passed."""
    seen: set[str] = set()
    own: dict[str, bool] = {}
    everywhere, sight = context.sets.everything(), sight_of(context, caller)
    for turn in turns:
        if turn.scope.id not in sight.whole and turn.session not in own:
            own[turn.session] = await _is_own(context, caller, turn.session, everywhere)
        mine = own.get(turn.session, False)
        if not mine and not _is_open(context.consent, caller, turn.scope):
            continue
        if is_shut(context, sight, turn.session, turn.scope):
            continue
        if hears(sight, turn, own=mine or answered):
            seen.add(turn.id)
    return seen


def is_shut(context: Context, sight: Sight, session_id: str, scope: Scope) -> bool:
    """True while a session is a temporary chat, of which only the person it belongs to sees anything."""
    return scope.id not in sight.whole and context.runs.is_temporary(None, session_id)


async def _is_own(context: Context, caller: Caller, session_id: str, readable: frozenset[str]) -> bool:
    known = context.threads.get(session_id)
    session = (
        known.session
        if known is not None
        else await store_sessions.find_session(context.db, context.sets, session_id, readable)
    )
    return session is not None and session.opened_by == caller.principal_id


def _is_open(consent: Consent, caller: Caller, scope: Scope) -> bool:
    """True when every session of a scope is open to the caller."""
    homes = consent.homes_of(scope)
    settings = consent.settings
    if settings.history is _EVERYTHING and (settings.policy is not Preset.OPERATIONAL or not homes):
        return True
    if caller.is_person and _is_of(consent, caller, scope):
        return True
    if not homes or settings.history is History.OFF:
        return False
    return all(consent.controls.get(home, NOTHING_SAID).history for home in homes)


def _is_of(consent: Consent, caller: Caller, scope: Scope) -> bool:
    """True when one owner of a scope is the caller, or nobody in particular."""
    clauses = scope.clauses or {frozenset[ScopePath]()}
    return any(
        all(consent.homes[home] == caller.principal_id for home in consent.homes_of(Scope(frozenset({clause}))))
        for clause in clauses
    )
