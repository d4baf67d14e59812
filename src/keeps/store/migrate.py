"""Bring a database to the schema this version knows: numbered `.surql` files, forward only."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final, Literal, LiteralString, cast

from keeps.core.errors import StoreRefused
from keeps.store.db import Db

Kind = Literal["control", "context"]

MIGRATION_TIMEOUT_S: Final = 600.0

_FILE: Final = re.compile(r"(\d{4})_[a-z0-9_]+\.surql")

_VERSION: Final = """
    DEFINE TABLE IF NOT EXISTS meta SCHEMALESS;
    SELECT VALUE version FROM ONLY meta:schema;
"""


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of a schema. Its statements do no harm when they are run again."""

    number: int
    text: str


def migrations(folder: Traversable) -> list[Migration]:
    """The steps in `folder`, in order.

    Raises:
        ValueError: a file is misnamed, or the numbers are not 1, 2, 3 …
    """
    found: list[Migration] = []
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        match = _FILE.fullmatch(file.name)
        if match is None:
            raise ValueError(f"not a migration's name: {file.name}")
        found.append(Migration(int(match[1]), file.read_text(encoding="utf-8")))
    if [step.number for step in found] != list(range(1, len(found) + 1)):
        raise ValueError("migrations must be numbered 0001, 0002 … without gaps")
    return found


def known_version(kind: Kind) -> int:
    """The newest schema this version knows."""
    return len(_steps(kind, None))


async def migrate(db: Db, kind: Kind, *, folder: Traversable | None = None, upto: int | None = None) -> int:
    """The schema's version after applying what was missing, up to number `upto` when that is given. Each step
    and its number are one transaction, so an interrupted one is simply run again.

    Raises:
        StoreRefused: the data was written by a newer version.
    """
    steps = _steps(kind, folder)
    version = await schema_version(db)
    if version > len(steps):
        raise StoreRefused(
            f"This data was written by a newer keeps: its schema is {version}, this version knows {len(steps)}. "
            "Install the newer version again, or restore a backup that this one made: `keeps restore --data DIR "
            "FILE`."
        )
    wanted = len(steps) if upto is None else upto
    for step in steps[version:wanted]:
        # A step comes from our own package, never from a user, so it may stand where a literal is asked for.
        script = cast(LiteralString, f"BEGIN;\n{step.text}\n;UPSERT meta:schema SET version = $number;\nCOMMIT;")
        await db.run(script, timeout_s=MIGRATION_TIMEOUT_S, number=step.number)
    return max(version, min(wanted, len(steps)))


def _steps(kind: Kind, folder: Traversable | None) -> list[Migration]:
    return migrations(folder or files("keeps.store") / "schema" / kind)


async def schema_version(db: Db) -> int:
    """The number of the last step applied; 0 for a new database."""
    return (await db.run(_VERSION))[1] or 0
