"""Kinds of memory: how long a text of each may be, how long it lives, and what may never be kept unasked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,31}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of memory.

    `max_chars`: the longest text, code points. `life_days`: how long it stays in use unless somebody says otherwise;
    None is for good. `always_asks`: no policy keeps it without a person. `prompted`: may stand in a prompt.
    `fades`: counts less the older it is.
    """

    name: str
    max_chars: int
    life_days: int | None = None
    always_asks: bool = False
    prompted: bool = True
    fades: bool = False


KINDS: Final[Mapping[str, Kind]] = {
    kind.name: kind
    for kind in (
        Kind(name="preference", max_chars=300),
        Kind(name="note", max_chars=2000),
        Kind(name="topic", max_chars=120, life_days=180, fades=True),
        Kind(name="insight", max_chars=500, life_days=365, always_asks=True),
        Kind(name="fact", max_chars=500),
        Kind(name="goal", max_chars=300, fades=True),
        Kind(name="event", max_chars=300, life_days=90, fades=True),
        Kind(name="instruction", max_chars=200, always_asks=True),
        Kind(name="uncertainty", max_chars=200, life_days=30, prompted=False),
    )
}
"""The kinds every context has."""

GOAL_GRACE_DAYS: Final = 30
"""A goal with a date stays in use this many days after it."""

INSTRUCTION: Final = "instruction"
NOTE: Final = "note"
NOT_FOLLOWED: Final = "not_followed"
"""The flag of a note that was given as an instruction and asks for more than how to answer."""


def is_name(name: str) -> bool:
    """True for what a kind may be called."""
    return _NAME.fullmatch(name) is not None
