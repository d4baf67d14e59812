"""What a caller sees, kept in memory by whose it is: the yardstick an answer to another key is held against.

Who may read what is worked out here from the scopes of rows alone, with no code of the service, so that a fault there
cannot hide itself.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from keeps.client.inventory import Entry

Clause: TypeAlias = frozenset[str]
Owners: TypeAlias = frozenset[Clause]
"""Whose a row is: an OR of clauses, each an AND of paths; the root is `/`."""

ROOT: Final = "/"
SAMPLES: Final = 64
"""Rows of one owner that are kept to ask about, chosen evenly out of all."""

_WORD: Final = re.compile(r"\w+")
_FACTS: Final = {"fact": "attribute", "relation": "relates_to", "action": "action"}
_ENDS: Final = {"fact": ("entity",), "relation": ("subject", "object"), "action": ("actor", "object")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A row to ask about: its reference, its text, and what else it can be looked up by."""

    ref: str
    text: str
    entity: str | None = None
    key: str | None = None
    session: str | None = None


@dataclass(slots=True)
class Known:
    """All rows one caller sees. Fill it with `add`."""

    rows: dict[str, Owners] = field(default_factory=dict[str, Owners])
    texts: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Ids of the rows that say a text, by its bare form."""
    counts: Counter[Owners] = field(default_factory=Counter[Owners])
    samples: dict[Owners, list[Sample]] = field(default_factory=dict[Owners, list[Sample]])
    mentions: dict[str, Counter[Owners]] = field(default_factory=dict[str, Counter[Owners]])
    """How many rows of whom name an entity, by `entity:type/name`."""
    turns: dict[str, Counter[Owners]] = field(default_factory=dict[str, Counter[Owners]])
    """How many turns of whom a session has."""
    sessions: dict[str, Owners] = field(default_factory=dict[str, Owners])
    nodes: set[str] = field(default_factory=set[str])
    chance: random.Random = field(default_factory=lambda: random.Random(1))

    def add(self, entry: Entry) -> None:
        """Take one row up."""
        row = entry.members()
        match entry.kind:
            case "scope":
                self.nodes.add(path_of(row["path"]))
            case "entity":
                self.mentions.setdefault(row["id"], Counter())
            case "session":
                self.sessions[row["id"]] = self.rows[row["id"]] = owners_of(row["scopes"])
            case "turn":
                self._add_turn(row)
            case _:
                self._add_row(entry.kind, row)

    def owners(self) -> list[Owners]:
        """Everybody with rows of text, most rows first."""
        return sorted(self.counts, key=lambda owners: (-self.counts[owners], sorted(map(sorted, owners))))

    def reads_row(self, patterns: Sequence[str], id_: str) -> bool:
        """Whether a key over `patterns` may meet this id; True for one that is not known."""
        owners = self.rows.get(id_)
        if owners is None or reads(patterns, owners):
            return True
        return any(reads(patterns, each) for each in self.turns.get(id_, ()))

    def reads_entity(self, patterns: Sequence[str], ref: str) -> bool:
        """The same for an entity: some row that names it may be read. One that no row names is nobody's."""
        mentions = self.mentions.get(ref)
        return not mentions or any(reads(patterns, owners) for owners in mentions)

    def says(self, patterns: Sequence[str], text: str) -> bool:
        """Whether some text that may be read holds `text`, in any spelling of case and marks."""
        wanted = bare(text)
        return any(
            wanted in said and any(reads(patterns, self.rows[id_]) for id_ in ids) for said, ids in self.texts.items()
        )

    def readable(self, patterns: Sequence[str], counts: Mapping[Owners, int]) -> int:
        """How many of the counted things a key over `patterns` may read."""
        return sum(count for owners, count in counts.items() if reads(patterns, owners))

    def _add_turn(self, row: Mapping[str, Any]) -> None:
        scope = row.get("scope")
        owners = self.sessions[row["session"]] if scope is None else owners_of(scope)
        self.turns.setdefault(row["session"], Counter())[owners] += 1
        self._keep(owners, Sample(ref=f"turn:{row['id']}", text=row["content"], session=row["session"]))

    def _add_row(self, kind: str, row: Mapping[str, Any]) -> None:
        owners = owners_of(row["scope"])
        for end in _ENDS[kind]:
            if row.get(end) is not None:
                self.mentions.setdefault(row[end], Counter())[owners] += 1
        entity, key = row[_ENDS[kind][0]], row.get("key")
        text = row.get("summary") or row.get("value") or row["id"]
        self._keep(owners, Sample(ref=f"{_FACTS[kind]}:{row['id']}", text=text, entity=entity, key=key))

    def _keep(self, owners: Owners, sample: Sample) -> None:
        id_ = sample.ref.partition(":")[2]
        self.rows[id_] = owners
        self.texts.setdefault(bare(sample.text), []).append(id_)
        self.counts[owners] += 1
        kept = self.samples.setdefault(owners, [])
        place = len(kept) if len(kept) < SAMPLES else self.chance.randrange(self.counts[owners])
        kept[place : place + 1] = [sample] if place < SAMPLES else kept[place : place + 1]


def owners_of(scope: Iterable[Iterable[str]]) -> Owners:
    """Whose a row is, from its scope as the service writes it."""
    return frozenset(frozenset(map(path_of, clause)) for clause in scope) or frozenset({frozenset({ROOT})})


def path_of(text: str) -> str:
    """A path without the slashes around it; the root is `/`."""
    return text.strip("/") or ROOT


def covers(pattern: str, path: str) -> bool:
    """Whether a pattern, a path or one that ends in `/*`, covers a node; compared by whole segments."""
    below = pattern.endswith("/*")
    own, other = _segments(pattern[:-2] if below else pattern), _segments(path)
    return other[: len(own)] == own if below else other == own


def reads(patterns: Sequence[str], owners: Owners) -> bool:
    """Whether a key over `patterns` may read what belongs to `owners`: one clause lies in it whole."""
    return any(clause and all(any(covers(p, path) for p in patterns) for path in clause) for clause in owners)


def bare(text: str) -> str:
    """The letters and digits of a text and nothing else, in one case: what is left of it in any frame."""
    return "".join(_WORD.findall(text)).casefold()


def rare_words(text: str, limit: int = 3) -> str:
    """The longest words of a text: a question of a few words that finds it."""
    words = sorted(dict.fromkeys(_WORD.findall(text)), key=len, reverse=True)
    return " ".join(words[:limit])


def strings(value: object) -> Iterator[str]:
    """Every string in a JSON value, names of members left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for child in value.values():  # pyright: ignore[reportUnknownVariableType]
            yield from strings(child)  # pyright: ignore[reportUnknownArgumentType]
    elif isinstance(value, list | tuple):
        for child in value:  # pyright: ignore[reportUnknownVariableType]
            yield from strings(child)  # pyright: ignore[reportUnknownArgumentType]


def _segments(path: str) -> list[str]:
    return [segment for segment in path.split("/") if segment]
