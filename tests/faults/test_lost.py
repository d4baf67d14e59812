"""Files of a record cut or taken away while nobody looked: never a silent loss, always two ways on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from keeps.core.errors import StoreRefused
from keeps.memory import Memory
from keeps.store.secrets import saved_keys
from tests.faults.audit import audit
from tests.faults.server import READY_S, Owner, Server, fact, keeps, note, serving

pytestmark = pytest.mark.slow
RECORD = Path("record") / "context_default"
COUNT = 12


@pytest.fixture
def killed(tmp_path: Path) -> Iterator[Server]:
    """A server that was killed after some writes, with a backup of the first half of them."""
    with serving(tmp_path / "memory") as server:
        with server.client() as http:
            for number in range(COUNT):
                body = fact("role", f"role {number}") if number % 3 else note(f"buoy {number} is lit")
                assert http.post("/facts", json=body).status_code == 200
                if number == COUNT // 2:
                    assert keeps("backup", "--data", str(server.folder), str(tmp_path / "half")).exit_code == 0
        server.kill()
        yield server


def refused(server: Server) -> str:
    """Why the server will not start: in one line after the one that says what it opens, without a trace of its code."""
    before = len(server.told())
    process = server.launch()
    assert process.wait(READY_S) == 2, server.told()
    opening, line = server.told()[before:].strip().splitlines()
    assert opening.startswith("Opening ")
    return line


def goes_on(folder: Path) -> int:
    """The folder can be read and written; how many sessions it has from before."""
    with Owner(folder) as owner, owner.client() as http:
        before = len(http.get("/sessions").json()["sessions"])
        assert http.post("/facts", json=note("a new day")).status_code == 200
        assert http.post("/query", json={"query": "a new day"}).json()["hits"][0]["text"] == "a new day"
    return before


async def test_a_cut_log_is_refused_until_the_loss_is_accepted_or_a_backup_is_back(killed: Server) -> None:
    folder = killed.folder
    (log,) = (file for file in (folder / RECORD / "wal").iterdir() if file.stat().st_size)
    log.write_bytes(log.read_bytes()[:-20])
    shutil.copytree(folder, copy := folder.with_name("copy"))
    said = refused(killed)
    assert "lost changes" in said
    assert "keeps restore --data DIR FILE" in said
    assert "keeps doctor --accept-loss --data DIR" in said
    attached = keeps("recall", "--data", str(folder), "buoy")
    assert (attached.exit_code, "lost changes" in attached.stderr) == (2, True)
    told = keeps("doctor", "--data", str(folder))
    assert (told.exit_code, "--accept-loss" in told.stdout) == (1, True)
    assert keeps("doctor", "--data", str(folder), "--accept-loss").exit_code == 2
    with pytest.raises(StoreRefused) as again:
        async with Memory.open(folder):
            pass
    assert again.value.message in said
    accepted = keeps("doctor", "--data", str(folder), "--accept-loss", "--yes", "--json")
    assert accepted.exit_code == 0, accepted.stdout
    assert len(json.loads(accepted.stdout)["accepted"]) == 1
    assert goes_on(folder) == COUNT - 1
    assert "\n".join((await audit(folder)).faults) == ""

    restored = keeps("restore", "--data", str(copy), "--yes", str(folder.with_name("half")))
    assert restored.exit_code == 0, restored.stderr
    assert goes_on(copy) == COUNT // 2 + 1
    assert "\n".join((await audit(copy)).faults) == ""


async def test_a_missing_manifest_is_refused_until_the_loss_is_accepted_or_a_backup_is_back(killed: Server) -> None:
    folder = killed.folder
    manifests = folder / RECORD / "manifest"
    # While everything still stands in the log, nothing is lost with it.
    shutil.rmtree(manifests)
    manifests.mkdir()
    assert goes_on(folder) == COUNT
    shutil.rmtree(manifests)
    manifests.mkdir()
    shutil.copytree(folder, copy := folder.with_name("copy"))
    said = refused(killed)
    assert "manifest" in said
    assert "keeps restore --data DIR FILE" in said
    assert "keeps doctor --accept-loss --data DIR" in said
    told = keeps("doctor", "--data", str(folder))
    assert (told.exit_code, "manifest" in told.stdout) == (1, True)
    begins_anew(copy)
    restored = keeps("restore", "--data", str(folder), "--yes", str(folder.with_name("half")))
    assert restored.exit_code == 0, restored.stderr
    assert goes_on(folder) == COUNT // 2 + 1
    assert "\n".join((await audit(folder)).faults) == ""


async def test_a_log_cut_to_nothing_locks_nobody_out(killed: Server) -> None:
    folder = killed.folder
    for log in (folder / RECORD / "wal").iterdir():
        log.write_bytes(b"")
    assert "keeps doctor --accept-loss --data DIR" in refused(killed)
    begins_anew(folder)


def begins_anew(folder: Path) -> None:
    """The context is empty, and its owner and agent get in with new keys, which were printed once."""
    old = saved_keys(folder, "default")
    accepted = keeps("doctor", "--data", str(folder), "--accept-loss", "--yes")
    assert accepted.exit_code == 0, accepted.stdout
    assert "All is well." in accepted.stdout
    new = saved_keys(folder, "default")
    assert set(new) == {"owner", "agent"}
    assert all(accepted.stdout.count(key) == 1 for key in new.values())
    assert not set(new.values()) & set(old.values())
    again = keeps("doctor", "--data", str(folder), "--accept-loss", "--yes", "--json")
    assert json.loads(again.stdout)["accepted"] == []
    assert not any(key in again.stdout for key in new.values())
    with serving(folder):
        assert keeps("remember", "--data", str(folder), "the ferry sails at nine").exit_code == 0
        recalled = keeps("recall", "--data", str(folder), "ferry")
        assert (recalled.exit_code, "sails at nine" in recalled.stdout) == (0, True)
        assert "buoy" not in keeps("recall", "--data", str(folder), "buoy").stdout
