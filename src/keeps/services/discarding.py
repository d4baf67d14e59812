"""What waited and is not to be kept: refused by its person, taken back by who proposed it, or left until its time was
over.

Its text goes from everything that tells of it, and the ledger says so first: no backup brings it back to the inbox, nor
what is not to be learned again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from keeps.core.access import Caller
from keeps.core.erasure import Gone, Order
from keeps.core.errors import NotFound, StaleHead
from keeps.core.facts import Row, Status
from keeps.core.inbox import SWEEP
from keeps.core.memories import Memory, of_proposal
from keeps.core.policy import Why
from keeps.core.proposals import Proposal
from keeps.core.status import Move
from keeps.services import erase, moves, standing, suppression
from keeps.services.runtime import MAX_REPLANS, Context, Runtime
from keeps.store import erase as store_erase
from keeps.store import proposals as store_proposals
from keeps.store import tombstones
from keeps.store.commit import Batch
from keeps.store.tombstones import Discarded, Line, Seal


@dataclass(frozen=True, slots=True, kw_only=True)
class No:
    """How something ends that waited: by which move and whom, and as what. `remembers`: what it says is not learned
    again; `blocks`: nor anything else for its slot."""

    what: Move
    by: str
    to: Callable[[Proposal], Status] = lambda _: Status.REJECTED
    remembers: bool = False
    blocks: bool = False


async def reject(
    rt: Runtime, context: Context, caller: Caller, memory_id: str, *, rev: int | None = None, blocks: bool = False
) -> Memory:
    """What waited, refused: its text goes at once, and it is not learned again unasked. `blocks`: nothing about its
    slot is to be proposed either.

    Raises: NotFound, Forbidden, IllegalTransition, StaleRevision; Unavailable when nothing was refused.
    """

    async def act() -> Memory:
        held = await standing.find(rt, context, caller, memory_id, moves=True)
        standing.check_rev(held.memory, rev)
        await standing.allowed(rt, context, caller, held, Move.REJECT)
        no = No(what=Move.REJECT, by=caller.principal_id, remembers=True, blocks=blocks)
        return await discard(rt, context, held.memory, no)

    return await moves.alone(rt, context, memory_id, act, rev=rev, erases=True)


async def withdraw(rt: Runtime, context: Context, caller: Caller, memory_id: str, *, rev: int | None = None) -> Memory:
    """What the caller proposed itself, taken back before anybody decided.

    Raises: NotFound for what somebody else proposed, Forbidden, IllegalTransition, StaleRevision; Unavailable when
    nothing was taken back.
    """

    async def act() -> Memory:
        held = await standing.find(rt, context, caller, memory_id)
        standing.check_rev(held.memory, rev)
        await standing.allowed(rt, context, caller, held, Move.WITHDRAW)
        return await discard(rt, context, held.memory, No(what=Move.WITHDRAW, by=caller.principal_id))

    return await moves.alone(rt, context, memory_id, act, rev=rev, erases=True)


async def discard(rt: Runtime, context: Context, memory: Memory, no: No) -> Memory:
    """A proposal, closed, for somebody who holds it and `ERASING`. Raises: StaleHead, Unavailable."""
    (closed,) = await _discard(rt, context, [moves.waiting(memory)], no)
    return of_proposal(closed, memory.scope)


async def _discard(rt: Runtime, context: Context, proposals: Sequence[Proposal], no: No) -> list[Proposal]:
    """Note proposals in the ledger and close them, all in one commit."""
    if context.unsettled:
        await rt.replay(context)
    order = Order(rows=dict.fromkeys(map(_ref, proposals), Gone.PURGE))
    async with context.traces.quiet():
        planned = await store_erase.plan(context.db, context.sets, order, rt.clock())
        batch = planned.batch
        closed: list[Proposal] = []
        for proposal in proposals:
            store_proposals.stays(batch, proposal)
            closed.append(moves.settle(batch, proposal, no.to(proposal), no.by))
            batch.entries.append(moves.entry(no.by, no.what, _ref(proposal)))
        marks = _suppress(context, batch, proposals, no)
        lines = await _lines(context, closed, no, marks)
        context.unsettled = True
        store_erase.note_tombstone(batch, await erase.note(rt, context, lines))
        rt.owe_scrub(context)
        try:
            await context.commit(batch, await erase.changes_of(context, planned))
        except StaleHead:
            context.unsettled = False  # what is planned anew is noted again, and its commit counts for both lines
            raise
        finally:
            context.erased_at = rt.clock()
        context.unsettled = False
    await rt.scrub(context)
    return closed


def _ref(proposal: Proposal) -> str:
    return f"{store_proposals.PROPOSAL}:{proposal.id}"


def _suppress(context: Context, batch: Batch, proposals: Sequence[Proposal], no: No) -> list[str]:
    """Let a commit also keep what proposals say from being learned again; the hashes it is known by."""
    marks: list[str] = []
    rows: list[Row] = [p.row for p in proposals if p.row is not None and p.reason != Why.RETIRE]
    if no.remembers:
        marks += suppression.suppress(batch, context, rows, reason="rejected", by=no.by)
    for row in rows if no.blocks else ():
        marks += suppression.suppress_slot(batch, context, row, by=no.by)
    return marks


async def _lines(context: Context, closed: Sequence[Proposal], no: No, marks: Collection[str]) -> list[Line]:
    """What the ledger says: of what a person deleted, that it is gone; else what became of it."""
    gone = {_ref(one): Gone.PURGE for one in closed if one.status is Status.FORGOTTEN}
    if gone:
        lie = {_ref(one): one.scope_set for one in closed}
        return tombstones.lines(Order(rows=gone), context.sets, lie, await Seal.of(context.db), marks=marks)
    by_itself = no.by == SWEEP
    return tombstones.discards(
        {_ref(one): Discarded(status=one.status, by_itself=by_itself) for one in closed}, marks=marks
    )


# ---------------------------------------------------------------------- when nobody decides
async def expire_waiting(rt: Runtime, context: Context, *, limit: int) -> int:
    """Close what nobody decided about in time, at most `limit`; how many. What was held back counts as refused.

    All of them are a line or two of the ledger and one commit. Raises: Unavailable, and they wait on.
    """

    def ended(proposal: Proposal) -> Status:
        return Status.REJECTED if proposal.status is Status.QUARANTINED else Status.EXPIRED

    over = await store_proposals.due(context.db, context.sets, rt.clock(), limit=limit)
    ids = {proposal.id for proposal in over}
    if not ids:
        return 0
    async with context.alone_on({erase.ERASING, *(f"memory:{id_}" for id_ in ids)}):
        for attempt in range(1, MAX_REPLANS + 1):
            due = await store_proposals.due(context.db, context.sets, rt.clock(), limit=limit)
            mine = [proposal for proposal in due if proposal.id in ids]
            try:
                return len(await _discard(rt, context, mine, No(what=Move.EXPIRE, by=SWEEP, to=ended))) if mine else 0
            except StaleHead:
                if attempt == MAX_REPLANS:
                    raise
    raise AssertionError("unreachable")


async def expire(rt: Runtime, context: Context, memory_id: str) -> Memory | None:
    """What was kept and not renewed in time, out of use; its text stays. None when its time is not over."""

    async def act() -> Memory:
        now = rt.clock()
        memory = await standing.look(context, memory_id, now)
        row = memory.row if memory is not None and memory.proposal is None else None
        if memory is None or row is None:
            raise NotFound(f"memory {memory_id} does not exist")
        if row.control.status is not Status.CONFIRMED or memory.status is not Status.EXPIRED:
            raise NotFound("its time is not over")
        changed = moves.moved(row, Status.EXPIRED, by=SWEEP, reason="sweep:ttl", at=now)
        return await moves.write(context, row, changed, moves.entry(SWEEP, Move.EXPIRE, memory.ref), now)

    try:
        return await moves.alone(rt, context, memory_id, act)
    except NotFound:
        return None
