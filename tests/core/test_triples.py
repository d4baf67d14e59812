"""Ready-made facts: the four families, every refusal, and times."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keeps.core.errors import Invalid, Unprocessable
from keeps.core.facts import Category
from keeps.core.instants import parse_instant, resolve_hint
from keeps.core.triples import Family, Triple, parse_category, parse_triples

ANCHOR = datetime(2026, 11, 30, 16, 5, tzinfo=UTC)
MARA = {"type": "Person", "name": " Mara  Okafor "}
PORT = {"type": "company", "name": "North Port"}


def one(**members: Any) -> Triple:
    return parse_triples([{"entity": MARA, **members}], anchor=ANCHOR)[0]


def refusal(**members: Any) -> str:
    entry = {"entity": MARA, **members}
    with pytest.raises(Unprocessable) as caught:
        parse_triples([{"entity": MARA, "key": "fine", "value": "fine"}, entry], anchor=ANCHOR)
    assert caught.value.message.startswith("triples[1]: ")
    return caught.value.message


def test_an_attribute() -> None:
    got = one(
        key="Gap.Kind",
        value="  harbour pilot ",
        confidence=0.9,
        memory_category="identity",
        occurred_at="2026-11-01T10:00:00+02:00",
        valid_until="2026-12-01",
        source_clause="She is a harbour pilot.",
    )
    assert got.family is Family.ATTRIBUTE
    assert (str(got.entity.ref), got.entity.name) == ("person/mara okafor", "Mara Okafor")
    assert (got.key, got.value) == ("gap_kind", "harbour pilot")
    assert (got.confidence, got.category) == (0.9, Category.IDENTITY)
    assert got.occurred_at == got.valid_from == datetime(2026, 11, 1, 8, tzinfo=UTC)
    assert got.valid_until == datetime(2026, 12, 1, tzinfo=UTC)
    assert got.source_clause == "She is a harbour pilot."
    assert not got.hidden_chars


def test_a_relation() -> None:
    got = one(key="Works At", target=PORT, valid_from="2020-01-01T00:00:00Z")
    assert got.family is Family.RELATION
    assert got.key == "works_at"
    assert got.target is not None
    assert (str(got.target.ref), got.target.name) == ("organisation/north port", "North Port")
    assert got.valid_from == datetime(2020, 1, 1, tzinfo=UTC)
    assert got.occurred_at is None


def test_an_action() -> None:
    got = one(verb="Docked", object="MV Teal", summary="Mara docked MV Teal.", temporal_hint="Yesterday")
    assert got.family is Family.ACTION
    assert (got.verb, got.object_text, got.summary) == ("docked", "MV Teal", "Mara docked MV Teal.")
    assert got.occurred_at == datetime(2026, 11, 29, tzinfo=UTC)
    assert got.valid_from is None
    assert got.key is None


def test_an_entity() -> None:
    got = one(key="ignored", value=None)
    assert got.family is Family.ENTITY
    assert got.key is None


def test_both_spellings() -> None:
    snake = one(key="k", value="v", memory_category="context", source_clause="q", valid_from="2020-01-01")
    camel = one(key="k", value="v", memoryCategory="context", sourceClause="q", validFrom="2020-01-01")
    assert snake == camel
    assert "twice" in refusal(key="k", value="v", valid_from="2020-01-01", validFrom="2021-01-01")


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({"entity": None, "value": "v", "key": "k"}, "entity"),
        ({"entity": "person/mara", "value": "v", "key": "k"}, "entity"),
        ({"entity": {"type": "person", "name": "  "}, "value": "v", "key": "k"}, "name"),
        ({"entity": {"type": "person"}, "value": "v", "key": "k"}, "entity"),
        ({"entity": {"name": "Mara"}, "value": "v", "key": "k"}, "entity"),
        ({"entity": {"type": "person", "name": 7}, "value": "v", "key": "k"}, "entity"),
        ({"value": "v"}, "key"),
        ({"target": PORT}, "key"),
        ({"value": "v", "key": "..."}, "key"),
        ({"value": "v", "key": 3}, "key"),
        ({"value": "", "key": "k"}, "value"),
        ({"value": 7, "key": "k"}, "value"),
        ({"value": "x" * 8193, "key": "k"}, "8192"),
        ({"value": "v", "target": PORT, "key": "k"}, "only one"),
        ({"value": "v", "verb": "ran", "key": "k"}, "only one"),
        ({"target": PORT, "verb": "ran", "key": "k"}, "only one"),
        ({"target": {"type": "person", "name": ""}, "key": "k"}, "name"),
        ({"target": "North Port", "key": "k"}, "target"),
        ({"verb": "ran", "key": "k"}, "key"),
        ({"verb": " "}, "verb"),
        ({"verb": "ran", "object": 3}, "object"),
        ({"verb": "ran", "valid_from": "2020-01-01"}, "valid_from"),
        ({"value": "v", "key": "k", "confidence": 1.01}, "0 to 1"),
        ({"value": "v", "key": "k", "confidence": -0.1}, "0 to 1"),
        ({"value": "v", "key": "k", "confidence": True}, "0 to 1"),
        ({"value": "v", "key": "k", "confidence": "high"}, "0 to 1"),
        ({"target": PORT, "key": "k", "confidence": 0.5}, "confidence"),
        ({"confidence": 0.5}, "confidence"),
        ({"value": "v", "key": "k", "occurred_at": "2020-01-01", "temporal_hint": "today"}, "not both"),
        ({"value": "v", "key": "k", "occurred_at": "2020-01-01", "valid_from": "2020-01-01"}, "not both"),
        ({"value": "v", "key": "k", "temporal_hint": "today", "valid_from": "2020-01-01"}, "not both"),
        ({"value": "v", "key": "k", "occurred_at": "last spring"}, "occurred_at"),
        ({"value": "v", "key": "k", "occurred_at": "2020-01-01T00:00:00"}, "occurred_at"),
        ({"value": "v", "key": "k", "occurred_at": 1577836800}, "occurred_at"),
        ({"value": "v", "key": "k", "valid_from": "2020-01-02", "valid_until": "2020-01-02"}, "later"),
        ({"value": "v", "key": "k", "memory_category": 4}, "memory_category"),
    ],
)
def test_refusals(members: dict[str, Any], says: str) -> None:
    assert says in refusal(**members)


@pytest.mark.parametrize("bad", [None, [], {}, "x", [7], ["x"], [None], [{}] * 1001])
def test_bad_lists(bad: object) -> None:
    with pytest.raises(Unprocessable):
        parse_triples(bad, anchor=ANCHOR)


def test_text_that_cannot_be_stored_is_a_bad_request() -> None:
    for members in ({"key": "k", "value": "a\0b"}, {"key": "a\ud800", "value": "v"}):
        with pytest.raises(Invalid, match="bad text"):
            parse_triples([{"entity": MARA, **members}], anchor=ANCHOR)


def test_unknown_categories() -> None:
    assert one(key="k", value="v", memory_category="episodic").category is Category.CONTEXT
    with pytest.raises(Unprocessable):
        parse_triples(
            [{"entity": MARA, "key": "k", "value": "v", "memory_category": "episodic"}],
            anchor=ANCHOR,
            lenient_category=False,
        )
    assert parse_category("knowledge", lenient=False) is Category.KNOWLEDGE


def test_hidden_characters_are_reported() -> None:
    assert one(key="k", value="a\u202eb").hidden_chars
    assert one(key="k", value="a\u00ad\u00adb").hidden_chars
    assert one(entity={"type": "person", "name": "Ma\u202era"}, key="k", value="v").hidden_chars


def test_a_phrase_that_means_no_certain_day_is_kept_as_a_question() -> None:
    got = one(key="k", value="v", temporal_hint="last spring")
    assert got.occurred_at is None
    assert got.valid_from is None
    assert got.unresolved_hint == "last spring"


_members = st.sampled_from(
    ["entity", "type", "name", "key", "value", "target", "verb", "object", "confidence", "occurred_at"]
)
_json = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_members, inner, max_size=5),
)


@given(_json)
def test_any_value_is_parsed_or_refused(value: object) -> None:
    with contextlib.suppress(Invalid, Unprocessable):
        parse_triples([value], anchor=ANCHOR)


@pytest.mark.parametrize(
    ("hint", "day"),
    [
        ("today", "2026-11-30"),
        (" Yesterday ", "2026-11-29"),
        ("tomorrow", "2026-12-01"),
        ("3 days ago", "2026-11-27"),
        ("1 day ago", "2026-11-29"),
        ("2 weeks ago", "2026-11-16"),
        ("in 3 days", "2026-12-03"),
        ("2026-10-23", "2026-10-23"),
    ],
)
def test_hints_that_mean_a_day(hint: str, day: str) -> None:
    assert resolve_hint(hint, ANCHOR) == datetime.fromisoformat(f"{day}T00:00:00+00:00")


@pytest.mark.parametrize(
    "hint",
    ["", "last spring", "3 days", "in 3 days ago", "soon", "2026-13-01", "9999 weeks ago", "-1 days ago"],
)
def test_hints_that_do_not(hint: str) -> None:
    assert resolve_hint(hint, ANCHOR) is None


def test_days_are_those_of_the_anchors_offset() -> None:
    tokyo = timezone(timedelta(hours=9))
    late = datetime(2026, 12, 1, 1, 0, tzinfo=tokyo)
    assert resolve_hint("yesterday", late) == datetime(2026, 11, 30, tzinfo=tokyo)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-30T10:00:00Z", datetime(2026, 11, 30, 10, tzinfo=UTC)),
        ("2026-11-30t10:00:00z", datetime(2026, 11, 30, 10, tzinfo=UTC)),
        ("2026-11-30T10:00:00.5+05:30", datetime(2026, 11, 30, 4, 30, 0, 500_000, tzinfo=UTC)),
        ("2026-11-30T10:00:00.123456789Z", datetime(2026, 11, 30, 10, 0, 0, 123_456, tzinfo=UTC)),
        ("2026-11-30", datetime(2026, 11, 30, tzinfo=UTC)),
    ],
)
def test_instants(text: str, expected: datetime) -> None:
    assert parse_instant(text) == expected


@pytest.mark.parametrize(
    "bad",
    ["", "now", "2026-11-30T10:00:00", "2026-11-30T24:00:00Z", "2026-02-30", "1899-12-31",
     "2201-01-01", "20261130",
     "2026-11-30T10:00Z", "٢٠٢٦-11-30", "2026-11-30T10:00:00+99:00", None, 5, datetime(2026, 1, 1)],
)  # fmt: skip
def test_instants_that_are_refused(bad: object) -> None:
    with pytest.raises(Invalid):
        parse_instant(bad)
