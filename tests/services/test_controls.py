"""A person's own controls: set by that person alone, in force at once, strictest with those of an admin."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from keeps.core.access import PrincipalId, PrincipalKind, Role
from keeps.core.controls import App, Controls, Pause, of_document, to_document
from keeps.core.errors import Forbidden, SecretRefused, StaleRevision, Unprocessable
from keeps.core.facts import Origin
from keeps.core.pages import FIRST_PAGE
from keeps.core.policy import Drop, Subject, decide
from keeps.core.scopes import Scope, ScopePath
from keeps.services import audit, controls, settings
from keeps.services.audit import Filters
from keeps.services.controls import Rules
from keeps.services.settings import Change
from tests.services.conftest import HandClock
from tests.services.governing import House, house
from tests.services.saying import fact, say

HOME = ScopePath("user/owner")
OURS = Scope(frozenset({frozenset({HOME})}))


@pytest.fixture
async def at(rt: Any) -> House:
    return await house(rt)


def rules(**said: Any) -> Rules:
    return Rules(**{"blocked": (), "consents": frozenset(), "history": False, "never_kinds": frozenset(), **said})


def rev(at: House) -> int:
    return next(iter(at.context.consent.over(OURS))).rev


@pytest.mark.parametrize(("saving", "using"), [(True, False), (False, True), (True, True)])
async def test_h8_each_pause_holds_at_once_for_all_agents_until_its_end(
    at: House, clock: HandClock, saving: bool, using: bool
) -> None:
    until = clock() + timedelta(hours=1)
    await controls.set_pauses(at.rt, at.context, at.owner, [Pause(saving=saving, using=using, until=until)], expected=0)
    (held,) = at.context.consent.over(OURS)
    for agent in ("agent", "another"):
        assert held.may_save(agent, clock()) is not saving
        assert held.may_use(agent, clock()) is not using
    clock.forward(hours=1.1)
    assert held.may_save("agent", clock())
    assert held.may_use("agent", clock())
    assert not (await controls.get(at.rt, at.context, at.owner)).pauses


async def test_h8_a_pause_of_one_app_leaves_the_others(at: House, clock: HandClock) -> None:
    one = Pause(saving=True, using=True, agents=frozenset({"coach"}))
    await controls.set_pauses(at.rt, at.context, at.owner, [one], expected=0)
    (held,) = at.context.consent.over(OURS)
    assert not held.may_save("coach", clock())
    assert held.may_save("agent", clock())
    await controls.set_pauses(at.rt, at.context, at.owner, [], expected=1)
    assert at.context.consent.over(OURS)[0].may_save("coach", clock())


async def test_h8_what_an_agent_says_while_saving_is_paused_is_not_queued(at: House) -> None:
    await controls.set_pauses(at.rt, at.context, at.owner, [Pause(saving=True)], expected=0)
    await say(at.rt, at.context, at.agent, fact("likes", "rye bread"), scopes="user/owner")
    await say(at.rt, at.context, at.owner, fact("likes", "oat bread"), scopes="user/owner")
    await controls.set_pauses(at.rt, at.context, at.owner, [], expected=1)
    (waiting,) = await at.context.db.run("SELECT VALUE id FROM proposal;")
    assert waiting == []
    values = await at.context.db.run("SELECT VALUE value FROM attribute;")
    assert values == [["oat bread"]]
    await say(at.rt, at.context, at.agent, fact("likes", "rye bread"), scopes="user/owner")
    (waiting,) = await at.context.db.run("SELECT VALUE id FROM proposal;")
    assert len(waiting) == 1


async def test_h8_what_an_agent_may_do_holds_after_opening_again(at: House, clock: HandClock) -> None:
    said = {PrincipalId("agent"): App(use=True, suggest=False, kinds=frozenset({"note"}))}
    await controls.set_apps(at.rt, at.context, at.owner, said, expected=0)
    await controls.set_rules(
        at.rt,
        at.context,
        at.owner,
        rules(blocked=("nothing about my back",), consents=frozenset({"religion"}), history=True),
        expected=1,
    )
    await at.rt.forget_context("house")
    opened = await at.rt.context("house")
    (held,) = opened.consent.over(OURS)
    assert not held.may_save("agent", clock())
    assert (held.rev, held.blocked, held.consents, held.history) == (
        2,
        ("nothing about my back",),
        {"religion"},
        True,
    )
    (agent,) = await controls.agents(at.rt, opened, at.owner)
    assert (agent.id, agent.name, agent.app) == ("agent", "Agent", said[PrincipalId("agent")])


async def test_a12_the_strictest_layer_wins_whichever_it_is(at: House, clock: HandClock) -> None:
    """As stored: an admin's automatic policy and a person's never, and the other way round."""
    subject = Subject(
        kind="preference",
        origin=Origin.AGENT_INFERRED,
        agent="agent",
        nodes=frozenset({HOME}),
        personal=True,
    )

    def verdict() -> Drop | None:
        held = at.context.consent
        found = decide(subject, settings=held.settings, controls=held.over(OURS), now=clock(), trusted_writer=False)
        return found.drop

    change = Change(document={"policy": "automatic"}, expected=0)
    await settings.patch(at.rt, at.context, at.owner, change)
    assert verdict() is None
    never = rules(never_kinds=frozenset({"preference"}))
    await controls.set_rules(at.rt, at.context, at.owner, never, expected=0)
    assert verdict() is Drop.POLICY
    await controls.set_rules(at.rt, at.context, at.owner, rules(), expected=1)
    assert verdict() is None
    change = Change(document={"rules": [{"decision": "never", "kind": "preference"}]}, expected=1)
    await settings.patch(at.rt, at.context, at.owner, change)
    assert verdict() is Drop.POLICY


async def test_f4_only_the_person_sets_or_sees_them(at: House) -> None:
    others = [
        at.agent,
        at.on_behalf_of(at.agent, at.owner.principal),
        at.on_behalf_of(at.owner, at.agent.principal),
        await at.someone("Kim", Role.ADMIN, Role.CURATOR),
        await at.someone("Robot", Role.ADMIN, kind=PrincipalKind.SERVICE, home="user/robot"),
    ]
    for other in others:
        with pytest.raises(Forbidden):
            await controls.get(at.rt, at.context, other)
        with pytest.raises(Forbidden):
            await controls.set_pauses(at.rt, at.context, other, [Pause(saving=True)], expected=0)
    assert rev(at) == 0


async def test_each_person_has_their_own(at: House, clock: HandClock) -> None:
    mara = await at.someone("Mara", home="user/mara")
    await controls.set_pauses(at.rt, at.context, mara, [Pause(saving=True)], expected=0)
    both = Scope(frozenset({frozenset({HOME}), frozenset({ScopePath("user/mara")})}))
    assert at.context.consent.over(OURS)[0].may_save("agent", clock())
    assert not all(held.may_save("agent", clock()) for held in at.context.consent.over(both))


async def test_a_change_of_another_state_is_stale(at: House) -> None:
    await controls.set_pauses(at.rt, at.context, at.owner, [Pause(saving=True)], expected=0)
    for expected in (None, 0, 7):
        with pytest.raises(StaleRevision):
            await controls.set_pauses(at.rt, at.context, at.owner, [], expected=expected)
    assert rev(at) == 1


async def test_the_audit_has_no_word_of_a_blocked_topic(at: House) -> None:
    await controls.set_rules(at.rt, at.context, at.owner, rules(blocked=("zebrafish",)), expected=0)
    rows = (await audit.list_(at.rt, at.context, at.owner, Filters(action="controls"), FIRST_PAGE)).rows
    assert [row.entry.action for row in rows] == ["controls.rules"]
    assert "zebrafish" not in repr(rows)


@pytest.mark.parametrize(
    "said",
    [
        {"blocked": ("",)},
        {"blocked": ("x" * 201,)},
        {"blocked": tuple(f"topic {n}" for n in range(101))},
        {"consents": frozenset({"weather"})},
        {"never_kinds": frozenset({"nonsense"})},
    ],
)
async def test_rules_that_make_no_sense_are_refused(at: House, said: dict[str, Any]) -> None:
    with pytest.raises(Unprocessable):
        await controls.set_rules(at.rt, at.context, at.owner, rules(**said), expected=0)
    assert rev(at) == 0


async def test_a_secret_is_no_topic(at: House) -> None:
    with pytest.raises(SecretRefused):
        await controls.set_rules(
            at.rt, at.context, at.owner, rules(blocked=("nothing about AKIAIOSFODNN7EXAMPLE",)), expected=0
        )


async def test_a_pause_of_nothing_or_in_the_past_is_refused(at: House, clock: HandClock) -> None:
    for pause in (Pause(), Pause(saving=True, until=clock() - timedelta(seconds=1))):
        with pytest.raises(Unprocessable):
            await controls.set_pauses(at.rt, at.context, at.owner, [pause], expected=0)


def test_controls_are_the_same_after_they_were_kept(clock: HandClock) -> None:
    held = Controls(
        rev=3,
        pauses=(Pause(saving=True, until=clock(), agents=frozenset({"a"})), Pause(using=True)),
        blocked=("x",),
        consents=frozenset({"health"}),
        history=True,
        never_kinds=frozenset({"goal"}),
        apps={"a": App(use=False), "b": App(kinds=frozenset({"note"}))},
    )
    assert of_document(to_document(held), rev=3) == held
