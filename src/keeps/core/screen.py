"""What a text holds besides what it says: secrets, sensitive matters, personal data, and words meant for the machine.

Findings are names of classes. What was matched is never part of one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

RULES_VERSION: Final = 1
"""Raised whenever a rule changes: what was screened by an older one is screened again when it is read."""

HELD_AT: Final = 0.5
"""A text that scores as much, 0..1, goes into quarantine."""


@dataclass(frozen=True, slots=True)
class SecretFound:
    """A secret at `start:end` of a text, by its class: `api key`, `private key`, `password`, `card number` …"""

    name: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Screened:
    """What screening found. `topics`: sensitive ones (`health`, `religion` …). `personal`: `email`, `phone` ….
    `score` 0..1: how much the text looks like words to the machine; `reasons`: the rules that say so.
    `flags`: `instruction_like`, `has_url`, `hidden_chars`, `mixed_script`, `blob`."""

    secrets: tuple[SecretFound, ...] = ()
    topics: frozenset[str] = frozenset()
    personal: frozenset[str] = frozenset()
    score: float = 0.0
    reasons: tuple[str, ...] = ()
    flags: frozenset[str] = frozenset()

    @property
    def held(self) -> bool:
        """True when the text belongs into quarantine."""
        return self.score >= HELD_AT

    @property
    def sensitivity(self) -> str:
        """`sensitive`, `personal` or `normal`."""
        if self.topics:
            return "sensitive"
        return "personal" if self.personal else "normal"
