"""Keys of a context as rows, and what this process knows about its callers from a moment ago."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Generic, TypeVar

from keeps.core.access import Grants, KeyId, Principal, PrincipalId, grants_to_wire, parse_grants
from keeps.store import principals as store_principals
from keeps.store.db import Db, RecordID
from keeps.store.rows import Record, key_of

TABLE: Final = "api_key"
MANAGEMENT_TABLE: Final = "management_key"

KNOWN_FOR: Final = timedelta(seconds=5)
"""How long a key or principal counts as known without a look: another process may have changed it."""

USED_EVERY: Final = timedelta(minutes=1)
"""How close together two noted uses of one key may lie."""

_MOST_KNOWN: Final = 10_000

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key of a principal. `digest` is a keyed hash of its secret; `grants` None narrows nothing."""

    id: KeyId
    name: str
    principal: PrincipalId
    digest: bytes = field(repr=False)
    created_at: datetime
    grants: Grants | None = None
    strict: bool = False
    valid_until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagementKey:
    """A key of the management routes."""

    id: KeyId
    name: str
    digest: bytes = field(repr=False)
    created_at: datetime
    valid_until: datetime | None = None


def record_id(key_id: KeyId) -> RecordID:
    """The row of a key."""
    return RecordID(TABLE, key_id)


def to_row(key: ApiKey) -> Record:
    """A key as a row, without its id."""
    return {
        "name": key.name,
        "principal": key.principal,
        "hash": key.digest,
        "grants": None if key.grants is None else grants_to_wire(key.grants),
        "strict": key.strict,
        "valid_until": key.valid_until,
        "created_at": key.created_at,
    }


def from_row(row: Record) -> ApiKey:
    """The key a row holds."""
    grants = row.get("grants")
    return ApiKey(
        id=KeyId(key_of(row["id"])),
        name=row["name"],
        principal=PrincipalId(row["principal"]),
        digest=bytes(row["hash"]),
        created_at=row["created_at"],
        grants=None if grants is None else parse_grants(grants),
        strict=row["strict"],
        valid_until=row.get("valid_until"),
    )


def usage_id(key_id: KeyId) -> RecordID:
    """The row that holds when a key was last used."""
    return RecordID("key_usage", key_id)


async def find(db: Db, key_id: KeyId) -> ApiKey | None:
    """The key; `None` when there is none of that id."""
    row = (await db.run("SELECT * FROM ONLY $id TIMEOUT 2s;", id=record_id(key_id)))[0]
    return from_row(row) if row else None


async def find_named(db: Db, name: str) -> ApiKey | None:
    """The key of that name."""
    rows = (await db.run("SELECT * FROM api_key WHERE name = $name LIMIT 1 TIMEOUT 2s;", name=name))[0]
    return from_row(rows[0]) if rows else None


async def list_all(db: Db) -> list[ApiKey]:
    """All keys in order of their names."""
    rows = (await db.run("SELECT * FROM api_key TIMEOUT 10s;", timeout_s=15.0))[0]
    return sorted((from_row(row) for row in rows), key=lambda key: key.name)


async def list_of(db: Db, principal_id: PrincipalId) -> list[ApiKey]:
    """The keys of one principal in order of their names."""
    rows = (await db.run("SELECT * FROM api_key WHERE principal = $of TIMEOUT 5s;", of=principal_id))[0]
    return sorted((from_row(row) for row in rows), key=lambda key: key.name)


async def last_uses(db: Db, key_ids: list[KeyId]) -> dict[KeyId, datetime]:
    """When each key was last used; keys never used are missing. Up to a minute behind."""
    ids = [usage_id(key_id) for key_id in key_ids]
    rows = (await db.run("SELECT * FROM $ids TIMEOUT 5s;", ids=ids))[0]
    return {KeyId(key_of(row["id"])): row["used_at"] for row in rows}


async def find_management(control: Db, key_id: KeyId) -> ManagementKey | None:
    """The management key; `None` when there is none of that id."""
    row = (await control.run("SELECT * FROM ONLY $id TIMEOUT 2s;", id=RecordID(MANAGEMENT_TABLE, key_id)))[0]
    if not row:
        return None
    return ManagementKey(
        id=KeyId(key_of(row["id"])),
        name=row["name"],
        digest=bytes(row["hash"]),
        created_at=row["created_at"],
        valid_until=row.get("valid_until"),
    )


async def management_ids(control: Db) -> list[RecordID]:
    """The rows of all management keys."""
    return (await control.run("SELECT VALUE id FROM management_key TIMEOUT 5s;"))[0]


def management_row(key: ManagementKey) -> Record:
    """A management key as a row, without its id."""
    return {
        "name": key.name,
        "hash": key.digest,
        "created_at": key.created_at,
        "valid_until": key.valid_until,
    }


class _Recent(Generic[T]):
    """Values read a moment ago, the least used dropped first."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[T, datetime]] = OrderedDict()

    def get(self, name: str, now: datetime) -> T | None:
        found = self._kept.get(name)
        if found is None or not found[1] <= now < found[1] + KNOWN_FOR:
            return None
        self._kept.move_to_end(name)
        return found[0]

    def put(self, name: str, value: T, now: datetime) -> None:
        self._kept[name] = (value, now)
        if len(self._kept) > _MOST_KNOWN:
            self._kept.popitem(last=False)

    def clear(self) -> None:
        self._kept.clear()


class KnownCallers:
    """Keys and principals of one context read within the last 5 seconds, and uses of keys not noted yet.

    Whoever changes a key or principal calls `forget` after its commit: the change then holds at once here.
    """

    def __init__(self) -> None:
        self._keys: _Recent[ApiKey] = _Recent()
        self._principals: _Recent[Principal] = _Recent()
        self._changes = 0
        self._used: dict[KeyId, datetime] = {}
        self._noted: dict[KeyId, datetime] = {}

    def key(self, key_id: KeyId, now: datetime) -> ApiKey | None:
        """The key when it was read a moment ago."""
        return self._keys.get(key_id, now)

    async def read_key(self, db: Db, key_id: KeyId, now: datetime) -> ApiKey | None:
        """The key as it is now."""
        changes = self._changes
        found = await find(db, key_id)
        if found is not None and changes == self._changes:
            self._keys.put(key_id, found, now)
        return found

    async def principal(self, db: Db, principal_id: PrincipalId, now: datetime) -> Principal | None:
        """The principal, read a moment ago or now; `None` when there is none."""
        known = self._principals.get(principal_id, now)
        if known is not None:
            return known
        changes = self._changes
        found = await store_principals.find(db, principal_id)
        if found is None:
            return None
        if changes == self._changes:
            self._principals.put(principal_id, found.principal, now)
        return found.principal

    def forget(self) -> None:
        """Look again at every key and principal; reads that are under way are not kept either."""
        self._changes += 1
        self._keys.clear()
        self._principals.clear()

    def used(self, key_id: KeyId, at: datetime) -> None:
        """Note a use, in memory only."""
        self._used[key_id] = at

    def last_used(self, key_id: KeyId) -> datetime | None:
        """When the key was last used in this process; `None` when that is not known."""
        return self._used.get(key_id) or self._noted.get(key_id)

    async def note_uses(self, db: Db) -> int:
        """Write down the latest use of each key, at most one a minute a key; how many were written.

        Not a change of the record: nothing follows it, and losing the last minute of it costs nothing.
        """
        due = {
            key_id: at
            for key_id, at in self._used.items()
            if key_id not in self._noted or abs(at - self._noted[key_id]) >= USED_EVERY
        }
        if not due:
            return 0
        rows: list[dict[str, Any]] = [{"id": usage_id(key_id), "used_at": at} for key_id, at in due.items()]
        await db.run(
            "INSERT INTO key_usage $rows ON DUPLICATE KEY UPDATE used_at = $input.used_at RETURN NONE;", rows=rows
        )
        for key_id, at in due.items():
            self._noted[key_id] = at
            if self._used.get(key_id) == at:
                del self._used[key_id]
        return len(due)
