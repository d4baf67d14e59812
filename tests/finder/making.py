"""What the tests of the finder put into it."""

from collections.abc import AsyncIterator

import numpy as np

from keeps.core.spaces import Space
from keeps.finder.base import Entry, Kind, Name, Stored

SMALL = Space("small", 8)
WIDE = Space("wide", 70)


def turn(
    number: int | str,
    text: str,
    *,
    scope_set: str = "s1",
    before: str = "",
    window_of: str | None = None,
    labels: frozenset[str] = frozenset(),
    live: bool = True,
    kind: Kind = "passage",
    at: int = 0,
    meaning: str | None = None,
    assistant: bool = False,
) -> Entry:
    ref = f"turn:{number}"
    return Entry(
        ref=ref,
        unit=ref,
        kind=kind,
        scope_set=scope_set,
        text=text,
        before=before,
        window_of=window_of,
        labels=labels,
        live=live,
        at=at,
        meaning=meaning,
        assistant=assistant,
    )


async def stream(*entries: Entry | Name | Stored) -> AsyncIterator[Entry | Name | Stored]:
    for entry in entries:
        yield entry


def unit(values: object) -> np.ndarray:
    """A vector of length 1."""
    vector = np.asarray(values, np.float64)
    return vector / np.linalg.norm(vector)


def drawn(seed: int, space: Space = SMALL) -> np.ndarray:
    """Some vector of a space, of length 1: equal seeds give equal ones."""
    return unit(np.random.default_rng(seed).standard_normal(space.dims))


def stored(vector: np.ndarray) -> bytes:
    """A vector as the finder takes it."""
    return vector.astype("<f2").tobytes()


def asked(vector: np.ndarray) -> bytes:
    """A question as the finder takes it."""
    return vector.astype("<f4").tobytes()
