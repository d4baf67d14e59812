"""What somebody may look at who asks nothing in particular: lists, look-ups by name or id, neighbours, counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from keeps.core.facts import Control, Row
from keeps.core.scopes import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """The scope sets one caller looks into. Where muted and tainted rows are left out stands elsewhere.

    `whole`: those in which they see every kind and sensitive matters too. `rest`: the others, each with the kinds that
    may be seen there; None for every kind. `home`: sensitive topics that the product is about, and that may be seen
    there as well.
    """

    whole: frozenset[str] = frozenset()
    rest: Mapping[str, frozenset[str] | None] = field(default_factory=dict[str, frozenset[str] | None])
    home: frozenset[str] = frozenset()

    @property
    def sets(self) -> frozenset[str]:
        """Every scope set that is looked into."""
        return self.whole | self.rest.keys()

    def shows(self, row: Row) -> bool:
        """True for a row that may be seen, as far as its scope set, its kind and what it is about go."""
        if row.scope.id in self.whole:
            return True
        return self.shows_kind(row.scope, row.control.kind) and not self.hides(row.control)

    def shows_kind(self, scope: Scope, kind: str) -> bool:
        """True when this kind of what lies in a scope may be seen."""
        if scope.id in self.whole:
            return True
        if scope.id not in self.rest:
            return False
        kinds = self.rest[scope.id]
        return kinds is None or kind in kinds

    def hides(self, control: Control) -> bool:
        """True for a sensitive matter outside of what the product is about."""
        if not control.topics:
            return control.sensitivity == "sensitive"
        return self.hides_topics(control.topics)

    def hides_topics(self, topics: frozenset[str]) -> bool:
        """True when some of these sensitive topics are not what the product is about."""
        return not topics <= self.home

    def within(self, sets: frozenset[str]) -> Sight:
        """The same over some of the scope sets."""
        return Sight(
            whole=self.whole & sets,
            rest={each: kinds for each, kinds in self.rest.items() if each in sets},
            home=self.home,
        )
