"""Whether a text can be what somebody's words mean: near words are a hint, and what tells two things apart decides.

Sentences made alike come near each other whatever name or number stands in them, and what is forgotten by mistake
does not come back. So nearness alone takes nothing: `differs` says why a text that comes near is still another one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from typing import Final

from keeps.core import words
from keeps.core.words import Stem


class Difference(StrEnum):
    """What tells a text from what was said."""

    NUMBER = "number"
    NAME = "name"
    ORDER = "order"
    NEGATION = "negation"
    DIRECTION = "direction"
    PERSON = "person"
    WORD = "word"


_NUMBER_WORDS: Final = {
    word: str(number)
    for number, together in enumerate(
        "zero one/once/first two/twice/second three/third four/fourth five/fifth six/sixth seven/seventh eight/eighth"
        " nine/ninth ten/tenth eleven/eleventh twelve/twelfth".split()
    )
    for word in together.split("/")
}
_NEGATIONS: Final = frozenset(
    "not no never none nobody nothing neither nor cannot without dont doesnt didnt isnt arent wasnt werent hasnt havent"
    " hadnt cant couldnt wont wouldnt shouldnt mustnt mightnt neednt aint stopped quit former formerly".split()
)
_OPPOSITES: Final = tuple(
    frozenset(pair.split("/"))
    for pair in (
        "before/after with/without over/under above/below up/down in/out on/off from/to more/less most/least into/onto"
        " inside/outside left/right first/last all/some always/sometimes many/few"
    ).split()
)
_PERSONS: Final = (
    frozenset("i me my mine myself we us our ours ourselves im ive".split()),
    frozenset("he him his himself hes".split()),
    frozenset("she her hers herself shes".split()),
)
_LIGHT: Final = frozenset(
    "forget remember delete remove erase fact thing memory note say said mention told know think thought feel"
    " get got go goes went gone come came make made keep kept use used want like love enjoy prefer live lived"
    " have take took give put let call called name named day days week weeks time times now today currently"
    " usually often favourite favorite really lot bit kind sort person people".split()
)
"""Words that join what is said rather than say it: whoever says a thing again puts others in their place."""

_WORD: Final = re.compile(r"\w+(?:['\u2019]\w+)*")
_SENTENCE_END: Final = re.compile(r"[.!?:;\n]\s*$")


@dataclass(frozen=True, slots=True)
class Said:
    """The words of one text, sorted by what they do in it. `order`: numbers and words with a capital, as they follow
    each other; one that begins a sentence may be a name, so it counts for the order and not as a name."""

    numbers: frozenset[str]
    names: frozenset[str]
    order: tuple[str, ...]
    plain: frozenset[str]
    content: frozenset[str]

    @classmethod
    def of(cls, text: str, stem: Stem, known: Collection[str] = ()) -> Said:
        """`known`: folded names of entities; other names are the words with a capital inside a sentence."""
        numbers: set[str] = set()
        names: set[str] = set()
        order: list[str] = []
        plain: set[str] = set()
        known_words = {word for name in known for word in words.name_words(name)}
        place = 0
        for found in _WORD.finditer(text):
            word = found.group()
            opens = not text[place : found.start()].strip() and place == 0
            opens = opens or _SENTENCE_END.search(text[: found.start()]) is not None
            place = found.end()
            for folded in words.name_words(word):
                number = _NUMBER_WORDS.get(folded, folded if any(char.isdigit() for char in folded) else None)
                if number is not None:
                    numbers.add(number)
                    order.append(number)
                elif folded in known_words or (word[0].isupper() and not opens and _tells(folded)):
                    names.add(folded)
                    order.append(folded)
                else:
                    plain.add(folded)
                    if word[0].isupper() and _tells(folded):
                        order.append(folded)
        content = {term for term in words.question(text, stem) if term not in words.STOP_WORDS and term not in _LIGHT}
        content -= {stem(word) for word in (*_LIGHT, *_NUMBER_WORDS)}
        content = {term for term in content if not any(char.isdigit() for char in term)}
        return cls(frozenset(numbers), frozenset(names), tuple(order), frozenset(plain), frozenset(content))

    @property
    def every(self) -> frozenset[str]:
        """All its words, folded."""
        return self.plain | self.names | self.numbers


def _tells(word: str) -> bool:
    """False for `I` and other words that have a capital by rule, and say nothing about whom."""
    return word not in words.STOP_WORDS and not any(word in person for person in _PERSONS)


def differs(asked: Said, text: Said) -> Difference | None:
    """Why `text` is not what `asked` means, whatever its nearness; None when it can be.

    - Every number and every name that was said stands in it; and those it shares come in the same order.
    - Both deny, or neither; it does not turn a direction round, nor speak of another person.
    - Not both hold words that the other lacks: those stand in each other's place.
    """
    if not asked.numbers <= text.numbers:
        return Difference.NUMBER
    if not asked.names <= text.every:
        return Difference.NAME
    shared = [word for word in asked.order if word in text.order]
    if shared != [word for word in text.order if word in asked.order][: len(shared)] and len(set(shared)) > 1:
        return Difference.ORDER
    if bool(asked.every & _NEGATIONS) != bool(text.every & _NEGATIONS):
        return Difference.NEGATION
    if any(_turned(pair, asked, text) for pair in _OPPOSITES):
        return Difference.DIRECTION
    persons = [{n for n, person in enumerate(_PERSONS) if said.plain & person} for said in (asked, text)]
    if persons[0] and persons[1] and not persons[0] & persons[1]:
        return Difference.PERSON
    if asked.content - text.content and text.content - asked.content:
        return Difference.WORD
    return None


def _turned(pair: frozenset[str], asked: Said, text: Said) -> bool:
    """True when each of the two holds one word of the pair, and not the same."""
    return len(pair & asked.every) == 1 and len(pair & text.every) == 1 and pair & asked.every != pair & text.every


def rivals(candidates: Sequence[Said]) -> frozenset[int]:
    """Places of those that name others than their neighbours do: the words asked with do not say which is meant."""
    torn: set[int] = set()
    for (one, first), (other, second) in combinations(enumerate(candidates), 2):
        if set(first.order) - second.every and set(second.order) - first.every:
            torn |= {one, other}
    return frozenset(torn)
