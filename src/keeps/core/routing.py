"""What kind of question it is, told from its words: what it names, and whether it asks for everything."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from keeps.core import words

DIRECT_COVERAGE: Final = 0.75
"""Share of the question's words that entity and key must explain before the slot is the answer."""

_BROAD_WORDS: Final = """
    know known knows remember remembers remembered memory memories recall learned learnt learn tell told say said
    everything anything all about overview summary summarise summarize summaries describe description introduce
    recap profile background info information details fact facts give show list mention mentioned full complete
    brief briefly describe explain stored store saved save hold have got
"""
_ASKS_FOR_ALL: Final = (
    ("know", "about"), ("remember", "about"), ("remember", "of"), ("know", "of"), ("recall", "about"),
    ("tell", "about"), ("told", "about"), ("learned", "about"), ("learnt", "about"), ("have", "about"),
    ("everything", "about"), ("everything", "on"), ("all", "about"), ("overview", "of"), ("summary", "of"),
    ("summary", "for"), ("profile", "of"), ("facts", "about"), ("information", "about"), ("info", "about"),
    ("info", "on"), ("details", "about"), ("details", "on"), ("background", "on"), ("recap", "of"),
    ("who", "is"), ("who", "was"), ("stored", "about"), ("saved", "about"), ("said", "about"),
)  # fmt: skip
_ALONE: Final = frozenset({"summarise", "summarize", "describe", "recap", "introduce", "whos"})


def key_words(key: str, stem: words.Stem) -> frozenset[str]:
    """The words of a key or label, as questions are cut."""
    return frozenset(words.question(key.replace("_", " "), stem))


def coverage(asked: Collection[str], explained: Collection[str]) -> float:
    """The share of the words asked for that are explained, 0..1."""
    wanted = set(asked)
    return len(wanted & set(explained)) / max(1, len(wanted))


def is_broad(question: str, names: Collection[str]) -> bool:
    """True for "what do you know about X", "tell me about X", "summarise X" and their like, `names` being the names
    the question mentions: nothing may be left that narrows it."""
    said = words.name_words(question)
    named = {word for name in names for word in words.name_words(name)}
    if not named or not _asks_for_all(said):
        return False
    return all(word in named or word in words.STOP_WORDS or word in _BROAD for word in said)


def _asks_for_all(said: list[str]) -> bool:
    if not _ALONE.isdisjoint(said):
        return True
    places = {word: place for place, word in reversed(list(enumerate(said)))}
    return any(first in places and second in said[places[first] + 1 :] for first, second in _ASKS_FOR_ALL)


_BROAD: Final = frozenset(_BROAD_WORDS.split())
