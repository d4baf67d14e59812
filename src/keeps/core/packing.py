"""How much memory may stand in one prompt, and which of it does."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Unconfirmed(StrEnum):
    """Whether what nobody confirmed may stand in a prompt: never, marked as a guess, or marked and ranked alike."""

    NEVER = "never"
    LABEL = "label"
    ALLOW = "allow"


class Tainted(StrEnum):
    """Whether text from outside may stand in a prompt: never, or once a person confirmed it."""

    NEVER = "never"
    CONFIRMED_ONLY = "confirmed_only"


class SensitiveUse(StrEnum):
    """Whether sensitive matters may stand in a prompt: never, or when the question is about them."""

    NEVER = "never"
    ON_TOPIC = "on_topic"


UNLIMITED_KINDS: Final[frozenset[str] | None] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What one prompt may hold. `max_tokens` counts the whole block. `kinds` None: every kind that may be prompted.

    `max_per_source`: from one session, document, tool or agent. `min_score`, `min_trust` 0..1; `min_trust_guess` is
    the floor of what is marked as a guess. `timeout_ms`: after that there is no block.
    """

    max_memories: int = 8
    max_tokens: int = 600
    max_per_kind: int = 4
    max_per_source: int = 3
    kinds: frozenset[str] | None = UNLIMITED_KINDS
    allow_unconfirmed: Unconfirmed = Unconfirmed.NEVER
    allow_tainted: Tainted = Tainted.CONFIRMED_ONLY
    allow_sensitive: SensitiveUse = SensitiveUse.ON_TOPIC
    min_score: float = 0.25
    min_trust: float = 0.5
    min_trust_guess: float = 0.35
    max_age_days: int | None = None
    timeout_ms: int = 1500


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteBudget:
    """How much may be proposed and kept, counted in memories."""

    max_proposals_per_run: int = 5
    max_proposals_per_day: int = 50
    max_inbox: int = 100
    max_stored: int = 10_000
