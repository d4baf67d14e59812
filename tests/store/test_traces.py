"""Traces as rows: written twice they are there once, listed over any span of time, found by what they returned."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from keeps.core.traces import Classification, Leg, ReadTrace, Tier, Weighed
from keeps.store import traces
from keeps.store.db import Db
from keeps.store.migrate import migrate

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
ALL = ("/*",)

_names = st.text("abcdefgh0123", min_size=1, max_size=20)
_numbers = st.floats(0, 1, allow_nan=False)
_weighed = st.builds(
    Weighed,
    unit=_names.map("memory_chunk:{}_0".format),
    row=_names.map("turn:{}".format),
    rank=st.integers(0, 50),
    score=_numbers,
    reason=st.sampled_from(["ranked", "below_floor"]),
    signals=st.dictionaries(st.sampled_from(["text", "share", "cosine", "graph"]), _numbers),
)
_traces = st.builds(
    ReadTrace,
    id=_names,
    at=st.just(NOW),
    principal=_names,
    on_behalf_of=st.none() | _names,
    key_id=st.none() | _names,
    source=_names,
    mode=_names,
    tier=st.sampled_from(Tier),
    classification=st.sampled_from(Classification),
    reason=_names,
    took_ms=st.integers(0, 10**6),
    k=st.integers(1, 50),
    patterns=st.just(ALL),
    session=st.none() | _names,
    entities=st.integers(0, 9),
    legs=st.lists(
        st.builds(
            Leg, name=_names, found=st.integers(0, 256), took_ms=_numbers, weight=_numbers, answered=st.booleans()
        )
    ).map(tuple),
    hits=st.lists(_weighed, max_size=4).map(tuple),
    near_misses=st.lists(_weighed, max_size=4).map(tuple),
    degraded=st.lists(_names, max_size=2).map(tuple),
    query_text=st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20),
)


def trace(name: str, at: datetime = NOW, *rows: str, **more: Any) -> ReadTrace:
    given: dict[str, Any] = {
        "principal": "bot", "on_behalf_of": None, "key_id": "k1", "source": "query", "mode": "hybrid",
        "tier": Tier.HYBRID, "classification": Classification.HYBRID, "reason": "ranked", "took_ms": 3, "k": 10,
        "patterns": ALL,
        "hits": tuple(Weighed(unit=row, row=row, rank=n, score=0.5, reason="ranked") for n, row in enumerate(rows, 1)),
    }  # fmt: skip
    return ReadTrace(id=name, at=at, **(given | more))


@pytest_asyncio.fixture
async def record(db: Db) -> Db:
    await migrate(db, "context")
    return db


@given(_traces)
def test_a_row_holds_the_whole_trace(given_trace: ReadTrace) -> None:
    assert traces.from_row(traces.to_row(given_trace), ALL) == given_trace


async def test_saved_and_found(record: Db) -> None:
    whole = trace(
        "t1", NOW, "attribute:a", on_behalf_of="p2", session="s", entities=2, degraded=("vector",), query_text="où ?",
        legs=(Leg(name="text", found=3, took_ms=1.25, weight=0.5, answered=False),),
    )  # fmt: skip
    await traces.save(record, [whole])
    await traces.save(record, [whole, trace("t2", patterns=())])
    assert await traces.find(record, "t1") == whole
    assert (await traces.find(record, "t2")) == trace("t2", patterns=())
    assert await traces.find(record, "t3") is None
    assert await traces.count(record, [traces.region_id(ALL)]) == 1
    assert set((await traces.regions(record)).values()) == {ALL, ()}


@pytest.mark.parametrize(
    "step",
    [
        timedelta(0),
        timedelta(microseconds=1),
        timedelta(milliseconds=400),
        timedelta(minutes=7),
        timedelta(days=11),
        timedelta(days=400),
    ],
)
async def test_any_span_of_time_is_walked_in_order(record: Db, step: timedelta) -> None:
    kept = [trace(f"t{number:02}", NOW - number * step) for number in range(30)]
    kept.append(trace("ahead", NOW + timedelta(days=3)))
    await traces.save(record, kept)
    await traces.save(record, [trace("other", NOW, patterns=("user/mara",))])
    order = sorted(((one.at, one.id) for one in kept), reverse=True)
    seen = {traces.region_id(ALL): ALL}
    walked: list[tuple[datetime, str]] = []
    while True:
        before = walked[-1] if walked else None
        page = await traces.newest(record, seen, before=before, limit=4, now=NOW)
        walked += [(one.at, one.id) for one in page]
        if len(page) < 4:
            break
    assert walked == order
    assert await traces.newest(record, {}, limit=5, now=NOW) == []


async def test_found_by_what_was_returned_and_not_by_what_nearly_was(record: Db) -> None:
    near = Weighed(unit="attribute:a", row="attribute:a", rank=0, score=0.1, reason="below_floor")
    await traces.save(
        record,
        [
            trace("old", NOW - timedelta(days=1), "attribute:a", "turn:b"),
            trace("new", NOW, "attribute:a"),
            trace("hidden", NOW, "attribute:a", patterns=("org",)),
            trace("near", NOW, near_misses=(near,)),
        ],
    )
    seen = {traces.region_id(ALL): ALL}
    assert [key for _, key in await traces.returning(record, ["attribute:a"], seen)] == ["new", "old"]
    assert [key for _, key in await traces.returning(record, ["turn:b"], seen)] == ["old"]
    many = [f"attribute:x{number}" for number in range(40)] + ["attribute:a"]
    assert [key for _, key in await traces.returning(record, many, seen)] == ["new", "old"]
    assert [one.id for one in await traces.by_ids(record, ["old", "new", "hidden", "gone"], seen)] == ["new", "old"]


async def test_many_old_ones_go_in_parts(record: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "_PRUNED_AT_ONCE", 3)
    await traces.save(record, [trace(f"t{number}", NOW - timedelta(days=number)) for number in range(10)])
    assert await traces.prune(record, NOW - timedelta(days=2)) == 7
    assert await traces.prune(record, NOW - timedelta(days=2)) == 0
    left = await traces.newest(record, {traces.region_id(ALL): ALL}, limit=10, now=NOW)
    assert [one.id for one in left] == ["t0", "t1", "t2"]


async def test_numbers_by_tier(record: Db) -> None:
    legs = (Leg(name="text", found=5, took_ms=1, weight=1), Leg(name="graph", found=2, took_ms=1, weight=1))
    await traces.save(
        record,
        [
            trace("a", legs=legs, took_ms=10),
            trace("b", took_ms=20),
            trace("c", classification=Classification.FULL_CONTEXT),
            trace("d", NOW - timedelta(days=2)),
        ],
    )
    found = await traces.tallies(record, NOW - timedelta(days=1))
    assert sorted((t.classification, t.count, t.took_ms, t.candidates, t.most_candidates) for t in found) == [
        ("full_context", 1, 3.0, 0, 0),
        ("hybrid", 2, 30.0, 7, 7),
    ]


async def test_texts_are_found_and_emptied(record: Db) -> None:
    await traces.save(record, [trace("a", NOW, "turn:x", query_text="who?"), trace("b", NOW, "turn:x")])
    (told,) = await traces.told(record)
    assert (told.id.id, told.rows, told.patterns) == ("a", {"turn:x"}, ALL)
    assert await traces.empty_texts(record) == 1
    assert await traces.told(record) == []
    found = await traces.find(record, "a")
    assert found is not None
    assert found.query_text == ""
    assert await traces.empty_texts(record) == 0
