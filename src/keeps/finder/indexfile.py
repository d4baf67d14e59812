"""One file of the index: words and vectors in SQLite with FTS5, used from one thread."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import unicodedata
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import numpy as np

from keeps.core import words
from keeps.core.duplicates import Said
from keeps.core.sessions import Past
from keeps.core.spaces import Coverage, Point, Space
from keeps.finder import names, tokens, vectortable
from keeps.finder.base import Entry, Found, Kind, Name, Near, Only, Stored
from keeps.finder.columns import Heard, Row, Wanted, tie_of
from keeps.finder.text import Hit, TextIndex
from keeps.finder.vectortable import VectorTable

FORMAT: Final = f"8/{unicodedata.unidata_version}/{version('snowballstemmer')}"
"""Of the file, and of what decides how words are cut. Another one means: build anew."""

_KINDS: Final[dict[Kind, int]] = {"passage": 0, "fact": 1}
_BATCH: Final = 500

_SCHEMA: Final = """
    CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;
    CREATE TABLE scope_set(number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
    CREATE TABLE entry(
        row INTEGER PRIMARY KEY, unit TEXT NOT NULL UNIQUE, ref TEXT NOT NULL, first INTEGER NOT NULL,
        scope_set INTEGER NOT NULL, kind INTEGER NOT NULL, live INTEGER NOT NULL, labels TEXT, window_of TEXT,
        words INTEGER NOT NULL, before INTEGER NOT NULL, at INTEGER NOT NULL, tie INTEGER NOT NULL,
        assistant INTEGER NOT NULL, asks INTEGER NOT NULL, named INTEGER NOT NULL,
        meaning INTEGER, copy INTEGER NOT NULL, session INTEGER NOT NULL, terms TEXT NOT NULL
    );
    CREATE INDEX entry_ref ON entry(ref);
    CREATE INDEX entry_window ON entry(window_of) WHERE window_of IS NOT NULL;
    CREATE TABLE name(
        key TEXT NOT NULL, scope_set INTEGER NOT NULL, entity TEXT NOT NULL, name TEXT NOT NULL,
        PRIMARY KEY(key, scope_set, entity, name)
    ) WITHOUT ROWID;
"""
_PUT: Final = "INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_LOAD: Final = """
    SELECT row, scope_set, first, kind, live, words, before, labels, at, tie, assistant, meaning IS NOT NULL,
        asks, named, copy, session
    FROM entry
"""

T = TypeVar("T")
Counts = dict[str, tuple[int, int]]


class _Dropped(NamedTuple):
    """An entry that is gone from the file."""

    row: int
    unit: str
    meaning: int | None
    scope_set: int
    terms: str


class IndexFile:
    """A complete, usable file. Every method may raise `sqlite3.DatabaseError`: then throw the file away."""

    def __init__(self, path: Path, connection: sqlite3.Connection, stem: words.Stem) -> None:
        self.path = path
        self.index = TextIndex(partial(tokens.read, connection))
        self._db = connection
        self._stem = stem
        self._clean = True
        self._sets: dict[str, int] = {
            name: number for number, name in connection.execute("SELECT number, name FROM scope_set")
        }
        for row, scope_set, first, kind, live, own, before, labels, *rest in connection.execute(_LOAD):
            labelled = _labels_of(labels)
            self.index.columns.add(Row(row, scope_set, first, kind, bool(live), own, before, labelled, *rest))
        self.vectors = VectorTable(connection, self.index.columns)
        self._next_row = max(1, self.index.columns.size)

    @classmethod
    def create(cls, path: Path, context: str, stem: words.Stem) -> IndexFile:
        """A new, empty file for one context; it must not exist."""
        path.touch(mode=0o600, exist_ok=False)
        connection = _connect(path)
        connection.executescript(f"BEGIN; {_SCHEMA} {tokens.TABLES} {vectortable.TABLES} COMMIT;")
        file = cls(path, connection, stem)
        with file._changing():
            file._set_meta(format=FORMAT, context=context, applied=None)
        return file

    @classmethod
    def open(cls, path: Path, context: str, boot: str, stem: words.Stem) -> IndexFile | None:
        """The file at `path`; None when it belongs to another context or format or may be damaged.

        Writes are not flushed, so a file that was in use when the machine stopped (`boot` differs) is not
        trusted. One whose process was killed is whole: the system kept its writes.
        """
        connection = _connect(path)
        try:
            meta = dict(connection.execute("SELECT key, value FROM meta"))
            if meta.get("format") != FORMAT or meta.get("context") != context:
                connection.close()
                return None
            if not meta.get("clean"):
                whole = connection.execute("PRAGMA quick_check(1)").fetchone() == ("ok",)
                if not whole or meta.get("boot") != boot:
                    connection.close()
                    return None
            return cls(path, connection, stem)
        except BaseException:
            connection.close()
            raise

    def applied(self) -> int | None:
        """The number of the last change in the file; None before the first."""
        found = self._db.execute("SELECT value FROM meta WHERE key = 'applied'").fetchone()
        return found[0] if found else None

    def begin_use(self, boot: str) -> None:
        """Note that writes follow, so that an unclean end is seen."""
        if self._clean:
            with self._changing():
                self._set_meta(clean=0, boot=boot)
            self._clean = False

    def apply(
        self,
        change: int,
        put: Sequence[Entry] = (),
        drop: Sequence[str] = (),
        put_names: Sequence[Name] = (),
        drop_names: Sequence[Name] = (),
    ) -> None:
        """One transaction; what is in memory follows once it is committed.

        An entry that is put again and means the same keeps its vectors.
        """
        entries = list({entry.unit: entry for entry in put}.values())
        bags = [self._counts(entry) for entry in entries]
        sets_before = dict(self._sets)
        next_row = self._next_row
        try:
            with self._changing():
                dropped = self._drop_where("ref", drop)
                dropped += self._drop_where("unit", [entry.unit for entry in entries])
                rows = self._put(entries, bags)
                gone, moved = [entry.row for entry in dropped], _moved(dropped, entries, rows)
                self.vectors.erase_rows(gone, moved)
                for name in drop_names:
                    self._db.execute(
                        "DELETE FROM name WHERE key = ? AND scope_set = ? AND entity = ? AND name = ?",
                        self._name_row(name),
                    )
                self._db.executemany(
                    "INSERT OR IGNORE INTO name VALUES (?, ?, ?, ?)",
                    [self._name_row(name) for name in put_names],
                )
                self._set_meta(applied=change)
        except BaseException:
            self._sets = sets_before
            self._next_row = next_row
            raise
        for row in gone:
            self.index.remove(row)
        for row, (counts, _, _) in zip(rows, bags, strict=True):
            self.index.add(row, counts)
        self.vectors.rows_erased(gone, moved)

    def begin_space(self, space: Space) -> None:
        """Make room for the vectors of a space; nothing when it is there."""
        if space not in self.vectors.numbers:
            with self._changing():
                self.vectors.write_space(space)
            self.vectors.spaces_changed()

    def drop_space(self, space: Space) -> None:
        """Throw all vectors of a space away, with their bytes; nothing when it is not there."""
        number = self.vectors.numbers.get(space)
        if number is not None:
            with self._changing():
                self.vectors.erase_space(number)
            self.vectors.spaces_changed()
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def put_vectors(self, space: Space, vectors: Mapping[str, bytes], meanings: Mapping[str, str] | None = None) -> int:
        """Take vectors by unit; how many were taken. `meanings`: what some were made of, to be that of the entry."""
        if space not in self.vectors.numbers:
            return 0
        taken: dict[int, bytes] = {}
        for some in _batches(list(vectors)):
            query = f"SELECT unit, row, meaning FROM entry WHERE meaning IS NOT NULL AND unit IN ({_marks(some)})"
            for unit, row, meaning in self._db.execute(query, some):
                made_of = meanings.get(unit) if meanings is not None else None
                if made_of is None or _digest(made_of) == meaning:
                    taken[row] = vectors[unit]
        if taken:
            with self._changing():
                self.vectors.write(space, taken)
            self.vectors.written(space, taken)
        return len(taken)

    def put_stored(self, stored: Stored) -> None:
        """Take vectors out of the record, as far as they are whole; the space is begun when it is not there."""
        self.begin_space(stored.space)
        dims = stored.space.dims
        whole = {unit: content for unit, content in stored.vectors.items() if vectortable.usable(content, dims)}
        self.put_vectors(stored.space, whole)

    def spaces(self) -> list[Coverage]:
        """The spaces there are vectors of, oldest first."""
        return self.vectors.coverage()

    def lacking(self, space: Space, scope_sets: Collection[str] | None, limit: int) -> list[tuple[str, str]]:
        """(ref, unit) of entries that should have a vector and have none, scope sets by turns."""
        numbers = None if scope_sets is None else self._numbers(scope_sets)
        rows = self.vectors.lacking(space, numbers, limit)
        named = self._named(rows)
        return [named[row][:2] for row in rows]

    def near(
        self,
        question: Point,
        scope_sets: Collection[str],
        kinds: Collection[Kind],
        only: Only,
        limit: int,
        also: Collection[str],
        copies: int = 0,
    ) -> list[Near]:
        """The rows nearest to `question`, nearest first, then those of `also`."""
        wanted = self._wanted(scope_sets, kinds, only, limit, copies)
        if question.space not in self.vectors.numbers or not wanted.scope_sets or not wanted.kinds:
            return []
        rows: list[int] = []
        for some in _batches(list(also)):
            rows += [row for (row,) in self._db.execute(f"SELECT row FROM entry WHERE ref IN ({_marks(some)})", some)]
        vector = np.frombuffer(question.vector, vectortable.SINGLE)
        hits = self.vectors.near(question.space, vector, wanted, rows)
        named = self._named([hit.row for hit in hits])
        assistant, asks = self.index.columns.assistant, self.index.columns.asks
        return [
            Near(ref, unit, hit.cosine, bool(assistant[hit.row]), bool(asks[hit.row]), hit.usual, before)
            for hit in hits
            for ref, unit, before in (named[hit.row],)
        ]

    def neighbours(self, refs: Sequence[str]) -> list[str]:
        """Refs of the entries whose window holds text of one of `refs`."""
        found: dict[str, None] = {}
        for some in _batches(refs):
            query = f"SELECT ref FROM entry WHERE window_of IN ({_marks(some)}) ORDER BY row"
            found.update((ref, None) for (ref,) in self._db.execute(query, some))
        return list(found)

    def find(
        self,
        query: str,
        scope_sets: Collection[str],
        kinds: Collection[Kind],
        only: Only,
        limit: int,
        copies: int = 0,
        given_up: Callable[[], bool] = bool,
    ) -> list[Found]:
        """The best rows for `query`, best first. Raises: GivenUp."""
        wanted = replace(self._wanted(scope_sets, kinds, only, limit, copies), given_up=given_up)
        if not wanted.scope_sets or not wanted.kinds or limit <= 0:
            return []
        return self._described(self.index.search(words.question(query, self._stem), wanted))

    def names_in(self, query: str, scope_sets: Collection[str]) -> list[Name]:
        """Names that `query` mentions: from left to right the longest run of words that is one."""
        numbers = self._numbers(scope_sets)
        if not numbers:
            return []
        return names.mentioned(query, self._known_names(names.keys(query), numbers))

    def scrub(self) -> None:
        """Rewrite the full-text table without what was dropped, and empty the log."""
        with self._changing():
            self._db.execute("INSERT INTO word(word) VALUES ('optimize')")
        self.index.forget_terms()
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Close so that the next `open` need not check anything."""
        if self._db.in_transaction:
            self._db.rollback()
        with self._changing():
            self._set_meta(clean=1)
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._db.close()

    def abandon(self) -> None:
        """Close without a word; the file is about to be deleted."""
        self._db.close()

    def _counts(self, entry: Entry) -> tuple[Counts, int, int]:
        """Occurrences by term (in the text, before it), and the two lengths."""
        own = words.bag(entry.text, self._stem)
        before = words.bag(entry.before, self._stem) if entry.before else words.Bag({}, 0)
        counts = {
            term: (min(count, tokens.MAX_COUNT), min(before.counts.get(term, 0), tokens.MAX_COUNT))
            for term, count in own.counts.items()
        }
        for term, count in before.counts.items():
            if term not in counts:
                counts[term] = (0, min(count, tokens.MAX_COUNT))
        for term in words.speaker_terms(entry.text, self._stem):
            counts[term] = (1, 0)
        return counts, own.length, before.length

    def _wanted(
        self,
        scope_sets: Collection[str],
        kinds: Collection[Kind],
        only: Only,
        limit: int,
        copies: int,
    ) -> Wanted:
        return Wanted(
            scope_sets=self._numbers(scope_sets),
            kinds=frozenset(_KINDS[kind] for kind in kinds),
            labels=only.labels,
            live_only=only.live,
            limit=limit,
            copies=copies,
            past=None if only.past is None else self._heard(only.past),
        )

    def _heard(self, past: Past) -> Heard:
        return Heard(frozenset(map(_session, past.sessions)), self._numbers(past.everywhere))

    def _put(self, entries: Sequence[Entry], bags: Sequence[tuple[Counts, int, int]]) -> list[Row]:
        rows: list[Row] = []
        stored: list[tuple[object, ...]] = []
        bodies: list[tuple[int, str]] = []
        first_of: dict[str, int] = {}
        for entry, (counts, own, before) in zip(entries, bags, strict=True):
            number, self._next_row = self._next_row, self._next_row + 1
            scope_set = self._set_number(entry.scope_set)
            first = first_of.get(entry.ref)
            if first is None:
                found = self._db.execute("SELECT first FROM entry WHERE ref = ? LIMIT 1", (entry.ref,)).fetchone()
                first = first_of[entry.ref] = found[0] if found else number
            kind = _KINDS[entry.kind]
            tie = tie_of(entry.unit)
            terms = tokens.packed(counts)
            labels = json.dumps(sorted(entry.labels)) if entry.labels else None
            meaning = None if entry.meaning is None else _digest(entry.meaning)
            meant = meaning is not None
            asks = entry.kind == "passage" and words.asks(entry.text)
            named = any(term.startswith(words.SAID) for term in counts)
            copy = _copy_of(entry)
            session = _session(entry.session)
            stored.append(
                (
                    *(number, entry.unit, entry.ref, first, scope_set, kind, int(entry.live), labels),
                    *(
                        entry.window_of,
                        own,
                        before,
                        entry.at,
                        tie,
                        int(entry.assistant),
                        int(asks),
                        int(named),
                        meaning,
                        copy,
                        session,
                        terms,
                    ),
                )
            )
            bodies.append((number, tokens.body(terms, scope_set)))
            row = Row(number, scope_set, first, kind, entry.live, own, before, entry.labels, entry.at, tie)
            rows.append(
                row._replace(assistant=entry.assistant, meant=meant, asks=asks, named=named, copy=copy, session=session)
            )
        self._db.executemany(_PUT, stored)
        self._db.executemany("INSERT INTO word(rowid, terms) VALUES (?, ?)", bodies)
        return rows

    def _drop_where(self, column: str, values: Sequence[str]) -> list[_Dropped]:
        """Delete the entries whose `column` is one of `values`; what they were."""
        gone: list[_Dropped] = []
        for some in _batches(values):
            query = f"SELECT row, unit, meaning, scope_set, terms FROM entry WHERE {column} IN ({_marks(some)})"
            gone += map(_Dropped._make, self._db.execute(query, some))
        gone.sort()
        self._db.executemany(
            "INSERT INTO word(word, rowid, terms) VALUES ('delete', ?, ?)",
            [(entry.row, tokens.body(entry.terms, entry.scope_set)) for entry in gone],
        )
        self._db.executemany("DELETE FROM entry WHERE row = ?", [(entry.row,) for entry in gone])
        return gone

    def _described(self, hits: Sequence[Hit]) -> list[Found]:
        named = self._named([hit.row for hit in hits])
        assistant, asks = self.index.columns.assistant, self.index.columns.asks
        return [
            Found(ref, unit, hit.rank, hit.share, bool(assistant[hit.row]), bool(asks[hit.row]), before, hit.named)
            for hit in hits
            for ref, unit, before in (named[hit.row],)
        ]

    def _named(self, rows: Sequence[int]) -> dict[int, tuple[str, str, str | None]]:
        """(ref, unit, ref of the turn before) of rows."""
        named: dict[int, tuple[str, str, str | None]] = {}
        for some in _batches(rows):
            query = f"SELECT row, ref, unit, window_of FROM entry WHERE row IN ({_marks(some)})"
            named.update((row, (ref, unit, before)) for row, ref, unit, before in self._db.execute(query, some))
        return named

    def _known_names(self, keys: Sequence[str], numbers: Collection[int]) -> dict[str, list[Name]]:
        """The names in the given scope sets by their key, as far as they are among `keys`."""
        there: list[str] = []
        for some in _batches(keys):
            query = f"SELECT DISTINCT key FROM name WHERE key IN ({_marks(some)})"
            there += [key for (key,) in self._db.execute(query, some)]
        by_number = {number: name for name, number in self._sets.items() if number in numbers}
        known: dict[str, list[Name]] = {}
        for key in there:
            for some in _batches(sorted(numbers)):
                query = f"""SELECT scope_set, entity, name FROM name WHERE key = ?
                    AND scope_set IN ({_marks(some)}) ORDER BY entity, name, scope_set LIMIT {names.MOST_OF_A_KEY}"""
                for number, entity, name in self._db.execute(query, (key, *some)):
                    known.setdefault(key, []).append(Name(entity=entity, scope_set=by_number[number], name=name))
            known[key] = sorted(known.get(key, ()), key=_by_entity)[: names.MOST_OF_A_KEY]
        return known

    def _name_row(self, name: Name) -> tuple[str, int, str, str]:
        return names.key(name.name), self._set_number(name.scope_set), name.entity, name.name

    def _numbers(self, scope_sets: Collection[str]) -> frozenset[int]:
        return frozenset(self._sets[name] for name in scope_sets if name in self._sets)

    def _set_number(self, scope_set: str) -> int:
        number = self._sets.get(scope_set)
        if number is None:
            number = self._sets[scope_set] = len(self._sets) + 1
            self._db.execute("INSERT INTO scope_set VALUES (?, ?)", (number, scope_set))
        return number

    def _set_meta(self, **values: str | int | None) -> None:
        self._db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", list(values.items()))

    @contextmanager
    def _changing(self) -> Generator[None, None, None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=512)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("PRAGMA temp_store = MEMORY")
    except BaseException:
        connection.close()
        raise
    return connection


def _digest(meaning: str) -> int:
    """A number that tells whether an entry still means the same. It goes with its row."""
    return int.from_bytes(hashlib.blake2b(meaning.encode(), digest_size=8).digest(), signed=True)


def _session(session: str) -> int:
    """A number for a session; 0 for none."""
    return _digest(session) if session else 0


def _by_entity(name: Name) -> tuple[str, str]:
    return name.entity, name.name


def _copy_of(entry: Entry) -> int:
    """A number that is equal for entries that say the same, by the words alone. It goes with its row."""
    said = Said(entry.meaning or entry.text, voice=entry.voice)
    return _digest(json.dumps([entry.kind, said.voice, said.folded]))


def _moved(dropped: Sequence[_Dropped], entries: Sequence[Entry], rows: Sequence[Row]) -> dict[int, int]:
    """Of the dropped rows those whose vectors stay, and under which number."""
    had = {entry.unit: entry for entry in dropped if entry.meaning is not None}
    moved: dict[int, int] = {}
    for entry, row in zip(entries, rows, strict=True):
        old = had.get(entry.unit)
        if old is not None and entry.meaning is not None and _digest(entry.meaning) == old.meaning:
            moved[old.row] = row.row
    return moved


def _labels_of(stored: str | None) -> frozenset[str]:
    return frozenset(json.loads(stored)) if stored else frozenset()


def _marks(values: Sequence[object]) -> str:
    return ",".join("?" * len(values))


def _batches(values: Sequence[T]) -> Iterable[Sequence[T]]:
    return (values[at : at + _BATCH] for at in range(0, len(values), _BATCH))
