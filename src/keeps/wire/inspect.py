"""Looking at one thing by its reference."""

from __future__ import annotations

from typing import Any

from keeps.wire.base import WireOut
from keeps.wire.entities import EntityDetail, Truncated
from keeps.wire.query import Temporal
from keeps.wire.rows import AttributeDetail, RelationDetail
from keeps.wire.sessions import SessionOut, TurnOut


class InspectQuery(Temporal):
    """`ref` names a thing: `entity:person/mara`, `attribute:person/mara/role`, `turn:<id>` …"""

    ref: str


class InspectOut(WireOut):
    """What `kind` says; only the members of that kind are there."""

    kind: str
    entity: EntityDetail | None = None
    attributes: list[AttributeDetail] | None = None
    relations: list[RelationDetail] | None = None
    matches: list[RelationDetail] | None = None
    current: AttributeDetail | None = None
    history: list[AttributeDetail] | None = None
    session: SessionOut | None = None
    turn: TurnOut | None = None
    uncertainty: dict[str, Any] | None = None
    trace: dict[str, Any] | None = None
    truncated: Truncated | bool | None = None
