"""Random work of many owners over one record, each answer held against whose it may be.

Every text carries the mark of its owners, and all owners share their other words: what leaks is found by words, and
seen at once.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from keeps.client.known import Owners, covers, owners_of, reads
from keeps.core.errors import Forbidden, NotFound

NAMES: Final = ("t/a", "t/ab", "t/A", "t/a/b", "t/a'b", "t/a%2Fb", "t/a_", "t/a%")
"""Names that begin alike, differ in case, look like patterns of a query language, or hide a slash."""

SHARED: Final = ([["t/a", "t/ab"]], [["t/a"], ["t/A"]], [["t/a/b", "t/a%"], ["t/a_"]])
"""Rows of two owners together, and of either of two."""

WORDS: Final = tuple("harbour crane ferry pilot bakery knee strike bridge lantern anchor winter market".split())
KEYS: Final = ("role", "home", "favourite_ship", "likes")
MODES: Final = ("hybrid", "bm25", "vector", "graph")

_MARK: Final = re.compile(r"zz(\d\d)qq")
_ID: Final = re.compile(r"(?<![a-z0-9])[a-z0-9]{20}(?![a-z0-9])")


class Door(Protocol):
    """What both the client and the services offer."""

    @property
    def sessions(self) -> Any: ...

    remember: Callable[..., Awaitable[Any]]
    recall: Callable[..., Awaitable[Any]]
    context: Callable[..., Awaitable[Any]]
    forget: Callable[..., Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Reader:
    """One key: what it is narrowed to, and the door it goes through."""

    patterns: tuple[str, ...]
    door: Any


@dataclass(slots=True)
class Work:
    """The random work. `owners` says for each id whose rows it may stand for."""

    chance: random.Random
    readers: Sequence[Reader]
    owners: dict[str, set[Owners]] = field(default_factory=dict[str, set[Owners]])
    refs: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    texts: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    sessions: list[str] = field(default_factory=list[str])
    done: Counter[str] = field(default_factory=Counter[str])
    seen: Counter[str] = field(default_factory=Counter[str])

    async def steps(self, count: int) -> None:
        """Do `count` things, each checked."""
        kinds = {
            self.note: 12,
            self.triples: 16,
            self.forget: 3,
            self.forget_of_others: 2,
            self.recall: 26,
            self.context: 8,
            self.inspect: 12,
            self.lists: 8,
            self.entities: 8,
            self.of_session: 5,
        }
        for act in self.chance.choices(list(kinds), list(kinds.values()), k=count):
            await act(self.chance.choice(self.readers))
            self.done[act.__name__] += 1

    def check(self, reader: Reader, what: str, answer: Any) -> None:
        """Nothing in the answer belongs to somebody else."""
        text = answer if isinstance(answer, str) else answer.model_dump_json(exclude_none=True)
        for mark in set(_MARK.findall(text)):
            assert reads(reader.patterns, OWNERS[int(mark)]), (what, reader.patterns, scopes_of(int(mark)))
            self.seen[what] += 1
        for id_ in set(_ID.findall(text)):
            owners = self.owners.get(id_)
            assert not owners or any(reads(reader.patterns, each) for each in owners), (what, reader.patterns, id_)

    async def note(self, reader: Reader) -> None:
        await self._write(reader, lambda text, mark: {"text": text})

    async def triples(self, reader: Reader) -> None:
        def about(text: str, mark: int) -> dict[str, Any]:
            name = self.chance.choice(("Mara", f"Pilot zz{mark:02}qq", "Harbour Bakery"))
            entity = {"type": "person", "name": name}
            entry: dict[str, Any] = {"entity": entity}
            match self.chance.randrange(4):
                case 0:
                    entry |= {"key": "works_with", "target": {"type": "person", "name": f"Cook zz{mark:02}qq"}}
                case 1:
                    entry |= {"verb": "repaired", "object": text}
                case _:
                    entry |= {"key": self.chance.choice(KEYS), "value": text}
            return {"text": text, "triples": [entry]}

        await self._write(reader, about)

    async def _write(self, reader: Reader, said: Callable[[str, int], Mapping[str, Any]]) -> None:
        mark = self.chance.randrange(len(OWNERS))
        scopes = scopes_of(mark)
        text = f"The {' '.join(self.chance.choices(WORDS, k=4))} zz{mark:02}qq {self.chance.randrange(50)}"
        may = all(any(covers(own, path) for own in reader.patterns) for clause in scopes for path in clause)
        try:
            done = await reader.door.remember(**said(text, mark), scopes=scopes)
        except Forbidden:
            assert not may, (reader.patterns, scopes)
            return
        assert may, (reader.patterns, scopes)
        for id_ in _ID.findall(done.model_dump_json()):
            self.owners.setdefault(id_, set()).add(OWNERS[mark])
        self.refs.append((f"turn:{done.turn_id}", mark))
        self.sessions.append(done.session_id)
        self.texts.append((text, mark))

    def _question(self) -> str:
        """Shared words, the mark of anybody, or a whole text of anybody."""
        match self.chance.randrange(3):
            case 0 if self.texts:
                return self.chance.choice(self.texts)[0]
            case 1:
                return f"zz{self.chance.randrange(len(OWNERS)):02}qq {self.chance.choice(WORDS)}"
            case _:
                return f"What is the {' '.join(self.chance.choices(WORDS, k=2))} of Mara's role?"

    async def recall(self, reader: Reader) -> None:
        mode = self.chance.choice(MODES)
        how: dict[str, Any] = {"mode": mode, "k": self.chance.choice((1, 10, 50))}
        if self.chance.random() < 0.2:
            how["include"] = [self.chance.choice(("facts", "passages"))]
        if self.chance.random() < 0.2:
            how["lens"] = self.chance.choice(NAMES)
        self.check(reader, f"recall {mode}", await reader.door.recall(self._question(), **how))

    async def context(self, reader: Reader) -> None:
        how = {"subject": "person/mara"} if self.chance.random() < 0.2 else {}
        self.check(reader, "context", await reader.door.context(self._question(), k=20, **how))

    async def inspect(self, reader: Reader) -> None:
        if not self.refs:
            return
        ref, mark = self.chance.choice(self.refs)
        if self.chance.random() < 0.3:
            ref = self.chance.choice((f"entity:person/pilot zz{mark:02}qq", "attribute:person/mara/role"))
        try:
            found = await reader.door.inspect(ref)
        except NotFound:
            return
        self.check(reader, "inspect", found)

    async def lists(self, reader: Reader) -> None:
        name = self.chance.choice(("facts", "relations", "actions", "entities", "sessions"))
        verb = reader.door.sessions.list if name == "sessions" else getattr(reader.door, name)
        self.check(reader, name, await verb(limit=50))

    async def entities(self, reader: Reader) -> None:
        mark = self.chance.randrange(len(OWNERS))
        verb = self.chance.choice(("find_entities", "entity", "history", "neighbours"))
        names = (f"pilot zz{mark:02}qq", "mara", "harbour bakery")
        asked = self.chance.choice(names) if verb == "find_entities" else f"person/{self.chance.choice(names)}"
        try:
            found = await getattr(reader.door, verb)(asked)
        except NotFound:
            return
        self.check(reader, verb, found)

    async def of_session(self, reader: Reader) -> None:
        if not self.sessions:
            return
        session = self.chance.choice(self.sessions)
        try:
            self.check(reader, "turns", await reader.door.sessions.turns(session, limit=50))
            found = await reader.door.sessions.context(session, self._question(), k=10)
        except NotFound:
            assert not any(reads(reader.patterns, each) for each in self.owners[session])
            return
        self.check(reader, "session context", found)

    async def forget(self, reader: Reader) -> None:
        """By words that everybody may have said: what others said stays."""
        if not self.texts:
            return
        text, mark = self.chance.choice(self.texts)
        self.check(reader, "forget", await reader.door.forget(text, purge=self.chance.random() < 0.5))
        if not reads(reader.patterns, OWNERS[mark]):
            await self._still_there(mark)

    async def forget_of_others(self, reader: Reader) -> None:
        """By ids of rows that are not theirs: nothing goes."""
        mine = [(ref, mark) for ref, mark in self.refs[-20:] if not reads(reader.patterns, OWNERS[mark])]
        if not mine:
            return
        ref, mark = self.chance.choice(mine)
        owner = next((each for each in self.readers if reads(each.patterns, OWNERS[mark])), None)
        before = await self._finds(owner, ref)
        try:
            gone = await reader.door.forget(ids=[ref])
        except (NotFound, Forbidden):
            gone = None
        assert gone is None or gone.deleted == 0
        assert await self._finds(owner, ref) == before

    async def _still_there(self, mark: int) -> None:
        owner = next((each for each in self.readers if reads(each.patterns, OWNERS[mark])), None)
        if owner is not None:
            self.check(owner, "recall after", await owner.door.recall(f"zz{mark:02}qq", k=1))

    async def _finds(self, reader: Reader | None, ref: str) -> bool:
        try:
            return reader is not None and bool(await reader.door.inspect(ref))
        except NotFound:
            return False


def scopes_of(mark: int) -> list[list[str]]:
    """Scopes as a write names them, by mark."""
    return [[NAMES[mark]]] if mark < len(NAMES) else SHARED[mark - len(NAMES)]


OWNERS: Final = [owners_of(scopes_of(mark)) for mark in range(len(NAMES) + len(SHARED))]

KEYS_OF: Final = (*((name,) for name in NAMES), ("t/a/*",), ("t/a", "t/ab"), ("t/a", "t/A"), ("t/a/b", "t/a%"))
"""What keys are narrowed to: each owner, all below one, and some together."""
