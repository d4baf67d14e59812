"""Every row of a database, whatever its tables: read out in pages, written in batches."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final

from keeps.core.errors import Invalid
from keeps.store.db import Db, Duplicate, RecordID, ScriptRejected
from keeps.store.rows import Record

PAGE: Final = 100
"""Rows a page: with the longest texts a page is 50 MB, with common ones 100 KB."""

_READ_S: Final = 120.0
_SCHEMA_ROW: Final = "schema"
"""The row `meta:schema` belongs to the tables, not to what they hold: migrations write it."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table as the database knows it; `edges` when its rows join two others."""

    name: str
    edges: bool


async def tables(db: Db) -> list[Table]:
    """Every table that is defined, those of edges last."""
    defined: dict[str, str] = (await db.run("INFO FOR DB;"))[0]["tables"]
    found = [Table(name, "TYPE RELATION" in text.partition("PERMISSIONS")[0]) for name, text in defined.items()]
    return sorted(found, key=lambda table: (table.edges, table.name))


async def pages(db: Db, table: Table) -> AsyncIterator[list[Record]]:
    """The rows of a table that were there at the first page, each as it is when its page is read.

    The ids are read once: a range with a limit would be scanned from its start for every page.
    """
    found = await db.run(
        "SELECT VALUE id FROM type::table($table) TIMEOUT 120s;", timeout_s=_READ_S + 5, table=table.name
    )
    keys = [record_id.id for record_id in found[0]]
    del found
    if table.name == "meta":
        keys = [key for key in keys if key != _SCHEMA_ROW]
    for start in range(0, len(keys), PAGE):
        ids = [RecordID(table.name, key) for key in keys[start : start + PAGE]]
        rows = await db.run("SELECT * FROM $ids TIMEOUT 60s;", timeout_s=65.0, ids=ids)
        yield rows[0]


async def write(db: Db, rows: Sequence[Record], *, edges: bool) -> None:
    """Write rows of one table under their own ids, in one commit.

    Raises:
        Invalid: a row exists already, or does not fit its table.
    """
    try:
        if edges:
            await db.run("INSERT RELATION $rows RETURN NONE;", timeout_s=60.0, rows=list(rows))
        else:
            await db.run("INSERT $rows RETURN NONE;", timeout_s=60.0, rows=list(rows))
    except Duplicate as error:
        raise Invalid("The archive holds a row twice: it was put together by hand. Use another backup.") from error
    except ScriptRejected as error:
        raise Invalid(f"A row of the archive does not fit its table: {error}") from error


async def count(db: Db, table: str) -> int:
    """How many rows a table has."""
    found = await db.run("SELECT count() FROM type::table($table) GROUP ALL;", timeout_s=_READ_S, table=table)
    return int(found[0][0]["count"]) if found[0] else 0
