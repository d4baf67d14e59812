"""Runs of agents: opened, filled by what they ask, closed, and looked at by those whose they are.

A run belongs to its agent and to what that agent could read; to anybody else it does not exist. People see the
runs that were given their memory, admins see ids and numbers of all.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

from keeps.core import contexts as core_contexts
from keeps.core.access import Caller, Role, Verb
from keeps.core.errors import Conflict, Invalid, NotFound
from keeps.core.pages import FIRST_PAGE, Page, PageRequest, time_key
from keeps.core.runs import Candidate, EndReason, Outcome, Run, ToolCall, Uses
from keeps.core.scopes import EVERYTHING
from keeps.services import importance, roles
from keeps.services.facts import before_of
from keeps.services.run_buffer import Kept
from keeps.services.runtime import Context, Runtime, new_id
from keeps.services.traces import keeps_text, may_see, retention
from keeps.store import runs as store_runs
from keeps.store import sessions as store_sessions
from keeps.store import uses as store_uses

LEFT_OPEN: Final = timedelta(hours=1)
"""A run of which nothing was heard for so long is closed."""

BAD_KEPT: Final = timedelta(days=7)
"""How long what stood for an id in an answer is kept."""

MOST_TOOL_CALLS: Final = 200
_OWN_ID: Final = re.compile(r"[a-z0-9]{20}")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """A run to open. `temporary`: it reads no memory and keeps none, for good. `saving` False: it only keeps none."""

    session: str | None = None
    temporary: bool = False
    saving: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RunChange:
    """What becomes of a run; what is None stays as it is. `tool_calls` and `cost` replace those from before."""

    end_reason: EndReason | None = None
    tool_calls: tuple[ToolCall, ...] | None = None
    cost: Mapping[str, float] | None = None
    tokens: int | None = None
    took_ms: int | None = None
    temporary: bool | None = None
    saving: bool | None = None


async def open_run(rt: Runtime, context: Context, caller: Caller, request: NewRun) -> Run:
    """A new run of the caller; others can use its id at once, and it is saved soon.

    Raises:
        NotFound: the caller can neither see nor write to the session.
        Conflict: a temporary chat in a session in which something was said already.
    """
    if request.session is not None:
        await _check_session(context, caller, request.session, temporary=request.temporary)
    return context.runs.open(_new(rt, context, caller, request)).run


async def find(context: Context, run_id: str) -> Run | None:
    """The run, whosesoever it is, from memory or from the record; `None` when there is none of that id."""
    kept = await _kept(context, run_id)
    return kept.run if kept else None


async def of_caller(context: Context, caller: Caller, run_id: str) -> Run:
    """The run, when it is the caller's own: ask this of every run id that a request carries, before anything else.

    Afterwards `offered`, `is_temporary` and `saves` can tell of it. Raises: NotFound.
    """
    return (await own(context, caller, run_id)).run


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What a prompt was offered. `tokens`, `latency_ms`: of this block; `session`: the one it is for."""

    candidates: Sequence[Candidate] = ()
    session: str | None = None
    tokens: int = 0
    latency_ms: int = 0
    degraded: Sequence[str] = ()


async def offer(rt: Runtime, context: Context, caller: Caller, run_id: str | None, given: Offer) -> str:
    """Note what a prompt of a run was offered, once a run and memory; its id, of a new run when none is given.

    Nothing is written on the way. Tokens and time are added to those of the run: a prompt that is made again costs
    again. A temporary chat notes none of it.

    Raises:
        NotFound: the caller has no such run.
    """
    if run_id is None:
        temporary = is_temporary(context, None, given.session)
        plain = given.session if given.session is not None and _OWN_ID.fullmatch(given.session) else None
        kept = context.runs.open(_new(rt, context, caller, NewRun(session=plain, temporary=temporary)))
    else:
        kept = await own(context, caller, run_id)
    run, now = kept.run, rt.clock()
    if run.temporary:
        return run.id
    kept.add(given.candidates, now)
    context.runs.change(
        kept,
        now,
        tokens_memory=run.tokens_memory + given.tokens,
        latency_ms=run.latency_ms + given.latency_ms,
        degraded=tuple(dict.fromkeys((*run.degraded, *given.degraded))),
        text_traced=run.text_traced or keeps_text(context),
    )
    return run.id


def offered(context: Context, run_id: str) -> frozenset[str]:
    """The memories, as `table:id`, that a run was given; empty for one that is not in memory: `of_caller` reads it."""
    kept = context.runs.get(run_id)
    return kept.offered if kept else frozenset()


async def count_proposed(context: Context, run_id: str) -> int:
    """How many proposals a run left so far, whatever became of them; 0 for one that does not exist."""
    return await store_runs.count_proposed(context.db, run_id)


def is_temporary(context: Context, run_id: str | None, session: str | None) -> bool:
    """True when a run, or the session it is in, belongs to a temporary chat: nothing is read there, nothing kept."""
    return context.runs.is_temporary(run_id, session)


def saves(context: Context, run_id: str | None) -> bool:
    """False for a run that keeps nothing. One that is not in memory keeps things: `of_caller` reads it."""
    kept = context.runs.get(run_id) if run_id else None
    return not (kept and (kept.run.temporary or not kept.run.saving)) and not is_temporary(context, run_id, None)


async def uses_of(context: Context, refs: Collection[str]) -> dict[str, Uses]:
    """How often each memory, `table:id`, was used; those that never were are left out. Looking counts nothing."""
    await context.runs.traces.settle()
    return await store_uses.uses_of(context.db, refs)


# ---------------------------------------------------------------------- closing
async def change(rt: Runtime, context: Context, caller: Caller, run_id: str, request: RunChange) -> Run:
    """The run of the caller with what becomes of it; a temporary one notes that it ended, and nothing else.

    Raises:
        NotFound: the caller has no such run.
        Conflict: it ended otherwise already, or would become another kind of run than it was opened as.
        Invalid: too many tool calls, or an end that only a temporary chat has.
    """
    kept = await own(context, caller, run_id)
    run, now = kept.run, rt.clock()
    _check_change(run, request)
    changes: dict[str, Any] = {}
    if request.end_reason is not None:
        changes["end_reason"] = EndReason.TEMPORARY if run.temporary else request.end_reason
        changes["ended_at"] = run.ended_at or now
    if request.saving is not None:
        changes["saving"] = request.saving
    if not run.temporary:
        told = {name: getattr(request, name) for name in ("tool_calls", "cost", "tokens", "took_ms")}
        changes |= {name: value for name, value in told.items() if value is not None}
    if "tool_calls" in changes:
        changes["tool_calls"] = tuple(_about(call, kept.candidates) for call in changes["tool_calls"])
    if changes:
        context.runs.change(kept, now, **changes)
    if request.end_reason is not None:
        await importance.refresh(rt, context, kept)
    return kept.run


def _about(call: ToolCall, memories: Collection[str]) -> ToolCall:
    """The call with what it contradicts of these memories alone."""
    return replace(call, contradicts=tuple(each for each in call.contradicts if each in memories))


def told_of(run: Run, memories: Collection[str]) -> Run:
    """The run as who can see these memories alone is told of it."""
    return replace(run, tool_calls=tuple(_about(call, memories) for call in run.tool_calls))


async def judge(rt: Runtime, context: Context, caller: Caller, run_id: str, outcome: Outcome) -> Run:
    """The run with whether memory helped, as its agent says or the person whose memory it was given.

    Raises: NotFound.
    """
    kept = await looked_at(context, caller, run_id)
    if not (is_own(caller, kept.run) or is_persons(caller, kept.run)):
        raise _unknown(run_id)
    if not kept.run.temporary:
        context.runs.change(kept, rt.clock(), outcome=outcome)
    return kept.run


async def close_stale(rt: Runtime, context: Context) -> int:
    """Close the runs of which nothing was heard for an hour; how many there were."""
    await context.runs.traces.settle()
    now = rt.clock()
    closed = 0
    while names := await store_runs.left_open(context.db, now - LEFT_OPEN):
        before = closed
        for name in names:
            kept = await _kept(context, name)
            if kept is not None and kept.run.end_reason is None and kept.active_at < now - LEFT_OPEN:
                reason = EndReason.TEMPORARY if kept.run.temporary else EndReason.UNKNOWN
                context.runs.change(kept, kept.active_at, end_reason=reason, ended_at=now)
                await importance.refresh(rt, context, kept)
                closed += 1
        await context.runs.traces.flush()
        if closed == before:
            break
    return closed


async def prune(rt: Runtime, context: Context) -> int:
    """Remove the runs that are older than the context keeps them; how many there were."""
    now = rt.clock()
    before, bad_before = now - retention(context), now - BAD_KEPT
    await context.runs.traces.settle()
    removed = await store_runs.prune(context.db, before, bad_before)
    context.runs.drop_old(before, bad_before)
    return removed


# ---------------------------------------------------------------------- looking
@dataclass(frozen=True, slots=True, kw_only=True)
class RunsWanted:
    """Which runs to list: of an agent, in a session, that were given a memory (`table:id`)."""

    agent: str | None = None
    session: str | None = None
    memory: str | None = None
    page: PageRequest = FIRST_PAGE


async def list_(rt: Runtime, context: Context, caller: Caller, request: RunsWanted) -> Page[Run]:
    """Runs the caller may see, the one that began last first; an offset is counted from there. What their tools spoke
    against is told of one run at a time."""
    await context.runs.traces.settle()
    page = request.page
    wanted = store_runs.Wanted(
        agent=request.agent,
        session=request.session,
        memories=None if request.memory is None else [request.memory],
    )
    found = await store_runs.newest(
        context.db,
        wanted,
        lambda run: may_look(caller, run),
        before=before_of(page.after),
        limit=page.offset + page.limit + 1,
        now=rt.clock(),
    )
    rest = found[page.offset :]
    shown = tuple(told_of(run, ()) for run in rest[: page.limit])
    more = len(rest) > page.limit
    return Page(rows=shown, next=(time_key(shown[-1].started_at), shown[-1].id) if more else None)


def may_look(caller: Caller, run: Run) -> bool:
    """True for the run's own agent, for who it was given memory of, and for admins."""
    return is_own(caller, run) or is_persons(caller, run) or is_admins(caller)


# ---------------------------------------------------------------------- whose it is
def is_own(caller: Caller, run: Run) -> bool:
    """True for the agent that opened it, while it can read all that the run could."""
    if run.agent != caller.principal_id or run.on_behalf_of != caller.delegate:
        return False
    return not run.region or may_see(run.region, caller.region(Verb.MEMORY_READ))


def is_persons(caller: Caller, run: Run) -> bool:
    """True for a person, there themselves, whose memory the run was given or for whom it was."""
    if not caller.is_person:
        return False
    return caller.principal_id in run.people or caller.principal_id == run.on_behalf_of


def is_admins(caller: Caller) -> bool:
    """True for those who see ids and numbers of every run: admins, and who manages everything."""
    holds = roles.of_caller(caller)
    return caller.target is None and (_manages(caller) or not holds.isdisjoint({Role.OWNER, Role.ADMIN}))


def _manages(caller: Caller) -> bool:
    return caller.region(Verb.GRANT_MANAGE).covers_pattern(EVERYTHING)


async def own(context: Context, caller: Caller, run_id: str) -> Kept:
    """The caller's own run, in memory. Raises: NotFound."""
    kept = await _kept(context, run_id)
    if kept is None or not is_own(caller, kept.run):
        raise _unknown(run_id)
    return kept


async def looked_at(context: Context, caller: Caller, run_id: str) -> Kept:
    """A run that the caller may look at, in memory. Raises: NotFound."""
    kept = await _kept(context, run_id)
    if kept is not None and kept.offered_at and not (is_own(caller, kept.run) or is_persons(caller, kept.run)):
        # Whose memory a run was given is known once that is saved; it may be that of an admin, too.
        await context.runs.traces.settle()
    if kept is None or not may_look(caller, kept.run):
        raise _unknown(run_id)
    return kept


async def _kept(context: Context, run_id: str) -> Kept | None:
    """A run, in memory from now on."""
    kept = context.runs.get(run_id)
    if kept is not None or not _OWN_ID.fullmatch(run_id):
        return kept
    stored = await store_runs.find(context.db, run_id)
    return context.runs.take(stored) if stored else None


def _unknown(run_id: str) -> NotFound:
    return NotFound(f"run {run_id if _OWN_ID.fullmatch(run_id) else ''} does not exist".replace("  ", " "))


# ---------------------------------------------------------------------- checks
def _new(rt: Runtime, context: Context, caller: Caller, request: NewRun) -> Run:
    return Run(
        id=new_id(),
        agent=caller.principal_id,
        on_behalf_of=caller.delegate,
        started_at=rt.clock(),
        region=tuple(map(str, caller.region(Verb.MEMORY_READ).patterns)),
        session=request.session,
        mode=core_contexts.mode_of(context.config).value,
        settings_version=context.consent.settings.version,
        temporary=request.temporary,
        saving=request.saving and not request.temporary,
    )


async def _check_session(context: Context, caller: Caller, session_id: str, *, temporary: bool) -> None:
    everything = context.sets.everything()
    known = _OWN_ID.fullmatch(session_id)
    session = await store_sessions.find_session(context.db, context.sets, session_id, everything) if known else None
    if session is None or not (
        session.scope.visible_to(caller.region(Verb.MEMORY_READ))
        or session.scope.within(caller.region(Verb.MEMORY_WRITE))
    ):
        raise NotFound("that session does not exist")
    is_over = is_temporary(context, None, session_id)
    if temporary and session.next_seq > 0 and not is_over:
        raise Conflict("something was said in that session already: a temporary chat needs one of its own, or none")
    if is_over and not temporary:
        raise Conflict("that session is a temporary chat and stays one: begin another session")


def _check_change(run: Run, request: RunChange) -> None:
    if request.temporary is not None and request.temporary != run.temporary:
        raise Conflict("a run stays temporary, or not, as it was opened: open another")
    if request.saving and not run.saving:
        raise Conflict("a run that keeps nothing stays so: open another")
    if request.tool_calls is not None and len(request.tool_calls) > MOST_TOOL_CALLS:
        raise Invalid(f"at most {MOST_TOOL_CALLS} tool calls of a run are kept")
    reason = request.end_reason
    if reason is None or run.temporary:
        return
    if reason is EndReason.TEMPORARY:
        raise Invalid("endReason temporary is that of a temporary chat: open the run as one")
    if run.end_reason not in (None, EndReason.UNKNOWN, reason):
        raise Conflict(f"this run has ended: {run.end_reason}")
