"""Schemas: forward only, resumed when interrupted, never opened by an older version."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any, LiteralString, cast

import pytest

from keeps.core.errors import StoreRefused
from keeps.store.db import Db, Engine, ScriptRejected
from keeps.store.migrate import migrate, migrations, schema_version

FIRST = "DEFINE TABLE IF NOT EXISTS fact SCHEMAFULL;\nDEFINE FIELD IF NOT EXISTS text ON fact TYPE string;\n"
SECOND = "DEFINE FIELD IF NOT EXISTS rev ON fact TYPE int DEFAULT 0;\nUPDATE fact SET rev = 1; -- a comment"


def folder(root: Path, *steps: str) -> Path:
    root.mkdir(exist_ok=True)
    for number, text in enumerate(steps, 1):
        (root / f"{number:04}_step.surql").write_text(text)
    return root


async def shape(db: Db) -> Any:
    return await db.run("INFO FOR DB; INFO FOR TABLE fact;")


async def test_a_fresh_database_gets_every_step(db: Db, tmp_path: Path) -> None:
    assert await schema_version(db) == 0
    assert await migrate(db, "context", folder=folder(tmp_path / "m", FIRST, SECOND)) == 2
    assert await schema_version(db) == 2
    (row,) = (await db.run("CREATE fact SET text = 'x'"))[0]
    assert row["rev"] == 0


async def test_an_older_database_gets_only_what_it_lacks(db: Db, tmp_path: Path) -> None:
    await migrate(db, "context", folder=folder(tmp_path / "m", FIRST))
    await db.run("CREATE fact:1 SET text = 'kept'")
    assert await migrate(db, "context", folder=folder(tmp_path / "m", FIRST, SECOND)) == 2
    assert (await db.run("SELECT VALUE [text, rev] FROM fact"))[0] == [["kept", 1]]
    before = await shape(db)
    assert await migrate(db, "context", folder=tmp_path / "m") == 2
    assert await shape(db) == before


async def test_an_interrupted_step_is_finished(db: Db, tmp_path: Path) -> None:
    steps = folder(tmp_path / "m", FIRST, SECOND)
    for statement in FIRST.splitlines()[:1]:
        await db.run(cast(LiteralString, statement))
    assert await migrate(db, "context", folder=steps) == 2
    assert "rev" in (await shape(db))[1]["fields"]


async def test_a_failing_step_leaves_nothing_behind(db: Db, tmp_path: Path) -> None:
    broken = folder(tmp_path / "m", FIRST, "DEFINE TABLE IF NOT EXISTS half; THROW 'no';")
    with pytest.raises(Exception, match="no"):
        await migrate(db, "context", folder=broken)
    assert await schema_version(db) == 1
    assert "half" not in (await shape(db))[0]["tables"]


async def test_data_of_a_newer_version_is_refused(db: Db, tmp_path: Path) -> None:
    await migrate(db, "context", folder=folder(tmp_path / "new", FIRST, SECOND))
    with pytest.raises(StoreRefused, match=r"schema is 2, this version knows 1.*keeps restore") as refused:
        await migrate(db, "context", folder=folder(tmp_path / "old", FIRST))
    assert "newer" in refused.value.message


@pytest.mark.parametrize("names", [["1_a.surql"], ["0002_a.surql"], ["0001_a.surql", "0003_b.surql"], ["0001_a.sql"]])
def test_misnamed_steps_are_an_error(names: list[str], tmp_path: Path) -> None:
    for name in names:
        (tmp_path / name).write_text("")
    with pytest.raises(ValueError, match="migration"):
        migrations(tmp_path)


@pytest.mark.parametrize("kind", ["control", "context"])
async def test_the_shipped_schemas_apply_and_do_no_harm_twice(db: Db, kind: Any) -> None:
    assert await migrate(db, kind) >= 1
    for step in migrations(files("keeps.store") / "schema" / kind):
        await db.run(cast(LiteralString, step.text), timeout_s=30)
    assert await migrate(db, kind) == await schema_version(db)


async def test_a_step_that_does_not_parse_is_our_error(db: Db, tmp_path: Path) -> None:
    with pytest.raises(ScriptRejected, match="Parse error"):
        await migrate(db, "context", folder=folder(tmp_path / "m", "DEFINE NONSENSE;"))


@pytest.mark.parametrize("before", range(1, len(migrations(files("keeps.store") / "schema" / "context"))))
async def test_a_record_brought_forward_has_the_tables_of_a_new_one(memory_engine: Engine, before: int) -> None:
    old, new = await memory_engine.database(f"forward_{before}"), await memory_engine.database(f"fresh_{before}")
    assert await migrate(old, "context", upto=before) == before
    assert await migrate(old, "context") == await migrate(new, "context")
    shapes: list[Any] = []
    for db in (old, new):
        shape = (await db.run("INFO FOR DB;"))[0]
        for table in shape["tables"]:
            shape[table] = (await db.run("INFO FOR TABLE $table;", table=table))[0]
        shapes.append(shape)
    assert shapes[0] == shapes[1]
