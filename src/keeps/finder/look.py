"""What lies in the index of a context, read without changing it: for checks while nobody uses it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Seen:
    """An index as found: whose it is, up to which change, and its entries as unit → (ref, scope set)."""

    context: str
    applied: int | None
    entries: dict[str, tuple[str, str]]


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
    return Seen(str(meta.get("context")), meta.get("applied"), entries)
