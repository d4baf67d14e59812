"""One value a row in memory: what decides whether an entry of the index may be found, by words or by meaning."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from keeps.core import ranking

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

_T = TypeVar("_T", bound=np.generic)

GONE: Final = 0
CLOSED: Final = 1
LIVE: Final = 2


def tie_of(unit: str) -> int:
    """A number by which equal answers are put in order: it depends on the key of the entry alone."""
    return int.from_bytes(hashlib.blake2b(unit.encode(), digest_size=8).digest(), signed=True)


class Row(NamedTuple):
    """What the ranking needs to know of one entry."""

    row: int
    scope_set: int
    group: int  # equal for the units of one ref
    kind: int
    live: bool
    words: int
    before: int
    labels: frozenset[str]
    at: int
    tie: int
    assistant: bool = False
    meant: bool = False  # it should have a vector
    asks: bool = False  # a question is asked in it
    named: bool = False  # the name of who said it stands in front
    copy: int = 0  # equal for entries that say the same
    session: int = 0  # of a passage: equal for those of one conversation


@dataclass(frozen=True, slots=True)
class Heard:
    """Which passages may be found: those of some sessions, and all in some scope sets."""

    sessions: frozenset[int]
    scope_sets: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which rows may be found, and how many. `copies`: how many that say the same, 0 for any number;
    `terms`: how many the question has.

    `given_up` turns true when nobody waits for the answer any more. `past` None: passages are found like all else."""

    scope_sets: Collection[int]
    kinds: frozenset[int]
    labels: frozenset[str]
    live_only: bool
    limit: int
    copies: int = 0
    terms: int = 1
    past: Heard | None = None
    given_up: Callable[[], bool] = bool  # `bool()` is False


class Columns:
    """One value a row in each of several arrays, indexed by row number."""

    def __init__(self) -> None:
        self.size = 0
        self.state: Bytes = np.zeros(0, np.uint8)
        self.kind: Bytes = np.zeros(0, np.uint8)
        self.group: Ints = np.zeros(0, np.int32)
        self.label_set: Ints = np.zeros(0, np.int32)
        self.at: Longs = np.zeros(0, np.int64)
        self.tie: Longs = np.zeros(0, np.int64)
        self.assistant: Flags = np.zeros(0, np.bool_)
        self.asks: Flags = np.zeros(0, np.bool_)
        self.named: Flags = np.zeros(0, np.bool_)
        self.copy: Longs = np.zeros(0, np.int64)
        self.session: Longs = np.zeros(0, np.int64)
        self.meant: Flags = np.zeros(0, np.bool_)
        self.hurdle: Floats = np.zeros(0, np.float64)  # what occurrences are set against: rises with length
        self.label_sets: list[frozenset[str]] = [frozenset()]
        self.scope_sets = 0
        self.wanting = 0
        """How many rows should have a vector."""
        self._label_numbers: dict[frozenset[str], int] = {frozenset(): 0}
        self._scope_set: Ints = np.zeros(0, np.int32)
        self._totals: Counter[tuple[int, int]] = Counter()

    def add(self, row: Row) -> None:
        """Take a new row; numbers only grow."""
        at = row.row
        self._reserve(at + 1)
        self.state[at] = LIVE if row.live else CLOSED
        self.kind[at] = row.kind
        self.group[at] = row.group
        self.label_set[at] = self._label_number(row.labels)
        self.at[at] = row.at
        self.tie[at] = row.tie
        self.assistant[at] = row.assistant
        self.asks[at] = row.asks
        self.named[at] = row.named
        self.copy[at] = row.copy
        self.session[at] = row.session
        self.meant[at] = row.meant
        self.wanting += row.meant
        self.hurdle[at] = ranking.hurdle(ranking.occurrences(row.words, row.before))
        self._scope_set[at] = row.scope_set
        self.scope_sets = max(self.scope_sets, row.scope_set)
        self._count(at, 1)

    def remove(self, row: int) -> None:
        """Forget a row; its number is not used again."""
        self._count(row, -1)
        self.state[row] = GONE
        self.wanting -= int(self.meant[row])
        self.meant[row] = False

    def total(self, scope_sets: Iterable[int], *, live_only: bool) -> int:
        """The number of texts in `scope_sets`, found or not."""
        states = (LIVE,) if live_only else (LIVE, CLOSED)
        return sum(self._totals[number, state] for number in scope_sets for state in states)

    def texts(self, wanted: Wanted) -> int:
        """The number of texts among which is searched: those that may not be found do not count."""
        if wanted.past is None:
            return self.total(wanted.scope_sets, live_only=wanted.live_only)
        there = self.within(wanted.scope_sets)
        there &= self.state[: self.size] >= (LIVE if wanted.live_only else CLOSED)
        return int(np.count_nonzero(self.heard(np.flatnonzero(there).astype(np.int32), wanted.past)))

    def fitting(self, wanted: Wanted) -> Flags:
        """Of each row, whether it may be found."""
        keep = self.within(wanted.scope_sets)
        keep &= self.state[: self.size] >= (LIVE if wanted.live_only else CLOSED)
        kinds = np.zeros(256, np.bool_)
        kinds[list(wanted.kinds)] = True
        keep &= kinds[self.kind[: self.size]]
        if wanted.labels:
            labelled = np.array([wanted.labels <= have for have in self.label_sets], np.bool_)
            keep &= labelled[self.label_set[: self.size]]
        if wanted.past is not None:
            keep &= self.heard(np.arange(self.size, dtype=np.int32), wanted.past)
        return keep

    def heard(self, rows: Ints, past: Heard) -> Flags:
        """Of each of `rows`, whether it may be found as far as it was said: what was not said always may."""
        open_sets = np.zeros(self.scope_sets + 1, np.bool_)
        open_sets[[number for number in past.scope_sets if number <= self.scope_sets]] = True
        shown = (self.session[rows] == 0) | open_sets[self._scope_set[rows]]
        if past.sessions:
            shown |= np.isin(self.session[rows], np.fromiter(past.sessions, np.int64, len(past.sessions)))
        return shown

    def leading(self, rows: Ints, limit: int, copies: int) -> list[int]:
        """Places in `rows`, best first, of the best of each group: `limit` at most, and of those that say the same
        `copies` at most, unless that is 0."""
        places = np.sort(np.unique(self.group[rows], return_index=True)[1])
        if copies and len(places) > copies:
            said = self.copy[rows[places]]
            order = np.argsort(said, kind="stable")
            begins = np.flatnonzero(np.concatenate([[True], np.diff(said[order]) != 0]))
            turn = np.arange(len(order)) - np.repeat(begins, np.diff(begins, append=len(order)))
            places = places[np.sort(order[turn < copies])]
        return places[:limit].tolist()

    def within(self, scope_sets: Collection[int]) -> Flags:
        """Of each row, whether it lies in one of `scope_sets`."""
        readable = np.zeros(self.scope_sets + 1, np.bool_)
        readable[[number for number in scope_sets if number <= self.scope_sets]] = True
        return readable[self._scope_set[: self.size]]

    def set_of(self, rows: Longs) -> Ints:
        """The scope set of each of `rows`."""
        return self._scope_set[rows]

    def _count(self, at: int, sign: int) -> None:
        self._totals[int(self._scope_set[at]), int(self.state[at])] += sign

    def _label_number(self, labels: frozenset[str]) -> int:
        number = self._label_numbers.get(labels)
        if number is None:
            number = len(self.label_sets)
            self._label_numbers[labels] = number
            self.label_sets.append(labels)
        return number

    def _reserve(self, size: int) -> None:
        if size > len(self.state):
            room = max(1024, size + size // 2)
            self.state = grown(self.state, room)
            self.kind = grown(self.kind, room)
            self.group = grown(self.group, room)
            self.label_set = grown(self.label_set, room)
            self.at = grown(self.at, room)
            self.tie = grown(self.tie, room)
            self.assistant = grown(self.assistant, room)
            self.asks = grown(self.asks, room)
            self.named = grown(self.named, room)
            self.copy = grown(self.copy, room)
            self.session = grown(self.session, room)
            self.meant = grown(self.meant, room)
            self.hurdle = grown(self.hurdle, room)
            self._scope_set = grown(self._scope_set, room)
        self.size = max(self.size, size)


def grown(old: NDArray[_T], room: int) -> NDArray[_T]:
    """`old` with zeros behind it up to `room` values."""
    new = np.zeros(room, old.dtype)
    new[: len(old)] = old
    return new
