"""The archive as a file: values come back as they were, and nothing damaged is ever taken for whole."""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keeps.core.errors import Conflict, Invalid, StoreRefused, Unavailable
from keeps.store.archive import PART_PREFIX, Archive, Header, Line, Writer, Written, decode, encode
from keeps.store.contexts import database_of
from keeps.store.db import Db, RecordID
from keeps.store.migrate import migrate
from keeps.store.tables import PAGE, Table, count, pages, tables, write
from tests.store.faults import run_on_small_disk

NOW = datetime(2026, 5, 1, 12, 0, 0, 123456, tzinfo=UTC)
HEADER = Header(
    created_at=NOW, control_schema=1, context_schema=1, contexts=("a", "b"), ledger=(3, "ab"), pepper_check="cd"
)
CONTEXT = {"id": RecordID("context", "a"), "folded": "a", "namespace": "keeps", "database": database_of("a")}

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(max_size=20)
    | st.datetimes(timezones=st.just(UTC)).map(lambda at: at.replace(fold=0))
)
keys = st.text(max_size=5) | st.sampled_from(["$at", "$id", "$bytes", "$object", "$float", "$other"])
plain = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=12
)
ids = st.builds(RecordID, st.sampled_from(["t", "u"]), st.text(min_size=1) | st.integers(0, 9) | st.lists(plain))
values = st.recursive(plain | ids, lambda inner: st.dictionaries(keys, inner, max_size=2), max_leaves=4)


@given(values)
def test_every_value_comes_back_as_it_was(value: Any) -> None:
    there = json.loads(json.dumps(encode(value), allow_nan=False))
    assert _typed(decode(there)) == _typed(value)


def _typed(value: Any) -> Any:
    """Values with their types, since `1 == 1.0 == True`, and record ids compare by what they print."""
    if isinstance(value, dict):
        return {key: _typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_typed(item) for item in value]
    if isinstance(value, RecordID):
        return ("id", value.table_name, _typed(value.id))
    return type(value).__name__, repr(value)


def test_what_json_has_no_word_for() -> None:
    assert math.isnan(decode(encode(math.nan)))
    assert decode(encode(-math.inf)) == -math.inf
    east = datetime(2026, 5, 1, 14, 0, tzinfo=timezone(timedelta(hours=2)))
    assert encode(east) == {"$at": "2026-05-01T12:00:00.000000Z"}
    assert encode(b"\x00\xff") == {"$bytes": "AP8="}
    with pytest.raises(TypeError, match="set"):
        encode({1})
    for odd in ({"$what": 1}, {"$id": ["t"]}, {"$float": "12"}, {"$at": 5}, {"$bytes": "ä"}):
        with pytest.raises(ValueError):
            decode(odd)


# ---------------------------------------------------------------------- the file
def written(file: Path, rows: int = 5, *, force: bool = False) -> Written:
    with Writer(file, HEADER, force=force) as writer:
        for number in range(rows):
            writer.row("context:a", "turn", {"id": RecordID("turn", f"t{number}"), "content": f"wørd {number}\n\u2028"})
        writer.row("control", "context", CONTEXT)
        return writer.finish()


def test_an_archive_is_read_back_line_by_line(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    done = written(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert done.size == file.stat().st_size
    assert list(tmp_path.iterdir()) == [file]
    archive = Archive.open(file)
    assert archive.header == HEADER
    lines = list(archive.lines())
    assert lines[0] == Line("context:a", "turn", {"id": RecordID("turn", "t0"), "content": "wørd 0\n\u2028"})
    assert {db: dict(tables) for db, tables in archive.counts.items()} == done.counts
    assert done.counts == {"context:a": {"turn": 5}, "context:b": {}, "control": {"context": 1}}
    trailer = json.loads(file.read_bytes().splitlines()[-1])["trailer"]
    assert trailer == {"counts": done.counts, "sha256": done.digest}


def test_what_is_dropped_leaves_no_byte(tmp_path: Path) -> None:
    plainly, again = tmp_path / "plainly", tmp_path / "again"
    written(plainly)
    with Writer(again, HEADER) as writer:
        writer.begin()
        for number in range(100):
            writer.row("context:a", "turn", {"id": RecordID("turn", f"secret{number}")})
        writer.again()
        for number in range(5):
            writer.row("context:a", "turn", {"id": RecordID("turn", f"t{number}"), "content": f"wørd {number}\n\u2028"})
        writer.row("control", "context", CONTEXT)
        writer.finish()
    assert again.read_bytes() == plainly.read_bytes()


def test_a_backup_that_is_not_finished_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(KeyError), Writer(tmp_path / "a", HEADER):
        raise KeyError
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_exists_is_overwritten_only_when_told(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text("mine")
    with pytest.raises(Conflict, match="--force"):
        written(file)
    assert file.read_text() == "mine"
    written(file, force=True)
    Archive.open(file).verify()


def test_a_file_that_appears_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "a"
    with pytest.raises(Conflict), Writer(file, HEADER) as writer:  # noqa: PT012 - the error comes out of the block
        file.write_text("mine")
        writer.finish()
    assert file.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [file]


def test_of_two_backups_into_a_file_the_first_that_is_whole_has_it(tmp_path: Path) -> None:
    with pytest.raises(Conflict), Writer(tmp_path / "a", HEADER) as writer:  # noqa: PT012 - the error comes at the end
        writer.row("control", "context", CONTEXT)
        done = written(tmp_path / "a")
        writer.finish()
    Archive.open(tmp_path / "a").verify()
    assert (tmp_path / "a").stat().st_size == done.size
    assert list(tmp_path.iterdir()) == [tmp_path / "a"]


def test_what_somebody_put_beside_it_is_not_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = [tmp_path / ".a.part", tmp_path / f"{PART_PREFIX}{'0' * 16}"]
    target = tmp_path / "target"
    for content in (target, *planted):
        content.write_text("mine")
        content.chmod(0o644)
    (tmp_path / f"{PART_PREFIX}{'1' * 16}").symlink_to(target)
    for foreseen in "01":  # whoever guesses the name gains nothing
        monkeypatch.setattr("keeps.store.archive.secrets.token_hex", lambda size, digit=foreseen: digit * 2 * size)
        with pytest.raises(Unavailable, match="File exists"):
            written(tmp_path / "a")
    monkeypatch.undo()
    before = os.umask(0o277)
    try:
        written(tmp_path / "a")
    finally:
        os.umask(before)
    assert [path.read_text() for path in (target, *planted)] == ["mine"] * 3
    assert {stat.S_IMODE(path.stat().st_mode) for path in (target, *planted)} == {0o644}
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600
    assert len(list(tmp_path.iterdir())) == 5


def test_a_backup_that_cannot_begin_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Writer, "_write", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        Writer(tmp_path / "a", HEADER)
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------------- put together by hand
def handmade(file: Path, *lines: dict[str, Any], **header: Any) -> Path:
    """An archive whose digest and counts agree, whatever it says."""
    counts: dict[str, dict[str, int]] = {"control": {}}
    for name in header.get("contexts", HEADER.contexts):
        counts[f"context:{name}"] = {}
    for line in lines:
        tables_of = counts.setdefault(line["db"], {})
        tables_of[line["table"]] = tables_of.get(line["table"], 0) + 1
    body = b"".join(json.dumps(content).encode() + b"\n" for content in (HEADER.to_json() | header, *lines))
    trailer = {"trailer": {"counts": counts, "sha256": hashlib.sha256(body).hexdigest()}}
    file.write_bytes(body + json.dumps(trailer).encode() + b"\n")
    return file


def registered(context_id: Any, **change: Any) -> dict[str, Any]:
    named = {"folded": str(context_id).lower(), "namespace": "keeps", "database": database_of(str(context_id))}
    row = {"id": {"$id": ["context", context_id]}, **named, **change}
    return {"db": "control", "table": "context", "row": {key: item for key, item in row.items() if item is not None}}


def test_a_handmade_archive_may_be_sound(tmp_path: Path) -> None:
    file = handmade(tmp_path / "file", registered("a"), registered("b"))
    Archive.open(file).verify()


@pytest.mark.parametrize(
    "ids",
    [
        ["/tmp/x/abs"],
        ["../../victim"],
        [".."],
        ["."],
        [""],
        ["a/b"],
        ["a\\b"],
        ["a\n"],
        ["record"],
        ["Pepper"],
        ["record.before"],
        [".restoring"],
        ["x" * 129],
        ["a", "A"],
        ["a", "a"],
        [5],
        "ab",
        {"a": 1},
    ],
)
def test_a_context_that_could_not_be_made_here_is_refused(tmp_path: Path, ids: Any) -> None:
    if ids != [5]:  # a number is taken for its text, and its row is not
        with pytest.raises(Invalid, match="first line"):
            Archive.open(handmade(tmp_path / "file", contexts=ids))
    for context_id in ids:
        file = handmade(tmp_path / "file", *map(registered, [context_id, *ids]), contexts=["a", "5"])
        with pytest.raises(Invalid, match="holds no context"):
            Archive.open(file).verify()


@pytest.mark.parametrize(
    "change",
    [
        {"database": database_of("b")},
        {"database": "control"},
        {"database": "../x"},
        {"database": None},
        {"namespace": "System"},
        {"namespace": None},
        {"folded": "b"},
        {"id": {"$id": ["context", ["a"]]}},
    ],
)
def test_a_context_that_points_elsewhere_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    file = handmade(tmp_path / "file", registered("a", **change), registered("b"))
    with pytest.raises(Invalid, match="line 2 holds no context"):
        Archive.open(file).verify()


def test_a_context_comes_once_and_is_named_before(tmp_path: Path) -> None:
    for rows in (["a", "a"], ["a", "b", "c"]):
        with pytest.raises(Invalid, match="holds no context"):
            Archive.open(handmade(tmp_path / "file", *map(registered, rows))).verify()


@pytest.mark.parametrize("depth", [130, 900, 20_000])
def test_what_is_nested_too_deeply_is_refused(tmp_path: Path, depth: int) -> None:
    file = handmade(tmp_path / "file", registered("a"), registered("b"))
    inner = b'{"a":' * depth + b"1" + b"}" * depth
    line = b'{"db":"context:a","table":"turn","row":{"id":{"$id":["turn","t"]},"metadata":' + inner + b"}}\n"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:-1], line, lines[-1]]))
    with pytest.raises(Invalid, match="line 4"):
        Archive.open(file).verify()


def test_the_deepest_metadata_comes_back() -> None:
    value: Any = 1
    for _ in range(40):
        value = {"$at": [value]}
    assert decode(json.loads(json.dumps(encode({"row": value})))) == {"row": value}


@pytest.mark.parametrize("value", [{"$at": "0001-01-01T00:00:00+14:00"}, 2**63, {"$id": ["turn", 2**64]}])
def test_a_value_out_of_range_is_refused(tmp_path: Path, value: Any) -> None:
    row = {"id": {"$id": ["turn", "t"]}, "content": value}
    file = handmade(tmp_path / "file", {"db": "context:a", "table": "turn", "row": row})
    with pytest.raises(Invalid, match="line 2"):
        Archive.open(file).verify()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="No such file"):
        written(tmp_path / "nowhere" / "a")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    file = tmp_path_factory.mktemp("archive") / "sound"
    written(file)
    return file.read_bytes()


@given(data=st.data())
def test_no_flipped_bit_passes(sound: bytes, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(sound) - 1))
    bit = data.draw(st.integers(0, 7))
    damaged = bytearray(sound)
    damaged[at] ^= 1 << bit
    file = tmp_path_factory.getbasetemp() / "flipped"
    file.write_bytes(damaged)
    with pytest.raises((Invalid, StoreRefused)):
        Archive.open(file).verify()


@given(data=st.data())
def test_no_cut_file_passes(sound: bytes, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    file = tmp_path_factory.getbasetemp() / "cut"
    file.write_bytes(sound[: data.draw(st.integers(0, len(sound) - 1))])
    with pytest.raises(Invalid):
        Archive.open(file).verify()


def test_nothing_may_follow_the_last_line(sound: bytes, tmp_path: Path) -> None:
    file = tmp_path / "longer"
    file.write_bytes(sound + b"\n")
    with pytest.raises(Invalid, match="something follows"):
        Archive.open(file).verify()


def test_a_line_taken_out_or_moved_is_noticed(sound: bytes, tmp_path: Path) -> None:
    head, one, two, *rest = sound.splitlines(keepends=True)
    for lines in ([head, two, *rest], [head, two, one, *rest], [head, one, one, two, *rest]):
        (tmp_path / "file").write_bytes(b"".join(lines))
        with pytest.raises(Invalid, match="does not agree"):
            Archive.open(tmp_path / "file").verify()


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"format": "other"}, Invalid),
        ({"version": 2}, StoreRefused),
        ({"schema": {}}, Invalid),
        ({"contexts": 5}, Invalid),
        ({"created_at": "yesterday"}, Invalid),
    ],
)
def test_another_header_is_refused(
    sound: bytes, tmp_path: Path, change: dict[str, Any], error: type[Exception]
) -> None:
    head, rest = sound.split(b"\n", 1)
    (tmp_path / "file").write_bytes(json.dumps(json.loads(head) | change).encode() + b"\n" + rest)
    with pytest.raises(error):
        Archive.open(tmp_path / "file")


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    for content in (b"", b"\n", b"hello", b"[]\n", b"\xff\xfe\n", b"[" * 100_000 + b"\n"):
        (tmp_path / "file").write_bytes(content)
        with pytest.raises(Invalid, match="no archive"):
            Archive.open(tmp_path / "file")
    with pytest.raises(Invalid, match="cannot be read"):
        Archive.open(tmp_path / "missing")


FULL = """
from datetime import UTC, datetime
from pathlib import Path
from keeps.core.errors import Unavailable
from keeps.store.archive import Archive, Header, Writer
from keeps.store.db import RecordID

header = Header(created_at=datetime.now(UTC), control_schema=1, context_schema=1, contexts=("a",), ledger=(0, ""),
                pepper_check="")
file = Path("/mnt/backup.jsonl")

def backup(rows):
    with Writer(file, header, force=True) as writer:
        for number in range(rows):
            writer.row("context:a", "turn", {"id": RecordID("turn", number), "content": "x" * 1000})
        writer.finish()

backup(100)
before = file.read_bytes()
for rows in (10_000, 1_000):
    try:
        backup(rows)
        print("written")
    except Unavailable as error:
        print(error.message)
    print(file.read_bytes() == before, [found.name for found in Path("/mnt").iterdir()])
"""


@pytest.mark.slow
def test_a_full_disk_leaves_no_half_file() -> None:
    lines = run_on_small_disk(FULL, size="1m").splitlines()
    assert "is full: no backup was made" in lines[0]
    assert "is full: no backup was made" in lines[2]
    assert lines[1] == lines[3] == "True ['backup.jsonl']"


# ---------------------------------------------------------------------- the database
async def test_every_row_of_every_table_is_read_and_written_again(db: Db) -> None:
    await migrate(db, "context")
    known = {table.name: table for table in await tables(db)}
    assert {name for name, table in known.items() if table.edges} == {"relates_to", "follows", "similar_to", "causes"}
    assert list(known)[-4:] == sorted(list(known)[-4:])
    nodes = [{"id": RecordID("scope_set", f"s{n}"), "clauses": [["a"]], "created_at": NOW} for n in range(2 * PAGE + 1)]
    for start in range(0, len(nodes), PAGE):
        await write(db, nodes[start : start + PAGE], edges=False)
    got = [row async for page in pages(db, known["scope_set"]) for row in page]
    assert sorted(got, key=lambda row: row["id"].id) == sorted(nodes, key=lambda row: row["id"].id)
    assert await count(db, "scope_set") == len(nodes)
    assert await count(db, "scope") == 0


async def test_an_edge_comes_back_under_its_id_and_is_followed(db: Db) -> None:
    await migrate(db, "context")
    edge = {
        "id": RecordID("causes", "c1"),
        "in": RecordID("attribute", "one"),
        "out": RecordID("action", "two"),
        "strength": 0.5,
        "scope_set": "s",
    }
    await write(db, [edge], edges=True)
    assert [row async for page in pages(db, Table("causes", edges=True)) for row in page] == [edge]
    followed = await db.run("SELECT VALUE <-causes.id FROM action:two; SELECT VALUE id FROM causes;")
    assert followed[1] == [RecordID("causes", "c1")]
    with pytest.raises(Invalid, match="twice"):
        await write(db, [edge], edges=True)
    with pytest.raises(Invalid, match="does not fit"):
        await write(db, [edge | {"id": RecordID("causes", "c2"), "strength": "much"}], edges=True)


async def test_a_table_added_later_is_not_forgotten(db: Db) -> None:
    await migrate(db, "context")
    await db.run("DEFINE TABLE later SCHEMALESS; CREATE later:1 SET x = [1, 2.0, d'2026-01-01T00:00:00Z'];")
    assert "later" in {table.name for table in await tables(db)}
    rows = [row async for page in pages(db, Table("later", edges=False)) for row in page]
    assert rows == [{"id": RecordID("later", 1), "x": [1, 2.0, datetime(2026, 1, 1, tzinfo=UTC)]}]
