"""Traces of reads: kept without waiting, seen by who could see what they saw, gone when old."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keeps.core.access import Caller, KeyId, Principal, PrincipalId, Region, Verb
from keeps.core.errors import Invalid, NotFound, Unavailable
from keeps.core.pages import PageRequest
from keeps.core.scopes import ROOT, Scope, parse_pattern
from keeps.core.traces import Classification, ReadTrace, Tier
from keeps.services import erase, sessions, trace_buffer, traces
from keeps.services.erase import Forget
from keeps.services.runtime import Context, Runtime
from keeps.services.trace_buffer import TraceBuffer
from keeps.store import traces as store_traces
from keeps.store.facts import record_id
from tests.core import strategies
from tests.services.conftest import HandClock, caller
from tests.services.reading import keep, trace_of, weighed
from tests.services.saying import fact, say

MARA = "user/mara/*"


def reader(*patterns: str, name: str = "reader") -> Caller:
    """Someone who may read, write and forget over patterns, and manages nobody."""
    verbs = [verb for verb in Verb if verb is not Verb.GRANT_MANAGE]
    held = tuple(map(parse_pattern, patterns))
    principal = Principal(id=PrincipalId(name), display_name=name, grants=dict.fromkeys(verbs, held))
    return Caller(principal=principal, key_id=KeyId("k2"))


async def told(rt: Runtime, context: Context, value: str = "pilot", scopes: str = "user/mara") -> str:
    """The reference of a new fact."""
    done = await say(rt, context, caller(), fact("role", value), scopes=scopes)
    return f"attribute:{done.extraction.facts[0].id}"


async def rows_of(context: Context) -> list[dict[str, Any]]:
    return (await context.db.run("SELECT * FROM retrieval_trace;"))[0]


# ---------------------------------------------------------------------- keeping
async def test_a_trace_can_be_read_as_soon_as_it_is_kept(rt: Runtime, context: Context) -> None:
    ref = await told(rt, context)
    near = weighed("attribute:n1", 0, reason="below the floor", signals={"cosine": 0.2, "graph": 0.1})
    trace = keep(
        rt, context, caller(), weighed(ref), near=[near], session="a" * 20, degraded=("vector",),
        tier=Tier.ESCALATED, classification=Classification.FULL_CONTEXT,
    )  # fmt: skip
    view = await traces.get(rt, context, caller(), trace.id)
    assert view.trace == trace
    assert [(shown.unit, shown.label, shown.ref) for shown in view.returned] == [
        (ref, "role", "attribute:person/mara/role")
    ]


async def test_a_thousand_reads_are_few_commits(rt: Runtime, context: Context) -> None:
    before = rt.engine.commits
    for _ in range(1000):
        keep(rt, context, caller(), weighed("attribute:x1"))
    await context.traces.flush()
    assert rt.engine.commits - before <= 20
    assert len(await rows_of(context)) == 1000


async def test_traces_are_saved_without_anybody_asking(rt: Runtime, context: Context) -> None:
    saved = asyncio.Event()

    async def save(_: Sequence[ReadTrace]) -> None:
        saved.set()

    buffer = TraceBuffer(save)
    buffer.put(trace_of(rt, caller()))
    async with asyncio.timeout(10):
        await saved.wait()
    await buffer.close()


async def test_keeping_does_not_wait_for_the_record(rt: Runtime, context: Context) -> None:
    async with context.still():  # every commit waits
        trace = keep(rt, context, caller())
        assert len(context.traces) == 1
    assert (await traces.get(rt, context, caller(), trace.id)).trace.id == trace.id


async def test_what_cannot_be_saved_is_tried_again_then_dropped_and_counted(
    rt: Runtime, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(trace_buffer, "EVERY_S", 0.001)
    tries: list[int] = []

    async def save(batch: Sequence[ReadTrace]) -> None:
        tries.append(len(batch))
        raise Unavailable("not now")

    buffer = TraceBuffer(save)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            buffer.put(trace_of(rt, caller()))
        async with asyncio.timeout(10):
            while buffer.dropped == 0:
                await asyncio.sleep(0)
    assert tries == [3, 3, 3]
    assert (buffer.dropped, len(buffer)) == (3, 0)
    assert "dropped: 3 now, 3 in all" in caplog.text
    await buffer.close()


async def test_a_failure_loses_nothing_and_keeps_the_order(rt: Runtime) -> None:
    saved: list[str] = []
    fails = [True]

    async def save(batch: Sequence[ReadTrace]) -> None:
        if fails:
            raise Unavailable("not now")
        saved.extend(trace.id for trace in batch)

    buffer = TraceBuffer(save)
    put = [trace_of(rt, caller()) for _ in range(250)]
    for trace in put:
        buffer.put(trace)
    with pytest.raises(Unavailable):
        await buffer.flush()
    fails.clear()
    await buffer.flush()
    assert saved == [trace.id for trace in put]
    await buffer.close()


async def test_too_many_drop_the_oldest(rt: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_buffer, "MOST", 300)
    saved: list[str] = []

    async def save(batch: Sequence[ReadTrace]) -> None:
        saved.extend(trace.id for trace in batch)

    buffer = TraceBuffer(save)
    put = [trace_of(rt, caller()) for _ in range(1000)]
    for trace in put:
        buffer.put(trace)
    assert len(buffer) <= 300
    await buffer.flush()
    assert buffer.dropped == 1000 - len(saved)
    assert saved == [trace.id for trace in put[-len(saved) :]]
    await buffer.close()


async def test_closing_saves_what_waits_within_its_time(rt: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    saved: list[str] = []

    async def save(batch: Sequence[ReadTrace]) -> None:
        saved.extend(trace.id for trace in batch)

    buffer = TraceBuffer(save)
    trace = trace_of(rt, caller())
    buffer.put(trace)
    await buffer.close()
    assert saved == [trace.id]
    buffer.put(trace)
    assert len(buffer) == 0

    async def hang(_: Sequence[ReadTrace]) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(trace_buffer, "CLOSE_S", 0.01)
    stuck = TraceBuffer(hang)
    stuck.put(trace)
    async with asyncio.timeout(5):
        await stuck.close()
    assert stuck.dropped == 1


async def test_a_trace_saved_twice_is_there_once(rt: Runtime, context: Context) -> None:
    trace = trace_of(rt, caller())
    await store_traces.save(context.db, [trace, replace(trace, took_ms=99)])
    await store_traces.save(context.db, [trace])
    assert [row["took_ms"] for row in await rows_of(context)] == [7]


# ---------------------------------------------------------------------- no text
async def test_names_given_by_a_caller_are_kept_only_when_they_are_plain(rt: Runtime, context: Context) -> None:
    for source, session in (("Claude-Code", "b" * 20), ("my diary: I am ill", "my secret session")):
        keep(rt, context, caller(), source=source, session=session, query_text="what ails me?")
    await context.traces.flush()
    rows = sorted(await rows_of(context), key=lambda row: row["at_us"])
    assert [(row["source"], row.get("session"), row["query_text"]) for row in rows] == [
        ("claude-code", "b" * 20, ""),
        ("other", None, ""),
    ]


async def test_the_question_is_kept_only_where_the_context_asks(rt: Runtime, context: Context) -> None:
    context.config = {"trace_text": True}
    trace = keep(rt, context, caller(), query_text="Où est la clé ?")
    assert (await traces.get(rt, context, caller(), trace.id)).trace.query_text == "Où est la clé ?"
    context.config = {}
    await traces.prune(rt, context)
    assert (await traces.get(rt, context, caller(), trace.id)).trace.query_text == ""


@pytest.mark.parametrize("purge", [True, False])
async def test_erasing_a_row_empties_the_questions_it_answered(rt: Runtime, context: Context, purge: bool) -> None:
    context.config = {"trace_text": True}
    mara, tom = await told(rt, context), await told(rt, context, "cook", scopes="user/tom")
    of_mara = keep(rt, context, caller(), weighed(mara), query_text="what does Mara do?")
    of_tom = keep(rt, context, reader("user/tom/*"), weighed(tom), query_text="what does Tom do?")
    await erase.forget(rt, context, caller(), Forget(ids=(mara,), purge=purge))
    assert (await traces.get(rt, context, caller(), of_mara.id)).trace.query_text == ""
    assert (await traces.get(rt, context, caller(), of_tom.id)).trace.query_text == "what does Tom do?"
    # A read that was under way while the row went, and is kept only now.
    late = keep(rt, context, caller(), weighed(mara), weighed(tom), query_text="what does Mara do?")
    assert (await traces.get(rt, context, caller(), late.id)).trace.query_text == ""


@pytest.mark.parametrize("purge", [True, False])
async def test_a_question_that_quotes_a_row_without_finding_it_goes_too(
    rt: Runtime, context: Context, clock: HandClock, purge: bool
) -> None:
    context.config = {"trace_text": True}
    mara = await told(rt, context)
    quote = "Mara's role is pilot, and where is the spare key?"
    quoting = [
        keep(rt, context, caller(), query_text=quote),
        keep(rt, context, caller(), weighed("attribute:o1"), near=[weighed(mara, 0)], query_text=quote),
        keep(rt, context, reader("user/mara"), query_text=quote, mode="graph"),
        keep(rt, context, reader("user/*"), query_text=quote, k=1),
    ]
    beside = keep(rt, context, reader("user/tom/*"), query_text="asked beside it")
    under_way = trace_of(rt, caller(), query_text=quote)
    await erase.forget(rt, context, caller(), Forget(ids=(mara,), purge=purge))
    traces.keep(rt, context, under_way)
    clock.forward(seconds=1)
    later = keep(rt, context, caller(), query_text="asked later")
    for trace in (*quoting, under_way):
        assert (await traces.get(rt, context, caller(), trace.id)).trace.query_text == ""
    assert (await traces.get(rt, context, caller(), beside.id)).trace.query_text == "asked beside it"
    assert (await traces.get(rt, context, caller(), later.id)).trace.query_text == "asked later"


async def test_erasing_a_scope_empties_the_questions_asked_there(rt: Runtime, context: Context) -> None:
    context.config = {"trace_text": True}
    await told(rt, context)
    await told(rt, context, "cook", scopes="user/tom")
    in_mara = keep(rt, context, reader("user/mara/*"), query_text="asked in it")
    in_tom = keep(rt, context, reader("user/tom/*"), query_text="asked beside it")
    everywhere = keep(rt, context, caller(), query_text="asked everywhere")
    await erase.forget_scope(rt, context, caller(), "user/mara")
    texts = [(await traces.get(rt, context, caller(), t.id)).trace.query_text for t in (in_mara, in_tom, everywhere)]
    assert texts == ["", "asked beside it", ""]
    await erase.forget_scope(rt, context, caller(), "user/tom")
    assert (await traces.get(rt, context, caller(), in_tom.id)).trace.query_text == ""


async def test_erasing_keeps_the_ids_of_traces(rt: Runtime, context: Context) -> None:
    ref = await told(rt, context)
    trace = keep(rt, context, caller(), weighed(ref))
    await erase.forget(rt, context, caller(), Forget(ids=(ref,), purge=True))
    await traces.get(rt, context, caller(), trace.id)
    assert [row["rows"] for row in await rows_of(context)] == [[ref]]


# ---------------------------------------------------------------------- who sees what
@given(asked=strategies.regions, one=strategies.regions, other=strategies.regions)
def test_who_sees_a_trace_could_see_all_that_it_saw(asked: Region, one: Region, other: Region) -> None:
    patterns = list(map(str, asked.patterns))
    assert not traces.may_see([], one)
    if traces.may_see(patterns, one & other):
        assert traces.may_see(patterns, one)
        assert traces.may_see(patterns, other)
    if patterns:
        assert traces.may_see(patterns, asked)


@given(asked=strategies.regions, region=strategies.regions, scope=strategies.scopes)
def test_no_row_of_a_trace_lies_outside_what_its_reader_sees(asked: Region, region: Region, scope: Scope) -> None:
    if traces.may_see(list(map(str, asked.patterns)), region) and scope.visible_to(asked):
        assert scope.visible_to(region)


async def test_others_see_only_reads_inside_what_they_may_read(rt: Runtime, context: Context) -> None:
    ref = await told(rt, context)
    mine = keep(rt, context, reader(MARA), weighed(ref))
    wide = keep(rt, context, reader("user/*"), weighed(ref))
    nothing = keep(rt, context, reader())

    async def seen(who: Caller) -> set[str]:
        found: set[str] = set()
        for trace in (mine, wide, nothing):
            try:
                found.add((await traces.get(rt, context, who, trace.id)).trace.id)
            except NotFound as error:
                assert error.message == f"trace {trace.id} does not exist"  # noqa: PT017
        listed = await traces.list_(rt, context, who, PageRequest(count=True))
        assert {trace.id for trace in listed.rows} == found
        assert listed.total == len(found)
        return found

    assert await seen(caller()) == {mine.id, wide.id, nothing.id}
    assert await seen(reader("user/*")) == {mine.id, wide.id}
    assert await seen(reader(MARA)) == {mine.id}
    assert await seen(reader("user/mara")) == set()
    assert await seen(reader("user/tom/*")) == set()
    assert await seen(reader()) == set()


async def test_rows_that_went_show_no_id_and_no_name(rt: Runtime, context: Context) -> None:
    stays, retired, purged, moved = [
        await told(rt, context, value, scopes=scope)
        for value, scope in (("pilot", "user/mara"), ("cook", "user/a"), ("clerk", "user/b"), ("smith", "user/c"))
    ]
    mine, everyone = reader("user/*"), caller()
    trace = keep(
        rt, context, mine, *(weighed(ref, rank) for rank, ref in enumerate((stays, retired, purged, moved), 1))
    )
    await erase.forget(rt, context, everyone, Forget(ids=(retired,)))
    await erase.forget(rt, context, everyone, Forget(ids=(purged,), purge=True))
    outside = Scope.from_lists([["org/north"]])
    await context.db.run("UPDATE $id SET scope_set = $set;", id=record_id(moved), set=outside.id)
    context.sets.add(outside)
    view = await traces.get(rt, context, mine, trace.id)
    assert [(s.unit, s.gone, s.label is None, bool(s.signals)) for s in view.returned] == [
        (stays, False, False, True), ("", True, True, False), ("", True, True, False), ("", True, True, False)
    ]  # fmt: skip
    assert retired not in repr(view.returned)
    assert moved not in repr(view.returned)


async def test_a_passage_that_is_gone_is_not_named(rt: Runtime, context: Context) -> None:
    made = await sessions.create(rt, context, caller(), sessions.NewSession(scope=Scope.from_lists([["user/mara"]])))
    hit = weighed("turn:nowhere", unit="memory_chunk:nowhere_0")
    trace = keep(rt, context, reader(MARA), hit, session=made.session.id)
    view = await traces.get(rt, context, reader(MARA), trace.id)
    assert [(s.table, s.unit, s.gone) for s in view.returned] == [("memory_chunk", "", True)]


# ---------------------------------------------------------------------- lists
async def test_pages_hold_each_trace_once_newest_first(rt: Runtime, context: Context, clock: HandClock) -> None:
    kept: list[str] = []
    for step in range(40):
        trace = keep(rt, context, caller(), at=clock.now if step % 3 else rt.clock())
        kept.append(trace.id)
        clock.forward(hours=0 if step % 3 else 7)
    await context.traces.flush()
    order = [t.id for t in sorted((await _all(rt, context)), key=lambda t: (t.at, t.id), reverse=True)]
    assert set(order) == set(kept)
    walked: list[str] = []
    page = await traces.list_(rt, context, caller(), PageRequest(limit=7, count=True))
    assert page.total == 40
    while True:
        walked += [trace.id for trace in page.rows]
        keep(rt, context, caller())  # a newer one changes nothing behind
        if page.next is None:
            break
        page = await traces.list_(rt, context, caller(), PageRequest(limit=7, after=page.next))
    assert walked == order
    assert [t.id for t in (await traces.list_(rt, context, caller(), PageRequest(offset=44, limit=5))).rows] == order[
        -2:
    ]


async def _all(rt: Runtime, context: Context) -> list[ReadTrace]:
    return list((await traces.list_(rt, context, caller(), PageRequest(limit=500))).rows)


async def test_the_traces_of_a_hit(rt: Runtime, context: Context) -> None:
    ref, other = await told(rt, context), await told(rt, context, "cook", scopes="user/tom")
    newer = await told(rt, context, "harbour pilot")
    first = keep(rt, context, reader(MARA), weighed(ref))
    keep(rt, context, caller(), weighed(other))
    second = keep(rt, context, caller(), weighed(other), weighed(ref, 2))
    third = keep(rt, context, caller(), weighed(newer))

    async def of(name: str, who: Caller) -> tuple[list[str], int | None]:
        page = await traces.of_hit(rt, context, who, name, PageRequest(count=True))
        return [trace.id for trace in page.rows], page.total

    assert await of(ref, caller()) == ([second.id, first.id], 2)
    assert await of(ref, reader(MARA)) == ([first.id], 1)
    role = await say(rt, context, caller(), fact("role", "skipper"))
    assert role.extraction.corrections
    assert await of("attribute:person/mara/role", reader(MARA)) == ([first.id], 1)
    ids, total = await of("attribute:person/mara/role", caller())
    assert (ids[0], total, {second.id, first.id} <= set(ids)) == (third.id, 4, True)
    with pytest.raises(NotFound):
        await of(other, reader(MARA))
    with pytest.raises(NotFound):
        await of("attribute:nothing", caller())
    with pytest.raises(Invalid):
        await of("entity:person/mara", caller())
    walked: list[str] = []
    page = await traces.of_hit(rt, context, caller(), ref, PageRequest(limit=1))
    while page.next is not None:
        walked += [trace.id for trace in page.rows]
        page = await traces.of_hit(rt, context, caller(), ref, PageRequest(limit=1, after=page.next))
    assert [*walked, *(trace.id for trace in page.rows)] == [second.id, first.id]


async def test_old_traces_go(rt: Runtime, context: Context, clock: HandClock) -> None:
    old = keep(rt, context, caller())
    clock.forward(days=20)
    new = keep(rt, context, caller())
    await context.traces.flush()
    clock.forward(days=9)
    assert await traces.prune(rt, context) == 0
    clock.forward(days=2)
    assert await traces.prune(rt, context) == 1
    with pytest.raises(NotFound):
        await traces.get(rt, context, caller(), old.id)
    context.config = {"trace_retention": {"retrieval_trace_days": 5}}
    assert traces.retention(context) == timedelta(days=5)
    assert await traces.prune(rt, context) == 1
    with pytest.raises(NotFound):
        await traces.get(rt, context, caller(), new.id)


async def test_numbers_are_for_who_manages_everything(rt: Runtime, context: Context, clock: HandClock) -> None:
    keep(rt, context, caller(), tier=Tier.DIRECT)
    clock.forward(hours=30)
    keep(rt, context, caller(), took_ms=10)
    keep(rt, context, caller(), took_ms=20, tier=Tier.ESCALATED)
    found = await traces.stats(rt, context, caller())
    assert sorted((t.tier, t.count, t.took_ms, t.candidates, t.most_candidates) for t in found.tallies) == [
        (Tier.ESCALATED, 1, 20.0, 4, 4),
        (Tier.HYBRID, 1, 10.0, 4, 4),
    ]
    longer = await traces.stats(rt, context, caller(), since=clock.now - timedelta(hours=48))
    assert (sum(t.count for t in longer.tallies), longer.window_hours) == (3, 48)
    assert (await traces.stats(rt, context, reader("/*"))).tallies == ()


@given(st.lists(st.text(), max_size=5))
def test_regions_have_one_name(patterns: list[str]) -> None:
    named = store_traces.region_id(patterns)
    assert named == store_traces.region_id([*reversed(patterns), *patterns])
    assert named != store_traces.region_id([*patterns, json.dumps(patterns) + ROOT])
