"""Entities: views, lists, history, neighbours; and that they tell nothing of what a reader may not see."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keeps.core.entities import EntityRef, EntityType, entity_ref
from keeps.core.errors import Invalid, NotFound
from keeps.core.facts import Category
from keeps.core.pages import PageRequest
from keeps.core.validity import When
from keeps.services import entities, facts
from keeps.services.entities import (
    EntityView,
    GetEntity,
    History,
    ListEntities,
    Neighbourhood,
    SearchEntities,
    TopBy,
    TopEntities,
)
from keeps.services.facts import ListActions, ListAttributes, ListRelations, ListUncertainties
from keeps.services.runtime import Context, Runtime
from keeps.store.commit import Batch
from keeps.store.db import RecordID
from tests.services.conftest import HandClock, caller
from tests.services.saying import action, fact, relation, say

MARA = entity_ref("person", "Mara")
EVERYONE = caller()


async def view(rt: Runtime, context: Context, ref: EntityRef = MARA, **more: object) -> EntityView:
    return await entities.get(rt, context, EVERYONE, GetEntity(ref=ref, **more))  # type: ignore[arg-type]


def values(found: EntityView) -> list[str]:
    return [f.value for f in found.attributes]


async def test_example_1_a_second_value_of_a_key_follows_the_first(rt: Runtime, context: Context) -> None:
    jwt = {"type_": "topic", "name": "foo_jwt"}
    await say(rt, context, EVERYONE, fact("gap.kind", "A", **jwt), labels=("ticket=42",))
    await say(rt, context, EVERYONE, fact("gap.kind", "B", **jwt), labels=("ticket=43",))
    b, a = await entities.history_of_key(rt, context, EVERYONE, entity_ref("topic", "foo_jwt"), "gap.kind")
    assert (b.value, a.value) == ("B", "A")
    assert (b.key, a.key) == ("gap_kind", "gap_kind")
    assert b.supersedes == a.id
    assert a.superseded_by == b.id
    assert b.clocks.valid_until is None
    assert a.clocks.valid_until == b.clocks.valid_from
    assert a.labels == ("ticket=42",)
    for version in (a, b):
        assert (version.source.kind, version.source.trust) == ("upsert", 0.95)


async def test_example_3_certainty_decides_who_replaces_whom(rt: Runtime, context: Context) -> None:
    await say(rt, context, EVERYONE, fact("role", "CTO", confidence=0.9))
    await say(rt, context, EVERYONE, fact("role", "CEO", confidence=0.6))
    assert sorted(values(await view(rt, context))) == ["CEO", "CTO"]
    doubts = (await facts.uncertainties(context, EVERYONE, ListUncertainties())).rows
    assert [(d.entity, d.key, d.resolved) for d in doubts] == [(MARA, "role", False)]
    assert facts.resolvable(EVERYONE, doubts[0])
    assert not facts.resolvable(caller("user/bo"), doubts[0])
    await say(rt, context, EVERYONE, fact("role", "CEO", confidence=0.95))
    assert values(await view(rt, context)) == ["CEO"]


async def test_example_4_a_question_about_the_past(rt: Runtime, context: Context) -> None:
    for year, role in ((2020, "X"), (2021, "Y")):
        await say(rt, context, EVERYONE, fact("role", role), observed_at=datetime(year, 1, 1, tzinfo=UTC))
    asked = When(as_of=datetime(2020, 6, 1, tzinfo=UTC))
    (then,) = (await view(rt, context, when=asked)).attributes
    assert then.value == "X"
    assert then.superseded_by is not None, "the row is shown as it is stored; only the choice of rows follows the time"
    assert values(await view(rt, context)) == ["Y"]
    assert values(await view(rt, context, when=When(as_of=datetime(2019, 1, 1, tzinfo=UTC)))) == []


async def test_a_value_said_again_survives_what_is_put_in_between(rt: Runtime, context: Context) -> None:
    for month, role in ((1, "pilot"), (5, "pilot"), (3, "cook")):
        await say(rt, context, EVERYONE, fact("role", role), observed_at=datetime(2020, month, 1, tzinfo=UTC))
    assert values(await view(rt, context)) == ["pilot"]
    found = await entities.history_of_key(rt, context, EVERYONE, MARA, "role")
    assert [(f.value, f.clocks.known_at.month) for f in found] == [("pilot", 5), ("cook", 3), ("pilot", 1)]
    await say(rt, context, EVERYONE, fact("role", "captain"))
    assert values(await view(rt, context)) == ["captain"]
    april = When(as_of=datetime(2020, 4, 1, tzinfo=UTC))
    assert values(await view(rt, context, when=april)) == ["cook"]


async def test_values_observed_at_one_moment_stay_in_the_order_they_were_said(rt: Runtime, context: Context) -> None:
    moment = datetime(2020, 1, 1, tzinfo=UTC)
    for role in "ABCDE":
        await say(rt, context, EVERYONE, fact("role", role), observed_at=moment)
    found = await entities.history_of_key(rt, context, EVERYONE, MARA, "role")
    assert [f.value for f in found] == list("EDCBA")
    assert values(await view(rt, context, when=When(as_of=moment))) == ["E"]
    walked: list[str] = []
    page = PageRequest(limit=2)
    while True:
        got = await entities.history(rt, context, EVERYONE, History(ref=MARA, page=page))
        walked += [f.value for f in got.rows]
        if got.next is None:
            break
        page = PageRequest(limit=2, after=got.next)
    assert walked == list("EDCBA")


async def test_the_view_is_newest_first_and_says_when_it_is_cut(rt: Runtime, context: Context) -> None:
    for key in "abc":
        await say(rt, context, EVERYONE, fact(key, "1"), relation(f"r{key}", f"Port {key}"))
    whole = await view(rt, context)
    assert [f.key for f in whole.attributes] == ["c", "b", "a"]
    assert [r.label for r in whole.relations] == ["rc", "rb", "ra"]
    assert not whole.more_attributes
    assert not whole.more_relations
    cut = await view(rt, context, limit=2)
    assert [f.key for f in cut.attributes] == ["c", "b"]
    assert cut.more_attributes
    assert cut.more_relations
    with pytest.raises(Invalid):
        await view(rt, context, limit=501)
    with pytest.raises(Invalid):
        await view(rt, context, limit=0)


async def test_absent_and_invisible_are_the_same(rt: Runtime, context: Context) -> None:
    await say(rt, context, EVERYONE, fact("role", "pilot"), scopes="user/mara")
    stranger = caller("user/bo")
    said: list[str] = []
    for ref in (MARA, entity_ref("person", "Nobody")):
        for ask in (
            lambda ref=ref: entities.get(rt, context, stranger, GetEntity(ref=ref)),
            lambda ref=ref: entities.history(rt, context, stranger, History(ref=ref)),
            lambda ref=ref: entities.history_of_key(rt, context, stranger, ref, "role"),
            lambda ref=ref: entities.neighbourhood(rt, context, stranger, Neighbourhood(ref=ref)),
        ):
            with pytest.raises(NotFound) as caught:
                await ask()
            said.append(caught.value.message.replace(ref.name, "X"))
    assert said[:4] == said[4:]
    assert (await entities.list_all(context, stranger, ListEntities())).rows == ()
    assert await entities.search(rt, context, stranger, SearchEntities(query="Mara")) == []
    assert await entities.top(rt, context, stranger, TopEntities()) == []


async def test_what_is_kept_back_is_not_shown(rt: Runtime, context: Context, clock: HandClock) -> None:
    done = await say(rt, context, EVERYONE, fact("role", "pilot"), fact("town", "Leith"), fact("boat", "Teal"))
    assert done.extraction is not None
    rows = {f.key: RecordID("attribute", f.id) for f in done.extraction.facts}
    batch = Batch(at=clock())
    batch.patch(rows["role"], muted=True)
    batch.patch(rows["town"], taint=["web"])
    await context.commit(batch)
    assert values(await view(rt, context)) == ["Teal"]
    assert [f.value for f in (await entities.history(rt, context, EVERYONE, History(ref=MARA))).rows] == ["Teal"]
    listed = await facts.attributes(rt, context, EVERYONE, ListAttributes())
    assert [f.value for f in listed.rows] == ["Teal"]
    (match,) = await entities.search(rt, context, EVERYONE, SearchEntities(query="mara"))
    assert match.fact_count == 1


async def test_the_working_state_ends_and_stays_in_history(rt: Runtime, context: Context, clock: HandClock) -> None:
    await say(rt, context, EVERYONE, fact("task", "berthing"), category=Category.CONTEXT)
    written = clock.now
    assert values(await view(rt, context)) == ["berthing"]
    clock.forward(days=8)
    assert values(await view(rt, context)) == []
    assert [f.value for f in (await entities.history(rt, context, EVERYONE, History(ref=MARA))).rows] == ["berthing"]
    assert values(await view(rt, context, when=When(as_of=written))) == ["berthing"]
    assert (await facts.attributes(rt, context, EVERYONE, ListAttributes())).rows == ()


async def test_entities_are_listed_by_type_and_name_each_once(rt: Runtime, context: Context) -> None:
    names = ["Zoe", "Ann Lee", "mara", "Ann"]
    for name in names:
        await say(rt, context, EVERYONE, fact("role", "pilot", name=name), scopes="user/mara")
        await say(rt, context, EVERYONE, fact("role", "pilot", name=name.upper()), scopes="team")
    await say(rt, context, EVERYONE, fact("size", "big", name="Port", type_="location"))
    walked: list[tuple[str, str]] = []
    page = PageRequest(limit=2, count=True)
    while True:
        got = await entities.list_all(context, EVERYONE, ListEntities(page=page))
        assert got.total == (5 if page.count else None)
        walked += [(entity.ref.type.value, entity.name) for entity in got.rows]
        if got.next is None:
            break
        page = PageRequest(limit=2, after=got.next)
    assert walked == [
        ("location", "Port"),
        ("person", "Ann"),
        ("person", "Ann Lee"),
        ("person", "mara"),
        ("person", "Zoe"),
    ]
    people = await entities.list_all(
        context, EVERYONE, ListEntities(type=EntityType.PERSON, page=PageRequest(offset=1, count=True))
    )
    assert [entity.name for entity in people.rows] == ["Ann Lee", "mara", "Zoe"]
    assert people.total == 4


async def test_search_ranks_the_same_name_first(rt: Runtime, context: Context) -> None:
    await say(rt, context, EVERYONE, fact("role", "pilot", name="Ann Lee"))
    await say(
        rt, context, EVERYONE, fact("role", "cook", name="Ann Lee Smith"), action("baked", "bread", "Ann Lee Smith")
    )
    await say(rt, context, EVERYONE, fact("role", "mate", name="Hannah"), fact("size", "1", "Ann Lee", "product"))
    found = await entities.search(rt, context, EVERYONE, SearchEntities(query=" ann  LEE ", type=EntityType.PERSON))
    assert [(m.entity.name, round(m.score, 3)) for m in found] == [("Ann Lee", 1.0), ("Ann Lee Smith", 0.667)]
    assert [m.fact_count for m in found] == [1, 2]
    assert found[1].distinguisher == "Ann Lee Smith's role is cook."
    assert found[1].last_learned_at is not None
    both = await entities.search(rt, context, EVERYONE, SearchEntities(query="ann lee"))
    assert [(m.entity.ref.type.value, m.score) for m in both][:2] == [("person", 1.0), ("product", 1.0)]
    assert len(await entities.search(rt, context, EVERYONE, SearchEntities(query="ann lee", limit=1))) == 1
    assert await entities.search(rt, context, EVERYONE, SearchEntities(query="???")) == []
    with pytest.raises(Invalid):
        await entities.search(rt, context, EVERYONE, SearchEntities(query=" "))


async def test_the_top_by_each_measure(rt: Runtime, context: Context) -> None:
    await say(rt, context, EVERYONE, fact("name", "Mara", memory_category="identity"))
    await say(rt, context, EVERYONE, *(fact(key, "1", "Bo") for key in "abc"))
    await say(rt, context, EVERYONE, fact("a", "1", "Cy"), relation("knows", "Bo", "Cy", to_type="person"))

    async def ranked(by: TopBy) -> list[str]:
        found = await entities.top(rt, context, EVERYONE, TopEntities(by=by, type=EntityType.PERSON))
        assert {match.score for match in found} == {1.0}
        return [match.entity.name for match in found]

    assert await ranked(TopBy.COVERAGE) == ["Bo", "Cy", "Mara"]
    assert (await ranked(TopBy.IMPORTANCE))[0] == "Mara"
    assert await ranked(TopBy.RECENCY) == ["Cy", "Bo", "Mara"]


async def test_neighbours_from_both_ends(rt: Runtime, context: Context) -> None:
    port = entity_ref("organisation", "North Port")
    until = "2030-01-01T00:00:00Z"
    await say(rt, context, EVERYONE, relation("works_at", "North Port", valid_until=until))
    await say(rt, context, EVERYONE, relation("owns", "Old Port"), fact("town", "Leith", "North Port", "organisation"))
    found = await entities.neighbourhood(rt, context, EVERYONE, Neighbourhood(ref=MARA))
    assert [(n.label, n.outbound, n.far.entity.name, n.far.fact_count) for n in found.rows] == [
        ("owns", True, "Old Port", 0),
        ("works_at", True, "North Port", 1),
    ]
    assert found.rows[1].valid_until == datetime(2030, 1, 1, tzinfo=UTC)
    back = await entities.neighbourhood(rt, context, EVERYONE, Neighbourhood(ref=port))
    assert [(n.label, n.outbound, n.far.entity.ref) for n in back.rows] == [("works_at", False, MARA)]
    assert back.rows[0].relation_id == found.rows[1].relation_id
    known = await entities.neighbourhood(rt, context, EVERYONE, Neighbourhood(ref=MARA, min_facts=1))
    assert [n.far.entity.name for n in known.rows] == ["North Port"]
    counted = Neighbourhood(ref=MARA, min_facts=1, page=PageRequest(count=True))
    with pytest.raises(Invalid):
        await entities.neighbourhood(rt, context, EVERYONE, counted)
    first = await entities.neighbourhood(
        rt, context, EVERYONE, Neighbourhood(ref=MARA, page=PageRequest(limit=1, count=True))
    )
    assert first.total == 2
    rest = await entities.neighbourhood(
        rt, context, EVERYONE, Neighbourhood(ref=MARA, page=PageRequest(limit=5, after=first.next))
    )
    assert [n.label for n in (*first.rows, *rest.rows)] == ["owns", "works_at"]


async def test_lists_of_what_is_live(rt: Runtime, context: Context) -> None:
    await say(rt, context, EVERYONE, fact("role", "cook"), fact("town", "Leith"), fact("role", "mate", "Bo"))
    await say(
        rt, context, EVERYONE, fact("role", "pilot"), relation("works_at", "Port"), relation("works_at", "Bank", "Bo")
    )
    await say(rt, context, EVERYONE, action("docked", "MV Teal", occurred_at="2026-01-05T00:00:00Z"))
    await say(
        rt, context, EVERYONE, action("sold", "rope", occurred_at="2026-01-03T00:00:00Z"), action("Docked", "Ark")
    )

    listed = await facts.attributes(rt, context, EVERYONE, ListAttributes(page=PageRequest(count=True)))
    assert {f.value for f in listed.rows} == {"pilot", "Leith", "mate"}
    assert listed.total == 3
    assert listed.rows[0].value == "pilot"
    only = await facts.attributes(rt, context, EVERYONE, ListAttributes(entity=MARA, key="Role"))
    assert [f.value for f in only.rows] == ["pilot"]

    port = entity_ref("organisation", "port")
    assert [r.subject for r in (await facts.relations(rt, context, EVERYONE, ListRelations(object=port))).rows] == [
        MARA
    ]
    mine = ListRelations(subject=MARA, label="Works at")
    assert len((await facts.relations(rt, context, EVERYONE, mine)).rows) == 1

    async def did(**more: object) -> list[str | None]:
        found = await facts.actions(rt, context, EVERYONE, ListActions(**more))  # type: ignore[arg-type]
        return [a.object_text for a in found.rows]

    assert (await did())[-1] == "MV Teal"
    assert len(await did(actor=MARA)) == 3
    assert set(await did(verb="docked")) == {"Ark", "MV Teal"}
    day = datetime(2026, 1, 5, tzinfo=UTC)
    assert await did(since=day) == ["MV Teal"]
    assert await did(until=datetime(2026, 1, 3, tzinfo=UTC)) == ["rope"]
    assert await did(since=day, until=day) == ["MV Teal"]


async def test_a_walk_repeats_and_loses_nothing(rt: Runtime, context: Context) -> None:
    moment = datetime(2020, 1, 1, tzinfo=UTC)
    await say(rt, context, EVERYONE, *(fact(f"k{n}", str(n)) for n in range(7)), observed_at=moment)
    walked: list[str] = []
    page = PageRequest(limit=2)
    while True:
        got = await facts.attributes(rt, context, EVERYONE, ListAttributes(page=page))
        assert len(got.rows) <= 2
        walked += [f.value for f in got.rows]
        if got.next is None:
            break
        page = PageRequest(limit=2, after=got.next)
        await say(rt, context, EVERYONE, fact(f"later{len(walked)}", "new"))
    assert sorted(walked) == [str(n) for n in range(7)]
    with pytest.raises(Invalid):
        await facts.attributes(rt, context, EVERYONE, ListAttributes(page=PageRequest(after=("person/mara", "x"))))


async def test_links_to_rows_that_cannot_be_seen_are_left_out(rt: Runtime, context: Context, clock: HandClock) -> None:
    session = (await say(rt, context, EVERYONE, fact("town", "Leith"), scopes="team")).session
    one = await say(rt, context, EVERYONE, fact("role", "cook"), session=session)
    await say(rt, context, EVERYONE, fact("role", "pilot"), session=session)
    (row,) = [f for f in (await view(rt, context)).attributes if f.key == "role"]
    assert row.supersedes is not None
    assert row.source.session == session
    mara = caller("user/mara")
    (row,) = (await entities.get(rt, context, mara, GetEntity(ref=MARA))).attributes
    assert row.supersedes is not None
    assert row.source.session is None, "the session belongs to the team"
    assert row.source.ref is not None, "the turn does not"
    assert one.extraction is not None
    batch = Batch(at=clock())
    batch.patch(RecordID("attribute", one.extraction.facts[0].id), forgotten_at=clock())
    await context.commit(batch)
    (row,) = (await entities.get(rt, context, mara, GetEntity(ref=MARA))).attributes
    assert row.supersedes is None


async def _everything_seen(rt: Runtime, context: Context) -> list[object]:
    who = caller("user/mara", "shared")
    seen: list[object] = [
        (await entities.list_all(context, who, ListEntities(page=PageRequest(count=True)))),
        await entities.search(rt, context, who, SearchEntities(query="mara port")),
        *[await entities.top(rt, context, who, TopEntities(by=by)) for by in TopBy],
        await facts.attributes(rt, context, who, ListAttributes(page=PageRequest(count=True))),
        await facts.relations(rt, context, who, ListRelations(page=PageRequest(count=True))),
        await facts.actions(rt, context, who, ListActions(page=PageRequest(count=True))),
        await facts.uncertainties(context, who, ListUncertainties(page=PageRequest(count=True))),
    ]
    for entity in (await entities.list_all(context, who, ListEntities())).rows:
        seen.append(await entities.get(rt, context, who, GetEntity(ref=entity.ref)))
        seen.append(await entities.history(rt, context, who, History(ref=entity.ref, page=PageRequest(count=True))))
        seen.append(await entities.neighbourhood(rt, context, who, Neighbourhood(ref=entity.ref, min_facts=1)))
    return seen


_names = st.sampled_from(["MARA", "Mara", "Port", "bo"])
_others = st.sampled_from(["user/bo", [["user/mara", "secret"]], "team", "user"])
_said = st.one_of(
    st.builds(
        lambda name, key, value, confidence, lasting: fact(
            key, value, name, confidence=confidence, memory_category=lasting
        ),
        _names,
        st.sampled_from(["role", "town", "likes"]),
        st.sampled_from(["pilot", "cook", "Leith"]),
        st.sampled_from([0.3, 0.95]),
        st.sampled_from(["identity", "knowledge"]),
    ),
    st.builds(lambda name, to: relation("works_at", to, name), _names, st.sampled_from(["Port", "PORT", "Quay"])),
    st.builds(lambda name: action("docked", "Teal", name), _names),
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    own=st.lists(st.tuples(_said, st.sampled_from(["user/mara", "shared"])), min_size=1, max_size=4),
    foreign=st.lists(st.tuples(_said, _others), min_size=1, max_size=4),
)
@pytest.mark.slow
async def test_what_others_write_changes_nothing_a_reader_sees(
    rt: Runtime,
    context: Context,
    own: list[tuple[dict[str, object], str]],
    foreign: list[tuple[dict[str, object], object]],
) -> None:
    for triple, scopes in own:
        await say(rt, context, EVERYONE, triple, scopes=scopes)
    before = await _everything_seen(rt, context)
    for triple, scopes in foreign:
        await say(rt, context, EVERYONE, triple, scopes=scopes)
    assert await _everything_seen(rt, context) == before


async def test_an_entity_is_new_to_whoever_has_not_seen_it(rt: Runtime, context: Context) -> None:
    mara, bo = caller("user/mara"), caller("user/bo")
    await say(rt, context, mara, fact("role", "pilot", "MARA"), scopes="user/mara")
    done = await say(rt, context, bo, fact("role", "cook", "Mara"), scopes="user/bo")
    assert done.extraction is not None
    assert [(e.name, e.is_new) for e in done.extraction.entities] == [("Mara", True)]
    again = await say(rt, context, bo, fact("role", "cook", "mara"), scopes="user/bo")
    assert again.extraction is not None
    assert [(e.name, e.is_new) for e in again.extraction.entities] == [("Mara", False)]
    shown = (await entities.get(rt, context, bo, GetEntity(ref=MARA))).entity
    assert shown.name == "Mara"
    assert (await view(rt, context)).entity.name == "MARA", "whoever sees both sees the form that came first"
    assert (await view(rt, context)).entity.created_at < shown.created_at
