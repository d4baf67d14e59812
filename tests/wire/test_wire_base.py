"""Spellings, nulls and times at the edge."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keeps.core.errors import Invalid
from keeps.core.instants import parse_instant
from keeps.wire.base import Instant, TopK, WireIn, WireOut, validated


class Asked(WireIn):
    also: ClassVar[dict[str, tuple[str, ...]]] = {"top_k": ("k", "limit"), "scopes": ("scope",)}

    query: str = ""
    top_k: TopK = 10
    scopes: Any = None
    as_of: Instant | None = None


class Told(WireOut):
    query_ms: int
    trace_id: str | None = None
    metadata: dict[str, Any] | None = None
    at: datetime | None = None


@pytest.mark.parametrize("name", ["topK", "top_k", "k", "limit"])
def test_every_spelling_means_the_same(name: str) -> None:
    assert validated(Asked, {name: 7}).top_k == 7


def test_two_spellings_with_different_values_are_refused() -> None:
    with pytest.raises(Invalid, match="given twice"):
        validated(Asked, {"asOf": "2026-01-01T00:00:00Z", "as_of": "2027-01-01T00:00:00Z"})
    assert validated(Asked, {"k": 3, "limit": 3}).top_k == 3


def test_unknown_members_and_nulls_are_ignored() -> None:
    asked = validated(Asked, {"nonsense": 1, "asOf": None, "k": None, "scope": None})
    assert asked == Asked()


@pytest.mark.parametrize(("sent", "kept"), [(0, 10), (1, 1), (50, 50)])
def test_k_has_a_default_and_a_ceiling(sent: int, kept: int) -> None:
    assert validated(Asked, {"k": sent}).top_k == kept


@pytest.mark.parametrize("sent", [51, -1, "many", 1.5])
def test_k_outside_is_refused_without_repeating_the_value(sent: object) -> None:
    with pytest.raises(Invalid) as caught:
        validated(Asked, {"k": sent})
    assert "top_k" in caught.value.message
    assert "many" not in caught.value.message


def test_out_is_camel_case_and_absent_fields_are_left_out() -> None:
    told = Told(query_ms=3, metadata={"a": None}, at=datetime(2026, 11, 30, 9, tzinfo=UTC))
    assert told.to_json() == b'{"queryMs":3,"metadata":{"a":null},"at":"2026-11-30T09:00:00Z"}'


def test_out_parses_its_own_json() -> None:
    told = Told(query_ms=3, trace_id="t")
    assert Told.parse({"queryMs": 3, "traceId": "t", "later": 1}) == told


REFUSED_TIMES = [
    "0000-00-00T00:00:00Z",
    "9999-12-31T23:59:60Z",
    "2026-02-30T00:00:00Z",
    "2026-01-01T00:00:00",
    "2026-01-01T00:00:00+99:99",
    "2026-01-01T00:00:00+05:60",
    "10000-01-01T00:00:00Z",
    "-271821-04-20T00:00:00Z",
    "1899-12-31T23:59:59Z",
    "2201-01-01T00:00:00Z",
    "0001-01-01T00:00:00+14:00",
    "２026-01-01T00:00:00Z",
    20260101,
    True,
    "",
]


@pytest.mark.parametrize("text", REFUSED_TIMES)
def test_o37_times_that_name_no_moment_are_refused(text: object) -> None:
    with pytest.raises(Invalid):
        parse_instant(text)
    with pytest.raises(Invalid):
        validated(Asked, {"asOf": text})


def test_o37_an_offset_is_turned_into_utc() -> None:
    assert parse_instant("2026-01-01T00:00:00+14:00") == datetime(2025, 12, 31, 10, tzinfo=UTC)
    assert parse_instant("2026-01-01t00:00:00.123456789z").microsecond == 123456


moments = st.datetimes(datetime(1900, 1, 2), datetime(2200, 12, 30), timezones=st.just(UTC))
offsets = st.integers(-23 * 60 - 59, 23 * 60 + 59).map(lambda m: timezone(timedelta(minutes=m)))


@given(moments, offsets)
def test_a_moment_survives_any_offset(moment: datetime, offset: timezone) -> None:
    assert parse_instant(moment.astimezone(offset).isoformat()) == moment
