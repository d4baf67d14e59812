import pytest
from hypothesis import given
from hypothesis import strategies as st

from keeps.core import ranking

counts = st.integers(0, 10_000)


@given(st.integers(0, 500), st.integers(0, 500), st.integers(500, 10_000))
def test_rarer_words_weigh_more(one: int, other: int, total: int) -> None:
    assert ranking.rarity(one, total) > 0
    if one < other:
        assert ranking.rarity(one, total) > ranking.rarity(other, total)


def test_a_word_in_every_text_still_weighs_something() -> None:
    assert 0 < ranking.rarity(10, 10) < 0.1
    assert ranking.rarity(0, 0) > 0


@given(st.floats(0, 100), st.floats(0, 100), st.floats(0, 1000), st.floats(0, 1000))
def test_worth_rises_with_occurrences_and_falls_with_length(a: float, b: float, short: float, more: float) -> None:
    low, high = sorted((a, b))
    assert 0 <= ranking.worth(low, short) <= ranking.worth(high, short) < 1
    assert ranking.worth(high, short + more) <= ranking.worth(high, short)


def test_worth_of_a_known_case() -> None:
    # One occurrence in a text of typical length: 1 / (1 + k1).
    assert ranking.worth(1, ranking.TYPICAL_WORDS) == pytest.approx(1 / (1 + ranking.SATURATION))
    assert ranking.worth(0, 10) == 0
    assert ranking.worth(1, 0) < 1


def test_the_text_before_counts_less_than_the_text() -> None:
    assert ranking.occurrences(0, 1) == ranking.BEFORE_WEIGHT < ranking.occurrences(1, 0) == 1


@given(st.lists(st.tuples(st.floats(0.01, 20), st.floats(0, 1)), max_size=10))
def test_share_is_a_share(found: list[tuple[float, float]]) -> None:
    assert 0 <= ranking.share(found) <= 1


def test_share_weighs_words_by_rarity() -> None:
    assert ranking.share([(3.0, 1.0), (1.0, 0.0)]) == 0.75
    assert ranking.share([(3.0, 0.0), (1.0, 1.0)]) == 0.25
    assert ranking.share([]) == 0


def test_a_heading_is_worth_no_more_than_a_name() -> None:
    assert 0 < ranking.spoken(50, 100) < ranking.spoken(30, 100)
    assert (
        ranking.spoken(1, 100_000)
        == ranking.spoken(10, 100_000)
        == ranking.SPEAKER_WEIGHT * ranking.MOST_SPEAKER_RARITY
    )
