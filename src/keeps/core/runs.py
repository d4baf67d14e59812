"""A run of an agent: what memory it was offered, why, what it cited, and how it ended. Ids and fixed words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class Reason(StrEnum):
    """Why a memory was looked at."""

    PINNED = "pinned"
    EXACT_SLOT = "exact_slot"
    KEYWORD = "keyword"
    SEMANTIC = "semantic"
    GRAPH = "graph"
    PROFILE = "profile"
    INSTRUCTION = "instruction"
    RECENT = "recent"


class Inclusion(StrEnum):
    """Whether a memory stood in the prompt, and if not, why not."""

    INCLUDED = "included"
    DROPPED_BUDGET = "dropped_budget"
    DROPPED_SCORE = "dropped_score"
    DROPPED_UNCONFIRMED = "dropped_unconfirmed"
    DROPPED_TAINT = "dropped_taint"
    DROPPED_SENSITIVE = "dropped_sensitive"
    DROPPED_KIND = "dropped_kind"
    DROPPED_MUTED = "dropped_muted"
    DROPPED_PAUSED = "dropped_paused"
    DROPPED_DUPLICATE = "dropped_duplicate"
    WITHHELD_CONFLICT = "withheld_conflict"
    DROPPED_QUARANTINE = "dropped_quarantine"


class EndReason(StrEnum):
    """How a run ended."""

    ANSWERED = "answered"
    NO_ANSWER = "no_answer"
    LIMIT_STEPS = "limit_steps"
    LIMIT_TOKENS = "limit_tokens"
    LIMIT_TIME = "limit_time"
    TOOL_ERROR = "tool_error"
    MEMORY_TIMEOUT = "memory_timeout"
    GUARD_BLOCKED = "guard_blocked"
    USER_CANCELLED = "user_cancelled"
    TEMPORARY = "temporary"
    CRASHED = "crashed"
    UNKNOWN = "unknown"


class Outcome(StrEnum):
    """Whether memory helped, as the person said."""

    HELPED = "helped"
    HURT = "hurt"
    NEUTRAL = "neutral"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One memory that was weighed for a prompt. `memory`: `table:id`; `rank` from 1; `score` 0..1."""

    memory: str
    rank: int
    reason: Reason
    score: float
    inclusion: Inclusion
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call of a tool: its name, whether it went well, how long, and the memories its result contradicts."""

    name: str
    ok: bool
    ms: int
    contradicts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run. `region`: the patterns its agent could read. `temporary`: no memory in, none out, nothing kept.
    `saving`: False lets it use memory and keep nothing. `tokens_memory`, `latency_ms`: what memory put into prompts,
    and took, as counted here. `cost`, `tokens`, `took_ms`: what the host says of the whole run, costs by name.
    `people`: whose memory it was given. `text_traced`: the text of a question of it was kept for a while, by a setting.
    """

    id: str
    agent: str
    started_at: datetime
    region: tuple[str, ...]
    on_behalf_of: str | None = None
    session: str | None = None
    mode: str = "hybrid"
    settings_version: int = 0
    ended_at: datetime | None = None
    end_reason: EndReason | None = None
    temporary: bool = False
    saving: bool = True
    tool_calls: Sequence[ToolCall] = ()
    tokens_memory: int = 0
    latency_ms: int = 0
    cites_kept: int = 0
    cites_dropped: int = 0
    outcome: Outcome | None = None
    cost: Mapping[str, float] = field(default_factory=dict[str, float])
    degraded: tuple[str, ...] = ()
    proposed: int = 0
    tokens: int | None = None
    took_ms: int | None = None
    people: frozenset[str] = frozenset()
    text_traced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Uses:
    """How often a memory stood in a prompt, and how often an answer relied on it; once a run each, whatever the
    retries. `last_at`, `last_by`: when and by which agent it was last put into a prompt."""

    offered: int = 0
    cited: int = 0
    last_at: datetime | None = None
    last_by: str | None = None
