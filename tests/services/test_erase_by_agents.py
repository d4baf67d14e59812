"""What an agent takes away: what it may see, never for good, and not what its person said yes to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from keeps.core.errors import Forbidden
from keeps.core.facts import Status
from keeps.core.modes import Infer
from keeps.services import memories
from keeps.services.erase import Forget, forget, forget_scope
from keeps.services.remember import Message, Remember, remember
from tests.services.test_memories import Home
from tests.services.test_memories import home as home


@pytest.mark.parametrize("dry_run", [True, False])
async def test_an_agent_erases_nothing_for_good(home: Home, dry_run: bool) -> None:
    saved = await home.save("likes the zeppelin")
    with pytest.raises(Forbidden, match="leave purge out"):
        await forget(home.rt, home.context, home.agent, Forget(ids=(saved.id,), purge=True, dry_run=dry_run))
    assert (await home.get(saved.id)).status is Status.CONFIRMED
    await forget(home.rt, home.context, home.owner, Forget(ids=(saved.id,), purge=True))
    assert "zeppelin" not in await home.texts()


@pytest.mark.parametrize("words", [True, False])
async def test_an_agent_asks_before_what_the_person_said_yes_to(home: Home, words: bool) -> None:
    waiting = await home.propose("likes the zeppelin")
    await memories.confirm(home.rt, home.context, home.owner, waiting.id)
    asked = Forget(query="likes the zeppelin") if words else Forget(ids=(waiting.id,))
    with pytest.raises(Forbidden, match="retire"):
        await forget(home.rt, home.context, home.agent, asked)
    assert (await home.get(waiting.id)).status is Status.CONFIRMED


async def test_what_an_agent_may_not_see_is_not_there_for_its_forget(home: Home) -> None:
    said = await remember(
        home.rt, home.context, home.owner, Remember(infer=Infer.NONE, messages=[Message(text="of the zeppelin")])
    )
    muted = await home.save("rides the zeppelin")
    await memories.edit(home.rt, home.context, home.owner, muted.id, memories.Edit(muted=True))
    hidden = (f"turn:{said.turns[0]}", f"memory_chunk:{said.chunks[0]}", f"attribute:{muted.id}", "turn:" + "a" * 20)
    for dry_run in (True, False):
        done = await forget(home.rt, home.context, home.agent, Forget(ids=hidden, dry_run=dry_run))
        assert (done.rows, done.memories, done.refs, done.matches) == (0, 0, (), ())
        assert done.unknown == (0, 1, 2, 3)
        done = await forget(home.rt, home.context, home.agent, Forget(query="of the zeppelin", dry_run=dry_run))
        assert (done.rows, done.remaining, done.matches, done.near_misses) == (0, 0, (), ())
    mine = await forget(home.rt, home.context, home.owner, Forget(ids=hidden, dry_run=True))
    assert mine.unknown == (3,)


async def test_an_agent_gives_up_no_whole_scope_and_an_app_that_is_vouched_for_does(home: Home) -> None:
    await home.save("keeps a rowing boat")
    wide = replace(home.agent, principal=replace(home.agent.principal, trusted_writer=False))
    with pytest.raises(Forbidden, match="only the person"):
        await forget_scope(home.rt, home.context, wide, "user/owner")
    vouched = replace(home.agent, principal=replace(home.agent.principal, trusted_writer=True))
    acting = replace(vouched, target=home.owner.principal)
    with pytest.raises(Forbidden, match="only the person"):
        await forget_scope(home.rt, home.context, acting, "user/owner")
    assert await home.listed() == ["keeps a rowing boat"]
    assert (await forget_scope(home.rt, home.context, vouched, "user/owner")).memories == 1
    (said,) = await home.context.db.run("SELECT VALUE target FROM audit WHERE action = 'scope.forget';")
    assert said == ["scope:user/owner"]


async def test_what_is_erased_stands_in_the_audit_by_its_id(home: Home) -> None:
    kept = await home.save("keeps a rowing boat")
    await forget(home.rt, home.context, home.owner, Forget(ids=(f"attribute:{kept.id}",), purge=True))
    said = await home.audited()
    assert ("owner", "memory.purge", f"attribute:{kept.id}") in said
    assert "rowing" not in str(said)
