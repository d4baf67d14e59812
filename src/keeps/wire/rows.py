"""Facts, relations and actions as clients see them, and where each came from."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Self

from keeps.core.facts import Action, Fact, Relation, Row, Source
from keeps.wire.base import WireOut


class SourceRef(WireOut):
    """Where a row came from; `trust` is the prior of the kind of source, 0..1."""

    kind: str
    ref: str | None = None
    session_id: str | None = None
    title: str | None = None
    trust: float | None = None

    @classmethod
    def of(cls, source: Source) -> Self:
        return cls(kind=source.kind, ref=source.ref, session_id=source.session, trust=source.trust)


class RowOut(WireOut):
    """What facts, relations and actions share. `createdAt` is when the row became known."""

    id: str
    memory_category: str
    confidence: float
    importance: float
    scope: list[list[str]]
    labels: list[str]
    created_at: datetime
    summary: str | None = None
    source: SourceRef | None = None
    occurred_at: datetime | None = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    kind: str | None = None
    status: str | None = None
    origin: str | None = None
    trust: float | None = None
    user_confirmed: bool | None = None
    metadata: dict[str, Any] | None = None


def shared(row: Row) -> Mapping[str, Any]:
    """The members of `RowOut` for `row`."""
    control = row.control
    return {
        "id": row.id,
        "memory_category": row.category.value,
        "confidence": row.confidence,
        "importance": row.importance,
        "scope": row.scope.to_wire(),
        "labels": list(row.labels),
        "created_at": row.clocks.known_at,
        "summary": row.summary,
        "source": SourceRef.of(row.source),
        "occurred_at": row.occurred_at,
        "valid_from": row.clocks.valid_from,
        "valid_until": row.clocks.valid_until,
        "kind": control.kind,
        "status": control.status.value,
        "origin": control.origin.value,
        "trust": control.trust,
        "user_confirmed": control.user_confirmed,
        "metadata": None if row.metadata is None else dict(row.metadata),
    }


class AttributeDetail(RowOut):
    """One value of one key of an entity."""

    entity: str
    key: str
    value: str
    supersedes: str | None = None
    superseded_by: str | None = None

    @classmethod
    def of(cls, fact: Fact) -> Self:
        return cls(
            **shared(fact),
            entity=fact.entity.wire,
            key=fact.key,
            value=fact.value,
            supersedes=fact.supersedes,
            superseded_by=fact.superseded_by,
        )


class RelationDetail(RowOut):
    """A labelled edge between two entities."""

    subject: str
    label: str
    object: str

    @classmethod
    def of(cls, relation: Relation) -> Self:
        return cls(
            **shared(relation),
            subject=relation.subject.wire,
            label=relation.label,
            object=relation.object.wire,
        )


class ActionDetail(RowOut):
    """Something an entity did; its object is an entity or free text, never both."""

    actor: str
    verb: str
    object: str | None = None
    object_text: str | None = None

    @classmethod
    def of(cls, action: Action) -> Self:
        return cls(
            **shared(action),
            actor=action.actor.wire,
            verb=action.verb,
            object=action.object.wire if action.object else None,
            object_text=action.object_text,
        )
