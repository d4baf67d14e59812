"""Which of several texts say the same: so that an answer holds each thing once.

Two texts that differ in a number, in a capitalised name or in a negation are never the same, however alike they
are otherwise. Case, accents, spacing and the marks that structure a sentence do not count.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from keeps.core import words
from keeps.core.text import spans

LONG_WORDS: Final = 30
"""From this many words that carry meaning two texts may be the same without being equal."""

ALIKE: Final = 0.9
"""The share of shingles two long texts must have in common, 0..1."""

_SHINGLE: Final = 3
_WORD: Final = re.compile(r"\w+")
_LONG_CHARS: Final = 3 * LONG_WORDS

# What structures a sentence. All other signs carry meaning: `C#` and `C`, `50%` and `50`, a question and a statement.
_KEPT: Final = frozenset("?%&@#*/\\؟？％＆＠＃＊／＼")
_STRUCTURE: Final = re.compile(
    r"(?:[\s!\"'(),\-:;\[\]_{}"
    + spans(lambda char: unicodedata.category(char)[0] in "PZ" and char not in _KEPT)
    + spans(lambda char: unicodedata.category(char) == "Cf")
    + r"]|(?<=\w)\.|\.(?!\w))+"  # the dot of `.net` is part of a name
)
_NUMBER: Final = re.compile(r"[-+\u2212]?(?:\d+(?:[.,:/\u2019'\u066b\u066c\-]\d+)*)")
_NUMBER_WORDS: Final = frozenset(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    " eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million billion once"
    " twice half first second third fourth fifth sixth seventh eighth ninth tenth both neither".split()
)
_NEGATIONS: Final = frozenset("no not never none nobody nothing nowhere neither nor without cannot hardly".split())
_FIRST_PERSON: Final = frozenset("i me my mine myself im ive we us our ours ourselves".split())


@dataclass(frozen=True)
class Said:
    """A text and whose words it is. `voice`: who said it, or whom a fact is about; `fact`: remembered, not history."""

    text: str
    voice: str
    fact: bool = False

    @cached_property
    def plain(self) -> str:
        """The words and meaningful signs in order, folded."""
        return _STRUCTURE.sub(" ", words.fold(self.text)).strip()

    @cached_property
    def figures(self) -> tuple[str, ...]:
        """The numbers in order, as they are written."""
        return tuple(_NUMBER.findall(self.text))

    @cached_property
    def personal(self) -> bool:
        """True when the text speaks of its speaker, so that in another mouth it means something else."""
        return not _FIRST_PERSON.isdisjoint(self.plain.split())

    @cached_property
    def names(self) -> frozenset[str]:
        """The words written with a capital, folded."""
        runs = zip(words.name_words(self.text), words.capitalised_words(self.text), strict=True)
        return frozenset(word for word, capital in runs if capital and word not in words.STOP_WORDS)

    @cached_property
    def telling(self) -> tuple[str, ...]:
        """The words that carry meaning, in order."""
        return tuple(word for word in words.name_words(self.text) if word not in words.STOP_WORDS)

    @cached_property
    def long(self) -> bool:
        """True when it need not be equal to another text to say the same."""
        if len(self.text) < _LONG_CHARS or not (words.has_unspaced(self.text) or self._has_words(LONG_WORDS)):
            return False
        return len(self.telling) >= LONG_WORDS

    def _has_words(self, count: int) -> bool:
        return len(_WORD.findall(self.text)) >= count

    @cached_property
    def turns(self) -> tuple[str, ...]:
        """The words that turn or count what is said, in order."""
        return tuple(
            word
            for word in words.name_words(self.text)
            if word in _NEGATIONS or word in _NUMBER_WORDS or (word.endswith("nt") and word in words.STOP_WORDS)
        )

    @cached_property
    def shingles(self) -> frozenset[tuple[str, ...]]:
        """Every run of a few neighbouring words that carry meaning."""
        telling = self.telling
        return frozenset(zip(*(telling[start:] for start in range(_SHINGLE)), strict=False))


def same(one: Said, other: Said) -> bool:
    """True when both say the same and one of them is enough."""
    if not _comparable(one, other):
        return False
    if one.figures != other.figures:
        return False
    if one.plain == other.plain:
        # Letters and digits alone could vanish in folding: nothing equals nothing only when the texts do.
        return bool(one.plain) or one.text == other.text
    return _alike(one, other)


def survivors(ranked: Sequence[Said]) -> list[int]:
    """Which of the texts, best first, to keep, as places in `ranked`, in the order they are to stand in.

    Of those that say the same the best stays; a fact takes the place of a passage that says the same.
    """
    kept: list[int] = []
    # Only these can say the same as a text: those that fold alike, and for a long text other long ones.
    folded: dict[str, list[int]] = {}
    long: dict[tuple[str, ...], list[int]] = {}
    for place, said in enumerate(ranked):
        alike = folded.setdefault(said.plain, [])
        longer = long.setdefault(said.figures, []) if said.long else []
        among = sorted({*alike, *longer}) if longer else alike
        at = next((at for at in among if same(ranked[kept[at]], said)), None)
        if at is None:
            alike.append(len(kept))
            if said.long:
                longer.append(len(kept))
            kept.append(place)
        elif said.fact and not ranked[kept[at]].fact:
            kept[at] = place
    return kept


def _comparable(one: Said, other: Said) -> bool:
    """Passages of two speakers both stay; so does what somebody says of themselves beside a fact about another."""
    if one.voice == other.voice:
        return True
    if not one.fact and not other.fact:
        return False
    return not one.personal and not other.personal


def _alike(one: Said, other: Said) -> bool:
    if not one.long or not other.long or not ALIKE * ALIKE < len(one.text) / len(other.text) < 1 / (ALIKE * ALIKE):
        return False
    if one.names != other.names or one.turns != other.turns:
        return False
    together = len(one.shingles | other.shingles)
    return len(one.shingles & other.shingles) >= ALIKE * together
