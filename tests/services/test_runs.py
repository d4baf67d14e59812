"""Runs of agents: in memory at once, saved behind, counted once, seen by those whose they are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from keeps.core.access import Caller, PrincipalId, PrincipalKind, Role
from keeps.core.citations import SHOWN_AS
from keeps.core.errors import Conflict, Invalid, NotFound, Unavailable
from keeps.core.pages import PageRequest
from keeps.core.runs import Candidate, EndReason, Inclusion, Outcome, Reason, Run, ToolCall, Uses
from keeps.core.scopes import ScopePath
from keeps.services import citations, erase, run_buffer, runs, sessions, trace_buffer, traces, upkeep
from keeps.services.context import Asked
from keeps.services.context import block as block_of
from keeps.services.erase import Forget
from keeps.services.recall import Recall
from keeps.services.runs import NewRun, Offer, RunChange, RunsWanted
from keeps.services.runtime import Context, Runtime
from keeps.services.sessions import NewSession
from keeps.store import runs as store_runs
from keeps.store.commit import Batch
from keeps.store.db import Db
from keeps.store.facts import record_id
from tests.services.conftest import HandClock, caller
from tests.services.saying import fact, say

MARA = "user/mara/*"
TABLES = ("run", "run_memory", "memory_use")


def weighed(memory: str, rank: int = 1, inclusion: Inclusion = Inclusion.INCLUDED, **more: Any) -> Candidate:
    given: dict[str, Any] = {"reason": Reason.KEYWORD, "score": 0.5, "origin": "user_saved"}
    return Candidate(memory=memory, rank=rank, inclusion=inclusion, **given | more)


async def offer(rt: Runtime, context: Context, who: Caller, run: str | None, *given: Candidate, **more: Any) -> str:
    told: dict[str, Any] = {"tokens": 100, "latency_ms": 7} | more
    return await runs.offer(rt, context, who, run, Offer(candidates=given, **told))


async def told(rt: Runtime, context: Context, value: str = "pilot", scopes: str = "user/mara") -> str:
    done = await say(rt, context, caller(), fact("role", value), scopes=scopes)
    assert done.extraction is not None
    return f"attribute:{done.extraction.facts[0].id}"


async def rows_of(context: Context, table: str) -> list[dict[str, Any]]:
    await context.runs.traces.flush()
    queries = {
        "run": "SELECT * FROM run;",
        "run_memory": "SELECT * FROM run_memory;",
        "memory_use": "SELECT * FROM memory_use;",
    }
    return (await context.db.run(queries[table]))[0]  # type: ignore[arg-type]


async def drop_from_memory(context: Context) -> None:
    """What a restart, or many other runs, do to runs that are in memory."""
    await context.runs.traces.flush()
    context.runs.forget([kept.run.id for kept in context.runs.all()])


def ids(found: Sequence[Run]) -> list[str]:
    return [run.id for run in found]


# ---------------------------------------------------------------------- opening
async def test_a_run_just_opened_is_known_before_it_is_saved(rt: Runtime, context: Context) -> None:
    before = rt.engine.commits
    run = await runs.open_run(rt, context, caller(MARA), NewRun(saving=False))
    assert await runs.find(context, run.id) == run
    assert not runs.saves(context, run.id)
    assert not runs.is_temporary(context, run.id, None)
    assert runs.offered(context, run.id) == frozenset()
    assert rt.engine.commits == before
    await drop_from_memory(context)
    assert await runs.find(context, run.id) == run
    assert rt.engine.commits > before


async def test_what_a_prompt_was_offered_is_known_at_once_and_written_behind(rt: Runtime, context: Context) -> None:
    ref = await told(rt, context)
    before = rt.engine.commits
    run = await offer(rt, context, caller(), None, weighed(ref), weighed("attribute:x", 2, Inclusion.DROPPED_BUDGET))
    assert runs.offered(context, run) == {ref}
    assert rt.engine.commits == before
    await drop_from_memory(context)
    assert runs.offered(context, run) == frozenset()
    assert (await runs.of_caller(context, caller(), run)).id == run
    assert runs.offered(context, run) == {ref}


async def test_a_run_of_somebody_else_cannot_be_filled(rt: Runtime, context: Context) -> None:
    run = await runs.open_run(rt, context, caller(MARA), NewRun())
    with pytest.raises(NotFound):
        await offer(rt, context, caller(MARA, name="other"), run.id, weighed("attribute:x"))
    with pytest.raises(NotFound):
        await offer(rt, context, caller(MARA), "x" * 20)
    with pytest.raises(NotFound):
        await offer(rt, context, caller("user/leo/*"), run.id, weighed("attribute:x"))


# ---------------------------------------------------------------------- counting
async def test_e3_a_run_that_is_repeated_counts_once(rt: Runtime, context: Context, clock: HandClock) -> None:
    ref = await told(rt, context)
    run = (await runs.open_run(rt, context, caller(), NewRun())).id
    for attempt in range(5):
        await offer(rt, context, caller(), run, weighed(ref), weighed("attribute:x", 2, Inclusion.DROPPED_SCORE))
        if attempt % 2:
            await drop_from_memory(context)
        clock.forward(days=1)
    (use,) = await rows_of(context, "memory_use")
    assert (use["memory"], use["offered"], use["cited"]) == (ref, 1, 0)
    assert len(await rows_of(context, "run_memory")) == 1
    weighed_then = (await citations.view(rt, context, caller(), run)).weighed
    assert [each.candidate.inclusion for each in weighed_then] == [Inclusion.INCLUDED, Inclusion.DROPPED_SCORE]
    (row,) = await rows_of(context, "run")
    assert (row["tokens_memory"], row["latency_ms"]) == (500, 35)


async def test_e3_a_save_whose_answer_is_lost_counts_once(
    rt: Runtime, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = await told(rt, context)
    run = await offer(rt, context, caller(), None, weighed(ref))
    await citations.cite(rt, context, caller(), run, [ref])
    save = store_runs.save

    async def save_and_lose_the_answer(db: Db, what: Sequence[store_runs.Saved]) -> None:
        await save(db, what)
        raise Unavailable("gone")

    for number in range(trace_buffer.TRIES + 2):
        with monkeypatch.context() as patched:
            patched.setattr(store_runs, "save", save_and_lose_the_answer)
            context.runs.change(context.runs.all()[0], rt.clock(), tokens=number)
            with pytest.raises(Unavailable):
                await context.runs.traces.flush()
    (use,) = await rows_of(context, "memory_use")
    assert (use["offered"], use["cited"]) == (1, 1)
    assert (await rows_of(context, "run"))[0]["tokens"] == trace_buffer.TRIES + 1


async def test_a_run_that_could_not_be_saved_is_saved_with_what_comes_next(
    rt: Runtime, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_: object) -> None:
        raise Unavailable("gone")

    ref = await told(rt, context)
    with monkeypatch.context() as patched:
        patched.setattr(context.runs, "_save", fail)
        patched.setattr(trace_buffer, "MOST", 3)
        patched.setattr(trace_buffer, "BATCH", 2)
        lost = await offer(rt, context, caller(), None, weighed(ref))
        for _ in range(6):
            await runs.open_run(rt, context, caller(), NewRun())
    assert context.runs.traces.dropped >= 1
    await context.runs.traces.flush()
    assert lost not in {str(row["id"].id) for row in await rows_of(context, "run")}
    await runs.change(rt, context, caller(), lost, RunChange(end_reason=EndReason.ANSWERED))
    assert lost in {str(row["id"].id) for row in await rows_of(context, "run")}
    assert (await runs.uses_of(context, [ref]))[ref].offered == 1


async def test_what_was_left_out_first_and_shown_later_counts_as_shown(rt: Runtime, context: Context) -> None:
    ref = await told(rt, context)
    run = await offer(rt, context, caller(), None, weighed(ref, 9, Inclusion.DROPPED_BUDGET))
    assert await rows_of(context, "memory_use") == []
    await offer(rt, context, caller(), run, weighed(ref))
    await offer(rt, context, caller(), run, weighed(ref, 5, Inclusion.DROPPED_SCORE))
    (use,) = await rows_of(context, "memory_use")
    assert use["offered"] == 1
    (row,) = await rows_of(context, "run_memory")
    assert row["rank"] == 1
    await drop_from_memory(context)
    (only,) = (await citations.view(rt, context, caller(), run)).weighed
    assert only.candidate == weighed(ref)


async def test_uses_are_added_up_over_agents_and_days(rt: Runtime, context: Context, clock: HandClock) -> None:
    ref = await told(rt, context)
    await offer(rt, context, caller(), None, weighed(ref))
    clock.forward(days=2)
    before = clock()
    await offer(rt, context, caller(name="coach"), None, weighed(ref))
    for _ in range(3):
        uses = await runs.uses_of(context, [ref, "attribute:none"])
        last = uses[ref].last_at
        assert uses == {ref: Uses(offered=2, cited=0, last_at=last, last_by="coach")}
        assert last is not None
        assert before < last < clock.now


# ---------------------------------------------------------------------- ending
async def test_a_run_ends_once(rt: Runtime, context: Context, clock: HandClock) -> None:
    run = await runs.open_run(rt, context, caller(), NewRun())
    await offer(rt, context, caller(), run.id, weighed("attribute:x"))
    calls = (ToolCall(name="search", ok=False, ms=12, contradicts=("attribute:x",)),)
    clock.forward(seconds=3)
    told = RunChange(end_reason=EndReason.ANSWERED, tool_calls=calls, cost={"usd": 0.02}, tokens=900, took_ms=2100)
    done = await runs.change(rt, context, caller(), run.id, told)
    assert (done.end_reason, done.ended_at, done.tool_calls) == (EndReason.ANSWERED, clock.now, calls)
    assert (done.cost, done.tokens, done.took_ms) == ({"usd": 0.02}, 900, 2100)
    assert await runs.change(rt, context, caller(), run.id, told) == done
    elsewhere = replace(calls[0], contradicts=("attribute:x", "attribute:of-somebody-else"))
    assert (await runs.change(rt, context, caller(), run.id, RunChange(tool_calls=(elsewhere,)))).tool_calls == calls
    assert (await citations.view(rt, context, caller(), run.id)).run.tool_calls[0].contradicts == ()  # there is no such
    with pytest.raises(Conflict):
        await runs.change(rt, context, caller(), run.id, RunChange(end_reason=EndReason.CRASHED))
    await drop_from_memory(context)
    assert await runs.find(context, run.id) == done


async def test_runs_left_open_are_closed_as_unknown(rt: Runtime, context: Context, clock: HandClock) -> None:
    left = await runs.open_run(rt, context, caller(), NewRun())
    secret = await runs.open_run(rt, context, caller(), NewRun(temporary=True))
    clock.forward(minutes=50)
    busy = await runs.open_run(rt, context, caller(), NewRun())
    clock.forward(minutes=20)
    assert await runs.close_stale(rt, context) == 2
    assert await runs.close_stale(rt, context) == 0
    ends = {id_: (await runs.find(context, id_)).end_reason for id_ in (left.id, secret.id, busy.id)}  # type: ignore[union-attr]
    assert ends == {left.id: EndReason.UNKNOWN, secret.id: EndReason.TEMPORARY, busy.id: None}
    closed = await runs.change(rt, context, caller(), left.id, RunChange(end_reason=EndReason.ANSWERED))
    assert closed.end_reason is EndReason.ANSWERED


async def test_old_runs_go_with_what_they_weighed_and_counts_stay(
    rt: Runtime, context: Context, clock: HandClock
) -> None:
    ref = await told(rt, context)
    old = await offer(rt, context, caller(), None, weighed(ref))
    await runs.change(rt, context, caller(), old, RunChange(end_reason=EndReason.ANSWERED))
    clock.forward(days=31)
    new = await offer(rt, context, caller(), None, weighed(ref))
    assert await runs.prune(rt, context) == 1
    assert await runs.find(context, old) is None
    assert {row["run"] for row in await rows_of(context, "run_memory")} == {new}
    assert (await runs.uses_of(context, [ref]))[ref].offered == 2


# ---------------------------------------------------------------------- temporary chats
async def test_h9_a_temporary_run_notes_ids_alone_and_stays_one(rt: Runtime, context: Context) -> None:
    run = await runs.open_run(rt, context, caller(), NewRun(temporary=True))
    await offer(rt, context, caller(), run.id, weighed("attribute:x"))
    assert runs.is_temporary(context, run.id, None)
    assert not runs.saves(context, run.id)
    assert runs.offered(context, run.id) == frozenset()
    for change in (RunChange(temporary=False), RunChange(saving=True)):
        with pytest.raises(Conflict):
            await runs.change(rt, context, caller(), run.id, change)
    said = RunChange(end_reason=EndReason.ANSWERED, tool_calls=(ToolCall(name="zyx", ok=True, ms=1),), tokens=7)
    done = await runs.change(rt, context, caller(), run.id, said)
    assert (done.end_reason, done.tool_calls, done.tokens) == (EndReason.TEMPORARY, (), None)
    with pytest.raises(Conflict):
        await runs.change(rt, context, caller(), run.id, RunChange(temporary=False))
    assert await rows_of(context, "run_memory") == await rows_of(context, "memory_use") == []


async def test_h9_the_session_of_a_temporary_chat_never_becomes_a_normal_one(rt: Runtime, context: Context) -> None:
    view = await sessions.create(rt, context, caller(), NewSession())
    session = view.session.id
    run = await runs.open_run(rt, context, caller(), NewRun(session=session, temporary=True))
    assert runs.is_temporary(context, None, session)
    with pytest.raises(Conflict):
        await runs.open_run(rt, context, caller(), NewRun(session=session))
    await context.runs.traces.flush()
    await rt.forget_context(context.id)
    again = await rt.context(context.id)
    assert runs.is_temporary(again, None, session)
    assert runs.is_temporary(again, run.id, None)


async def test_a_conversation_cannot_be_made_temporary_afterwards(rt: Runtime, context: Context) -> None:
    done = await say(rt, context, caller(), fact("role", "pilot"))
    with pytest.raises(Conflict):
        await runs.open_run(rt, context, caller(), NewRun(session=done.session, temporary=True))
    with pytest.raises(NotFound):
        await runs.open_run(rt, context, caller("user/leo/*"), NewRun(session=done.session, temporary=True))


# ---------------------------------------------------------------------- who looks
async def test_e4_a_run_is_its_agents_its_persons_and_the_admins(rt: Runtime, context: Context) -> None:
    context.consent.move_in({ScopePath("user/mara"): PrincipalId("mara"), ScopePath("user/leo"): PrincipalId("leo")})
    ref = await told(rt, context)
    agent = caller("user/*")
    run = await offer(rt, context, agent, None, weighed(ref))
    await context.runs.traces.flush()
    mara = caller("user/mara/*", kind=PrincipalKind.HUMAN, name="mara", home="user/mara")
    leo = caller("user/leo/*", kind=PrincipalKind.HUMAN, name="leo", home="user/leo")
    admin = caller("org/x/*", kind=PrincipalKind.HUMAN, name="admin")
    admin = replace(admin, principal=replace(admin.principal, roles=frozenset({Role.ADMIN})))
    other = caller("user/*", name="other")
    seen = {
        who.principal_id: runs.may_look(who, (await _found(context, run))) for who in (agent, mara, leo, admin, other)
    }
    assert seen == {"bot": True, "mara": True, "leo": False, "admin": True, "other": False}
    for who in (agent, mara, admin):
        assert ids((await runs.list_(rt, context, who, RunsWanted())).rows) == [run]
    for who in (leo, other, caller("user/leo/*")):
        assert (await runs.list_(rt, context, who, RunsWanted())).rows == ()
    no_person = caller("user/mara/*", kind=PrincipalKind.AGENT, name="mara", home="user/mara")
    for_another = replace(mara, target=leo.principal)
    for who in (no_person, for_another):
        assert not runs.may_look(who, await _found(context, run))
    with pytest.raises(NotFound):
        await runs.judge(rt, context, leo, run, Outcome.HURT)
    assert (await runs.judge(rt, context, mara, run, Outcome.HURT)).outcome is Outcome.HURT


async def _found(context: Context, run_id: str) -> Run:
    found = await runs.find(context, run_id)
    assert found is not None
    return found


async def test_runs_are_listed_newest_first_page_by_page(rt: Runtime, context: Context, clock: HandClock) -> None:
    made: list[str] = []
    for number in range(7):
        made.append(await offer(rt, context, caller(name="ab"[number % 2]), None, weighed(f"attribute:m{number % 3}")))
        clock.forward(hours=(0, 0, 5, 30 * 24, 0, 200 * 24, 0)[number])
    everyone = caller(name="owner")
    everyone = replace(everyone, principal=replace(everyone.principal, roles=frozenset({Role.OWNER})))
    walked: list[str] = []
    page = PageRequest(limit=2)
    while True:
        found = await runs.list_(rt, context, everyone, RunsWanted(page=page))
        walked += ids(found.rows)
        if found.next is None:
            break
        page = PageRequest(limit=2, after=found.next)
    assert walked == made[::-1]
    of_a = await runs.list_(rt, context, everyone, RunsWanted(agent="a"))
    assert ids(of_a.rows) == made[::2][::-1]
    of_m0 = await runs.list_(rt, context, everyone, RunsWanted(memory="attribute:m0", page=PageRequest(limit=2)))
    assert ids(of_m0.rows) == [made[6], made[3]]
    rest = await runs.list_(
        rt, context, everyone, RunsWanted(memory="attribute:m0", page=PageRequest(limit=2, after=of_m0.next))
    )
    assert ids(rest.rows) == [made[0]]
    assert rest.next is None


async def test_many_runs_leave_memory_and_none_is_lost(
    rt: Runtime, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_buffer, "KEPT", 40)
    made = [(await runs.open_run(rt, context, caller(), NewRun())).id for _ in range(60)]
    assert len(context.runs) == 60  # what waits to be saved is in nobody else's hands
    await context.runs.traces.flush()
    await runs.open_run(rt, context, caller(), NewRun())
    assert len(context.runs) <= 40
    assert await runs.find(context, made[0]) is not None


async def test_too_many_tool_calls_are_refused(rt: Runtime, context: Context) -> None:
    run = await runs.open_run(rt, context, caller(), NewRun())
    calls = (ToolCall(name="t", ok=True, ms=1),) * (runs.MOST_TOOL_CALLS + 1)
    with pytest.raises(Invalid):
        await runs.change(rt, context, caller(), run.id, RunChange(tool_calls=calls))


async def test_e1_no_text_is_in_any_table_of_runs(rt: Runtime, context: Context) -> None:
    ref = await told(rt, context, "zyxquokka")
    run = await offer(rt, context, caller(), None, weighed(ref), session="zyx about the quokka", degraded=("vector",))
    await runs.change(rt, context, caller(), run, RunChange(end_reason=EndReason.ANSWERED))
    everything = json.dumps([await rows_of(context, table) for table in TABLES], default=str)
    assert "zyx" not in everything
    assert ref in everything


# ---------------------------------------------------------------------- citations
async def test_e2_cites_are_held_against_this_run_and_the_record(rt: Runtime, context: Context) -> None:
    mara, agent = caller(), caller("user/mara/*", name="coach")
    used, shown = await told(rt, context, "pilot"), await told(rt, context, "cook", "user/mara/kitchen")
    forgotten = await told(rt, context, "diver", "user/mara/sea")
    elsewhere = await told(rt, context, "spy", "org/north")
    dropped = await told(rt, context, "poet", "user/mara/attic")
    run = await offer(
        rt, context, agent, None, weighed(used), weighed(shown, 2), weighed(forgotten, 3), weighed(elsewhere, 4),
        weighed(dropped, 5, Inclusion.DROPPED_BUDGET),
    )  # fmt: skip
    await erase.forget(rt, context, mara, Forget(ids=(forgotten,), purge=True))
    cites = [
        used,
        "fake",
        forgotten,
        elsewhere,
        dropped,
        used,
        f" {used}",
        used.upper(),
        "Mara the pilot of Elm Street",
    ]
    done = await citations.cite(rt, context, agent, run, cites)
    assert done.verified.kept == (used,)
    assert len(done.verified.dropped) == 7
    found = await citations.view(rt, context, agent, run)
    assert (found.run.cites_kept, found.run.cites_dropped) == (1, 7)
    assert set(found.bad) == {"fake", dropped, used, used.upper(), "Mara"}
    assert {each.candidate.memory: each.cited for each in found.weighed if not each.gone} == {
        used: True, shown: False, dropped: False
    }  # fmt: skip
    assert {each.candidate.memory for each in found.weighed if each.gone} == {forgotten, elsewhere}


async def test_e3_an_answer_that_is_sent_again_counts_once(rt: Runtime, context: Context) -> None:
    ref = await told(rt, context)
    run = await offer(rt, context, caller(), None, weighed(ref))
    for _ in range(5):
        done = await citations.cite(rt, context, caller(), run, [ref, "fake"])
        assert (done.verified.kept, len(done.verified.dropped)) == ((ref,), 1)
        await context.runs.traces.flush()
    (use,) = await rows_of(context, "memory_use")
    assert (use["offered"], use["cited"]) == (1, 1)
    (row,) = await rows_of(context, "run")
    assert (row["cites_kept"], row["cites_dropped"]) == (1, 1)
    await drop_from_memory(context)
    await citations.cite(rt, context, caller(), run, [ref])
    (use,) = await rows_of(context, "memory_use")
    assert use["cited"] == 1


async def test_memories_used_are_cited_or_shown_besides_with_text_out_of_the_record(
    rt: Runtime, context: Context
) -> None:
    used, shown = await told(rt, context, "pilot"), await told(rt, context, "cook", "user/mara/kitchen")
    run = await offer(
        rt, context, caller(), None, weighed(shown), weighed(used, 2), weighed("attribute:" + "x" * 20, 3)
    )
    done = await citations.cite(rt, context, caller(), run, [used])
    assert done.memories_used is not None
    assert [(each.id, each.text) for each in done.memories_used.cited] == [(used, "Mara's role is pilot.")]
    assert [each.id for each in done.memories_used.also_shown] == [shown]
    assert done.memories_used.cited[0].label in SHOWN_AS.values()
    context.consent.settings = replace(context.consent.settings, show_memories_used=False)
    assert (await citations.cite(rt, context, caller(), run, [used])).memories_used is None
    assert (await citations.view(rt, context, caller(), run)).memories_used is None


async def test_e4_admins_see_ids_and_numbers_and_no_text(rt: Runtime, context: Context) -> None:
    context.consent.move_in({ScopePath("user/mara"): PrincipalId("mara")})
    ref = await told(rt, context)
    run = await offer(rt, context, caller("user/mara/*"), None, weighed(ref))
    admin = caller(kind=PrincipalKind.HUMAN, name="admin")
    admin = replace(admin, principal=replace(admin.principal, roles=frozenset({Role.ADMIN})))
    found = await citations.view(rt, context, admin, run)
    assert found.memories_used is None
    assert [each.candidate.memory for each in found.weighed if not each.gone] == [ref]
    mara = caller("user/mara/*", kind=PrincipalKind.HUMAN, name="mara", home="user/mara")
    own = await citations.view(rt, context, mara, run)
    assert own.memories_used is not None
    assert [each.id for each in own.memories_used.also_shown] == [ref]
    with pytest.raises(NotFound):
        await citations.cite(rt, context, mara, run, [ref])
    for who in (caller("user/leo/*"), caller("user/mara/*", name="other")):
        with pytest.raises(NotFound):
            await citations.view(rt, context, who, run)


async def test_h7_an_owner_sees_at_once_what_was_made_of_their_own_memory(rt: Runtime, context: Context) -> None:
    context.consent.move_in({ScopePath("user/mara"): PrincipalId("mara")})
    ref = await told(rt, context)
    run = await offer(rt, context, caller("user/mara/*"), None, weighed(ref))
    mara = caller(kind=PrincipalKind.HUMAN, name="mara", home="user/mara")
    mara = replace(mara, principal=replace(mara.principal, roles=frozenset({Role.OWNER})))
    seen = await citations.view(rt, context, mara, run)
    assert seen.memories_used is not None
    assert [each.id for each in seen.memories_used.also_shown] == [ref]


async def test_what_stood_for_ids_goes_after_a_week(rt: Runtime, context: Context, clock: HandClock) -> None:
    run = await offer(rt, context, caller(), None)
    await citations.cite(rt, context, caller(), run, ["made-up"])
    assert (await citations.view(rt, context, caller(), run)).bad == ("made-up",)
    clock.forward(days=6)
    await runs.prune(rt, context)
    assert (await rows_of(context, "run"))[0]["bad"] == ["made-up"]
    clock.forward(days=2)
    await runs.prune(rt, context)
    assert (await citations.view(rt, context, caller(), run)).bad == ()
    assert (await rows_of(context, "run"))[0]["bad"] == []
    context.runs.touch(context.runs.all()[0], clock())
    assert (await rows_of(context, "run"))[0]["bad"] == []


# ---------------------------------------------------------------------- texts of questions, where they are kept
async def test_e5_texts_are_kept_for_hours_the_run_says_so_and_they_go(
    rt: Runtime, context: Context, clock: HandClock
) -> None:
    ref = await told(rt, context)
    ends = int(clock.now.timestamp()) + 3600
    context.config = {"trace_text": "hours:1", "trace_text_ends_s": ends}
    asked = Asked(recall=Recall(query="What does zyxquokka do?"))
    block = await block_of(rt, context, caller(), asked)
    assert block.run is not None
    assert (await _found(context, block.run)).text_traced
    (row,) = await traces_of(context)
    assert row["query_text"] == "What does zyxquokka do?"
    clock.forward(hours=1)
    seen = (await traces.list_(rt, context, caller())).rows
    assert [trace.query_text for trace in seen] == [""]
    await upkeep.keep_up(rt)
    assert [row["query_text"] for row in await traces_of(context)] == [""]
    later = await block_of(rt, context, caller(), asked)
    assert later.run is not None
    assert not (await _found(context, later.run)).text_traced
    assert (await _found(context, block.run)).text_traced
    assert "zyx" not in json.dumps([await traces_of(context), await rows_of(context, "run")], default=str)
    context.config = {"trace_text": True}
    await block_of(rt, context, caller(), Asked(recall=Recall(query="Mara's role is pilot")))
    assert [row["query_text"] for row in await traces_of(context) if row["query_text"]]
    await erase.forget(rt, context, caller(), Forget(ids=(ref,), purge=True))
    assert [row["query_text"] for row in await traces_of(context) if row["query_text"]] == []


async def test_h9_no_question_of_a_temporary_chat_is_kept_where_others_are(rt: Runtime, context: Context) -> None:
    context.config = {"trace_text": True}
    run = await runs.open_run(rt, context, caller(), NewRun(temporary=True))
    await block_of(rt, context, caller(), Asked(recall=Recall(query="zyxquokka"), run=run.id))
    (row,) = await traces_of(context)
    assert row["query_text"] == ""
    assert not (await _found(context, run.id)).text_traced


async def traces_of(context: Context) -> list[dict[str, Any]]:
    await context.traces.flush()
    return (await context.db.run("SELECT * FROM retrieval_trace;"))[0]


# ---------------------------------------------------------------------- importance and trust
async def fade(rt: Runtime, context: Context, ref: str, **changes: Any) -> None:
    batch = Batch(at=rt.clock())
    batch.patch(record_id(ref), importance=0.1, **changes)
    await context.commit(batch)


async def importance_of(context: Context, ref: str) -> tuple[float, float, int]:
    row = (await context.db.run("SELECT importance, trust, rev FROM ONLY $id;", id=record_id(ref)))[0]
    return row["importance"], row["trust"], row["rev"]


async def answer(rt: Runtime, context: Context, ref: str, outcome: Outcome | None = None) -> None:
    run = await offer(rt, context, caller(), None, weighed(ref))
    await citations.cite(rt, context, caller(), run, [ref])
    if outcome is not None:
        await runs.judge(rt, context, caller(), run, outcome)
    await runs.change(rt, context, caller(), run, RunChange(end_reason=EndReason.ANSWERED))


SURE: dict[str, Any] = {"user_confirmed": True, "origin": "user_saved", "taint": []}


async def test_r7_an_answer_sets_importance_back_once_a_day_and_trust_never(
    rt: Runtime, context: Context, clock: HandClock
) -> None:
    ref = await told(rt, context)
    first, trust, rev = await importance_of(context, ref)
    await fade(rt, context, ref, **SURE)
    await offer(rt, context, caller(), None, weighed(ref))  # to be read is not enough
    assert await importance_of(context, ref) == (0.1, trust, rev)
    await answer(rt, context, ref, Outcome.HURT)
    assert await importance_of(context, ref) == (0.1, trust, rev)
    await answer(rt, context, ref, Outcome.HELPED)
    assert await importance_of(context, ref) == (first, trust, rev)
    await fade(rt, context, ref)
    await answer(rt, context, ref)
    assert (await importance_of(context, ref))[0] == 0.1
    clock.forward(days=1)
    for _ in range(10):
        await answer(rt, context, ref)
    assert await importance_of(context, ref) == (first, trust, rev)


@pytest.mark.parametrize(
    "not_sure", [{"origin": "agent_inferred", "user_confirmed": False}, {"taint": ["web"]}, {"status": "expired"}]
)
async def test_r7_guesses_and_what_came_from_outside_are_not_set_back(
    rt: Runtime, context: Context, not_sure: dict[str, Any]
) -> None:
    ref = await told(rt, context)
    await fade(rt, context, ref, **SURE | not_sure)
    await answer(rt, context, ref)
    assert (await importance_of(context, ref))[0] == 0.1
