"""What an admin sets without a restart: one document a context, read as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from keeps.core.packing import Budget, Unconfirmed, WriteBudget
from keeps.core.policy import History, Preset, Rule


class Kill(StrEnum):
    """The switch that stops memory at once: nothing, use, saving, or both. People still see, export and delete."""

    NONE = "none"
    NO_PROMPT = "no_prompt"
    NO_WRITE = "no_write"
    BOTH = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings in force. `version` counts from 1; 0 before anything was set. Days and seconds as the names say.

    `agents`: budgets of single agents, by principal, each at most the context's. `retention_days`: by kind, over the
    life the kind has of its own. `home_topics`: sensitive topics the product is about.
    """

    version: int = 0
    policy: Preset = Preset.DELIBERATE
    rules: tuple[Rule, ...] = ()
    history: History = History.SESSION
    budget: Budget = field(default_factory=Budget)
    writes: WriteBudget = field(default_factory=WriteBudget)
    agents: Mapping[str, Budget] = field(default_factory=dict[str, Budget])
    kill: Kill = Kill.NONE
    home_topics: frozenset[str] = frozenset()
    sensitive_min_score: float = 0.6
    kinds: frozenset[str] = frozenset()
    retention_days: Mapping[str, int] = field(default_factory=dict[str, int])
    proposal_ttl_days: int = 30
    quarantine_ttl_days: int = 14
    undo_seconds: int = 10
    show_memories_used: bool = True
    webhook_url: str | None = None

    @property
    def may_prompt(self) -> bool:
        """False while the switch keeps memory out of prompts."""
        return self.kill not in (Kill.NO_PROMPT, Kill.BOTH)

    @property
    def may_write(self) -> bool:
        """False while the switch keeps agents from saving."""
        return self.kill not in (Kill.NO_WRITE, Kill.BOTH)


WIDE: Final = Budget(
    max_memories=50,
    max_tokens=8000,
    max_per_kind=50,
    max_per_source=50,
    allow_unconfirmed=Unconfirmed.LABEL,
    min_trust=0.35,
)
"""The budget of a context that keeps everything: what its clients asked for before there were budgets still fits."""

_HISTORY: Final[Mapping[Preset, History]] = {
    Preset.DELIBERATE: History.SESSION,
    Preset.OPERATIONAL: History.ON,
    Preset.AUTOMATIC: History.ON,
}


def of_preset(preset: Preset) -> Settings:
    """What holds under a preset where nothing else was set."""
    budget = WIDE if preset is Preset.AUTOMATIC else Budget()
    return Settings(policy=preset, history=_HISTORY[preset], budget=budget)
