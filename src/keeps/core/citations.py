"""What an answer says it relied on, held against what its run was really given."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from keeps.core.facts import Origin

MOST_CITES: Final = 20
"""Cites of one answer that are kept, at most; further ones are dropped like any other."""

NOT_OFFERED: Final = "not_offered"
"""The one reason for which a cite is dropped: a reader cannot tell an id that never was from one of somebody else."""

MOST_BAD_CHARS: Final = 64

SHOWN_AS: Final[Mapping[Origin, str]] = {
    Origin.USER_SAVED: "You saved this",
    Origin.USER_CONFIRMED: "You confirmed this",
    Origin.ADMIN_SET: "Set by your organisation",
    Origin.DOCUMENT: "From a document",
    Origin.APP_WRITTEN: "Recorded by the app",
    Origin.AUTO_ACCEPTED: "Kept automatically by a rule",
    Origin.AGENT_INFERRED: "The assistant suggested this",
    Origin.DERIVED: "Worked out from other memories",
    Origin.IMPORTED: "Imported, not confirmed",
}
"""What a person reads about who stands behind a memory of theirs."""

PASSAGE_SHOWN_AS: Final = "From an earlier conversation"

_SAFE: Final = re.compile(rf"[A-Za-z0-9_:/-]{{1,{MOST_BAD_CHARS}}}")


@dataclass(frozen=True, slots=True)
class Verified:
    """`kept`: cites of what was offered, each once, in their order. `dropped`: the others, as they were sent, all for
    the reason `not_offered`. `uncited`: there were cites, and none of them is kept.
    """

    kept: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    uncited: bool = False


def verify_cites(cites: Sequence[str], offered: Collection[str], live: Collection[str] | None = None) -> Verified:
    """The cites that stand: equal, letter by letter, to an id in `offered`, and still in `live`; 20 at most.

    `offered`: the ids that the run was given. `live`: those of them that can be read now; None: all of them can.
    What is not a string, is padded or spelled otherwise is dropped; what comes twice counts once.
    """
    kept: dict[str, None] = {}
    dropped: list[str] = []
    given = frozenset(offered)
    there = given if live is None else given.intersection(live)
    for cite in cites:
        if type(cite) is str and cite in kept:
            continue
        if type(cite) is str and cite in there and len(kept) < MOST_CITES:
            kept[cite] = None
        else:
            dropped.append(str(cite))
    return Verified(tuple(kept), tuple(dropped), bool(dropped) and not kept)


def safe_part(cite: str) -> str:
    """What may be noted of a cite that was dropped: its first stretch of plain characters, 64 at most; may be empty.

    A sentence that stands where an id should leaves one word at most.
    """
    found = _SAFE.search(cite)
    return found.group() if found else ""


def refreshed(importance: float, *, first: float) -> float:
    """The importance of a memory that a good answer relied on, 0..1: what it was at first, and never more."""
    return first if importance < first else importance
