"""Remember: turns, facts, chains."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from keeps.core.scopes import parse_scopes
from keeps.core.triples import parse_triples
from keeps.services.remember import Infer, Message, Remember, Remembered, remember
from keeps.services.runtime import Context, Runtime
from keeps.store import facts as store_facts
from tests.services.conftest import caller


async def state(rt: Runtime, context: Context, key: str, value: str, **more: object) -> Remembered:
    triples = parse_triples(
        [{"entity": {"type": "person", "name": "Mara"}, "key": key, "value": value}], anchor=rt.clock()
    )
    request = Remember(infer=Infer.TRIPLES, triples=triples, scope=parse_scopes("user/mara"), **more)  # type: ignore[arg-type]
    return await remember(rt, context, caller("user/mara"), request)


async def test_a_turn_is_found_by_its_words(rt: Runtime, context: Context) -> None:
    done = await remember(
        rt, context, caller(), Remember(messages=[Message(text="The pilot boat leaves at six", speaker="Mara")])
    )
    found = await context.finder.find("when does the pilot boat leave?", context.sets.everything())
    assert [f.ref for f in found] == [f"turn:{done.turns[0]}"]


async def test_a_new_value_closes_the_old_one(rt: Runtime, context: Context) -> None:
    one = await state(rt, context, "role", "deckhand")
    two = await state(rt, context, "role", "harbour pilot")
    assert one.extraction is not None
    assert two.extraction is not None
    old, new = one.extraction.facts[0], two.extraction.facts[0]
    versions = await store_facts.versions(context.db, context.sets, new.entity, "role", context.sets.everything())
    assert [v.value for v in versions] == ["harbour pilot", "deckhand"]
    assert versions[0].supersedes == old.id
    assert versions[1].superseded_by == new.id
    assert versions[1].clocks.valid_until == versions[0].clocks.valid_from


async def test_twenty_parallel_values_leave_one_head(rt: Runtime, context: Context) -> None:
    done = await asyncio.gather(*(state(rt, context, "role", f"role {n}") for n in range(20)))
    assert all(d.extraction and d.extraction.facts for d in done)
    entity = done[0].extraction.facts[0].entity  # type: ignore[union-attr]
    versions = await store_facts.versions(context.db, context.sets, entity, "role", context.sets.everything())
    assert len(versions) == 20
    assert [v.superseded_by is None for v in versions] == [True] + [False] * 19
    for newer, older in zip(versions, versions[1:], strict=False):
        assert newer.supersedes == older.id
        assert older.superseded_by == newer.id


async def test_sixty_four_equal_values_are_one_row(rt: Runtime, context: Context) -> None:
    done = await asyncio.gather(*(state(rt, context, "role", "Pilot") for _ in range(64)))
    ids = {d.extraction.facts[0].id for d in done if d.extraction}
    assert len(ids) == 1


async def test_many_valued_keys_never_supersede(rt: Runtime, context: Context) -> None:
    await state(rt, context, "likes", "rye")
    two = await state(rt, context, "likes", "spelt")
    entity = two.extraction.facts[0].entity  # type: ignore[union-attr]
    versions = await store_facts.versions(context.db, context.sets, entity, "likes", context.sets.everything())
    assert {v.value for v in versions if v.superseded_by is None} == {"rye", "spelt"}


async def test_a_backdated_value_goes_into_its_place(rt: Runtime, context: Context) -> None:
    await state(rt, context, "role", "X", observed_at=datetime(2020, 1, 1, tzinfo=UTC))
    await state(rt, context, "role", "Z", observed_at=datetime(2022, 1, 1, tzinfo=UTC))
    done = await state(rt, context, "role", "Y", observed_at=datetime(2021, 1, 1, tzinfo=UTC))
    entity = done.extraction.facts[0].entity  # type: ignore[union-attr]
    versions = await store_facts.versions(context.db, context.sets, entity, "role", context.sets.everything())
    assert [v.value for v in versions] == ["Z", "Y", "X"]
    assert [v.clocks.valid_until for v in versions] == [
        None,
        datetime(2022, 1, 1, tzinfo=UTC),
        datetime(2021, 1, 1, tzinfo=UTC),
    ]
