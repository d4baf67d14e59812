"""Slots that a question names, what lies around the entities it names, and questions about everything."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from keeps.core.facts import Fact, Relation
from keeps.core.traces import Classification, Tier
from keeps.core.validity import When
from keeps.services import graph, legs
from keeps.services.reading import ABOUT, BELOW_FLOOR, DIRECT
from keeps.services.recall import Hit, Mode, Recall, Recalled, recall
from keeps.services.remember import Infer, Message, Remember, remember
from keeps.services.runtime import Context, Runtime
from keeps.store.graph import MOST_PLACES
from tests.services.conftest import HandClock, caller
from tests.services.saying import fact, relation, say

PORT = {"name": "North Port", "type_": "organisation"}


async def ask(rt: Runtime, context: Context, query: str, *patterns: str, **more: Any) -> Recalled:
    return await recall(rt, context, caller(*patterns), Recall(query=query, **more))


def values(found: Recalled) -> list[str]:
    return [hit.row.value for hit in found.hits if isinstance(hit.row, Fact)]


def hit_of(found: Recalled, value: str) -> Hit:
    return next(hit for hit in found.hits if isinstance(hit.row, Fact) and hit.row.value == value)


async def test_a_fact_one_relation_away_is_found(rt: Runtime, context: Context) -> None:
    await say(rt, context, caller(), relation("works_at", "North Port"), fact("city", "Aberwyth", **PORT))
    found = await ask(rt, context, "In which city does Mara work?", mode=Mode.GRAPH)
    assert values(found) == ["Aberwyth"]
    assert hit_of(found, "Aberwyth").signals.graph == graph.ONE_HOP
    assert [hit.row.label for hit in found.hits if isinstance(hit.row, Relation)] == ["works_at"]


async def test_two_relations_away_when_nothing_nearer_is_named(rt: Runtime, context: Context) -> None:
    owned = {"entity": {"type": "organisation", "name": "North Port"}, "key": "owned_by"}
    await say(
        rt,
        context,
        caller(),
        relation("works_at", "North Port"),
        {**owned, "target": {"type": "organisation", "name": "Teal Holding"}},
        fact("city", "Bergen", name="Teal Holding", type_="organisation"),
    )
    found = await ask(rt, context, "Mara: which city?", mode=Mode.GRAPH)
    assert hit_of(found, "Bergen").signals.graph == graph.TWO_HOPS
    await say(rt, context, caller(), fact("city", "Aberwyth"))
    nearer = await ask(rt, context, "Mara: which city?", mode=Mode.GRAPH)
    assert values(nearer) == ["Aberwyth"]


async def test_another_name_of_an_entity_leads_to_it(rt: Runtime, context: Context) -> None:
    await say(rt, context, caller(), fact("role", "pilot"), relation("same_as", "Captain Teal", to_type="person"))
    found = await ask(rt, context, "What is Captain Teal's role?")
    assert found.direct
    assert values(found)[0] == "pilot"
    await context.db.run("UPDATE relates_to SET muted = true;")
    muted = await ask(rt, context, "What is Captain Teal's role?", mode=Mode.GRAPH)
    assert values(muted) == []


async def test_relations_of_then_lead_to_what_was_known_then(rt: Runtime, context: Context) -> None:
    await say(
        rt,
        context,
        caller(),
        relation("works_at", "North Port", valid_until="2021-01-01T00:00:00Z"),
        fact("city", "Aberwyth", **PORT),
        observed_at=datetime(2020, 1, 1, tzinfo=UTC),
    )
    question = "In which city does Mara work?"
    then = When(as_of=datetime(2020, 6, 1, tzinfo=UTC))
    assert values(await ask(rt, context, question, mode=Mode.GRAPH, when=then)) == ["Aberwyth"]
    assert values(await ask(rt, context, question, mode=Mode.GRAPH)) == []
    before = When(as_of=datetime(2019, 6, 1, tzinfo=UTC))
    assert values(await ask(rt, context, question, mode=Mode.GRAPH, when=before)) == []


async def test_relations_of_others_lead_nowhere(rt: Runtime, context: Context) -> None:
    who = caller()
    await say(rt, context, who, fact("city", "Aberwyth", **PORT))
    await say(rt, context, who, relation("works_at", "North Port"), scopes="user/tove")
    await say(rt, context, who, relation("same_as", "Captain Teal", to_type="person"), scopes="user/tove")
    await say(rt, context, who, fact("note", "hidden", **PORT), scopes="user/tove")
    await say(rt, context, who, fact("role", "pilot"))
    question = "In which city does Mara work?"
    mine = await ask(rt, context, question, "user/mara", mode=Mode.GRAPH)
    assert mine.hits == []
    assert values(await ask(rt, context, question, mode=Mode.GRAPH)) == ["Aberwyth"]
    alias = await ask(rt, context, "What is Captain Teal's role?", "user/mara", mode=Mode.GRAPH)
    assert alias.hits == []
    assert alias.seeds == []


async def test_a_reader_of_many_scopes_is_led_as_one_of_few(rt: Runtime, context: Context) -> None:
    who = caller()
    for number in range(MOST_PLACES + 6):
        await say(rt, context, who, fact("role", f"role {number}", name="Tove"), scopes=f"team/{number:03}")
    await say(rt, context, who, relation("works_at", "North Port"), scopes="team/003")
    await say(rt, context, who, fact("city", "Aberwyth", **PORT), scopes=f"team/{MOST_PLACES + 5:03}")
    found = await ask(rt, context, "In which city does Mara work?", mode=Mode.GRAPH)
    assert values(found) == ["Aberwyth"]
    few = await ask(rt, context, "In which city does Mara work?", "team/003", mode=Mode.GRAPH)
    assert values(few) == []


class Counting:
    """A database that counts what is asked of it and what comes back."""

    def __init__(self, db: Any) -> None:
        self._db = db
        self.reads = 0
        self.rows = 0

    @property
    def name(self) -> str:
        return self._db.name

    async def run(self, surql: str, **params: Any) -> Any:
        found = await self._db.run(surql, **params)
        self.reads += 1
        self.rows += sum(len(part) for part in found if isinstance(part, list))
        return found


async def test_a_hub_costs_no_more_reads_and_rows_than_its_newest_relations(rt: Runtime, context: Context) -> None:
    for part in range(3):
        edges = [relation("knows", f"Person {part} {number}", to_type="person") for number in range(150)]
        await say(rt, context, caller(), *edges)
    counted: list[Counting] = []
    db = context.db
    for question in ("Who does Mara know?", "What about Mara and the whales of the deep?"):
        counted.append(Counting(db))
        context.db = counted[-1]
        found = await ask(rt, context, question, mode=Mode.GRAPH)
        assert found.hits
    context.db = db
    assert max(one.reads for one in counted) <= 12
    # The relations of the hub, those of the entities reached, and what is read out at the end.
    assert max(one.rows for one in counted) <= 4 * graph.MAX_DEGREE + 2 * graph.MAX_REACHED**2
    newest = {hit.row.object.name for hit in found.hits if isinstance(hit.row, Relation)}
    assert all(name.startswith("person 2 ") for name in newest)


async def test_the_current_value_of_a_named_slot_comes_before_everything(rt: Runtime, context: Context) -> None:
    who = caller()
    for number in range(4):
        text = f"Mara's role is the role of roles, says Mara, role number {number}"
        await remember(rt, context, who, Remember(infer=Infer.NONE, messages=[Message(text=text)]))
    await say(rt, context, who, fact("role", "deckhand"))
    await say(rt, context, who, fact("role", "pilot"))
    found = await ask(rt, context, "What is Mara's role?")
    assert values(found) == ["pilot"]
    assert isinstance(found.hits[0].row, Fact)
    assert found.trace.classification is Classification.DIRECT_LOOKUP
    assert found.trace.tier is Tier.DIRECT
    assert found.trace.hits[0].reason == DIRECT


async def test_of_all_versions_the_current_one_comes_first(rt: Runtime, context: Context, clock: HandClock) -> None:
    for value in ("deckhand", "role role role of Mara", "pilot"):
        clock.forward(days=1)
        await say(rt, context, caller(), fact("role", value))
    everything = When(valid_from=datetime(2000, 1, 1, tzinfo=UTC))
    found = await ask(rt, context, "Mara's role", when=everything)
    assert values(found) == ["pilot", "role role role of Mara", "deckhand"]


async def test_a_question_about_everything_gives_the_weightiest_facts_first(rt: Runtime, context: Context) -> None:
    who = caller()
    await say(
        rt,
        context,
        who,
        fact("tea", "genmaicha", memory_category="context"),
        fact("role", "pilot", memory_category="knowledge"),
        fact("birthday", "1980-05-02", memory_category="identity"),
    )
    await remember(rt, context, who, Remember(infer=Infer.NONE, messages=[Message(text="Mara Mara know about Mara")]))
    found = await ask(rt, context, "What do you know about Mara?")
    assert found.trace.classification is Classification.FULL_CONTEXT
    assert values(found) == ["1980-05-02", "pilot", "genmaicha"]
    assert [hit.reason for hit in found.trace.hits[:3]] == [ABOUT] * 3
    narrow = await ask(rt, context, "What do you know about Mara's tea?")
    assert narrow.trace.classification is not Classification.FULL_CONTEXT


async def test_what_misses_is_looked_for_once_more_and_the_trace_says_why(
    rt: Runtime, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(legs, "POOL", 4)
    for number in range(30):
        text = f"herring number {number} of the long list of fish"
        await remember(rt, context, caller(), Remember(infer=Infer.NONE, messages=[Message(text=text)]))
    question = "which fish would a lighthouse keeper on Mars describe to the parliament of owls?"
    found = await ask(rt, context, question)
    assert found.trace.tier is Tier.ESCALATED
    text = next(leg for leg in found.trace.legs if leg.name == "text")
    assert text.found == 8
    assert question not in repr(found.trace.reason)
    exact = await ask(rt, context, "herring number 7 of the long list of fish")
    assert exact.trace.tier is Tier.HYBRID


async def test_a_second_look_without_anything_wider_is_not_made(rt: Runtime, context: Context) -> None:
    await remember(rt, context, caller(), Remember(infer=Infer.NONE, messages=[Message(text="a fish swims")]))
    found = await ask(rt, context, "would the parliament of owls in the lighthouse on Mars eat fish?")
    assert found.trace.tier is Tier.HYBRID


async def test_what_was_asked_for_by_name_passes_every_floor(rt: Runtime, context: Context) -> None:
    await say(rt, context, caller(), fact("role", "pilot"), fact("tea", "genmaicha"))
    found = await ask(rt, context, "Mara's role", min_score=1.0)
    assert values(found) == ["pilot"]
    assert {miss.reason for miss in found.trace.near_misses} <= {BELOW_FLOOR}
    assert found.trace.near_misses
