"""Principals and the history of their grants as rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from keeps.core.access import Grants, Principal, PrincipalId, PrincipalKind, Role, Verb, grants_to_wire, parse_grants
from keeps.core.scopes import Pattern, ScopePath, parse_pattern
from keeps.core.text import fold
from keeps.store.commit import Batch
from keeps.store.db import Db, RecordID
from keeps.store.rows import Record, key_of

TABLE: Final = "principal"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPrincipal:
    """A principal as it was read. `rev` is compared by whoever changes it."""

    principal: Principal
    created_at: datetime
    updated_at: datetime
    rev: int = 1


class GrantOp(StrEnum):
    """What happened to a pattern of a verb."""

    GRANT = "grant"
    REVOKE = "revoke"


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantEvent:
    """One pattern of one verb given to a principal, or taken away, from `at` on."""

    verb: Verb
    pattern: Pattern
    op: GrantOp
    at: datetime


def record_id(principal_id: PrincipalId) -> RecordID:
    """The row of a principal."""
    return RecordID(TABLE, principal_id)


def to_row(stored: StoredPrincipal) -> Record:
    """A principal as a row, without its id."""
    principal = stored.principal
    return {
        "kind": str(principal.kind),
        "display_name": principal.display_name,
        "name_fold": fold(principal.display_name),
        "external_id": principal.external_id,
        "home": principal.home,
        "trusted_writer": principal.trusted_writer,
        "roles": sorted(principal.roles) or None,
        "grants": grants_to_wire(principal.grants),
        "created_at": stored.created_at,
        "updated_at": stored.updated_at,
        "rev": stored.rev,
    }


def from_row(row: Record) -> StoredPrincipal:
    """The principal a row holds."""
    home = row.get("home")
    return StoredPrincipal(
        principal=Principal(
            id=PrincipalId(key_of(row["id"])),
            display_name=row["display_name"],
            kind=PrincipalKind(row["kind"]),
            grants=parse_grants(row["grants"]),
            home=ScopePath(home) if home else None,
            external_id=row.get("external_id"),
            trusted_writer=row["trusted_writer"],
            roles=frozenset(map(Role, row.get("roles") or ())),
        ),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        rev=row["rev"],
    )


async def find(db: Db, principal_id: PrincipalId) -> StoredPrincipal | None:
    """The principal; `None` when there is none of that id."""
    row = (await db.run("SELECT * FROM ONLY $id TIMEOUT 2s;", id=record_id(principal_id)))[0]
    return from_row(row) if row else None


async def homes(db: Db) -> dict[ScopePath, PrincipalId]:
    """The homes of people, and whose each is."""
    (rows,) = await db.run(
        "SELECT id, home FROM principal WHERE kind = $human AND home != NONE TIMEOUT 10s;",
        timeout_s=15.0,
        human=str(PrincipalKind.HUMAN),
    )
    return {ScopePath(row["home"]): PrincipalId(key_of(row["id"])) for row in rows}


async def find_external(db: Db, external_id: str) -> StoredPrincipal | None:
    """The principal that another system knows under `external_id`."""
    rows = (await db.run("SELECT * FROM principal WHERE external_id = $known LIMIT 1 TIMEOUT 2s;", known=external_id))[
        0
    ]
    return from_row(rows[0]) if rows else None


async def list_all(db: Db) -> list[StoredPrincipal]:
    """All principals in order of their ids."""
    rows = (await db.run("SELECT * FROM principal TIMEOUT 10s;", timeout_s=15.0))[0]
    return sorted((from_row(row) for row in rows), key=lambda stored: stored.principal.id)


def add_events(batch: Batch, events: Iterable[tuple[RecordID, GrantEvent]], of: PrincipalId, by: str) -> None:
    """Note changes of grants of the principal `of`, made by the principal or management key `by`."""
    for event_id, event in events:
        row: dict[str, Any] = {
            "principal": of,
            "verb": str(event.verb),
            "pattern": str(event.pattern),
            "op": str(event.op),
            "at": event.at,
            "by": by,
        }
        batch.creates.append({"id": event_id, "row": row})


async def events_until(db: Db, principal_id: PrincipalId, until: datetime) -> list[GrantEvent]:
    """Changes of the grants of a principal up to and including `until`, oldest first."""
    # The engine keeps times of one second out of order in an index: spans of times are taken here.
    rows = (await db.run("SELECT * FROM grant_event WHERE principal = $of TIMEOUT 5s;", of=principal_id))[0]
    events = [
        GrantEvent(verb=Verb(row["verb"]), pattern=parse_pattern(row["pattern"]), op=GrantOp(row["op"]), at=row["at"])
        for row in rows
    ]
    return sorted((event for event in events if event.at <= until), key=lambda event: event.at)


def changes_between(before: Grants, after: Grants, at: datetime) -> list[GrantEvent]:
    """What was given and taken to come from one state of grants to the other."""
    events: list[GrantEvent] = []
    for verb in Verb:
        old, new = before.get(verb, ()), after.get(verb, ())
        events += [GrantEvent(verb=verb, pattern=p, op=GrantOp.REVOKE, at=at) for p in old if p not in new]
        events += [GrantEvent(verb=verb, pattern=p, op=GrantOp.GRANT, at=at) for p in new if p not in old]
    return events


def replayed(events: Iterable[GrantEvent]) -> Grants:
    """The grants held after `events`, oldest first."""
    held: dict[Verb, tuple[Pattern, ...]] = {}
    for event in events:
        others = tuple(pattern for pattern in held.get(event.verb, ()) if pattern != event.pattern)
        held[event.verb] = (*others, event.pattern) if event.op is GrantOp.GRANT else others
    return {verb: patterns for verb, patterns in held.items() if patterns}
