"""Forgetting beside somebody who says yes at the same moment: what was reported as gone is nowhere."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from keeps.core.erasure import Order
from keeps.core.errors import IllegalTransition, NotFound
from keeps.core.memories import Memory
from keeps.services import memories
from keeps.services.erase import Forget, Forgotten, forget
from keeps.store import erase as store_erase
from keeps.store.erasing import Plan
from tests.services.test_memories import Home
from tests.services.test_memories import home as home

PAIRS = 12


async def either(act: Any) -> Any:
    """What it gives, or the refusal, never a fault of ours."""
    try:
        return await act
    except (NotFound, IllegalTransition) as refused:
        return refused


@pytest.mark.parametrize("named", ["words", "proposal", "bare"])
@pytest.mark.parametrize("purge", [True, False])
async def test_what_is_forgotten_while_it_is_confirmed_is_nowhere(home: Home, named: str, purge: bool) -> None:
    waiting = [await home.propose(f"likes the zeppelin of harbour {n}") for n in range(PAIRS)]

    def gone(memory: Memory) -> Any:
        ids = (f"proposal:{memory.id}",) if named == "proposal" else (memory.id,)
        asked: dict[str, Any] = {"query": memory.text} if named == "words" else {"ids": ids}
        return either(forget(home.rt, home.context, home.owner, Forget(purge=purge, **asked)))

    def kept(memory: Memory) -> Any:
        return either(memories.confirm(home.rt, home.context, home.owner, memory.id))

    pairs: list[Any] = []
    for number, memory in enumerate(waiting):
        pairs += [gone(memory), kept(memory)] if number % 2 else [kept(memory), gone(memory)]
    done = await asyncio.gather(*pairs)
    reports = [one for one in done if isinstance(one, Forgotten)]
    assert len(reports) == PAIRS
    assert all(report.memories or report.rows for report in reports)
    assert not any("zeppelin" in (text or "") for text in await home.listed())
    if purge:
        assert "zeppelin" not in await home.texts()


@pytest.mark.parametrize("purge", [True, False])
async def test_a_proposal_that_moved_since_it_was_read_is_planned_again(
    home: Home, monkeypatch: pytest.MonkeyPatch, purge: bool
) -> None:
    waiting = await home.propose("likes the zeppelin")
    plan, moves = store_erase.plan, iter((True,))

    async def moved_after(db: Any, sets: Any, order: Order, now: Any) -> Plan:
        planned = await plan(db, sets, order, now)
        if next(moves, False):
            await db.run("UPDATE proposal SET rev += 1;")
        return planned

    plans: list[Order] = []

    async def counted(db: Any, sets: Any, order: Order, now: Any) -> Plan:
        plans.append(order)
        return await moved_after(db, sets, order, now)

    monkeypatch.setattr(store_erase, "plan", counted)
    done = await forget(home.rt, home.context, home.owner, Forget(ids=(f"proposal:{waiting.id}",), purge=purge))
    assert done.rows == 1
    assert len(plans) == 2
    assert "zeppelin" not in await home.texts()


async def test_the_id_of_a_proposal_names_what_it_became(home: Home) -> None:
    waiting = await home.propose("likes the zeppelin")
    await memories.confirm(home.rt, home.context, home.owner, waiting.id)
    done = await forget(home.rt, home.context, home.owner, Forget(ids=(f"proposal:{waiting.id}",), purge=True))
    assert done.memories
    assert "zeppelin" not in await home.texts()
