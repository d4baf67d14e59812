"""What was said belongs to the session it was said in: who finds it outside of that, and who never does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from keeps.core.access import Caller, PrincipalKind
from keeps.core.controls import Controls, Pause
from keeps.core.errors import Forbidden, NotFound
from keeps.core.modes import Infer
from keeps.core.pages import FIRST_PAGE
from keeps.core.policy import History, Preset
from keeps.core.scopes import Lens, ScopePath, parse_scopes
from keeps.core.sessions import Turn
from keeps.core.settings import of_preset
from keeps.services import sessions, traces
from keeps.services.context import Asked, block
from keeps.services.erase import Forget, delete_session, forget
from keeps.services.inspect import Inspect, inspect
from keeps.services.recall import Recall, recall
from keeps.services.remember import Message, Remember, Remembered, remember
from keeps.services.runtime import Context, Runtime
from tests.services.conftest import caller

HOME = "user/mara"
MARA = caller(kind=PrincipalKind.HUMAN, name="mara", home=HOME)
OTHER = caller(kind=PrincipalKind.HUMAN, name="otto", home="user/otto")
ONE = caller("user/mara/*", "team/*", name="one", home=HOME)
TWO = caller("user/mara/*", "team/*", name="two", home=HOME)


@pytest.fixture(autouse=True)
def deliberate(context: Context) -> None:
    context.consent.settings = of_preset(Preset.DELIBERATE)
    context.consent.move_in({ScopePath(HOME): MARA.principal_id, ScopePath("user/otto"): OTHER.principal_id})


async def said(rt: Runtime, context: Context, who: Caller, text: str, **about: object) -> Remembered:
    request = Remember(infer=Infer.NONE, messages=[Message(text=text)], **about)  # type: ignore[arg-type]
    return await remember(rt, context, who, request)


async def found(rt: Runtime, context: Context, who: Caller, query: str, session: str | None = None) -> list[str]:
    answer = await recall(rt, context, who, Recall(query=query, k=50, session=session))
    return [hit.text for hit in answer.hits if isinstance(hit.row, Turn)]


async def test_an_agent_finds_the_session_it_is_in_and_no_other(rt: Runtime, context: Context) -> None:
    first = await said(rt, context, ONE, "the heron stands at the weir")
    await said(rt, context, ONE, "the heron flew over the mill")
    assert await found(rt, context, ONE, "heron") == []
    assert await found(rt, context, ONE, "heron", first.session) == ["the heron stands at the weir"]
    # Another agent gains nothing by naming the session.
    assert await found(rt, context, TWO, "heron", first.session) == []
    assert set(await found(rt, context, MARA, "heron")) == {
        "the heron stands at the weir",
        "the heron flew over the mill",
    }


@pytest.mark.parametrize("history", [History.SESSION, History.OFF])
async def test_an_agent_writes_into_and_ends_no_session_it_may_not_see(
    rt: Runtime, context: Context, history: History
) -> None:
    first = await said(rt, context, ONE, "the heron stands at the weir")
    context.consent.settings = replace(context.consent.settings, history=history)
    with pytest.raises(Forbidden) as there:
        await said(rt, context, TWO, "what of the heron", session=first.session)
    with pytest.raises(Forbidden) as nowhere:
        await said(rt, context, TWO, "what of the heron", session="a" * 20)
    assert str(there.value) == str(nowhere.value)
    with pytest.raises(NotFound):
        await delete_session(rt, context, TWO, first.session)
    assert (await sessions.get(context, ONE, first.session)).session.id == first.session
    # Who began it and the person it belongs to still may.
    await said(rt, context, MARA, "it is still there", session=first.session)
    await delete_session(rt, context, ONE, first.session)


async def test_where_sessions_are_open_others_write_into_them_and_end_them(rt: Runtime, context: Context) -> None:
    context.consent.settings = of_preset(Preset.AUTOMATIC)
    first = await said(rt, context, ONE, "the heron stands at the weir")
    await said(rt, context, TWO, "what of the heron", session=first.session)
    await delete_session(rt, context, TWO, first.session)
    with pytest.raises(NotFound):
        await sessions.get(context, ONE, first.session)


async def test_what_is_written_beside_a_session_is_kept_where_its_turns_are(rt: Runtime, context: Context) -> None:
    asked = sessions.NewSession(metadata={"about": "the heron"})
    assert (await sessions.create(rt, context, ONE, asked)).session.metadata == {"about": "the heron"}
    context.consent.controls[ScopePath(HOME)] = Controls(pauses=(Pause(saving=True),))
    begun = await sessions.create(rt, context, ONE, asked)
    assert begun.session.metadata is None
    assert (await sessions.get(context, ONE, begun.session.id)).session.metadata is None
    # What the person does with their own hands is theirs also while agents are held.
    assert (await sessions.create(rt, context, MARA, asked)).session.metadata == {"about": "the heron"}


async def test_a_thousand_turns_give_no_other_agent_a_passage_and_no_other_session_one(
    rt: Runtime, context: Context
) -> None:
    told = [Message(text=f"the heron caught fish number {n}") for n in range(1000)]
    for start in range(0, 1000, 250):
        await remember(rt, context, ONE, Remember(infer=Infer.NONE, messages=told[start : start + 250]))
    for who in (ONE, TWO):
        assert await found(rt, context, who, "heron fish") == []
        assert (await block(rt, context, who, Asked(recall=Recall(query="heron fish")))).text == ""
    assert len(await found(rt, context, MARA, "heron fish")) > 0


async def test_the_person_opens_other_sessions_and_closes_them_again(rt: Runtime, context: Context) -> None:
    await said(rt, context, ONE, "the heron stands at the weir")
    context.consent.controls[ScopePath(HOME)] = Controls(history=True)
    assert await found(rt, context, TWO, "heron") == ["the heron stands at the weir"]
    context.consent.controls[ScopePath(HOME)] = Controls(history=False)
    assert await found(rt, context, TWO, "heron") == []


async def test_one_person_opens_nothing_of_another(rt: Runtime, context: Context) -> None:
    wide = caller("user/*", name="wide")
    shared = parse_scopes([["user/mara"], ["user/otto"]])
    await said(rt, context, MARA, "mara saw the heron", scope=parse_scopes([["user/mara"]]))
    await said(rt, context, OTHER, "otto saw the heron", scope=parse_scopes([["user/otto"]]))
    await said(rt, context, MARA, "both saw the heron", scope=shared)
    context.consent.controls[ScopePath(HOME)] = Controls(history=True)
    assert await found(rt, context, wide, "heron") == ["mara saw the heron"]
    assert set(await found(rt, context, MARA, "heron")) == {"mara saw the heron", "both saw the heron"}
    context.consent.controls[ScopePath("user/otto")] = Controls(history=True)
    assert set(await found(rt, context, wide, "heron")) == {
        "mara saw the heron",
        "otto saw the heron",
        "both saw the heron",
    }


async def test_operational_opens_what_is_no_persons(rt: Runtime, context: Context) -> None:
    context.consent.settings = of_preset(Preset.OPERATIONAL)
    await said(rt, context, ONE, "the heron of the team", scope=parse_scopes([["team/birds"]]))
    await said(rt, context, ONE, "the heron of mara", scope=parse_scopes([["user/mara"]]))
    assert await found(rt, context, TWO, "heron") == ["the heron of the team"]
    context.consent.settings = of_preset(Preset.AUTOMATIC)
    assert len(await found(rt, context, TWO, "heron")) == 2


async def test_history_off_shows_agents_nothing_that_was_kept_before(rt: Runtime, context: Context) -> None:
    context.consent.settings = of_preset(Preset.AUTOMATIC)
    await said(rt, context, ONE, "the heron stands at the weir")
    context.consent.settings = replace(of_preset(Preset.DELIBERATE), history=History.OFF)
    context.consent.controls[ScopePath(HOME)] = Controls(history=True)
    assert await found(rt, context, TWO, "heron") == []
    assert await found(rt, context, MARA, "heron") == ["the heron stands at the weir"]


async def test_what_is_hidden_changes_no_score(rt: Runtime, context: Context) -> None:
    mine = await said(rt, context, ONE, "the heron stands at the weir near the old mill")
    before = await recall(rt, context, ONE, Recall(query="heron weir", session=mine.session))
    for n in range(30):
        await said(rt, context, TWO, f"heron {n} at weir {n}")
    after = await recall(rt, context, ONE, Recall(query="heron weir", session=mine.session))
    assert [(hit.unit, hit.score) for hit in after.hits] == [(hit.unit, hit.score) for hit in before.hits]


async def test_no_other_door_leads_there(rt: Runtime, context: Context) -> None:
    done = await said(rt, context, ONE, "the heron stands at the weir")
    for who, sees in ((ONE, True), (TWO, False), (MARA, True)):
        listed = await sessions.list_all(context, who, replace(FIRST_PAGE, count=True))
        assert [view.session.id for view in listed.rows] == ([done.session] if sees else [])
        assert listed.total == int(sees)
        for look in (
            sessions.get(context, who, done.session),
            sessions.turns(context, who, done.session, FIRST_PAGE),
            sessions.block(rt, context, who, done.session, Recall(query="heron")),
            inspect(rt, context, who, Inspect(ref=f"turn:{done.turns[0]}")),
            inspect(rt, context, who, Inspect(ref=f"memory_chunk:{done.chunks[0]}")),
            inspect(rt, context, who, Inspect(ref=f"session:{done.session}")),
        ):
            if sees:
                assert await look
                continue
            with pytest.raises(NotFound):
                await look
        near = (await forget(rt, context, who, Forget(query="heron at a weir", dry_run=True))).near_misses
        assert [miss.text for miss in near] == (["the heron stands at the weir"] if sees else [])


async def test_acting_for_the_person_is_not_being_the_person(rt: Runtime, context: Context) -> None:
    await said(rt, context, ONE, "the heron stands at the weir")
    acting = replace(TWO, target=MARA.principal)
    assert await found(rt, context, acting, "heron") == []
    answer = await recall(rt, context, replace(MARA, target=TWO.principal), Recall(query="heron", lens=Lens()))
    assert list(answer.hits) == []


async def test_a_read_of_another_agent_does_not_name_its_session(rt: Runtime, context: Context) -> None:
    done = await said(rt, context, ONE, "the heron stands at the weir")
    await found(rt, context, ONE, "heron", done.session)
    for who, sees in ((ONE, True), (TWO, False)):
        (trace,) = (await traces.list_(rt, context, who)).rows
        view = await traces.get(rt, context, who, trace.id)
        assert [trace.session, view.trace.session] == [done.session if sees else None] * 2
