"""Memories as people and agents handle them: saved, decided about, changed, deleted, brought back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio

from keeps.core.access import Caller, Principal, PrincipalId, PrincipalKind, Role
from keeps.core.errors import (
    Conflict,
    Forbidden,
    Gone,
    IllegalTransition,
    KeepsError,
    NotFound,
    StaleRevision,
    Unprocessable,
)
from keeps.core.facts import Origin, Status
from keeps.core.memories import Memory, OnConflict
from keeps.core.pages import PageRequest
from keeps.core.policy import Drop, Preset
from keeps.core.runs import Candidate, Inclusion, Reason, Uses
from keeps.core.scopes import parse_scopes
from keeps.core.settings import of_preset
from keeps.core.status import TRANSITIONS, Move
from keeps.services import access, contexts, memories, runs
from keeps.services.erase import Forget, forget, forget_scope
from keeps.services.memories import Edit, ListMemories, Save
from keeps.services.runs import Offer
from keeps.services.runtime import Context, Runtime
from keeps.store import audit as store_audit
from keeps.store import proposals as store_proposals
from keeps.store import tables as store_tables
from keeps.store.commit import Batch
from keeps.store.db import RecordID
from tests.services.conftest import HandClock
from tests.services.saying import fact, say


@dataclass(frozen=True)
class Home:
    """A context that asks, with its owner and their agent."""

    rt: Runtime
    context: Context
    owner: Caller
    agent: Caller

    async def save(self, text: str, **more: Any) -> Memory:
        done = await memories.save(self.rt, self.context, self.owner, Save(kind="note", text=text, **more))
        assert done.memory is not None
        return done.memory

    async def propose(self, text: str, kind: str = "preference", **more: Any) -> Memory:
        done = await memories.save(self.rt, self.context, self.agent, Save(kind=kind, text=text, **more))
        assert done.memory is not None, done.dropped
        return done.memory

    async def get(self, memory_id: str, who: Caller | None = None) -> Memory:
        return await memories.get(self.rt, self.context, who or self.owner, memory_id)

    async def listed(self, who: Caller | None = None, **more: Any) -> list[str | None]:
        page = await memories.list_(self.rt, self.context, who or self.owner, ListMemories(**more))
        return [memory.text for memory in page.rows]

    async def texts(self) -> str:
        """Everything the record holds, of every table, as one text."""
        said: list[str] = []
        for table in await store_tables.tables(self.context.db):
            async for rows in store_tables.pages(self.context.db, table):
                said += map(str, rows)
        return "\n".join(said)

    async def audited(self) -> list[tuple[str, str, str]]:
        rows = await self.context.db.run("SELECT * FROM audit ORDER BY id;")
        entries = [store_audit.from_row(row).entry for row in rows[0]]
        return [(entry.actor, entry.action, entry.target) for entry in entries if "memory." in entry.action]

    def act(self, move: str, memory_id: str, who: Caller | None = None, **more: Any) -> Awaitable[Memory]:
        return getattr(memories, move)(self.rt, self.context, who or self.owner, memory_id, **more)


@pytest_asyncio.fixture
async def home(rt: Runtime) -> Home:
    made = await contexts.bootstrap(rt, "consent", policy="deliberate")
    owner = await access.authenticate(rt, "consent", made.owner_key, None)
    agent = await access.authenticate(rt, "consent", made.agent_key, None)
    return Home(rt, owner.context, owner.caller, agent.caller)


async def outcome(act: Awaitable[Memory]) -> type[KeepsError] | None:
    try:
        await act
    except KeepsError as error:
        return type(error)
    return None


# ---------------------------------------------------------------------- saving
async def test_a1_what_a_person_saves_is_confirmed_and_theirs(home: Home) -> None:
    memory = await home.save("Studying patience", source="sheet")
    control = memory.row.control if memory.row else None
    assert control is not None
    assert (memory.status, control.origin, control.user_confirmed, memory.rev) == (
        Status.CONFIRMED,
        Origin.USER_SAVED,
        True,
        1,
    )
    assert memory.row is not None
    assert memory.row.source.kind == "sheet"
    assert (memory.text, memory.slot, memory.row.summary) == ("Studying patience", None, "Studying patience")
    assert await home.audited() == [("owner", "memory.save", memory.ref)]


async def test_a2_what_an_agent_saves_waits_and_only_it_and_the_person_know(home: Home) -> None:
    memory = await home.propose("Prefers short answers")
    assert memory.status is Status.PROPOSED
    assert await home.listed() == ["Prefers short answers"]
    assert await home.listed(home.agent) == []
    assert (await home.get(memory.id, home.agent)).status is Status.PROPOSED
    other = replace(home.agent, principal=replace(home.agent.principal, id=PrincipalId("other")))
    with pytest.raises(NotFound):
        await home.get(memory.id, other)


async def test_kinds_slots_and_lengths_are_checked(home: Home) -> None:
    for bad in (
        Save(kind="rumour", text="x"),
        Save(kind="topic", text="x" * 121),
        Save(kind="note", text="x", slot="My Slot"),
        Save(kind="note", text="x", slot="note_x"),
        Save(kind="note", text="x", slot="s" * 65),
    ):
        with pytest.raises(Unprocessable):
            await memories.save(home.rt, home.context, home.owner, bad)
    kept = await memories.save(home.rt, home.context, home.owner, Save(kind="topic", text="x" * 120))
    assert kept.memory is not None
    assert kept.memory.row is not None
    ends = kept.memory.row.control.expires_at
    assert ends is not None
    assert ends - kept.memory.row.clocks.recorded_at == timedelta(days=180)


async def test_a8_the_same_slot_again_replaces_the_value_and_keeps_it_in_the_history(home: Home) -> None:
    old = await home.save("ESV", slot="preferred_translation")
    new = await home.save("KJV", slot="preferred_translation")
    assert await home.listed(slot="preferred_translation") == ["KJV"]
    versions = await memories.history(home.rt, home.context, home.owner, old.id)
    assert [(one.id, one.status) for one in versions] == [(new.id, Status.CONFIRMED), (old.id, Status.SUPERSEDED)]
    assert versions[1].row is not None
    assert versions[1].row.clocks.valid_until is not None


async def test_a17_twenty_saves_to_one_slot_leave_one_value_and_the_others_in_its_history(home: Home) -> None:
    saved = await asyncio.gather(*(home.save(f"value {n}", slot="favourite") for n in range(20)))
    versions = await memories.history(home.rt, home.context, home.owner, saved[0].id)
    assert [one.status for one in versions] == [Status.CONFIRMED, *[Status.SUPERSEDED] * 19]
    assert {one.text for one in versions} == {f"value {n}" for n in range(20)}
    assert len(await home.listed(slot="favourite")) == 1


# ---------------------------------------------------------------------- deciding
async def test_a3_no_agent_confirms_what_it_proposed_whatever_it_holds(home: Home) -> None:
    memory = await home.propose("Prefers short answers")
    mighty = replace(
        home.agent, principal=replace(home.agent.principal, grants=home.owner.principal.grants, roles=frozenset(Role))
    )
    behalf = replace(home.owner, target=home.owner.principal)
    service = replace(mighty, principal=replace(mighty.principal, kind=PrincipalKind.SERVICE))
    for who in (home.agent, mighty, service, replace(mighty, target=mighty.principal)):
        assert await outcome(home.act("confirm", memory.id, who)) is Forbidden
    assert await outcome(home.act("confirm", memory.id, behalf)) in (Forbidden, NotFound)
    assert (await home.get(memory.id)).status is Status.PROPOSED
    assert ("agent", "denied.memory.confirm", memory.ref) in await home.audited()


async def test_a5_what_is_confirmed_is_kept_under_its_id_and_what_is_rejected_says_nothing_any_more(
    home: Home,
) -> None:
    kept, gone = await home.propose("Prefers short answers"), await home.propose("Has a zebrafinch named Canary")
    confirmed = await home.act("confirm", kept.id)
    assert (confirmed.id, confirmed.status, confirmed.text) == (kept.id, Status.CONFIRMED, "Prefers short answers")
    assert confirmed.row is not None
    control = confirmed.row.control
    assert (control.origin, control.user_confirmed, control.confirmed_by) == (Origin.USER_CONFIRMED, True, "owner")
    assert await home.listed(home.agent) == ["Prefers short answers"]
    rejected = await home.act("reject", gone.id)
    assert (rejected.status, rejected.text) == (Status.REJECTED, None)
    texts = await home.texts()
    assert "short answers" in texts
    assert "zebrafinch" not in texts
    assert "Canary" not in texts
    stub = await store_proposals.find(home.context.db, home.context.sets, kept.id)
    assert stub is not None
    assert (stub.status, stub.row) == (Status.CONFIRMED, None)


async def test_a6_what_was_rejected_is_not_proposed_again_and_a_person_may_still_save_it(home: Home) -> None:
    gone = await home.propose("Crème brûlée is a weakness of theirs")
    await home.act("reject", gone.id)
    for again in ("CRÈME BRÛLÉE IS  A WEAKNESS OF THEIRS.", "Cre\u0300me bru\u0302le\u0301e is a weakness of theirs"):
        done = await memories.save(home.rt, home.context, home.agent, Save(kind="preference", text=again))
        assert done.memory is None
        assert done.dropped is not None
        assert done.dropped.why is Drop.SUPPRESSED
    assert await home.listed() == []
    await home.save("Crème brûlée is a weakness of theirs")
    assert len(await home.listed()) == 1


async def test_a9_an_agents_other_value_for_a_slot_of_the_person_waits_and_the_person_chooses(home: Home) -> None:
    await home.save("Mill Bakery", slot="works_for")
    first = await home.propose("Orchard", kind="fact", slot="works_for")
    assert first.proposal is not None
    assert first.proposal.conflicts_with is not None
    assert await home.listed(slot="works_for", status=Status.CONFIRMED) == ["Mill Bakery"]
    await home.act("confirm", first.id, on_conflict=OnConflict.KEEP_BOTH)
    kept = await home.listed(status=Status.CONFIRMED)
    assert sorted(map(str, kept)) == ["Mill Bakery", "Orchard"]
    second = await home.propose("Harbour", kind="fact", slot="works_for")
    await home.act("confirm", second.id)
    assert await home.listed(slot="works_for", status=Status.CONFIRMED) == ["Harbour"]


async def test_a_proposal_is_kept_in_other_words_as_the_persons_own(home: Home) -> None:
    memory = await home.propose("Likes tea")
    kept = await home.act("confirm", memory.id, text="Likes green tea, without sugar")
    assert kept.row is not None
    assert (kept.text, kept.row.control.origin) == ("Likes green tea, without sugar", Origin.USER_SAVED)


async def test_an_agent_withdraws_what_it_proposed_and_nothing_else(home: Home) -> None:
    memory = await home.propose("Likes tea")
    assert await outcome(home.act("withdraw", memory.id)) is Forbidden
    assert (await home.act("withdraw", memory.id, home.agent)).status is Status.REJECTED
    assert "Likes tea" not in await home.texts()
    # It was not the person who refused it: it may be proposed again.
    assert (await home.propose("Likes tea")).status is Status.PROPOSED


async def test_what_is_held_back_is_released_and_then_confirmed(home: Home) -> None:
    memory = await home.propose("Likes tea")
    held = await store_proposals.find(home.context.db, home.context.sets, memory.id)
    assert held is not None
    row = store_proposals.to_row(replace(held, status=Status.QUARANTINED, reasons=("imperative",)))
    batch = Batch(at=home.rt.clock())
    batch.puts.append({"id": row.pop("id"), "row": row})
    await home.context.commit(batch)
    assert await outcome(home.act("confirm", memory.id)) is IllegalTransition
    assert (await home.act("release", memory.id)).status is Status.PROPOSED
    assert (await home.act("confirm", memory.id)).status is Status.CONFIRMED


async def test_a11_of_twenty_who_decide_at_once_exactly_one_does(home: Home) -> None:
    memory = await home.propose("Prefers short answers")
    moves = ["confirm", "reject", "delete", "withdraw"] * 5
    who = [home.agent if move == "withdraw" else home.owner for move in moves]
    done = await asyncio.gather(*(outcome(home.act(m, memory.id, w)) for m, w in zip(moves, who, strict=True)))
    others = {error for error in done if error is not None}
    # A confirmed one may still be deleted: that is a second move, of what the first one left.
    won = [action for _, action, _ in await home.audited() if action in WON]
    assert done.count(None) == len(won)
    assert won[0] == "memory.confirm" or len(won) == 1
    assert len(won) <= 2
    assert others <= {IllegalTransition, NotFound, StaleRevision, Forbidden}


WON = {"memory.confirm", "memory.reject", "memory.forget", "memory.withdraw"}


async def test_a11_of_twenty_with_the_revision_they_read_exactly_one_moves(home: Home) -> None:
    memory = await home.propose("Prefers short answers")
    moves = ["confirm", "reject"] * 10
    done = await asyncio.gather(*(outcome(home.act(m, memory.id, rev=memory.rev)) for m in moves))
    assert done.count(None) == 1
    assert set(done) - {None} <= {IllegalTransition, StaleRevision}
    assert len([a for _, a, _ in await home.audited() if a in ("memory.confirm", "memory.reject")]) == 1


# ---------------------------------------------------------------------- every move
async def standing_at(home: Home, status: Status) -> str:
    """The id of a memory that stands there."""
    if status is Status.CONFIRMED:
        return (await home.save("Keeps bees", slot="town")).id
    if status is Status.SUPERSEDED:
        old = await home.save("Keeps bees", slot="town")
        await home.save("Keeps hens", slot="town")
        return old.id
    if status is Status.EXPIRED:
        memory = await home.save("Keeps bees")
        return (await home.act("retire", memory.id)).id
    if status is Status.FORGOTTEN:
        memory = await home.save("Keeps bees")
        return (await home.act("delete", memory.id)).id
    memory = await home.propose("Keeps bees")
    if status is Status.REJECTED:
        await home.act("reject", memory.id)
    return memory.id


MOVES: Sequence[tuple[str, Move]] = (
    ("confirm", Move.CONFIRM),
    ("reject", Move.REJECT),
    ("release", Move.RELEASE),
    ("renew", Move.RENEW),
    ("retire", Move.RETIRE),
)
REACHED = (Status.CONFIRMED, Status.SUPERSEDED, Status.EXPIRED, Status.PROPOSED, Status.REJECTED, Status.FORGOTTEN)


@pytest.mark.parametrize("status", REACHED)
async def test_a10_every_move_that_is_not_in_the_table_is_refused_and_changes_nothing(
    home: Home, status: Status
) -> None:
    memory_id = await standing_at(home, status)
    for name, move in MOVES:
        if (move, status) in TRANSITIONS:
            continue
        before = await home.texts() if status is not Status.FORGOTTEN else ""
        expected = NotFound if status is Status.FORGOTTEN else IllegalTransition
        assert await outcome(home.act(name, memory_id)) is expected, (name, status)
        if status is not Status.FORGOTTEN:
            assert (await home.get(memory_id)).status is status
            assert f"denied.memory.{move}" in await home.texts()
            assert len(before) < len(await home.texts())


# ---------------------------------------------------------------------- what is kept
async def test_an_edit_is_a_new_version_and_a_stale_revision_changes_nothing(home: Home) -> None:
    memory = await home.save("Works at Mill Bakery", slot="work")
    with pytest.raises(StaleRevision):
        await home.act("edit", memory.id, change=Edit(text="x"), rev=7)
    changed = await home.act("edit", memory.id, change=Edit(text="Works at Orchard"), rev=1)
    assert changed.id != memory.id
    assert await home.listed() == ["Works at Orchard"]
    versions = await memories.history(home.rt, home.context, home.owner, changed.id)
    assert [one.text for one in versions] == ["Works at Orchard", "Works at Mill Bakery"]


async def test_what_people_decide_about_a_memory_stays_on_the_same_version(home: Home) -> None:
    memory = await home.save("Keeps bees")
    muted = await home.act("edit", memory.id, change=Edit(muted=True, pinned=True, kind="fact"), rev=1)
    assert (muted.id, muted.rev, muted.kind) == (memory.id, 2, "fact")
    assert await home.listed(home.agent) == []
    written = await home.act("edit", memory.id, change=Edit(text="keeps BEES", muted=False))
    assert (written.id, written.rev, written.text) == (memory.id, 3, "keeps BEES")
    assert await home.listed(home.agent) == ["keeps BEES"]
    assert await outcome(home.act("edit", memory.id, home.agent, change=Edit(muted=True))) is Forbidden


async def test_at_most_five_memories_of_a_scope_are_pinned(home: Home) -> None:
    kept = [await home.save(f"note number {n}") for n in range(6)]
    for memory in kept[:5]:
        await home.act("edit", memory.id, change=Edit(pinned=True))
    with pytest.raises(Conflict):
        await home.act("edit", kept[5].id, change=Edit(pinned=True))
    await home.act("edit", kept[0].id, change=Edit(pinned=False))
    assert (await home.act("edit", kept[5].id, change=Edit(pinned=True))).rev == 2


async def test_at_most_five_are_pinned_also_when_many_are_at_once(home: Home) -> None:
    saids = [
        await say(home.rt, home.context, home.owner, fact("tool", "saw", f"shed {n}"), scopes="user/owner")
        for n in range(12)
    ]
    kept = [said.extraction.facts[0] for said in saids if said.extraction is not None]
    pinned = (memories.edit(home.rt, home.context, home.owner, one.id, Edit(pinned=True)) for one in kept)
    done = await asyncio.gather(*pinned, return_exceptions=True)
    assert sum(isinstance(one, Conflict) for one in done) == 7
    rows = [await home.get(one.id) for one in kept]
    assert sum(one.row is not None and one.row.control.pinned for one in rows) == 5


async def test_a7_what_expired_is_out_of_use_until_it_is_renewed_once(home: Home, clock: HandClock) -> None:
    memory = await home.save("Keeps bees")
    soon = clock() + timedelta(days=1)
    await home.act("edit", memory.id, change=Edit(expires_at=soon))
    clock.forward(days=2)
    assert (await home.get(memory.id)).status is Status.EXPIRED
    assert await home.listed(home.agent) == []
    expired = await memories.expire(home.rt, home.context, memory.id)
    assert expired is not None
    assert await memories.expire(home.rt, home.context, memory.id) is None
    renewed = await home.act("renew", memory.id)
    assert (renewed.status, await home.listed(home.agent)) == (Status.CONFIRMED, ["Keeps bees"])
    assert await outcome(home.act("renew", memory.id)) is IllegalTransition
    assert ("sweep", "memory.expire", memory.ref) in await home.audited()


async def test_a7_what_nobody_decided_about_in_time_loses_its_text(home: Home, clock: HandClock) -> None:
    memory = await home.propose("Keeps bees")
    assert await memories.expire_waiting(home.rt, home.context, limit=10) == 0
    clock.forward(days=31)
    assert await memories.expire_waiting(home.rt, home.context, limit=10) == 1
    expired = await home.get(memory.id)
    assert (expired.status, expired.text) == (Status.EXPIRED, None)
    assert "Keeps bees" not in await home.texts()
    assert await outcome(home.act("renew", memory.id)) is IllegalTransition


async def test_an_agent_that_retires_what_the_person_said_asks_first(home: Home) -> None:
    memory = await home.save("Keeps bees")
    question = await home.act("retire", memory.id, home.agent)
    assert question.proposal is not None
    assert question.proposal.conflicts_with == memory.ref
    again = await home.act("retire", memory.id, home.agent)
    assert again.id == question.id
    assert (await home.get(memory.id)).status is Status.CONFIRMED
    assert (await home.act("confirm", question.id)).status is Status.EXPIRED
    assert (await home.get(memory.id)).status is Status.EXPIRED


async def test_to_say_no_to_retiring_keeps_the_memory_in_use(home: Home) -> None:
    memory = await home.save("Keeps bees")
    question = await home.act("retire", memory.id, home.agent)
    await home.act("reject", question.id)
    assert await home.listed(home.agent) == ["Keeps bees"]


# ---------------------------------------------------------------------- deleting
async def test_c1_a_deleted_memory_is_gone_with_its_history_from_everything_that_reads(home: Home) -> None:
    old = await home.save("Zanzibar", slot="canary")
    new = await home.save("Zimbabwe", slot="canary")
    gone = await home.act("delete", new.id)
    assert gone.text is None
    assert gone.undo_until is not None
    for memory_id in (old.id, new.id):
        with pytest.raises(NotFound):
            await home.get(memory_id)
    assert await home.listed() == []
    tables = [table for table in await store_tables.tables(home.context.db) if table.name != "sealed"]
    for table in tables:
        async for rows in store_tables.pages(home.context.db, table):
            assert "Z" + "anzibar" not in str(rows), table.name
            assert "Zimbabwe" not in str(rows), table.name
    hits = await home.context.finder.find("Zimbabwe Zanzibar", home.context.sets.everything())
    assert list(hits) == []


async def test_c14_a_deletion_is_undone_within_its_time_and_the_chain_is_as_before(
    home: Home, clock: HandClock
) -> None:
    old = await home.save("Zanzibar", slot="canary")
    new = await home.save("Zimbabwe", slot="canary")
    before = await memories.history(home.rt, home.context, home.owner, new.id)
    await home.act("delete", new.id)
    clock.forward(seconds=9)
    back = await home.act("undo", new.id)
    assert (back.id, back.rev, back.text) == (new.id, new.rev, "Zimbabwe")
    assert await memories.history(home.rt, home.context, home.owner, old.id) == before
    assert [hit.ref for hit in await home.context.finder.find("Zimbabwe", home.context.sets.everything())] == [new.ref]
    # The chain works on: the next value takes its place.
    await home.save("Zagreb", slot="canary")
    assert await home.listed() == ["Zagreb"]


async def test_c14_after_its_time_a_deletion_is_final(home: Home, clock: HandClock) -> None:
    memory = await home.save("Zanzibar")
    await home.act("delete", memory.id)
    clock.forward(seconds=11)
    with pytest.raises(Gone):
        await home.act("undo", memory.id)
    seq = home.rt.ledger.head[0]
    assert await memories.finish_deletions(home.rt, home.context) == 1
    assert home.rt.ledger.head[0] > seq
    assert "Zanzibar" not in await home.texts()
    with pytest.raises(Gone):
        await home.act("undo", memory.id)
    assert await memories.finish_deletions(home.rt, home.context) == 0
    clock.forward(days=2)
    await memories.finish_deletions(home.rt, home.context)
    with pytest.raises(NotFound):
        await home.act("undo", memory.id)


async def test_c14_only_the_key_that_deleted_undoes(home: Home) -> None:
    memory = await home.save("Zanzibar")
    await home.act("delete", memory.id)
    other = replace(home.owner, key_id=home.agent.key_id)
    for who in (other, home.agent):
        with pytest.raises(NotFound):
            await home.act("undo", memory.id, who)
    assert (await home.act("undo", memory.id)).text == "Zanzibar"


async def test_an_undo_does_not_push_out_what_was_saved_meanwhile(home: Home) -> None:
    memory = await home.save("Zanzibar", slot="canary")
    await home.act("delete", memory.id)
    await home.save("Zagreb", slot="canary")
    with pytest.raises(Conflict):
        await home.act("undo", memory.id)
    assert await home.listed() == ["Zagreb"]


async def test_what_a_person_deleted_is_not_learned_again(home: Home) -> None:
    memory = await home.save("Lives in a lighthouse by the sea")
    await home.act("delete", memory.id)
    done = await memories.save(
        home.rt, home.context, home.agent, Save(kind="note", text="lives in a LIGHTHOUSE by the sea")
    )
    assert done.dropped is not None
    assert done.dropped.why is Drop.SUPPRESSED
    await home.act("undo", memory.id)
    assert await home.listed() == ["Lives in a lighthouse by the sea"]


async def test_an_agent_deletes_nothing_for_good(home: Home) -> None:
    memory = await home.save("Zanzibar")
    assert await outcome(home.act("delete", memory.id, home.agent)) is Forbidden
    assert await home.listed() == ["Zanzibar"]


# ---------------------------------------------------------------------- looking
async def test_lists_are_newest_first_in_parts_over_all_that_is_kept_and_waits(home: Home) -> None:
    said = []
    for number in range(4):
        await home.save(f"saved {number}")
        await home.propose(f"proposed number {number}")
        said += [f"saved {number}", f"proposed number {number}"]
    seen: list[str | None] = []
    after = None
    while True:
        page = await memories.list_(
            home.rt, home.context, home.owner, ListMemories(page=PageRequest(limit=3, after=after))
        )
        seen += [memory.text for memory in page.rows]
        after = page.next
        if after is None:
            break
    assert seen == said[::-1]
    assert await home.listed(status=Status.PROPOSED, words="NUMBER 2") == ["proposed number 2"]
    assert await home.listed(kind="note", words="saved 1") == ["saved 1"]
    assert len(await home.listed(agent="agent")) == 4


async def test_a_curator_decides_about_what_is_shared_and_an_admin_about_nobodys_own(home: Home) -> None:
    scope = parse_scopes("team/design")
    assert scope is not None
    done = await memories.save(
        home.rt,
        home.context,
        replace(home.agent, principal=replace(home.agent.principal, grants=home.owner.principal.grants)),
        Save(kind="fact", text="The team meets on Mondays", scope=scope),
    )
    assert done.memory is not None
    member = Principal(
        id=PrincipalId("member"),
        display_name="Member",
        kind=PrincipalKind.HUMAN,
        grants=home.owner.principal.grants,
        roles=frozenset({Role.ADMIN}),
    )
    admin = replace(home.owner, principal=member)
    curator = replace(admin, principal=replace(member, roles=frozenset({Role.CURATOR})))
    assert await outcome(home.act("confirm", done.memory.id, admin)) is Forbidden
    own = await home.propose("Keeps bees")
    assert await outcome(home.act("confirm", own.id, admin)) is Forbidden
    assert await outcome(home.act("confirm", own.id, curator)) is NotFound
    kept = await home.act("confirm", done.memory.id, curator)
    assert kept.row is not None
    assert kept.row.control.confirmed_by == "member"


async def test_people_are_told_how_often_a_memory_was_used_and_agents_are_not(home: Home) -> None:
    memory = await home.save("Studying patience")
    assert (await home.get(memory.id)).uses == Uses()
    given = Candidate(
        memory=memory.ref,
        rank=1,
        reason=Reason.KEYWORD,
        score=0.5,
        inclusion=Inclusion.INCLUDED,
        origin="user_saved",
    )
    for _ in range(2):
        offer = Offer(candidates=(given,), tokens=5, latency_ms=1)
        await runs.offer(home.rt, home.context, home.agent, None, offer)
    waiting = await home.propose("Prefers short answers")
    (seen,) = [
        each
        for each in (await memories.list_(home.rt, home.context, home.owner, ListMemories())).rows
        if each.id == memory.id
    ]
    assert seen.uses is not None
    assert (seen.uses.offered, seen.uses.cited, seen.uses.last_by) == (2, 0, "agent")
    assert (await home.get(memory.id)).uses == seen.uses
    assert (await home.get(waiting.id)).uses is None
    assert (await home.get(memory.id, home.agent)).uses is None
    (told,) = (await memories.list_(home.rt, home.context, home.agent, ListMemories())).rows
    assert told.uses is None


# ---------------------------------------------------------------------- after a crash, and a restore
async def test_a_deletion_that_a_crash_left_open_is_final_once_the_record_is_opened_again(
    home: Home, clock: HandClock
) -> None:
    memory = await home.save("Zanzibar", slot="canary")
    await home.act("delete", memory.id)
    assert "Zanzibar" in await home.texts()
    await home.rt.forget_context("consent")
    clock.forward(seconds=11)
    opened = replace(home, context=await home.rt.context("consent"))
    assert "Zanzibar" not in await opened.texts()


async def test_a_record_put_back_as_it_was_before_a_deletion_does_not_bring_it_back(
    home: Home, clock: HandClock
) -> None:
    memory = await home.save("Zanzibar", slot="canary")
    before = await _rows(home)
    await home.act("delete", memory.id)
    clock.forward(seconds=11)
    await memories.finish_deletions(home.rt, home.context)
    batch = Batch(at=home.rt.clock())
    batch.puts += [{"id": row.pop("id"), "row": row} for row in before]
    batch.patch(RecordID("meta", "state"), tombstone=0)
    await home.context.commit(batch)
    assert "Zanzibar" in await home.texts()
    await home.rt.replay(home.context)
    assert "Zanzibar" not in await home.texts()


async def _rows(home: Home) -> list[dict[str, Any]]:
    """The rows that hold what was saved."""
    found: list[dict[str, Any]] = []
    for name in ("attribute", "turn", "chain", "entity"):
        rows = await home.context.db.run("SELECT * FROM type::table($name);", name=name)
        found += [dict(row) for row in rows[0]]
    return found


async def test_forgetting_a_scope_takes_what_could_still_be_brought_back_from_it(home: Home) -> None:
    memory = await home.save("Zanzibar")
    await home.act("delete", memory.id)
    await forget_scope(home.rt, home.context, home.owner, "user/owner")
    assert "Zanzibar" not in await home.texts()
    assert await outcome(home.act("undo", memory.id)) is NotFound


async def test_what_a_person_forgets_by_its_words_is_not_learned_again(home: Home) -> None:
    await home.save("Lives in a lighthouse by the sea")
    await forget(home.rt, home.context, home.owner, Forget(query="Lives in a lighthouse by the sea"))
    again = Save(kind="note", text="lives in a lighthouse BY THE SEA")
    done = await memories.save(home.rt, home.context, home.agent, again)
    assert done.dropped is not None
    assert done.dropped.why is Drop.SUPPRESSED


async def test_what_an_agent_forgets_may_be_learned_again(home: Home) -> None:
    memory = await home.propose("Lives in a lighthouse by the sea")
    await home.act("confirm", memory.id)
    asking = home.context.consent.settings
    home.context.consent.settings = of_preset(Preset.AUTOMATIC)
    await forget(home.rt, home.context, home.agent, Forget(ids=(memory.ref.replace("proposal", "attribute"),)))
    home.context.consent.settings = asking
    assert (await home.propose("Lives in a lighthouse by the sea")).status is Status.PROPOSED


async def test_a_proposal_forgotten_by_its_words_says_nothing_any_more(home: Home) -> None:
    await home.propose("Lives in a lighthouse by the sea")
    await forget(home.rt, home.context, home.owner, Forget(query="Lives in a lighthouse by the sea"))
    assert "lighthouse" not in await home.texts()


async def test_what_is_kept_in_other_words_is_looked_through_as_those_words(home: Home) -> None:
    waiting = await home.propose("likes long walks")
    kept = await home.act("confirm", waiting.id, text="was told by the doctor that the asthma is back")
    assert kept.row is not None
    assert "health" in kept.row.control.topics
