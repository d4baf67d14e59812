"""What our code relies on in the engine, each rule in memory and on a file. A new engine version must keep them all."""

from __future__ import annotations

import asyncio
import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, LiteralString

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keeps.core.errors import Invalid, StaleHead, Unavailable
from keeps.store.db import INDEXED_VALUES, Db, Duplicate, RecordID, ScriptRejected, Thrown
from keeps.store.outcome import plain

SCHEMA: LiteralString = """
    DEFINE TABLE fact SCHEMAFULL;
    DEFINE FIELD text ON fact TYPE string ASSERT string::len($value) > 1;
    DEFINE FIELD rev ON fact TYPE int DEFAULT 0;
    DEFINE FIELD hash ON fact TYPE option<string>;
    DEFINE FIELD at ON fact TYPE option<datetime>;
    DEFINE FIELD meta ON fact TYPE option<object> FLEXIBLE;
    DEFINE INDEX fact_hash ON fact FIELDS hash UNIQUE;
    DEFINE TABLE chain SCHEMALESS;
    DEFINE TABLE counter SCHEMALESS;
    DEFINE TABLE loose SCHEMALESS;
    DEFINE TABLE link TYPE RELATION IN fact OUT fact SCHEMALESS;
"""


@pytest.fixture
async def record(db: Db) -> Db:
    await db.run(SCHEMA)
    return db


# Transactions


async def test_every_statement_has_a_result_begin_and_commit_too(record: Db) -> None:
    script: LiteralString = "BEGIN; LET $x = 2; CREATE counter:a SET n = $x; RETURN $x + 1; COMMIT;"
    assert await record.run(script) == [None, None, [{"id": RecordID("counter", "a"), "n": 2}], 3, None]


async def test_a_throw_is_readable_and_rolls_everything_back(record: Db) -> None:
    with pytest.raises(Thrown) as thrown:
        await record.run("BEGIN; CREATE counter:a SET n = 1; THROW 'over: ' + <string>$n; COMMIT;", n=7)
    assert thrown.value.reason == "over: 7"
    assert (await record.run("SELECT * FROM counter"))[0] == []


@pytest.mark.parametrize("reason", ["stale-head", "stale-head: chain:x"])
async def test_a_stale_head_has_its_own_error(record: Db, reason: str) -> None:
    with pytest.raises(StaleHead):
        await record.run("BEGIN; IF true { THROW $reason }; COMMIT;", reason=reason)


async def test_a_failure_in_a_later_statement_rolls_back_the_earlier_ones(record: Db) -> None:
    with pytest.raises(ScriptRejected):
        await record.run("BEGIN; CREATE counter:a SET n = 1; CREATE fact:1 SET text = 5; COMMIT;")
    assert (await record.run("SELECT * FROM counter"))[0] == []


async def test_statements_after_a_return_are_skipped_and_those_before_it_kept(record: Db) -> None:
    """A trap: `RETURN` belongs just before `COMMIT`, never into a branch."""
    script: LiteralString = "BEGIN; CREATE counter:a; RETURN 1; CREATE counter:b; COMMIT;"
    await record.run(script)
    await record.run("BEGIN; IF true { RETURN 1 }; CREATE counter:c; COMMIT;")
    assert (await record.run("SELECT VALUE id FROM counter"))[0] == [RecordID("counter", "a")]


async def test_a_transaction_without_commit_changes_nothing(record: Db) -> None:
    with pytest.raises(ScriptRejected, match="COMMIT"):
        await record.run("BEGIN; CREATE counter:a;")
    assert (await record.run("SELECT * FROM counter"))[0] == []


async def test_a_for_loop_sees_outer_variables_and_parameters_but_leaks_none(record: Db) -> None:
    rows = [{"id": RecordID("loose", n), "set": {"v": n}} for n in (1, 2)]
    await record.run("INSERT INTO loose $rows", rows=[{"id": row["id"], "old": True} for row in rows])
    await record.run(
        "BEGIN; LET $k = 5; FOR $x IN $rows { LET $y = $k; UPDATE $x.id MERGE $x.set;"
        "UPDATE $x.id SET k = $y, p = $p };"
        "UPSERT loose:after SET leaked = $y; COMMIT;",
        rows=rows,
        p="par",
    )
    found = (await record.run("SELECT * FROM loose ORDER BY id"))[0]
    assert found == [
        {"id": RecordID("loose", 1), "k": 5, "old": True, "p": "par", "v": 1},
        {"id": RecordID("loose", 2), "k": 5, "old": True, "p": "par", "v": 2},
        {"id": RecordID("loose", "after")},
    ]


async def test_a_throw_inside_a_loop_rolls_back(record: Db) -> None:
    with pytest.raises(StaleHead):
        await record.run(
            "BEGIN; FOR $n IN [1, 2] { UPSERT counter:a SET n = $n; IF $n = 2 { THROW 'stale-head' } };COMMIT;"
        )
    assert (await record.run("SELECT * FROM counter"))[0] == []


async def test_empty_batches_are_no_error(record: Db) -> None:
    results = await record.run(
        "BEGIN; INSERT INTO fact $none; INSERT RELATION INTO link $none; FOR $x IN $none { UPDATE $x.id SET a = 1 };"
        "DELETE $none; SELECT * FROM $none; COMMIT;",
        none=[],
    )
    assert results == [None, [], [], None, [], [], None]


async def test_a_counter_counts_from_one_and_hands_out_its_number(record: Db) -> None:
    script: LiteralString = "BEGIN; LET $n = (UPSERT ONLY counter:change SET n += 1 RETURN VALUE n); RETURN $n; COMMIT;"
    numbers = [(await record.run(script))[-2] for _ in range(3)]
    parallel = await asyncio.gather(*[record.run(script) for _ in range(20)])
    assert numbers == [1, 2, 3]
    assert sorted(result[-2] for result in parallel) == list(range(4, 24))


async def test_insert_ignore_keeps_what_is_there_and_adds_the_rest(record: Db) -> None:
    await record.run("CREATE loose:1 SET v = 'first'")
    rows = [{"id": RecordID("loose", n), "v": "second"} for n in (1, 2)]
    await record.run("BEGIN; INSERT IGNORE INTO loose $rows RETURN NONE; COMMIT;", rows=rows)
    assert (await record.run("SELECT VALUE v FROM loose ORDER BY id"))[0] == ["first", "second"]


async def test_upsert_content_replaces_the_whole_row_and_merge_does_not(record: Db) -> None:
    id_ = RecordID("loose", 1)
    await record.run("CREATE $id SET a = 1, b = 2", id=id_)
    await record.run("UPSERT $id MERGE $row", id=id_, row={"b": 3})
    assert (await record.run("SELECT * FROM ONLY $id", id=id_))[0] == {"id": id_, "a": 1, "b": 3}
    await record.run("UPSERT $id CONTENT $row", id=id_, row={"c": 4})
    assert (await record.run("SELECT * FROM ONLY $id", id=id_))[0] == {"id": id_, "c": 4}


async def test_a_key_already_there_can_update_instead(record: Db) -> None:
    script: LiteralString = "INSERT INTO loose $rows ON DUPLICATE KEY UPDATE v = $input.v RETURN NONE;"
    for value in (1, 2):
        await record.run(script, rows=[{"id": RecordID("loose", 1), "v": value, "only_first": value}])
    assert (await record.run("SELECT * FROM ONLY loose:1"))[0] == {"id": RecordID("loose", 1), "v": 2, "only_first": 1}


async def test_an_id_made_from_a_number_is_that_of_a_parameter(record: Db) -> None:
    (made,) = (await record.run("CREATE type::record('loose', $n)", n=7))[0]
    assert made["id"] == RecordID("loose", 7)
    assert await record.run(
        "RETURN record::exists($a); RETURN record::exists($b);", a=made["id"], b=RecordID("loose", 8)
    ) == [
        True,
        False,
    ]


async def test_relations_are_inserted_in_bulk_and_go_with_their_ends(record: Db) -> None:
    a, b = RecordID("fact", "a"), RecordID("fact", "b")
    await record.run("INSERT INTO fact $rows", rows=[{"id": a, "text": "aa"}, {"id": b, "text": "bb"}])
    edges = [{"id": RecordID("link", "e"), "in": a, "out": b, "strength": 0.5}]
    await record.run("INSERT RELATION INTO link $edges RETURN NONE", edges=edges)
    assert (await record.run("SELECT VALUE ->link->fact FROM ONLY $a", a=a))[0] == [b]
    await record.run("DELETE $b", b=b)
    assert (await record.run("SELECT * FROM link"))[0] == []


# Compare and set


_CAS: LiteralString = """
    BEGIN;
    LET $head = (SELECT VALUE head FROM ONLY $chain);
    IF ($head ?? NONE) != $expected { THROW "stale-head" };
    UPSERT $chain SET head = $next;
    COMMIT;
"""


async def test_of_racing_writers_on_one_chain_one_wins(record: Db) -> None:
    chain = RecordID("chain", ["person/alice", "home", "hash", "authoritative"])

    async def write(value: str, expected: str | None) -> bool:
        try:
            await record.run(_CAS, chain=chain, expected=expected, next=value)
        except StaleHead:
            return False
        return True

    expected = None
    for turn in range(5):
        won = await asyncio.gather(*[write(f"{turn}-{n}", expected) for n in range(8)])
        assert sum(won) == 1
        expected = f"{turn}-{won.index(True)}"
        assert (await record.run("SELECT VALUE head FROM ONLY $chain", chain=chain))[0] == expected


async def test_increments_are_never_lost(record: Db) -> None:
    await asyncio.gather(*[record.run("UPSERT counter:a SET n += 1") for _ in range(60)])
    assert (await record.run("SELECT VALUE n FROM ONLY counter:a"))[0] == 60


async def test_update_where_writes_nothing_on_a_miss_but_upsert_where_makes_a_row(record: Db) -> None:
    """Why compare-and-set never uses `UPSERT … WHERE`."""
    await record.run("CREATE counter:a SET n = 1")
    assert (await record.run("UPDATE counter:a SET n = 9 WHERE n = 5"))[0] == []
    assert (await record.run("SELECT VALUE n FROM ONLY counter:a"))[0] == 1
    await record.run("UPSERT counter SET n = 9 WHERE n = 5")
    assert len((await record.run("SELECT * FROM counter"))[0]) == 2


async def test_existing_ids_and_unique_values_are_told_apart_from_errors_of_ours(record: Db) -> None:
    await record.run("CREATE fact:1 SET text = 'secret one', hash = 'secret hash'")
    for script in (
        "CREATE fact:1 SET text = 'other'",
        "INSERT INTO fact { id: fact:1, text: 'other' }",
        "CREATE fact:2 SET text = 'other', hash = 'secret hash'",
        "BEGIN; CREATE fact:2 SET text = 'other', hash = 'secret hash'; COMMIT;",
    ):
        with pytest.raises(Duplicate) as duplicate:
            await record.run(script)  # type: ignore[arg-type]
        assert "secret" not in str(duplicate.value)


async def test_many_rows_may_lack_a_unique_value(record: Db) -> None:
    await record.run("CREATE fact:1 SET text = 'aa'; CREATE fact:2 SET text = 'bb', hash = NONE;")


# Refusals never carry the text of a row


@pytest.mark.parametrize(
    "script",
    [
        "CREATE fact:1 SET text = 'quite secret', rev = 'quite secret'",
        "CREATE fact:1 SET text = $one",
        "CREATE fact:1 SET text = 'quite secret', unknown = 'quite secret'",
        "CREATE fact:1 SET text = ['quite secret', { a: 'it\\'s quite secret' }]",
        "BEGIN; CREATE fact:1 SET text = 'quite secret'; CREATE fact:2 SET rev = 'quite secret'; COMMIT;",
    ],
)
async def test_a_refused_value_is_not_in_the_message(record: Db, script: LiteralString) -> None:
    with pytest.raises(ScriptRejected) as refused:
        await record.run(script, one="s")
    assert "secret" not in str(refused.value)
    assert "'s'" not in str(refused.value)
    assert "field" in str(refused.value)


@pytest.mark.parametrize("name", ["session", "auth", "token", "access"])
async def test_protected_parameter_names_are_refused(record: Db, name: str) -> None:
    with pytest.raises(ScriptRejected, match="protected"):
        await record.run("RETURN 1", **{name: 1})  # type: ignore[arg-type]


async def test_a_script_that_does_not_parse_and_a_missing_table_are_errors_of_ours(record: Db) -> None:
    with pytest.raises(ScriptRejected, match="Parse error"):
        await record.run("SELECT FROM WHERE")
    with pytest.raises(ScriptRejected, match="does not exist"):
        await record.run("SELECT * FROM absent")
    assert await record.run("RETURN 1") == [1]


async def test_a_read_stops_at_its_own_timeout(record: Db) -> None:
    await record.run("CREATE counter:a")
    with pytest.raises(Unavailable) as late:
        await record.run("SELECT * FROM counter WHERE sleep(1s) TIMEOUT 20ms;")
    assert late.value.retry_after_s == 1


# Values


_micro = st.datetimes(min_value=datetime(1, 1, 1), max_value=datetime(9999, 12, 31), timezones=st.just(UTC))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)
@given(st.lists(_micro, min_size=1, max_size=5))
def test_datetimes_keep_their_microseconds(moments: list[datetime]) -> None:
    """The conversion itself; the journey through the engine is the next test."""
    assert plain(moments) == moments


async def test_datetimes_make_the_journey_and_come_back_plain(record: Db) -> None:
    moments = [
        datetime(2026, 1, 2, 3, 4, 5, 678901, UTC),
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
    ]
    for moment in moments:
        await record.run("UPSERT fact:1 SET text = 'aa', at = $at, meta = { at: [$at] }", at=moment)
        row, found, later = await record.run(
            "SELECT * FROM ONLY fact:1; SELECT VALUE id FROM fact WHERE at = $at;"
            "SELECT VALUE id FROM fact WHERE at > $at;",
            at=moment,
        )
        assert row["at"] == row["meta"]["at"][0] == moment
        assert type(row["at"]) is datetime
        assert row["at"].tzinfo is UTC
        assert (found, later) == ([RecordID("fact", 1)], [])
    nanosecond = (await record.run("RETURN d'2026-01-01T00:00:00.123456789Z'"))[0]
    assert nanosecond == datetime(2026, 1, 1, 0, 0, 0, 123456, UTC)


async def test_other_zones_become_utc_and_naive_times_are_taken_for_utc(record: Db) -> None:
    eastern = datetime(2026, 1, 1, 0, 0, tzinfo=timezone(timedelta(hours=5)))
    assert (await record.run("RETURN $at", at=eastern))[0] == eastern
    assert (await record.run("RETURN $at", at=eastern))[0].tzinfo is UTC
    assert (await record.run("RETURN $at", at=datetime(2026, 1, 1)))[0] == datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "key",
    [
        "01JABC",
        "7",
        7,
        -1,
        "with space and ⟨⟩ ` \\ quotes ' \"",
        "",
        "ünï\u0000côde",
        ["person/a b", "key\u001fvalue", "hash", "authoritative"],
        ["x", None, True, 1.5, ["deep", {"k": 1}]],
    ],
)
async def test_record_ids_round_trip(record: Db, key: Any) -> None:
    id_ = RecordID("chain", key)
    await record.run("CREATE $id SET ref = $id", id=id_)
    (row,) = (await record.run("SELECT * FROM $id", id=id_))[0]
    assert (row["id"], row["ref"]) == (id_, id_)
    assert type(row["id"].id) is type(key)


async def test_a_list_with_a_time_is_an_id_too(record: Db) -> None:
    at = datetime(2026, 1, 1, 0, 0, 0, 5, UTC)
    found = (await record.run("CREATE $id", id=RecordID("chain", ["a", at])))[0][0]["id"].id
    assert found == ["a", at]
    assert type(found[1]) is datetime


async def test_none_removes_a_field_and_null_reads_as_none(record: Db) -> None:
    await record.run("CREATE loose:1 SET a = 1, b = 2, c = 3")
    await record.run("UPDATE loose:1 MERGE $changes", changes={"a": None})
    await record.run("UPDATE loose:1 SET b = $none", none=None)
    assert (await record.run("SELECT * FROM ONLY loose:1"))[0] == {"id": RecordID("loose", 1), "c": 3}
    await record.run("CREATE loose:2 CONTENT $row", row={"a": None, "b": [None, 1], "c": {"d": None}})
    assert (await record.run("SELECT * FROM ONLY loose:2"))[0] == {"id": RecordID("loose", 2), "b": [None, 1], "c": {}}
    assert await record.run("RETURN [NULL, NONE]; RETURN { a: NULL };") == [[None, None], {"a": None}]


async def test_missing_rows_read_as_nothing(record: Db) -> None:
    missing, there = RecordID("fact", "no"), RecordID("fact", "yes")
    await record.run("CREATE $id SET text = 'aa'", id=there)
    one, value, many, gone = await record.run(
        "SELECT * FROM ONLY $id; SELECT VALUE text FROM ONLY $id; SELECT VALUE id FROM [$id, $there];"
        "DELETE $id RETURN BEFORE;",
        id=missing,
        there=there,
    )
    assert (one, value, many, gone) == (None, None, [there], [])


@pytest.mark.parametrize(
    "text", ["a\0b", "", "\U0001f44d\U0001f3fd", "e\u0301", "\u202e", "\ufeff", "\uffff", "x" * 600_000]
)
async def test_texts_the_engine_keeps_as_they_are(record: Db, text: str) -> None:
    """NUL included: what must not be stored is refused before it gets here."""
    await record.run("CREATE loose:1 SET t = $t, o = { k: $t }", t=text)
    row = (await record.run("SELECT * FROM ONLY loose:1"))[0]
    assert (row["t"], row["o"]["k"]) == (text, text)


@pytest.mark.parametrize(
    "value", ["\ud800", "a\udfffb", 2**63, -(2**63) - 1, 2**64, {"deep": ["\ud800"]}, {"\ud800": 1}]
)
async def test_lone_surrogates_and_larger_integers_are_refused_before_the_engine(record: Db, value: Any) -> None:
    with pytest.raises(Invalid):
        await record.run("CREATE loose:1 SET v = $v", v=value)
    assert (await record.run("SELECT * FROM loose"))[0] == []


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), 0, -0.0, 0.1, 1e308, 5e-324, 1.0, True, math.inf, -math.inf])
async def test_numbers_keep_value_and_kind(record: Db, value: float) -> None:
    await record.run("CREATE loose:1 SET v = $v", v=value)
    found = (await record.run("SELECT VALUE v FROM ONLY loose:1"))[0]
    assert (found, type(found)) == (value, type(value))
    assert math.copysign(1, found) == math.copysign(1, value)


async def test_nan_is_stored_and_equals_itself(record: Db) -> None:
    """Recorded, not wanted: whoever takes numbers from outside refuses NaN and the infinities."""
    await record.run("CREATE loose:1 SET v = $v", v=math.nan)
    assert math.isnan((await record.run("SELECT VALUE v FROM ONLY loose:1"))[0])


async def test_bytes_and_sets_come_back_as_bytes_and_lists(record: Db) -> None:
    assert await record.run("RETURN $b; RETURN <set>[2, 1, 2];", b=b"\x00\xff") == [b"\x00\xff", [1, 2]]


async def test_an_object_we_have_no_form_for_is_an_error_of_ours(record: Db) -> None:
    with pytest.raises(ScriptRejected, match="cannot encode"):
        await record.run("RETURN $v", v=timedelta(seconds=1))


# The door


async def test_databases_do_not_see_each_other(db: Db, request: pytest.FixtureRequest) -> None:
    engine = request.getfixturevalue(f"{'memory' if 'memory' in request.node.name else 'file'}_engine")
    other = await engine.database(f"{db.name}_other")
    await db.run("DEFINE TABLE t; CREATE t:1 SET v = 'here'")
    await other.run("DEFINE TABLE t")
    assert (await other.run("SELECT * FROM t"))[0] == []
    await engine.remove_database(other.name)
    again = await engine.database(other.name)
    with pytest.raises(ScriptRejected, match="does not exist"):
        await again.run("SELECT * FROM t")
    await engine.remove_database(other.name)
    await engine.remove_database(other.name)
    assert (await db.run("SELECT VALUE v FROM t"))[0] == ["here"]


@pytest.mark.parametrize("name", ["", "A", "1a", "a b", "../x", "a/b", "a`b", "a" * 129, "ü"])
async def test_names_of_databases_are_checked(memory_engine: Any, name: str) -> None:
    with pytest.raises(Invalid):
        await memory_engine.database(name)
    with pytest.raises(Invalid):
        await memory_engine.remove_database(name)


async def test_commits_are_counted_only_when_they_happen(db: Db, request: pytest.FixtureRequest) -> None:
    engine = request.getfixturevalue(f"{'memory' if 'memory' in request.node.name else 'file'}_engine")
    before = engine.commits
    await db.run("DEFINE TABLE t; SELECT * FROM t")
    await db.run("BEGIN; CREATE t:1; COMMIT;")
    with pytest.raises(Thrown):
        await db.run("BEGIN; CREATE t:2; THROW 'no'; COMMIT;")
    assert engine.commits == before + 1


@pytest.mark.parametrize(("values", "indexed"), [(INDEXED_VALUES, True), (INDEXED_VALUES + 1, False)])
async def test_in_uses_an_index_for_a_few_values_only(record: Db, values: int, indexed: bool) -> None:
    (plan,) = await record.run(
        "SELECT * FROM fact WHERE hash IN $hashes EXPLAIN;", hashes=[f"hash {n}" for n in range(values)]
    )
    assert ("fact_hash" in str(plan)) is indexed
