"""`keeps serve` and `keeps bootstrap`, as processes: keys, readiness, ending, and who owns the folder."""

from __future__ import annotations

import json
import re
import signal
import socket
import stat
from pathlib import Path

import httpx
import pytest

from keeps.client import Client
from keeps.memory import Memory
from tests.cli.conftest import Desk, Server, keeps, start_server

pytestmark = pytest.mark.slow

KEY = re.compile(r"sp-[a-z0-9]{20}-[A-Za-z0-9]{43}")


def test_bootstrap_prints_its_keys_once(alone: Desk) -> None:
    made = alone("bootstrap", "--context", "harbour", "--json").json
    assert set(made) == {"context", "managementKey", "ownerKey", "agentKey", "endpoint"}
    assert made["context"] == "harbour"
    secrets = {made[name] for name in ("managementKey", "ownerKey", "agentKey")}
    assert len(secrets) == 3
    assert all(map(KEY.fullmatch, secrets))
    assert "exists already" in alone("bootstrap", "--context", "harbour", code=1).err
    alone("bootstrap", "--context", "health", code=1)
    text = alone("bootstrap", "--context", "second").out
    assert len(KEY.findall(text)) == 3
    for secret_file in ("keys.json", "pepper"):
        assert stat.S_IMODE((alone.folder / secret_file).stat().st_mode) == 0o600
    alone("remember", "The second context", "--context", "second")
    assert alone("recall", "second context", "--context", "harbour").out == "Nothing found.\n"


def test_a_server_on_an_empty_folder(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    running = start_server(folder)
    assert httpx.get(f"{running.endpoint}/api/v1/health").json()["status"] == "ok"
    assert httpx.get(f"{running.endpoint}/docs").status_code == 200
    desk = Desk(folder=folder)
    desk("remember", "The kettle is porcelain")
    refused = keeps("serve", "--data", str(folder), "--port", "0")
    assert refused.returncode == 2
    assert "Another keeps process owns the folder" in refused.stderr
    code, out, err = running.stop()
    assert code == 0
    keys = KEY.findall(out)
    assert len(keys) == 3
    assert err.startswith(f"Opening {folder} …\n")
    assert "policy" in out
    assert re.search(r"^pending +0 proposals wait for a decision$", out, re.MULTILINE)
    assert f"{running.endpoint}/docs" in out
    assert not KEY.search(err)
    assert "porcelain" not in out + err
    again = start_server(folder, "--policy", "deliberate")
    code, out, err = again.stop(lambda process: process.send_signal(signal.SIGINT))
    assert code == 0
    assert "default keeps its policy automatic" in err
    assert "keeps settings set policy deliberate" in err
    assert not KEY.search(out + err)
    assert "porcelain" in desk("recall", "kettle").out


def test_a_killed_server_leaves_the_folder_to_the_next(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    running = start_server(folder)
    desk = Desk(folder=folder)
    desk("remember", "The kettle is porcelain")
    running.stop(lambda process: process.kill())
    assert "porcelain" in desk("recall", "kettle").out
    again = start_server(folder)
    assert "porcelain" in desk("recall", "kettle").out
    again.stop()


async def test_a_library_attaches_to_a_server_and_outlives_it(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    running = start_server(folder)
    async with Memory.open(folder) as memory:
        assert not memory.owner
        assert memory.endpoint == running.endpoint
        await memory.remember("The kettle is porcelain", infer="none")
        running.stop()
        assert len((await memory.recall("kettle")).hits) == 1
        assert memory.owner


def test_a_taken_port_is_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = keeps("serve", "--data", str(tmp_path / "m"), "--port", str(port))
    assert ran.returncode == 1
    assert str(port) in ran.stderr
    assert "Traceback" not in ran.stderr


def test_other_machines_are_warned_of(tmp_path: Path) -> None:
    running = start_server(tmp_path / "m", "--host", "0.0.0.0")
    assert running.endpoint.startswith("http://127.0.0.1:")
    _, _, err = running.stop()
    assert "not encrypted" in err


async def test_the_token_opens_what_is_for_local_processes_only(server: Server, tmp_path: Path) -> None:
    target = tmp_path / "x.archive"
    async with httpx.AsyncClient(base_url=server.endpoint) as http:
        key = json.loads((server.folder / "keys.json").read_text())["default"]["owner"]
        for headers in ({}, {"Authorization": "Bearer nonsense"}, {"Authorization": f"Bearer {key}"}):
            answer = await http.post("/local/backup", json={"file": str(target)}, headers=headers)
            assert answer.status_code == 401
    assert not target.exists()


def test_backup_through_the_owner_restore_and_doctor(desk: Desk, tmp_path: Path) -> None:
    desk("remember", "The compass is Norwegian")
    archive = tmp_path / "all.archive"
    made = desk("backup", str(archive), "--json").json
    assert made["contexts"] == ["default"]
    assert made["rows"] > 0
    assert "exists already" in desk("backup", str(archive), code=1).err
    desk("backup", str(archive), "--force")
    in_part = desk("doctor", code=4).out
    assert "The record and the index were not: another process uses the folder." in in_part
    assert "All is well." not in in_part
    fresh = Desk(folder=tmp_path / "fresh")
    assert "--new-ledger" in fresh("restore", str(archive), code=2).err
    done = fresh("restore", str(archive), "--new-ledger", "a test", "--json").json
    assert KEY.fullmatch(done["managementKey"])
    assert KEY.fullmatch(done["keys"]["default"]["ownerKey"])
    assert "Norwegian" in fresh("recall", "compass").out
    report = fresh("doctor", "--json", code=None)
    assert report.json["sound"], report.out
    assert report.code == 0


def test_restoring_over_a_folder_asks_first(alone: Desk, tmp_path: Path) -> None:
    alone("remember", "The compass is Norwegian")
    archive = tmp_path / "all.archive"
    alone("backup", str(archive))
    alone("remember", "The sextant is Danish")
    refused = alone("restore", str(archive), code=2).err
    assert "--yes" in refused
    assert "--dry-run" not in refused
    alone("restore", str(archive), "--yes")
    assert "compass" in alone("recall", "compass").out
    assert alone("recall", "sextant").out == "Nothing found.\n"


def test_doctor_says_what_is_wrong(alone: Desk) -> None:
    alone("remember", "The compass is Norwegian")
    (alone.folder / "keys.json").chmod(0o644)
    ran = alone("doctor", code=1)
    assert "BAD" in ran.out
    assert "keys.json" in ran.out


async def test_keys_and_memories_stay_out_of_the_log(tmp_path: Path) -> None:
    running = start_server(tmp_path / "m")
    key = json.loads((running.folder / "keys.json").read_text())["default"]["owner"]
    async with Client(running.endpoint, key=key) as client:
        await client.remember("The porcelain is cracked", infer="none")
        await client.recall("porcelain")
        with pytest.raises(Exception, match="does not exist"):
            await client.inspect("turn:porcelain")
    code, out, err = running.stop()
    assert code == 0
    assert "porcelain" not in out + err
    assert key not in err
