"""What a write brings to the record, and what came of it: values that pass between the steps of a write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from keeps.core.entities import EntityRef
from keeps.core.facts import Action, Category, Control, Fact, Relation, Row, RowId, Source, Status
from keeps.core.policy import Drop, Why
from keeps.core.proposals import Proposal
from keeps.core.scopes import Scope
from keeps.core.supersession import Doubt
from keeps.core.triples import Triple
from keeps.services.runtime import new_id
from keeps.store.commit import Batch
from keeps.store.db import RecordID


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """What a write says and under which conditions, before it meets the record.

    `observed`: the known time was given by the caller, so it may lie before what is there. `readable`: the scope
    sets the caller may see; whether an entity is new is told from these alone. By the place of a triple: `controls`
    of its own instead of `control`, `waits` for those that a person decides on, `ids` for those whose row is to have
    a given one, `drops` for those that are not stored at all.

    `unasked`: nobody vouches for them, so what a person rejected or forgot stays out, and what was `offered` in this
    run, as `table:id`, is not heard again. `waiting_source`: where those that wait come from, if not from `source`.
    `asked`: the person asked in a conversation that it be kept. `corrects`: by the place of a triple, the value that a
    person put it in the place of, which it closes whatever else its key holds.
    """

    triples: Sequence[Triple]
    scope: Scope
    source: Source
    control: Control
    now: datetime
    known_at: datetime
    observed: bool
    readable: frozenset[str]
    proposed_by: str
    category: Category | None = None
    labels: tuple[str, ...] = ()
    metadata: Mapping[str, Any] | None = None
    controls: Mapping[int, Control] = field(default_factory=dict[int, Control])
    waits: Mapping[int, Wait] = field(default_factory=dict[int, "Wait"])
    ids: Mapping[int, RowId] = field(default_factory=dict[int, RowId])
    drops: Mapping[int, Drop] = field(default_factory=dict[int, Drop])
    unasked: bool = False
    offered: frozenset[str] = frozenset()
    waiting_source: Source | None = None
    asked: bool = False
    corrects: Mapping[int, Fact] = field(default_factory=dict[int, Fact])


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Why a candidate waits for a person. `reasons`: the rules that hold it back, when it is quarantined."""

    why: Why
    status: Status = Status.PROPOSED
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A row that is not written: it waits. `number`: the place of its triple. `names`: its entities, as written.
    `beside`: the value it would replace; `doubt`: that the two do not settle each other."""

    number: int
    row: Row
    wait: Wait
    names: Mapping[str, str]
    beside: Fact | None = None
    doubt: Doubt | None = None


@dataclass(frozen=True, slots=True)
class Left:
    """A candidate that was not stored: the place of its triple, its kind, and why. Never what it said."""

    number: int | None
    kind: str
    why: Drop


@dataclass(frozen=True, slots=True, kw_only=True)
class EntitySeen:
    """An entity a write named, as its caller may see it."""

    ref: EntityRef
    name: str
    category: Category
    is_new: bool


@dataclass(slots=True)
class Extraction:
    """What a write came to: rows as they stand afterwards, and what was left open. `kept`: the places of the triples
    that were stored; `waiting`: rows on their way to `proposals`; `dropped`: what was not stored at all."""

    entities: list[EntitySeen] = field(default_factory=list[EntitySeen])
    facts: list[Fact] = field(default_factory=list[Fact])
    relations: list[Relation] = field(default_factory=list[Relation])
    actions: list[Action] = field(default_factory=list[Action])
    doubts: list[Doubt] = field(default_factory=list[Doubt])
    questions: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    corrections: list[tuple[Fact, Fact]] = field(default_factory=list[tuple[Fact, Fact]])
    kept: set[int] = field(default_factory=set[int])
    waiting: list[Waiting] = field(default_factory=list["Waiting"])
    proposals: list[Proposal] = field(default_factory=list[Proposal])
    dropped: list[Left] = field(default_factory=list["Left"])


@dataclass(frozen=True, slots=True)
class DoubtRow:
    """A doubt on its way to the record. `contenders`: rows, as `table:id`."""

    about: str
    reason: str
    kind: str
    subject: Fact | None
    contenders: tuple[str, ...]


def add_doubt(batch: Batch, incoming: Incoming, doubt: DoubtRow) -> None:
    """Add a doubt of a write to its batch."""
    row_id = new_id()
    batch.uncertainties.append(
        {
            "id": RecordID("uncertainty", row_id),
            "about": doubt.about,
            "reason": doubt.reason,
            "kind": doubt.kind,
            "entity": str(doubt.subject.entity) if doubt.subject else None,
            "key": doubt.subject.key if doubt.subject else None,
            "contenders": list(doubt.contenders),
            "scope_set": incoming.scope.id,
            "labels": list(incoming.labels),
            "resolved": False,
            "created_at": incoming.now,
            "source_ref": incoming.source.ref,
        }
    )
    batch.rows.append(f"uncertainty:{row_id}")
