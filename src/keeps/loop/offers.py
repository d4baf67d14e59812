"""Which memories an agent is given: by a rule over keys, or by what was asked; and which of them still hold later."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal, Protocol, Unpack, cast

from keeps.client.nouns import Runs, ScopeSpelling
from keeps.client.verbs import Asked, When
from keeps.core import fence
from keeps.core.entities import normalise_key, parse_ref
from keeps.core.errors import Gone, Invalid, NotFound
from keeps.core.facts import Status
from keeps.core.summaries import words_of
from keeps.wire.entities import EntityOut
from keeps.wire.inspect import InspectOut
from keeps.wire.query import ContextOut
from keeps.wire.rows import AttributeDetail

MAX_FACTS: Final = 8
LOOK_AT: Final = 50
"""How many memories the service may offer, of which the rule picks."""

MAX_CITES: Final = 100
"""Cites of one answer that are noted in its run, at most."""

_ROWS: Final = 100
_MEMBERS: Final = ("id", "kind", "from", "text")
_FACTS: Final[tuple[Literal["facts", "passages"], ...]] = ("facts",)

Message = Mapping[str, Any]
"""One message of a prompt: `role` and `content`, and whatever else the host's model takes."""


class Reads(Protocol):
    """What offering needs of a memory: `Memory` and `Client` have it."""

    async def context(self, query: str, *, subject: str | None = None, **asked: Unpack[Asked]) -> ContextOut: ...
    async def entity(self, ref: str, *, limit: int | None = None, **when: Unpack[When]) -> EntityOut: ...
    async def inspect(self, ref: str, **when: Unpack[When]) -> InspectOut: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """One memory as the model reads it. `label`: who stands behind it. `date`: when it became known, as a day."""

    id: str
    kind: str
    label: str
    text: str
    date: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """`block`: the memories in their fence, empty without any. `run`: the run they were offered to, if one is kept."""

    block: str = ""
    memories: tuple[Offered, ...] = ()
    run: str | None = None


class Recall(Protocol):
    """Where the memories of a call come from."""

    async def offer(self, agent: str, messages: Sequence[Message]) -> Offer:
        """What this agent is given for this prompt."""
        ...

    async def live(self, ids: Sequence[str]) -> frozenset[str]:
        """Those of the ids that can still be read and still hold."""
        ...

    async def report(self, run: str, cites: Sequence[str]) -> None:
        """Note in a run what its answer names. Asked for only when the offer has a run."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The rule: of each key, in this order, its newest value; nothing from `session`, the one that goes on; `limit` at
    most, 1 to 8. Raises: Invalid for no key, one twice, or another limit."""

    keys: Sequence[str]
    session: str | None = None
    limit: int = MAX_FACTS

    def __post_init__(self) -> None:
        keys = [normalise_key(key) for key in self.keys]
        if not keys or len(set(keys)) < len(keys):
            raise Invalid("a selection names the keys it takes, each once, the most important first")
        if not 1 <= self.limit <= MAX_FACTS:
            raise Invalid(f"a selection takes 1 to {MAX_FACTS} facts")
        object.__setattr__(self, "keys", tuple(keys))

    def choose(self, rows: Iterable[AttributeDetail]) -> list[AttributeDetail]:
        """The rows that the rule takes, in its order."""
        newest: dict[str, AttributeDetail] = {}
        for row in rows:
            if self.session is not None and row.source is not None and row.source.session_id == self.session:
                continue
            before = newest.get(row.key)
            if before is None or _age(row) > _age(before):
                newest[row.key] = row
        return [newest[key] for key in self.keys if key in newest][: self.limit]


def _age(row: AttributeDetail) -> tuple[datetime, datetime, str]:
    return (row.occurred_at or row.created_at, row.created_at, row.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """What both ways of offering share: the memory, the scopes to stay in, the run, and the look afterwards."""

    memory: Reads
    lens: ScopeSpelling | None = None
    run: str | None = None

    async def live(self, ids: Sequence[str]) -> frozenset[str]:
        """Those of the ids that can still be read and still hold."""
        found = await asyncio.gather(*map(self._holds, ids))
        return frozenset(id_ for id_, holds in zip(ids, found, strict=True) if holds)

    async def report(self, run: str, cites: Sequence[str]) -> None:
        """Note in a run what its answer names; a run that the service made for this call is closed with it."""
        runs: Runs | None = getattr(self.memory, "runs", None)
        if runs is None:
            return
        await runs.cite(run, list(cites[:MAX_CITES]))
        if self.run is None:
            await runs.close(run)

    async def _holds(self, id_: str) -> bool:
        try:
            return _is_live(await self.memory.inspect(id_))
        except (NotFound, Gone, Invalid):
            return False

    def _asked(self) -> Asked:
        asked: Asked = {} if self.lens is None else {"lens": self.lens}
        return asked if self.run is None else asked | Asked(run=self.run)


@dataclass(frozen=True, slots=True, kw_only=True)
class ByRule(_Reading):
    """The facts about one `entity` that a rule takes, whatever was asked: `ByRule(memory=…, entity="person/p1-7f…",
    selection=Selection(keys=["goal", "result"]))`.

    The rule only narrows: it picks among what the service would offer this key now, so that its budgets, pauses and the
    person's own controls hold. What was typed plays no part in the choice. A fact reads as its key and its value: the
    name of the entity, which may be a pseudonym, is not told again.
    """

    entity: str
    selection: Selection
    _question: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        name = parse_ref(self.entity).name
        object.__setattr__(self, "_question", " ".join([name, *map(words_of, self.selection.keys)]))

    async def offer(self, agent: str, messages: Sequence[Message]) -> Offer:
        """The same for every agent and prompt, and empty when the memory knows nothing of the entity."""
        asked = self._asked() | Asked(k=LOOK_AT, include=_FACTS, min_score=0.0)
        block, view = await asyncio.gather(
            self.memory.context(self._question, subject=self.entity, **asked), self._entity()
        )
        offered = {memory.id.partition(":")[2]: memory for memory in memories_in(block.context)}
        chosen = self.selection.choose(row for row in view if row.id in offered)
        told = [replace(offered[row.id], text=f"{words_of(row.key)}: {row.value}") for row in chosen]
        return offer_of(told, run=block.run_id)

    async def _entity(self) -> list[AttributeDetail]:
        try:
            return (await self.memory.entity(self.entity, limit=_ROWS)).attributes
        except NotFound:
            return []


@dataclass(frozen=True, slots=True, kw_only=True)
class ByQuestion(_Reading):
    """What answers the last message of the user, as the service ranks it. `k`: 1 to 8."""

    k: int = MAX_FACTS
    session: str | None = None

    async def offer(self, agent: str, messages: Sequence[Message]) -> Offer:
        """Empty when nothing was asked or nothing answers."""
        question = last_asked(messages)
        if not question.strip():
            return Offer()
        asked = self._asked() | Asked(k=self.k)
        if self.session is not None:
            asked["session"] = self.session
        block = await self.memory.context(question, **asked)
        return Offer(block=block.context, memories=tuple(memories_in(block.context)), run=block.run_id)


def offer_of(memories: Sequence[Offered], *, run: str | None = None) -> Offer:
    """These memories in one fence of their own."""
    notes = [
        fence.Note(id=memory.id, kind=memory.kind, label=memory.label, text=memory.text, at=_moment(memory.date))
        for memory in memories
    ]
    block = fence.fence(notes, nonce=secrets.token_hex(8))
    return Offer(block=block, memories=tuple(memories), run=run)


def memories_in(block: str) -> list[Offered]:
    """The memories that stand in a block of the service, in order; each is one line of JSON in it."""
    found: list[Offered] = []
    for line in block.splitlines():
        if line.startswith("{"):
            said = cast("dict[str, str]", json.loads(line))
            id_, kind, label, text = (said[name] for name in _MEMBERS)
            found.append(Offered(id=id_, kind=kind, label=label, text=text, date=said.get("date")))
    return found


def last_asked(messages: Sequence[Message]) -> str:
    """The text of the last message of the user; empty without one."""
    for message in reversed(messages):
        if message.get("role") == "user":
            return text_in(message.get("content"))
    return ""


def text_in(content: object) -> str:
    """The text of a message's content: a string, or the texts of its parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list | tuple):
        return "\n".join(filter(None, (text_in(part) for part in cast("Sequence[object]", content))))
    if isinstance(content, Mapping):
        said = cast("Mapping[str, object]", content)
        return text_in(said.get("text", said.get("content")))
    return ""


def _is_live(seen: InspectOut) -> bool:
    row = seen.attribute or seen.relation or seen.action
    if row is None:
        return seen.turn is not None or seen.text is not None
    closed = row.valid_until is not None and row.valid_until <= datetime.now(UTC)
    return row.status in {None, Status.CONFIRMED.value} and not closed


def _moment(date: str | None) -> datetime | None:
    return None if date is None else datetime.fromisoformat(date).replace(tzinfo=UTC)
