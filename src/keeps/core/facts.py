"""What is remembered: facts, relations and actions, with their clocks, their chain and their control fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, NewType

from keeps.core.entities import EntityRef
from keeps.core.scopes import Scope

RowId = NewType("RowId", str)
"""The opaque key of a row inside its table: 20 characters of a-z and 0-9."""


class Category(StrEnum):
    """How lasting a memory is: a stable trait, something learned, or the working state of the moment."""

    IDENTITY = "identity"
    KNOWLEDGE = "knowledge"
    CONTEXT = "context"


class Status(StrEnum):
    """Where a row stands. Only `CONFIRMED` rows answer questions about the present.

    What is proposed, quarantined or rejected is a proposal and no row yet; of what is forgotten or rejected the text is
    gone.
    """

    PROPOSED = "proposed"
    QUARANTINED = "quarantined"
    CONFIRMED = "confirmed"
    SUPERSEDED = "superseded"
    EXPIRED = "expired"
    REJECTED = "rejected"
    FORGOTTEN = "forgotten"


class Origin(StrEnum):
    """Who stands behind a row; it drives trust, labels and who may replace whom."""

    USER_SAVED = "user_saved"
    USER_CONFIRMED = "user_confirmed"
    ADMIN_SET = "admin_set"
    DOCUMENT = "document"
    APP_WRITTEN = "app_written"
    AUTO_ACCEPTED = "auto_accepted"
    AGENT_INFERRED = "agent_inferred"
    DERIVED = "derived"
    IMPORTED = "imported"


class Pillar(StrEnum):
    """Which of the two streams a row came from; each stream has its own head in a chain."""

    AUTHORITATIVE = "authoritative"
    EXPERIENTIAL = "experiential"


TRUST: Mapping[Origin, float] = {
    Origin.USER_SAVED: 0.95,
    Origin.USER_CONFIRMED: 0.90,
    Origin.ADMIN_SET: 0.90,
    Origin.DOCUMENT: 0.85,
    Origin.APP_WRITTEN: 0.80,
    Origin.AUTO_ACCEPTED: 0.60,
    Origin.AGENT_INFERRED: 0.40,
    Origin.DERIVED: 0.30,
    Origin.IMPORTED: 0.40,
}
"""Weight of a row by who stands behind it, 0..1: ranking, gates and labels use it."""

PROVENANCE_TRUST: Mapping[str, float] = {
    "upsert": 0.95,
    "document": 0.80,
    "turn": 0.50,
    "reflect": 0.40,
    "consolidation": 0.35,
    "elaboration": 0.30,
}
"""`source.trust` on the wire by kind of source, 0..1. It never decides which value replaces which."""

IMPORTANCE: Mapping[Category, float] = {
    Category.IDENTITY: 1.0,
    Category.KNOWLEDGE: 0.8,
    Category.CONTEXT: 0.5,
}
"""First importance of a row by category, 0..1."""

CONTEXT_LIFE_DAYS = 7
"""A row of category `context` ends this many days after it became known."""

CONFIDENCE_FLOOR = 0.7
"""Below this confidence, 0..1, a value supersedes nothing."""

AUTHORITATIVE_SOURCES = frozenset({"document", "upsert", "sheet", "api", "import"})
"""Kinds of source that state things; conversation and what is made of it are the other stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a row came from. `ref` names a row (`turn:<id>`), `run` the run of an agent, `trust` is the prior of the
    kind of source."""

    kind: str
    ref: str | None = None
    session: str | None = None
    run: str | None = None
    trust: float

    @property
    def pillar(self) -> Pillar:
        """The stream this source belongs to."""
        return Pillar.AUTHORITATIVE if self.kind in AUTHORITATIVE_SOURCES else Pillar.EXPERIENTIAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """What people and policy decide about a row, apart from what it says.

    `sensitivity`: `normal`, `personal` or `sensitive`; `topics`: what it is about, by class. `taint`: where text that
    nobody here vouches for came from; it spreads to whatever is derived. `derived_from`: the rows, as `table:id`, it
    was made of. `status_*`: the last move, why, by whom (`user`, `policy:…`, `sweep`, a principal), when.
    """

    kind: str = "fact"
    status: Status = Status.CONFIRMED
    origin: Origin = Origin.AUTO_ACCEPTED
    trust: float = TRUST[Origin.AUTO_ACCEPTED]
    user_confirmed: bool = False
    sensitivity: str = "normal"
    topics: frozenset[str] = frozenset()
    taint: frozenset[str] = frozenset()
    flags: frozenset[str] = frozenset()
    muted: bool = False
    pinned: bool = False
    expires_at: datetime | None = None
    derived_from: tuple[str, ...] = ()
    proposed_by: str | None = None
    confirmed_by: str | None = None
    status_reason: str | None = None
    status_by: str | None = None
    status_at: datetime | None = None
    rev: int = 1
    fingerprint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """Three times of a row, all aware UTC.

    `valid_*`: true in the world. `known_at`/`close_known_at`: when we learned it, and learned that it had ended.
    `recorded_at`/`close_recorded_at`: when the record stored those two things. `forgotten_at`: retired by request.
    `open_until`: the end the row had of its own, kept when a newer value moves `valid_until`. `said_at`: the last
    times after `known_at` at which the same was said again, rising; they keep the place of a value in its history.
    """

    known_at: datetime
    recorded_at: datetime
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    close_known_at: datetime | None = None
    close_recorded_at: datetime | None = None
    open_until: datetime | None = None
    said_at: tuple[datetime, ...] = ()
    forgotten_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What every remembered row carries."""

    id: RowId
    scope: Scope
    clocks: Clocks
    source: Source
    category: Category = Category.KNOWLEDGE
    confidence: float = 1.0
    importance: float = IMPORTANCE[Category.KNOWLEDGE]
    summary: str = ""
    source_clause: str | None = None
    labels: tuple[str, ...] = ()
    control: Control = field(default_factory=Control)
    metadata: Mapping[str, Any] | None = None
    occurred_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact(Row):
    """One value of one key of one entity. Never edited: a new value closes it and points back."""

    entity: EntityRef
    key: str
    value: str
    supersedes: RowId | None = None
    superseded_by: RowId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation(Row):
    """A labelled edge between two entities."""

    subject: EntityRef
    label: str
    object: EntityRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Action(Row):
    """Something an entity did, once; never superseded. Names its object as an entity or as text, not both."""

    actor: EntityRef
    verb: str
    object: EntityRef | None = None
    object_text: str | None = None
