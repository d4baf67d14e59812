"""The folder looked over: sound ones pass, each kind of damage is named, and only a loss is ever accepted."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import LiteralString

import pytest

from keeps.core.errors import Invalid, StoreRefused
from keeps.services.doctor import Report, doctor, problems
from keeps.services.erase import Forget, forget
from keeps.services.runtime import LEDGER_FOLDER, RECORD_FOLDER, WATERMARK_FOLDER
from keeps.store.ledger import FILE_NAME, read_ledger
from keeps.store.owner import FolderLock
from keeps.store.watermark import Watermark
from tests.services.conftest import caller
from tests.services.test_archive import filled, opened, snapshot


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def said(report: Report) -> list[str]:
    return [f"{finding.check}: {finding.message}" for finding in problems(report.findings)]


async def test_a_sound_folder_passes_and_is_left_alone(home: Path) -> None:
    async with opened(home) as at:
        await filled(at)
        await forget(at.rt, at.context, caller(), Forget(query="harbour pilot"))
    files = {name: content for name, content in snapshot(home).items() if not name.startswith(RECORD_FOLDER)}
    report = await doctor(home)
    assert said(report) == []
    assert report.sound
    assert {(f.check, f.where) for f in report.findings if f.level == "good"} == {
        ("modes", ""),
        ("ledger", ""),
        ("record", "control"),
        ("record", "acme"),
        ("rows", "acme"),
        ("finder", "acme"),
    }
    assert {n: c for n, c in snapshot(home).items() if not n.startswith(RECORD_FOLDER)} == files


async def test_gaps_that_a_purge_leaves_are_no_fault(home: Path) -> None:
    async with opened(home) as at:
        await filled(at)
        await at.say("one", "two", "three")
        await forget(at.rt, at.context, caller(), Forget(query="two", purge=True))
    report = await doctor(home)
    assert said(report) == []
    assert any("1 (session:" in f.message for f in report.findings if f.level == "note")


async def test_no_folder_and_an_empty_one(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="no folder"):
        await doctor(tmp_path / "missing")
    (tmp_path / "empty").mkdir(mode=0o700)
    report = await doctor(tmp_path / "empty")
    assert report.sound
    assert {f.check for f in report.findings if f.level == "note"} == {"ledger", "record"}


async def test_a_folder_in_use_is_not_opened(home: Path) -> None:
    async with opened(home):
        pass
    with FolderLock(home):
        report = await doctor(home)
        with pytest.raises(StoreRefused):
            await doctor(home, accept_loss=True)
    assert {f.check for f in report.findings} == {"modes", "lock"}


async def test_files_that_others_may_read_are_named(home: Path) -> None:
    async with opened(home):
        pass
    (home / "pepper").chmod(0o644)
    assert any("pepper" in line and "644" in line for line in said(await doctor(home)))


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        ("UPDATE attribute SET scope_set = 'nowhere' WHERE value = 'rye';", "attribute: rows whose scope set"),
        ("UPDATE chain SET head = 'nothing' WHERE key = 'role';", "names a value that does not exist"),
        (
            "UPDATE chain SET head = $old, members = [type::record('attribute', $old)] WHERE key = 'role';",
            "head is closed",
        ),
        ("UPDATE chain SET members = [] WHERE key = 'role';", "not among its members"),
        ("UPDATE session SET next_seq = 1;", "turn: its session is missing or ends before it"),
        ("DELETE turn WHERE content = 'Then we row home';", "session: numbers without a turn"),
        ("DELETE turn WHERE content = 'Then we row home';", "memory_chunk: its turn is missing"),
        ("CREATE change:999999 SET rows = [], at = time::now();", "change: above the last number"),
    ],
)
async def test_each_fault_of_the_rows_is_named(home: Path, damage: LiteralString, named: str) -> None:
    async with opened(home) as at:
        await filled(at)
        old = (await at.context.db.run("SELECT VALUE id FROM attribute WHERE value = 'deckhand';"))[0][0].id
        await at.context.db.run(damage, old=old)
    assert any(named in line for line in said(await doctor(home)))


async def test_an_index_that_differs_is_named(home: Path) -> None:
    async with opened(home) as at:
        await filled(at)
    (file,) = (home / "acme" / "finder").glob("text-*.sqlite3")
    with sqlite3.connect(file) as connection:
        connection.execute("DELETE FROM entry WHERE row = 2")
    connection.close()
    assert any("lacks 1 entries" in line for line in said(await doctor(home)))
    file.write_bytes(b"garbage" * 1000)
    report = await doctor(home)
    assert report.sound
    assert any("damaged" in f.message for f in report.findings if f.check == "finder")
    shutil.rmtree(home / "acme")
    assert any("no index" in f.message for f in (await doctor(home)).findings)


async def test_a_record_behind_its_mark_is_accepted_on_request_only(home: Path) -> None:
    async with opened(home) as at:
        await filled(at)
        stored = (await at.context.db.run("SELECT VALUE seq FROM ONLY meta:state;"))[0]
    marks = Watermark(home / WATERMARK_FOLDER)
    marks.write("context_acme", stored + 5)
    marks.close()
    report = await doctor(home)
    assert [f.loss for f in problems(report.findings)] == [True]
    assert report.accepted == ()
    with pytest.raises(StoreRefused, match="--accept-loss"):
        async with opened(home):
            pass
    report = await doctor(home, accept_loss=True)
    assert report.sound
    assert len(report.accepted) == 1
    (line,) = read_ledger(home / LEDGER_FOLDER / FILE_NAME)
    assert (line.kind, line.context) == ("accept-loss", "")
    assert (line.detail["have"], line.detail["wanted"]) == (stored, stored + 5)
    assert not (home / "acme" / "finder").exists()
    async with opened(home) as at:
        assert await at.found("pilot boat")
        await at.say("and on it goes")
    assert (await doctor(home, accept_loss=True)).accepted == ()


async def test_a_record_that_vanished_is_accepted_on_request_only(home: Path) -> None:
    async with opened(home):
        pass
    shutil.rmtree(home / RECORD_FOLDER)
    assert len(said(await doctor(home))) == 2  # the control database and the one of the context
    report = await doctor(home, accept_loss=True)
    assert report.sound
    assert len(report.accepted) == 2
    (home / "keys.json").unlink()
    async with opened(home) as at:
        await at.say("a new beginning")


@pytest.mark.parametrize("how", ["missing", "damaged"])
async def test_a_lost_ledger_is_accepted_on_request_only(home: Path, how: str) -> None:
    async with opened(home) as at:
        await at.say("one", "two")
        await forget(at.rt, at.context, caller(), Forget(query="one", purge=True))
        await forget(at.rt, at.context, caller(), Forget(query="two", purge=True))
    path = home / LEDGER_FOLDER / FILE_NAME
    if how == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes().replace(b'"purge"', b'"PURGE"'))
    assert any("ledger" in line for line in said(await doctor(home)))
    with pytest.raises(StoreRefused):
        async with opened(home):
            pass
    report = await doctor(home, accept_loss=True)
    assert report.accepted
    assert said(report) == []
    async with opened(home) as at:
        await at.say("three")
        await forget(at.rt, at.context, caller(), Forget(query="three", purge=True))
    async with opened(home) as at:
        assert await at.found("three") == []
    assert (await doctor(home)).sound
