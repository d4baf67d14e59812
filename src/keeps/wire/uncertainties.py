"""Doubts on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Self

from keeps.core.entities import parse_ref
from keeps.core.pages import PageRequest
from keeps.core.uncertainties import Uncertainty
from keeps.wire.base import WireOut
from keeps.wire.late import Late
from keeps.wire.pages import PageMeta, PageQuery

if TYPE_CHECKING:
    from keeps.services import facts
    from keeps.services.facts import ListUncertainties
else:
    facts = Late("keeps.services.facts")


class UncertaintiesQuery(PageQuery):
    entity: str | None = None
    resolved: bool | None = None

    def to_core(self, page: PageRequest) -> ListUncertainties:
        """The list this asks for. Raises: Invalid for a bad reference."""
        entity = None if self.entity is None else parse_ref(self.entity)
        return facts.ListUncertainties(entity=entity, resolved=self.resolved, page=page)


class UncertaintyOut(WireOut):
    """One doubt. `resolvable` says whether this caller may settle it."""

    id: str
    about: str
    reason: str
    resolved: bool
    resolvable: bool
    scope: list[list[str]]
    labels: tuple[str, ...]
    created_at: datetime
    entity: str | None = None
    key: str | None = None
    resolved_at: datetime | None = None

    @classmethod
    def of(cls, doubt: Uncertainty, *, resolvable: bool) -> Self:
        return cls(
            id=doubt.id,
            about=doubt.about,
            reason=doubt.reason,
            resolved=doubt.resolved,
            resolvable=resolvable,
            scope=doubt.scope.to_wire(),
            labels=doubt.labels,
            created_at=doubt.created_at,
            entity=doubt.entity.wire if doubt.entity else None,
            key=doubt.key,
            resolved_at=doubt.resolved_at,
        )


class UncertaintiesOut(WireOut):
    unknowns: list[UncertaintyOut]
    page: PageMeta
