"""Who did what in a context, and whether the list is whole."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from keeps.core.audit import Sealed
from keeps.wire.base import WireOut
from keeps.wire.late import Late
from keeps.wire.pages import PageMeta, PageQuery

if TYPE_CHECKING:
    from keeps.services import audit
    from keeps.services.audit import Filters
    from keeps.services.audit_chain import Verdict
else:
    audit = Late("keeps.services.audit")


class AuditQuery(PageQuery):
    """`action`: this one, or all that begin with it and a dot."""

    action: str | None = None
    target: str | None = None
    actor: str | None = None

    def to_core(self) -> Filters:
        """Which rows."""
        return audit.Filters(action=self.action, target=self.target, actor=self.actor)


class AuditRow(WireOut):
    """One thing that was done or refused. `before`, `after`: of settings alone."""

    seq: int
    at: datetime
    actor: str
    action: str
    target: str
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    request: str | None = None
    prev: str
    mac: str

    @classmethod
    def of(cls, row: Sealed) -> Self:
        entry = row.entry
        return cls(
            seq=row.seq,
            at=row.at,
            actor=entry.actor,
            action=entry.action,
            target=entry.target,
            before=None if entry.before is None else dict(entry.before),
            after=None if entry.after is None else dict(entry.after),
            request=entry.request,
            prev=row.prev,
            mac=row.mac,
        )


class AuditOut(WireOut):
    entries: list[AuditRow]
    page: PageMeta


class AuditVerdictOut(WireOut):
    """Whether the audit is whole. `flaw`: `changed`, `missing` or `tail_missing`; `first_bad`: the first number that is
    wrong, or missing. `rows`: how many before it are sound. `under_older_key`: sealed with a key that is lost."""

    ok: bool
    rows: int
    flaw: str | None = None
    first_bad: int | None = None
    under_older_key: int = 0

    @classmethod
    def of(cls, verdict: Verdict) -> Self:
        return cls(
            ok=verdict.ok,
            rows=verdict.rows,
            flaw=None if verdict.flaw is None else verdict.flaw.value,
            first_bad=verdict.first_bad,
            under_older_key=verdict.under_older_key,
        )
