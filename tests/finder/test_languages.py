"""Languages other than English: a sentence finds itself, and one word of it finds it."""

from __future__ import annotations

import pytest

from keeps.core import words
from keeps.finder.local import LocalFinder, stemmer
from tests.finder.languages import EACH, LANGUAGES, Language
from tests.finder.making import turn

RECALL = 0.9
FEW = 12
"""A word stands in three sentences; further hits only share a piece of it."""

EVERY = [(language, *made) for language in LANGUAGES for made in language.sentences()]


@pytest.fixture
async def filled(finder: LocalFinder) -> LocalFinder:
    put = [turn(number, sentence) for number, (_, sentence, _) in enumerate(EVERY)]
    await finder.apply(1, put=put)
    return finder


def test_there_are_two_hundred_sentences() -> None:
    assert len(EVERY) == EACH * len(LANGUAGES) == 198
    assert len({sentence for _, sentence, _ in EVERY}) == len(EVERY)


async def test_every_sentence_finds_itself_first(filled: LocalFinder) -> None:
    missed = []
    for number, (_, sentence, _) in enumerate(EVERY):
        found = await filled.find(sentence, ["s1"], limit=1)
        if [hit.ref for hit in found] != [f"turn:{number}"] or found[0].share < 0.999:
            missed.append(sentence)
    assert missed == []


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.name)
async def test_one_word_finds_what_was_said(filled: LocalFinder, language: Language) -> None:
    missed = []
    for number, (spoken, sentence, word) in enumerate(EVERY):
        if spoken is language:
            found = await filled.find(word.asked, ["s1"], limit=FEW)
            if f"turn:{number}" not in {hit.ref for hit in found}:
                missed.append((word.asked, sentence))
    assert len(missed) <= (1 - RECALL) * EACH, missed


def terms(text: str) -> set[str]:
    return set(words.question(text, stemmer()))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("كتاب", "الكتاب"),
        ("كتاب", "والكتاب"),
        ("كِتَابٌ", "كتاب"),
        ("مدرسة", "مدرسه"),
        ("أحمد", "احمد"),
        ("كـتـاب", "كتاب"),
        ("किताब", "किताबें"),
        ("बाज़ार", "बाजार"),
        ("गाँव", "गांव"),
        ("Straße", "STRASSE"),
    ],
)
def test_forms_of_one_word_are_one_term(one: str, other: str) -> None:
    assert terms(one) == terms(other)


@pytest.mark.parametrize(
    ("one", "other"), [("الله", "له"), ("ولد", "لد"), ("بال", "ل"), ("Mädchen", "Made"), ("का", "की")]
)
def test_short_words_are_left_alone(one: str, other: str) -> None:
    assert terms(one) != terms(other)


def test_umlauts_are_found_by_both_spellings() -> None:
    stored = words.bag("Herr Müller wohnt hier", stemmer())
    assert {"muller", "mueller"} <= stored.counts.keys()
    assert stored.length == words.bag("Herr Muller wohnt hier", stemmer()).length
    assert terms("Müller") == {"muller", "mueller"}
    assert terms("Mueller") == {"mueller"}
