"""Which rows answer for a time: the table of questions, and laws between them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keeps.core.facts import Control, Fact, Status
from keeps.core.validity import NOW, When, answers, known, live, offered
from tests.core.chains import at, fact

OPEN = fact("open", 10, recorded=20, valid_from=5)
ENDED = fact("ended", 10, recorded=20, valid_from=5, valid_until=30)
CLOSED = replace(
    fact("closed", 10, recorded=20, valid_from=5),
    clocks=replace(
        fact("closed", 10, recorded=20, valid_from=5).clocks,
        valid_until=at(25),
        close_known_at=at(40),
        close_recorded_at=at(50),
    ),
    control=Control(status=Status.SUPERSEDED),
    superseded_by="later",
)


def when(**minutes: float) -> When:
    return When(**{name: at(minute) for name, minute in minutes.items()})


@pytest.mark.parametrize(
    ("asked", "row", "expected"),
    [
        (NOW, OPEN, True),
        (NOW, ENDED, False),
        (NOW, CLOSED, False),
        (when(as_of=9), OPEN, False),
        (when(as_of=10), OPEN, True),
        (when(as_of=29), ENDED, True),
        (when(as_of=30), ENDED, False),
        # What came to be known later is left out of an earlier answer, its closing too.
        (when(as_of=26), CLOSED, True),
        (when(as_of=39), CLOSED, True),
        (when(as_of=40), CLOSED, False),
        # The record's own time: when rows and closings were stored.
        (when(at_instant=19), OPEN, False),
        (when(at_instant=20), OPEN, True),
        (when(at_instant=49), CLOSED, True),
        (when(at_instant=50), CLOSED, False),
        (when(at_instant=29), ENDED, True),
        (when(at_instant=30), ENDED, False),
        # Both: not stored yet, stored and not known, stored and known.
        (when(at_instant=19, as_of=15), OPEN, False),
        (when(at_instant=20, as_of=9), OPEN, False),
        (when(at_instant=20, as_of=15), OPEN, True),
        (when(at_instant=49, as_of=45), CLOSED, True),
        (when(at_instant=50, as_of=45), CLOSED, False),
        (when(at_instant=50, as_of=39), CLOSED, True),
        # Bounds alone look at every version.
        (when(valid_from=5), OPEN, True),
        (when(valid_from=6), OPEN, False),
        (when(valid_from=5), CLOSED, True),
        (when(valid_until=25), CLOSED, True),
        (when(valid_until=24), CLOSED, False),
        (when(valid_until=99), OPEN, False),
        (when(valid_from=5, valid_until=30), ENDED, True),
        (when(valid_from=6, valid_until=30), ENDED, False),
        # Bounds with a time: an end that was not known then does not count.
        (when(as_of=39, valid_until=25), CLOSED, False),
        (when(as_of=29, valid_until=30), ENDED, True),
        (when(as_of=29, valid_from=6), ENDED, False),
        (when(at_instant=49, valid_until=99), CLOSED, False),
    ],
)
def test_the_table_of_times(asked: When, row: Fact, expected: bool) -> None:
    assert answers(row, asked, at(60)) is expected


moments = st.integers(0, 20)
some_moment = st.none() | moments


@st.composite
def rows(draw: st.DrawFn) -> Fact:
    made = fact(
        "A",
        draw(moments),
        recorded=draw(moments),
        valid_from=draw(moments),
        valid_until=draw(some_moment),
    )
    if draw(st.booleans()):
        close_known, close_recorded = draw(moments), draw(moments)
        clocks = replace(
            made.clocks,
            close_known_at=max(at(close_known), made.clocks.known_at),
            close_recorded_at=max(at(close_recorded), made.clocks.recorded_at),
            open_until=made.clocks.valid_until,
        )
        made = replace(made, clocks=clocks, control=Control(status=Status.SUPERSEDED))
    return made


def _when(asked: dict[str, int]) -> When:
    return When(**{name: at(minute) for name, minute in asked.items()})


whens = st.dictionaries(st.sampled_from(["as_of", "at_instant", "valid_from", "valid_until"]), moments, max_size=4).map(
    _when
)


@given(rows(), whens, moments)
def test_what_was_retired_answers_no_time(row: Fact, asked: When, forgotten: int) -> None:
    retired = replace(row, clocks=replace(row.clocks, forgotten_at=at(forgotten)))
    assert not answers(retired, asked, at(30))
    assert not known(retired, asked)


@given(rows(), whens, st.sampled_from(["valid_from", "valid_until", "at_instant"]), moments)
def test_a_further_condition_only_takes_away(row: Fact, asked: When, name: str, minute: int) -> None:
    if getattr(asked, name) is not None or asked.is_now or (name == "at_instant" and asked.as_of is None):
        return
    narrower = replace(asked, **{name: at(minute)})
    if name == "at_instant" and row.clocks.close_recorded_at is not None:
        return  # An instant before a closing was stored opens the row again.
    if answers(row, narrower, at(30)):
        assert answers(row, asked, at(30))


@given(rows(), moments)
def test_this_instant_is_the_present(row: Fact, minute: int) -> None:
    now = at(20 + minute)
    assert answers(row, When(at_instant=now), now) == live(row.clocks, row.control.status, now)


@given(rows(), moments)
def test_as_of_now_never_adds_to_the_present(row: Fact, minute: int) -> None:
    now = at(20 + minute)
    if answers(row, When(as_of=now), now):
        assert live(row.clocks, row.control.status, now)


@given(rows(), whens)
def test_an_answer_was_known(row: Fact, asked: When) -> None:
    if answers(row, asked, at(30)):
        assert known(row, asked)


def test_a_row_that_only_ran_out_still_answers_for_its_time() -> None:
    run_out = replace(ENDED, control=Control(status=Status.EXPIRED))
    assert answers(run_out, when(as_of=20), at(60))
    assert not answers(run_out, NOW, at(20))


def test_what_is_kept_back() -> None:
    now = at(10)
    assert offered(Control(), now)
    assert not offered(Control(muted=True), now)
    assert not offered(Control(taint=frozenset({"web"})), now)
    assert offered(Control(taint=frozenset({"web"}), user_confirmed=True), now)
    assert offered(Control(expires_at=at(11)), now)
    assert not offered(Control(expires_at=at(10)), now)
