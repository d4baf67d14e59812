"""Budgets: the stricter of two in every field, and a prompt that never holds more than it may."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keeps.core.errors import Invalid
from keeps.core.packing import (
    LOOSEST,
    RANGES,
    Budget,
    Item,
    SensitiveUse,
    Tainted,
    Unconfirmed,
    check_budget,
    pack,
    tokens_of,
)
from keeps.core.runs import Inclusion
from tests.core.strategies import texts

START = datetime(2026, 5, 1, tzinfo=UTC)

budgets = st.builds(
    Budget,
    max_memories=st.integers(0, 50),
    max_tokens=st.integers(0, 8000),
    max_per_kind=st.integers(0, 50),
    max_per_source=st.integers(1, 50),
    kinds=st.none() | st.frozensets(st.sampled_from(["fact", "note", "goal"])),
    allow_unconfirmed=st.sampled_from(Unconfirmed),
    allow_tainted=st.sampled_from(Tainted),
    allow_sensitive=st.sampled_from(SensitiveUse),
    min_score=st.floats(0, 1),
    min_trust=st.floats(0, 1),
    min_trust_guess=st.floats(0, 1),
    max_age_days=st.none() | st.integers(0, 400),
    timeout_ms=st.integers(50, 10_000),
)
small = st.builds(
    Budget,
    max_memories=st.integers(0, 6),
    max_tokens=st.integers(0, 120),
    max_per_kind=st.integers(0, 3),
    max_per_source=st.integers(1, 3),
    allow_unconfirmed=st.sampled_from([Unconfirmed.LABEL, Unconfirmed.ALLOW]),
)
items = st.lists(
    st.builds(
        Item,
        id=st.integers(0, 30).map(lambda n: f"attribute:{n:02}"),
        kind=st.sampled_from(["fact", "note", "goal"]),
        score=st.sampled_from([0.2, 0.5, 0.9]),
        at=st.integers(0, 3).map(lambda days: START + timedelta(days=days)),
        tokens=st.integers(1, 40),
        source=st.none() | st.sampled_from(["session:a", "session:b"]),
        pinned=st.booleans(),
        guess=st.booleans(),
        trust=st.sampled_from([0.4, 0.6, 0.95]),
        section=st.sampled_from(["", "instructions"]),
        slot=st.none() | st.sampled_from(["home", "name"]),
    ),
    max_size=20,
    unique_by=lambda item: item.id,
)
overheads = st.fixed_dictionaries({"": st.integers(0, 30), "instructions": st.integers(0, 30)})


def item(number: int, **more: Any) -> Item:
    given_ = {"kind": "fact", "score": 0.5, "at": START, "tokens": 10} | more
    return Item(id=f"attribute:{number:02}", **given_)


@given(budgets, budgets, budgets)
def test_the_smallest_of_several_budgets_holds_whatever_their_order(one: Budget, two: Budget, three: Budget) -> None:
    assert one.narrowed(two) == two.narrowed(one)
    assert one.narrowed(two).narrowed(three) == one.narrowed(two.narrowed(three))
    assert one.narrowed(one) == one
    assert one.narrowed(LOOSEST) == one


@given(budgets, budgets)
def test_d2_a_budget_that_is_narrowed_gets_looser_in_nothing(one: Budget, two: Budget) -> None:
    both = one.narrowed(two)
    for name in ("max_memories", "max_tokens", "max_per_kind", "max_per_source", "timeout_ms"):
        assert getattr(both, name) == min(getattr(one, name), getattr(two, name))
    for name in ("min_score", "min_trust", "min_trust_guess"):
        assert getattr(both, name) == max(getattr(one, name), getattr(two, name))
    for kinds in (one.kinds, two.kinds):
        assert kinds is None or (both.kinds is not None and both.kinds <= kinds)
    for days in (one.max_age_days, two.max_age_days):
        assert days is None or (both.max_age_days is not None and both.max_age_days <= days)
    for name in ("allow_unconfirmed", "allow_tainted", "allow_sensitive"):
        strict = list(type(getattr(one, name)))
        assert strict.index(getattr(both, name)) <= min(
            strict.index(getattr(one, name)), strict.index(getattr(two, name))
        )


def test_every_field_of_a_budget_is_narrowed() -> None:
    """A field that `narrowed` forgot would come out as its default."""
    odd = Budget(
        max_memories=1,
        max_tokens=1,
        max_per_kind=1,
        max_per_source=1,
        kinds=frozenset({"goal"}),
        allow_unconfirmed=Unconfirmed.LABEL,
        allow_tainted=Tainted.NEVER,
        allow_sensitive=SensitiveUse.NEVER,
        min_score=0.9,
        min_trust=0.9,
        min_trust_guess=0.9,
        max_age_days=3,
        timeout_ms=60,
    )
    assert all(getattr(odd, each.name) != getattr(Budget(), each.name) for each in fields(Budget))
    assert odd.narrowed(LOOSEST) == odd


@pytest.mark.parametrize("name", RANGES)
def test_a_number_outside_of_its_range_is_refused(name: str) -> None:
    least, most = RANGES[name]
    for value in (least, most):
        assert check_budget(replace(LOOSEST, **{name: value}))
    for value in (least - 1, most + 1):
        with pytest.raises(Invalid, match=name):
            check_budget(replace(LOOSEST, **{name: value}))


@given(items, small, overheads)
def test_d1_a_block_never_holds_more_than_it_may(given_: list[Item], budget: Budget, overhead: dict[str, int]) -> None:
    packed = pack(given_, budget, overhead=overhead)
    chosen = packed.chosen
    sections = {one.section for one in chosen}
    spent = sum(one.tokens for one in chosen) + sum(overhead[section] for section in sections)
    assert packed.tokens == spent <= budget.max_tokens
    assert len(chosen) <= budget.max_memories
    assert all(count <= budget.max_per_kind for count in Counter(one.kind for one in chosen).values())
    by_source = Counter(one.source for one in chosen if one.source)
    assert all(count <= budget.max_per_source for count in by_source.values())
    by_slot = Counter(one.slot for one in chosen if one.slot)
    assert all(count == 1 for count in by_slot.values())


@given(items, small, overheads)
def test_d1_everything_stands_in_the_prompt_or_has_one_reason(
    given_: list[Item], budget: Budget, overhead: dict[str, int]
) -> None:
    packed = pack(given_, budget, overhead=overhead)
    chosen = {one.id for one in packed.chosen}
    assert chosen | packed.left_out.keys() == {one.id for one in given_}
    assert not chosen & packed.left_out.keys()
    assert set(packed.left_out.values()) <= {Inclusion.DROPPED_BUDGET, Inclusion.WITHHELD_CONFLICT}


@given(st.data(), items, small, overheads)
def test_d1_the_order_in_which_items_come_makes_no_difference(
    data: st.DataObject, given_: list[Item], budget: Budget, overhead: dict[str, int]
) -> None:
    other = data.draw(st.permutations(given_))
    assert pack(other, budget, overhead=overhead) == pack(given_, budget, overhead=overhead)


@given(items, small)
def test_more_room_loses_nothing_that_is_counted_alone(given_: list[Item], budget: Budget) -> None:
    """With one limit at a time a larger one keeps all that stood there."""
    for name in ("max_memories", "max_per_kind", "max_per_source"):
        only = replace(LOOSEST, **{name: getattr(budget, name)})
        before = {one.id for one in pack(given_, only).chosen}
        after = {one.id for one in pack(given_, replace(only, **{name: getattr(only, name) + 1})).chosen}
        assert before <= after


@given(items, small, overheads)
def test_the_best_that_fits_stands_first(given_: list[Item], budget: Budget, overhead: dict[str, int]) -> None:
    """What is left out for want of room would not fit where its turn came either."""
    packed = pack(given_, budget, overhead=overhead)
    places = {one.id: place for place, one in enumerate(packed.chosen)}
    assert list(places.values()) == sorted(places.values())
    for left in given_:
        if packed.left_out.get(left.id) is not Inclusion.DROPPED_BUDGET:
            continue
        alone = pack([*packed.chosen, left], budget, overhead=overhead)
        assert left.id not in {one.id for one in alone.chosen} or len(alone.chosen) <= len(packed.chosen)


def test_pinned_then_score_then_newest_then_id() -> None:
    later = START + timedelta(days=1)
    given_ = [
        item(1, score=0.9),
        item(2, score=0.1, pinned=True),
        item(3, at=later),
        item(4),
        item(5),
    ]
    order = [one.id[-2:] for one in pack(given_, LOOSEST).chosen]
    assert order == ["02", "01", "03", "05", "04"]


def test_what_does_not_fit_is_skipped_and_the_next_is_tried() -> None:
    given_ = [item(1, score=0.9, tokens=40), item(2, score=0.8, tokens=70), item(3, score=0.7, tokens=40)]
    packed = pack(given_, replace(LOOSEST, max_tokens=100), overhead={"": 15})
    assert [one.id[-2:] for one in packed.chosen] == ["01", "03"]
    assert packed.left_out == {"attribute:02": Inclusion.DROPPED_BUDGET}
    assert packed.tokens == 95


def test_d3_one_source_cannot_fill_the_prompt() -> None:
    flood = [item(n, score=0.9, source="session:flood") for n in range(30)]
    others = [item(40 + n, score=0.4, source="session:other") for n in range(3)]
    packed = pack([*flood, *others], replace(LOOSEST, max_memories=8, max_per_source=3))
    assert Counter(one.source for one in packed.chosen) == {"session:flood": 3, "session:other": 3}


def test_of_two_values_of_one_slot_the_more_trusted_enters() -> None:
    given_ = [item(1, score=0.9, slot="mara home", trust=0.6), item(2, score=0.5, slot="mara home", trust=0.9)]
    packed = pack(given_, LOOSEST)
    assert [one.id[-2:] for one in packed.chosen] == ["02"]
    assert packed.left_out == {"attribute:01": Inclusion.WITHHELD_CONFLICT}


def test_d4_a_guess_stands_behind_what_was_confirmed_unless_it_may_be_ranked_alike() -> None:
    given_ = [item(1, score=0.9, guess=True), item(2, score=0.5)]
    labelled = pack(given_, replace(LOOSEST, allow_unconfirmed=Unconfirmed.LABEL))
    alike = pack(given_, replace(LOOSEST, allow_unconfirmed=Unconfirmed.ALLOW))
    assert [one.id[-2:] for one in labelled.chosen] == ["02", "01"]
    assert [one.id[-2:] for one in alike.chosen] == ["01", "02"]


@given(texts, texts)
def test_tokens_of_two_texts_are_no_more_than_of_each(one: str, two: str) -> None:
    assert tokens_of(one + two) <= tokens_of(one) + tokens_of(two)
    assert tokens_of(one) <= tokens_of(one + two)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("a", 1), ("a" * 7, 2), ("a" * 8, 3), ("海边小镇", 4), ("Мара", 3), ("né", 1), ("\U0001f600", 2)],
)
def test_tokens_of_a_text(text: str, tokens: int) -> None:
    assert tokens_of(text) == tokens
