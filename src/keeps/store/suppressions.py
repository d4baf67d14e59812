"""What a person rejected or forgot, as keyed hashes: written down, looked up, lifted. No text is kept of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final

from keeps.store.db import INDEXED_VALUES, Db, RecordID
from keeps.store.erasing import READ_S, read
from keeps.store.rows import Record

SUPPRESSION: Final = "suppression"

_LOOKED_UP: Final = 3 * INDEXED_VALUES
"""Up to so many hashes are looked up by their index; for more, all there are are read once."""


def to_row(id_: str, marks: Sequence[str], *, scope_set: str, reason: str, kind: str, by: str, at: datetime) -> Record:
    """A suppression as a row. `reason`: why, one fixed word; `by`: whose decision it was."""
    return {
        "id": RecordID(SUPPRESSION, id_),
        "row": {"scope_set": scope_set, "marks": list(marks), "reason": reason, "kind": kind, "by": by, "at": at},
    }


def restored(mark: str, *, at: datetime) -> Record:
    """A suppression that the ledger alone still knew of, by one hash, as a whole row."""
    return to_row(mark, [mark], scope_set="", reason="forgotten", kind="", by="ledger", at=at)


async def holding(db: Db, marks: Collection[str]) -> dict[str, list[RecordID]]:
    """For each of `marks` that is suppressed, the rows that say so."""
    wanted = sorted(set(marks))
    if not wanted:
        return {}
    if len(wanted) <= _LOOKED_UP:
        rows = await read(db, "SELECT id, marks FROM suppression WHERE marks CONTAINSANY $ids TIMEOUT 10s;", wanted)
    else:
        (rows,) = await db.run("SELECT id, marks FROM suppression TIMEOUT 30s;", timeout_s=READ_S)
    found: dict[str, list[RecordID]] = {}
    for row in rows:
        for mark in row["marks"]:
            if mark in marks:
                found.setdefault(mark, []).append(row["id"])
    return found
