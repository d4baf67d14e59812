"""How often memories stood in prompts and were relied on, a row a memory, agent and day. Reading rewrites no memory."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any, Final

from keeps.core.runs import Uses
from keeps.store.commit import Batch
from keeps.store.db import INDEXED_VALUES, Db, RecordID
from keeps.store.rows import Record
from keeps.store.traces import micros, moment

TABLE: Final = "memory_use"
_READ_S: Final = 15.0


async def uses_of(db: Db, memories: Collection[str]) -> dict[str, Uses]:
    """How often each memory was used; those that never were are left out."""
    found: dict[str, Uses] = {}
    for row in await _uses(db, memories):
        before = found.get(row["memory"], Uses())
        at = moment(row["last_us"])
        newer = before.last_at is None or at > before.last_at
        found[row["memory"]] = Uses(
            offered=before.offered + row["offered"],
            cited=before.cited + row["cited"],
            last_at=at if newer else before.last_at,
            last_by=row["agent"] if newer else before.last_by,
        )
    return found


async def refreshed_on(db: Db, memories: Collection[str], day: str) -> set[str]:
    """Those of the memories whose importance was set back on a day."""
    return {row["memory"] for row in await _uses(db, memories) if row["day"] == day and row.get("refreshed")}


def refresh(batch: Batch, memory: str, importance: float, *, agent: str, at: datetime) -> None:
    """Set the importance of a memory back, and note the day, in the use that the agent had of it."""
    batch.patch(RecordID(*memory.split(":", 1)), importance=importance)
    batch.patch(_use_id(memory, agent, day_of(at)), refreshed=True)


async def _uses(db: Db, memories: Collection[str]) -> list[Record]:
    wanted = sorted(set(memories))
    rows: list[Record] = []
    for start in range(0, len(wanted), INDEXED_VALUES):
        rows += (
            await db.run(
                "SELECT * FROM memory_use WHERE memory IN $memories TIMEOUT 10s;",
                timeout_s=_READ_S,
                memories=wanted[start : start + INDEXED_VALUES],
            )
        )[0]
    return rows


def count(
    uses: dict[RecordID, dict[str, Any]], agent: str, memory: str, at: datetime, *, offered: int = 0, cited: int = 0
) -> None:
    """Count a memory among `uses`, which gathers what one transaction adds, by row."""
    day = day_of(at)
    use = _use_id(memory, agent, day)
    so_far = uses.setdefault(
        use, {"id": use, "memory": memory, "agent": agent, "day": day, "offered": 0, "cited": 0, "last_us": 0}
    )
    so_far["offered"] += offered
    so_far["cited"] += cited
    so_far["last_us"] = max(so_far["last_us"], micros(at))


def day_of(at: datetime) -> str:
    """The day of a time, UTC, as `2026-10-23`."""
    return at.date().isoformat()


def _use_id(memory: str, agent: str, day: str) -> RecordID:
    return RecordID(TABLE, f"{memory}|{agent}|{day}")
