"""Times against the record: the same table of questions as in memory, through the store."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keeps.core.entities import entity_ref
from keeps.core.facts import Fact
from keeps.core.validity import When
from keeps.services import entities, erase
from keeps.services.entities import GetEntity
from keeps.services.erase import Forget
from keeps.services.runtime import Context, Runtime
from tests.services.conftest import HandClock, caller
from tests.services.saying import action, fact, relation, say

EVERYONE = caller()
MARA = entity_ref("person", "Mara")


def year(number: int, month: int = 1) -> datetime:
    return datetime(number, month, 1, tzinfo=UTC)


async def answer(rt: Runtime, context: Context, name: str = "Mara", **times: datetime) -> list[str]:
    request = GetEntity(ref=entity_ref("person", name), when=When(**times))
    found = await entities.get(rt, context, EVERYONE, request)
    return sorted(f.value for f in found.attributes)


async def chain(rt: Runtime, context: Context, name: str = "Mara") -> list[Fact]:
    return await entities.history_of_key(rt, context, EVERYONE, entity_ref("person", name), "role")


async def test_the_table_of_times_through_the_store(rt: Runtime, context: Context, clock: HandClock) -> None:
    clock.now = year(2025)
    await say(rt, context, EVERYONE, fact("role", "cook", valid_from="2019-01-01T00:00:00Z"), observed_at=year(2020))
    clock.now = year(2026)
    await say(rt, context, EVERYONE, fact("role", "pilot", valid_from="2021-01-01T00:00:00Z"), observed_at=year(2022))
    clock.now = year(2027)

    table: list[tuple[dict[str, datetime], list[str]]] = [
        ({}, ["pilot"]),
        ({"as_of": year(2019, 6)}, []),
        ({"as_of": year(2020)}, ["cook"]),
        # That the pilot began in 2021 became known in 2022.
        ({"as_of": year(2021, 6)}, ["cook"]),
        ({"as_of": year(2022)}, ["pilot"]),
        ({"at_instant": year(2024)}, []),
        ({"at_instant": year(2025, 6)}, ["cook"]),
        ({"at_instant": year(2026, 6)}, ["pilot"]),
        ({"at_instant": year(2025, 6), "as_of": year(2023)}, ["cook"]),
        ({"at_instant": year(2026, 6), "as_of": year(2021)}, ["cook"]),
        ({"at_instant": year(2026, 6), "as_of": year(2023)}, ["pilot"]),
        ({"valid_from": year(2019)}, ["cook", "pilot"]),
        ({"valid_from": year(2020)}, ["pilot"]),
        ({"valid_until": year(2021)}, ["cook"]),
        ({"valid_until": year(2020)}, []),
        ({"valid_from": year(2019), "valid_until": year(2021)}, ["cook"]),
        ({"as_of": year(2021, 6), "valid_until": year(2021)}, []),
        ({"as_of": year(2023), "valid_from": year(2021)}, ["pilot"]),
    ]
    for times, expected in table:
        assert await answer(rt, context, **times) == expected, times


async def test_example_5_what_was_forgotten_answers_no_time(rt: Runtime, context: Context, clock: HandClock) -> None:
    for number, role in ((2020, "X"), (2021, "Y")):
        await say(rt, context, EVERYONE, fact("role", role), observed_at=year(number))
    await say(rt, context, EVERYONE, fact("town", "Leith"), observed_at=year(2020))
    recorded = clock.now
    assert await answer(rt, context, as_of=year(2020, 6)) == ["Leith", "X"]
    await erase.forget(rt, context, EVERYONE, Forget(query="role"))
    assert await answer(rt, context, as_of=year(2020, 6)) == ["Leith"]
    assert await answer(rt, context, at_instant=recorded) == ["Leith"]
    assert await answer(rt, context, valid_from=year(2000)) == ["Leith"]
    await say(rt, context, EVERYONE, fact("role", "Z"), observed_at=year(2020, 3))
    assert await answer(rt, context) == ["Leith", "Z"], "said anew, it is known anew"
    assert await answer(rt, context, as_of=year(2020, 6)) == ["Leith", "Z"]


async def test_relations_keep_to_the_time_asked_about(rt: Runtime, context: Context) -> None:
    ended = relation("works_at", "Port", valid_from="2019-01-01T00:00:00Z", valid_until="2021-01-01T00:00:00Z")
    await say(rt, context, EVERYONE, ended, observed_at=year(2020))
    await say(rt, context, EVERYONE, action("docked", "Teal"), observed_at=year(2020))

    async def related(**times: datetime) -> int:
        found = await entities.get(rt, context, EVERYONE, GetEntity(ref=MARA, when=When(**times)))
        return len(found.relations)

    assert await related() == 0
    assert await related(as_of=year(2020, 6)) == 1
    assert await related(as_of=year(2019, 6)) == 0
    assert await related(as_of=year(2021)) == 0
    assert await related(valid_until=year(2021)) == 1


async def test_a_clock_set_back_changes_no_order(rt: Runtime, context: Context, clock: HandClock) -> None:
    for number in range(6):
        await say(rt, context, EVERYONE, fact("role", f"role {number}"))
        clock.forward(hours=-1)
    versions = await chain(rt, context)
    assert [v.value for v in versions] == [f"role {number}" for number in range(5, -1, -1)]
    known = [v.clocks.known_at for v in versions]
    assert all(newer > older for newer, older in pairwise(known))
    assert await answer(rt, context) == ["role 5"]


async def test_writers_with_clocks_that_jump_leave_one_head(rt: Runtime, context: Context, clock: HandClock) -> None:
    async def write(number: int) -> None:
        clock.forward(seconds=(-1) ** number * number * 60)
        await say(rt, context, EVERYONE, fact("role", f"role {number}"))

    await asyncio.gather(*(write(number) for number in range(12)))
    versions = await chain(rt, context)
    assert len(versions) == 12
    assert [v.superseded_by is None for v in versions] == [True] + [False] * 11
    for newer, older in pairwise(versions):
        assert newer.clocks.known_at > older.clocks.known_at
        assert (newer.supersedes, older.superseded_by) == (older.id, newer.id)


_names = iter(f"person {number}" for number in range(10_000))


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pairs=st.lists(st.tuples(st.integers(0, 9), st.sampled_from("ABC")), min_size=1, max_size=7),
    together=st.booleans(),
)
@pytest.mark.slow
async def test_in_any_order_the_record_gives_the_value_known_last(
    rt: Runtime, context: Context, pairs: list[tuple[int, str]], together: bool
) -> None:
    name, start = next(_names), year(2020)
    moments = [(start + timedelta(days=day), value) for day, value in pairs]
    if together:
        # Writers of one entity wait for each other; which comes first does not matter unless moments are equal.
        moments = list(dict(moments).items())
        writes = (say(rt, context, EVERYONE, fact("role", v, name), observed_at=at) for at, v in moments)
        await asyncio.gather(*writes)
    else:
        for at, value in moments:
            await say(rt, context, EVERYONE, fact("role", value, name), observed_at=at)
    known = dict(moments)
    for day in range(-1, 11):
        moment = start + timedelta(days=day, hours=1)
        before = [at for at in known if at <= moment]
        expected = [known[max(before)]] if before else []
        assert await answer(rt, context, name, as_of=moment) == expected
    assert await answer(rt, context, name) == [known[max(known)]]
