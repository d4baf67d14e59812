"""What tells two things apart decides what was meant, however near their texts are."""

from __future__ import annotations

import pytest
import snowballstemmer  # pyright: ignore[reportMissingTypeStubs]
from hypothesis import given
from hypothesis import strategies as st

from keeps.core.meant import Difference, Said, differs, rivals

STEM = snowballstemmer.stemmer("english").stemWord


def said(text: str, *known: str) -> Said:
    return Said.of(text, STEM, known)


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ("The spare key hangs behind the oven", "the spare keys hang behind the oven"),
        ("the spare key is behind the oven", "The spare key hangs behind the oven"),
        ("My favourite drink is oolong tea", "I like oolong tea"),
        ("I live in Lisbon", "We live in Lisbon these days."),
        ("allergic to peanuts", "Mara is allergic to peanuts."),
        ("Mara is a pilot", "Mara's role is pilot."),
        ("forget that Tom has two cats", "Tom has 2 cats"),
        ("the meeting with Ines is at 10", "The meeting with Ines is at 10 in room 4"),
    ],
)
def test_the_same_said_in_other_words_can_be_meant(asked: str, text: str) -> None:
    assert differs(said(asked), said(text)) is None


@pytest.mark.parametrize(
    ("asked", "text", "why"),
    [
        ("meet me at 10", "meet me at 11", Difference.NUMBER),
        ("I have two cats", "I have three cats", Difference.NUMBER),
        ("I have one cat", "I have three cats", Difference.NUMBER),
        ("call at 10", "call me", Difference.NUMBER),
        ("we live in Lisbon", "We live in Porto", Difference.NAME),
        ("the key of Mara", "the key", Difference.NAME),
        ("Amara gave Boris a book", "Boris gave Amara a book", Difference.ORDER),
        ("from 3 to 5", "from 5 to 3", Difference.ORDER),
        ("I am allergic to peanuts", "I am not allergic to peanuts", Difference.NEGATION),
        ("she doesn't eat fish", "she eats fish", Difference.NEGATION),
        ("call before lunch", "call after lunch", Difference.DIRECTION),
        ("his car is red", "her car is red", Difference.PERSON),
        ("I like tea", "he likes tea", Difference.PERSON),
        ("Amara keeps a key under the amber heron", "Amara keeps a key under the wooden heron", Difference.WORD),
        ("Amara collects postcards", "Bela collects postcards", Difference.WORD),
    ],
)
def test_what_differs_in_what_tells_things_apart_is_not_meant(asked: str, text: str, why: Difference) -> None:
    assert differs(said(asked), said(text)) is why


def test_known_names_count_however_they_are_written() -> None:
    assert differs(said("mara has a boat", "mara"), said("somebody has a boat", "mara")) is Difference.NAME
    assert differs(said("mara has a boat", "mara"), said("Mara has a boat", "mara")) is None


def test_rows_that_name_others_than_was_said_are_rivals() -> None:
    rows = [said("Mara is allergic to peanuts."), said("Tom is allergic to peanuts."), said("allergic to peanuts")]
    assert rivals(rows) == {0, 1}
    assert rivals(rows[1:]) == frozenset()


WORDS = st.sampled_from("Mara Tom Lisbon 7 twelve tea boats not before likes the of key oven".split())


@given(st.lists(WORDS, min_size=1, max_size=8))
def test_a_text_is_always_what_it_says_itself(words: list[str]) -> None:
    assert differs(said(" ".join(words)), said(" ".join(words))) is None


@given(st.lists(WORDS, min_size=1, max_size=8), st.integers(0, 7), st.sampled_from(["99", "Zadar"]))
def test_a_number_or_name_that_was_added_to_the_words_must_be_there(words: list[str], place: int, other: str) -> None:
    asked = [*words[:place], "so", other, *words[place:]]
    assert differs(said(" ".join(["said", *asked])), said(" ".join(words))) in {Difference.NUMBER, Difference.NAME}


@given(st.text(max_size=80), st.text(max_size=80))
def test_any_text_gives_an_answer(asked: str, text: str) -> None:
    assert differs(said(asked), said(text)) in {None, *Difference}
