"""The folder looked over: sound ones pass, each kind of damage is named, and only a loss is ever accepted."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import LiteralString

import pytest

from keeps.core.access import KeyId, Principal, PrincipalId
from keeps.core.errors import Invalid, StoreRefused, Unauthenticated
from keeps.services import access, contexts, principals
from keeps.services.doctor import Finding, Report, doctor
from keeps.services.erase import Forget, forget
from keeps.services.runtime import LEDGER_FOLDER, RECORD_FOLDER, WATERMARK_FOLDER
from keeps.store import contexts as store_contexts
from keeps.store import keys as store_keys
from keeps.store import principals as store_principals
from keeps.store.commit import Batch
from keeps.store.keys import ApiKey
from keeps.store.ledger import FILE_NAME, read_ledger
from keeps.store.owner import FolderLock
from keeps.store.principals import StoredPrincipal
from keeps.store.secrets import save_keys
from keeps.store.watermark import Watermark
from tests.services.conftest import caller
from tests.services.embedding import embed
from tests.services.test_archive import filled, opened, snapshot


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def problems(findings: Sequence[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.level == "problem"]


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
        ("access", "acme"),
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


# ---------------------------------------------------------------------- whole databases, and keys
def strip(home: Path, *names: str) -> None:
    """Take the manifest of databases away, without which the engine takes them for new ones."""
    for name in names:
        place = home / RECORD_FOLDER / name / "manifest"
        assert list(place.glob("*.manifest"))
        shutil.rmtree(place)
        place.mkdir()


def saved(home: Path) -> dict[str, str]:
    return json.loads((home / "keys.json").read_bytes())["acme"]


async def lets_in(home: Path) -> None:
    """Owner and agent get in with the keys saved in the folder, and what they write is found."""
    async with opened(home) as at:
        for of in (contexts.OWNER, contexts.AGENT):
            session = await access.authenticate(at.rt, "acme", saved(home)[of], None)
            assert session.caller.principal.id == of
        found = await principals.list_all(at.rt, at.context, access.ManagementCaller(KeyId("m")))
        assert {principal.id for principal in found} >= {"owner", "agent", "admin", "system"}
        await at.say("a new day dawns")
        assert await at.found("new day") == ["a new day dawns"]


async def manages(home: Path, key: str | None) -> bool:
    async with opened(home) as at:
        with suppress(Unauthenticated):
            return bool(await access.authenticate_management(at.rt, key))
    return False


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "lost"),
    [
        ("unreadable", ("context_acme",)),
        ("unreadable", ("control",)),
        ("unreadable", ("control", "context_acme")),
        ("missing", ("context_acme",)),
        ("missing", ("control",)),
        ("emptied", ("control", "context_acme")),
    ],
)
async def test_a_lost_database_begins_anew_on_request_only(home: Path, lost: tuple[str, ...], how: str) -> None:
    async with opened(home) as at:
        await filled(at)
        await forget(at.rt, at.context, caller(), Forget(query="harbour pilot", purge=True))
    before = saved(home)
    for name in lost:
        if how == "unreadable":
            strip(home, name)
        elif how == "emptied":
            shutil.rmtree(home / RECORD_FOLDER / name)
            (home / RECORD_FOLDER / name).mkdir()
        else:
            shutil.rmtree(home / RECORD_FOLDER / name)
    told = "\n".join(said(await doctor(home)))
    assert "keeps restore --data DIR FILE" in told
    assert "keeps doctor --accept-loss --data DIR" in told
    report = await doctor(home, accept_loss=True)
    assert said(report) == []
    asides = {path.name.partition(".lost-")[0]: path for path in (home / RECORD_FOLDER).glob("*.lost-*")}
    assert set(asides) == (set(lost) if how != "missing" else set())
    for aside in asides.values():
        assert any(aside.name in line for line in report.accepted)
    lines = [line for line in read_ledger(home / LEDGER_FOLDER / FILE_NAME) if line.kind == "accept-loss"]
    assert {"files", "access"} & {str(line.detail["what"]) for line in lines} == {"files", "access"}
    assert ("context_acme" in lost) == ("acme" in report.keys)
    assert ("control" in lost) == (report.management_key is not None)
    if "acme" in report.keys:
        assert saved(home) == {"owner": report.keys["acme"].owner_key, "agent": report.keys["acme"].agent_key}
    else:
        assert saved(home) == before
    assert before.keys() == saved(home).keys()
    secrets = [*saved(home).values(), report.management_key]
    assert not any(secret and secret in repr(report) for secret in secrets)
    await lets_in(home)
    if "control" in lost:
        assert await manages(home, report.management_key)
    async with opened(home) as at:
        assert bool(await at.found("pilot boat")) == ("context_acme" not in lost)
    again = await doctor(home, accept_loss=True)
    assert (said(again), again.accepted, again.keys) == ([], (), {})


@pytest.mark.parametrize(
    "gone",
    [
        "DELETE principal; DELETE api_key;",
        "DELETE api_key;",
        "DELETE principal:owner; DELETE api_key WHERE name = 'owner'"
        "; DELETE principal:agent; DELETE api_key WHERE name = 'agent'; CREATE principal:bo SET kind = 'human', "
        "display_name = 'Owner', name_fold = 'owner', trusted_writer = false, grants = {}, created_at = time::now(), "
        "updated_at = time::now(), rev = 1;",
    ],
)
@pytest.mark.slow
async def test_nobody_is_locked_out_without_a_word(home: Path, gone: LiteralString) -> None:
    async with opened(home) as at:
        await filled(at)
        await at.context.db.run(gone)
    assert any("cannot get in" in line and "--accept-loss" in line for line in said(await doctor(home)))
    report = await doctor(home, accept_loss=True)
    assert said(report) == []
    assert list(report.keys) == ["acme"]
    assert report.management_key is None
    await lets_in(home)
    async with opened(home) as at:
        assert await at.found("pilot boat")


@pytest.mark.slow
async def test_keys_of_others_outlive_an_accepted_loss(home: Path) -> None:
    async with opened(home) as at:
        await filled(at)
        bo = StoredPrincipal(
            principal=Principal(id=PrincipalId("bo"), display_name="Bo"),
            created_at=at.rt.clock(),
            updated_at=at.rt.clock(),
        )
        minted = access.mint(at.rt, "acme", at.context.uid)
        key = ApiKey(id=minted.id, name="bo", principal=bo.principal.id, digest=minted.digest, created_at=bo.created_at)
        batch = Batch(at=at.rt.clock())
        batch.creates.append({"id": store_principals.record_id(bo.principal.id), "row": store_principals.to_row(bo)})
        batch.creates.append({"id": store_keys.record_id(key.id), "row": store_keys.to_row(key)})
        await at.context.commit(batch)
    save_keys(home, "acme", {"owner": "sp-old", "agent": "sp-old"})
    report = await doctor(home, accept_loss=True)
    assert (said(report), report.accepted) == ([], ())  # keys were turned over; nothing is lost
    assert any("No key in keys.json" in f.message for f in report.findings)
    async with opened(home) as at:
        await at.context.db.run("DELETE principal:owner;")
    report = await doctor(home, accept_loss=True)
    assert list(report.keys) == ["acme"]
    await lets_in(home)
    async with opened(home) as at:
        assert (await access.authenticate(at.rt, "acme", minted.text, None)).caller.principal.id == "bo"


@pytest.mark.slow
async def test_without_the_pepper_nobody_gets_in_until_keys_are_made_anew(home: Path) -> None:
    async with opened(home) as at:
        await at.say("the first canary")
        await at.say("the second canary")
    (home / "pepper").unlink()
    assert len([line for line in said(await doctor(home)) if line.startswith("access")]) == 2
    assert not (home / "pepper").exists()
    report = await doctor(home, accept_loss=True)
    assert said(report) == []
    assert await manages(home, report.management_key)
    await lets_in(home)
    async with opened(home) as at:  # forgetting by words goes by keyed hashes, which were made anew
        done = await forget(at.rt, at.context, caller(), Forget(query="the first canary", purge=True))
        assert done.memories == 1
        assert await at.found("canary") == ["the second canary"]


@pytest.mark.slow
async def test_a_context_that_is_not_registered_is_not_written_over(home: Path) -> None:
    async with opened(home) as at:
        await filled(at)
        await at.rt.control.run("DELETE context;")
    assert any("not registered" in line for line in said(await doctor(home)))
    report = await doctor(home, accept_loss=True)
    assert said(report) == []
    await lets_in(home)
    async with opened(home) as at:
        assert await at.found("pilot boat")


@pytest.mark.slow
async def test_a_deleted_context_is_not_registered_again(home: Path) -> None:
    async with opened(home) as at:
        await contexts.bootstrap(at.rt, "other")
        shutil.copytree(home / RECORD_FOLDER / "context_acme", home.with_name("copy"))
        await contexts.delete(at.rt, "acme")
    shutil.copytree(home.with_name("copy"), home / RECORD_FOLDER / "context_acme")
    strip(home, "control")
    report = await doctor(home, accept_loss=True)
    assert said(report) == []
    assert "The context other is registered" in " ".join(report.accepted)
    assert "acme" not in " ".join(report.accepted)


@pytest.mark.parametrize("id_", ["Acme", "a.b_c-d", "x" * 128])
def test_the_id_of_a_context_is_told_from_its_database(id_: str) -> None:
    name = store_contexts.database_of(id_)
    assert store_contexts.id_of(name, ["other", id_]) == id_
    alone = store_contexts.id_of(name, [])
    assert store_contexts.database_of(alone) == name
    assert alone == id_.lower() or len(id_) > 110


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        ("UPDATE turn SET forgotten_at = time::now() WHERE content = 'Then we row home';", "row is missing or was for"),
        ("DELETE space;", "vector: its space is missing"),
        ("UPDATE vector SET bytes = <bytes>'short' WHERE of = (SELECT VALUE of FROM ONLY vector LIMIT 1);", "length"),
    ],
)
async def test_each_fault_of_the_vectors_is_named(home: Path, damage: LiteralString, named: str) -> None:
    async with opened(home) as at:
        await filled(at)
        await embed(at.context)
    assert said(await doctor(home)) == []
    async with opened(home) as at:
        await at.context.db.run(damage)
    assert any(named in line for line in said(await doctor(home)))


async def test_vectors_of_the_index_are_held_against_those_of_the_record(home: Path) -> None:
    async with opened(home) as at:
        await filled(at)
        count = len(await embed(at.context))
    (file,) = (home / "acme" / "finder").glob("text-*.sqlite3")
    assert any(f"{count} vectors" in f.message for f in (await doctor(home)).findings if f.check == "finder")
    with sqlite3.connect(file) as connection:
        connection.execute("DELETE FROM vector WHERE key = (SELECT MAX(key) FROM vector)")
    connection.close()
    report = await doctor(home)
    assert report.sound
    assert any("lacks 1 vectors" in f.message for f in report.findings)
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE vector SET bytes = (SELECT bytes FROM vector LIMIT 1)")
    connection.close()
    assert any(f"holds {count - 2} vectors that are not" in line for line in said(await doctor(home)))
