"""How far trust, importance, confidence and age may move an answer."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from keeps.core.weights import CONFIDENCE, IMPORTANCE, RECENCY, TRUST, age, boost, moved

shares = st.floats(0, 1)
ages = st.timedeltas(timedelta(0), timedelta(days=20_000))
orders = st.floats(-20, 20)
NONE = timedelta(0)


@given(shares, shares, shares, ages)
def test_a_boost_is_bounded(trust: float, importance: float, confidence: float, old: timedelta) -> None:
    by = boost(trust=trust, importance=importance, confidence=confidence, age=old)
    assert abs(by) <= TRUST + IMPORTANCE + CONFIDENCE + RECENCY + 1e-9
    assert all(math.exp(one) <= 1.16 for one in (TRUST, IMPORTANCE, CONFIDENCE, RECENCY))


@given(shares, shares, orders, st.booleans())
def test_more_trust_never_lowers(one: float, other: float, order: float, absolute: bool) -> None:
    low, high = sorted((one, other))
    places = [
        moved(order, boost(trust=trust, importance=0.5, confidence=0.5, age=NONE), absolute=absolute)
        for trust in (low, high)
    ]
    assert places[0] <= places[1]


@given(orders, orders, shares, ages, st.booleans())
def test_equal_rows_keep_the_order_of_relevance(
    one: float, other: float, trust: float, old: timedelta, absolute: bool
) -> None:
    by = boost(trust=trust, importance=0.5, confidence=0.5, age=old)
    if absolute and (one < 0) != (other < 0):
        return  # an absolute score is never below nought
    low, high = sorted((one, other))
    assert moved(low, by, absolute=absolute) <= moved(high, by, absolute=absolute)


@given(ages, ages)
def test_newer_is_never_worth_less(one: timedelta, other: timedelta) -> None:
    newer, older = sorted((one, other))
    worth = [boost(trust=0.5, importance=0.5, confidence=0.5, age=old) for old in (newer, older)]
    assert worth[0] >= worth[1]


def test_what_lies_ahead_is_new() -> None:
    now = datetime(2026, 5, 1, tzinfo=UTC)
    assert age(now + timedelta(days=1), now) == NONE
    assert age(now - timedelta(days=1), now) == timedelta(days=1)
