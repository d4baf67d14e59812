"""What may move an answer a little: how far a row is trusted, how much it matters, how sure and how recent it is.

Each is bounded, so that none outweighs relevance: a factor from about .85 to 1.15, all four together from .66 to 1.5.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Final

TRUST: Final = 0.14
IMPORTANCE: Final = 0.10
CONFIDENCE: Final = 0.10
RECENCY: Final = 0.05
"""How far each may move an answer either way, as the logarithm of a factor."""

HALF_LIFE: Final = timedelta(days=180)
"""After this time half of what recency is worth is gone."""


SPREAD: Final = 2.0
"""What a whole boost is worth among sums of deviations: what is found stands 2 to 8 of these above the rest."""


def boost(*, trust: float, importance: float, confidence: float, age: timedelta) -> float:
    """The logarithm of the factor of a row. `trust`, `importance` and `confidence` are 0..1; an `age` below nought
    counts as none."""
    days = max(0.0, age / HALF_LIFE)
    return (
        TRUST * _centred(trust)
        + IMPORTANCE * _centred(importance)
        + CONFIDENCE * _centred(confidence)
        + RECENCY * _centred(0.5**days)
    )


def moved(order: float, by: float, *, absolute: bool) -> float:
    """A place in the order, moved by a boost: an absolute score is multiplied, a sum of deviations shifted by as much.

    More is never worth less, whatever the sign of `order`.
    """
    if absolute:
        return order * math.exp(by) if order >= 0.0 else order + by
    return order + SPREAD * by


def age(at: datetime, now: datetime) -> timedelta:
    """How old what became known at `at` is at the time the question is about."""
    return max(timedelta(), now - at)


def _centred(share: float) -> float:
    return 2.0 * min(1.0, max(0.0, share)) - 1.0
