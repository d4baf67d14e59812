"""The one row of bookkeeping a database keeps about itself."""

from __future__ import annotations

import secrets

from keeps.store.db import Db


async def uid(db: Db) -> str:
    """The random name of this record, made when it is first asked for; a copy or restore keeps it."""
    found = (await db.run("SELECT VALUE uid FROM ONLY meta:state TIMEOUT 2s;"))[0]
    if found:
        return str(found)
    made = await db.run("UPSERT ONLY meta:state SET uid = uid ?? $made RETURN VALUE uid;", made=secrets.token_hex(16))
    return str(made[0])


async def applied_tombstone(db: Db) -> int:
    """The number of the last tombstone this database has carried out; 0 for none."""
    return int((await db.run("SELECT VALUE tombstone FROM ONLY meta:state TIMEOUT 2s;"))[0] or 0)
