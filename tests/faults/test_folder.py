"""A folder two servers want, a disk that is read-only, a disk that is full."""

from __future__ import annotations

from pathlib import Path

import pytest

from keeps.memory import Memory
from tests.faults.server import Owner, Server, keeps, note
from tests.store.faults import run_on_small_disk

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


async def test_a_second_server_is_refused_and_others_use_the_first(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    with Owner(folder) as owner, owner.client() as http:
        second = Server(folder)
        try:
            assert second.launch().wait(60) == 2
        finally:
            second.give_up()
        opening, said = second.told().strip().splitlines()
        assert opening.startswith("Opening ")
        assert "Another keeps process owns the folder" in said
        async with Memory.open(folder) as memory:
            assert memory.owner is False
            assert memory.endpoint == owner.endpoint
            await memory.remember("the second one came through the first", infer="none")
            assert [hit.text for hit in (await memory.recall("second came through")).hits]
        told = keeps("recall", "--data", str(folder), "second came through")
        assert "the second one came through the first" in told.stdout
        assert keeps("backup", "--data", str(folder), str(tmp_path / "archive")).exit_code == 0
        assert keeps("restore", "--data", str(folder), "--yes", str(tmp_path / "archive")).exit_code == 2
        assert http.post("/facts", json=note("the first goes on")).status_code == 200


READ_ONLY = f"""
import subprocess, sys
from pathlib import Path
sys.path.insert(0, {str(ROOT)!r})
from tests.faults.server import Owner, keeps, note

folder = Path("/mnt/memory")
with Owner(folder) as owner, owner.client() as http:
    assert http.post("/facts", json=note("the lamp is lit")).status_code == 200
subprocess.run(["mount", "-o", "remount,ro", "/mnt"], check=True)
serve = [sys.executable, "-m", "keeps", "serve", "--port", "0", "--data", str(folder)]
done = subprocess.run(serve, capture_output=True, text=True)
print(done.returncode, done.stderr.strip().splitlines()[-1])
for command in (["recall", "lamp"], ["remember", "more"]):
    done = keeps(command[0], "--data", str(folder), *command[1:])
    print(done.exit_code, done.stderr.strip())
subprocess.run(["mount", "-o", "remount,rw", "/mnt"], check=True)
with Owner(folder) as owner, owner.client() as http:
    print(http.post("/facts", json=note("and lit again")).status_code)
    print(len(http.post("/query", json={{"query": "lit"}}).json()["hits"]))
"""


def test_a_read_only_folder_is_refused_and_works_again_afterwards() -> None:
    *said, written, found = run_on_small_disk(READ_ONLY, size="16m").splitlines()
    assert len(said) == 3
    assert all(line.startswith("2 keeps: ") and "on a read-only disk" in line for line in said)
    assert (written, found) == ("200", "2")


FULL = f"""
import asyncio, os, sys
from pathlib import Path
sys.path.insert(0, {str(ROOT)!r})
from tests.faults.audit import audit
from tests.faults.server import Owner, answers, fact, note, until

folder, ballast = Path("/mnt/memory"), Path("/mnt/ballast")
kept = []

def write(http, number):
    text = f"entry {{number}} " + "of the log " * 900
    reply = http.post("/facts", json=note(text), headers={{"Idempotency-Key": f"k{{number}}"}})
    if reply.status_code == 200:
        kept.append(f"turn:{{reply.json()['turnId']}}")
    return reply

def fill(room):
    disk = os.statvfs("/mnt")
    ballast.write_bytes(b"x" * (disk.f_bavail * disk.f_frsize - room))

with Owner(folder) as owner, owner.client() as http:
    for number in range(5):
        assert write(http, number).status_code == 200
    fill(int(sys.argv[1]))
    number = 5
    while (reply := write(http, number)).status_code == 200:
        number += 1
    print(reply.status_code, reply.headers["Retry-After"], reply.json()["message"])
    for body in (note("short"), fact("role", "pilot")):
        assert http.post("/facts", json=body).status_code == 503
    gone = http.post("/forget", json={{"ids": [kept[0]], "purge": True}})
    print("forget", gone.status_code)
    for path in ("/sessions", "/entities", "/me", f"/inspect?ref={{kept[0]}}"):
        assert http.get(path).status_code == 200, path
    assert len(answers(http, ["entry 3"])[0]) > 3
    ballast.unlink()
    until(lambda: write(http, number).status_code == 200, limit_s=90, what="a write after room was made")
    assert http.post("/facts", json=fact("role", "pilot")).status_code == 200
    assert all(answers(http, [f"entry {{number}}"]))
found = asyncio.run(audit(folder))
print(found.faults, set(kept) <= found.refs, max(found.contents().values()))
"""


@pytest.mark.timeout(240)
@pytest.mark.parametrize("room", [1_500_000, 200_000, 20_000])
def test_a_full_disk_refuses_writes_answers_questions_and_works_again(room: int) -> None:
    """Whether the record or its index is the first to find no room."""
    refused, forget, sound = run_on_small_disk(FULL, str(room), size="32m", timeout_s=200).splitlines()
    status, wait, message = refused.split(" ", 2)
    assert (status, wait.isdecimal()) == ("503", True)
    assert "make room, then try again" in message
    assert forget == "forget 503"
    assert sound == "[] True 1"
