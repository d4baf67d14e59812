"""Remember: turns, facts, chains."""

from __future__ import annotations

import asyncio
import itertools
from datetime import UTC, datetime, timedelta

import pytest

from keeps.core.errors import Invalid
from keeps.core.scopes import parse_scopes
from keeps.core.triples import parse_triples
from keeps.services.remember import Infer, Message, Remember, Remembered, remember
from keeps.services.runtime import Context, Runtime
from keeps.store import facts as store_facts
from tests.services.conftest import HandClock, caller


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
    for newer, older in itertools.pairwise(versions):
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


async def test_what_is_known_in_the_future_is_refused_and_leaves_its_key_alone(
    rt: Runtime, context: Context, clock: HandClock
) -> None:
    late = clock.now + timedelta(hours=24, minutes=1)
    with pytest.raises(Invalid, match="future"):
        await state(rt, context, "role", "captain", observed_at=late)
    with pytest.raises(Invalid, match="future"):
        await remember(
            rt, context, caller(), Remember(messages=[Message(text="one"), Message(text="two", observed_at=late)])
        )
    with pytest.raises(Invalid, match="future"):
        await state(rt, context, "role", "captain", observed_at=datetime(2062, 1, 1, tzinfo=UTC))
    done = await state(rt, context, "role", "pilot")
    entity = done.extraction.facts[0].entity  # type: ignore[union-attr]
    versions = await store_facts.versions(context.db, context.sets, entity, "role", context.sets.everything())
    assert [v.value for v in versions] == ["pilot"]
    assert await context.finder.find("one two", context.sets.everything()) == []


async def test_a_clock_that_is_ahead_by_a_day_is_believed(rt: Runtime, context: Context, clock: HandClock) -> None:
    soon = clock.now + timedelta(hours=23, minutes=59)
    done = await state(rt, context, "role", "pilot", observed_at=soon)
    assert done.extraction is not None
    assert done.extraction.facts[0].clocks.known_at == soon
    said = await remember(rt, context, caller(), Remember(messages=[Message(text="ahoy", observed_at=soon)]))
    assert len(said.turns) == 1


async def test_what_will_be_true_may_lie_far_ahead(rt: Runtime, context: Context) -> None:
    triples = parse_triples(
        [
            {
                "entity": {"type": "person", "name": "Mara"},
                "key": "role",
                "value": "captain",
                "valid_from": "2062-01-01T00:00:00Z",
            },
            {
                "entity": {"type": "person", "name": "Mara"},
                "verb": "retires",
                "summary": "Mara retires",
                "occurred_at": "2062-01-01T00:00:00Z",
            },
        ],
        anchor=rt.clock(),
    )
    request = Remember(infer=Infer.TRIPLES, triples=triples, scope=parse_scopes("user/mara"))
    done = await remember(rt, context, caller("user/mara"), request)
    assert done.extraction is not None
    assert done.extraction.facts[0].clocks.valid_from == datetime(2062, 1, 1, tzinfo=UTC)
    assert done.extraction.actions[0].occurred_at == datetime(2062, 1, 1, tzinfo=UTC)
