"""The look at every row, on records that were harmed on purpose: it must see each harm."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from keeps.store.address import folder_url
from keeps.store.db import open_engine
from tests.faults.audit import audit
from tests.faults.server import Owner, fact, note

pytestmark = pytest.mark.slow

HARMS = (
    ("DELETE (SELECT VALUE id FROM memory_chunk LIMIT 1);", "without what was written with it"),
    ("DELETE (SELECT VALUE id FROM turn WHERE seq = 1 LIMIT 1);", "has turns"),
    ("DELETE (SELECT VALUE id FROM attribute WHERE superseded_by = NONE LIMIT 1);", "names rows that are not there"),
    ("UPDATE chain SET head = NONE;", "is not in force"),
    ("DELETE change:2;", "do not end at"),
)


async def test_the_audit_sees_each_harm(tmp_path: Path) -> None:
    sound = tmp_path / "memory"
    with Owner(sound) as owner, owner.client() as http:
        session = http.post("/sessions", json={}).json()["id"]
        for number in range(3):
            http.post("/facts", json=note(f"entry {number}", session_id=session))
            http.post("/facts", json=fact("role", f"role {number}"))
    assert (await audit(sound)).faults == []
    for number, (harm, seen) in enumerate(HARMS):
        folder = tmp_path / f"harmed{number}"
        shutil.copytree(sound, folder)
        engine = await open_engine(str(folder_url(folder / "record")))
        await (await engine.database("context_default")).run(harm)
        await engine.close()
        assert [fault for fault in (await audit(folder)).faults if seen in fault], harm
    (index,) = (sound / "default" / "finder").glob("*.sqlite3")
    with closing(sqlite3.connect(index)) as db, db:
        assert db.execute("DELETE FROM entry WHERE row = (SELECT max(row) FROM entry)").rowcount == 1
    assert [fault for fault in (await audit(sound)).faults if "index: entries" in fault]
