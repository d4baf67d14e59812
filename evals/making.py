"""Made-up conversations: the same for the same seed, with words as unevenly frequent as in real writing.

The most frequent words are English function words, the others are made of syllables. So a question cut out of a
message has, like a real one, some words that say nothing and some that stand in a few messages only.
"""

from __future__ import annotations

import itertools
import random
from typing import Any, Final

_FUNCTION_WORDS: Final = (
    "the to and of a i it is that in you for was my on with we have be this at not so as he are they but she me if or "
    "what can just about there all out do when one your up would had from an like then been her his how get will no "
    "who more some were has them by than into only could our other their which also after us its did him very over "
    "now any because these where most too before here even back much through still down should off those why again"
).split()
_NAMES: Final = (
    "Mara Jonas Priya Tomasz Leila Anders Keiko Bruno Sanne Otieno Yusuf Ines Pavel Noor Carmen Lars".split()
)
_KEYS: Final = "home employer birthday favourite_tea blood_group shoe_size desk allergy locker pet_name".split()
_WORDS: Final = 20_000
_SYLLABLES: Final = [c + v for c in "b d f g k l m n p r s t v z br tr st pl".split() for v in "a e i o u".split()]


class Writer:
    """Writes messages, questions and facts, all from one seed."""

    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)
        made = itertools.product(_SYLLABLES, _SYLLABLES, ("n", "k", "st", "mo", "ri"))
        content = ["".join(parts) for parts in made]
        random.Random(0).shuffle(content)
        self._vocabulary = [*_FUNCTION_WORDS, *content[:_WORDS]]
        weights = (1 / (rank + 2.7) for rank in range(len(self._vocabulary)))
        self._cumulated = list(itertools.accumulate(weights))
        self._facts = 0

    def message(self) -> str:
        """6 to 30 words by a speaker."""
        words = self._random.choices(
            self._vocabulary, cum_weights=self._cumulated, k=min(30, 6 + int(self._random.expovariate(1 / 9)))
        )
        if self._random.random() < 0.2:
            words.insert(self._random.randrange(len(words)), self._random.choice(_NAMES))
        return " ".join(words).capitalize() + "."

    def messages(self, count: int) -> list[str]:
        """`count` messages."""
        return [self.message() for _ in range(count)]

    def question(self, message: str) -> str:
        """6 to 8 words that follow each other in `message`."""
        words = message.rstrip(".").split()
        length = self._random.randint(6, 8)
        start = self._random.randrange(max(1, len(words) - length + 1))
        return " ".join(words[start : start + length]) + "?"

    def triple(self) -> dict[str, Any]:
        """A fact about a person nothing was said of before, as a request writes it."""
        self._facts += 1
        return self._said_of(f"{self._random.choice(_NAMES)} {self._facts}", self._random.choice(_KEYS))

    def belief(self) -> dict[str, Any]:
        """A fact about one of the few people that messages mention, under one of very many keys."""
        return self._said_of(self._random.choice(_NAMES), self._random.choice(self._vocabulary[len(_FUNCTION_WORDS) :]))

    def _said_of(self, name: str, key: str) -> dict[str, Any]:
        value = " ".join(self.message().split()[:3])
        return {"entity": {"type": "person", "name": name}, "key": key, "value": value}
