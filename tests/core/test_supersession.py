"""Chains of values: one head, whole links, and the right value at every time, in whatever order they arrive."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keeps.core.facts import TRUST, Origin, Status
from keeps.core.supersession import CONFIDENCE_CAP, TICK, oldest_first, place_after, place_at
from keeps.core.text import MAX_LABELS
from keeps.core.validity import When
from tests.core.chains import Chain, at, fact

values = st.sampled_from("ABCD")
moments = st.integers(0, 12)
said = st.lists(st.tuples(moments, values), min_size=1, max_size=12)


def assert_whole(chain: Chain) -> None:
    """Links agree in both directions, intervals do not run backwards, nothing closed is live."""
    for row in chain.rows.values():
        if row.supersedes is not None:
            assert chain.rows[row.supersedes].superseded_by == row.id
        closed = row.superseded_by is not None
        assert closed == (row.control.status is Status.SUPERSEDED)
        assert closed == (row.clocks.close_known_at is not None) == (row.clocks.close_recorded_at is not None)
        if row.clocks.valid_until is not None and row.clocks.valid_from is not None:
            assert row.clocks.valid_until >= row.clocks.valid_from
    if chain.head is not None:
        assert chain.rows[chain.head].superseded_by is None


@given(said)
def test_in_any_order_as_of_gives_the_value_known_last(pairs: list[tuple[int, str]]) -> None:
    chain = Chain()
    known: dict[int, str] = {}
    for order, (minute, value) in enumerate(pairs):
        chain.write(fact(value, minute, recorded=100 + order))
        known[minute] = value
    assert_whole(chain)
    assert [row.id for row in chain.live()] == [chain.head]
    for quarter in range(-4, 13 * 4):
        moment = quarter / 4
        before = [minute for minute in known if minute <= moment]
        expected = [known[max(before)]] if before else []
        assert chain.values(When(as_of=at(moment))) == expected
    assert chain.values(When()) == [known[max(known)]]


@given(said)
def test_at_an_instant_gives_what_was_the_answer_then(pairs: list[tuple[int, str]]) -> None:
    chain = Chain()
    answered: list[list[str]] = []
    for order, (minute, value) in enumerate(pairs):
        chain.write(fact(value, minute, recorded=100 + order))
        answered.append(chain.values(When()))
    assert chain.values(When(at_instant=at(99))) == []
    for order, then in enumerate(answered):
        assert chain.values(When(at_instant=at(100 + order))) == then
        assert chain.values(When(at_instant=at(100.5 + order))) == then


@given(said)
def test_the_last_instant_adds_nothing_to_as_of(pairs: list[tuple[int, str]]) -> None:
    chain = Chain()
    for order, (minute, value) in enumerate(pairs):
        chain.write(fact(value, minute, recorded=100 + order))
    for minute in range(-1, 14):
        when = When(as_of=at(minute), at_instant=at(1000))
        assert chain.values(when) == chain.values(When(as_of=at(minute)))


@given(said)
def test_versions_of_one_moment_stay_in_the_order_of_the_chain(pairs: list[tuple[int, str]]) -> None:
    chain = Chain()
    for order, (minute, value) in enumerate(pairs):
        chain.write(fact(value, minute, recorded=100 + order))
    ordered = oldest_first(chain.rows.values())
    for older, newer in pairwise(ordered):
        assert older.superseded_by == newer.id
        assert newer.supersedes == older.id


@given(st.lists(st.tuples(st.integers(-5, 5), values), min_size=1, max_size=15))
def test_known_time_grows_though_the_clock_goes_back(steps: list[tuple[int, str]]) -> None:
    chain = Chain()
    now = 50
    for step, value in steps:
        now += step
        chain.write(fact(value, now, recorded=now), observed=False)
        assert [row.id for row in chain.live()] == [chain.head]
    assert_whole(chain)
    line = oldest_first(chain.rows.values())
    for older, newer in pairwise(line):
        assert newer.clocks.known_at > older.clocks.known_at
        assert newer.clocks.known_at - older.clocks.known_at >= TICK
    assert line[-1].id == chain.head


writes = st.tuples(
    moments,
    values,
    st.booleans(),
    st.sampled_from([0.3, 0.7, 0.9, 0.95]),
    st.sampled_from([Origin.AUTO_ACCEPTED, Origin.APP_WRITTEN, Origin.USER_SAVED]),
    st.sampled_from(["upsert", "turn"]),
)


@given(st.lists(writes, min_size=1, max_size=12))
def test_any_interleaving_leaves_one_head_and_whole_links(
    steps: list[tuple[int, str, bool, float, Origin, str]],
) -> None:
    chain = Chain()
    for order, (minute, value, observed, confidence, origin, kind) in enumerate(steps):
        confirmed = origin is Origin.USER_SAVED
        head = chain.rows[chain.head] if chain.head else None
        done = chain.write(
            fact(
                value,
                minute,
                recorded=100 + order,
                confidence=confidence,
                origin=origin,
                confirmed=confirmed,
                kind=kind,
            ),
            observed=observed,
        )
        if head is not None and head.control.user_confirmed and not confirmed:
            assert chain.head == head.id, "an agent's value never takes the place of a confirmed one"
        line = [row for row in chain.rows.values() if row.supersedes is not None or row.id == chain.head]
        assert len({row.supersedes for row in line if row.supersedes}) == len(
            [row for row in line if row.supersedes]
        ), "no value has two followers"
        outcomes = [done.opened, done.confirmed, done.proposed]
        assert sum(outcome is not None for outcome in outcomes) == 1
        # What stands open beside the head is what a doubt was raised about.
        assert chain.head is not None
    for row in chain.rows.values():
        if row.supersedes is not None:
            assert chain.rows[row.supersedes].superseded_by == row.id
        if row.superseded_by is not None:
            assert row.clocks.close_known_at is not None
            assert row.clocks.close_known_at >= row.clocks.known_at
    assert chain.rows[chain.head or ""].superseded_by is None  # type: ignore[index]


def test_a_value_said_again_comes_back_behind_what_is_put_in_between() -> None:
    chain = Chain()
    chain.write(fact("B", 1, labels=("a=1",)))
    chain.write(fact("B", 5))
    chain.write(fact("B", 7))
    done = chain.write(fact("A", 3))
    assert done.restored is not None
    assert done.restored.labels == ("a=1",)
    assert [(row.value, row.clocks.known_at) for row in oldest_first(chain.rows.values())] == [
        ("B", at(1)),
        ("A", at(3)),
        ("B", at(5)),
    ]
    assert chain.head == done.restored.id
    chain.write(fact("C", 6))
    assert [row.value for row in oldest_first(chain.rows.values())] == ["B", "A", "B", "C", "B"]
    assert_whole(chain)


def test_curated_values_follow_each_other_however_often_one_was_said() -> None:
    chain = Chain()
    for minute in range(5):
        chain.write(fact("deckhand", minute), observed=False)
    done = chain.write(fact("pilot", 9), observed=False)
    assert done.corrected is not None
    assert not done.doubts
    assert chain.values(When()) == ["pilot"]


def test_conversation_grows_more_certain_by_repetition_but_never_certain() -> None:
    chain = Chain()
    for minute in range(20):
        chain.write(fact("deckhand", minute, kind="turn", confidence=0.6), observed=False)
    (row,) = chain.live()
    assert row.confidence == CONFIDENCE_CAP


def test_a_less_certain_value_stands_beside_and_a_more_certain_one_closes() -> None:
    chain = Chain()
    chain.write(fact("CTO", 1, confidence=0.9, kind="turn"), observed=False)
    done = chain.write(fact("CEO", 2, confidence=0.6, kind="turn"), observed=False)
    assert [doubt.kind for doubt in done.doubts] == ["confidence-floor"]
    assert chain.values(When()) == ["CEO", "CTO"]
    done = chain.write(fact("CEO", 3, confidence=0.95, kind="turn"), observed=False)
    assert done.corrected is not None
    assert done.corrected[0].value == "CTO"
    assert chain.values(When()) == ["CEO"], "the contender that said the same goes with its twin"


def test_two_streams_that_disagree_both_stay_and_raise_a_doubt() -> None:
    chain = Chain(other_head=fact("30 days", 1, kind="document", id_="other"))
    done = chain.write(fact("60 days", 2, kind="turn", confidence=0.9), observed=False)
    assert [doubt.kind for doubt in done.doubts] == ["cross-provenance"]
    assert done.head is not None
    again = Chain(other_head=fact("30 days", 1, kind="document", id_="other"))
    assert not again.write(fact("30  DAYS", 2, kind="turn"), observed=False).doubts


def test_an_agents_value_over_a_confirmed_one_waits_for_a_person() -> None:
    chain = Chain()
    chain.write(fact("pilot", 1, confirmed=True, origin=Origin.USER_SAVED), observed=False)
    done = chain.write(fact("captain", 2, confidence=0.99), observed=False)
    assert done.proposed is not None
    assert [doubt.kind for doubt in done.doubts] == ["conflict"]
    assert chain.values(When()) == ["pilot"]
    done = chain.write(fact("captain", 3, confidence=0.1, confirmed=True), observed=False)
    assert done.corrected is not None, "a person's word needs no certainty"
    assert chain.values(When()) == ["captain"]


def test_less_trusted_does_not_replace_more_trusted() -> None:
    chain = Chain()
    chain.write(fact("pilot", 1, origin=Origin.APP_WRITTEN), observed=False)
    done = chain.write(fact("captain", 2, origin=Origin.AUTO_ACCEPTED), observed=False)
    assert done.head is None
    assert len(done.doubts) == 1
    assert chain.values(When()) == ["captain", "pilot"]


def test_the_past_of_a_confirmed_value_is_protected_as_the_present_is() -> None:
    chain = Chain()
    chain.write(fact("pilot", 1, confirmed=True, origin=Origin.USER_SAVED))
    chain.write(fact("captain", 9, confirmed=True, origin=Origin.USER_SAVED))
    done = chain.write(fact("spy", 5, confidence=0.99))
    assert done.proposed is not None
    assert chain.values(When(as_of=at(6))) == ["pilot"]


def test_a_doubtful_value_from_the_past_stands_beside() -> None:
    chain = Chain()
    chain.write(fact("pilot", 1))
    chain.write(fact("captain", 9))
    done = chain.write(fact("cook", 5, confidence=0.2))
    assert len(done.doubts) == 1
    assert chain.values(When(as_of=at(6))) == ["cook", "pilot"]
    assert chain.values(When(as_of=at(4))) == ["pilot"]


def test_a_contender_is_no_place_in_the_line() -> None:
    chain = Chain()
    chain.write(fact("pilot", 1))
    chain.write(fact("cook", 3, confidence=0.2))
    chain.write(fact("captain", 9))
    chain.write(fact("mate", 5))
    assert chain.values(When(as_of=at(4))) == ["cook", "pilot"]
    assert chain.values(When(as_of=at(6))) == ["cook", "mate"]
    assert chain.values(When(as_of=at(9))) == ["captain", "cook"]


def test_without_a_head_a_value_from_the_past_stays_in_the_past() -> None:
    chain = Chain()
    chain.write(fact("pilot", 1))
    chain.write(fact("captain", 5))
    del chain.rows[chain.head or ""]  # type: ignore[arg-type]
    chain.head = None
    done = chain.write(fact("cook", 0))
    assert done.head is None
    assert chain.values(When()) == []
    assert chain.values(When(as_of=at(0.5))) == ["cook"]
    assert chain.values(When(as_of=at(2))) == ["pilot"]
    done = chain.write(fact("mate", 7))
    assert done.head is not None
    assert chain.values(When()) == ["mate"]


@pytest.mark.parametrize(
    ("valid_from", "until"),
    [(4.0, 4.0), (2.0, 2.0), (0.0, 1.0), (12.0, 12.0)],
    ids=["known", "earlier", "before the old one began", "in the future"],
)
def test_a_value_is_closed_where_the_next_one_begins(valid_from: float, until: float) -> None:
    chain = Chain()
    old = chain.write(fact("A", 1, valid_from=1)).opened
    chain.write(fact("B", 4, valid_from=valid_from))
    assert old is not None
    assert chain.rows[old.id].clocks.valid_until == at(until)
    assert chain.values(When(as_of=at(3))) == ["A"]


def test_a_value_with_an_end_of_its_own_keeps_it() -> None:
    chain = Chain()
    old = chain.write(fact("A", 1, valid_until=3)).opened
    assert old is not None
    chain.write(fact("C", 8))
    assert chain.rows[old.id].clocks.valid_until == at(3), "closing never makes a value last longer"
    assert chain.values(When(as_of=at(2))) == ["A"]
    assert chain.values(When(as_of=at(5))) == [], "it had ended, and nothing had followed yet"
    chain.write(fact("B", 6, valid_from=2))
    assert chain.rows[old.id].clocks.valid_until == at(2)
    assert chain.values(When(as_of=at(2.5))) == ["A"], "that it ended sooner was not known yet"
    assert chain.values(When(as_of=at(4))) == []
    assert chain.values(When(as_of=at(7))) == ["B"]


def test_repetition_merges_labels_and_only_a_person_raises_trust() -> None:
    chain = Chain()
    chain.write(fact("A", 1, origin=Origin.AUTO_ACCEPTED, labels=("a=1",)), observed=False)
    chain.write(fact("a", 2, origin=Origin.APP_WRITTEN, labels=("a=1", "b=2")), observed=False)
    (row,) = chain.live()
    assert row.value == "A"
    assert row.labels == ("a=1", "b=2")
    assert row.control.origin is Origin.AUTO_ACCEPTED
    assert row.control.trust == TRUST[Origin.AUTO_ACCEPTED]
    assert not row.control.user_confirmed
    chain.write(fact("A", 3, origin=Origin.USER_SAVED, confirmed=True), observed=False)
    (row,) = chain.live()
    assert row.control.user_confirmed
    assert row.control.origin is Origin.USER_CONFIRMED
    assert row.control.trust == TRUST[Origin.USER_CONFIRMED]


def test_the_clock_set_back_far_moves_the_new_value_by_a_tick() -> None:
    chain = Chain()
    old = chain.write(fact("A", 100), observed=False).opened
    new = chain.write(fact("B", 1), observed=False).opened
    assert old is not None
    assert new is not None
    assert new.clocks.known_at == old.clocks.known_at + timedelta(microseconds=1)
    assert new.clocks.valid_from == new.clocks.known_at


@given(st.lists(writes, min_size=1, max_size=8), moments, st.lists(writes, min_size=1, max_size=8))
def test_the_place_kept_through_a_write_is_the_place_the_chain_gives(
    before: list[tuple[int, str, bool, float, Origin, str]],
    moment: int,
    together: list[tuple[int, str, bool, float, Origin, str]],
) -> None:
    chain = Chain()
    for order, (minute, value, confirmed, confidence, origin, _) in enumerate(before):
        chain.write(
            fact(value, minute, recorded=100 + order, confirmed=confirmed, confidence=confidence, origin=origin)
        )
    head = chain.rows[chain.head] if chain.head else None
    place = place_at(chain.rows.values(), head, at(moment))
    for order, (_, value, confirmed, confidence, origin, _) in enumerate(together):
        decided = chain.write(
            fact(value, moment, recorded=200 + order, confirmed=confirmed, confidence=confidence, origin=origin)
        )
        place = place_after(place, decided)
        head = chain.rows[chain.head] if chain.head else None
        assert place == place_at(chain.rows.values(), head, at(moment))


def test_labels_of_a_value_said_often_do_not_grow_without_end() -> None:
    chain = Chain()
    for number in range(60):
        chain.write(fact("A", number, labels=(f"n={number}",)))
    (row,) = chain.rows.values()
    assert row.labels == tuple(f"n={number}" for number in range(MAX_LABELS))
