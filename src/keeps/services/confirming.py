"""A person says yes to what waits: it is kept, in these words or theirs, instead of what stands there or beside it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Final

from keeps.core.access import Caller, Verb
from keeps.core.errors import IllegalTransition
from keeps.core.facts import TRUST, Control, Fact, Origin, Row, Status
from keeps.core.memories import Memory, OnConflict, check_kind, check_text, life_of, of_row
from keeps.core.policy import Why
from keeps.core.proposals import Proposal
from keeps.core.screen import Screened
from keeps.core.status import Actor, Move
from keeps.core.triples import Family, Triple
from keeps.services import candidates, moves, standing, suppression
from keeps.services.discarding import reject
from keeps.services.index import Changes
from keeps.services.proposing import triple_of
from keeps.services.reconcile import Extraction, Incoming, Reconciliation
from keeps.services.runtime import Context, Runtime
from keeps.services.standing import Held
from keeps.store import facts as store_facts
from keeps.store import memories as store_memories
from keeps.store import rows as store_rows
from keeps.store.commit import Batch

_SLOTS_TRIED: Final = 20


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
        proposal = moves.waiting(held.memory)
        if proposal.reason == Why.RETIRE:
            return await _agree_to_retire(rt, context, caller, held, proposal)
        return await _keep(rt, context, caller, held, proposal, on_conflict=on_conflict, text=text)

    return await moves.alone(rt, context, memory_id, act, rev=rev)


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
    control = agreed(context, row.control, held.actor, caller, now, reworded=text is not None)
    if text is not None:
        triple = _reworded(context, triple, proposal, text)
        (found,) = await candidates.refuse_secrets([triple], row.labels, row.metadata)
        control = screened_as(control, found)
    if on_conflict is OnConflict.KEEP_BOTH:
        triple = await _beside(context, row, triple)
    instead = await _conflicting(context, proposal) if on_conflict is OnConflict.REPLACE else None
    incoming = Incoming(
        triples=[triple],
        ids={0: proposal.id},
        scope=row.scope,
        source=row.source,
        control=control,
        now=now,
        known_at=now,
        observed=False,
        readable=context.sets.readable(caller.region(Verb.MEMORY_READ)),
        proposed_by=proposal.proposed_by,
        category=row.category,
        labels=row.labels,
        metadata=row.metadata,
        corrects={0: instead} if instead is not None else {},
    )
    extraction = await Reconciliation(context, incoming, batch, changes).run()
    kept = _only(extraction)
    became = store_rows.ref_of(kept) if kept.id != proposal.id else proposal.conflicts_with
    moves.settle(batch, replace(proposal, conflicts_with=became), Status.CONFIRMED, caller.principal_id)
    for doubt in await store_memories.doubts_about(context.db, [f"attribute:{proposal.id}"]):
        batch.patch(doubt, resolved=True, resolved_at=now)
        batch.touch(doubt)
    batch.entries.append(moves.entry(caller.principal_id, Move.CONFIRM, held.memory.ref))
    await suppression.lift(batch, context, [kept])
    await context.commit(batch, changes)
    return of_row(await _reread(context, kept), now)


async def _agree_to_retire(rt: Runtime, context: Context, caller: Caller, held: Held, question: Proposal) -> Memory:
    """The person agrees to stop using something: the question closes, and what it was about rests."""
    target = (question.conflicts_with or "").partition(":")[2]
    row = await store_memories.find_row(context.db, context.sets, target)
    if row is None or row.control.status is not Status.CONFIRMED:
        raise IllegalTransition("what this asks about is not in use any more: reject the question")
    now = rt.clock()
    batch, changes = Batch(at=now), Changes()
    moves.settle(batch, question, Status.CONFIRMED, caller.principal_id)
    changed = moves.moved(row, Status.EXPIRED, by=caller.principal_id, reason="user", at=now)
    moves.patch(batch, changes, row, changed)
    batch.entries.append(moves.entry(caller.principal_id, Move.CONFIRM, held.memory.ref))
    await context.commit(batch, changes)
    return of_row(changed, now)


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


def screened_as(control: Control, found: Screened) -> Control:
    """The control of a row that says something else now: what is in the new words, and every flag it had."""
    return replace(control, sensitivity=found.sensitivity, topics=found.topics, flags=control.flags | found.flags)


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


async def _conflicting(context: Context, proposal: Proposal) -> Fact | None:
    """The value a proposal was held against, while it is in use."""
    target = (proposal.conflicts_with or "").partition(":")[2]
    row = await store_memories.find_row(context.db, context.sets, target) if target else None
    if not isinstance(row, Fact) or row.scope.id != proposal.scope_set:
        return None
    return row if row.control.status is Status.CONFIRMED and row.superseded_by is None else None


def _only(extraction: Extraction) -> Row:
    """The one row a confirmed proposal came to."""
    return next(iter([*extraction.facts, *extraction.relations, *extraction.actions]))


async def _reread(context: Context, row: Row) -> Row:
    found = await store_memories.find_row(context.db, context.sets, row.id)
    return found or row
