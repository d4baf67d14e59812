"""Everything a caller sees, kind by kind: for writing it out, and for knowing whose each row is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Literal

from keeps.client.verbs import Client, walk
from keeps.wire.base import WireOut


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing: which kind it is, and what the service says about it."""

    kind: Literal["scope", "entity", "fact", "relation", "action", "session", "turn"]
    row: WireOut

    def members(self) -> dict[str, Any]:
        """One JSON object."""
        # The kind of a memory (note, preference …) is a member of its own.
        return {"record": self.kind, **self.row.model_dump(mode="json", exclude_none=True)}


async def everything(memory: Client) -> AsyncIterator[Entry]:
    """Scopes, entities, every value of every fact, relations, actions, sessions and turns the caller sees.

    A page at a time: memory for one page is all it takes.
    """
    async for scopes in walk(memory.scopes.list):
        for scope in scopes.scopes:
            yield Entry("scope", scope)
    async for entities in walk(memory.entities):
        for entity in entities.entities:
            yield Entry("entity", entity)
            async for history in walk(memory.history, entity.id):
                for fact in history.history:
                    yield Entry("fact", fact)
    async for relations in walk(memory.relations):
        for relation in relations.relations:
            yield Entry("relation", relation)
    async for actions in walk(memory.actions):
        for action in actions.actions:
            yield Entry("action", action)
    async for sessions in walk(memory.sessions.list):
        for session in sessions.sessions:
            yield Entry("session", session)
            async for turns in walk(memory.sessions.turns, session.id):
                for turn in turns.turns:
                    yield Entry("turn", turn)
