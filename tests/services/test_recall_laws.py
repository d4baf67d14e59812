"""What holds of every answer: nobody's rows but the reader's own, one order, falling scores, a trace that adds up."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keeps.config import Config
from keeps.core.access import Verb
from keeps.core.errors import Invalid
from keeps.core.scopes import parse_scopes
from keeps.core.sessions import Turn
from keeps.core.traces import Tier
from keeps.models.fake import FakeEmbedder
from keeps.services import contexts, traces
from keeps.services.context import Asked, block
from keeps.services.reading import BELOW_FLOOR, BELOW_K, DUPLICATE, NEAR_MISSES, WITHHELD
from keeps.services.recall import Include, Mode, Recall, Recalled, recall
from keeps.services.remember import Infer, Message, Remember, remember
from keeps.services.runtime import Context, Runtime, open_runtime
from keeps.store.db import Engine
from keeps.store.facts import record_id
from tests.services.conftest import Borrowed, caller
from tests.services.saying import action, fact, relation, say
from tests.services.test_vectors import is_settled, until

SCOPES: tuple[Any, ...] = ("user/mara", "user/tove", [["user/mara", "team/x"]], [["user/mara"], ["user/tove"]])
NAMES = ("Mara", "Tove", "North Port", "Captain Teal")
WORDS = ("heron", "sluice", "tea", "role", "city", "pilot")


class Place:
    def __init__(self, rt: Runtime, context: Context) -> None:
        self.rt, self.context = rt, context

    async def ask(self, query: str, *patterns: str, **more: Any) -> Recalled:
        return await recall(self.rt, self.context, caller(*patterns), Recall(query=query, **more))

    async def fill(self) -> None:
        who = caller()
        for at, scope in enumerate(SCOPES):
            await say(
                self.rt,
                self.context,
                who,
                *(
                    fact(key, f"{WORDS[(at + place) % 6]} {at}", name=name)
                    for place, (name, key) in enumerate(
                        (name, key) for name in NAMES for key in ("role", "city", "tea")
                    )
                ),
                relation("works_at", "North Port"),
                relation("same_as", "Captain Teal", to_type="person"),
                relation("knows", "Tove", to_type="person"),
                action("saw", f"heron {at}"),
                scopes=scope,
            )
            messages = [
                Message(text=f"{first} and {second} for {name} {at}", speaker=name)
                for first in WORDS[:3]
                for second in WORDS[3:]
                for name in NAMES[:2]
            ]
            await remember(
                self.rt, self.context, who, Remember(infer=Infer.NONE, messages=messages, scope=parse_scopes(scope))
            )
        await until(self.context, is_settled)


@pytest_asyncio.fixture
async def place(engine_of_the_run: Engine) -> AsyncIterator[Place]:
    async with open_runtime(Config(), engine=Borrowed(engine_of_the_run), embedder=FakeEmbedder(64)) as rt:
        await contexts.bootstrap(rt, "acme")
        one = Place(rt, await rt.context("acme"))
        await one.fill()
        yield one


regions = st.sampled_from(
    [("user/mara",), ("user/tove",), ("team/x",), ("user/mara", "team/x"), ("user/nobody",), ("/*",)]
)
queries = st.lists(
    st.sampled_from([*WORDS, *NAMES, "who", "knows", "works", "what do you know about", "tell me about"]),
    min_size=1,
    max_size=4,
).map(" ".join)
questions = st.builds(
    dict,
    mode=st.sampled_from(Mode),
    include=st.sampled_from([frozenset(Include), frozenset({Include.FACTS}), frozenset({Include.PASSAGES})]),
    k=st.integers(1, 50),
    include_duplicates=st.booleans(),
    min_score=st.sampled_from([None, 0.0, 0.25, 0.6]),
)


@pytest.mark.slow
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(regions, queries, questions)
async def test_no_leg_shows_what_is_not_the_readers(
    place: Place, patterns: tuple[str, ...], query: str, more: dict[str, Any]
) -> None:
    found = await place.ask(query, *patterns, **more)
    readable = place.context.sets.readable(caller(*patterns).region(Verb.MEMORY_READ))
    assert {hit.row.scope.id for hit in found.hits} <= readable
    weighed = [*found.trace.hits, *found.trace.near_misses]
    (sets,) = await place.context.db.run(
        "SELECT VALUE scope_set FROM $ids;", ids=[record_id(one.row) for one in weighed]
    )
    assert set(sets) <= readable
    if patterns == ("user/nobody",):
        assert (found.hits, weighed, found.seeds) == ([], [], [])
    scores = [hit.score for hit in found.hits]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    assert len(found.hits) <= more["k"]
    assert [hit.unit for hit in found.hits] == [one.unit for one in found.trace.hits]
    assert [one.rank for one in found.trace.hits] == list(range(1, len(found.hits) + 1))
    assert len(found.trace.near_misses) <= NEAR_MISSES
    assert not {one.row for one in found.trace.hits} & {one.row for one in found.trace.near_misses}
    if more["include"] == frozenset({Include.FACTS}):
        assert not any(isinstance(hit.row, Turn) for hit in found.hits)
    again = await place.ask(query, *patterns, **more)
    assert [(hit.unit, hit.score) for hit in again.hits] == [(hit.unit, hit.score) for hit in found.hits]


@pytest.mark.slow
async def test_rows_of_others_change_no_answer(place: Place) -> None:
    questions = [
        ("Who knows Tove?", Mode.HYBRID), ("heron and tea", Mode.HYBRID), ("Mara's role", Mode.GRAPH),
        ("What do you know about Mara?", Mode.HYBRID), ("sluice", Mode.VECTOR), ("pilot", Mode.BM25),
    ]  # fmt: skip

    async def answers() -> list[list[tuple[str, float]]]:
        found = [await place.ask(query, "user/mara", mode=mode, k=30) for query, mode in questions]
        return [[(hit.unit, hit.score) for hit in one.hits] for one in found]

    before = await answers()
    assert all(before)
    who = caller()
    more = [fact(word, f"{word} of Mara", name=name) for word in WORDS for name in NAMES]
    ways = [relation("knows", f"Heron {number}", to_type="person") for number in range(80)]
    await say(place.rt, place.context, who, *more, *ways, scopes="user/other")
    said = [Message(text=f"{word} and heron and tea {number}") for word in WORDS for number in range(20)]
    request = Remember(infer=Infer.NONE, messages=said, scope=parse_scopes("user/other"))
    await remember(place.rt, place.context, who, request)
    await until(place.context, is_settled)
    assert await answers() == before


async def test_the_same_is_said_once_and_a_fact_says_it(rt: Runtime, context: Context) -> None:
    place = Place(rt, context)
    who = caller()
    done = await say(rt, context, who, fact("role", "pilot"))
    assert done.extraction is not None
    summary = (await place.ask("Mara's role")).hits[0].text
    messages = [Message(text=text, speaker="Tove") for text in (summary, summary.upper(), f"{summary} 7", "a role")]
    await remember(rt, context, who, Remember(infer=Infer.NONE, messages=messages))
    found = await place.ask("Mara's role")
    assert [hit.text for hit in found.hits] == [summary, f"{summary} 7", "a role"]
    assert not isinstance(found.hits[0].row, Turn)
    assert [miss.reason for miss in found.trace.near_misses] == [DUPLICATE, DUPLICATE]
    whole = await place.ask("Mara's role", include_duplicates=True)
    assert len(whole.hits) == 5


async def test_what_was_not_returned_is_told_with_its_reason(rt: Runtime, context: Context) -> None:
    place = Place(rt, context)
    who = caller()
    await say(rt, context, who, *(fact(f"boat_{number}", "heron") for number in range(3)))
    messages = [Message(text=f"the heron of boat {number}") for number in range(3)]
    await remember(rt, context, who, Remember(infer=Infer.NONE, messages=messages))
    one = await place.ask("heron", k=1)
    assert {miss.reason for miss in one.trace.near_misses} == {BELOW_K}
    assert len(one.trace.near_misses) == 5
    assert all(miss.rank == 0 and miss.signals for miss in one.trace.near_misses)
    none = await place.ask("heron and a whale or an owl", min_score=1.0)
    assert none.hits == []
    assert {miss.reason for miss in none.trace.near_misses} == {BELOW_FLOOR}
    await context.db.run("UPDATE attribute SET muted = true;")
    muted = await place.ask("heron")
    assert {miss.reason for miss in muted.trace.near_misses} == {WITHHELD}
    assert len(muted.hits) == 3


async def test_the_trace_says_how_it_was_found_and_is_kept(rt: Runtime, context: Context) -> None:
    place = Place(rt, context)
    await say(rt, context, caller(), fact("role", "pilot"), relation("works_at", "North Port"))
    found = await place.ask("what is it that Mara does?", "user/mara", k=7, source="chat")
    trace = found.trace
    assert {leg.name for leg in trace.legs if leg.answered} >= {"exact", "graph", "text"}
    assert all(leg.took_ms >= 0 for leg in trace.legs)
    assert (trace.k, trace.mode, trace.source, trace.principal, trace.entities) == (7, "hybrid", "chat", "bot", 1)
    assert trace.patterns == ("user/mara",)
    assert trace.tier in (Tier.HYBRID, Tier.ESCALATED)
    assert "Mara" not in repr((trace.reason, trace.hits, trace.near_misses, trace.legs))
    view = await traces.get(rt, context, caller("user/mara"), found.trace_id)
    assert [shown.unit for shown in view.returned] == [hit.unit for hit in found.hits]
    assert view.trace.query_text == ""


async def test_a_leg_that_fails_is_a_note(rt: Runtime, context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(rt, context)
    await say(rt, context, caller(), fact("role", "pilot"))

    async def fails(*_: Any, **__: Any) -> Any:
        raise RuntimeError("pilot")

    monkeypatch.setattr(context.finder, "find", fails)
    found = await place.ask("Mara's role")
    assert [hit.text for hit in found.hits]
    assert found.degraded == ["text"]
    monkeypatch.setattr(context.finder, "names_in", fails)
    found = await place.ask("Mara's role")
    assert found.hits == []
    assert sorted(found.degraded) == ["exact", "graph", "text"]


@pytest.mark.parametrize("floor", [-0.1, 1.1, float("nan")])
async def test_a_floor_that_is_none_is_refused(rt: Runtime, context: Context, floor: float) -> None:
    with pytest.raises(Invalid):
        await Place(rt, context).ask("heron", min_score=floor)


async def test_an_unrelated_question_gives_an_empty_block(rt: Runtime, context: Context) -> None:
    messages = [Message(text=f"the heron nests behind sluice {number}") for number in range(5)]
    await remember(rt, context, caller(), Remember(infer=Infer.NONE, messages=messages))
    related, unrelated = Recall(query="where does the heron nest?"), Recall(query="who pays for the opera tickets?")
    assert "heron" in (await block(rt, context, caller(), Asked(recall=related))).text
    assert (await block(rt, context, caller(), Asked(recall=unrelated))).text == ""
    context.config = {"min_score": 1.0}
    assert (await block(rt, context, caller(), Asked(recall=related))).text == ""
    asked = Recall(query="where does the heron nest?", min_score=0.0)
    assert "heron" in (await block(rt, context, caller(), Asked(recall=asked))).text
