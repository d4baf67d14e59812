"""The vectors in the index's file: which there are, those that are missing, and the matrices made of them.

A matrix is read from the file when it is first asked; until then a space costs nothing in memory.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from keeps.core.spaces import Coverage, Space
from keeps.finder.columns import Columns, Flags, Wanted, grown
from keeps.finder.vectors import Halves, Matrix, Neighbour, Singles

TABLES: Final = """
    CREATE TABLE space(number INTEGER PRIMARY KEY, model TEXT NOT NULL, dims INTEGER NOT NULL, UNIQUE(model, dims));
    CREATE TABLE vector(key INTEGER PRIMARY KEY, bytes BLOB NOT NULL);
"""
"""`vector.key` is the number of the space, then that of the row: two columns for it would cost more bytes."""

_ROW_BITS: Final = 40
SPACE_OF_KEY: Final = f"(key >> {_ROW_BITS})"
ROW_OF_KEY: Final = f"(key & {(1 << _ROW_BITS) - 1})"
"""How SQL reads a key."""

_READ: Final = 4_096
HALF: Final = np.dtype("<f2")
SINGLE: Final = np.dtype("<f4")


@dataclass(slots=True)
class _Held:
    """Of one space: its number, the rows that have a vector, and the matrix once it was asked for."""

    number: int
    rows: Flags
    count: int
    matrix: Matrix | None = None

    def mark(self, row: int, *, there: bool) -> None:
        """Note whether a row has a vector."""
        if row >= len(self.rows):
            self.rows = grown(self.rows, max(1024, row + 1 + row // 2))
        self.count += int(there) - int(self.rows[row])
        self.rows[row] = there

    def has(self, row: int) -> bool:
        """Whether a row has a vector."""
        return row < len(self.rows) and bool(self.rows[row])

    def among(self, size: int) -> Flags:
        """Of each of the first `size` rows, whether it has a vector."""
        if size > len(self.rows):
            self.rows = grown(self.rows, size + size // 2)
        return self.rows[:size]


class VectorTable:
    """The vectors of every space, by the row numbers of the index. What changes is in two steps: first the file,
    within a transaction of the caller; once that is committed, memory."""

    def __init__(self, connection: sqlite3.Connection, columns: Columns) -> None:
        self._db = connection
        self._columns = columns
        self._held: dict[int, _Held] = {}
        self.numbers: dict[Space, int] = {
            Space(model, dims): number
            for number, model, dims in connection.execute("SELECT number, model, dims FROM space ORDER BY number")
        }

    def coverage(self) -> list[Coverage]:
        """How far each space is, oldest first."""
        return [
            Coverage(space, self._columns.wanting, self._of(number).count) for space, number in self.numbers.items()
        ]

    def write_space(self, space: Space) -> int:
        """Note a space in the file; its number."""
        number = self._db.execute("SELECT COALESCE(MAX(number), 0) + 1 FROM space").fetchone()[0]
        self._db.execute("INSERT INTO space VALUES (?, ?, ?)", (number, space.model, space.dims))
        return number

    def erase_space(self, number: int) -> None:
        """Delete a space and its vectors from the file."""
        self._db.execute("DELETE FROM vector WHERE key >= ? AND key < ?", (_key(number, 0), _key(number + 1, 0)))
        self._db.execute("DELETE FROM space WHERE number = ?", (number,))

    def write(self, space: Space, vectors: Mapping[int, bytes]) -> None:
        """Write vectors by row into the file."""
        number = self.numbers[space]
        self._db.executemany(
            "INSERT OR REPLACE INTO vector VALUES (?, ?)",
            [(_key(number, row), content) for row, content in vectors.items()],
        )

    def erase_rows(self, gone: Sequence[int], moved: Mapping[int, int]) -> None:
        """Delete the vectors of rows from the file, but let those of `moved` be the vectors of other rows."""
        rows = [row for row in gone if row not in moved]
        for number in self.numbers.values():
            self._db.executemany("DELETE FROM vector WHERE key = ?", [(_key(number, row),) for row in rows])
            self._db.executemany(
                "UPDATE vector SET key = ? WHERE key = ?",
                [(_key(number, new), _key(number, old)) for old, new in moved.items()],
            )

    # ------------------------------------------------------------------ memory follows
    def spaces_changed(self) -> None:
        """Read again which spaces there are."""
        self.numbers = {
            Space(model, dims): number
            for number, model, dims in self._db.execute("SELECT number, model, dims FROM space ORDER BY number")
        }
        there = set(self.numbers.values())
        self._held = {number: held for number, held in self._held.items() if number in there}

    def written(self, space: Space, vectors: Mapping[int, bytes]) -> None:
        """Take what `write` wrote."""
        held = self._held.get(self.numbers[space])
        if held is None or not vectors:
            return
        for row in vectors:
            held.mark(row, there=True)
        if held.matrix is not None:
            held.matrix.put(list(vectors), _values(vectors.values(), space.dims))

    def rows_erased(self, gone: Sequence[int], moved: Mapping[int, int]) -> None:
        """Take what `erase_rows` did."""
        for held in self._held.values():
            for row in gone:
                there, new = held.has(row), moved.get(row)
                held.mark(row, there=False)
                if new is not None and there:
                    held.mark(new, there=True)
                if held.matrix is not None and new is not None:
                    held.matrix.move(row, new)
                elif held.matrix is not None:
                    held.matrix.remove(row)

    # ------------------------------------------------------------------ reading
    def lacking(self, space: Space, scope_sets: Collection[int] | None, limit: int) -> list[int]:
        """Rows that should have a vector of `space` and have none: all, where the space is not there.

        The oldest of each scope set come first, then the next oldest of each: none waits for all of another.
        """
        number, columns = self.numbers.get(space), self._columns
        held = self._of(number) if number is not None else None
        if limit <= 0 or columns.wanting <= (held.count if held is not None else 0):
            return []
        missing = columns.meant[: columns.size].copy()
        if held is not None:
            missing &= ~held.among(columns.size)
        if scope_sets is not None:
            missing &= columns.within(scope_sets)
        rows = np.flatnonzero(missing)
        sets = columns.set_of(rows)
        if len(rows) > limit and (sets == sets[0]).all():
            at = columns.at[rows]
            rows = rows[at <= np.partition(at, limit - 1)[limit - 1]]
            sets = columns.set_of(rows)
        order = np.lexsort((columns.tie[rows], columns.at[rows], sets))
        rows, sets = rows[order], sets[order]
        begins = np.flatnonzero(np.diff(sets, prepend=-1))
        turn = np.arange(len(rows)) - np.repeat(begins, np.diff(begins, append=len(rows)))
        rows, turn = rows[turn < limit], turn[turn < limit]
        return rows[np.lexsort((columns.tie[rows], columns.at[rows], turn))][:limit].tolist()

    def near(self, space: Space, question: Singles, wanted: Wanted, also: Collection[int]) -> list[Neighbour]:
        """The rows nearest to `question`, then the nearest of each further group among the rows `also`."""
        matrix = self._matrix(space)
        columns = self._columns
        allowed = columns.fitting(wanted)
        allowed &= matrix.holds(columns.size)
        rows = np.flatnonzero(allowed).astype(np.int32)
        found = matrix.nearest(question, rows, columns, wanted.limit, wanted.copies)
        seen = {int(columns.group[hit.row]) for hit in found}
        more = [row for row in also if allowed[row] and int(columns.group[row]) not in seen]
        if more:
            found += matrix.nearest(question, np.array(sorted(more), np.int32), columns, len(more))
        return matrix.with_usual(found, rows, columns)

    def _matrix(self, space: Space) -> Matrix:
        held = self._of(self.numbers[space])
        if held.matrix is None:
            matrix = Matrix(space.dims, held.count)
            for rows, contents in self._stored(held.number):
                matrix.put(rows, _values(contents, space.dims))
            held.matrix = matrix
        return held.matrix

    def _of(self, number: int) -> _Held:
        held = self._held.get(number)
        if held is None:
            held = self._held[number] = _Held(number, np.zeros(self._columns.size, np.bool_), 0)
            query = "SELECT key FROM vector WHERE key >= ? AND key < ?"
            for (key,) in self._db.execute(query, (_key(number, 0), _key(number + 1, 0))):
                held.mark(key - _key(number, 0), there=True)
        return held

    def _stored(self, number: int) -> Iterable[tuple[list[int], list[bytes]]]:
        """The rows and vectors of a space in the file, some at a time."""
        query = "SELECT key, bytes FROM vector WHERE key >= ? AND key < ? ORDER BY key"
        read = self._db.execute(query, (_key(number, 0), _key(number + 1, 0)))
        while some := read.fetchmany(_READ):
            yield [key - _key(number, 0) for key, _ in some], [content for _, content in some]


def usable(content: bytes, dims: int) -> bool:
    """True for a vector of `dims` numbers that are finite."""
    return len(content) == dims * HALF.itemsize and bool(np.isfinite(np.frombuffer(content, HALF)).all())


def _key(number: int, row: int) -> int:
    return (number << _ROW_BITS) | row


def _values(contents: Iterable[bytes], dims: int) -> Halves:
    """Vectors as lines of a matrix."""
    joined = b"".join(contents)
    if len(joined) % (dims * HALF.itemsize):
        raise sqlite3.DatabaseError("a vector of another length")
    return np.frombuffer(joined, HALF).reshape(-1, dims).astype(np.float16, copy=False)
