"""What a text holds besides what it says: secrets, sensitive matters, personal data, and words meant for the machine.

Findings are names of classes. What was matched is never part of one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from keeps.core.credentials import SecretFound, find_secrets, without_secrets
from keeps.core.errors import SecretRefused
from keeps.core.folding import in_latin, plain_words
from keeps.core.injection import judge_plain
from keeps.core.instructing import may_instruct
from keeps.core.sensitive import TOPICS, personal_in, topics_in, topics_of

__all__ = [
    "HELD_AT",
    "RULES_VERSION",
    "TOPICS",
    "Screened",
    "SecretFound",
    "find_secrets",
    "may_instruct",
    "refuse_secrets",
    "screen",
    "topics_of",
    "without_secrets",
]

RULES_VERSION: Final = 2
"""Raised whenever a rule changes. Rows do not keep it yet, so nothing is screened again."""

HELD_AT: Final = 0.5
"""A text that scores as much, 0..1, goes into quarantine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Screened:
    """What screening found. `topics`: sensitive ones (`health`, `religion` …). `personal`: `email`, `phone` ….
    `score` 0..1: how much the text looks like words to the machine; `reasons`: the rules that say so.
    `flags`: `instruction_like`, `has_url`, `hidden_chars`, `mixed_script`, `blob`. `beside`: the labels and the
    metadata it was given with, which what a person blocked is looked for in too."""

    secrets: tuple[SecretFound, ...] = ()
    topics: frozenset[str] = frozenset()
    personal: frozenset[str] = frozenset()
    score: float = 0.0
    reasons: tuple[str, ...] = ()
    flags: frozenset[str] = frozenset()
    beside: str = field(default="", repr=False)

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


def screen(text: str, *, hidden: bool = False) -> Screened:
    """Everything that screening finds in a text. `hidden`: cleaning took characters out of it that nobody saw."""
    plain = plain_words(text)
    judged = judge_plain(text, plain, hidden=hidden)
    return Screened(
        secrets=find_secrets(text),
        topics=topics_in(plain) if text.isascii() else topics_of(in_latin(text)),
        personal=personal_in(plain),
        score=judged.score,
        reasons=judged.reasons,
        flags=judged.flags,
    )


def refuse_secrets(text: str, what: str) -> None:
    """Raises: SecretRefused when `text` holds a secret; the message names its class and `what` holds it."""
    found = find_secrets(text)
    if found:
        classes = ", ".join(dict.fromkeys(secret.name for secret in found))
        raise SecretRefused(f"{what} holds a secret ({classes}), which is never stored: take it out")
