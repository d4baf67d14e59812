"""Doubts that wait for a word: two values that do not settle each other, or a phrase nobody could date."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from keeps.core.entities import EntityRef
from keeps.core.facts import RowId
from keeps.core.scopes import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncertainty:
    """One doubt. With an entity and a key it can be settled by a value; `contenders` are the rows in doubt."""

    id: RowId
    about: str
    reason: str
    kind: str
    scope: Scope
    created_at: datetime
    entity: EntityRef | None = None
    key: str | None = None
    contenders: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    resolved: bool = False
    resolved_at: datetime | None = None
    source_ref: str | None = None

    @property
    def has_subject(self) -> bool:
        """True when it is about one key of one entity."""
        return self.entity is not None and self.key is not None
