"""What lies in the index of a context, read without changing it: for checks while nobody uses it."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from keeps.core.spaces import Space
from keeps.finder.vectortable import ROW_OF_KEY, SPACE_OF_KEY


@dataclass(frozen=True, slots=True)
class Seen:
    """An index as found: whose it is, up to which change, its entries as unit → (ref, scope set), and the vectors of
    each space as unit → `digest_of`."""

    context: str
    applied: int | None
    entries: dict[str, tuple[str, str]]
    vectors: Mapping[Space, dict[str, bytes]]


def look(folder: Path) -> Seen | None:
    """The newest index in `folder`; None when there is none. Raises: sqlite3.DatabaseError when it is damaged."""
    found = sorted(folder.glob("text-*.sqlite3"))
    if not found:
        return None
    log = found[-1].with_name(f"{found[-1].name}-wal")
    # Without a log nothing but the file need be read, and SQLite is kept from making files beside it.
    how = "mode=ro" if log.exists() else "immutable=1"
    uri = f"{found[-1].absolute().as_uri()}?{how}"
    with closing(sqlite3.connect(uri, uri=True)) as connection:
        meta = dict(connection.execute("SELECT key, value FROM meta"))
        rows = connection.execute(
            "SELECT entry.unit, entry.ref, scope_set.name FROM entry JOIN scope_set ON number = scope_set"
        )
        entries = {unit: (ref, scope_set) for unit, ref, scope_set in rows}
        vectors = _vectors(connection)
    return Seen(str(meta.get("context")), meta.get("applied"), entries, vectors)


def digest_of(vector: bytes) -> bytes:
    """What tells vectors apart."""
    return hashlib.blake2b(vector, digest_size=8).digest()


def _vectors(connection: sqlite3.Connection) -> dict[Space, dict[str, bytes]]:
    """The digests of vectors by space and unit; a vector without an entry stands under its key."""
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'vector'").fetchone():
        return {}
    found: dict[Space, dict[str, bytes]] = {}
    for number, model, dims in connection.execute("SELECT number, model, dims FROM space").fetchall():
        rows = connection.execute(
            f"SELECT COALESCE(unit, key), bytes FROM vector LEFT JOIN entry ON row = {ROW_OF_KEY}"
            f" WHERE {SPACE_OF_KEY} = ?",
            (number,),
        )
        found[Space(model, dims)] = {str(unit): digest_of(content) for unit, content in rows}
    return found
