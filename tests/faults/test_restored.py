"""A backup taken before something was forgotten: restoring it brings nothing back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.audit import audit
from tests.faults.server import Owner, fact, keeps, note

pytestmark = pytest.mark.slow


async def test_a_restored_backup_brings_nothing_back(tmp_path: Path) -> None:
    folder, archive = tmp_path / "memory", tmp_path / "archive"
    with Owner(folder) as owner:
        with owner.client() as http:
            session = http.post("/sessions", json={}).json()["id"]
            doomed = http.post("/sessions", json={}).json()["id"]
            http.post("/facts", json=note("the zanzibar shipment is late", session_id=session))
            http.post("/facts", json=note("the kumquat crates are red", session_id=session))
            http.post("/facts", json=note("the tide is high", session_id=session))
            http.post("/facts", json=note("the walrus came aboard", session_id=doomed))
            http.post("/facts", json=note("the marzipan is eaten", scopes=[["user/guest"]]))
            http.post("/facts", json=fact("secret", "ocelot", name="Olga"))
            http.post("/facts", json=fact("role", "purser", name="Mara"))
        made = keeps("backup", "--data", str(folder), str(archive))
        assert made.exit_code == 0, made.stderr
        with owner.client() as http:
            gone = [
                http.post("/forget", json={"query": "the zanzibar shipment is late", "purge": True}),
                http.post("/forget", json={"query": "the kumquat crates are red"}),
                http.delete(f"/sessions/{doomed}"),
                http.post("/scopes/forget", json={"path": "user/guest"}),
                http.delete("/entities/person/Olga"),
            ]
            assert [reply.status_code for reply in gone] == [200, 200, 204, 200, 204], [r.text for r in gone]
            http.post("/facts", json=note("written after the backup", session_id=session))
    restored = keeps("restore", "--data", str(folder), "--yes", str(archive))
    assert restored.exit_code == 0, restored.stderr
    with Owner(folder) as owner, owner.client() as http:
        words = ("zanzibar", "kumquat", "walrus", "marzipan", "ocelot", "backup")
        assert [http.post("/query", json={"query": word}).json()["hits"] for word in words] == [[]] * len(words)
        assert http.get("/entities/person/Olga").status_code == 404
        assert http.get(f"/sessions/{doomed}").status_code == 404
        listed = http.get("/attributes").text + http.get(f"/sessions/{session}/turns").text
        assert not [word for word in words if word in listed]
        assert "the tide is high" in listed
        assert "purser" in listed
    found = await audit(folder)
    text = repr({table: rows for table, rows in found.rows.items() if table != "change"})
    assert not [word for word in ("zanzibar", "walrus", "marzipan") if word in text]
    told = keeps("doctor", "--data", str(folder))
    assert told.exit_code == 0, told.stdout
