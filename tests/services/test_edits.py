"""A correction leaves exactly one of two values in force, whatever its key holds."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import pytest_asyncio

from keeps.core.access import Caller
from keeps.core.errors import Forbidden, IllegalTransition, KeepsError
from keeps.core.facts import Category, Fact, Status
from keeps.core.inbox import Choice
from keeps.core.memories import Memory
from keeps.services import access, contexts, memories
from keeps.services.erase import Forget, forget
from keeps.services.inbox import Decision, decide
from keeps.services.memories import Edit
from keeps.services.recall import Recall, recall
from keeps.services.runtime import Context, Runtime
from keeps.store import checks
from tests.services.conftest import HandClock
from tests.services.saying import fact, say


@dataclass(frozen=True)
class Home:
    """A context that asks, with its owner and their agent."""

    rt: Runtime
    context: Context
    owner: Caller
    agent: Caller

    async def said(self, key: str, value: str, category: Category | None = None) -> Fact:
        done = await say(self.rt, self.context, self.owner, fact(key, value), scopes="user/owner", category=category)
        assert done.extraction is not None
        return done.extraction.facts[0]

    async def edit(self, memory_id: str, text: str) -> Memory:
        return await memories.edit(self.rt, self.context, self.owner, memory_id, Edit(text=text))

    async def history(self, memory_id: str) -> list[tuple[str | None, Status]]:
        found = await memories.history(self.rt, self.context, self.owner, memory_id)
        return sorted((one.text, one.status) for one in found)

    async def get(self, memory_id: str) -> Fact:
        row = (await memories.get(self.rt, self.context, self.owner, memory_id)).row
        assert isinstance(row, Fact)
        return row

    async def recalled(self, query: str) -> set[str]:
        found = await recall(self.rt, self.context, self.owner, Recall(query=query))
        return {hit.row.value for hit in found.hits if isinstance(hit.row, Fact)}


@pytest_asyncio.fixture
async def home(rt: Runtime) -> Home:
    made = await contexts.bootstrap(rt, "consent", policy="deliberate")
    owner = await access.authenticate(rt, "consent", made.owner_key, None)
    agent = await access.authenticate(rt, "consent", made.agent_key, None)
    return Home(rt, owner.context, owner.caller, agent.caller)


@pytest.mark.parametrize(
    ("key", "category"), [("likes", None), ("role", None), ("likes", Category.CONTEXT), ("role", Category.CONTEXT)]
)
async def test_after_an_edit_only_the_new_words_stand_whatever_the_key_holds(
    home: Home, clock: HandClock, key: str, category: Category | None
) -> None:
    old = await home.said(key, "rye bread", category)
    clock.forward(minutes=1)
    new = await home.edit(old.id, "spelt bread")
    before, after = await home.get(old.id), await home.get(new.id)
    assert (before.superseded_by, before.control.status, before.clocks.valid_until) == (
        after.id,
        Status.SUPERSEDED,
        after.clocks.valid_from,
    )
    assert (after.supersedes, after.control.status, after.clocks.valid_until is None) == (
        old.id,
        Status.CONFIRMED,
        category is None,
    )
    assert await home.recalled(f"Mara {key} bread") == {"spelt bread"}
    both = [("rye bread", Status.SUPERSEDED), ("spelt bread", Status.CONFIRMED)]
    assert (await home.history(new.id), await home.history(old.id)) == (both, both)
    assert await checks.chains(home.context.db) == []


async def test_an_edit_leaves_what_else_the_key_holds(home: Home) -> None:
    rye, tea = await home.said("likes", "rye bread"), await home.said("likes", "tea")
    await home.edit(rye.id, "spelt bread")
    assert (await home.get(tea.id)).control.status is Status.CONFIRMED
    assert await home.recalled("What does Mara like?") == {"spelt bread", "tea"}


async def test_an_edit_into_what_stands_already_closes_the_old_one_and_says_it_once(home: Home) -> None:
    rye, spelt = await home.said("likes", "rye bread"), await home.said("likes", "spelt bread")
    assert (await home.edit(rye.id, "Spelt bread")).id == spelt.id
    assert (await home.get(rye.id)).superseded_by == spelt.id
    assert await home.recalled("Mara likes bread") == {"spelt bread"}
    assert await checks.chains(home.context.db) == []


async def test_what_was_corrected_may_be_said_anew_and_is_a_memory_of_its_own(home: Home) -> None:
    rye = await home.said("likes", "rye bread")
    spelt = await home.edit(rye.id, "spelt bread")
    again = await home.said("likes", "rye bread")
    assert again.id not in (rye.id, spelt.id)
    assert await home.recalled("Mara likes bread") == {"rye bread", "spelt bread"}
    await memories.delete(home.rt, home.context, home.owner, again.id)
    assert await home.recalled("Mara likes bread") == {"spelt bread"}


async def test_a_corrected_memory_is_deleted_and_brought_back_with_what_it_took_the_place_of(home: Home) -> None:
    rye = await home.said("likes", "rye bread")
    spelt = await home.edit(rye.id, "spelt bread")
    oat = await home.edit(spelt.id, "oat bread")
    before = await home.history(oat.id)
    assert [text for text, _ in before] == ["oat bread", "rye bread", "spelt bread"]
    await memories.delete(home.rt, home.context, home.owner, oat.id)
    assert await home.context.db.run("SELECT VALUE value FROM attribute;") == [[]]
    await memories.undo(home.rt, home.context, home.owner, oat.id)
    assert await home.history(rye.id) == before
    assert await home.recalled("Mara likes bread") == {"oat bread"}
    assert await checks.chains(home.context.db) == []


async def test_forgetting_the_old_words_is_one_memory_and_takes_all_of_it(home: Home) -> None:
    rye = await home.said("likes", "rye bread")
    await home.edit(rye.id, "spelt bread")
    gone = await forget(home.rt, home.context, home.owner, Forget(query="spelt bread", purge=True))
    assert gone.memories == 1
    assert await home.context.db.run("SELECT VALUE value FROM attribute;") == [[]]


async def test_of_edits_one_after_another_exactly_one_stands(home: Home) -> None:
    first = await home.said("likes", "bread 0")
    at = first.id
    for number in (1, 2, 1, 3):
        at = (await home.edit(at, f"bread {number}")).id
        values = await home.context.db.run("SELECT VALUE value FROM attribute WHERE status = 'confirmed';")
        assert values == [[f"bread {number}"]]


async def test_an_edit_and_keep_over_a_conflicting_value_leaves_one(home: Home) -> None:
    mate = await home.said("role", "mate")
    done = await say(home.rt, home.context, home.agent, fact("role", "pilot"), scopes="user/owner")
    assert done.extraction is not None
    (proposal,) = done.extraction.proposals
    decision = Decision(id=proposal.id, choice=Choice.EDIT, text="harbour pilot")
    (settled,) = await decide(home.rt, home.context, home.owner, [decision])
    assert settled.error is None
    assert (await home.get(mate.id)).superseded_by == proposal.id
    assert await home.recalled("What is Mara's role?") == {"harbour pilot"}


async def test_an_undo_of_what_was_not_deleted_says_what_to_do(home: Home) -> None:
    rye = await home.said("likes", "rye bread")

    async def undo(who: Caller = home.owner) -> Memory:
        return await memories.undo(home.rt, home.context, who, rye.id)

    with pytest.raises(IllegalTransition, match="nothing to undo"):
        await undo()
    await memories.delete(home.rt, home.context, home.owner, rye.id)
    assert (await undo()).status is Status.CONFIRMED
    with pytest.raises(IllegalTransition, match="is back; it is confirmed"):
        await undo()
    with pytest.raises(Forbidden):
        await undo(home.agent)
    await memories.retire(home.rt, home.context, home.owner, rye.id)
    with pytest.raises(IllegalTransition, match="renew it"):
        await undo()
    await forget(home.rt, home.context, home.owner, Forget(query="rye bread"))
    with pytest.raises(KeepsError) as refused:
        await undo()
    with pytest.raises(type(refused.value)):
        await memories.renew(home.rt, home.context, home.owner, rye.id)


@pytest.mark.parametrize("key", ["role", "likes"])
async def test_what_was_retired_and_is_said_anew_is_in_use_again(home: Home, key: str) -> None:
    rye = await home.said(key, "rye bread")
    await memories.retire(home.rt, home.context, home.owner, rye.id)
    assert await home.recalled("Mara bread") == set()
    assert await checks.chains(home.context.db) == []
    again = await home.said(key, "rye bread")
    assert again.id != rye.id
    assert await home.recalled("Mara bread") == {"rye bread"}
    assert (await home.get(rye.id)).superseded_by == again.id
    assert await checks.chains(home.context.db) == []
