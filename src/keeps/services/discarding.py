"""What waited and is not to be kept: refused by its person, taken back by who proposed it, or left until its time was
over. Its text goes from everything that tells of it."""

from __future__ import annotations

from keeps.core.access import Caller
from keeps.core.erasure import Gone, Order
from keeps.core.errors import NotFound
from keeps.core.facts import Status
from keeps.core.inbox import SWEEP
from keeps.core.memories import Memory, of_proposal
from keeps.core.policy import Why
from keeps.core.status import Move
from keeps.services import erase, moves, standing, suppression
from keeps.services.runtime import Context, Runtime
from keeps.store import erase as store_erase
from keeps.store import proposals as store_proposals


async def reject(rt: Runtime, context: Context, caller: Caller, memory_id: str, *, rev: int | None = None) -> Memory:
    """What waited, refused: its text goes at once, and it is not learned again unasked.

    Raises: NotFound, Forbidden, IllegalTransition, StaleRevision.
    """

    async def act() -> Memory:
        held = await standing.find(rt, context, caller, memory_id, moves=True)
        standing.check_rev(held.memory, rev)
        await standing.allowed(rt, context, caller, held, Move.REJECT)
        return await discard(rt, context, held.memory, Move.REJECT, caller.principal_id, remembers=True)

    return await moves.alone(rt, context, memory_id, act, rev=rev, erases=True)


async def withdraw(rt: Runtime, context: Context, caller: Caller, memory_id: str, *, rev: int | None = None) -> Memory:
    """What the caller proposed itself, taken back before anybody decided.

    Raises: NotFound for what somebody else proposed, Forbidden, IllegalTransition, StaleRevision.
    """

    async def act() -> Memory:
        held = await standing.find(rt, context, caller, memory_id)
        standing.check_rev(held.memory, rev)
        await standing.allowed(rt, context, caller, held, Move.WITHDRAW)
        return await discard(rt, context, held.memory, Move.WITHDRAW, caller.principal_id, remembers=False)

    return await moves.alone(rt, context, memory_id, act, rev=rev, erases=True)


async def discard(
    rt: Runtime, context: Context, memory: Memory, what: Move, by: str, *, remembers: bool, to: Status = Status.REJECTED
) -> Memory:
    """Close a proposal and take its text out of everything that tells of it."""
    proposal = moves.waiting(memory)
    now = rt.clock()
    order = Order(rows={memory.ref: Gone.PURGE})
    async with context.traces.quiet():
        planned = await store_erase.plan(context.db, context.sets, order, now)
        batch = planned.batch
        # The row stays, without what it said: what became of it is counted, and its id leads nowhere else.
        stays = store_proposals.record_id(proposal.id)
        batch.deletes = [gone for gone in batch.deletes if gone != stays]
        closed = moves.settle(batch, proposal, to, by)
        if remembers and memory.row is not None and proposal.reason != Why.RETIRE:
            suppression.suppress(batch, context, [memory.row], reason="rejected", by=by)
        batch.entries.append(moves.entry(by, what, memory.ref))
        rt.owe_scrub(context)
        try:
            await context.commit(batch, await erase.changes_of(context, planned))
        finally:
            context.erased_at = rt.clock()
    await rt.scrub(context)
    return of_proposal(closed, memory.scope)


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
        changed = moves.moved(row, Status.EXPIRED, by=SWEEP, reason="sweep:ttl", at=now)
        return await moves.write(context, row, changed, moves.entry(SWEEP, Move.EXPIRE, memory.ref), now)

    try:
        return await moves.alone(rt, context, memory_id, act, erases=True)
    except NotFound:
        return None
