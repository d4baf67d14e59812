"""Which of several texts say the same: so that an answer holds each thing once.

Two texts that differ in a number, in a capitalised name or in a negation are never the same, however alike they
are otherwise. Case, accents, spacing and the marks that structure a sentence do not count.
"""

from __future__ import annotations

import math
import re
import unicodedata
from bisect import insort
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from keeps.core import words
from keeps.core.text import spans

LONG_WORDS: Final = 30
"""From this many words that carry meaning two texts may be the same without being equal."""

ALIKE: Final = 0.9
"""The share of shingles two long texts must have in common, 0..1."""

LONGEST_CHARS: Final = 8_000
"""Longer texts say the same only when they are equal: that two of them are alike says little, since a whole sentence
that only one of them holds is less than a tenth of it, and to find it out costs more than to show both."""

MOST_COMPARED: Final = 32
"""How many texts, those that share most with it, a long text is compared with. One that is like so many others and the
same as none of them stays."""

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
    def _runs(self) -> Sequence[tuple[str, bool]]:
        return words.name_runs(self.text)

    @cached_property
    def names(self) -> frozenset[str]:
        """The words written with a capital, folded."""
        return frozenset(word for word, capital in self._runs if capital and word not in words.STOP_WORDS)

    @cached_property
    def telling(self) -> tuple[str, ...]:
        """The words that carry meaning, in order."""
        return tuple(word for word, _ in self._runs if word not in words.STOP_WORDS)

    @cached_property
    def long(self) -> bool:
        """True when it need not be equal to another text to say the same."""
        if not _LONG_CHARS <= len(self.text) <= LONGEST_CHARS or not (
            words.has_unspaced(self.text) or self._has_words(LONG_WORDS)
        ):
            return False
        return len(self.telling) >= LONG_WORDS

    def _has_words(self, count: int) -> bool:
        return len(_WORD.findall(self.text)) >= count

    @cached_property
    def turns(self) -> tuple[str, ...]:
        """The words that turn or count what is said, in order."""
        return tuple(
            word
            for word, _ in self._runs
            if word in _NEGATIONS or word in _NUMBER_WORDS or (word.endswith("nt") and word in words.STOP_WORDS)
        )

    @cached_property
    def folded(self) -> tuple[object, ...]:
        """Equal for texts that say the same whatever their length."""
        # Letters and digits alone could vanish in folding: nothing equals nothing only when the texts do.
        return self.figures, self.plain or (self.text,)

    @cached_property
    def substance(self) -> tuple[object, ...]:
        """What two long texts must have in common to the letter."""
        return self.figures, self.names, self.turns

    @cached_property
    def prefix(self) -> Sequence[tuple[str, ...]]:
        """The first of the shingles in an order that all texts share: two texts that are alike have one in common.

        Of n shingles at least `ALIKE` * n stand in the other text too, so not all of the others and one more are
        foreign to it.
        """
        ordered = sorted(self.shingles)
        return ordered[: len(ordered) - math.floor(ALIKE * len(ordered)) + 1]

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
        return one.folded == other.folded
    return _alike(one, other)


def survivors(ranked: Sequence[Said]) -> list[int]:
    """Which of the texts, best first, to keep, as places in `ranked`, in the order they are to stand in.

    Of those that say the same the best stays; a fact takes the place of a passage that says the same.
    """
    return Comparison().survivors(ranked)


class Comparison:
    """Tells which texts say the same, and remembers it: those it has seen before cost little to rank again.

    `compared`: how many pairs of long texts it has looked at.
    """

    def __init__(self) -> None:
        self._known: dict[Said, Said] = {}
        self._alike: dict[tuple[int, int], bool] = {}
        self.compared = 0

    def survivors(self, ranked: Sequence[Said]) -> list[int]:
        """Which of the texts, best first, to keep: as `survivors`."""
        kept: list[int] = []
        texts: list[Said] = []  # what is kept, each the one object that stands for all that are equal to it
        seen: dict[Said, tuple[int, Said]] = {}  # where an equal text was kept or found to be said already, and by what
        index = _Index()
        for place, given in enumerate(ranked):
            said = self._known.setdefault(given, given)
            last = seen.get(said)
            if last is not None and texts[last[0]] is last[1]:
                continue
            at = next((at for at in index.near(said) if self._same(texts[at], said)), None)
            if at is None:
                at = len(kept)
                kept.append(place)
                texts.append(said)
                index.add(said, at)
            elif said.fact and not texts[at].fact:
                index.remove(texts[at], at)
                index.add(said, at)
                kept[at], texts[at] = place, said
            seen[said] = at, texts[at]
        return kept

    def _same(self, one: Said, other: Said) -> bool:
        if one.plain == other.plain or not _comparable(one, other):
            return same(one, other)
        pair = id(one), id(other)
        alike = self._alike.get(pair)
        if alike is None:
            self.compared += 1
            alike = self._alike[pair] = same(one, other)
        return alike


class _Index:
    """Finds those of the kept texts, by their places, that can say the same as another."""

    def __init__(self) -> None:
        self._equal: dict[object, list[int]] = {}
        self._long: dict[object, dict[object, list[int]]] = {}

    def add(self, said: Said, at: int) -> None:
        """Note a text that is kept at `at`."""
        for places in self._lists(said):
            insort(places, at)

    def remove(self, said: Said, at: int) -> None:
        """Forget a text that was kept at `at`."""
        for places in self._lists(said):
            places.remove(at)

    def near(self, said: Said) -> list[int]:
        """Places of the texts to compare with, in their order."""
        folded = said.folded
        which: list[object] = [(folded, said.voice)]
        if not said.personal:
            which.append(folded if said.fact else (folded, True))
        # Of those that fold alike and may be compared the first will do: they say the same.
        found = {places[0] for one in which if (places := self._equal.get(one))}
        if said.long:
            holding = self._long.get(said.substance, {})
            shared = Counter(at for shingle in said.prefix for at in holding.get(shingle, ()))
            found.update(at for at, _ in shared.most_common(MOST_COMPARED))
        return sorted(found)

    def _lists(self, said: Said) -> Iterator[list[int]]:
        folded = said.folded
        yield self._equal.setdefault(folded, [])
        yield self._equal.setdefault((folded, said.voice), [])
        if said.fact:
            yield self._equal.setdefault((folded, True), [])
        if said.long:
            holding = self._long.setdefault(said.substance, {})
            for shingle in said.prefix:
                yield holding.setdefault(shingle, [])


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
