"""What a person decided about their own memory: pauses, blocked topics, consents, and what each agent may do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """`saving`, `using`: which of the two rests. `until` None: until the person says otherwise. `agents` None: all."""

    saving: bool = False
    using: bool = False
    until: datetime | None = None
    agents: frozenset[str] | None = None

    def stops_saving(self, agent: str, now: datetime) -> bool:
        """True when `agent` may not save now."""
        return self.saving and self._holds(agent, now)

    def stops_using(self, agent: str, now: datetime) -> bool:
        """True when `agent` may not use memory now."""
        return self.using and self._holds(agent, now)

    def _holds(self, agent: str, now: datetime) -> bool:
        return (self.until is None or now < self.until) and (self.agents is None or agent in self.agents)


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """What one agent may do with a person's memory. `kinds` None: every kind."""

    use: bool = True
    suggest: bool = True
    kinds: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Controls:
    """The controls of one person, that is of one home. `pauses` hold together. `blocked`: topics in the person's own
    words. `consents`: sensitive topics that may be kept when the person said them. `history`: agents may find passages
    of other sessions too. `apps`: by the id of the agent's principal."""

    rev: int = 0
    pauses: tuple[Pause, ...] = ()
    blocked: tuple[str, ...] = ()
    consents: frozenset[str] = frozenset()
    history: bool = False
    never_kinds: frozenset[str] = frozenset()
    apps: Mapping[str, App] = field(default_factory=dict[str, App])

    def may_save(self, agent: str, now: datetime) -> bool:
        """True unless the person stopped saving, for all or for this agent."""
        return not any(pause.stops_saving(agent, now) for pause in self.pauses) and self.app(agent).suggest

    def may_use(self, agent: str, now: datetime) -> bool:
        """True unless the person stopped the use of memory, for all or for this agent."""
        return not any(pause.stops_using(agent, now) for pause in self.pauses) and self.app(agent).use

    def app(self, agent: str) -> App:
        """What the agent may do."""
        return self.apps.get(agent, App())
