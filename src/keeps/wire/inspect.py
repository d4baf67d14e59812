"""Looking at one thing by its reference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field

from keeps.core.facts import Action, Fact, Relation, Row
from keeps.core.pages import DEFAULT_LIMIT
from keeps.wire.base import WireOut
from keeps.wire.entities import EntityDetail, EntityOut, Truncated
from keeps.wire.late import Late
from keeps.wire.pages import Limit
from keeps.wire.query import Temporal
from keeps.wire.rows import ActionDetail, AttributeDetail, RelationDetail
from keeps.wire.sessions import SessionOut, TurnOut
from keeps.wire.traces import TraceOut
from keeps.wire.uncertainties import UncertaintyOut

if TYPE_CHECKING:
    from keeps.services import inspect
    from keeps.services.inspect import Inspect, Inspected
else:
    inspect = Late("keeps.services.inspect")


class InspectQuery(Temporal):
    """`ref` names a thing: `entity:person/mara`, `attribute:person/mara/role`, `turn:<id>` …"""

    ref: Annotated[str, Field(max_length=2048)]
    limit: Limit = DEFAULT_LIMIT

    def to_core(self) -> Inspect:
        """The look this asks for."""
        return inspect.Inspect(ref=self.ref, when=self.when(), limit=self.limit)


class InspectOut(WireOut):
    """What `kind` says; only the members of that kind are there.

    `attribute`, `relation` and `action` hold the row itself when the reference was its id.
    """

    kind: str
    entity: EntityDetail | None = None
    attributes: list[AttributeDetail] | None = None
    relations: list[RelationDetail] | None = None
    current: AttributeDetail | None = None
    history: list[AttributeDetail] | None = None
    matches: list[RelationDetail] | None = None
    attribute: AttributeDetail | None = None
    relation: RelationDetail | None = None
    action: ActionDetail | None = None
    turn: TurnOut | None = None
    text: str | None = None
    session: SessionOut | None = None
    uncertainty: UncertaintyOut | None = None
    trace: TraceOut | None = None
    truncated: Truncated | bool | None = None

    @classmethod
    def of(cls, found: Inspected) -> Self:
        if found.view is not None:
            view = EntityOut.of(found.view)
            return cls(
                kind=found.kind,
                entity=view.entity,
                attributes=view.attributes,
                relations=view.relations,
                truncated=view.truncated,
            )
        if found.kind == "attribute":
            return cls(
                kind=found.kind,
                current=AttributeDetail.of(found.current) if found.current else None,
                history=[AttributeDetail.of(fact) for fact in found.history],
                truncated=found.truncated or None,
                **_row(found.row),
            )
        if found.kind == "relation":
            matches = [RelationDetail.of(relation) for relation in found.matches]
            return cls(kind=found.kind, matches=matches, truncated=found.truncated, **_row(found.row))
        doubt = found.uncertainty
        return cls(
            kind=found.kind,
            turn=TurnOut.of(found.turn) if found.turn else None,
            text=found.passage,
            session=SessionOut.of(found.session) if found.session else None,
            uncertainty=UncertaintyOut.of(doubt, resolvable=found.resolvable) if doubt else None,
            trace=TraceOut.seen(found.trace) if found.trace else None,
            **_row(found.row),
        )


def _row(row: Row | None) -> dict[str, Any]:
    if isinstance(row, Fact):
        return {"attribute": AttributeDetail.of(row)}
    if isinstance(row, Relation):
        return {"relation": RelationDetail.of(row)}
    return {"action": ActionDetail.of(row)} if isinstance(row, Action) else {}
