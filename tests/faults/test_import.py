"""An import that is killed half way and run again: every turn once, in its place."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from keeps.store.watermark import Watermark
from tests.faults.audit import audit
from tests.faults.server import environment, keeps, serving, until

pytestmark = pytest.mark.slow
SESSIONS, TURNS = 3, 700


def conversation(file: Path) -> dict[str, list[str]]:
    """A long conversation in a file; what is said in each session, in order."""
    said = {
        f"day {day}": [f"day {day} turn {number}: all is well" for number in range(TURNS)] for day in range(SESSIONS)
    }
    lines = [
        {"session": session, "role": "user" if number % 2 else "assistant", "content": text}
        for session, texts in said.items()
        for number, text in enumerate(texts)
    ]
    file.write_text("\n".join(map(json.dumps, lines)))
    return said


def importing(folder: Path, file: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "keeps", "import", "conversation", str(file), "--data", str(folder)]
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment()
    )


def commits(folder: Path) -> int:
    """How far the record is, seen from outside."""
    return Watermark(folder / "watermark").read("context_default") or 0


async def complete(folder: Path, said: dict[str, list[str]]) -> None:
    found = await audit(folder)
    assert "\n".join(found.faults) == ""
    there: dict[str, list[str]] = {}
    for turn in sorted(found.rows["turn"].values(), key=lambda turn: turn["seq"]):
        there.setdefault(turn["session"], []).append(turn["content"])
    assert sorted(there.values()) == sorted(said.values())


@pytest.mark.timeout(200)
async def test_an_import_killed_as_owner_of_the_folder_goes_on(tmp_path: Path) -> None:
    folder, said = tmp_path / "memory", conversation(tmp_path / "talk.jsonl")
    assert keeps("bootstrap", "--data", str(folder)).exit_code == 0
    for _ in range(2):
        start = commits(folder)
        process = importing(folder, tmp_path / "talk.jsonl")
        until(lambda start=start: commits(folder) >= start + 3, what="a part of the import")
        process.send_signal(signal.SIGKILL)
        assert process.wait(30) == -signal.SIGKILL
    done = keeps("import", "conversation", str(tmp_path / "talk.jsonl"), "--data", str(folder), "--json")
    assert done.exit_code == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["already"] > 0
    assert told["already"] + told["turns"] == SESSIONS * TURNS
    again = keeps("import", "conversation", str(tmp_path / "talk.jsonl"), "--data", str(folder), "--json")
    assert json.loads(again.stdout)["turns"] == 0
    await complete(folder, said)


@pytest.mark.timeout(200)
async def test_an_import_into_a_running_server_survives_either_being_killed(tmp_path: Path) -> None:
    folder, said = tmp_path / "memory", conversation(tmp_path / "talk.jsonl")
    with serving(folder) as server:
        start = commits(folder)
        process = importing(folder, tmp_path / "talk.jsonl")
        until(lambda: commits(folder) >= start + 2, what="a part of the import")
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        start = commits(folder)
        process = importing(folder, tmp_path / "talk.jsonl")
        until(lambda: commits(folder) >= start + 2, what="a further part of the import")
        server.kill()
        # The one that imports may become the owner of the folder itself, or give up and be run again.
        process.wait(60)
        done = keeps("import", "conversation", str(tmp_path / "talk.jsonl"), "--data", str(folder), "--json")
        assert done.exit_code == 0, done.stderr
    await complete(folder, said)
