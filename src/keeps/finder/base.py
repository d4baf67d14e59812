"""What a finder is: a rebuildable index that answers with ids and scores only. The record is the truth."""

from __future__ import annotations

from collections.abc import AsyncIterable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from keeps.core.sessions import Past
from keeps.core.spaces import Coverage, Point, Space

Kind = Literal["passage", "fact"]
ALL_KINDS: Final[frozenset[Kind]] = frozenset({"passage", "fact"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Only:
    """What may be found, besides kinds and scope sets: rows with all `labels`; with `live` those alone that are not
    closed; with `past` those passages alone that it shows."""

    labels: frozenset[str] = frozenset()
    live: bool = True
    past: Past | None = None


ANY: Final = Only()


class FinderLost(Exception):
    """The index was damaged and is thrown away: rebuild it from the record, then go on."""


class FinderFull(FinderLost):
    """There is no room for what the index should take. It stays as it was, and answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One searchable unit, as the record hands it over."""

    ref: str  # the row it stands for: "turn:<id>", "attribute:<id>", "action:<id>" …
    unit: str  # key of the entry: "memory_chunk:<id>" for a chunk of a turn, else equal to `ref`
    kind: Kind
    scope_set: str
    text: str  # own text, for a turn with the speaker's name in front
    before: str = ""  # text of the previous turn, when it may stand in this one's window
    window_of: str | None = None  # the "turn:<id>" that `before` came from
    labels: frozenset[str] = frozenset()
    live: bool = True  # False: superseded or closed, found by questions about the past only
    at: int = 0  # when it became known, microseconds since 1970: of equal answers the newest comes first
    meaning: str | None = None  # what its vector is made of; None: it has no vector
    assistant: bool = False  # True: said by an assistant, not by a person
    session: str = ""  # of a passage: the conversation it belongs to
    voice: str = ""  # who said it, or what it is about: in another mouth the same words say something else


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """A name of an entity in rows of one scope set, normalised (NFC, case fold, single spaces)."""

    entity: str
    scope_set: str
    name: str


@dataclass(frozen=True, slots=True)
class Found:
    """One row that answers, by its best unit."""

    ref: str
    unit: str
    rank: float  # BM25, for the order; comparable within one answer only
    share: float  # 0..1: how much of the question was found, each word weighted by its rarity
    assistant: bool = False
    asks: bool = False  # it is a passage in which a question is asked
    before: str | None = None  # ref of the turn before it, when that stands in its window
    named: float = 0.0  # the part of `share` that is names of people who speak here


@dataclass(frozen=True, slots=True)
class Near:
    """One row whose meaning is near a question's, by its nearest unit."""

    ref: str
    unit: str
    cosine: float  # -1..1, of vectors as they are stored
    assistant: bool = False
    asks: bool = False  # it is a passage in which a question is asked
    usual: float = 0.0  # the same of the mean of what may be found: how near it is to any question
    before: str | None = None  # ref of the turn before it, when that stands in its window


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """Vectors out of the record, for an index that is built: by unit, little-endian 16-bit floats."""

    space: Space
    vectors: Mapping[str, bytes]


class Finder(Protocol):
    """Search over the rows of one context. Each method may raise `FinderLost`."""

    async def applied(self) -> int | None:
        """The number of the last change that is in the index; None when it must be rebuilt."""
        ...

    async def apply(
        self,
        change: int,
        *,
        put: Sequence[Entry] = (),
        drop: Sequence[str] = (),
        names: Sequence[Name] = (),
        drop_names: Sequence[Name] = (),
        after: int | None = None,
    ) -> bool:
        """Drop the entries of the refs in `drop`, then put `put` (replacing equal units); all or nothing.

        With `after` only when that is the last change in the index; False: it is not, and nothing was done.
        """
        ...

    async def neighbours(self, refs: Sequence[str]) -> list[str]:
        """Refs of the entries whose window holds text of one of `refs`."""
        ...

    async def find(
        self,
        query: str,
        scope_sets: Collection[str],
        *,
        kinds: Collection[Kind] = ALL_KINDS,
        only: Only = ANY,
        limit: int = 256,
        copies: int = 0,
    ) -> list[Found]:
        """The best `limit` rows in `scope_sets` that hold words of `query` and that `only` lets through, best first.

        Of those that say the same `copies` at most, unless that is 0.

        Of equal ones the newest comes first, then their keys decide: an index built anew answers in the same order.
        Nothing outside `scope_sets` changes what is found, its order or its scores; neither does a passage that may
        not be found.
        """
        ...

    async def spaces(self) -> list[Coverage]:
        """The spaces the index holds vectors of, oldest first."""
        ...

    async def begin_space(self, space: Space) -> None:
        """Make room for the vectors of a space; nothing when it is there."""
        ...

    async def drop_space(self, space: Space) -> None:
        """Throw all vectors of a space away, with their bytes; nothing when it is not there."""
        ...

    async def put_vectors(
        self, space: Space, vectors: Mapping[str, bytes], *, meanings: Mapping[str, str] | None = None
    ) -> int:
        """Take vectors by unit, little-endian 16-bit floats of length 1; how many were taken.

        A unit that is not (or no longer) in the index, or a space that is not there, is passed over; so is one
        whose entry no longer means what `meanings` says that its vector was made of.

        Raises:
            ValueError: one is of another length than the space's, or holds what is no number.
        """
        ...

    async def lacking(
        self, space: Space, scope_sets: Collection[str] | None = None, *, limit: int = 256
    ) -> list[tuple[str, str]]:
        """(ref, unit) of entries that should have a vector of `space` and have none.

        The oldest of each scope set come first, then the next oldest of each: none waits for all of another. Only those
        in `scope_sets`; None: in all. Of a space that is not there all are missing.
        """
        ...

    async def near(
        self,
        question: Point,
        scope_sets: Collection[str],
        *,
        kinds: Collection[Kind] = ALL_KINDS,
        only: Only = ANY,
        limit: int = 256,
        also: Collection[str] = (),
        copies: int = 0,
    ) -> list[Near]:
        """The `limit` rows in `scope_sets` nearest to `question`, nearest first, then those of the refs `also`
        that are not among them, as far as they have vectors and may be found.

        Of the nearest that say the same `copies` at most, unless that is 0.

        Of equal ones the newest comes first, then their keys
        decide. Nothing outside `scope_sets` changes what is found. A space that is not there finds nothing.
        """
        ...

    async def names_in(self, query: str, scope_sets: Collection[str]) -> list[Name]:
        """Names of entities that `query` mentions, longest match first from left to right."""
        ...

    async def rebuild(self, context: str, entries: AsyncIterable[Entry | Name | Stored], change: int) -> None:
        """Build anew from `entries`, the state of the record at `change` or later, and swap it in.

        Vectors come after the entries they belong to; their spaces are begun with them. Changes applied meanwhile
        are applied to the new index too.
        """
        ...

    async def scrub(self) -> None:
        """Leave no byte of dropped text in any file of the index."""
        ...

    async def close(self) -> None:
        """Close cleanly; nothing else may be called afterwards."""
        ...
