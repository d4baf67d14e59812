"""Contexts as rows of the control database."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, cast

from keeps.core.contexts import RESERVED_NAMESPACES, check_context_id
from keeps.core.errors import Unprocessable
from keeps.store.db import Db, RecordID
from keeps.store.rows import Record, key_of

_PLAIN: Final = re.compile(r"[^A-Za-z0-9-]")
_MAX_NAME: Final = 110
_PREFIX: Final = "context_"
_SPELLED: Final = re.compile(r"_([0-9a-f]{2})")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextRow:
    """A context as registered. `database` is where its rows live."""

    id: str
    namespace: str
    database: str
    created_at: datetime
    description: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    enforcement_blocked: bool = False


def database_of(context_id: str) -> str:
    """The name of a context's database: the id in lower case, every byte that such a name may not hold spelled out.

    No two ids get one name, because no two contexts differ by case alone.
    """
    folded = context_id.lower()
    spelled = _PLAIN.sub(lambda found: f"_{ord(found.group()):02x}", folded)
    if len(spelled) > _MAX_NAME:
        spelled = hashlib.sha256(folded.encode()).hexdigest()
    return f"{_PREFIX}{spelled}"


def id_of(database: str, known: Iterable[str]) -> str:
    """The id of the context whose database that is: one of `known`, else what the name tells, in lower case."""
    spelled = database.removeprefix(_PREFIX)
    told = _SPELLED.sub(lambda found: chr(int(found[1], 16)), spelled)
    # What is left is the hash of a long id: as an id it names the same database.
    return next((id_ for id_ in known if database_of(id_) == database), told)


async def find(db: Db, context_id: str) -> ContextRow | None:
    """The context, `None` when there is none of that id."""
    row = (await db.run("SELECT * FROM ONLY $id TIMEOUT 2s;", id=RecordID("context", context_id)))[0]
    return _from_row(row) if row else None


async def list_all(db: Db) -> list[ContextRow]:
    """All contexts in order of their ids."""
    rows = (await db.run("SELECT * FROM context TIMEOUT 5s;"))[0]
    return sorted((_from_row(row) for row in rows), key=lambda context: context.id)


def to_row(context: ContextRow) -> Record:
    """A context as a row, without its id."""
    return {
        "folded": context.id.lower(),
        "namespace": context.namespace,
        "database": context.database,
        "description": context.description,
        "config": dict(context.config),
        "enforcement_blocked": context.enforcement_blocked,
        "created_at": context.created_at,
    }


def check_row(row: Record) -> str:
    """The id of the context in a row from outside. Raises: ValueError for a row that no context here could have."""
    context_id: object = row["id"].id
    if not isinstance(context_id, str):
        raise ValueError("an id that is no text")
    try:
        check_context_id(context_id)
    except Unprocessable as error:
        raise ValueError(error.message) from error
    namespace, database, folded = (cast("object", row.get(name)) for name in ("namespace", "database", "folded"))
    if not isinstance(namespace, str) or namespace.lower() in RESERVED_NAMESPACES:
        raise ValueError("a namespace that is reserved or missing")
    if database != database_of(context_id) or folded != context_id.lower():
        raise ValueError("a database that belongs to another id")
    return context_id


def _from_row(row: Record) -> ContextRow:
    return ContextRow(
        id=key_of(row["id"]),
        namespace=row["namespace"],
        database=row["database"],
        created_at=row["created_at"],
        description=row.get("description"),
        config=row["config"],
        enforcement_blocked=row["enforcement_blocked"],
    )
