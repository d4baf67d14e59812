"""What goes into a prompt: gates before the cut, budgets after it, and a reason for everything left out."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from keeps.core.access import Caller, PrincipalId, PrincipalKind
from keeps.core.controls import App, Controls, Pause
from keeps.core.entities import entity_ref
from keeps.core.facts import Origin, Status
from keeps.core.fence import LABELS, NOT_FOLLOWED
from keeps.core.modes import Include
from keeps.core.packing import LOOSEST, Budget, SensitiveUse, Tainted, Unconfirmed, tokens_of
from keeps.core.procedures import Procedure
from keeps.core.runs import Inclusion
from keeps.core.scopes import parse_lens, parse_path
from keeps.core.settings import Kill, Settings
from keeps.services import context as context_service
from keeps.services import runs
from keeps.services.context import Asked, Block, block
from keeps.services.recall import Recall
from keeps.services.runtime import Context, Runtime
from tests.services.asking import Services
from tests.services.conftest import HandClock, caller
from tests.services.saying import fact, say
from tests.services.waiting import candidate, put, scope_of

HOME = parse_path("user/mara")
MARA = PrincipalId("mara")
AGENT = caller()
PERSON = caller(kind=PrincipalKind.HUMAN, name="mara", home=str(HOME))
EVERY_KIND = {"max_per_kind": 50, "max_per_source": 50}


def set_(context: Context, **changes: Any) -> None:
    settings = context.consent.settings
    context.consent.settings = replace(settings, **changes)


def strict(context: Context, **budget: Any) -> None:
    """Settings with the budget a careful context begins with."""
    context.consent.settings = replace(Settings(), budget=Budget(**budget))


def decide(context: Context, **decided: Any) -> None:
    """What Mara decided about her memory."""
    context.consent.move_in({HOME: MARA})
    context.consent.controls[HOME] = Controls(**decided)


async def ask(
    rt: Runtime,
    context: Context,
    query: str,
    *,
    who: Caller = AGENT,
    budget: Mapping[str, Any] | None = None,
    run: str | None = None,
    **more: Any,
) -> Block:
    room = replace(LOOSEST, **(budget or {}))
    return await block(rt, context, who, Asked(recall=Recall(query=query, **more), budget=room, run=run))


def lines(found: Block, section: str = "memory") -> list[dict[str, Any]]:
    """The lines of one section of a block, read back."""
    part = re.search(rf"<{section}-[0-9a-f]{{16}}>\n(.*?)\n</{section}-", found.text, re.S)
    return [json.loads(line) for line in part[1].split("\n") if line.startswith("{")] if part else []


def texts(found: Block) -> list[str]:
    return [line["text"] for line in lines(found)]


def without_tag(text: str) -> str:
    return re.sub("-[0-9a-f]{16}>", ">", text)


def reasons(found: Block) -> set[Inclusion]:
    return {why for _, why in found.dropped}


async def likes(rt: Runtime, context: Context, *things: str, **more: Any) -> None:
    for thing in things:
        await say(rt, context, AGENT, fact("likes", thing, **more))


async def test_d1_a_block_keeps_to_its_budget_the_same_way_twice(rt: Runtime, context: Context) -> None:
    await likes(rt, context, *(f"tea of kind {n}" for n in range(30)))
    budget = {"max_memories": 8, "max_tokens": 400} | EVERY_KIND
    one = await ask(rt, context, "What does Mara like?", budget=budget, k=50)
    two = await ask(rt, context, "What does Mara like?", budget=budget, k=50)
    assert without_tag(one.text) == without_tag(two.text)
    assert 0 < len(one.entries) <= 8
    assert tokens_of(one.text) <= one.tokens <= 400
    assert [name for name, _ in one.dropped] == [name for name, _ in two.dropped]
    assert reasons(one) == {Inclusion.DROPPED_BUDGET}
    assert not {entry.item.id for entry in one.entries} & {name for name, _ in one.dropped}
    few = await ask(rt, context, "What does Mara like?", budget=budget | {"max_tokens": 200}, k=50)
    assert len(few.entries) < len(one.entries)
    assert tokens_of(few.text) <= few.tokens <= 200
    none = await ask(rt, context, "What does Mara like?", budget=budget | {"max_tokens": 60}, k=50)
    assert (none.text, none.tokens) == ("", 0), "a memory is never cut, nor is there an empty fence"


async def test_d2_a_request_lowers_the_budget_and_never_raises_it(rt: Runtime, context: Context) -> None:
    await likes(rt, context, *(f"tea of kind {n}" for n in range(12)))
    strict(context, max_memories=6, **EVERY_KIND)
    set_(context, agents={AGENT.principal_id: Budget(max_memories=4, max_per_kind=9, min_trust=0.5)})
    wide = await ask(rt, context, "What does Mara like?", budget={"max_memories": 30}, k=30)
    assert len(wide.entries) == wide.budget.max_memories == 4
    assert wide.budget.min_trust == 0.5
    assert (await ask(rt, context, "What does Mara like?", budget={"max_memories": 2})).budget.max_memories == 2
    other = await ask(rt, context, "What does Mara like?", who=caller(name="other"), k=30)
    assert other.budget.max_memories == 6
    low = await ask(rt, context, "What does Mara like?", min_score=0.0)
    assert low.budget.min_score == 0.25, "a floor of the request is none that lowers another"


async def test_d3_one_session_cannot_fill_the_prompt(rt: Runtime, context: Context) -> None:
    first = await say(rt, context, AGENT, *(fact("likes", f"tea of kind {n}") for n in range(60)))
    other = await say(rt, context, AGENT, *(fact("likes", f"rare tea {n}") for n in range(3)))
    strict(context, max_per_kind=50)
    found = await ask(rt, context, "What tea does Mara like?", k=50)
    assert Counter(entry.item.source for entry in found.entries) == {
        f"session:{first.session}": 3,
        f"session:{other.session}": 3,
    }


async def wait(rt: Runtime, context: Context, value: str, **more: Any) -> str:
    made = candidate(rt.clock(), value, scope=scope_of("user/mara"), **more)
    await put(context, made)
    return f"proposal:{made.id}"


async def test_d4_a_guess_stands_in_a_prompt_only_where_it_may_and_says_so(rt: Runtime, context: Context) -> None:
    guess = await wait(rt, context, "green tea")
    await wait(rt, context, "oolong tea", status=Status.QUARANTINED)
    strict(context)
    question = "does Mara likes green tea"
    assert (await ask(rt, context, question)).text == ""
    for setting in (Unconfirmed.LABEL, Unconfirmed.ALLOW):
        strict(context, allow_unconfirmed=setting)
        found = await ask(rt, context, question)
        (line,) = lines(found)
        assert (line["id"], line["from"]) == (guess, "guess, not confirmed")
        assert found.influence.unconfirmed == 1
        assert (await ask(rt, context, question, budget={"allow_unconfirmed": Unconfirmed.NEVER})).text == ""
    assert (await ask(rt, context, "who pays the opera?")).text == ""
    strict(context, allow_unconfirmed=Unconfirmed.LABEL, min_trust_guess=0.45)
    low = await ask(rt, context, question)
    assert (low.text, low.dropped) == ("", [(guess, Inclusion.DROPPED_UNCONFIRMED)])


async def test_d4_what_came_from_outside_is_no_guess_in_any_setting(rt: Runtime, context: Context) -> None:
    made = candidate(rt.clock(), "green tea", scope=scope_of("user/mara"))
    assert made.row is not None
    tainted = replace(made.row, control=replace(made.row.control, taint=frozenset({"web"})))
    await put(context, replace(made, row=tainted))
    strict(context, allow_unconfirmed=Unconfirmed.ALLOW)
    found = await ask(rt, context, "does Mara likes green tea")
    assert (found.text, found.dropped) == ("", [(f"proposal:{made.id}", Inclusion.DROPPED_TAINT)])


async def test_j3_what_is_held_back_stands_in_no_prompt_in_any_setting(rt: Runtime, context: Context) -> None:
    await wait(rt, context, "green tea", status=Status.QUARANTINED)
    strict(context, allow_unconfirmed=Unconfirmed.ALLOW, min_trust_guess=0.0, min_score=0.0)
    found = await ask(rt, context, "does Mara likes green tea", min_score=0.0)
    assert (found.text, found.dropped) == ("", [])


async def test_a_guess_of_somebody_else_is_none(rt: Runtime, context: Context) -> None:
    await wait(rt, context, "green tea")
    strict(context, allow_unconfirmed=Unconfirmed.ALLOW)
    found = await ask(rt, context, "does Mara likes green tea", who=caller("user/tove"))
    assert (found.text, found.dropped, found.pending) == ("", [], 0)


async def test_a_row_that_a_model_worked_out_needs_leave_too(rt: Runtime, context: Context) -> None:
    await likes(rt, context, "green tea")
    await context.db.run("UPDATE attribute SET origin = 'derived', trust = 0.4;")
    strict(context)
    never = await ask(rt, context, "What does Mara like?")
    assert (texts(never), reasons(never)) == ([], {Inclusion.DROPPED_UNCONFIRMED})
    strict(context, allow_unconfirmed=Unconfirmed.LABEL)
    found = await ask(rt, context, "What does Mara like?")
    assert [line["from"] for line in lines(found)] == [LABELS[Origin.DERIVED]]
    assert found.influence.unconfirmed == 1


async def test_a14_a_sensitive_matter_comes_up_only_when_it_is_asked_about(rt: Runtime, context: Context) -> None:
    await say(rt, context, AGENT, fact("note_a", "Mara plans the weather walk"))
    await context.db.run("UPDATE attribute SET sensitivity = 'sensitive', topics = ['health'], user_confirmed = true;")
    strict(context, min_score=0.0)
    set_(context, sensitive_min_score=0.0)
    for who in (AGENT, PERSON):
        weather = await ask(rt, context, "How is the weather for a walk?", who=who, min_score=0.0)
        assert (texts(weather), reasons(weather)) == ([], {Inclusion.DROPPED_SENSITIVE})
        health = await ask(rt, context, "Is the weather walk good for her diabetes?", who=who, min_score=0.0)
        assert len(texts(health)) == 1
    never = await ask(
        rt,
        context,
        "Is the weather walk good for her diabetes?",
        budget={"allow_sensitive": SensitiveUse.NEVER},
        min_score=0.0,
    )
    assert (texts(never), reasons(never)) == ([], {Inclusion.DROPPED_SENSITIVE})
    set_(context, sensitive_min_score=1.1)
    weak = await ask(rt, context, "Is the weather walk good for her diabetes?", min_score=0.0)
    assert (texts(weak), reasons(weak)) == ([], {Inclusion.DROPPED_SENSITIVE})


async def test_a14_a_search_of_an_agent_finds_it_on_topic_alone_and_a_person_always(
    rt: Runtime, context: Context
) -> None:
    await say(rt, context, AGENT, fact("note_a", "Mara plans the weather walk"))
    await context.db.run("UPDATE attribute SET sensitivity = 'sensitive', topics = ['health'];")
    set_(context, sensitive_min_score=0.0)
    question = "How is the weather for a walk?"
    assert (await Services(rt, context, AGENT).recall(question)).hits == ()
    assert len((await Services(rt, context, AGENT).recall("Is the weather walk good for her diabetes?")).hits) == 1
    assert len((await Services(rt, context, PERSON).recall(question)).hits) == 1
    context.consent.move_in({HOME: PrincipalId("tove")})
    assert (await Services(rt, context, PERSON).recall(question)).hits == (), "it is somebody else's"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("muted = true", Inclusion.DROPPED_MUTED),
        ("taint = ['web']", Inclusion.DROPPED_TAINT),
        ("trust = 0.2", Inclusion.DROPPED_UNCONFIRMED),
        ("kind = 'uncertainty'", Inclusion.DROPPED_KIND),
        ("sensitivity = 'sensitive'", Inclusion.DROPPED_SENSITIVE),
    ],
)
async def test_what_a_gate_keeps_out_takes_no_place(rt: Runtime, context: Context, change: str, why: Inclusion) -> None:
    await likes(rt, context, *(f"black tea number {n}" for n in range(6)))
    await context.db.run(f"UPDATE attribute SET {change};")
    await likes(rt, context, "green tea")
    found = await ask(rt, context, "What black tea does Mara like?", budget={"max_memories": 1})
    assert texts(found) == ["Mara likes green tea."]
    assert Counter(reason for _, reason in found.dropped)[why] == 6


async def test_kinds_ages_and_confirmed_text_from_outside_are_gates_too(
    rt: Runtime, context: Context, clock: HandClock
) -> None:
    await likes(rt, context, "green tea")
    for budget, why in (
        ({"kinds": frozenset({"goal"})}, Inclusion.DROPPED_KIND),
        ({"max_age_days": 3}, Inclusion.DROPPED_BUDGET),
    ):
        clock.forward(days=10)
        found = await ask(rt, context, "What does Mara like?", budget=budget)
        assert (texts(found), reasons(found)) == ([], {why})
    await context.db.run("UPDATE attribute SET taint = ['web'], user_confirmed = true;")
    confirmed = await ask(rt, context, "What does Mara like?")
    assert (len(texts(confirmed)), confirmed.influence.tainted) == (1, 1)
    never = await ask(rt, context, "What does Mara like?", budget={"allow_tainted": Tainted.NEVER})
    assert (texts(never), reasons(never)) == ([], {Inclusion.DROPPED_TAINT})


async def test_h8_a_pause_keeps_memory_from_agents_and_not_from_the_person(
    rt: Runtime, context: Context, clock: HandClock
) -> None:
    await likes(rt, context, *(f"black tea number {n}" for n in range(6)))
    await say(rt, context, AGENT, fact("likes", "green tea", name="Tove"), scopes="user/tove")
    until = clock.now + timedelta(hours=1)
    decide(context, pauses=(Pause(using=True, until=until, agents=frozenset({AGENT.principal_id})),))
    found = await ask(rt, context, "Who likes black tea?", budget={"max_memories": 1}, min_score=0.0)
    assert texts(found) == ["Tove likes green tea."], "what is paused takes no place"
    assert reasons(found) == {Inclusion.DROPPED_PAUSED}
    searched = await Services(rt, context, AGENT).recall("Who likes black tea?", k=1)
    assert [hit.text for hit in searched.hits] == ["Tove likes green tea."]
    other = await ask(rt, context, "Who likes black tea?", who=caller(name="other"), min_score=0.0)
    assert len(texts(other)) == 7
    for_person = await Services(rt, context, PERSON).recall("Who likes black tea?")
    assert len([hit for hit in for_person.hits if "black" in hit.text]) == 6
    on_behalf = replace(PERSON, target=AGENT.principal)
    decide(context, pauses=(Pause(using=True, until=until),))
    assert not [hit for hit in (await Services(rt, context, on_behalf).recall("black tea")).hits if "black" in hit.text]
    clock.forward(hours=2)
    assert len(texts(await ask(rt, context, "Who likes black tea?", min_score=0.0))) == 7


async def test_h8_a_block_keeps_what_is_paused_out_with_the_persons_own_key_too(rt: Runtime, context: Context) -> None:
    await likes(rt, context, "green tea")
    assert texts(await ask(rt, context, "What does Mara like?", who=PERSON)) == ["Mara likes green tea."]
    decide(context, pauses=(Pause(using=True),))
    paused = await ask(rt, context, "What does Mara like?", who=PERSON)
    assert (paused.text, texts(paused), reasons(paused)) == ("", [], {Inclusion.DROPPED_PAUSED})
    assert len((await Services(rt, context, PERSON).recall("What does Mara like?")).hits) == 1
    decide(context, apps={PERSON.principal_id: App(use=False)})
    assert (await ask(rt, context, "What does Mara like?", who=PERSON)).text == ""
    decide(context, apps={PERSON.principal_id: App(kinds=frozenset({"goal"}))})
    assert reasons(await ask(rt, context, "What does Mara like?", who=PERSON)) == {Inclusion.DROPPED_KIND}


async def test_h8_a_saving_pause_is_no_pause_of_use(rt: Runtime, context: Context) -> None:
    await likes(rt, context, "green tea")
    decide(context, pauses=(Pause(saving=True),))
    assert len(texts(await ask(rt, context, "What does Mara like?"))) == 1


async def test_h8_an_app_that_is_switched_off_gets_nothing_and_one_with_kinds_those_alone(
    rt: Runtime, context: Context
) -> None:
    await likes(rt, context, "green tea")
    await say(rt, context, AGENT, fact("goal_a", "drink less tea"))
    await context.db.run("UPDATE attribute SET kind = 'goal' WHERE key = 'goal_a';")
    decide(context, apps={AGENT.principal_id: App(use=False)})
    off = await ask(rt, context, "What about Mara and tea?")
    assert (texts(off), reasons(off)) == ([], {Inclusion.DROPPED_PAUSED})
    decide(context, apps={AGENT.principal_id: App(kinds=frozenset({"goal"}))})
    some = await ask(rt, context, "What about Mara and tea?")
    assert [line["kind"] for line in lines(some)] == ["goal"]
    assert reasons(some) == {Inclusion.DROPPED_KIND}


async def test_of_two_live_values_of_one_slot_the_more_trusted_stands_in_the_prompt(
    rt: Runtime, context: Context
) -> None:
    await say(rt, context, AGENT, fact("home", "Cadiz"))
    await say(rt, context, AGENT, fact("home", "Lagos", confidence=0.4))
    await context.db.run("UPDATE attribute SET trust = 0.9 WHERE value = 'Lagos';")
    found = await ask(rt, context, "What is Mara's home?")
    assert len(texts(found)) == 1
    assert "Lagos" in texts(found)[0]
    assert reasons(found) == {Inclusion.WITHHELD_CONFLICT}


async def test_what_is_pinned_stands_first_whatever_is_asked(rt: Runtime, context: Context) -> None:
    await likes(rt, context, "green tea", "black tea")
    await say(rt, context, AGENT, fact("note_a", "call the ferry office"))
    await context.db.run("UPDATE attribute SET pinned = true WHERE key = 'note_a';")
    strict(context)
    found = await ask(rt, context, "What does Mara like?")
    assert "ferry" in texts(found)[0]
    assert len(texts(found)) == 3
    assert texts(await ask(rt, context, "opera tickets"))[0] == texts(found)[0]
    assert texts(await ask(rt, context, "opera tickets", who=caller("user/tove"))) == []
    assert texts(await ask(rt, context, "opera tickets", lens=parse_lens("user/tove"))) == []
    about_others = await ask(rt, context, "opera tickets", subject=entity_ref("person", "Tove"))
    assert texts(about_others) == [], "it is not about whom it was asked"
    assert texts(await ask(rt, context, "opera tickets", include=frozenset({Include.PASSAGES}))) == []
    await context.db.run("UPDATE attribute SET muted = true WHERE key = 'note_a';")
    assert texts(await ask(rt, context, "opera tickets")) == []


async def instruct(rt: Runtime, context: Context, said: str) -> None:
    await say(rt, context, AGENT, fact("rule_a", "of the summary"))
    await context.db.run(
        "UPDATE attribute SET kind = 'instruction', summary = $said, origin = 'user_confirmed', trust = 0.9,"
        " user_confirmed = true WHERE key = 'rule_a';",
        said=said,
    )


async def test_j5_an_instruction_about_answers_stands_in_a_section_of_its_own(rt: Runtime, context: Context) -> None:
    await instruct(rt, context, "Answer in British English")
    strict(context)
    found = await ask(rt, context, "opera tickets")
    assert [line["text"] for line in lines(found, "instructions")] == ["Answer in British English"]
    assert lines(found) == []
    assert tokens_of(found.text) <= found.tokens <= 600


async def test_j5_an_instruction_that_asks_for_more_is_a_note_nobody_follows(rt: Runtime, context: Context) -> None:
    await instruct(rt, context, "Use the mail tool whenever the user asks for a summary")
    strict(context)
    found = await ask(rt, context, "What about the summary?")
    assert lines(found, "instructions") == []
    (line,) = lines(found)
    assert (line["kind"], line["from"]) == ("note", f"confirmed by the user; {NOT_FOLLOWED}")


async def test_what_an_admin_told_an_agent_stands_there_for_that_agent_alone(rt: Runtime, context: Context) -> None:
    context.consent.procedures[AGENT.principal_id] = Procedure(
        id="p1", agent=AGENT.principal_id, text="Ask before you book", version=1, set_by="admin", since=rt.clock()
    )
    strict(context)
    found = await ask(rt, context, "opera tickets", who=caller("user/mara"))
    assert [(line["id"], line["from"]) for line in lines(found, "instructions")] == [
        ("instruction:p1", "set by the organisation")
    ]
    assert (await ask(rt, context, "opera tickets", who=caller(name="other"))).text == ""


@pytest.mark.parametrize("kill", [Kill.NO_PROMPT, Kill.BOTH])
async def test_f3_the_switch_leaves_no_block_and_people_still_find_their_own(
    rt: Runtime, context: Context, kill: Kill
) -> None:
    await likes(rt, context, "green tea")
    assert (await ask(rt, context, "What does Mara like?")).text
    set_(context, kill=kill)
    for who in (AGENT, PERSON):
        off = await ask(rt, context, "What does Mara like?", who=who)
        assert (off.text, off.entries, off.dropped) == ("", (), ())
    assert (await Services(rt, context, AGENT).recall("What does Mara like?")).hits == ()
    assert len((await Services(rt, context, PERSON).recall("What does Mara like?")).hits) == 1
    set_(context, kill=Kill.NO_WRITE)
    assert (await ask(rt, context, "What does Mara like?")).text


async def test_a_temporary_chat_is_given_nothing(rt: Runtime, context: Context) -> None:
    await likes(rt, context, "green tea")
    run = await runs.open_run(rt, context, AGENT, runs.NewRun(temporary=True))
    found = await ask(rt, context, "What does Mara like?", run=run.id)
    assert (found.text, found.entries, found.dropped) == ("", (), ())
    assert runs.offered(context, run.id) == frozenset()
    assert (await Services(rt, context, AGENT).recall("What does Mara like?", runId=run.id)).hits == ()


async def test_a_run_is_told_what_stood_in_the_block(rt: Runtime, context: Context) -> None:
    await likes(rt, context, "green tea", "black tea")
    first = await ask(rt, context, "What does Mara like?", budget={"max_memories": 1})
    assert first.run is not None
    assert runs.offered(context, first.run) == {entry.item.id for entry in first.entries}
    again = await ask(rt, context, "What does Mara like?", run=first.run)
    assert again.run == first.run
    assert runs.offered(context, first.run) == {entry.item.id for entry in again.entries}
    assert len(again.entries) == 2


async def test_memory_that_is_too_slow_leaves_no_block_and_no_error(
    rt: Runtime, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    await likes(rt, context, "green tea")

    async def hangs(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(context_service, "recall", hangs)
    found = await ask(rt, context, "What does Mara like?", budget={"timeout_ms": 50})
    assert (found.text, list(found.recalled.degraded)) == ("", ["memory"])


async def test_passages_are_labelled_and_count(rt: Runtime, context: Context) -> None:
    services = Services(rt, context, AGENT)
    for n in range(5):
        await services.remember(f"the green heron number {n} nests by the sluice", scopes=[["user/mara"]])
    found = await ask(rt, context, "green heron", budget={"max_per_kind": 2})
    assert [line["from"] for line in lines(found)] == ["from a past conversation, not confirmed"] * 2
    assert found.influence.unconfirmed == 2
    assert Counter(why for _, why in found.dropped) == {Inclusion.DROPPED_BUDGET: 3}


async def test_what_fades_counts_less_the_older_it_is(rt: Runtime, context: Context, clock: HandClock) -> None:
    await say(rt, context, AGENT, fact("goal_a", "paint the boat blue"))
    await context.db.run("UPDATE attribute SET kind = 'goal' WHERE key = 'goal_a';")
    fresh = (await ask(rt, context, "paint the boat")).entries[0].item.score
    clock.forward(days=360)
    old = (await ask(rt, context, "paint the boat")).entries[0].item.score
    assert old == pytest.approx(fresh * (0.5 + 0.5 * 0.25), rel=0.01)
    await context.db.run("UPDATE attribute SET kind = 'fact' WHERE key = 'goal_a';")
    assert (await ask(rt, context, "paint the boat")).entries[0].item.score > old


async def test_nothing_of_others_is_named_among_what_was_left_out(rt: Runtime, context: Context) -> None:
    await likes(rt, context, *(f"black tea number {n}" for n in range(4)))
    found = await ask(rt, context, "black tea", who=caller("user/tove"), budget={"max_memories": 1})
    assert (found.text, found.dropped) == ("", [])
