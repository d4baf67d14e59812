"""Looking one thing up: everything an answer names, by every form of its name; nothing that may not be seen."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from keeps.core.access import Caller
from keeps.core.entities import entity_ref
from keeps.core.errors import Invalid, NotFound
from keeps.core.facts import Action, Fact
from keeps.core.validity import When
from keeps.services.facts import ListUncertainties, uncertainties
from keeps.services.inspect import Inspect, Inspected, inspect
from keeps.services.recall import Recall, recall
from keeps.services.remember import Message, Remember, remember
from keeps.services.runtime import Context, Runtime
from keeps.store.commit import Batch
from keeps.store.db import RecordID
from tests.services.conftest import HandClock, caller
from tests.services.saying import action, fact, relation, say

EVERYONE = caller()


async def look(rt: Runtime, context: Context, ref: str, who: Caller = EVERYONE, **more: object) -> Inspected:
    return await inspect(rt, context, who, Inspect(ref=ref, **more))  # type: ignore[arg-type]


async def test_an_entity_and_a_key_of_it(rt: Runtime, context: Context) -> None:
    await say(rt, context, EVERYONE, fact("role", "cook"), relation("works_at", "Port"))
    await say(rt, context, EVERYONE, fact("role", "pilot"))
    found = await look(rt, context, "entity:person/MARA")
    assert found.kind == "entity"
    assert found.view is not None
    assert [f.value for f in found.view.attributes] == ["pilot"]
    assert [r.label for r in found.view.relations] == ["works_at"]
    assert await look(rt, context, "person:mara") == found
    found = await look(rt, context, "attribute:person/Mara/Role")
    assert found.kind == "attribute"
    assert found.current is not None
    assert found.current.value == "pilot"
    assert [f.value for f in found.history] == ["pilot", "cook"]
    assert (await look(rt, context, "attribute:person/mara/role", limit=1)).truncated


async def test_a_key_at_a_time(rt: Runtime, context: Context) -> None:
    for year, role in ((2020, "cook"), (2021, "pilot")):
        await say(rt, context, EVERYONE, fact("role", role), observed_at=datetime(year, 1, 1, tzinfo=UTC))

    async def at(year: int) -> tuple[str | None, list[str]]:
        when = When(as_of=datetime(year, 6, 1, tzinfo=UTC))
        found = await look(rt, context, "attribute:person/mara/role", when=when)
        return found.current.value if found.current else None, [f.value for f in found.history]

    assert await at(2019) == (None, [])
    assert await at(2020) == ("cook", ["cook"])
    assert await at(2021) == ("pilot", ["pilot", "cook"])


async def test_the_current_value_is_the_certain_one(rt: Runtime, context: Context) -> None:
    await say(rt, context, EVERYONE, fact("role", "CTO", confidence=0.9))
    await say(rt, context, EVERYONE, fact("role", "CEO", confidence=0.6))
    found = await look(rt, context, "attribute:person/mara/role")
    assert found.current is not None
    assert found.current.value == "CTO"
    assert [f.value for f in found.history] == ["CEO", "CTO"]


async def test_relations_between_two_ends(rt: Runtime, context: Context) -> None:
    await say(rt, context, EVERYONE, relation("works_at", "North Port"), relation("owns", "North Port"))
    await say(rt, context, EVERYONE, relation("works_at", "Quay"))
    ref = "relation:person/mara-[works_at]->organisation/north port"
    found = await look(rt, context, ref)
    assert found.kind == "relation"
    assert [r.object for r in found.matches] == [entity_ref("organisation", "North Port")]
    assert await look(rt, context, "relation:Mara/Works_At/North Port") == found
    assert (await look(rt, context, f"relation:{found.matches[0].id}")).matches == found.matches
    with pytest.raises(NotFound):
        await look(rt, context, "relation:Mara/sails/North Port")


async def test_every_hit_can_be_looked_up_by_the_id_it_has(rt: Runtime, context: Context) -> None:
    await say(rt, context, EVERYONE, fact("role", "harbour pilot"), action("piloted", "the harbour ferry"))
    long = "The harbour lamp is green. " * 150
    await remember(rt, context, EVERYONE, Remember(messages=[Message(text=long)]))
    hits = (await recall(rt, context, EVERYONE, Recall(query="harbour"))).hits
    assert len(hits) >= 3
    for hit in hits:
        by_ref = await look(rt, context, hit.unit)
        by_id = await look(rt, context, hit.unit.partition(":")[2])
        assert by_ref == by_id
        if by_ref.kind == "memory_chunk":
            assert by_ref.passage == hit.text
            assert by_ref.turn is not None
            assert (await look(rt, context, f"turn:{by_ref.turn.id}")).turn == by_ref.turn
            assert (await look(rt, context, by_ref.turn.id)).turn == by_ref.turn
        else:
            assert by_ref.row == hit.row


async def test_a_closed_value_by_its_id_says_what_holds_now(rt: Runtime, context: Context) -> None:
    one = await say(rt, context, EVERYONE, fact("role", "cook"))
    await say(rt, context, EVERYONE, fact("role", "pilot"))
    assert one.extraction is not None
    found = await look(rt, context, f"attribute:{one.extraction.facts[0].id}")
    assert isinstance(found.row, Fact)
    assert (found.row.value, found.current.value if found.current else None) == ("cook", "pilot")


async def test_actions_sessions_turns_and_doubts(rt: Runtime, context: Context) -> None:
    done = await say(rt, context, EVERYONE, action("docked", "Teal"), fact("role", "CTO", confidence=0.9))
    await say(rt, context, EVERYONE, fact("role", "CEO", confidence=0.6), session=done.session)
    assert done.extraction is not None
    docked = done.extraction.actions[0]
    found = await look(rt, context, f"action:{docked.id}")
    assert isinstance(found.row, Action)
    assert found.row.id == docked.id
    found = await look(rt, context, f"session:{done.session}")
    assert found.session is not None
    assert found.session.turn_count == 2
    assert await look(rt, context, done.session) == found
    (doubt,) = (await uncertainties(context, EVERYONE, ListUncertainties())).rows
    found = await look(rt, context, f"uncertainty:{doubt.id}")
    assert found.uncertainty == doubt
    assert found.resolvable
    assert (await look(rt, context, doubt.id, caller("user/mara"))).uncertainty == doubt


async def test_absent_and_invisible_look_alike_for_every_form(rt: Runtime, context: Context, clock: HandClock) -> None:
    done = await say(
        rt,
        context,
        EVERYONE,
        fact("role", "CTO", confidence=0.9),
        relation("works_at", "Port"),
        action("docked", "Teal"),
    )
    await say(rt, context, EVERYONE, fact("role", "CEO", confidence=0.6))
    spoken = await remember(
        rt, context, EVERYONE, Remember(messages=[Message(text="Hello")], scope=None, session=done.session)
    )
    (doubt,) = (await uncertainties(context, EVERYONE, ListUncertainties())).rows
    assert done.extraction is not None
    ids = {
        "attribute": done.extraction.facts[0].id,
        "relates_to": done.extraction.relations[0].id,
        "action": done.extraction.actions[0].id,
        "turn": spoken.turns[0],
        "memory_chunk": spoken.chunks[0] or "",
        "session": done.session,
        "uncertainty": doubt.id,
    }
    named = {
        "entity:person/mara": "entity:person/nobody",
        "attribute:person/mara/role": "attribute:person/mara/rank",
        "relation:person/mara-[works_at]->org/port": "relation:person/mara-[works_at]->org/nowhere",
    }
    absent = "zzzzzzzzzzzzzzzzzzzz"
    pairs = {f"{table}:{id_}": f"{table}:{absent}" for table, id_ in ids.items()} | named
    pairs |= dict.fromkeys(ids.values(), absent)
    stranger = caller("user/bo")
    for hidden, missing in pairs.items():
        await look(rt, context, hidden)
        said: list[str] = []
        for ref in (hidden, missing):
            with pytest.raises(NotFound) as caught:
                await look(rt, context, ref, stranger)
            said.append(caught.value.message)
        assert said[0].endswith("does not exist")
        assert said[1].endswith("does not exist")
    with pytest.raises(NotFound):
        await look(rt, context, f"trace:{absent}")
    batch = Batch(at=clock())
    batch.patch(RecordID("attribute", ids["attribute"]), forgotten_at=clock())
    await context.commit(batch)
    with pytest.raises(NotFound):
        await look(rt, context, f"attribute:{ids['attribute']}")


async def test_bad_grammar_is_refused_before_anything_is_read(rt: Runtime, context: Context) -> None:
    for ref in ("", "mara", "attribute:person/mara", "turn:../x", "starship:x"):
        with pytest.raises(Invalid):
            await look(rt, context, ref, caller("user/bo"))
