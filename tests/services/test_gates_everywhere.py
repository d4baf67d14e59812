"""Every door that shows what is remembered without a question: shut to agents for each reason, open to the person."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from keeps.core.access import Caller, PrincipalId, PrincipalKind
from keeps.core.controls import App, Pause
from keeps.core.entities import entity_ref
from keeps.core.errors import NotFound
from keeps.core.modes import Infer, TopBy
from keeps.core.pages import PageRequest
from keeps.core.scopes import Scope, ScopePath
from keeps.core.settings import Kill
from keeps.services import controls, entities, erase, facts, memories, sessions, settings, traces
from keeps.services.erase import Forget
from keeps.services.inspect import Inspect, inspect
from keeps.services.remember import Message, Remember, remember
from keeps.services.sight import sight_of
from keeps.services.standing import find
from keeps.store import facts as store_facts
from keeps.store.commit import Batch
from keeps.store.db import RecordID
from tests.services import reading
from tests.services.governing import House, house
from tests.services.identity import everywhere
from tests.services.saying import action, fact, relation, say
from tests.services.waiting import candidate, put

HOME = "user/owner"
NAME = "Zephyrine"
ALL = PageRequest(limit=100, count=True)


@dataclass
class Place:
    """A context in which one thing of everything is remembered about Zephyrine, and something about Bo."""

    house: House
    bot: Caller
    refs: dict[str, str]

    @property
    def at(self) -> tuple[Any, Any]:
        return self.house.rt, self.house.context

    async def patch(self, **columns: object) -> None:
        """Change what is remembered about Zephyrine."""
        batch = Batch(at=self.house.rt.clock())
        for table in ("attribute", "relates_to", "action"):
            batch.patch(RecordID(table, self.refs[table]), **columns)
        batch.patch(RecordID("turn", self.refs["turn"]), **{k: v for k, v in columns.items() if k == "taint"})
        await self.house.context.commit(batch)


@pytest.fixture
async def place(rt: Any) -> Place:
    return await place_in(await house(rt, policy="automatic"))


async def place_in(at: House) -> Place:
    bot = await at.someone("Bot", kind=PrincipalKind.AGENT, grants=everywhere("*"))
    first = await say(at.rt, at.context, at.owner, fact("likes", "tea", name="Bo"), scopes=HOME)
    done = await say(
        at.rt,
        at.context,
        at.owner,
        fact("role", "zither player", name=NAME),
        relation("works_at", "Quillfish", name=NAME),
        action("sold", "a kite", name=NAME),
        scopes=HOME,
    )
    said = Message(text=f"{NAME} plays the zither and works at Quillfish")
    spoken = await remember(
        at.rt,
        at.context,
        at.owner,
        Remember(messages=[said], infer=Infer.NONE, scope=Scope(frozenset({frozenset({ScopePath(HOME)})}))),
    )
    assert done.extraction is not None
    assert first.extraction is not None
    row = done.extraction.facts[0]
    refs: dict[str, str] = {
        "attribute": row.id,
        "relates_to": done.extraction.relations[0].id,
        "action": done.extraction.actions[0].id,
        "turn": spoken.turns[0],
        "session": spoken.session,
    }
    doubt = RecordID("uncertainty", "d" * 20)
    batch = Batch(at=at.rt.clock(), rows=["uncertainty:" + "d" * 20])
    batch.uncertainties.append(
        {
            "id": doubt,
            "about": f"what {NAME} does",
            "reason": "two values",
            "kind": "conflict",
            "entity": str(row.entity),
            "key": row.key,
            "contenders": [f"attribute:{row.id}"],
            "scope_set": row.scope.id,
            "labels": [],
            "resolved": False,
            "created_at": at.rt.clock(),
        }
    )
    await at.context.commit(batch)
    refs["uncertainty"] = "d" * 20
    kept = reading.keep(
        at.rt, at.context, at.owner, *(reading.weighed(f"{t}:{refs[t]}") for t in ("attribute", "turn"))
    )
    refs["trace"] = kept.id
    return Place(at, bot, refs)


Door = Callable[[Place, Caller], Awaitable[object]]
WHO = entity_ref("person", NAME)


def looking(ref: str) -> Door:
    async def door(p: Place, who: Caller) -> object:
        return await inspect(*p.at, who, Inspect(ref=ref.format(**p.refs)))

    return door


async def _trace_of(p: Place, who: Caller) -> object:
    return [shown.ref for shown in (await traces.get(*p.at, who, p.refs["trace"])).returned if shown.ref]


async def _turn_in_a_trace(p: Place, who: Caller) -> object:
    shown = (await traces.get(*p.at, who, p.refs["trace"])).returned
    return [NAME for one in shown if one.ref == f"turn:{p.refs['turn']}"]


async def _traces_of_it(p: Place, who: Caller) -> object:
    page = await traces.of_hit(*p.at, who, f"attribute:{p.refs['attribute']}")
    return [NAME for _ in page.rows]


async def _forget(p: Place, who: Caller) -> object:
    ids = tuple(f"{t}:{p.refs[t]}" for t in ("attribute", "relates_to", "action"))
    told = await erase.forget(*p.at, who, Forget(ids=ids, dry_run=True))
    return told.matches


async def _near(p: Place, who: Caller) -> object:
    told = await erase.forget(*p.at, who, Forget(query=f"{NAME} zither Quillfish", dry_run=True))
    return told.near_misses


DOORS: dict[str, Door] = {
    "attributes": lambda p, who: facts.attributes(*p.at, who, facts.ListAttributes(page=ALL)),
    "attributes of it": lambda p, who: facts.attributes(*p.at, who, facts.ListAttributes(entity=WHO, page=ALL)),
    "relations": lambda p, who: facts.relations(*p.at, who, facts.ListRelations(page=ALL)),
    "actions": lambda p, who: facts.actions(*p.at, who, facts.ListActions(page=ALL)),
    "doubts": lambda p, who: facts.uncertainties(p.house.context, who, facts.ListUncertainties(page=ALL)),
    "entities": lambda p, who: entities.list_all(p.house.context, who, entities.ListEntities(page=ALL)),
    "search": lambda p, who: entities.search(*p.at, who, entities.SearchEntities(query=NAME)),
    **{f"top by {by}": lambda p, who, by=by: entities.top(*p.at, who, entities.TopEntities(by=by)) for by in TopBy},
    "entity": lambda p, who: entities.get(*p.at, who, entities.GetEntity(ref=WHO)),
    "the far end": lambda p, who: entities.get(
        *p.at, who, entities.GetEntity(ref=entity_ref("organisation", "Quillfish"))
    ),
    "history": lambda p, who: entities.history(*p.at, who, entities.History(ref=WHO, page=ALL)),
    "history of a key": lambda p, who: entities.history_of_key(*p.at, who, WHO, "role"),
    "neighbours": lambda p, who: entities.neighbourhood(*p.at, who, entities.Neighbourhood(ref=WHO)),
    "memories": lambda p, who: memories.list_(*p.at, who, memories.ListMemories()),
    "memory": lambda p, who: memories.get(*p.at, who, p.refs["attribute"]),
    "versions": lambda p, who: memories.history(*p.at, who, p.refs["attribute"]),
    "inspect the entity": looking(f"entity:person/{NAME}"),
    "inspect the key": looking(f"attribute:person/{NAME}/role"),
    "inspect the fact": looking("attribute:{attribute}"),
    "inspect the bare id": looking("{attribute}"),
    "inspect the relation": looking("relation:{relates_to}"),
    "inspect the ends": looking(f"relation:person/{NAME}-[works_at]->organisation/Quillfish"),
    "inspect the action": looking("action:{action}"),
    "inspect the doubt": looking("uncertainty:{uncertainty}"),
    "trace": _trace_of,
    "traces of it": _traces_of_it,
    "what would be forgotten": _forget,
}

SAID: dict[str, Door] = {
    "turns": lambda p, who: sessions.turns(p.house.context, who, p.refs["session"], ALL),
    "inspect the turn": looking("turn:{turn}"),
    "near misses": _near,
    "turn in a trace": _turn_in_a_trace,
}
"""Doors to what was said."""


async def seen(p: Place, who: Caller, door: Door) -> str:
    """All that a door shows, as text; empty when it says that there is nothing."""
    try:
        found = await door(p, who)
    except NotFound:
        return ""
    return "" if not found else repr(found)


def tells(text: str) -> bool:
    return NAME.casefold() in text.casefold() or "quillfish" in text.casefold() or "dddddd" in text


async def paused(p: Place) -> None:
    await controls.set_pauses(*p.at, p.house.owner, [Pause(using=True)], expected=0)


async def paused_for_it(p: Place) -> None:
    pause = Pause(using=True, agents=frozenset({str(p.bot.principal_id)}))
    await controls.set_pauses(*p.at, p.house.owner, [pause], expected=0)


async def app_off(p: Place) -> None:
    await controls.set_apps(*p.at, p.house.owner, {PrincipalId(p.bot.principal_id): App(use=False)}, expected=0)


async def kinds_off(p: Place) -> None:
    app = App(kinds=frozenset({"goal"}))
    await controls.set_apps(*p.at, p.house.owner, {PrincipalId(p.bot.principal_id): app}, expected=0)


async def no_prompt(p: Place) -> None:
    await settings.kill(*p.at, p.house.owner, Kill.NO_PROMPT)


async def both(p: Place) -> None:
    await settings.kill(*p.at, p.house.owner, Kill.BOTH)


async def muted(p: Place) -> None:
    await p.patch(muted=True)


async def tainted(p: Place) -> None:
    await p.patch(taint=["web"], user_confirmed=False)


async def sensitive(p: Place) -> None:
    await p.patch(sensitivity="sensitive")


async def on_a_topic(p: Place) -> None:
    await p.patch(topics=["health"], sensitivity="sensitive")


WHOLE = (paused, paused_for_it, app_off, kinds_off, no_prompt, both)
ROWS = (muted, tainted, sensitive, on_a_topic)


@pytest.mark.parametrize("reason", [*WHOLE, *ROWS], ids=lambda reason: reason.__name__)
async def test_h8_what_a_person_keeps_from_use_is_behind_no_door_for_an_agent(
    place: Place, reason: Callable[[Place], Awaitable[None]]
) -> None:
    for name, door in DOORS.items():
        assert tells(await seen(place, place.bot, door)), f"{name} shows nothing to be kept back"
    await reason(place)
    for name, door in DOORS.items():
        shown = await seen(place, place.bot, door)
        assert not tells(shown), f"{name} tells an agent"
    doubts = await facts.uncertainties(place.house.context, place.bot, facts.ListUncertainties(page=ALL))
    assert (doubts.rows, doubts.total) == ((), 0)
    with pytest.raises(NotFound):
        await erase.delete_entity(*place.at, place.bot, WHO)


@pytest.mark.parametrize("reason", [*WHOLE, sensitive, on_a_topic], ids=lambda reason: reason.__name__)
async def test_h8_r13_its_person_sees_it_through_every_door(
    place: Place, reason: Callable[[Place], Awaitable[None]]
) -> None:
    await reason(place)
    for name, door in {**DOORS, **SAID}.items():
        assert tells(await seen(place, place.house.owner, door)), f"{name} keeps it from its person"


@pytest.mark.parametrize("reason", [muted, tainted], ids=lambda reason: reason.__name__)
async def test_h8_r13_what_is_held_back_from_use_is_among_the_memories_of_its_person(
    place: Place, reason: Callable[[Place], Awaitable[None]]
) -> None:
    await reason(place)
    for name in ("memories", "memory", "versions", "what would be forgotten", "doubts"):
        assert tells(await seen(place, place.house.owner, DOORS[name])), name


@pytest.mark.parametrize("reason", WHOLE, ids=lambda reason: reason.__name__)
async def test_h8_what_was_said_is_behind_no_door_either(
    place: Place, reason: Callable[[Place], Awaitable[None]]
) -> None:
    for name, door in SAID.items():
        assert tells(await seen(place, place.bot, door)), name
    session = place.refs["session"]
    assert (await sessions.get(place.house.context, place.bot, session)).turn_count == 1
    await reason(place)
    for name, door in SAID.items():
        assert not tells(await seen(place, place.bot, door)), name
    listed = await sessions.list_all(place.house.context, place.bot, ALL)
    assert (listed.rows, listed.total) == ((), 0)
    with pytest.raises(NotFound):
        await sessions.get(place.house.context, place.bot, session)


async def test_h8_nothing_else_is_gone_for_the_agent(place: Place) -> None:
    await muted(place)
    page = await facts.attributes(*place.at, place.bot, facts.ListAttributes(page=ALL))
    assert [row.value for row in page.rows] == ["tea"]
    assert page.total == 1
    listed = await entities.list_all(place.house.context, place.bot, entities.ListEntities(page=ALL))
    assert [str(row.ref) for row in listed.rows] == ["person/bo"]
    assert listed.total == 1
    top = await entities.top(*place.at, place.bot, entities.TopEntities(limit=1))
    assert [str(match.entity.ref) for match in top] == ["person/bo"]


async def spoken(p: Place, who: Caller, *texts: str, session: str | None = None) -> str:
    """Say something in a session, a new one of the speaker's unless one is given; its id."""
    done = await remember(
        *p.at,
        who,
        Remember(
            messages=[Message(text=text) for text in texts],
            infer=Infer.NONE,
            scope=Scope(frozenset({frozenset({ScopePath(HOME)})})),
            session=session,
        ),
    )
    return done.session


async def test_sensitive_matters_are_heard_by_who_began_the_conversation(place: Place) -> None:
    texts = ["I was diagnosed with asthma", "I like tea", "My asthma got worse", "and coffee"]
    mine = await spoken(place, place.bot, *texts)
    own = await sessions.turns(place.house.context, place.bot, mine, ALL)
    assert [turn.content for turn in own.rows] == texts
    another = await place.house.someone("Other", kind=PrincipalKind.AGENT, grants=everywhere("*"))
    heard: list[str] = []
    page = PageRequest(limit=1)
    while True:
        part = await sessions.turns(place.house.context, another, mine, page)
        heard += [turn.content for turn in part.rows]
        if part.next is None:
            break
        page = PageRequest(limit=1, after=part.next)
    assert heard == ["I like tea", "and coffee"]
    skipped = await sessions.turns(place.house.context, another, mine, PageRequest(limit=1, offset=1))
    assert [turn.content for turn in skipped.rows] == ["and coffee"]


async def test_a_temporary_chat_shows_no_agent_anything(place: Place) -> None:
    mine = await spoken(place, place.bot, "Quillfish has a kite")
    assert (await sessions.turns(place.house.context, place.bot, mine, ALL)).rows
    place.house.context.runs._temporary_sessions.add(mine)  # pyright: ignore[reportPrivateUsage]
    assert not (await sessions.turns(place.house.context, place.bot, mine, ALL)).rows
    assert (await sessions.get(place.house.context, place.bot, mine)).turn_count == 0
    assert (await sessions.turns(place.house.context, place.house.owner, mine, ALL)).rows


async def test_a_session_of_ones_own_stays_while_use_is_paused_without_what_was_said(place: Place) -> None:
    mine = await spoken(place, place.bot, "Quillfish has a kite")
    await paused(place)
    view = await sessions.get(place.house.context, place.bot, mine)
    assert (view.turn_count, view.last_turn_at, view.next_seq) == (0, None, None)
    assert not (await sessions.turns(place.house.context, place.bot, mine, ALL)).rows


async def test_a_topic_of_the_product_shows_and_no_other(place: Place) -> None:
    await place.patch(topics=["religion"], sensitivity="sensitive")
    assert not tells(await seen(place, place.bot, DOORS["attributes"]))
    change = settings.Change(
        document={"home_topics": ["religion"]}, expected=place.house.context.consent.settings.version
    )
    await settings.patch(*place.at, place.house.owner, change)
    for name, door in DOORS.items():
        assert tells(await seen(place, place.bot, door)), name
    await place.patch(topics=["religion", "health"])
    for name, door in DOORS.items():
        assert not tells(await seen(place, place.bot, door)), name


async def test_pages_are_full_whatever_is_left_out(place: Place) -> None:
    at = place.house
    for number in range(6):
        await say(at.rt, at.context, at.owner, fact("age", str(30 + number), name=f"P{number}"), scopes=HOME)
    await at.context.db.run("UPDATE attribute SET muted = true WHERE value IN ['30', '32', '33'];")
    want = ["person/bo", "person/p1", "person/p4", "person/p5"]
    got: list[str] = []
    page = PageRequest(limit=2)
    sizes: list[int] = []
    while True:
        part = await entities.list_all(at.context, place.bot, entities.ListEntities(type=WHO.type, page=page))
        sizes.append(len(part.rows))
        got += [str(row.ref) for row in part.rows]
        if part.next is None:
            break
        page = PageRequest(limit=2, after=part.next)
    assert [ref for ref in got if ref != str(WHO)] == want
    assert sizes == [2, 2, 1]
    skipped = await entities.list_all(
        at.context, place.bot, entities.ListEntities(type=WHO.type, page=PageRequest(limit=2, offset=1, count=True))
    )
    assert [str(row.ref) for row in skipped.rows] == want[1:3]
    assert skipped.total == 5


async def test_r3_what_waits_is_seen_by_its_person_and_who_proposed_it_alone(place: Place) -> None:
    at = place.house
    waits = candidate(at.rt.clock(), NAME, agent=str(place.bot.principal_id))
    other = candidate(at.rt.clock(), f"{NAME} too", key="wants", agent="agent")
    await put(at.context, waits, other)
    assert (await find(*place.at, place.bot, waits.id)).memory.id == waits.id
    with pytest.raises(NotFound):
        await find(*place.at, place.bot, other.id)
    ids = (f"proposal:{waits.id}", f"proposal:{other.id}")
    told = await erase.forget(*place.at, place.bot, Forget(ids=ids, dry_run=True))
    assert all(match.ref != ids[1] for match in told.matches)
    await no_prompt(place)
    with pytest.raises(NotFound):
        await memories.get(*place.at, place.bot, waits.id)
    assert (await memories.withdraw(*place.at, place.bot, waits.id)).text in (None, "")


async def test_links_to_versions_that_may_not_be_seen_are_not_told(place: Place) -> None:
    at = place.house
    again = await say(at.rt, at.context, at.owner, fact("role", "lute player", name=NAME), scopes=HOME)
    assert again.extraction is not None
    newer = again.extraction.facts[0]
    ask = facts.ListAttributes(entity=WHO, page=ALL)
    assert [row.supersedes for row in (await facts.attributes(*place.at, place.bot, ask)).rows] == [
        place.refs["attribute"]
    ]
    await place.patch(topics=["health"])
    (row,) = (await facts.attributes(*place.at, place.bot, ask)).rows
    assert (row.id, row.supersedes) == (newer.id, None)
    (own,) = (await facts.attributes(*place.at, at.owner, ask)).rows
    assert own.supersedes == place.refs["attribute"]


@pytest.mark.parametrize(
    "columns",
    [
        {},
        {"topics": ["health"]},
        {"topics": ["religion"]},
        {"topics": ["religion", "health"]},
        {"sensitivity": "sensitive"},
        {"sensitivity": "personal"},
        {"kind": "goal"},
        {"kind": "note", "topics": ["religion"]},
    ],
    ids=str,
)
async def test_the_engine_and_the_services_show_the_same_rows(place: Place, columns: dict[str, object]) -> None:
    """What is filtered in the record and what is filtered row by row must never differ."""
    at = place.house
    change = settings.Change(document={"home_topics": ["religion"]}, expected=at.context.consent.settings.version)
    await settings.patch(*place.at, at.owner, change)
    await place.patch(**columns)
    for kinds in (None, frozenset({"goal"}), frozenset({"goal", "note", "fact", "event"})):
        apps = {PrincipalId(place.bot.principal_id): App(kinds=kinds)}
        rev = at.context.consent.of_person(at.owner.principal_id).rev
        await controls.set_apps(*place.at, at.owner, apps, expected=rev)
        for who in (place.bot, at.owner):
            sight = sight_of(at.context, who)
            (row,) = (
                await store_facts.by_refs(
                    at.context.db,
                    at.context.sets,
                    [f"attribute:{place.refs['attribute']}"],
                    at.context.sets.everything(),
                )
            ).values()
            listed = await facts.attributes(*place.at, who, facts.ListAttributes(entity=WHO))
            assert bool(listed.rows) == sight.shows(row)
