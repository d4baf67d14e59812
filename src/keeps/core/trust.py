"""How much a memory weighs by who stands behind it, where it came from, and what it was made of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from keeps.core.facts import TRUST, Origin

TAINTED_SHARE: Final = 0.5
"""What text from outside leaves of the trust of something nobody confirmed."""

INFERRED_CEILING: Final = 0.60
"""What a model made of a text never weighs more until a person said yes."""

_INFERRED: Final = frozenset({Origin.AGENT_INFERRED, Origin.AUTO_ACCEPTED, Origin.DERIVED})


def trust_of(
    origin: Origin, *, taint: Iterable[str] = (), confirmed: bool = False, parents: Iterable[float] = ()
) -> float:
    """The trust of a memory, 0..1. `parents`: the trust of each memory it was made of.

    A person's word is worth what it is worth, whatever it is about. Without one, any taint halves it, what a model
    inferred stays at 0.60 or below, and what was made of others is never above the least of them.
    """
    trust = TRUST[origin]
    if confirmed:
        return trust
    if origin in _INFERRED:
        trust = min(trust, INFERRED_CEILING)
    if any(True for _ in taint):
        trust *= TAINTED_SHARE
    return min((trust, *parents))


def spread(*taints: Iterable[str]) -> frozenset[str]:
    """The taint of something made of several things: all of theirs. It only ever grows."""
    return frozenset(taint for each in taints for taint in each)
