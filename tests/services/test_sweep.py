"""What nobody decided on and what has had its time goes by itself, and each move is in the audit."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from keeps.core.audit import holds
from keeps.core.errors import IllegalTransition
from keeps.core.facts import Row, Status
from keeps.core.modes import Infer
from keeps.core.triples import parse_triples
from keeps.services import erase, memories, upkeep
from keeps.services import sweep as service
from keeps.services.recall import Recall, recall
from keeps.services.remember import Remember, remember
from keeps.services.runtime import Context, Runtime
from keeps.services.sweep import RENEWABLE, sweep
from keeps.store import audit as store_audit
from keeps.store import facts as store_facts
from keeps.store import proposals as store_proposals
from keeps.store.commit import Batch
from tests.services.conftest import HandClock, caller
from tests.services.waiting import candidate, everything, people, put

CANARY = "quokkazanzibar"


async def audited(context: Context) -> list[tuple[str, str, str]]:
    """Actor, action and target of every audit row, oldest first; each of them whole."""
    (rows,) = await context.db.run("SELECT * FROM audit ORDER BY id;")
    sealed = [store_audit.from_row(row) for row in rows]
    assert all(holds(context.audit_secret, row) for row in sealed)
    return [(row.entry.actor, row.entry.action, row.entry.target) for row in sealed]


async def status_of(context: Context, proposal: str) -> Status:
    found = await store_proposals.find(context.db, context.sets, proposal)
    assert found is not None
    return found.status


async def test_a7_a_proposal_nobody_decided_on_expires_and_its_text_goes(
    rt: Runtime, context: Context, clock: HandClock
) -> None:
    made = candidate(clock(), CANARY)
    await put(context, made)
    clock.forward(days=29)
    assert (await sweep(rt, context)).proposals == 0
    assert await status_of(context, made.id) is Status.PROPOSED
    clock.forward(days=2)
    assert (await sweep(rt, context)).proposals == 1
    found = await store_proposals.find(context.db, context.sets, made.id)
    assert found is not None
    assert (found.status, found.row, found.status_by, found.rev) == (Status.EXPIRED, None, "sweep", 2)
    assert CANARY not in await everything(context)
    assert await audited(context) == [("sweep", "memory.expire", f"proposal:{made.id}")]
    assert (await sweep(rt, context)).proposals == 0


async def test_what_is_held_back_is_rejected_in_its_time(rt: Runtime, context: Context, clock: HandClock) -> None:
    made = candidate(clock(), CANARY, status=Status.QUARANTINED, days=14)
    await put(context, made)
    clock.forward(days=15)
    assert (await sweep(rt, context)).proposals == 1
    assert await status_of(context, made.id) is Status.REJECTED
    assert CANARY not in await everything(context)
    assert await audited(context) == [("sweep", "memory.expire", f"proposal:{made.id}")]


async def test_a_long_list_goes_in_bounded_parts(
    rt: Runtime, context: Context, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MOST", 2)
    at = clock()
    await put(context, *(candidate(at, f"tea {number}") for number in range(3)))
    for number in range(3):
        await save(rt, context, f"coffee {number}", key=f"drink_{number}", ends=at + timedelta(days=1))
    clock.forward(days=31)
    found = [await sweep(rt, context) for _ in range(3)]
    assert [swept.proposals for swept in found] == [2, 1, 0]
    assert [swept.ended for swept in found] == [2, 1, 0]


async def save(rt: Runtime, context: Context, value: str, *, ends: datetime | None, key: str = "topic_now") -> Row:
    """A fact in use, with an end of its own."""
    said = [{"entity": {"type": "person", "name": "Mara"}, "key": key, "value": value}]
    request = Remember(infer=Infer.TRIPLES, triples=parse_triples(said, anchor=rt.clock()))
    done = await remember(rt, context, caller(), request)
    assert done.extraction is not None
    ref = f"attribute:{done.extraction.facts[0].id}"
    batch = Batch(at=rt.clock())
    batch.patch(store_facts.record_id(ref), expires_at=ends)
    await context.commit(batch)
    return await stands(context, ref)


async def stands(context: Context, ref: str) -> Row:
    return (await store_facts.by_refs(context.db, context.sets, [ref], context.sets.everything()))[ref]


async def test_a7_what_has_an_end_is_out_of_use_then_and_forgotten_a_month_later(
    rt: Runtime, context: Context, clock: HandClock
) -> None:
    row = await save(rt, context, CANARY, ends=clock() + timedelta(days=10))
    ref = f"attribute:{row.id}"
    assert (await recall(rt, context, caller(), Recall(query=CANARY))).hits
    clock.forward(days=11)
    assert (await sweep(rt, context)).ended == 1
    after = await stands(context, ref)
    assert (after.control.status, after.control.status_by, after.control.status_reason) == (
        Status.EXPIRED,
        "sweep",
        "sweep:ttl",
    )
    assert after.control.rev == row.control.rev + 1
    assert not (await recall(rt, context, caller(), Recall(query=CANARY))).hits
    clock.forward(seconds=(RENEWABLE - timedelta(hours=2)).total_seconds())
    assert (await sweep(rt, context)).forgotten == 0
    assert CANARY in await everything(context)
    clock.forward(hours=4)
    assert (await sweep(rt, context)).forgotten == 1
    assert CANARY not in await everything(context)
    assert await audited(context) == [("sweep", "memory.expire", ref), ("sweep", "memory.forget", ref)]


async def test_a7_what_ended_is_renewed_once_by_its_person(rt: Runtime, clock: HandClock) -> None:
    at = await people(rt)
    saved = (await memories.save(rt, at.context, at.owner, memories.Save(kind="event", text=CANARY))).memory
    assert saved is not None
    clock.forward(days=91)
    assert (await sweep(rt, at.context)).ended == 1
    assert not (await recall(rt, at.context, at.agent, Recall(query=CANARY))).hits
    renewed = await memories.renew(rt, at.context, at.owner, saved.id)
    assert renewed.status is Status.CONFIRMED
    assert (await recall(rt, at.context, at.agent, Recall(query=CANARY))).hits
    with pytest.raises(IllegalTransition):
        await memories.renew(rt, at.context, at.owner, saved.id)
    clock.forward(days=91)
    assert (await sweep(rt, at.context)).ended == 1
    made = [action for _, action, _ in await audited(at.context)]
    assert made[-4:] == ["memory.expire", "memory.renew", "denied.memory.renew", "memory.expire"]


async def test_rows_without_an_end_stay(rt: Runtime, context: Context, clock: HandClock) -> None:
    row = await save(rt, context, CANARY, ends=None)
    clock.forward(days=4000)
    swept = await sweep(rt, context)
    assert (swept.ended, swept.forgotten) == (0, 0)
    assert (await stands(context, f"attribute:{row.id}")).control.status is Status.CONFIRMED


async def test_rows_are_looked_through_once_an_hour(rt: Runtime, context: Context, clock: HandClock) -> None:
    await save(rt, context, CANARY, ends=clock() + timedelta(minutes=30))
    assert (await sweep(rt, context)).ended == 0
    clock.forward(minutes=59)
    assert (await sweep(rt, context)).ended == 0
    clock.forward(minutes=2)
    assert (await sweep(rt, context)).ended == 1


async def test_what_was_renewed_meanwhile_is_not_forgotten(rt: Runtime, context: Context, clock: HandClock) -> None:
    row = await save(rt, context, CANARY, ends=clock() + timedelta(days=1))
    ref = f"attribute:{row.id}"
    clock.forward(days=2)
    await sweep(rt, context)
    batch = Batch(at=clock())
    batch.patch(store_facts.record_id(ref), status="confirmed", expires_at=None)
    await context.commit(batch)
    assert await erase.forget_ended(rt, context, [ref], by="sweep") == 0
    assert (await stands(context, ref)).control.status is Status.CONFIRMED


async def test_upkeep_sweeps(rt: Runtime, context: Context, clock: HandClock) -> None:
    made = candidate(clock(), CANARY)
    await put(context, made)
    clock.forward(days=31)
    await upkeep.keep_up(rt)
    assert await status_of(context, made.id) is Status.EXPIRED
