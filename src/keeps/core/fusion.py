"""The order of what several legs found, and one absolute score: how likely a candidate answers the question."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

SMALL_POOL: Final = 20
"""Below this many candidates there is no telling what is usual: the absolute score alone orders them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """What the legs say of one candidate.

    `text`: rank by words, > 0, 0 when the leg did not find it; `share`: how much of the question it holds, 0..1;
    `cosine`: nearness of meaning, None without a vector; `graph`: nearness to what the question names, 0..1;
    `direct`: it is the value of a key that the question asks for; `assistant`: an assistant said it.
    `sparse`: place of a further leg.
    """

    text: float = 0.0
    share: float = 0.0
    cosine: float | None = None
    graph: float = 0.0
    sparse: float = 0.0
    direct: bool = False
    assistant: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Fused:
    """One candidate in the order of the whole. `order`: comparable within one answer only; `score`: 0..1, absolute.

    `weights`: what each leg weighed in this answer."""

    ref: str
    order: float
    score: float
    weights: Mapping[str, float] = field(default_factory=dict[str, float])


def fuse(candidates: Mapping[str, Signals]) -> Sequence[Fused]:
    """The candidates, best first."""
    z = {
        "text": _standard({ref: s.text for ref, s in candidates.items()}),
        "vector": _standard({ref: s.cosine or 0.0 for ref, s in candidates.items()}),
    }
    fused = [
        Fused(ref=ref, order=sum(leg[ref] for leg in z.values()), score=max(s.share, s.cosine or 0.0))
        for ref, s in candidates.items()
    ]
    return sorted(fused, key=lambda f: (-f.order, f.ref))


def _standard(values: Mapping[str, float]) -> dict[str, float]:
    if not values:
        return {}
    mean = math.fsum(values.values()) / len(values)
    spread = math.sqrt(math.fsum((v - mean) ** 2 for v in values.values()) / len(values)) or 1.0
    return {ref: (value - mean) / spread for ref, value in values.items()}
