"""What kind of question it is, told from its words."""

from __future__ import annotations

import pytest

from keeps.core.routing import coverage, is_broad, key_words


@pytest.mark.parametrize(
    "question",
    [
        "What do you know about Mara?",
        "what do you remember about mara",
        "Tell me everything about Mara",
        "Tell me about Mara, please.",
        "Summarise Mara",
        "Give me a summary of Mara",
        "Who is Mara?",
        "Describe Mara",
        "Please give me an overview of everything you know about Mara.",
    ],
)
def test_broad_questions(question: str) -> None:
    assert is_broad(question, ["mara"])
    assert not is_broad(question, [])


@pytest.mark.parametrize(
    "question",
    [
        "What do you know about Mara's dog?",
        "Who is Mara's manager?",
        "Tell me when Mara works",
        "What is Mara's role?",
        "Mara",
        "Where does Mara live?",
        "Summarise the meeting with Mara",
        "about Mara you know what",
    ],
)
def test_questions_that_narrow_are_not_broad(question: str) -> None:
    assert not is_broad(question, ["mara"])


def test_names_of_several_words_are_taken_out_whole() -> None:
    assert is_broad("What do you know about North Port?", ["north port"])
    assert not is_broad("What do you know about North Port?", ["north"])


def test_coverage_is_the_share_of_what_is_asked() -> None:
    assert coverage(["a", "b"], ["b", "c"]) == 0.5
    assert coverage([], ["a"]) == 0.0
    assert coverage(["a"], ["a"]) == 1.0


def test_keys_are_cut_as_questions_are() -> None:
    assert key_words("favourite_teas", lambda word: word.removesuffix("s")) == {"favourite", "tea"}
