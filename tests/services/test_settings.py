"""Settings: changed in versions, in force at once, each by those who may, and the same document as a configuration."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from keeps.config import Config
from keeps.core.access import Caller, KeyId, PrincipalKind, Role
from keeps.core.errors import Forbidden, Invalid, KeepsError, NotFound, StaleRevision, Unavailable, Unprocessable
from keeps.core.pages import FIRST_PAGE, PageRequest
from keeps.core.policy import Preset
from keeps.core.settings import Kill
from keeps.services import access, audit, contexts, settings, traces
from keeps.services.audit import Filters
from keeps.services.contexts import ContextChange
from keeps.services.runtime import open_runtime
from keeps.services.settings import Change
from keeps.store import contexts as store_contexts
from keeps.store import settings as store_settings
from tests.services.conftest import Borrowed, HandClock
from tests.services.governing import House, house
from tests.services.saying import fact, say


@pytest.fixture
async def at(rt: Any) -> House:
    return await house(rt)


async def patch(at: House, caller: Caller | None = None, **change: Any) -> settings.Changed:
    expected = at.context.consent.settings.version
    return await settings.patch(at.rt, at.context, caller or at.owner, Change(document=change, expected=expected))


async def audited(at: House, action: str) -> list[Any]:
    return list((await audit.list_(at.rt, at.context, at.owner, Filters(action=action), FIRST_PAGE)).rows)


async def test_f1_a_change_holds_at_once_is_a_version_and_is_audited_with_before_and_after(at: House) -> None:
    changed = await patch(at, retrieval_limit=5, kinds=["recipe"], mode="durable", min_score=0.4)
    held = at.context.consent.settings
    assert (held.version, held.budget.max_memories, held.kinds, held.budget.min_score) == (1, 5, {"recipe"}, 0.4)
    assert at.context.config["mode"] == "durable"
    assert changed.applied
    assert changed.version == 1
    (row,) = await audited(at, "setting.change")
    assert row.entry.target == "setting:1"
    assert row.entry.after == {
        "budget.max_memories": 5,
        "kinds": ["recipe"],
        "min_score": 0.4,
        "mode": "durable",
    }
    assert await store_settings.current(at.context.db) == (1, dict(at.context.config))


async def test_f1_a_second_process_on_the_same_engine_applies_it_within_seconds(
    clock: HandClock, engine_of_the_run: Any, tmp_path: Path
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    lent = Borrowed(engine_of_the_run)
    async with open_runtime(Config(data=tmp_path / "a", engine_url="mem://"), clock=clock, engine=lent) as first:
        at = await house(first)
        (tmp_path / "b" / "pepper").write_bytes((tmp_path / "a" / "pepper").read_bytes())
        other = Borrowed(engine_of_the_run)
        async with open_runtime(Config(data=tmp_path / "b", engine_url="mem://"), clock=clock, engine=other) as second:
            seen = await second.context("house")
            await patch(at, retrieval_limit=2)
            await settings.kill(at.rt, at.context, at.owner, Kill.BOTH)
            clock.forward(seconds=5)
            await settings.fresh(second, seen)
            assert seen.consent.settings.budget.max_memories == 2
            assert seen.consent.settings.kill is Kill.BOTH
            # And the other way round, over an audit that the first process did not see grow.
            again = House(rt=second, context=seen, owner=at.owner, agent=at.agent)
            await settings.kill(second, seen, at.owner, Kill.NONE)
            await patch_stale(at)
            await settings.refresh(first, at.context)
            await patch(at, retrieval_limit=3)
            assert (await audit.check(second, seen)).ok
            assert (await audit.check(first, at.context)).ok
            assert [row.seq for row in await audited(at, "setting")] == sorted(
                (row.seq for row in await audited(again, "setting")), reverse=True
            )
            other._names.clear()  # the databases are the first one's to remove


async def patch_stale(at: House) -> None:
    with pytest.raises(StaleRevision):
        await patch(at, retrieval_limit=3)


async def test_f1_who_cannot_read_settings_for_half_a_minute_stops_memory(
    at: House, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silent(*_: object, **__: object) -> None:
        raise Unavailable("no answer")

    await settings.refresh(at.rt, at.context)
    with monkeypatch.context() as broken:
        broken.setattr(store_settings, "current", silent)
        clock.forward(seconds=29)
        await settings.fresh(at.rt, at.context)
        assert at.context.consent.settings.kill is Kill.NONE
        clock.forward(seconds=2)
        await settings.fresh(at.rt, at.context)
        assert at.context.consent.settings.kill is Kill.BOTH
    await settings.fresh(at.rt, at.context)
    assert at.context.consent.settings.kill is Kill.NONE


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"max_memories": 51}, "budget.max_memories must be a whole number from 0 to 50"),
        ({"budget": {"max_tokens": -1}}, "budget.max_tokens"),
        ({"budget": {"nonsense": 1}}, "budget.nonsense"),
        ({"nonsense": 1}, "nonsense"),
        ({"policy": "lax"}, "policy"),
        ({"kill": True}, "kill"),
        ({"rules": [{"decision": "maybe"}]}, "rule 1"),
        ({"rules": [{"decision": "never", "who": "x"}]}, "rule 1"),
        ({"agents": {"a": {"max_memories": 99}}}, "max_memories"),
        ({"retention_days": {"note": 0}}, "retention_days"),
        ({"kinds": ["note"]}, "every context has"),
        ({"home_topics": ["weather"]}, "home_topics"),
        ({"trace_text": "hours:73"}, "trace_text"),
        ({"webhook_url": "http://127.0.0.1/x"}, "webhook"),
        ({"embedder": "nobody"}, "embedder"),
        ({"undo_seconds": 1.5}, "undo_seconds"),
        ({"maxMemories": 3, "budget": {"max_memories": 4}}, "twice"),
    ],
)
async def test_f2_wrong_settings_are_refused_by_name_and_nothing_is_applied(
    at: House, change: dict[str, Any], says: str
) -> None:
    before = dict(at.context.config)
    with pytest.raises(Unprocessable, match=says):
        await patch(at, show_memories_used=False, **change)
    assert at.context.config == before
    assert at.context.consent.settings.version == 0
    assert await store_settings.current(at.context.db) is None


async def test_f2_a_change_for_another_version_or_for_none_is_stale(at: House) -> None:
    for expected in (None, 7):
        with pytest.raises(StaleRevision):
            await settings.patch(
                at.rt, at.context, at.owner, Change(document={"retrieval_limit": 1}, expected=expected)
            )
    assert at.context.consent.settings.version == 0


async def test_f2_of_twenty_changes_at_once_for_one_version_one_is_made(at: House) -> None:
    done = await asyncio.gather(*(patch(at, retrieval_limit=number) for number in range(1, 21)), return_exceptions=True)
    made = [one for one in done if isinstance(one, settings.Changed)]
    assert len(made) == 1
    assert all(isinstance(one, StaleRevision) for one in done if one is not made[0])
    assert at.context.consent.settings.budget.max_memories == made[0].after["budget.max_memories"]
    assert (await audit.check(at.rt, at.context)).ok


async def test_f3_the_switch_is_instant_needs_no_version_and_only_an_admin_turns_it(at: House) -> None:
    admin = await at.someone("Kim", Role.ADMIN)
    await settings.kill(at.rt, at.context, admin, Kill.NO_PROMPT, "it quotes nonsense")
    assert not at.context.consent.settings.may_prompt
    assert at.context.consent.settings.may_write
    with pytest.raises(Forbidden):
        await settings.kill(at.rt, at.context, at.agent, Kill.NONE)
    assert at.context.consent.settings.kill is Kill.NO_PROMPT
    await settings.kill(at.rt, at.context, admin, Kill.NONE)
    assert at.context.consent.settings.may_prompt
    assert [row.entry.action for row in await audited(at, "setting.kill")] == ["setting.kill"] * 2


async def test_f3_a_version_taken_back_does_not_turn_the_switch(at: House) -> None:
    await patch(at, retrieval_limit=3)
    await settings.kill(at.rt, at.context, at.owner, Kill.BOTH)
    await settings.revert(at.rt, at.context, at.owner, 0, expected=2)
    assert at.context.consent.settings.kill is Kill.BOTH
    assert at.context.consent.settings.budget.max_memories == 8


OWNERS_ONLY: list[dict[str, Any]] = [
    {"policy": "automatic"},
    {"policy": "operational"},
    {"trace_text": True},
    {"trace_text": "hours:2"},
    {"embedder": "fake"},
]
ADMINS: list[dict[str, Any]] = [
    {"retrieval_limit": 3},
    {"mode": "durable"},
    {"min_score": 0.5},
    {"history": "off"},
    {"home_topics": ["religion"]},
    {"kinds": ["recipe"]},
    {"retention_days": {"note": 30}},
    {"proposal_ttl_days": 7},
    {"undo_seconds": 0},
    {"rules": [{"decision": "never", "kind": "goal"}]},
]


async def test_f4_each_role_sets_what_is_its_own(at: House) -> None:
    admin = await at.someone("Kim", Role.ADMIN)
    robot = await at.someone("Robot", Role.ADMIN, kind=PrincipalKind.SERVICE)
    for change in ADMINS:
        await patch(at, admin, **change)
    await patch(at, robot, retrieval_limit=4)
    for change in OWNERS_ONLY:
        with pytest.raises(Forbidden):
            await patch(at, admin, **change)
    for change in OWNERS_ONLY:
        await patch(at, **change)
    await patch(at, admin, policy="deliberate")  # stricter is an admin's to set


async def test_f4_nobody_else_reads_or_sets_anything(at: House) -> None:
    others = [
        at.agent,
        await at.someone("Curator", Role.CURATOR),
        await at.someone("Person", home="user/person"),
        at.on_behalf_of(at.owner, at.agent.principal),
        at.on_behalf_of(at.agent, at.owner.principal),
        Caller(principal=at.owner.principal, key_id=KeyId("k"), key_grants=at.owner.principal.grants),
    ]
    for other in others:
        for change in (*ADMINS[:2], *OWNERS_ONLY[:2]):
            with pytest.raises(Forbidden):
                await patch(at, other, **change)
        with pytest.raises(Forbidden):
            await settings.get(at.rt, at.context, other)
        with pytest.raises(Forbidden):
            await settings.history(at.rt, at.context, other, FIRST_PAGE)
        with pytest.raises(Forbidden):
            await settings.revert(at.rt, at.context, other, 0, expected=0)
    assert at.context.consent.settings.version == 0
    denied = await audited(at, "denied")
    assert {row.entry.actor for row in denied} >= {at.agent.principal_id, at.owner.principal_id}


async def test_a_dry_run_says_what_would_change_and_how_many_memories_it_concerns(at: House) -> None:
    await patch(at, policy="automatic")
    shown = await settings.patch(
        at.rt,
        at.context,
        at.owner,
        Change(document={"policy": "deliberate", "retentionDays": {"note": 3}}, expected=1, dry_run=True),
    )
    assert not shown.applied
    assert shown.after == {"policy": "deliberate", "retention_days": {"note": 3}}
    assert shown.older == {"note": 0}
    assert shown.unasked == 0
    assert at.context.consent.settings.policy is Preset.AUTOMATIC


async def test_history_shows_every_version_and_any_can_be_taken_back(at: House) -> None:
    for number in range(1, 6):
        await patch(at, retrieval_limit=number)
    page = await settings.history(at.rt, at.context, at.owner, PageRequest(limit=4))
    assert [row.number for row in page.rows] == [5, 4, 3, 2]
    rest = await settings.history(at.rt, at.context, at.owner, PageRequest(limit=4, after=page.next))
    assert [row.number for row in rest.rows] == [1, 0]
    changed = await settings.revert(at.rt, at.context, at.owner, 2, expected=5, reason="worse")
    assert (changed.version, at.context.consent.settings.budget.max_memories) == (6, 2)
    with pytest.raises(NotFound):
        await settings.revert(at.rt, at.context, at.owner, 99, expected=6)


async def test_what_management_sets_is_the_same_document(at: House) -> None:
    await contexts.patch(at.rt, "house", ContextChange(config={"budget": {"max_memories": 4}, "rerank": "x"}))
    assert at.context.consent.settings.budget.max_memories == 4
    assert at.context.consent.settings.version == 1
    await patch(at, min_score=0.9)
    shown = await contexts.get(at.rt, "house")
    assert (shown.config["min_score"], shown.config["rerank"]) == (0.9, "x")
    with pytest.raises(Invalid):
        await contexts.patch(at.rt, "house", ContextChange(config={"budget": {"max_memories": 99}}))
    assert [row.entry.action for row in await audited(at, "setting")] == ["setting.change"] * 2


async def test_what_was_set_holds_after_the_context_is_opened_again_and_the_copy_is_mended(at: House) -> None:
    await patch(at, retrieval_limit=4)
    row = await store_contexts.find(at.rt.control, "house")
    assert row is not None
    await at.rt.control.run("UPDATE context:house SET config = {};")
    await at.rt.forget_context("house")
    opened = await at.rt.context("house")
    assert (opened.consent.settings.version, opened.consent.settings.budget.max_memories) == (1, 4)
    mended = await store_contexts.find(at.rt.control, "house")
    assert mended is not None
    assert mended.config == row.config


async def test_a_setting_taken_back_with_null_is_what_it_was_without(at: House) -> None:
    await patch(at, retrieval_limit=4, agents={"bot": {"maxTokens": 50}})
    assert at.context.consent.settings.agents["bot"].max_memories == 4
    await patch(at, retrieval_limit=None, agents={"bot": None})
    assert at.context.consent.settings.budget.max_memories == 8
    assert not at.context.consent.settings.agents


async def test_texts_of_questions_are_kept_for_so_many_hours(at: House, clock: HandClock) -> None:
    await patch(at, trace_text="hours:2")
    assert traces.keeps_text(at.context)
    clock.forward(hours=1.9)
    assert traces.keeps_text(at.context)
    await patch(at, retrieval_limit=3)  # another change does not lengthen it
    clock.forward(hours=0.2)
    assert not traces.keeps_text(at.context)


async def test_the_address_of_a_webhook_is_in_no_audit(at: House) -> None:
    await patch(at, webhook_url="https://hooks.example/T0PS3CRET/abcd")
    (row,) = await audited(at, "setting.change")
    assert row.entry.after == {"webhook_url": "set (…abcd)"}
    assert "T0PS3CRET" not in repr(row)


async def test_a_kind_that_memories_have_stays(at: House) -> None:
    await patch(at, kinds=["recipe", "song"])
    await say(at.rt, at.context, at.owner, fact("dish", "soup"), scopes="user/owner")
    await at.context.db.run("UPDATE attribute SET kind = 'recipe';")
    await patch(at, kinds=["recipe"])
    with pytest.raises(Unprocessable, match="recipe"):
        await patch(at, kinds=[])
    assert at.context.consent.settings.kinds == {"recipe"}


async def test_a_refused_change_is_written_down_once_a_minute(at: House, clock: HandClock) -> None:
    for _ in range(3):
        with pytest.raises(KeepsError):
            await settings.get(at.rt, at.context, at.agent)
    assert len(await audited(at, "denied.setting.read")) == 1
    clock.forward(minutes=2)
    with pytest.raises(Forbidden):
        await settings.get(at.rt, at.context, at.agent)
    assert len(await audited(at, "denied.setting.read")) == 2


async def test_management_may_do_all_of_it(at: House) -> None:
    await settings.get(at.rt, at.context, access.ManagementCaller(KeyId("m")))
