"""Which texts say the same, and which never do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keeps.core.duplicates import LONGEST_CHARS, MOST_COMPARED, Comparison, Said, same, survivors
from tests.core.strategies import texts

LONG = (
    "The harbour office of North Port opens at dawn and the pilots meet in the old customs hall before the tide turns "
    "to read the weather report, share warm tea, sort the paper charts, check radio batteries, oil the winch, mend "
    "torn flags, sweep wet floors, greet young apprentices, list waiting ships, argue about fog, watch grey herons, "
    "praise good cooks, mark shallow banks, count spare ropes, wash muddy boots and write long letters home."
)


def fact(text: str, about: str = "person/mara") -> Said:
    return Said(text, voice=about, fact=True)


def passage(text: str, by: str = "mara") -> Said:
    return Said(text, voice=by)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Mara likes rye bread.", "mara likes rye bread"),
        ("Mara likes rye bread.", "Mara  likes — rye bread!"),
        ("Mara's café is open", "Mara's cafe is open"),
        ("ＭＡＲＡ likes rye", "Mara likes rye"),
        ("She said: “fine”, then left", 'she said "fine" then left'),
        (LONG, LONG.replace("The harbour office", "the harbour office,").replace("and write", "& write")),
        (LONG, LONG.replace("grey herons", "herons")),
    ],
)
def test_the_same_in_other_dress(one: str, other: str) -> None:
    assert same(passage(one), passage(other))
    assert same(fact(one), fact(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The gate code is 4711", "The gate code is 4712"),
        ("It was -5 outside", "It was 5 outside"),
        ("He owes 1.5 euros", "He owes 15 euros"),
        ("Due 2026-05-01", "Due 2026-01-05"),
        ("Mara met Tove", "Mara met Ann"),
        ("She writes C#", "She writes C"),
        ("She writes C++", "She writes C"),
        ("He uses .net", "He uses net"),
        ("50% of it", "50 of it"),
        ("Is Mara here?", "Is Mara here."),
        ("ถนน", "ถน"),
        ("👍", "👎"),
        (LONG, LONG.replace("North Port", "South Port")),
        (LONG, LONG.replace("opens", "never opens")),
        (LONG, LONG.replace("count spare", "count two spare")),
        (LONG, LONG + " At 7 sharp."),
        (LONG, LONG[: len(LONG) // 2]),
    ],
)
def test_what_differs_in_substance_stays(one: str, other: str) -> None:
    assert not same(passage(one), passage(other))
    assert not same(fact(one), fact(other))


_words = st.sampled_from("the pilot met Mara Tove Ann at noon near quay never and not ate rye bread slowly".split())
_numbers = st.integers(-9999, 9999).map(str)


@given(st.lists(st.one_of(_words, _numbers), max_size=90), st.data())
def test_a_number_or_name_that_differs_makes_two_of_any_text(said: list[str], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(said)))
    one, two = data.draw(
        st.one_of(
            st.tuples(_numbers, _numbers),
            st.tuples(st.sampled_from(["Ida", "Bo", "Kim"]), st.sampled_from(["Ida", "Bo", "Kim"])),
        ).filter(lambda pair: pair[0] != pair[1])
    )
    first = " ".join([*said[:place], one, *said[place:]])
    second = " ".join([*said[:place], two, *said[place:]])
    assert not same(passage(first), passage(second))
    assert not same(fact(first), passage(second))


@given(texts, texts, st.sampled_from(["mara", "tove"]), st.booleans())
def test_sameness_has_no_direction_and_holds_of_itself(one: str, other: str, voice: str, is_fact: bool) -> None:
    first, second = Said(one, voice, is_fact), Said(other, "mara", fact=True)
    assert same(first, first)
    assert same(first, second) == same(second, first)


def test_two_speakers_may_say_one_thing_and_both_stay() -> None:
    assert not same(passage("I love rye bread", "mara"), passage("I love rye bread", "tove"))
    assert same(passage("I love rye bread", "mara"), passage("i love rye bread!", "mara"))


def test_a_fact_takes_the_place_of_the_passage_that_says_it() -> None:
    ranked = [passage("A whale passed."), passage("Mara's role is pilot."), fact("Mara's role is pilot.")]
    assert survivors(ranked) == [0, 2]
    assert survivors(list(reversed(ranked))) == [0, 2]


def test_what_somebody_says_of_themselves_is_no_fact_about_another() -> None:
    ranked = [fact("I am allergic to nuts", "person/mara"), passage("I am allergic to nuts", "tove")]
    assert survivors(ranked) == [0, 1]


@given(st.lists(st.builds(Said, texts, st.sampled_from(["a", "b"]), st.booleans()), max_size=8))
def test_survivors_differ_from_each_other_and_every_text_has_one(ranked: list[Said]) -> None:
    kept = survivors(ranked)
    assert len(set(kept)) == len(kept)
    for said in ranked:
        assert any(said is ranked[at] or same(said, ranked[at]) for at in kept) or any(
            same(said, other) for other in ranked if other is not said
        )


def by_every_pair(ranked: list[Said]) -> list[int]:
    """The rule as it is said: each text against all that are kept, in their order."""
    kept: list[int] = []
    for place, said in enumerate(ranked):
        at = next((at for at in range(len(kept)) if same(ranked[kept[at]], said)), None)
        if at is None:
            kept.append(place)
        elif said.fact and not ranked[kept[at]].fact:
            kept[at] = place
    return kept


_LONG_WORDS = LONG.split()
_swaps = st.lists(st.tuples(st.integers(0, len(_LONG_WORDS) - 1), st.sampled_from(["fog", "Fog", "no", "7", ""])))
_alike = _swaps.map(lambda swaps: " ".join(dict(swaps[:4]).get(place, word) for place, word in enumerate(_LONG_WORDS)))
_said = st.builds(
    Said,
    st.one_of(
        _alike, st.sampled_from(["Tea, please.", "tea please", "I like tea", "i like tea!", "?", "", "👍", "👎"])
    ),
    st.sampled_from(["a", "b", "c"]),
    st.booleans(),
)


@given(st.lists(_said, max_size=14), st.data())
def test_survivors_are_those_of_comparing_every_pair(ranked: list[Said], data: st.DataObject) -> None:
    assert survivors(ranked) == by_every_pair(ranked)
    comparison = Comparison()
    comparison.survivors(ranked[: data.draw(st.integers(0, len(ranked)))])
    again = data.draw(st.permutations(ranked))
    assert comparison.survivors(again) == by_every_pair(again)


def test_long_texts_that_have_little_in_common_are_not_compared() -> None:
    texts = [passage(" ".join(f"w{place}x{chr(97 + at % 26)}" for at in range(200))) for place in range(300)]
    comparison = Comparison()
    assert comparison.survivors([*texts, *texts]) == list(range(300))
    assert comparison.compared == 0


def test_texts_that_are_all_somewhat_alike_are_compared_with_a_few_each() -> None:
    common = [f"common{chr(97 + at // 26)}{chr(97 + at % 26)}" for at in range(120)]
    own = [
        [f"own{chr(97 + place // 26)}{chr(97 + place % 26)}{chr(97 + at)}" for at in range(20)] for place in range(200)
    ]
    comparison = Comparison()
    assert len(comparison.survivors([passage(" ".join([*common, *words])) for words in own])) == 200
    assert 0 < comparison.compared <= 200 * MOST_COMPARED


def test_of_very_long_texts_only_equal_ones_are_the_same() -> None:
    text = f"{LONG} " * (LONGEST_CHARS // len(LONG) + 1)
    assert not same(passage(text), passage(text + "fog"))
    assert same(passage(text), passage(text.replace("The", "the")))
