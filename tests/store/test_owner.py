"""One owner a folder: exactly one wins, its note is private, a killed one leaves nothing that counts."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from keeps.core.errors import StoreRefused, Unavailable
from keeps.store.owner import FolderLock, Owner, read_owner

OWNER = Owner(
    endpoint="http://127.0.0.1:9090",
    token="a-secret",
    pid=os.getpid(),
    started_at=datetime(2026, 1, 2, 3, 4, 5, 6, UTC),
    version="0.1.0",
)

HOLD = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from keeps.core.errors import StoreRefused
from keeps.store.owner import FolderLock, Owner
sys.stdin.readline()
lock = FolderLock(Path(sys.argv[1]))
try:
    lock.acquire()
except StoreRefused:
    print("refused", flush=True)
else:
    lock.publish(Owner(endpoint="http://x", token="t", pid=1, started_at=datetime.now(UTC), version="1"))
    print("owner", flush=True)
    sys.stdin.readline()
"""


def other_process(data: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, str(data)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def say(process: subprocess.Popen[str]) -> None:
    assert process.stdin
    process.stdin.write("go\n")
    process.stdin.flush()


def hear(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


def finish(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_owner_can_be_found_and_its_files_are_private(tmp_path: Path) -> None:
    data = tmp_path / "a" / "data"
    assert read_owner(data) is None
    with FolderLock(data) as lock:
        with pytest.raises(Unavailable) as starting:
            read_owner(data)
        assert starting.value.retry_after_s == 1
        lock.publish(OWNER)
        assert read_owner(data) == OWNER
        assert mode(data) == 0o700
        assert mode(data / "owner.json") == 0o600
        assert sorted(file.name for file in data.iterdir()) == ["lock", "owner.json"]
    assert read_owner(data) is None
    assert not (data / "owner.json").exists()
    assert "a-secret" not in repr(OWNER)


def test_a_second_owner_is_refused_even_in_the_same_process(tmp_path: Path) -> None:
    with FolderLock(tmp_path), pytest.raises(StoreRefused, match="Another keeps process"):
        FolderLock(tmp_path).acquire()
    with FolderLock(tmp_path):
        pass


def test_the_lock_of_a_killed_owner_is_free_and_its_note_ignored(tmp_path: Path) -> None:
    process = other_process(tmp_path)
    try:
        say(process)
        assert hear(process) == "owner"
        found = read_owner(tmp_path)
        assert found is not None
        assert found.token == "t"
        with pytest.raises(StoreRefused):
            FolderLock(tmp_path).acquire()
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert (tmp_path / "owner.json").exists()
        assert read_owner(tmp_path) is None
        with FolderLock(tmp_path):
            assert not (tmp_path / "owner.json").exists()
    finally:
        finish(process)


@pytest.mark.slow
def test_of_racing_processes_exactly_one_wins(tmp_path: Path) -> None:
    processes = [other_process(tmp_path) for _ in range(5)]
    try:
        for process in processes:
            say(process)
        assert sorted(hear(process) for process in processes) == ["owner"] + ["refused"] * 4
    finally:
        for process in processes:
            finish(process)


def test_a_note_that_is_no_note_counts_as_starting(tmp_path: Path) -> None:
    with FolderLock(tmp_path):
        for text in ("", "{", "[]", '{"endpoint": "x"}', "\x00\x00"):
            (tmp_path / "owner.json").write_text(text)
            with pytest.raises(Unavailable):
                read_owner(tmp_path)


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StoreRefused, match="not a folder"):
            FolderLock(path).acquire()


def test_only_the_owner_publishes(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        FolderLock(tmp_path).publish(OWNER)
