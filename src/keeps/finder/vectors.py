"""The vector leg in memory: the vectors of one space, and which of some rows lie nearest to a question.

Answers do not depend on where a vector lies or what lies beside it. Values are 16-bit floats, so multiples of
2^-24; with a question rounded to multiples of 2^-26 every product and every sum of products of vectors of
length 1 fits a 64-bit float exactly, in whatever order they are added.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from keeps.finder.columns import Columns, Flags, Floats, Ints, grown

Singles = NDArray[np.float32]
Halves = NDArray[np.float16]
Words = NDArray[np.uint64]
Places = NDArray[np.intp]

_F = TypeVar("_F", np.float32, np.float64)

EXACT_ROWS: Final = 20_000
"""Up to so many rows each is compared with the question; above, only those whose signs agree most."""

CANDIDATES: Final = 8_000
"""How many rows at least, by their signs, are then compared exactly.

Of 100,000 vectors of 384 numbers, spread like those of texts, the exact ten first are all found and .96 of the exact
256; with 2,000 candidates it is .995 and .79, for 2 ms less.
"""

_AT_ONCE: Final = 2_048
"""Rows multiplied at once: a copy of them stays in the processor's cache."""

_BLUR: Final = 1e-5
"""More than what a cosine by 32-bit floats is wrong by."""

_GRID: Final = float(2**26)
_SIGN_BITS: Final = 64


MEAN_ROWS: Final = 512
"""The mean of so many rows stands for that of all; which, is decided by the keys of their entries."""


class Neighbour(NamedTuple):
    """A row, its cosine to the question, -1..1, and its product with the mean of the rows that may be found."""

    row: int
    cosine: float
    usual: float = 0.0


class Matrix:
    """The vectors of one space by row number. A slot that is given up is overwritten at once."""

    def __init__(self, dims: int, room: int = 0) -> None:
        self.dims = dims
        self._slots = 0
        self._free: list[int] = []
        self._place: Ints = np.zeros(0, np.int32)  # of each row: its slot + 1, or 0
        self._matrix: Singles = np.zeros((room, dims), np.float32)
        self._signs: Words = np.zeros((_words(dims), room), np.uint64)

    def put(self, rows: Sequence[int], values: Halves) -> None:
        """Take the vectors of `rows`, one a line of `values`; those that are there are replaced."""
        if not len(rows):
            return
        self._reserve_rows(max(rows) + 1)
        slots = np.array([self._slot(row) for row in rows], np.intp)
        lines = values.astype(np.float32)
        self._matrix[slots] = lines
        self._signs[:, slots] = _signs(lines)

    def move(self, old: int, new: int) -> None:
        """Let the vector of row `old`, if there is one, be that of row `new`."""
        place = self._place[old] if old < len(self._place) else 0
        if place:
            self._reserve_rows(new + 1)
            self._place[new], self._place[old] = place, 0

    def remove(self, row: int) -> None:
        """Forget the vector of a row, if there is one."""
        slot = int(self._place[row]) - 1 if row < len(self._place) else -1
        if slot >= 0:
            self._matrix[slot] = 0
            self._signs[:, slot] = 0
            self._place[row] = 0
            self._free.append(slot)

    def holds(self, size: int) -> Flags:
        """Of each of the first `size` rows, whether its vector is there."""
        self._reserve_rows(size)
        return self._place[:size] > 0

    def nearest(self, question: Singles, rows: Ints, columns: Columns, limit: int, copies: int = 0) -> list[Neighbour]:
        """The `limit` of `rows`, which all have vectors, that are nearest, and only the nearest of each group; of
        those that say the same `copies` at most, unless that is 0.

        Nearest first; of equal ones the newest, then by what only the entry's key decides.
        """
        if not len(rows) or limit <= 0:
            return []
        count = max(CANDIDATES, 4 * limit)
        while len(rows) > EXACT_ROWS:
            some = rows[self._agreeing(question, rows, count)]
            found = self._nearest(question, some, columns, limit, copies)
            if len(found) == limit or len(some) == len(rows):
                return found
            count *= 8  # most of those were units of one row, or say the same
        return self._nearest(question, rows, columns, limit, copies)

    def _nearest(self, question: Singles, rows: Ints, columns: Columns, limit: int, copies: int) -> list[Neighbour]:
        rough = self._rough(question, rows)
        room = limit * 2
        while True:
            if len(rows) > room:
                floor = np.partition(rough, len(rough) - room)[len(rough) - room]
                some = rows[rough >= floor - _BLUR]
            else:
                some = rows
            exact = self.cosines(question, some)
            order = np.lexsort((columns.tie[some], -columns.at[some], -exact))
            if len(some) < len(rows):
                order = order[:room]  # behind these, one that was left out might come first
            leading = order[columns.leading(some[order], limit, copies)]
            if len(leading) == limit or len(some) == len(rows):
                return [
                    Neighbour(row, cosine)
                    for row, cosine in zip(some[leading].tolist(), exact[leading].tolist(), strict=True)
                ]
            room *= 4

    def with_usual(self, found: Sequence[Neighbour], among: Ints, columns: Columns) -> list[Neighbour]:
        """`found`, each with its product with the mean of the rows `among`, which all have vectors."""
        if not found:
            return []
        if len(among) > MEAN_ROWS:
            among = among[np.argpartition(columns.tie[among], MEAN_ROWS)[:MEAN_ROWS]]
        # Sums of multiples of 2^-24 are exact, so the mean does not depend on the order of rows.
        mean = self._matrix[self._place[among] - 1].sum(axis=0, dtype=np.float64) / len(among)
        usual = self._products(mean, np.array([hit.row for hit in found], np.int32)).tolist()
        return [Neighbour(row, cosine, value) for (row, cosine, _), value in zip(found, usual, strict=True)]

    def cosines(self, question: Singles, rows: Ints) -> Floats:
        """The cosine of each of `rows`, which all have vectors: the same number wherever it is reckoned."""
        return np.clip(self._products(question.astype(np.float64), rows), -1.0, 1.0)

    def _products(self, question: Floats, rows: Ints) -> Floats:
        """The products of `rows` with a vector not longer than 1, exactly, once that is rounded."""
        rounded = np.rint(question * _GRID) / _GRID
        return _times(self._matrix[self._place[rows] - 1].astype(np.float64), rounded)

    def _rough(self, question: Singles, rows: Ints) -> Singles:
        """Cosines that may be wrong in the last digits."""
        slots = self._place[rows] - 1
        if len(slots) * 2 > self._slots:
            return _times(self._matrix[: self._slots], question)[slots]
        found = np.empty(len(slots), np.float32)
        for start in range(0, len(slots), _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            found[some] = _times(self._matrix[slots[some]], question)
        return found

    def _agreeing(self, question: Singles, rows: Ints, count: int) -> Places:
        """Places in `rows` of the `count` that share most signs with the question, and of all that equal the last."""
        slots = self._place[rows] - 1
        everywhere = len(slots) * 2 > self._slots
        apart = np.zeros(self._slots if everywhere else len(slots), np.uint16)
        for own, asked in zip(self._signs, _signs(question[np.newaxis])[:, 0], strict=True):
            apart += np.bitwise_count((own[: self._slots] if everywhere else own[slots]) ^ asked)
        if everywhere:
            apart = apart[slots]
        far = int(np.searchsorted(np.cumsum(np.bincount(apart)), count))
        return np.flatnonzero(apart <= far)

    def _slot(self, row: int) -> int:
        if not self._place[row]:
            if self._free:
                self._place[row] = self._free.pop() + 1
            else:
                self._reserve_slots(self._slots + 1)
                self._slots += 1
                self._place[row] = self._slots
        return int(self._place[row]) - 1

    def _reserve_rows(self, size: int) -> None:
        if size > len(self._place):
            self._place = grown(self._place, max(1024, size + size // 2))

    def _reserve_slots(self, size: int) -> None:
        if size > len(self._matrix):
            room = max(256, size + size // 4)
            matrix = np.zeros((room, self.dims), np.float32)
            matrix[: self._slots] = self._matrix[: self._slots]
            self._matrix = matrix
            signs = np.zeros((len(self._signs), room), np.uint64)
            signs[:, : self._slots] = self._signs[:, : self._slots]
            self._signs = signs


def _times(lines: NDArray[_F], vector: NDArray[_F]) -> NDArray[_F]:
    """The product of each line with a vector, in this thread.

    `@` would share so small a piece of work with other threads, which wait for each other on a busy machine.
    """
    return np.einsum("ij,j->i", lines, vector)


def _words(dims: int) -> int:
    return -(-dims // _SIGN_BITS)


def _signs(values: Singles) -> Words:
    """The signs of vectors as bits: a column of words a vector."""
    bits = np.zeros((len(values), _words(values.shape[1]) * _SIGN_BITS), np.bool_)
    bits[:, : values.shape[1]] = values >= 0
    return np.ascontiguousarray(np.packbits(bits, axis=1).view(np.uint64).T)
