"""What waits for a person: a row exactly as it would be written, and why it was not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from keeps.core.facts import Row, RowId, Status

OPEN = frozenset({Status.PROPOSED, Status.QUARANTINED})
"""A proposal that somebody can still decide on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A candidate. Its id becomes the id of the row when a person says yes.

    `row`: as it would be written; None once it was rejected, expired or withdrawn, for then its text is gone.
    `names`: the entities it names, as they were written. `reason`: why it waits, one fixed word; `reasons`: the rules
    that hold it back, when it is quarantined. `conflicts_with`: the row, as `table:id`, it would replace.
    `asked`: the person asked for it in a conversation, which proves nothing. `ends_at`: when it goes by itself.
    """

    id: RowId
    row: Row | None
    status: Status
    reason: str
    proposed_by: str
    created_at: datetime
    scope_set: str
    kind: str
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    reasons: tuple[str, ...] = ()
    conflicts_with: str | None = None
    source_ref: str | None = None
    run: str | None = None
    asked: bool = False
    fingerprint: str = ""
    ends_at: datetime | None = None
    status_by: str | None = None
    status_at: datetime | None = None
    rev: int = 1

    @property
    def is_open(self) -> bool:
        """True while a decision is possible."""
        return self.status in OPEN

    def closed(self, status: Status, *, by: str | None, at: datetime, reason: str | None = None) -> Proposal:
        """The same after a decision, or when its time was over: what it said goes, what became of it stays."""
        return replace(
            self,
            row=None,
            names={},
            status=status,
            reason=reason or self.reason,
            status_by=by,
            status_at=at,
            rev=self.rev + 1,
        )
