"""What may be kept without asking: rules in layers, of which the strictest wins."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum

from keeps.core.facts import Origin, Status
from keeps.core.scopes import Pattern, ScopePath


class Preset(StrEnum):
    """A policy by name: ask about everything, ask about people only, or ask about nothing."""

    DELIBERATE = "deliberate"
    OPERATIONAL = "operational"
    AUTOMATIC = "automatic"


class Decision(IntEnum):
    """What becomes of a candidate, the larger the stricter."""

    AUTO = 0
    ASK = 1
    NEVER = 2


class History(StrEnum):
    """What agents find of past conversations: nothing is kept, their own session, or all they may read."""

    OFF = "off"
    SESSION = "session"
    ON = "on"


class Drop(StrEnum):
    """Why a candidate was not stored at all."""

    POLICY = "policy_never"
    SECRET = "secret"
    SUPPRESSED = "suppressed"
    PAUSED = "paused"
    TEMPORARY = "temporary"
    KNOWN = "known"
    TOPIC_BLOCKED = "topic_blocked"
    INFERRED_SENSITIVE = "inferred_sensitive"
    RUN_FULL = "run_full"
    DAY_FULL = "day_full"
    INBOX_FULL = "inbox_full"
    STORED_FULL = "stored_full"


class Why(StrEnum):
    """Why a candidate waits for a person."""

    POLICY = "policy"
    CONFLICT = "conflict"
    KIND = "kind"
    SENSITIVE = "sensitive"
    PERSONAL = "personal"
    TAINTED = "tainted"
    QUARANTINE = "quarantine"
    DELETED_BEFORE = "deleted_before"
    RETIRE = "retire"
    IMPORTED = "imported"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule; what it leaves open fits everything. `layer`: deployment, context, scope, person or agent."""

    decision: Decision
    layer: str = "context"
    scope: Pattern | None = None
    kind: str | None = None
    origin: Origin | None = None
    agent: str | None = None
    sensitivity: str | None = None
    topic: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a policy must know of a candidate. `nodes`: the scope nodes it would belong to; `personal`: they are under
    the home of exactly one person. `stated`: the person said it, so it is not inferred. `held`: screening puts it into
    quarantine."""

    kind: str
    origin: Origin
    agent: str
    nodes: frozenset[ScopePath]
    personal: bool
    sensitivity: str = "normal"
    topics: frozenset[str] = frozenset()
    tainted: bool = False
    stated: bool = False
    held: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """Where a candidate goes: `CONFIRMED`, `PROPOSED`, `QUARANTINED`, or nowhere (`status` None, `drop` says why).
    `why`: why it waits. `rule`: the layer that decided, for `status_reason`."""

    status: Status | None
    why: Why | None = None
    drop: Drop | None = None
    rule: str = ""
