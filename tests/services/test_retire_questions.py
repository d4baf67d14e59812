"""An agent may ask whether to stop using what a person said: within bounds, about what still stands, and once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from keeps.core.access import Caller, Verb
from keeps.core.errors import Conflict, Forbidden, Limited
from keeps.core.facts import Status
from keeps.core.packing import Budget, Unconfirmed
from keeps.core.pages import FIRST_PAGE
from keeps.core.scopes import parse_pattern
from keeps.services import memories
from keeps.services.context import Asked, block
from keeps.services.inbox import list_inbox
from keeps.services.memories import Edit
from keeps.services.recall import Recall
from tests.services.test_memories import Home, home

__all__ = ["home"]


def narrowed(caller: Caller, *verbs: Verb) -> Caller:
    return replace(caller, key_grants={verb: (parse_pattern("/*"),) for verb in verbs})


async def test_questions_take_places_in_the_inbox_like_proposals(home: Home) -> None:
    settings = home.context.consent.settings
    home.context.consent.settings = replace(settings, writes=replace(settings.writes, max_inbox=3))
    saved = [await home.save(f"keeps bird number {n}") for n in range(5)]
    for memory in saved[:3]:
        await memories.retire(home.rt, home.context, home.agent, memory.id)
    for memory in saved[3:]:
        with pytest.raises(Limited, match="inbox"):
            await memories.retire(home.rt, home.context, home.agent, memory.id)


async def test_a_no_is_not_asked_again(home: Home) -> None:
    saved = await home.save("prefers the early ferry")
    question = await memories.retire(home.rt, home.context, home.agent, saved.id)
    await memories.reject(home.rt, home.context, home.owner, question.id)
    with pytest.raises(Conflict, match="do not ask again"):
        await memories.retire(home.rt, home.context, home.agent, saved.id)
    assert (await home.get(saved.id)).status is Status.CONFIRMED


async def test_a_question_ends_with_what_it_asks_about(home: Home) -> None:
    saved = await home.save("prefers the early ferry", slot="ferry")
    question = await memories.retire(home.rt, home.context, home.agent, saved.id)
    await memories.edit(home.rt, home.context, home.owner, saved.id, Edit(text="prefers the late ferry"))
    assert (await list_inbox(home.rt, home.context, home.owner, FIRST_PAGE)).page.rows == ()
    found = await home.get(question.id)
    assert (found.status, found.text) == (Status.SUPERSEDED, None)


async def test_a_question_is_no_guess_in_a_prompt(home: Home) -> None:
    settings = home.context.consent.settings
    loose = replace(settings.budget, allow_unconfirmed=Unconfirmed.LABEL, min_trust=0.35)
    home.context.consent.settings = replace(settings, budget=loose)
    saved = await home.save("prefers the early ferry")
    await memories.retire(home.rt, home.context, home.agent, saved.id)
    found = await block(home.rt, home.context, home.agent, Asked(recall=Recall(query="early ferry"), budget=Budget()))
    assert found.text.count("early ferry") == 1


async def test_a_key_made_to_read_decides_nothing(home: Home) -> None:
    proposed = await home.propose("likes figs")
    kept = await home.save("likes rye bread")
    reader = narrowed(home.owner, Verb.MEMORY_READ)
    for act in (
        memories.confirm(home.rt, home.context, reader, proposed.id),
        memories.reject(home.rt, home.context, reader, proposed.id),
        memories.edit(home.rt, home.context, reader, kept.id, Edit(text="likes white bread")),
        memories.edit(home.rt, home.context, reader, kept.id, Edit(muted=True)),
        memories.retire(home.rt, home.context, reader, kept.id),
        memories.delete(home.rt, home.context, reader, kept.id),
        memories.delete(home.rt, home.context, narrowed(home.owner, Verb.MEMORY_READ, Verb.MEMORY_WRITE), kept.id),
    ):
        with pytest.raises(Forbidden):
            await act
    assert (await home.get(proposed.id)).status is Status.PROPOSED
    assert (await home.get(kept.id)).status is Status.CONFIRMED
    writer = narrowed(home.owner, Verb.MEMORY_READ, Verb.MEMORY_WRITE)
    assert (await memories.confirm(home.rt, home.context, writer, proposed.id)).status is Status.CONFIRMED
