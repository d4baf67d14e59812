"""How single agents should behave, as rows among the instructions."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, cast

from keeps.core.access import PrincipalId
from keeps.core.facts import Origin, Status
from keeps.core.kinds import INSTRUCTION
from keeps.core.procedures import Procedure
from keeps.store.db import Db, RecordID
from keeps.store.rows import Record, key_of

TABLE: Final = "instruction"
_LABEL: Final = "procedure"
_TRUST: Final = 0.9


def record_id(id_: str) -> RecordID:
    """The row of a version."""
    return RecordID(TABLE, id_)


def to_row(said: Procedure, *, scope_set: str, fingerprint: str) -> Record:
    """A version as a row, with its id. It belongs to `scope_set`, that of everybody."""
    return {
        "id": record_id(said.id),
        "label": _LABEL,
        "description": said.text,
        "active": said.until is None,
        "agent": said.agent,
        "scope_set": scope_set,
        "labels": [],
        "category": "knowledge",
        "confidence": 1.0,
        "importance": 1.0,
        "summary": said.text,
        "source_kind": "api",
        "source_trust": _TRUST,
        "known_at": said.since,
        "recorded_at": said.since,
        "metadata": {"version": said.version},
        "kind": INSTRUCTION,
        "status": Status.CONFIRMED.value,
        "origin": Origin.ADMIN_SET.value,
        "trust": _TRUST,
        "user_confirmed": False,
        "sensitivity": "normal",
        "taint": [],
        "flags": [],
        "muted": False,
        "pinned": False,
        "confirmed_by": said.set_by,
        "status_by": said.set_by,
        "status_at": said.since,
        "rev": 1,
        "fingerprint": fingerprint,
    }


def closing(at: datetime, by: str) -> Record:
    """What changes in a version that holds no more."""
    return {
        "active": False,
        "status": Status.SUPERSEDED.value,
        "valid_until": at,
        "deactivated_at": at,
        "close_known_at": at,
        "close_recorded_at": at,
        "status_by": by,
        "status_at": at,
        "rev": 2,
    }


async def load(db: Db) -> dict[PrincipalId, Procedure]:
    """What holds, by agent."""
    (rows,) = await db.run(
        "SELECT * FROM instruction WHERE agent != NONE AND active = true AND forgotten_at = NONE TIMEOUT 10s;",
        timeout_s=15.0,
    )
    found = map(_from_row, rows)
    return {said.agent: said for said in sorted(found, key=lambda said: said.version)}


async def versions(db: Db, agent: PrincipalId) -> list[Procedure]:
    """Every version of one agent that was not erased, the newest first."""
    (rows,) = await db.run(
        "SELECT * FROM instruction WHERE agent = $agent AND forgotten_at = NONE TIMEOUT 10s;",
        timeout_s=15.0,
        agent=agent,
    )
    return sorted(map(_from_row, rows), key=lambda said: said.version, reverse=True)


def _from_row(row: Record) -> Procedure:
    metadata = cast("dict[str, Any]", row.get("metadata") or {})
    return Procedure(
        id=key_of(row["id"]),
        agent=PrincipalId(row["agent"]),
        text=row["description"],
        version=int(metadata.get("version", 1)),
        set_by=row.get("confirmed_by") or "",
        since=row["known_at"],
        until=row.get("valid_until"),
    )
