"""What was deleted a moment ago, as it was: kept apart from everything that is read, until nothing can be undone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from keeps.store.commit import Batch
from keeps.store.db import Db, RecordID
from keeps.store.facts import FACT_TABLES
from keeps.store.rows import Record

SEALED: Final = "sealed"

_KEPT: Final = frozenset({*FACT_TABLES, "chain", "entity", "turn", "uncertainty", "proposal"})
"""What an undo brings back. Kept replies and traces of reads are not among it: they stay empty."""


@dataclass(frozen=True, slots=True)
class Image:
    """A row before it was deleted or changed. `after`: the fields that were written over it, None for a deleted one."""

    before: Record
    after: Mapping[str, Any] | None

    @property
    def id(self) -> RecordID:
        """The id of the row."""
        record_id: RecordID = self.before["id"]
        return record_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """A deletion that can be undone until `ends_at`, with the key it was asked with alone. `refs`: the rows that
    make up the memory; `marks`: the hashes it is known by, not to be learned again. `images` is empty once it is
    final."""

    memory: str
    scope_set: str
    key_id: str
    ends_at: datetime
    refs: tuple[str, ...]
    images: tuple[Image, ...]
    marks: tuple[str, ...] = ()


def record_id(memory: str) -> RecordID:
    """The row of a deletion."""
    return RecordID(SEALED, memory)


def to_row(sealed: Sealed) -> Record:
    """A deletion as a row, without its id."""
    return {
        "memory": sealed.memory,
        "scope_set": sealed.scope_set,
        "key_id": sealed.key_id,
        "ends_us": round(sealed.ends_at.timestamp() * 1_000_000),
        "refs": list(sealed.refs),
        "marks": list(sealed.marks),
        "rows": [
            {"before": dict(image.before), "after": dict(image.after) if image.after is not None else None}
            for image in sealed.images
        ],
    }


def from_row(row: Record) -> Sealed:
    """The deletion a row holds."""
    return Sealed(
        memory=row["memory"],
        scope_set=row["scope_set"],
        key_id=row["key_id"],
        ends_at=datetime.fromtimestamp(row["ends_us"] / 1_000_000, UTC),
        refs=tuple(row.get("refs") or ()),
        marks=tuple(row.get("marks") or ()),
        images=tuple(Image(each["before"], each.get("after")) for each in row["rows"]),
    )


async def find(db: Db, memory: str) -> Sealed | None:
    """The deletion of a memory that can be undone, or could be lately."""
    (row,) = await db.run("SELECT * FROM ONLY $id TIMEOUT 5s;", id=record_id(memory))
    return from_row(row) if row else None


async def ended(db: Db, now: datetime) -> list[Sealed]:
    """Deletions whose time to undo them is over, those first that are over longest."""
    (rows,) = await db.run(
        "SELECT * FROM sealed WHERE ends_us <= $now ORDER BY ends_us LIMIT 500 TIMEOUT 10s;",
        timeout_s=15.0,
        now=round(now.timestamp() * 1_000_000),
    )
    return [from_row(row) for row in rows]


async def images_of(db: Db, batch: Batch) -> tuple[Image, ...]:
    """The rows that a commit deletes or changes, as they are now."""
    after: dict[str, Mapping[str, Any] | None] = {}
    ids: dict[str, RecordID] = {}
    changed = [(patch["id"], patch["set"]) for patch in batch.patches]
    changed += [(chain["id"], chain["set"]) for chain in batch.chains]
    for record, fields in (*changed, *((gone, None) for gone in batch.deletes)):
        if record.table_name in _KEPT:
            ids[str(record)], after[str(record)] = record, fields
    (rows,) = await db.run("SELECT * FROM $ids TIMEOUT 10s;", timeout_s=15.0, ids=list(ids.values()))
    return tuple(Image(row, after[str(row["id"])]) for row in rows)


async def current(db: Db, images: Sequence[Image]) -> dict[str, Record]:
    """The rows of images as they stand now, by the text of their ids; those that are gone are left out."""
    (rows,) = await db.run("SELECT * FROM $ids TIMEOUT 10s;", timeout_s=15.0, ids=[image.id for image in images])
    return {str(row["id"]): row for row in rows}
