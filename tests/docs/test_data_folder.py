"""The page about the data folder names every file that lies in one: in use, at rest, and after a restore."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from keeps.client import Client
from keeps.services.runtime import SCRUB_OWED
from keeps.store import swap
from keeps.store.secrets import saved_keys
from tests.cli.conftest import keeps, start_server
from tests.docs.examples import ROOT

PAGE = (ROOT / "docs" / "explanation" / "where-the-bytes-lie.md").read_text("utf-8")
ENGINES_OWN = 3
"""So deep below the folder the engine names files as it likes."""


def named() -> list[str]:
    """Every name on the page, as a pattern: `<…>` stands for what differs."""
    tree = PAGE.partition("```\nmemory/\n")[2].partition("```")[0]
    names = re.findall(r"[├└]── (\S+)", tree) + re.findall(r"`([^`\s]+)`", PAGE)
    names += [name.rstrip(",:") for name in re.findall(r"LOCK.*$", tree, re.MULTILINE)[0].split()]
    names += re.findall(r"\btext-<n>\.sqlite3(?=, with)", tree)
    patterns = {re.sub(r"<[^>]*>", "\0", name.rstrip("/")) for name in names}
    patterns |= {"text-\0.sqlite3-wal", "text-\0.sqlite3-shm"} if "-wal and -shm while" in PAGE else set[str]()
    return [re.escape(name).replace("\0", r"[\w.-]+") for name in sorted(patterns)]


def unknown(folder: Path) -> list[str]:
    """Files and folders in a data folder that the page does not name."""
    patterns = [re.compile(name) for name in named() if name.strip("\\") != r"[\w.-]+"]
    found: list[str] = []
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if parts[0].startswith("record") and len(parts) > ENGINES_OWN:
            continue
        if parts[-1] != "default" and not any(pattern.fullmatch(parts[-1]) for pattern in patterns):
            found.append("/".join(parts))
    return found


@pytest.mark.slow
async def test_every_file_of_a_folder_is_on_the_page(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    server = start_server(folder)
    try:
        key = saved_keys(folder, "default")["owner"]
        async with Client(server.endpoint, key=key) as client:
            await client.remember("The spare key hangs behind the oven.", infer="none")
            await client.forget("The spare key hangs behind the oven.", purge=True)
            while_it_runs = unknown(folder)
    finally:
        code, out, err = server.stop()
    assert code == 0, (out, err)
    assert while_it_runs == []
    assert unknown(folder) == []
    assert (folder / "owner.json").exists() is False

    archive = tmp_path / "memory.jsonl"
    for command in (["backup", str(archive)], ["restore", str(archive), "--yes"]):
        done = keeps(*command, "--data", str(folder))
        assert done.returncode == 0, done.stderr
    assert any(path.name.startswith("record.before-restore-") for path in folder.iterdir())
    assert unknown(folder) == []

    for stray in ("stray", "default/finder/stray.db", "ledger/other.jsonl"):
        (folder / stray).touch()
        assert unknown(folder) == [stray]
        (folder / stray).unlink()


def test_what_lies_there_only_for_a_moment_is_named_too() -> None:
    for name in (swap.NOTE, swap.STAGING, SCRUB_OWED, "ledger.damaged-<time>", ".building"):
        assert name in PAGE
