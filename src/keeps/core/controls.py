"""What a person decided about their own memory: pauses, blocked topics, consents, and what each agent may do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any


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


def to_document(controls: Controls) -> dict[str, Any]:
    """Controls as they are kept, without their number; `of_document` makes the same of it."""
    return {
        "pauses": [_pause_document(pause) for pause in controls.pauses],
        "blocked": list(controls.blocked),
        "consents": sorted(controls.consents),
        "history": controls.history,
        "never_kinds": sorted(controls.never_kinds),
        "apps": {
            agent: {
                "use": app.use,
                "suggest": app.suggest,
                "kinds": None if app.kinds is None else sorted(app.kinds),
            }
            for agent, app in sorted(controls.apps.items())
        },
    }


def _pause_document(pause: Pause) -> dict[str, Any]:
    return {
        "saving": pause.saving,
        "using": pause.using,
        "until_us": None if pause.until is None else round(pause.until.timestamp() * 1_000_000),
        "agents": None if pause.agents is None else sorted(pause.agents),
    }


def of_document(document: Mapping[str, Any], *, rev: int) -> Controls:
    """The controls that a kept document holds."""
    return Controls(
        rev=rev,
        pauses=tuple(map(_pause_of, document.get("pauses") or ())),
        blocked=tuple(document.get("blocked") or ()),
        consents=frozenset(document.get("consents") or ()),
        history=bool(document.get("history")),
        never_kinds=frozenset(document.get("never_kinds") or ()),
        apps={agent: _app_of(said) for agent, said in dict(document.get("apps") or {}).items()},
    )


def _pause_of(said: Mapping[str, Any]) -> Pause:
    until, agents = said.get("until_us"), said.get("agents")
    return Pause(
        saving=bool(said.get("saving")),
        using=bool(said.get("using")),
        until=None if until is None else datetime.fromtimestamp(until / 1_000_000, UTC),
        agents=None if agents is None else frozenset(agents),
    )


def _app_of(said: Mapping[str, Any]) -> App:
    kinds = said.get("kinds")
    return App(
        use=bool(said.get("use", True)),
        suggest=bool(said.get("suggest", True)),
        kinds=None if kinds is None else frozenset(kinds),
    )
