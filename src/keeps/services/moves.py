"""A person decides about what waits and what is kept: yes, no, look at it again, use it once more, stop using it.

Every move is one commit, of the rows that change and of the line in the audit that says so. Of two that are made at
once, one is made; the other finds the memory where the first one left it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from keeps.core.access import Caller, Verb
from keeps.core.audit import Entry
from keeps.core.erasure import Gone, Order
from keeps.core.errors import Forbidden, IllegalTransition, NotFound, StaleHead, StaleRevision
from keeps.core.facts import TRUST, Control, Fact, Origin, Row, RowId, Status
from keeps.core.memories import Memory, OnConflict, check_kind, check_text, life_of, of_proposal, of_row
from keeps.core.policy import Preset, Why
from keeps.core.proposals import Proposal
from keeps.core.status import Actor, Move
from keeps.core.triples import Family, Triple
from keeps.services import candidates, erase, standing, suppression
from keeps.services.index import Changes, entry_of
from keeps.services.proposing import triple_of
from keeps.services.reconcile import Extraction, Incoming, Reconciliation, fingerprint_of, texts_of
from keeps.services.runtime import MAX_REPLANS, Context, Runtime, new_id
from keeps.services.standing import PEOPLE, Held
from keeps.store import erase as store_erase
from keeps.store import facts as store_facts
from keeps.store import memories as store_memories
from keeps.store import proposals as store_proposals
from keeps.store import rows as store_rows
from keeps.store.commit import Batch

_SLOTS_TRIED: Final = 20

SWEEP: Final = "sweep"
"""Who moves what nobody decided about in time."""


async def alone(
    rt: Runtime,
    context: Context,
    memory_id: str,
    act: Callable[[], Awaitable[Memory]],
    *,
    rev: int | None = None,
    erases: bool = False,
) -> Memory:
    """What `act` makes of a memory, held alone; planned again when others write meanwhile. `erases`: text goes.

    Raises: StaleRevision when the caller named a revision and another move came first.
    """
    found = await standing.look(context, memory_id, rt.clock())
    if found is None:
        raise NotFound(f"memory {memory_id} does not exist")
    names = {*standing.names_of(found), f"memory:{memory_id}", *({erase.ERASING} if erases else ())}
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


async def confirm(
    rt: Runtime,
    context: Context,
    caller: Caller,
    memory_id: str,
    *,
    rev: int | None = None,
    on_conflict: OnConflict = OnConflict.REPLACE,
    text: str | None = None,
) -> Memory:
    """What waited, kept: it enters the record as a remembered thing does, with the person's word behind it.

    `text`: kept in these words instead. `on_conflict`: what becomes of it when another value stands there.

    Raises: NotFound, Forbidden, IllegalTransition, StaleRevision; Unprocessable for a text its kind does not allow.
    """
    if on_conflict is OnConflict.DISCARD:
        return await reject(rt, context, caller, memory_id, rev=rev)

    async def act() -> Memory:
        held = await standing.find(rt, context, caller, memory_id, moves=True)
        standing.check_rev(held.memory, rev)
        await standing.allowed(rt, context, caller, held, Move.CONFIRM)
        proposal = _waiting(held.memory)
        if proposal.reason == Why.RETIRE:
            return await _agree_to_retire(rt, context, caller, held, proposal)
        return await _keep(rt, context, caller, held, proposal, on_conflict=on_conflict, text=text)

    return await alone(rt, context, memory_id, act, rev=rev)


async def _keep(
    rt: Runtime,
    context: Context,
    caller: Caller,
    held: Held,
    proposal: Proposal,
    *,
    on_conflict: OnConflict,
    text: str | None,
) -> Memory:
    row = proposal.row
    assert row is not None
    now = rt.clock()
    batch, changes = Batch(at=now), Changes()
    triple = triple_of(row, proposal.names)
    if text is not None:
        triple = _reworded(context, triple, proposal, text)
        await candidates.refuse_secrets([triple], (), None)
    if on_conflict is OnConflict.KEEP_BOTH:
        triple = await _beside(context, row, triple)
    incoming = Incoming(
        triples=[triple],
        ids={0: proposal.id},
        scope=row.scope,
        source=row.source,
        control=agreed(context, row.control, held.actor, caller, now, reworded=text is not None),
        now=now,
        known_at=now,
        observed=False,
        readable=context.sets.readable(caller.region(Verb.MEMORY_READ)),
        proposed_by=proposal.proposed_by,
        category=row.category,
        labels=row.labels,
        metadata=row.metadata,
    )
    extraction = await Reconciliation(context, incoming, batch, changes).run()
    kept = _only(extraction)
    became = store_rows.ref_of(kept) if kept.id != proposal.id else proposal.conflicts_with
    settle(batch, replace(proposal, conflicts_with=became), Status.CONFIRMED, caller.principal_id)
    for doubt in await store_memories.doubts_about(context.db, [f"attribute:{proposal.id}"]):
        batch.patch(doubt, resolved=True, resolved_at=now)
        batch.touch(doubt)
    batch.entries.append(entry(caller.principal_id, Move.CONFIRM, held.memory.ref))
    await suppression.lift(batch, context, [kept])
    await context.commit(batch, changes)
    return of_row(await _reread(context, kept), now)


def agreed(
    context: Context, control: Control, actor: Actor, caller: Caller, now: datetime, *, reworded: bool = False
) -> Control:
    """The control of a row once a person stands behind it. In their own words it is theirs."""
    origin = Origin.USER_SAVED if reworded else Origin.USER_CONFIRMED
    return replace(
        control,
        status=Status.CONFIRMED,
        origin=origin,
        trust=TRUST[origin],
        user_confirmed=True,
        flags=control.flags - {"conflict"},
        confirmed_by=caller.principal_id,
        status_reason="user" if actor is Actor.SUBJECT else str(actor),
        status_by=caller.principal_id,
        status_at=now,
        expires_at=control.expires_at or life_of(control.kind, context.consent.settings, now),
        rev=1,
    )


def _reworded(context: Context, triple: Triple, proposal: Proposal, text: str) -> Triple:
    said = check_text(text, check_kind(proposal.kind, context.consent.settings))
    if triple.family is not Family.ATTRIBUTE:
        raise IllegalTransition("only a fact can be kept in other words: confirm it as it is, or reject it")
    return replace(triple, value=said)


async def _beside(context: Context, row: Row, triple: Triple) -> Triple:
    """The triple under a key of its own when its key holds another value already: both stay."""
    if not isinstance(row, Fact) or triple.key is None:
        return triple
    keys = [triple.key, *(f"{triple.key}_{number}" for number in range(2, _SLOTS_TRIED))]
    versions = await store_facts.versions_in(context.db, row.scope, [(row.entity, key) for key in keys])
    taken = {fact.key for fact in versions}
    return replace(triple, key=next((key for key in keys if key not in taken), triple.key))


def _only(extraction: Extraction) -> Row:
    """The one row a confirmed proposal came to."""
    return next(iter([*extraction.facts, *extraction.relations, *extraction.actions]))


async def _reread(context: Context, row: Row) -> Row:
    found = await store_memories.find_row(context.db, context.sets, row.id)
    return found or row


def settle(batch: Batch, proposal: Proposal, status: Status, by: str, *, reason: str | None = None) -> Proposal:
    """Let a commit also close a proposal: what it said goes, what became of it stays."""
    closed = replace(
        proposal,
        row=None,
        names={},
        status=status,
        reason=reason or proposal.reason,
        status_by=by,
        status_at=batch.at,
        rev=proposal.rev + 1,
    )
    _put(batch, proposal, closed, folds=())
    return closed


def _put(batch: Batch, before: Proposal, after: Proposal, *, folds: tuple[str, ...]) -> None:
    record_id = store_proposals.record_id(before.id)
    batch.guards.append({"id": record_id, "rev": before.rev})
    row = store_proposals.to_row(after, folds=folds)
    del row["id"]
    batch.puts.append({"id": record_id, "row": row})
    batch.touch(record_id)


def entry(actor: str, what: str, target: str) -> Entry:
    """The line in the audit of one move."""
    return Entry(actor=actor, action=f"memory.{what}", target=target)


def _waiting(memory: Memory) -> Proposal:
    if memory.proposal is None or memory.row is None:
        raise IllegalTransition("the text of this memory is gone: nothing can be decided about it any more")
    return memory.proposal


# ---------------------------------------------------------------------- no
async def reject(rt: Runtime, context: Context, caller: Caller, memory_id: str, *, rev: int | None = None) -> Memory:
    """What waited, refused: its text goes at once, and it is not learned again unasked.

    Raises: NotFound, Forbidden, IllegalTransition, StaleRevision.
    """

    async def act() -> Memory:
        held = await standing.find(rt, context, caller, memory_id, moves=True)
        standing.check_rev(held.memory, rev)
        await standing.allowed(rt, context, caller, held, Move.REJECT)
        return await discard(rt, context, held.memory, Move.REJECT, caller.principal_id, remembers=True)

    return await alone(rt, context, memory_id, act, rev=rev, erases=True)


async def withdraw(rt: Runtime, context: Context, caller: Caller, memory_id: str, *, rev: int | None = None) -> Memory:
    """What the caller proposed itself, taken back before anybody decided.

    Raises: NotFound for what somebody else proposed, Forbidden, IllegalTransition, StaleRevision.
    """

    async def act() -> Memory:
        held = await standing.find(rt, context, caller, memory_id)
        standing.check_rev(held.memory, rev)
        await standing.allowed(rt, context, caller, held, Move.WITHDRAW)
        return await discard(rt, context, held.memory, Move.WITHDRAW, caller.principal_id, remembers=False)

    return await alone(rt, context, memory_id, act, rev=rev, erases=True)


async def discard(
    rt: Runtime, context: Context, memory: Memory, what: Move, by: str, *, remembers: bool, to: Status = Status.REJECTED
) -> Memory:
    """Close a proposal and take its text out of everything that tells of it."""
    proposal = _waiting(memory)
    now = rt.clock()
    order = Order(rows={memory.ref: Gone.PURGE})
    async with context.traces.quiet():
        planned = await store_erase.plan(context.db, context.sets, order, now)
        batch = planned.batch
        # The row stays, without what it said: what became of it is counted, and its id leads nowhere else.
        stays = store_proposals.record_id(proposal.id)
        batch.deletes = [gone for gone in batch.deletes if gone != stays]
        closed = settle(batch, proposal, to, by)
        if remembers and memory.row is not None and proposal.reason != Why.RETIRE:
            suppression.suppress(batch, context, [memory.row], reason="rejected", by=by)
        batch.entries.append(entry(by, what, memory.ref))
        rt.owe_scrub(context)
        try:
            await context.commit(batch, await erase.changes_of(context, planned))
        finally:
            context.erased_at = rt.clock()
    await rt.scrub(context)
    return of_proposal(closed, memory.scope)


async def release(rt: Runtime, context: Context, caller: Caller, memory_id: str, *, rev: int | None = None) -> Memory:
    """What was held back, put among what waits, by somebody who has seen it and why it was held back.

    Raises: NotFound, Forbidden, IllegalTransition, StaleRevision.
    """

    async def act() -> Memory:
        held = await standing.find(rt, context, caller, memory_id, moves=True)
        standing.check_rev(held.memory, rev)
        await standing.allowed(rt, context, caller, held, Move.RELEASE)
        proposal, row = _waiting(held.memory), held.memory.row
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
        _put(batch, proposal, released, folds=tuple(context.fold_key(text) for text in texts_of(row)))
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
            return await _ask_to_retire(rt, context, caller, row)
        now = rt.clock()
        changed = moved(
            row, Status.EXPIRED, by=caller.principal_id, reason="user" if by_person else "agent:retire", at=now
        )
        return await write(context, row, changed, entry(caller.principal_id, Move.RETIRE, held.memory.ref), now)

    return await alone(rt, context, memory_id, act, rev=rev)


async def _ask_to_retire(rt: Runtime, context: Context, caller: Caller, row: Row) -> Memory:
    """The question whether to stop using something; the one that waits already, when there is one."""
    target = store_rows.ref_of(row)
    waiting = await store_proposals.list_open(context.db, context.sets, {row.scope.id}, limit=500)
    asked = next((one for one in waiting if one.reason == Why.RETIRE and one.conflicts_with == target), None)
    if asked is not None:
        return of_proposal(asked, row.scope)
    now = rt.clock()
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


async def _agree_to_retire(rt: Runtime, context: Context, caller: Caller, held: Held, question: Proposal) -> Memory:
    """The person agrees to stop using something: the question closes, and what it was about rests."""
    target = (question.conflicts_with or "").partition(":")[2]
    row = await store_memories.find_row(context.db, context.sets, target)
    if row is None or row.control.status is not Status.CONFIRMED:
        raise IllegalTransition("what this asks about is not in use any more: reject the question")
    now = rt.clock()
    batch, changes = Batch(at=now), Changes()
    settle(batch, question, Status.CONFIRMED, caller.principal_id)
    changed = moved(row, Status.EXPIRED, by=caller.principal_id, reason="user", at=now)
    patch(batch, changes, row, changed)
    batch.entries.append(entry(caller.principal_id, Move.CONFIRM, held.memory.ref))
    await context.commit(batch, changes)
    return of_row(changed, now)


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


# ---------------------------------------------------------------------- when nobody decides
async def expire(rt: Runtime, context: Context, memory_id: str) -> Memory | None:
    """What nobody decided about, or renewed, in time, out of use: what waited loses its text, what was kept keeps it.

    None when it is not there or its time is not over.
    """

    async def act() -> Memory:
        now = rt.clock()
        memory = await standing.look(context, memory_id, now)
        if memory is None:
            raise NotFound(f"memory {memory_id} does not exist")
        if memory.proposal is not None:
            ends = memory.proposal.ends_at
            if not memory.proposal.is_open or ends is None or ends > now:
                raise NotFound("its time is not over")
            held_back = memory.status is Status.QUARANTINED
            to = Status.REJECTED if held_back else Status.EXPIRED
            return await discard(rt, context, memory, Move.EXPIRE, SWEEP, remembers=False, to=to)
        row = memory.row
        if row is None or row.control.status is not Status.CONFIRMED or memory.status is not Status.EXPIRED:
            raise NotFound("its time is not over")
        changed = moved(row, Status.EXPIRED, by=SWEEP, reason="sweep:ttl", at=now)
        return await write(context, row, changed, entry(SWEEP, Move.EXPIRE, memory.ref), now)

    try:
        return await alone(rt, context, memory_id, act, erases=True)
    except NotFound:
        return None
