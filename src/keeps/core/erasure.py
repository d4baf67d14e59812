"""Who may give up what, and which words of a text go with an erased row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias

from keeps.core.access import Region
from keeps.core.facts import Action, Fact, Relation, Row
from keeps.core.scopes import Lens, Scope, ScopePath
from keeps.core.text import fold

Clause: TypeAlias = frozenset[ScopePath]

_SHORT_CHARS: Final = 4
"""Below this length a plain value must stand alone in a text: the `5` of an age is not the `5` of 1985."""


class Gone(StrEnum):
    """How a row goes: `RETIRE` hides it for good and keeps its bytes, `PURGE` deletes it."""

    RETIRE = "retire"
    PURGE = "purge"


Fate: TypeAlias = Gone | Scope
"""What becomes of a row: it goes, or it stays for its other owners, whose scope this is."""

Presence: TypeAlias = tuple[str, str]
"""An entity as one scope set knows it: its reference and the id of the scope set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What shall become of which rows (`table:key`) and entities; `nodes` lose their display name and description."""

    rows: Mapping[str, Fate] = field(default_factory=dict[str, Fate])
    presences: Mapping[Presence, Fate] = field(default_factory=dict[Presence, Fate])
    nodes: frozenset[ScopePath] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.rows or self.presences or self.nodes)


def given_up(scope: Scope, region: Region, lens: Lens) -> frozenset[Clause]:
    """The clauses of a row that a caller may take back: those in `region`, and in the lens when there is one."""
    own = scope.visible_clauses(region)
    if not lens:
        return own
    return frozenset(clause for clause in own if lens.keeps(Scope(frozenset({clause})), region))


def fate(scope: Scope, gives_up: frozenset[Clause], gone: Gone) -> Fate | None:
    """What becomes of a row when some of its clauses are taken back; None when none is."""
    if not gives_up:
        return None
    left = scope.clauses - gives_up
    return Scope(left) if left else gone


def told_by(row: Row) -> str:
    """The words by which a row is known again in the text it came from."""
    if isinstance(row, Fact):
        return row.value
    if isinstance(row, Relation):
        return row.object.name
    if isinstance(row, Action):
        return row.object.name if row.object is not None else row.object_text or row.summary
    return row.summary


def holds(text: str, words: str) -> bool:
    """True when `words` stand in `text`, both folded. Short plain words must stand alone."""
    folded, wanted = fold(text), fold(words)
    if not wanted:
        return False
    start = folded.find(wanted)
    while start >= 0:
        if len(wanted) >= _SHORT_CHARS or _stands_alone(folded, start, start + len(wanted)):
            return True
        start = folded.find(wanted, start + 1)
    return False


def without_lines(text: str, words: Iterable[str]) -> str:
    """`text` without the lines that hold any of `words`; empty also when words span lines and so cannot be cut out."""
    wanted = list(words)
    left = "\n".join(line for line in text.split("\n") if not any(holds(line, each) for each in wanted))
    return "" if any(holds(left, each) for each in wanted) else left


def _stands_alone(text: str, start: int, end: int) -> bool:
    before = start > 0 and _joins(text[start - 1]) and _joins(text[start])
    after = end < len(text) and _joins(text[end]) and _joins(text[end - 1])
    return not before and not after


def _joins(char: str) -> bool:
    """Letters and digits of scripts that part words by spaces."""
    return char.isascii() and char.isalnum()
