"""Which names of entities a question mentions: whole words, the longest run of words first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from keeps.core import words
from keeps.finder.base import Name

MAX_NAME_WORDS: Final = 6
_MAX_QUESTION_WORDS: Final = 256
_MAX_QUESTION_CHARS: Final = 8192
_MAX_UNSPACED_CHARS: Final = 12
_MAX_KEYS: Final = 8192
MOST_OF_A_KEY: Final = 256
"""Entities of one name that a question can mean, by the order of their ids."""
_MAX_SYMBOL_CHARS: Final = 32


def key(name: str) -> str:
    """What a name is found by: its folded words; a name without letters and digits: itself."""
    return " ".join(words.name_words(name)) or words.fold(name)


def keys(question: str) -> list[str]:
    """Every key that a name mentioned in `question` can have."""
    asked = words.name_words(question[:_MAX_QUESTION_CHARS])[:_MAX_QUESTION_WORDS]
    found: dict[str, None] = {}
    for at in range(len(asked)):
        for length in range(1, min(MAX_NAME_WORDS, len(asked) - at) + 1):
            found[" ".join(asked[at : at + length])] = None
    for word in asked:
        if words.has_unspaced(word):
            run = word[:_MAX_QUESTION_WORDS]
            for at in range(len(run)):
                for end in range(at + 2, min(at + _MAX_UNSPACED_CHARS, len(run)) + 1):
                    found[run[at:end]] = None
    found.update(dict.fromkeys(_symbols(question)))
    return list(found)[:_MAX_KEYS]


def mentioned(question: str, known: Mapping[str, Sequence[Name]]) -> list[Name]:
    """The names of `known`, by their key, that `question` mentions, from left to right.

    A name that is also a word like "will" or "an" counts only with a capital inside the question.
    """
    asked = words.name_words(question[:_MAX_QUESTION_CHARS])[:_MAX_QUESTION_WORDS]
    capital = words.capitalised_words(question[:_MAX_QUESTION_CHARS])[:_MAX_QUESTION_WORDS]
    folded = words.fold(question)
    found: dict[Name, None] = {}
    at = 0
    while at < len(asked):
        step = 1
        for length in range(min(MAX_NAME_WORDS, len(asked) - at), 0, -1):
            run = " ".join(asked[at : at + length])
            if run in words.STOP_WORDS and not (capital[at] and at > 0):
                continue
            meant = _meant(known.get(run, ()), folded)
            if meant:
                found.update(dict.fromkeys(meant))
                step = length
                break
        else:
            if words.has_unspaced(asked[at]):
                for run in _longest_inside(asked[at], known):
                    found.update(dict.fromkeys(known[run]))
        at += step
    for symbol in _symbols(question):
        found.update(dict.fromkeys(known.get(symbol, ())))
    return list(found)


def _symbols(question: str) -> list[str]:
    """The pieces between spaces that hold no letter or digit."""
    pieces = question[:_MAX_QUESTION_CHARS].split()
    return [
        words.fold(piece)
        for piece in pieces
        if len(piece) <= _MAX_SYMBOL_CHARS
        and not words.name_words(piece)
        and not any("\ud800" <= char <= "\udfff" for char in piece)
    ]


def _longest_inside(run: str, known: Mapping[str, object]) -> list[str]:
    """The keys in a run of characters without spaces, from left to right the longest first."""
    found: list[str] = []
    at = 0
    while at < len(run):
        for end in range(min(len(run), at + _MAX_UNSPACED_CHARS), at + 1, -1):
            if run[at:end] in known:
                found.append(run[at:end])
                at = end - 1
                break
        at += 1
    return found


def _meant(names: Sequence[Name], folded: str) -> list[Name]:
    """Of names with equal words those that the question means.

    A name that begins or ends with a symbol ("c++", ".net") must stand so in the question, and then comes
    before the same word without.
    """
    exact = [name for name in names if not _is_plain(name.name) and words.fold(name.name) in folded]
    return exact or [name for name in names if _is_plain(name.name)]


def _is_plain(name: str) -> bool:
    return name[:1].isalnum() and name[-1:].isalnum()
