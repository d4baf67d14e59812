"""Moves of one memory, by whomever: held alone, checked, committed; and those of what is held back and what is kept.

Every move is one commit, of the rows that change and of the line in the audit that says so. Of two that are made at
once, one is made; the other finds the memory where the first one left it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta

from keeps.core.access import Caller, Verb
from keeps.core.audit import Entry
from keeps.core.errors import Conflict, Forbidden, IllegalTransition, Limited, NotFound, StaleHead, StaleRevision
from keeps.core.facts import Row, RowId, Status
from keeps.core.memories import Memory, life_of, of_proposal, of_row
from keeps.core.policy import Preset, Why
from keeps.core.proposals import Proposal
from keeps.core.status import Move
from keeps.services import erase, proposing, standing
from keeps.services.index import Changes, entry_of
from keeps.services.reconcile import fingerprint_of, texts_of
from keeps.services.runtime import MAX_REPLANS, Context, Runtime, new_id
from keeps.services.standing import PEOPLE
from keeps.store import facts as store_facts
from keeps.store import proposals as store_proposals
from keeps.store import rows as store_rows
from keeps.store.commit import Batch


async def alone(
    rt: Runtime,
    context: Context,
    memory_id: str,
    act: Callable[[], Awaitable[Memory]],
    *,
    rev: int | None = None,
    erases: bool = False,
    pins: bool = False,
) -> Memory:
    """What `act` makes of a memory, held alone; planned again when others write meanwhile. `erases`: text goes.
    `pins`: it is counted among those of its scope.

    Raises: StaleRevision when the caller named a revision and another move came first.
    """
    found = await standing.look(context, memory_id, rt.clock())
    if found is None:
        raise NotFound(f"memory {memory_id} does not exist")
    names = {*standing.names_of(found), f"memory:{memory_id}", *({erase.ERASING} if erases else ())}
    names |= {f"pins:{found.scope.id}"} if pins else set()
    async with context.alone_on(names):
        for attempt in range(1, MAX_REPLANS + 1):
            try:
                return await act()
            except StaleHead:
                if rev is not None and attempt > 1:
                    raise StaleRevision("this memory was changed meanwhile: read it again") from None
                if attempt == MAX_REPLANS:
                    raise
    raise AssertionError("unreachable")


def settle(batch: Batch, proposal: Proposal, status: Status, by: str) -> Proposal:
    """Let a commit also close a proposal: what it said goes, what became of it stays."""
    closed = proposal.closed(status, by=by, at=batch.at)
    store_proposals.write_over(batch, proposal, closed)
    return closed


def entry(actor: str, what: str, target: str) -> Entry:
    """The line in the audit of one move."""
    return Entry(actor=actor, action=f"memory.{what}", target=target)


def waiting(memory: Memory) -> Proposal:
    """The proposal that a memory still is. Raises: IllegalTransition when its text is gone."""
    if memory.proposal is None or memory.row is None:
        raise IllegalTransition("the text of this memory is gone: nothing can be decided about it any more")
    return memory.proposal


# ---------------------------------------------------------------------- what is held back
async def release(rt: Runtime, context: Context, caller: Caller, memory_id: str, *, rev: int | None = None) -> Memory:
    """What was held back, put among what waits, by somebody who has seen it and why it was held back.

    Raises: NotFound, Forbidden, IllegalTransition, StaleRevision.
    """

    async def act() -> Memory:
        held = await standing.find(rt, context, caller, memory_id, moves=True)
        standing.check_rev(held.memory, rev)
        await standing.allowed(rt, context, caller, held, Move.RELEASE)
        proposal, row = waiting(held.memory), held.memory.row
        assert row is not None
        now = rt.clock()
        batch = Batch(at=now)
        released = replace(
            proposal,
            row=replace(row, control=replace(row.control, status=Status.PROPOSED)),
            status=Status.PROPOSED,
            status_by=caller.principal_id,
            status_at=now,
            ends_at=now + timedelta(days=context.consent.settings.proposal_ttl_days),
            rev=proposal.rev + 1,
        )
        folds = [context.fold_key(text) for text in texts_of(row)]
        store_proposals.write_over(batch, proposal, released, folds=folds)
        batch.entries.append(entry(caller.principal_id, Move.RELEASE, held.memory.ref))
        await context.commit(batch)
        return of_proposal(released, held.memory.scope)

    return await alone(rt, context, memory_id, act, rev=rev)


# ---------------------------------------------------------------------- what is kept
async def renew(
    rt: Runtime,
    context: Context,
    caller: Caller,
    memory_id: str,
    *,
    rev: int | None = None,
    expires_at: datetime | None = None,
) -> Memory:
    """What had expired, in use again: until `expires_at`, else for the life that its kind has.

    Raises: NotFound, Forbidden, IllegalTransition, StaleRevision.
    """

    async def act() -> Memory:
        held = await standing.find(rt, context, caller, memory_id, moves=True)
        standing.check_rev(held.memory, rev)
        await standing.allowed(rt, context, caller, held, Move.RENEW)
        row = _kept(held.memory)
        now = rt.clock()
        until = expires_at or life_of(row.control.kind, context.consent.settings, now)
        changed = moved(row, Status.CONFIRMED, by=caller.principal_id, reason="user", at=now, expires_at=until)
        return await write(context, row, changed, entry(caller.principal_id, Move.RENEW, held.memory.ref), now)

    return await alone(rt, context, memory_id, act, rev=rev)


async def retire(rt: Runtime, context: Context, caller: Caller, memory_id: str, *, rev: int | None = None) -> Memory:
    """What was kept, not used any more. When an agent asks for that of what a person said yes to, the person is asked
    first, and what comes back is that question; except where everything is automatic.

    Raises: NotFound, Forbidden, IllegalTransition, StaleRevision.
    """

    async def act() -> Memory:
        held = await standing.find(rt, context, caller, memory_id)
        standing.check_rev(held.memory, rev)
        await standing.allowed(rt, context, caller, held, Move.RETIRE)
        row = _kept(held.memory)
        by_person = held.actor in PEOPLE
        if not by_person and not row.scope.within(caller.region(Verb.MEMORY_FORGET)):
            raise Forbidden("memory:forget is not held over the scope of this memory")
        automatic = context.consent.settings.policy is Preset.AUTOMATIC
        if row.control.user_confirmed and not by_person and not automatic:
            async with context.alone_on({proposing.INBOX}):
                return await _ask_to_retire(rt, context, caller, row)
        now = rt.clock()
        changed = moved(
            row, Status.EXPIRED, by=caller.principal_id, reason="user" if by_person else "agent:retire", at=now
        )
        return await write(context, row, changed, entry(caller.principal_id, Move.RETIRE, held.memory.ref), now)

    return await alone(rt, context, memory_id, act, rev=rev)


async def _ask_to_retire(rt: Runtime, context: Context, caller: Caller, row: Row) -> Memory:
    """The question whether to stop using something; the one that waits already, when there is one.

    Raises: Conflict when the person said no to it lately, Limited when their inbox is full.
    """
    target = store_rows.ref_of(row)
    waiting = await store_proposals.list_open(context.db, context.sets, {row.scope.id}, limit=500)
    asked = next((one for one in waiting if one.reason == Why.RETIRE and one.conflicts_with == target), None)
    if asked is not None:
        return of_proposal(asked, row.scope)
    now = rt.clock()
    lately = now - timedelta(days=context.consent.settings.proposal_ttl_days)
    if await store_proposals.refused(context.db, target, Why.RETIRE, since=lately):
        raise Conflict("the person was asked lately whether to stop using this, and said no: do not ask again")
    if (full := await proposing.has_room(context, row.scope, now)) is not None:
        raise Limited(f"the inbox of this person takes no more now ({full}): try again when they have decided")
    batch = Batch(at=now)
    question_id = new_id()
    question = Proposal(
        id=question_id,
        row=replace(row, id=RowId(question_id)),
        status=Status.PROPOSED,
        reason=str(Why.RETIRE),
        proposed_by=caller.principal_id,
        created_at=now,
        scope_set=row.scope.id,
        kind=row.control.kind,
        conflicts_with=target,
        source_ref=row.source.ref,
        fingerprint=fingerprint_of(context, row),
        ends_at=now + timedelta(days=context.consent.settings.proposal_ttl_days),
    )
    folds = [context.fold_key(text) for text in texts_of(row)]
    batch.proposals.append(store_proposals.to_row(question, folds=folds))
    batch.rows.append(f"{store_proposals.PROPOSAL}:{question_id}")
    batch.entries.append(entry(caller.principal_id, "ask_to_retire", target))
    await context.commit(batch)
    return of_proposal(question, row.scope)


def _kept(memory: Memory) -> Row:
    if memory.row is None or memory.proposal is not None:
        raise IllegalTransition("this was never kept, or its text is gone")
    return memory.row


def moved(row: Row, status: Status, *, by: str, reason: str, at: datetime, expires_at: datetime | None = None) -> Row:
    """A row after a move. `expires_at`: its new end; without one it keeps what it has."""
    control = replace(
        row.control,
        status=status,
        status_by=by,
        status_reason=reason,
        status_at=at,
        expires_at=expires_at if status is Status.CONFIRMED else row.control.expires_at,
        rev=row.control.rev + 1,
    )
    return replace(row, control=control)


def patch(batch: Batch, changes: Changes, before: Row, after: Row) -> None:
    """Let a commit also change what people decide about a row; what it says stays."""
    record_id = store_facts.record_id(store_rows.ref_of(before))
    control = after.control
    batch.guards.append({"id": record_id, "rev": before.control.rev})
    batch.patch(
        record_id,
        kind=control.kind,
        status=str(control.status),
        status_by=control.status_by,
        status_reason=control.status_reason,
        status_at=control.status_at,
        muted=control.muted,
        pinned=control.pinned,
        expires_at=control.expires_at,
        rev=control.rev,
    )
    batch.touch(record_id)
    changes.put.append(entry_of(after))


async def write(context: Context, before: Row, after: Row, line: Entry, now: datetime) -> Memory:
    """Commit a change of what people decide about a row."""
    batch, changes = Batch(at=now), Changes()
    patch(batch, changes, before, after)
    batch.entries.append(line)
    await context.commit(batch, changes)
    return of_row(after, now)
