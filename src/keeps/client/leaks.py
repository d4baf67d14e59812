"""Looking for leaks: a key for one owner's memories asks for everybody else's, through every door.

For every owner a temporary key is made that reads what is theirs and nothing else. It is asked with words and whole
texts of all others, and each answer is held against what that key may read.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from keeps.client import known as yardstick
from keeps.client.inventory import everything
from keeps.client.known import Known, Owners, Sample, bare, path_of, rare_words, strings
from keeps.client.verbs import Client, walk
from keeps.core.errors import Forbidden, NotFound
from keeps.wire.base import WireOut

MODES: Final = ("hybrid", "vector", "bm25", "graph")
KEY_TTL_S: Final = 3600
"""How long a temporary key lives should nobody be left to revoke it."""

MAX_HITS: Final = 50
_MOST_CHARS: Final = 2_000
_LEAST_CHARS: Final = 8
"""A shorter text is not looked for inside others: it stands in too many."""

_ID: Final = re.compile(r"(?<![a-z0-9])[a-z0-9]{20}(?![a-z0-9])")
_ENTITY: Final = re.compile(r"entity:[a-z]+/.+")

What = Literal["id", "text", "entity", "scope", "count"]


@dataclass(frozen=True, slots=True)
class Leak:
    """One thing a key was shown and may not see; never its text. `ref` is what it belongs to."""

    reader: str
    door: str
    what: What
    ref: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """A temporary key: the patterns it is narrowed to."""

    patterns: tuple[str, ...]

    def __str__(self) -> str:
        return " + ".join(self.patterns)


@dataclass(slots=True, kw_only=True)
class Looked:
    """What one key asked, saw, and should not have seen. `others`: how many it was asked about."""

    reader: Reader
    others: int = 0
    questions: int = 0
    rows: int = 0
    leaks: list[Leak] = field(default_factory=list[Leak])


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """`questions` about each other owner, and keys made at most."""

    questions: int = 3
    limit: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The whole look: one line a key, and how many keys there was no room for."""

    looked: Sequence[Looked]
    left_out: int

    @property
    def leaks(self) -> list[Leak]:
        """Every leak of every key."""
        return [leak for each in self.looked for leak in each.leaks]


def readers_of(known: Known) -> list[Reader]:
    """Keys worth trying: each owner alone, one half of those who own together, and those whose names begin alike."""
    wanted: dict[tuple[str, ...], None] = {}
    clauses = [clause for owners in known.owners() for clause in sorted(owners, key=sorted)]
    for clause in clauses:
        wanted[tuple(sorted(clause))] = None
    paths = sorted({path for clause in clauses for path in clause})
    for path in paths:
        wanted[(path,)] = None
    for path in paths:
        if path != yardstick.ROOT and any(other != path and other.startswith(path) for other in paths):
            wanted[(f"{path}/*",)] = None
    return [Reader(patterns=patterns) for patterns in wanted]


async def look_for_leaks(
    memory: Client,
    effort: Effort,
    *,
    connect: Callable[[str], Client],
    advance: Callable[[int, int], Any] = lambda done, total: None,
) -> Found:
    """Ask for what no key may see. `connect` opens the same memory with another key.

    The keys are revoked at the end, however it ends. Raises: Forbidden, Invalid when `memory` may make no keys.
    """
    known = Known()
    async for entry in everything(memory):
        known.add(entry)
    traces = {
        owners: (await memory.recall(known.samples[owners][0].text[:_MOST_CHARS])).trace.trace_id
        for owners in known.owners()
    }
    readers = readers_of(known)
    chosen = readers[: effort.limit]
    looked: list[Looked] = []
    for reader in chosen:
        advance(len(looked), len(chosen))
        looked.append(await _look(memory, known, reader, effort, connect, traces))
    advance(len(chosen), len(chosen))
    return Found(looked=looked, left_out=len(readers) - len(chosen))


async def _look(
    memory: Client,
    known: Known,
    reader: Reader,
    effort: Effort,
    connect: Callable[[str], Client],
    traces: Mapping[Owners, str],
) -> Looked:
    name = f"leakcheck-{secrets.token_hex(6)}"
    minted = await memory.keys.create(name, grants={"memory:read": reader.patterns}, ttl_s=KEY_TTL_S)
    try:
        async with connect(minted.key) as narrow:
            look = _Look(narrow, known, reader)
            for owners in known.owners():
                if not yardstick.reads(reader.patterns, owners):
                    await look.ask_about(known.samples[owners], effort.questions)
                    await look.ask_for_trace(traces[owners])
            await look.list_all()
            return look.looked
    finally:
        with suppress(NotFound):
            await memory.keys.delete(name)


class _Look:
    """One key going through the doors."""

    def __init__(self, memory: Client, known: Known, reader: Reader) -> None:
        self._memory = memory
        self._known = known
        self._patterns = reader.patterns
        self._judged: dict[tuple[What, str], bool] = {}
        self.looked = Looked(reader=reader)

    async def ask_about(self, samples: Sequence[Sample], questions: int) -> None:
        """Ask for rows of somebody else, by their words, texts, ids and names."""
        self.looked.others += 1
        for number in range(questions):
            sample = samples[number % len(samples)]
            text = sample.text[:_MOST_CHARS]
            # Whole texts and a few words in turn; once the samples are used up, the other way round.
            by_words = (number + number // len(samples)) % 2
            await self._question((rare_words(text) or text) if by_words else text, sample)
            await self._by_reference(sample)

    async def ask_for_trace(self, trace: str) -> None:
        """Ask how somebody else's question was answered; that they asked it is theirs too."""
        self.looked.questions += 1
        with suppress(NotFound, Forbidden):
            self._see("GET /traces/{id}", await self._memory.traces.get(trace))
            self._judge("GET /traces/{id}", "id", f"trace:{trace}", lambda: False)

    async def list_all(self) -> None:
        """Go through every list there is."""
        memory, known = self._memory, self._known
        readable = known.readable(self._patterns, known.counts)
        async for page in walk(memory.scopes.list):
            self._see("GET /scopes", page)
            for node in page.scopes:
                self._check_path("GET /scopes", node.path)
        self._see("GET /traces", await memory.traces.list())
        async for page in walk(memory.entities, count=True):
            self._see("GET /entities", page)
        for door, verb in (("facts", memory.facts), ("relations", memory.relations), ("actions", memory.actions)):
            async for page in walk(verb, count=True):
                self._see(f"GET /{door}", page)
                self._check_count(f"GET /{door}", "total", page.page.total_size, readable)
        async for page in walk(memory.sessions.list, count=True):
            self._see("GET /sessions", page)
            for session in page.sessions:
                turns = known.readable(self._patterns, known.turns.get(session.id, {}))
                self._check_count("GET /sessions", f"session:{session.id}", session.turn_count, turns)

    async def _question(self, question: str, sample: Sample) -> None:
        memory = self._memory
        for mode in MODES:
            answer = await memory.recall(question, k=MAX_HITS, mode=mode)
            self._see(f"POST /query {mode}", answer, sample)
            self._check_names(f"POST /query {mode}", answer.seed_entities)
        # Questions about the past go over superseded values too.
        past = await memory.recall(question, k=MAX_HITS, at_instant="2199-01-01T00:00:00Z")
        self._see("POST /query atInstant", past, sample)
        block = await memory.context(question, k=MAX_HITS)
        self._see("POST /context", block, sample)
        self.looked.questions += len(MODES) + 2

    async def _by_reference(self, sample: Sample) -> None:
        """Look the row up by everything it can be looked up by."""
        memory = self._memory
        await self._look_up("GET /inspect", lambda: memory.inspect(sample.ref), sample)
        await self._look_up("GET /traces", lambda: memory.traces.list(ref=sample.ref), sample)
        if sample.session is not None:
            session = sample.session
            await self._look_up("GET /sessions/{session}", lambda: memory.sessions.get(session), sample)
            await self._look_up("GET /sessions/{session}/turns", lambda: memory.sessions.turns(session), sample)
            await self._look_up("POST /sessions/{session}/context", lambda: self._context_of(session, sample), sample)
        if sample.entity is not None:
            entity = sample.entity
            name = entity.partition("/")[2]
            await self._look_up("GET /entities/search", lambda: memory.find_entities(name), sample)
            await self._look_up("GET /entities/{entity}", lambda: memory.entity(entity), sample)
            await self._look_up("GET /entities/{entity}/history", lambda: memory.history(entity, sample.key), sample)
            await self._look_up("GET /entities/{entity}/neighbourhood", lambda: memory.neighbours(entity), sample)

    async def _context_of(self, session: str, sample: Sample) -> str:
        return await self._memory.sessions.context(session, sample.text[:_MOST_CHARS])

    async def _look_up(self, door: str, verb: Callable[[], Awaitable[object]], sample: Sample) -> None:
        """One answer; that there is none is the right one."""
        self.looked.questions += 1
        with suppress(NotFound, Forbidden):
            self._see(door, await verb(), sample)

    def _see(self, door: str, answer: object, asked: Sample | None = None) -> None:
        """Hold one answer against what this key may read."""
        value: Any = answer.model_dump(mode="json", exclude_none=True) if isinstance(answer, WireOut) else answer
        wanted = bare(asked.text) if asked else ""
        for text in strings(value):
            for id_ in _ID.findall(text):
                if id_ in self._known.rows:
                    self.looked.rows += 1
                    self._judge(door, "id", id_, lambda id_=id_: self._known.reads_row(self._patterns, id_))
            if _ENTITY.fullmatch(text):
                self._judge(door, "entity", text, lambda text=text: self._reads_entity(text))
            said = bare(text)
            if asked and len(wanted) >= _LEAST_CHARS and wanted in said:
                self._judge(door, "text", asked.ref, lambda: self._known.says(self._patterns, wanted))
            for id_ in self._known.texts.get(said, ())[:1]:
                if len(said) >= _LEAST_CHARS:
                    self._judge(door, "text", id_, lambda said=said: self._known.says(self._patterns, said))
        self._check_members(door, value)

    def _check_members(self, door: str, value: object) -> None:
        """Scopes of rows, and how much is said to be known of an entity."""
        pending = [value]
        while pending:
            item = pending.pop()
            if isinstance(item, list | tuple):
                pending += item  # pyright: ignore[reportUnknownArgumentType]
            if not isinstance(item, dict):
                continue
            members: dict[str, Any] = item  # pyright: ignore[reportUnknownVariableType]
            pending += members.values()
            for name in ("scope", "scopes"):
                if isinstance(scope := members.get(name), list) and all(isinstance(clause, list) for clause in scope):  # pyright: ignore[reportUnknownVariableType]
                    for path in strings(scope):  # pyright: ignore[reportUnknownArgumentType]
                        self._check_path(door, path)
            if "factCount" in members:
                ref = members["entity"]["id"]
                most = self._known.readable(self._patterns, self._known.mentions.get(ref, {}))
                self._check_count(door, ref, members["factCount"], most)

    def _check_path(self, door: str, path: str) -> None:
        node = path_of(path)
        covered = any(yardstick.covers(pattern, node) for pattern in self._patterns)
        self._judge(door, "scope", node, lambda: covered)

    def _check_names(self, door: str, names: Sequence[str]) -> None:
        """Entities that a question was taken to name."""
        for name in names:
            refs = [ref for ref in self._known.mentions if ref.partition("/")[2] == name]
            if refs:
                self._judge(door, "entity", refs[0], lambda refs=refs: any(map(self._reads_entity, refs)))

    def _check_count(self, door: str, ref: str, told: int | None, most: int) -> None:
        self._judge(door, "count", ref, lambda: (told or 0) <= most)

    def _reads_entity(self, ref: str) -> bool:
        """A name that stands in a text which may be read is no secret."""
        if self._known.reads_entity(self._patterns, ref):
            return True
        return self._known.says(self._patterns, ref.partition("/")[2])

    def _judge(self, door: str, what: What, ref: str, fine: Callable[[], bool]) -> None:
        """Note a leak, once for each door. A row that was read once is not thought about again."""
        known = self._judged.get((what, ref)) if what in ("id", "entity", "scope") else None
        good = fine() if known is None else known
        if what in ("id", "entity", "scope"):
            self._judged[what, ref] = good
        leak = Leak(str(self.looked.reader), door, what, ref)
        if not good and leak not in self.looked.leaks:
            self.looked.leaks.append(leak)
