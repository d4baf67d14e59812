"""How a term stands in the full-text table, and how its postings are read back.

A token is `<term> U+E000 <scope set> U+E001 <count><count>`: the term, the number of the scope set in base
36, and how often the term stands in the text and in the one before it, a base 36 digit each. So a look-up
names the scope set it reads, and the postings of other scope sets are not visited. Terms are made of letters,
marks and digits only, so no text can forge a mark.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import numpy as np

from keeps.finder.text import Ints, Postings

TABLES: Final = """
    CREATE VIRTUAL TABLE word USING fts5(
        terms, content='', columnsize=0, detail=none, tokenize='ascii'
    );
    CREATE VIRTUAL TABLE term USING fts5vocab(word, 'row');
    CREATE VIRTUAL TABLE instance USING fts5vocab(word, 'instance');
"""

_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
MAX_COUNT: Final = len(_DIGITS) - 1

_SET_MARK: Final = "\ue000"
_COUNT_MARK: Final = "\ue001"
_AFTER_COUNT_MARK: Final = "\ue002"
_FEW_SETS: Final = 4

_ANY: Final = "SELECT 1 FROM term WHERE term >= ? AND term < ? LIMIT 1"
_INSTANCES: Final = "SELECT term, doc FROM instance WHERE term >= ? AND term < ?"
_TOKENS: Final = "SELECT term FROM term WHERE term >= ? AND term < ?"
_ROWS: Final = "SELECT rowid FROM word WHERE word MATCH ?"


def packed(counts: Mapping[str, tuple[int, int]]) -> str:
    """The terms of an entry with their counts, to be stored: what is needed to take them out again."""
    return " ".join(f"{term}:{_DIGITS[own]}{_DIGITS[before]}" for term, (own, before) in counts.items())


def body(terms: str, scope_set: int) -> str:
    """The tokens of an entry, from its packed terms."""
    return terms.replace(":", f"{_SET_MARK}{_base36(scope_set)}{_COUNT_MARK}")


def read(db: sqlite3.Connection, term: str, scope_sets: Collection[int] | None) -> Mapping[int, Postings]:
    """The postings of `term` by scope set; of all scope sets when None."""
    if scope_sets is None:
        return _grouped(db.execute(_INSTANCES, (term + _SET_MARK, term + _COUNT_MARK)))
    found: dict[int, Postings] = {}
    if len(scope_sets) > 1 and not db.execute(_ANY, (term + _SET_MARK, term + _COUNT_MARK)).fetchall():
        return found
    for number in scope_sets:
        token = f"{term}{_SET_MARK}{_base36(number)}"
        bounds = token + _COUNT_MARK, token + _AFTER_COUNT_MARK
        if len(scope_sets) > _FEW_SETS:
            found.update(_grouped(db.execute(_INSTANCES, bounds)))
        else:
            found[number] = _read_long(db, bounds)
    return found


def _read_long(db: sqlite3.Connection, bounds: tuple[str, str]) -> Postings:
    """Of one scope set: slower to begin, faster for each row, for terms that stand in very many."""
    rows: list[Ints] = []
    counts: list[tuple[int, int]] = []
    for (token,) in db.execute(_TOKENS, bounds).fetchall():
        rows.append(np.fromiter((row for (row,) in db.execute(_ROWS, (f'"{token}"',))), np.int32))
        counts.append(_counts(token))
    if not rows:
        return Postings()
    sizes = [len(part) for part in rows]
    return Postings(
        np.concatenate(rows),
        np.repeat(np.array([own for own, _ in counts], np.uint8), sizes),
        np.repeat(np.array([before for _, before in counts], np.uint8), sizes),
    )


def _grouped(found: Iterable[tuple[str, int]]) -> dict[int, Postings]:
    """Postings by scope set, from (token, row) in order of token."""
    rows: dict[int, list[tuple[int, int, int]]] = {}
    last = ""
    into: list[tuple[int, int, int]] = []
    own = before = 0
    for token, row in found:
        if token != last:
            last = token
            scope_set = token[token.index(_SET_MARK) + 1 : token.index(_COUNT_MARK)]
            into = rows.setdefault(int(scope_set, 36), [])
            own, before = _counts(token)
        into.append((row, own, before))
    return {number: Postings(late=late).settle() for number, late in rows.items()}


def _counts(token: str) -> tuple[int, int]:
    return _DIGITS.index(token[-2]), _DIGITS.index(token[-1])


def _base36(number: int) -> str:
    digits = ""
    while True:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
        if number == 0:
            return digits
