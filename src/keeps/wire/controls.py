"""A person's own controls, and how an admin wants one agent to behave."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import Field

from keeps.core.access import PrincipalId
from keeps.core.controls import App, Controls, Pause
from keeps.core.procedures import Procedure
from keeps.wire.base import Instant, StrictIn, WireOut, bare_id, example
from keeps.wire.late import Late

if TYPE_CHECKING:
    from keeps.services import controls
    from keeps.services.controls import Agent, Rules
else:
    controls = Late("keeps.services.controls")

Names = Annotated[tuple[str, ...], Field(max_length=1000)]


def _principals(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(bare_id(name, "principal") or name for name in names)


class PauseIn(StrictIn):
    """Rest of `saving`, of `using`, or of both, `until` a time or until it is lifted; of some `agents` or all."""

    saving: bool = False
    using: bool = False
    until: Instant | None = None
    agents: Names | None = None

    def to_core(self) -> Pause:
        """The pause this asks for."""
        return Pause(
            saving=self.saving,
            using=self.using,
            until=self.until,
            agents=None if self.agents is None else _principals(self.agents),
        )


class PausesIn(StrictIn):
    """The pauses that hold from now on; none lifts them all."""

    model_config = example(pauses=[{"saving": True, "until": "2026-11-30T18:00:00Z"}])

    pauses: tuple[PauseIn, ...]


class RulesIn(StrictIn):
    """The rules that hold from now on: what is left out is not said any more."""

    model_config = example(blocked=["nothing about my back"], consents=["religion"], history=True)

    blocked: Names = ()
    consents: Names = ()
    history: bool = False
    never_kinds: Names = ()

    def to_core(self) -> Rules:
        """The rules this asks for."""
        return controls.Rules(
            blocked=self.blocked,
            consents=frozenset(self.consents),
            history=self.history,
            never_kinds=frozenset(self.never_kinds),
        )


class AppIn(StrictIn):
    """What one agent may do. `use`: memory in its prompts. `suggest`: proposals. `kinds`: of these kinds only."""

    use: bool = True
    suggest: bool = True
    kinds: Names | None = None

    def to_core(self) -> App:
        """What the agent may do."""
        return App(use=self.use, suggest=self.suggest, kinds=None if self.kinds is None else frozenset(self.kinds))


class AppsIn(StrictIn):
    """What agents may do from now on, by the ids of their principals; one that is not named may do everything."""

    model_config = example(apps={"k3x9": {"use": True, "suggest": False}})

    apps: dict[str, AppIn]

    def to_core(self) -> dict[PrincipalId, App]:
        """What each agent may do."""
        return {PrincipalId(bare_id(who, "principal") or who): app.to_core() for who, app in self.apps.items()}


class PauseOut(WireOut):
    saving: bool
    using: bool
    until: datetime | None = None
    agents: list[str] | None = None

    @classmethod
    def of(cls, pause: Pause) -> Self:
        agents = None if pause.agents is None else sorted(pause.agents)
        return cls(saving=pause.saving, using=pause.using, until=pause.until, agents=agents)


class PausesOut(WireOut):
    """The pauses that hold; `rev` is the state that the next change names."""

    rev: int
    pauses: list[PauseOut]

    @classmethod
    def of(cls, found: Controls) -> Self:
        return cls(rev=found.rev, pauses=list(map(PauseOut.of, found.pauses)))


class RulesOut(WireOut):
    rev: int
    blocked: list[str]
    consents: list[str]
    history: bool
    never_kinds: list[str]

    @classmethod
    def of(cls, found: Controls) -> Self:
        return cls(
            rev=found.rev,
            blocked=list(found.blocked),
            consents=sorted(found.consents),
            history=found.history,
            never_kinds=sorted(found.never_kinds),
        )


class AppOut(WireOut):
    agent: str
    name: str
    use: bool
    suggest: bool
    kinds: list[str] | None = None

    @classmethod
    def of(cls, agent: Agent) -> Self:
        kinds = None if agent.app.kinds is None else sorted(agent.app.kinds)
        return cls(agent=agent.id, name=agent.name, use=agent.app.use, suggest=agent.app.suggest, kinds=kinds)


class AppsOut(WireOut):
    """The agents that reach this person's memory, and what each may do."""

    rev: int
    apps: list[AppOut]


class ProcedureIn(StrictIn):
    """How an agent should behave."""

    model_config = example(text="Answer in British English. Never promise a delivery date.")

    text: str


class ProcedureOut(WireOut):
    id: str
    agent: str
    text: str
    version: int
    set_by: str
    since: datetime
    until: datetime | None = None

    @classmethod
    def of(cls, said: Procedure) -> Self:
        return cls(
            id=f"instruction:{said.id}",
            agent=said.agent,
            text=said.text,
            version=said.version,
            set_by=said.set_by,
            since=said.since,
            until=said.until,
        )


class ProceduresOut(WireOut):
    """What holds for an agent, if anything does, and every version before it, the newest first."""

    current: ProcedureOut | None = None
    versions: list[ProcedureOut]

    @classmethod
    def of(cls, versions: list[Procedure]) -> Self:
        shown = list(map(ProcedureOut.of, versions))
        return cls(current=next((one for one in shown if one.until is None), None), versions=shown)
