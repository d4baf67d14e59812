"""What a tighter policy would not keep unasked goes back to be asked about, on an admin's word."""

from __future__ import annotations

import pytest
import pytest_asyncio

from keeps.core.errors import Forbidden
from keeps.core.facts import Origin, Status
from keeps.core.inbox import Choice
from keeps.core.pages import FIRST_PAGE
from keeps.core.policy import Why
from keeps.services import memories, settings
from keeps.services.inbox import Decision, decide, list_inbox
from keeps.services.recall import Recall, recall
from keeps.services.reconsider import reconsider
from keeps.services.runtime import Runtime
from tests.services.asking import Services
from tests.services.waiting import People, people


@pytest_asyncio.fixture
async def at(rt: Runtime) -> People:
    return await people(rt, policy="automatic")


async def tell(rt: Runtime, at: People, key: str, value: str) -> str:
    triple = {"entity": {"type": "person", "name": "Mara"}, "key": key, "value": value}
    done = await Services(rt, at.context, at.agent).remember(triples=[triple])
    assert done.extraction is not None
    return done.extraction.attributes[0].id


async def tighten(rt: Runtime, at: People) -> None:
    change = settings.Change(document={"policy": "deliberate"}, expected=at.context.consent.settings.version)
    await settings.patch(rt, at.context, at.owner, change)


async def found(rt: Runtime, at: People, query: str) -> list[str]:
    return [hit.text for hit in (await recall(rt, at.context, at.owner, Recall(query=query))).hits]


async def test_what_nobody_agreed_to_waits_again_and_is_kept_under_its_id(rt: Runtime, at: People) -> None:
    id_ = await tell(rt, at, "likes", "rye bread")
    saved = (await memories.save(rt, at.context, at.owner, memories.Save(kind="note", text="Rye is mine"))).memory
    assert saved is not None
    await tighten(rt, at)
    assert await reconsider(rt, at.context, at.owner, dry_run=True) == 1
    assert await reconsider(rt, at.context, at.owner) == 1
    (item,) = (await list_inbox(rt, at.context, at.owner, FIRST_PAGE)).page.rows
    assert (item.waiting.newest.id, item.row.summary) == (id_, "Mara likes rye bread.")
    assert (item.waiting.newest.proposed_by, item.waiting.newest.reason) == ("agent", Why.POLICY)
    assert not any("bread" in text for text in await found(rt, at, "rye bread"))
    assert any("Rye is mine" in text for text in await found(rt, at, "rye"))
    (settled,) = await decide(rt, at.context, at.owner, [Decision(id=id_, choice=Choice.KEEP)])
    assert settled.error is None
    memory = await memories.get(rt, at.context, at.owner, id_)
    assert memory.row is not None
    assert (memory.status, memory.row.control.origin) == (Status.CONFIRMED, Origin.USER_CONFIRMED)
    assert "Mara likes rye bread." in await found(rt, at, "rye bread")
    assert await reconsider(rt, at.context, at.owner) == 0


async def test_only_the_current_value_waits_and_the_past_stays(rt: Runtime, at: People) -> None:
    old, new = await tell(rt, at, "employer", "Mill"), await tell(rt, at, "employer", "Orchard")
    await tighten(rt, at)
    assert await reconsider(rt, at.context, at.owner) == 1
    (item,) = (await list_inbox(rt, at.context, at.owner, FIRST_PAGE)).page.rows
    assert item.waiting.newest.id == new
    assert (await memories.get(rt, at.context, at.owner, old)).status is Status.SUPERSEDED
    assert await found(rt, at, "Mara's employer") == []


async def test_under_the_same_policy_nothing_moves(rt: Runtime, at: People) -> None:
    await tell(rt, at, "likes", "rye bread")
    assert await reconsider(rt, at.context, at.owner) == 0


async def test_agents_reconsider_nothing(rt: Runtime, at: People) -> None:
    await tell(rt, at, "likes", "rye bread")
    await tighten(rt, at)
    with pytest.raises(Forbidden):
        await reconsider(rt, at.context, at.agent)
    (actions,) = await at.context.db.run("SELECT VALUE action FROM audit;")
    assert "denied.memory.reconsider" in actions
    assert "memory.tighten" not in actions
