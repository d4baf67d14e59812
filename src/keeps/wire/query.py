"""Asking: ranked hits, or one block of text for a prompt."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar, Literal

from keeps.wire.base import K_DEFAULT, Instant, Labels, ScopeSets, TopK, WireIn, WireOut

QueryMode = Literal["hybrid", "vector", "bm25", "graph"]
ScopeView = Literal["strict", "merged", "crossTeam"]

_READ_NAMES: Mapping[str, tuple[str, ...]] = {"lens": ("scope", "scopes"), "k": ("limit",)}


class Temporal(WireIn):
    """The time a question is about; nothing given means now."""

    as_of: Instant | None = None
    at_instant: Instant | None = None
    valid_from: Instant | None = None
    valid_until: Instant | None = None


class QueryIn(Temporal):
    """A question to the memory."""

    also: ClassVar[Mapping[str, tuple[str, ...]]] = _READ_NAMES

    query: str
    k: TopK = K_DEFAULT
    mode: QueryMode = "hybrid"
    session_id: str | None = None
    include: tuple[str, ...] = ()
    labels: Labels = ()
    lens: ScopeSets = None
    scope_view: ScopeView = "strict"
    location: dict[str, Any] | None = None
    include_duplicates: bool = False
    source: str | None = None


class ContextIn(Temporal):
    """A question whose answer goes into a prompt. `subject` names one entity, `<type>/<name>`."""

    also: ClassVar[Mapping[str, tuple[str, ...]]] = _READ_NAMES

    query: str
    k: TopK = K_DEFAULT
    mode: QueryMode = "hybrid"
    session_id: str | None = None
    include: tuple[str, ...] = ()
    labels: Labels = ()
    lens: ScopeSets = None
    scope_view: ScopeView = "strict"
    subject: str | None = None


class Hit(WireOut):
    """One thing found. `id` is `table:key`, `score` a relevance 0..1."""

    id: str
    text: str
    source: str
    score: float
    resource: dict[str, Any] | None = None
    occurred_at: datetime | None = None
    date_notes: str | None = None
    source_ref: str | None = None
    trust: float | None = None
    origin: str | None = None
    status: str | None = None
    kind: str | None = None
    speaker: str | None = None
    role: str | None = None
    chunk_ids: list[str] | None = None
    labels: list[str] | None = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    created_at: datetime | None = None


class QueryTrace(WireOut):
    trace_id: str
    resolution_tier: str
    tier_reason: str
    latency_ms: int
    retrieved_count: int
    top_scores: list[float]


class QueryOut(WireOut):
    """Hits by falling score. `degraded` names what could not answer this time."""

    tier: str
    classification_kind: str
    seed_entities: list[str]
    query_ms: int
    hits: list[Hit]
    context_hits: tuple[Hit, ...] = ()
    trace: QueryTrace
    degraded: list[str] | None = None


class ContextOut(WireOut):
    """One block of text, empty when nothing was found."""

    context: str
    tier: str
    query_ms: int
    degraded: list[str] | None = None
    pending: int | None = None
