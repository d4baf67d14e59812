"""The arithmetic of finding by words: how rare a word is, what an occurrence is worth, how much was found."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

# Fitted on the open halves of two sets of real conversations between people (LoCoMo, REALTALK).
SATURATION: Final = 1.2
"""How fast further occurrences of a word stop counting (BM25's k1)."""

LENGTH_NORM: Final = 0.75
"""How much a long text is held against it, 0..1 (BM25's b)."""

BEFORE_WEIGHT: Final = 0.3
"""What an occurrence in the previous turn counts, against 1 in the turn itself."""

MAX_QUESTION_TERMS: Final = 64
"""A longer question is searched by its rarest terms."""


def rarity(holding: int, total: int) -> float:
    """The weight of a term that `holding` of `total` texts hold: > 0, the rarer the larger."""
    return math.log1p((total - holding + 0.5) / (holding + 0.5))


def occurrences(own: float, before: float) -> float:
    """How often a term counts as present: in the text itself and in the one before it."""
    return own + BEFORE_WEIGHT * before


def worth(count: float, length: float, mean_length: float) -> float:
    """What `count` occurrences add for each unit of rarity: 0..1, less in a long text."""
    if count <= 0.0:
        return 0.0
    ratio = length / mean_length if mean_length > 0.0 else 1.0
    return count / (count + SATURATION * (1.0 - LENGTH_NORM + LENGTH_NORM * ratio))


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
