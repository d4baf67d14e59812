"""Paths, patterns, scopes and lenses: the grammar, the truth tables, and their laws."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keeps.core.access import Region
from keeps.core.errors import Invalid
from keeps.core.scopes import (
    EVERYTHING,
    ROOT,
    Lens,
    Pattern,
    Scope,
    ScopePath,
    ancestors,
    parse_lens,
    parse_path,
    parse_pattern,
    parse_scopes,
    wire_path,
)
from tests.core.strategies import lenses, paths, patterns, regions, scopes, texts


def region(*texts: str) -> Region:
    return Region(tuple(map(parse_pattern, texts)))


def scope(clauses: object) -> Scope:
    return parse_scopes(clauses) or Scope()


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("/", "/"),
        ("org/acme", "org/acme"),
        ("org/acme/", "org/acme"),
        ("/org/acme", "org/acme"),
        ("/org/acme/", "org/acme"),
        ("cafe\u0301/x", "café/x"),
        ("team/Ärzte und Pflege", "team/Ärzte und Pflege"),
        ("bench/%empty", "bench/%empty"),
        ("bench/a%20b%2Fc", "bench/a%20b%2Fc"),
        ("org/a%252e%252e", "org/a%252e%252e"),
        ("user/p1-ABC.x_y~z", "user/p1-ABC.x_y~z"),
        ("/".join("abcdefghijklmnop"), "/".join("abcdefghijklmnop")),
    ],
)
def test_accepted_paths(written: str, path: str) -> None:
    assert parse_path(written) == path
    assert str(parse_pattern(written)) == path


@pytest.mark.parametrize(
    "written",
    [
        "", "//", "///", "a//b", "/a//", ".", "..", "a/./b", "user/alice/../bob",
        "user/alice%2f..%2fbob", "user/alice/%2e%2e/bob", "org/%2E%2e/b", "org/%2e",
        "org/a%2f%2fb", "org/a%2F", "org/a%5c..%5cb", "org/ . /b", "org/%20..", " a", "a ", "a/ b",
        "a/   /b", "a*", "a/*/b", "*a/b", "a/**", "a\0b", "a/b\n", "a\tb", "a\ud800",
        "a\u200bb", "a\u202eb", "a\x7f",
        "user/\u0430lice", "user/al ice",
        "user/-x", "user/al%20ice", "user/a@b.org", f"user/{'x' * 65}", "x" * 513, "é" * 257,
        "/".join("abcdefghijklmnopq"), None, 7, ["a"], b"a",
    ],
)  # fmt: skip
def test_refused_paths(written: object) -> None:
    with pytest.raises(Invalid, match="bad scope"):
        parse_path(written)
    with pytest.raises(Invalid, match="bad scope"):
        parse_pattern(written)


@pytest.mark.parametrize("written", ["*", "/*", "a/*", "/a/*"])
def test_stars_belong_to_patterns_only(written: str) -> None:
    assert parse_pattern(written).subtree
    with pytest.raises(Invalid):
        parse_path(written)


def test_everything_has_two_spellings() -> None:
    assert parse_pattern("*") == parse_pattern("/*") == EVERYTHING
    assert str(EVERYTHING) == "/*"
    assert parse_pattern("/") == Pattern(ROOT)


@given(texts)
def test_a_path_that_parses_is_canonical(text: str) -> None:
    try:
        path = parse_path(text)
    except Invalid:
        return
    assert parse_path(path) == path
    assert parse_path(wire_path(path)) == path
    assert ".." not in path.split("/")
    assert "*" not in path


@given(patterns)
def test_a_pattern_reads_back_from_its_text(pattern: Pattern) -> None:
    assert parse_pattern(str(pattern)) == pattern


@given(patterns, paths)
def test_covering_goes_by_whole_segments(pattern: Pattern, path: ScopePath) -> None:
    own = [] if pattern.path == ROOT else pattern.path.split("/")
    other = [] if path == ROOT else path.split("/")
    expected = other[: len(own)] == own if pattern.subtree else other == own
    assert pattern.covers(path) is expected


def test_a_name_that_begins_alike_is_not_below() -> None:
    assert not parse_pattern("user/al/*").covers(parse_path("user/alice"))
    assert not scope("user/alice").touches(parse_pattern("user/al/*"))
    assert scope("user/alice").without(parse_pattern("user/al/*")) == scope("user/alice")


def test_ancestors() -> None:
    assert ancestors(parse_path("a/b/c")) == ("a", "a/b")
    assert ancestors(ROOT) == ancestors(parse_path("a")) == ()


@pytest.mark.parametrize(
    ("row", "patterns", "visible"),
    [
        ([["org/acme"]], ["org/acme"], True),
        ([["org/acme"]], ["org/acme/*"], True),
        ([["org/acme/user/al"]], ["org/acme"], False),
        ([["org/acme/user/al"]], ["org/acme/*"], True),
        ([["org/acme"]], ["org/acme/user/al"], False),
        ([["org/acme", "user/al"]], ["org/acme", "user/al"], True),
        ([["org/acme", "user/al"]], ["org/acme"], False),
        ([["org/acme/user/al"], ["org/acme/user/bo"]], ["org/acme/user/bo"], True),
        ([["team/a"], ["team/b", "clearance/x"]], ["team/b"], False),
        ([], ["org/*"], False),
        ([], ["/"], True),
        ([["org/acme", "user/al"], ["team/x"]], ["/*"], True),
        ([], ["/*"], True),
        ([["org/acme"]], [], False),
    ],
)
def test_visibility_table(row: list[list[str]], patterns: list[str], visible: bool) -> None:
    assert scope(row).visible_to(region(*patterns)) is visible


@pytest.mark.parametrize(
    ("row", "lens", "kept"),
    [
        ([["region/eu"]], [["region/eu"]], True),
        ([["region/eu", "sku/m"]], [["region/eu"]], True),
        ([["region/eu"]], [["region/eu", "sku/m"]], False),
        ([["region/eu"], ["sku/m"]], [["region/eu", "sku/m"]], False),
        ([["org/acme/user/al"]], [["org/acme"]], False),
        ([["org/acme/user/al"]], [["org/acme/*"]], True),
        ([["org/acme"]], [["org/acme/user/al"]], False),
        ([["user/al"]], [["user/al"], ["user/bo"]], True),
        ([["user/bo"]], ["user/al", "user/bo"], True),
        ([["user/cy"]], [["user/al"], ["user/bo"]], False),
        ([["user/cy"]], [], True),
        ([["user/cy"]], None, True),
        ([["user/cy"]], [[]], False),
        ([["user/cy"]], "*", True),
        ([], "/*", True),
        ([], "user/*", False),
    ],
)
def test_lens_table(row: list[list[str]], lens: object, kept: bool) -> None:
    assert parse_lens(lens).keeps(scope(row), region("/*")) is kept


def test_a_lens_sees_only_clauses_the_reader_sees() -> None:
    row = scope([["user/al"], ["secret/x"]])
    assert not parse_lens("secret/x").keeps(row, region("user/al"))
    assert parse_lens("user/al").keeps(row, region("user/al"))


@pytest.mark.parametrize("lens", [[["org/acme/*"]], [["*"]], [[]], [], None])
def test_a_lens_wider_than_the_grant_finds_no_more(lens: object) -> None:
    own = region("org/acme/user/alice")
    for foreign in ([["org/acme"]], [["org/acme/user/bob"]], [["org/acme/user/alice/x"]], []):
        assert not parse_lens(lens).keeps(scope(foreign), own)


@given(scopes, lenses, regions)
def test_a_lens_never_widens(row: Scope, lens: Lens, reader: Region) -> None:
    if lens.keeps(row, reader):
        assert row.visible_to(reader)


@given(scopes, regions, regions)
def test_visibility_needs_each_region(row: Scope, one: Region, other: Region) -> None:
    if row.visible_to(one & other):
        assert row.visible_to(one)
        assert row.visible_to(other)


@given(scopes, regions)
def test_visible_clauses_agree_with_visibility(row: Scope, reader: Region) -> None:
    assert row.visible_to(reader) is bool(row.visible_clauses(reader))
    if row.within(reader):
        assert row.visible_to(reader)


@pytest.mark.parametrize(
    ("value", "wire"),
    [
        ("team/a", [["team/a/"]]),
        (["team/b", "team/a"], [["team/a/"], ["team/b/"]]),
        ([["team/b", "clearance/secret"], "team/a"], [["clearance/secret/", "team/b/"], ["team/a/"]]),
        ([["team/a"], ["team/a/"], "/team/a"], [["team/a/"]]),
        (["/"], [["/"]]),
    ],
)
def test_scopes_from_every_wire_form(value: object, wire: list[list[str]]) -> None:
    parsed = parse_scopes(value)
    assert parsed is not None
    assert parsed.to_wire() == wire
    assert parse_scopes(parsed.to_wire()) == parsed


def test_unset_and_empty() -> None:
    assert parse_scopes(None) is None
    assert parse_scopes([]) is None
    for bad in ([[]], [["a"], []], "", [""], [["a", None]], {"a": 1}, 7, [[["a"]]], ["a/*"], "*"):
        with pytest.raises(Invalid):
            parse_scopes(bad)
    assert not parse_lens(None)
    assert not parse_lens([])
    assert parse_lens([[]])


def test_limits_of_selectors() -> None:
    assert parse_scopes([f"t/{n}" for n in range(32)])
    assert parse_scopes([[f"t/{n}" for n in range(8)]])
    for parse in (parse_scopes, parse_lens):
        with pytest.raises(Invalid, match="32"):
            parse([f"t/{n}" for n in range(33)])
        with pytest.raises(Invalid, match="8"):
            parse([[f"t/{n}" for n in range(9)]])


@given(scopes, scopes)
def test_ids_differ_exactly_when_scopes_do(one: Scope, other: Scope) -> None:
    assert (one.id == other.id) is (one == other)
    assert Scope.from_lists(one.to_lists()).id == one.id


def test_the_id_of_a_scope_is_part_of_the_stored_format() -> None:
    assert scope([["team/b", "clearance/x"], ["team/a"]]).id == "c84435a63289305f1a92e956af726bab"


@given(scopes, patterns)
def test_leaving_takes_the_touched_clauses_and_no_other(row: Scope, pattern: Pattern) -> None:
    left = row.without(pattern)
    if left is None:
        assert row.touches(pattern)
        return
    assert not left.touches(pattern)
    assert left.clauses <= row.clauses
    assert (left == row) is not row.touches(pattern)


def test_co_owners_keep_their_clause() -> None:
    both = scope([["user/al"], ["user/bo"]])
    assert both.without(parse_pattern("user/al/*")) == scope([["user/bo"]])
    assert scope([["user/al", "user/bo"]]).without(parse_pattern("user/al/*")) is None
    assert scope([]).without(EVERYTHING) is None
    assert scope([]).without(parse_pattern("user/*")) == scope([])


@given(st.lists(paths, min_size=1, max_size=4))
def test_a_flat_list_is_an_or(flat: list[ScopePath]) -> None:
    assert parse_scopes(list(flat)) == Scope(frozenset(frozenset({path}) for path in flat))
