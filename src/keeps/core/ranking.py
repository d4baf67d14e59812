"""The arithmetic of finding by words: how rare a word is, what an occurrence is worth, how much was found."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

# The four numbers below were fitted together by recall@10 and reciprocal rank on the open halves of two sets
# of long conversations between people (LoCoMo 784 questions, REALTALK 332), with a third of assistant chats
# (BEAM, 179) to decide between equals. The optimum is flat: a third more or less of any number moves the first
# two by about .01.

SATURATION: Final = 0.75
"""How fast further occurrences of a word stop counting (BM25's k1)."""

LENGTH_NORM: Final = 0.5
"""How much a long text is held against it, 0..1 (BM25's b)."""

TYPICAL_WORDS: Final = 20.0
"""The length, in words that carry meaning, that is neither long nor short.

A fixed length instead of the mean of the texts at hand: among long answers of an assistant the mean would
make every answer look normal (recall .36 against .48), and a score would move with each text that is added.
"""

BEFORE_WEIGHT: Final = 0.3
"""What an occurrence in the previous turn counts, against 1 in the turn itself."""

SPEAKER_WEIGHT: Final = 2.0
"""What is added, times its rarity, when a word of the question names who said a text.

"What did Mara paint?" asks for what Mara said more than for what was said to her. LoCoMo's recall@10 and reciprocal
rank of words and meaning together: .693/.513 without, .703/.526 at 1, .707/.527 at 2, .707/.531 at 3.
"""

MOST_SPEAKER_RARITY: Final = 1.0
"""A name that few texts begin with is no rarer than this: it may be a heading ("Tickets: …") and nobody's name."""

MAX_QUESTION_TERMS: Final = 64
"""A longer question is searched by its rarest terms."""


def rarity(holding: int, total: int) -> float:
    """The weight of a term that `holding` of `total` texts hold: > 0, the rarer the larger."""
    return math.log1p((total - holding + 0.5) / (holding + 0.5))


def spoken(saying: int, total: int) -> float:
    """What the rank gains when the question names who said a text, as `saying` of `total` texts are: > 0."""
    return SPEAKER_WEIGHT * min(rarity(saying, total), MOST_SPEAKER_RARITY)


def occurrences(own: float, before: float) -> float:
    """How often a term counts as present: in the text itself and in the one before it."""
    return own + BEFORE_WEIGHT * before


def hurdle(length: float) -> float:
    """What the occurrences of a term are set against in a text of `length`: > 0, rising with length.

    `length`: number of words that carry meaning, those of the text before at `BEFORE_WEIGHT`.
    """
    return SATURATION * (1.0 - LENGTH_NORM + LENGTH_NORM * length / TYPICAL_WORDS)


def worth(count: float, length: float) -> float:
    """What `count` occurrences add for each unit of rarity: 0..1, less in a long text."""
    return count / (count + hurdle(length)) if count > 0.0 else 0.0


def share(found: Iterable[tuple[float, float]]) -> float:
    """The part of a question that was found, 0..1.

    `found` has for each of its terms the rarity and the presence: 1 in the text itself, `BEFORE_WEIGHT` when
    only in the one before, 0 when absent.
    """
    have = 0.0
    asked = 0.0
    for weight, presence in found:
        asked += weight
        have += weight * presence
    return min(1.0, have / asked) if asked > 0.0 else 0.0
