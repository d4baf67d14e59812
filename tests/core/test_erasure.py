"""Which clauses may be given up, and which words go with a row."""

from __future__ import annotations

import pytest
from hypothesis import given

from keeps.core.access import Region
from keeps.core.erasure import Gone, fate, given_up, holds, without_lines
from keeps.core.scopes import Lens, Scope, parse_lens, parse_pattern, parse_scopes
from tests.core.strategies import regions, scopes


def scope(value: object) -> Scope:
    parsed = parse_scopes(value)
    assert parsed is not None
    return parsed


def region(*patterns: str) -> Region:
    return Region(tuple(map(parse_pattern, patterns)))


@pytest.mark.parametrize(
    ("clauses", "held", "lens", "left"),
    [
        ([["a"]], ["a"], None, Gone.PURGE),
        ([["a"], ["b"]], ["a"], None, [["b"]]),
        ([["a"], ["b"]], ["a", "b"], None, Gone.PURGE),
        ([["a"], ["b"]], ["a", "b"], "a", [["b"]]),
        ([["a", "b"]], ["a"], None, None),
        ([["a", "b"]], ["a", "b"], None, Gone.PURGE),
        ([["a"]], ["a"], "b", None),
        ([["a/x"], ["ab"]], ["a/*"], None, [["ab"]]),
        ([["a/x"]], ["a"], None, None),
    ],
)
def test_what_becomes_of_a_row(clauses: object, held: list[str], lens: object, left: object) -> None:
    row = scope(clauses)
    found = fate(row, given_up(row, region(*held), parse_lens(lens)), Gone.PURGE)
    assert found == (scope(left) if isinstance(left, list) else left)


def test_a_row_without_clauses_belongs_to_the_root() -> None:
    assert fate(Scope(), given_up(Scope(), region("a/*"), Lens()), Gone.RETIRE) is None
    assert fate(Scope(), given_up(Scope(), region("/*"), Lens()), Gone.RETIRE) is Gone.RETIRE


@given(scopes, regions)
def test_what_is_left_is_seen_by_others_alone(row: Scope, held: Region) -> None:
    left = fate(row, given_up(row, held, Lens()), Gone.RETIRE)
    assert (left is None) == (not row.visible_to(held))
    if isinstance(left, Scope):
        assert left.clauses < row.clauses
        assert not left.visible_to(held)


@pytest.mark.parametrize(
    ("text", "words", "expected"),
    [
        ("I became a harbour  pilot", "Harbour pilot.", True),
        ("saffron-coloured", "saffron", True),
        ("I was born in 1985", "5", False),
        ("I have 5 cats", "5", True),
        ("scattered cats", "cat", False),
        ("a cat", "cat", True),
        ("東京都に住む", "東京", True),
        ("anything", "", False),
        ("STRASSE", "straße", True),
    ],
)
def test_holds(text: str, words: str, expected: bool) -> None:
    assert holds(text, words) is expected


def test_lines_go_with_their_words() -> None:
    text = "mara role pilot\nmara city Lyon\nmara pet Rex"
    assert without_lines(text, ["lyon", "rex"]) == "mara role pilot"
    assert without_lines("mara note first\nsecond", ["first\nsecond"]) == ""
    assert without_lines(text, ["nothing"]) == text
