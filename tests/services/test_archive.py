"""Backup, restore and what a ledger that lost lines means for a record."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from keeps.config import Config
from keeps.core.entities import entity_ref
from keeps.core.errors import Conflict, Invalid, NotFound, StoreRefused, Unauthenticated
from keeps.core.replies import ReplyKey
from keeps.core.scopes import parse_scopes
from keeps.core.triples import parse_triples
from keeps.core.validity import When
from keeps.services import access, contexts
from keeps.services.archive import Backup, Restored, Step, backup, restore
from keeps.services.doctor import doctor
from keeps.services.erase import Forget, forget, forget_scope
from keeps.services.recall import Recall, recall
from keeps.services.remember import Infer, Message, Remember, Remembered, remember
from keeps.services.runtime import LEDGER_FOLDER, RECORD_FOLDER, Context, Runtime, open_runtime
from keeps.store import contexts as store_contexts
from keeps.store import facts as store_facts
from keeps.store import tables as store_tables
from keeps.store.archive import VERSION
from keeps.store.commit import Batch
from keeps.store.contexts import ContextRow, database_of
from keeps.store.db import Db, RecordID
from keeps.store.erase import note_tombstone
from keeps.store.ledger import FILE_NAME, read_ledger
from keeps.store.owner import FolderLock
from keeps.store.swap import NOTE, STAGING
from tests.services.conftest import caller
from tests.services.embedding import check_vectors, embed

FIXTURES = Path(__file__).parent.parent / "fixtures"
MARA = entity_ref("person", "Mara")


@dataclass(slots=True)
class Open:
    """A folder in use: its runtime and the context `acme`."""

    rt: Runtime
    context: Context

    async def say(self, *texts: str, scope: str = "user/mara", session: str | None = None) -> Remembered:
        messages = [Message(text=text, speaker="Mara") for text in texts]
        request = Remember(messages=messages, scope=parse_scopes(scope), session=session)
        return await remember(self.rt, self.context, caller(), request)

    async def state(self, *entries: dict[str, Any], scope: str = "user/mara", **more: Any) -> Remembered:
        named = [{"entity": {"type": "person", "name": "Mara"}, **entry} for entry in entries]
        triples = parse_triples(named, anchor=self.rt.clock())
        request = Remember(infer=Infer.TRIPLES, triples=triples, scope=parse_scopes(scope), **more)
        return await remember(self.rt, self.context, caller(), request)

    async def found(self, words: str) -> list[str]:
        return [hit.text for hit in (await recall(self.rt, self.context, caller(), Recall(query=words))).hits]

    async def values(self, key: str) -> list[str]:
        rows = await store_facts.versions(self.context.db, self.context.sets, MARA, key, self.context.sets.everything())
        return [row.value for row in rows]


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Open]:
    folder.mkdir(mode=0o700, exist_ok=True)
    async with open_runtime(Config(data=folder)) as rt:
        if not (folder / "keys.json").exists():
            await contexts.bootstrap(rt, "acme")
        yield Open(rt, await rt.context("acme"))


async def dump(db: Db) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table, in order of their ids."""
    content: dict[str, list[dict[str, Any]]] = {}
    for table in await store_tables.tables(db):
        rows = [row async for page in store_tables.pages(db, table) for row in page]
        content[table.name] = sorted(rows, key=lambda row: repr(row["id"].id))
    return content


async def filled(at: Open) -> None:
    """Something in every table that a write reaches."""
    at_ = at.rt.clock()
    reply = ReplyKey(
        namespace="n1", fingerprint="f1", expires_at=at_ + timedelta(days=1), render=lambda _: '{"secret": "lantern"}'
    )
    talk = await at.say("The pilot boat leaves at six", "Then we row home")
    await at.say("And back at nine", session=talk.session)
    await at.state({"key": "role", "value": "deckhand"})
    await at.state({"key": "role", "value": "harbour pilot"}, metadata={"$at": "mine", "n": 1.0}, reply=reply)
    await at.state({"key": "likes", "value": "rye"}, {"key": "likes", "value": "spelt"})
    await at.state({"key": "works_at", "target": {"type": "organisation", "name": "Harbour"}})
    await at.state({"verb": "baked", "object": "a loaf"})
    await at.say("The lighthouse is far", scope="team/sea")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "backup.jsonl"


async def saved(folder: Path, file: Path) -> Backup:
    async with opened(folder) as at:
        return await backup(at.rt, file)


def ledger_of(folder: Path) -> Path:
    return folder / LEDGER_FOLDER / FILE_NAME


# ---------------------------------------------------------------------- round trip
async def test_everything_comes_back_as_it_was(home: Path, file: Path) -> None:
    async with opened(home) as at:
        await filled(at)
        vectors = len(await embed(at.context))
        steps: list[Step] = []
        done = await backup(at.rt, file, progress=steps.append)
        before = {"control": await dump(at.rt.control), "context:acme": await dump(at.context.db)}
        uid, key = at.context.uid, json.loads((home / "keys.json").read_bytes())["acme"]["owner"]
        assert done.paused_s == 0
    assert {name: len(rows) for name, rows in before["context:acme"].items() if rows} == done.counts["context:acme"]
    assert {"turn", "memory_chunk", "follows", "attribute", "chain", "relates_to", "action", "entity", "reply"} <= set(
        done.counts["context:acme"]
    )
    assert {"principal", "api_key", "grant_event", "scope", "scope_set", "session", "change", "meta"} <= set(
        done.counts["context:acme"]
    )
    assert (done.counts["context:acme"]["vector"], done.counts["context:acme"]["space"]) == (vectors, 1)
    assert {step.stage for step in steps} == {"copy"}
    shutil.rmtree(home / RECORD_FOLDER)
    restored = await restore(home, file, progress=steps.append)
    assert {step.stage for step in steps} == {"copy", "check", "load", "open", "swap"}
    assert (restored.replayed, restored.ledger, restored.keys, restored.aside) == (0, "kept", {}, {})
    assert restored.counts == done.counts
    async with opened(home) as at:
        assert await dump(at.rt.control) == before["control"]
        assert await dump(at.context.db) == before["context:acme"]
        assert at.context.uid == uid
        assert [coverage.held for coverage in await at.context.finder.spaces()] == [vectors]
        await check_vectors(at.context)
        assert await at.found("When does the pilot boat leave?")
        assert await at.values("role") == ["harbour pilot", "deckhand"]
        edges = await at.context.db.run(
            "SELECT VALUE ->follows->turn.content FROM turn WHERE content = 'Then we row home';"
        )
        assert edges[0] == [["And back at nine"]]
        assert (await access.authenticate(at.rt, "acme", key, None)).caller.principal.id == contexts.OWNER
        await at.state({"key": "role", "value": "captain"})  # chains and numbers go on
        assert await at.values("role") == ["captain", "harbour pilot", "deckhand"]
        (session,) = (row["id"].id for row in (await dump(at.context.db))["session"] if row["next_seq"] == 3)
        await at.say("One more", session=session)


async def test_the_record_in_place_is_kept_aside(home: Path, file: Path) -> None:
    async with opened(home) as at:
        await at.say("the first canary")
        await backup(at.rt, file)
        await at.say("the second canary")
    done = await restore(home, file)
    assert list(done.aside) == ["record"]
    assert done.aside["record"].name.startswith("record.before-restore-")
    assert (done.aside["record"] / "control").is_dir()
    async with opened(home) as at:
        assert await at.found("canary") == ["the first canary"]
    again = await restore(home, file)
    assert again.aside["record"] != done.aside["record"]
    assert {path.name for path in home.iterdir()} >= {again.aside["record"].name, done.aside["record"].name}
    assert not (home / STAGING).exists()
    assert not (home / NOTE).exists()
    assert stat.S_IMODE((home / "pepper").stat().st_mode) == 0o600


async def test_a_backup_while_writes_go_on_is_one_state(home: Path, file: Path) -> None:
    async with opened(home) as at:
        stop = asyncio.Event()

        async def write() -> int:
            number = 0
            while not stop.is_set():
                number += 1
                await at.state({"key": "role", "value": f"role {number}"}, {"key": "home", "value": f"home {number}"})
            return number

        writing = asyncio.create_task(write())
        while not await at.values("role"):
            await asyncio.sleep(0.01)
        done = await backup(at.rt, file)
        stop.set()
        count = await writing
        assert done.paused_s > 0
    await restore(home, file)
    async with opened(home) as at:
        roles, homes = await at.values("role"), await at.values("home")
        assert [value.removeprefix("home ") for value in homes] == [value.removeprefix("role ") for value in roles]
        assert 0 < len(roles) <= count
        row = (await at.context.db.run("SELECT VALUE seq FROM ONLY meta:state; SELECT VALUE id FROM change;"))[0:2]
        assert row[0] == len(row[1])


async def test_several_contexts_and_odd_names(home: Path, file: Path) -> None:
    async with opened(home) as at:
        await contexts.bootstrap(at.rt, "Other.One")
        other = Open(at.rt, await at.rt.context("Other.One"))
        await other.say("the other canary")
        await at.say("the canary")
        assert (await backup(at.rt, file)).contexts == ("Other.One", "acme")
    await restore(home, file)
    async with opened(home) as at:
        assert await at.found("canary") == ["the canary"]
        assert await Open(at.rt, await at.rt.context("Other.One")).found("canary") == ["the other canary"]


# ---------------------------------------------------------------------- what was erased stays away
async def nothing_of(at: Open, word: str) -> None:
    assert await at.found(word) == []
    assert not any(word in text for text in await at.found(f"What is Mara's {word}?"))
    for table, rows in (await dump(at.context.db)).items():
        assert not any(word in repr(row) for row in rows), table


async def test_a_purge_after_the_backup_holds(home: Path, file: Path) -> None:
    async with opened(home) as at:
        await filled(at)
        said = await at.say("the zephyrine is in the shed")
        await at.state({"key": "hides", "value": "zephyrine"})
        await backup(at.rt, file)
        await forget(at.rt, at.context, caller(), Forget(query="zephyrine", purge=True))
        await forget(at.rt, at.context, caller(), Forget(ids=(f"turn:{said.turns[0]}",), purge=True))
        await nothing_of(at, "zephyrine")
        lines = at.rt.ledger.head[0]
    done = await restore(home, file)
    assert done.replayed == lines > 0
    async with opened(home) as at:
        await nothing_of(at, "zephyrine")
        assert await at.found("pilot boat")
    assert not any("zephyrine" in path.read_bytes().decode("latin-1") for path in (home / "acme" / "finder").iterdir())


async def test_what_was_retired_after_the_backup_stays_hidden(home: Path, file: Path) -> None:
    async with opened(home) as at:
        await filled(at)
        await backup(at.rt, file)
        await forget(at.rt, at.context, caller(), Forget(query="harbour pilot"))
        before = await at.found("What is Mara's role?")
    await restore(home, file)
    async with opened(home) as at:
        assert sorted(await at.found("What is Mara's role?")) == sorted(before)
        assert not any("harbour pilot" in text for text in before)
        past = Recall(query="What is Mara's role?", when=When(as_of=datetime(2100, 1, 1, tzinfo=UTC)))
        assert not any("harbour pilot" in hit.text for hit in (await recall(at.rt, at.context, caller(), past)).hits)


async def test_a_forgotten_scope_stays_forgotten(home: Path, file: Path) -> None:
    async with opened(home) as at:
        await filled(at)
        await backup(at.rt, file)
        await forget_scope(at.rt, at.context, caller(), "team/sea")
        await nothing_of(at, "lighthouse")
    await restore(home, file)
    async with opened(home) as at:
        await nothing_of(at, "lighthouse")


@pytest.mark.parametrize("elsewhere", [False, True], ids=["same folder", "new machine"])
async def test_a_context_deleted_after_the_backup_stays_deleted(
    home: Path, file: Path, tmp_path: Path, elsewhere: bool
) -> None:
    async with opened(home) as at:
        await at.say("the zephyrine")
        await contexts.bootstrap(at.rt, "other")
        await backup(at.rt, file)
        await contexts.delete(at.rt, "acme")
    there = tmp_path / "there" if elsewhere else home
    done = await restore(there, file, ledger=ledger_of(home) if elsewhere else None)
    assert (done.contexts, done.left_out, done.replayed) == (("other",), ("acme",), 0)
    assert set(done.keys) == ({"other"} if elsewhere else set())
    async with open_runtime(Config(data=there)) as rt:
        assert [row.id for row in await contexts.list_all(rt)] == ["other"]
        with pytest.raises(NotFound):
            await rt.context("acme")
        await rt.context("other")
    kept_aside = there.glob("record.before-restore-*")
    old = [path for folder in kept_aside for path in folder.rglob("*")]
    files = [path for path in there.rglob("*") if path.is_file() and path not in old]
    assert [path for path in files if b"zephyrine" in path.read_bytes()] == []


async def test_a_context_made_again_under_the_id_of_a_deleted_one_is_restored(home: Path, file: Path) -> None:
    older = file.with_name("older.jsonl")
    async with opened(home) as at:
        await at.say("the zephyrine")
        await backup(at.rt, older)
        await contexts.delete(at.rt, "acme")
        await contexts.bootstrap(at.rt, "acme")
    async with opened(home) as at:
        await at.say("the canary")
        await backup(at.rt, file)
        await at.say("the finch")
    assert (await restore(home, file)).left_out == ()
    async with opened(home) as at:
        assert await at.found("zephyrine canary finch") == ["the canary"]
    assert (await restore(home, older)).left_out == ("acme",)


async def test_an_archive_made_after_a_purge_holds_no_byte_of_it(home: Path, file: Path, tmp_path: Path) -> None:
    async with opened(home) as at:
        await filled(at)
        await at.say("the zephyrine is in the shed")
        await forget(at.rt, at.context, caller(), Forget(query="Mara: the zephyrine is in the shed", purge=True))
        await forget(at.rt, at.context, caller(), Forget(query="the zephyrine is in the shed", purge=True))
        await nothing_of(at, "zephyrine")
        await backup(at.rt, file)
    fresh = tmp_path / "fresh"
    await restore(fresh, file, ledger=ledger_of(home))
    files = [path for path in (file, *fresh.rglob("*")) if path.is_file()]
    assert len(files) > 10
    assert any(b"pilot boat" in path.read_bytes() for path in (fresh / RECORD_FOLDER).rglob("*") if path.is_file())
    assert [path for path in files if b"zephyrine" in path.read_bytes()] == []


# ---------------------------------------------------------------------- ledgers and peppers
async def test_a_new_machine_needs_the_ledger_or_a_reason(home: Path, file: Path, tmp_path: Path) -> None:
    async with opened(home) as at:
        await at.say("the zephyrine", "the canary")
        await backup(at.rt, file)
        await forget(at.rt, at.context, caller(), Forget(query="the zephyrine", purge=True))
    old = json.loads((home / "keys.json").read_bytes())["acme"]["owner"]
    there = tmp_path / "there"
    with pytest.raises(StoreRefused, match=r"--ledger FILE.*--new-ledger"):
        await restore(there, file)
    assert not (there / RECORD_FOLDER).exists()
    done = await restore(there, file, ledger=ledger_of(home))
    assert (done.ledger, done.replayed) == ("copied", 1)
    assert ledger_of(there).read_bytes() == ledger_of(home).read_bytes()
    async with opened(there) as at:
        await nothing_of(at, "zephyrine")
        assert await at.found("canary") == ["the canary"]
        with pytest.raises(Unauthenticated):
            await access.authenticate(at.rt, "acme", old, None)
        key = done.keys["acme"].owner_key
        assert key == json.loads((there / "keys.json").read_bytes())["acme"]["owner"]
        assert (await access.authenticate(at.rt, "acme", key, None)).caller.principal.id == contexts.OWNER
        assert done.management_key is not None
        await access.authenticate_management(at.rt, done.management_key)


async def test_a_new_ledger_is_begun_with_a_reason_that_stays(home: Path, file: Path, tmp_path: Path) -> None:
    async with opened(home) as at:
        await at.say("the zephyrine", "the canary")
        await forget(at.rt, at.context, caller(), Forget(query="the zephyrine", purge=True))
        head = at.rt.ledger.head
        await backup(at.rt, file)
    there = tmp_path / "there"
    for reason in ("", "  ", "x" * 501):
        with pytest.raises(Invalid, match="why"):
            await restore(there, file, new_ledger_reason=reason)
    done = await restore(there, file, new_ledger_reason="the disk burnt")
    assert done.ledger == "new"
    (line,) = read_ledger(ledger_of(there))
    assert (line.kind, line.context, line.detail["reason"]) == ("new-ledger", "", "the disk burnt")
    assert line.detail["before"] == {"seq": head[0], "digest": head[1]}
    async with opened(there) as at:
        assert await at.found("canary") == ["the canary"]
        await forget(at.rt, at.context, caller(), Forget(query="the canary", purge=True))
    async with opened(there) as at:
        assert await at.found("canary") == []


async def test_on_a_new_machine_texts_are_still_known_by_their_hashes(home: Path, file: Path, tmp_path: Path) -> None:
    """What is hashed under the lost pepper is hashed again: each row as if it had been written there."""
    hashed = ("attribute", "relates_to", "action", "turn", "proposal")
    async with opened(home) as at:
        await filled(at)
        await forget(at.rt, at.context, caller(), Forget(query="spelt", purge=True))
        await backup(at.rt, file)
        before = await dump(at.context.db)
        fold = at.context.fold_key
        names = {fold(text): text for text in ("rye", "Mara likes rye.", "The lighthouse is far", "Mara baked a loaf.")}
        assert names.keys() <= {key for table in hashed for row in before[table] for key in row.get("folds", ())}
    there = tmp_path / "there"
    await restore(there, file, ledger=ledger_of(home))
    async with opened(there) as at:
        after = await dump(at.context.db)
        for table in hashed:
            assert len(after[table]) == len(before[table])
            for old, new in zip(before[table], after[table], strict=True):
                skipped = ("folds", "fingerprint")
                assert {k: v for k, v in old.items() if k not in skipped} == {
                    k: v for k, v in new.items() if k not in skipped
                }
                assert len(old.get("folds", ())) == len(new.get("folds", ()))
                for was, now in zip(old.get("folds", ()), new.get("folds", ()), strict=True):
                    assert was != now
                    assert was not in names or now == at.context.fold_key(names[was])
        await forget(at.rt, at.context, caller(), Forget(query="rye", purge=True))
        await nothing_of(at, "rye")


async def test_a_ledger_that_does_not_fit_is_refused(home: Path, file: Path, tmp_path: Path) -> None:
    async with opened(home) as at:
        await at.say("one", "two", "three")
        await forget(at.rt, at.context, caller(), Forget(query="one", purge=True))
        shutil.copy(ledger_of(home), tmp_path / "short")
        await forget(at.rt, at.context, caller(), Forget(query="two", purge=True))
        await backup(at.rt, file)
        await forget(at.rt, at.context, caller(), Forget(query="three", purge=True))
        shutil.copy(ledger_of(home), tmp_path / "long")
    before = snapshot(home)
    with pytest.raises(StoreRefused, match="ends before it"):
        await restore(tmp_path / "there", file, ledger=tmp_path / "short")
    with pytest.raises(Conflict, match="fits"):
        await restore(home, file, new_ledger_reason="because")
    with pytest.raises(Invalid, match="not both"):
        await restore(home, file, new_ledger_reason="because", ledger=tmp_path / "long")
    assert snapshot(home) == before
    # The folder's own ledger is behind: the copy is longer and takes its place.
    shutil.copy(tmp_path / "short", ledger_of(home))
    with pytest.raises(StoreRefused, match="behind it"):
        await restore(home, file)
    done = await restore(home, file, ledger=tmp_path / "long")
    assert (done.ledger, done.replayed) == ("copied", 1)
    assert done.aside["ledger"].is_dir()
    # Damaged: the copy replaces it, and the damaged one is kept aside.
    ledger_of(home).write_bytes(b"{}\n")
    with pytest.raises(StoreRefused, match="damaged at line 1"):
        await restore(home, file)
    assert (await restore(home, file, ledger=tmp_path / "long")).ledger == "copied"
    # The folder's own ledger is the longer one: it stays.
    (tmp_path / "middle").write_bytes(b"".join(ledger_of(home).read_bytes().splitlines(keepends=True)[:2]))
    assert (await restore(home, file, ledger=tmp_path / "middle")).ledger == "kept"
    async with opened(home) as at:
        assert at.rt.ledger.head[0] == 3
        assert await at.found("three") == []


async def test_an_empty_ledger_of_another_folder_proves_nothing(home: Path, file: Path, tmp_path: Path) -> None:
    async with opened(home) as at:
        await at.say("the canary")
        await backup(at.rt, file)
    async with opened(tmp_path / "other"):
        pass
    with pytest.raises(StoreRefused, match="nothing says"):
        await restore(tmp_path / "other", file)
    await restore(home, file)


async def test_a_record_is_not_served_with_a_ledger_that_lost_lines(home: Path) -> None:
    async with opened(home) as at:
        number = at.rt.ledger.append("acme", "purge", ["turn:gone"], 1)
        batch = Batch(at=at.rt.clock())
        note_tombstone(batch, number)
        await at.context.commit(batch)
    ledger_of(home).unlink()
    async with open_runtime(Config(data=home)) as rt:
        with pytest.raises(StoreRefused, match=r"ends at number 0, and the record has carried out number 1.*doctor"):
            await rt.context("acme")


_WORDS = (b"oystercatcher", b"gannets", b"lighthouse")


async def test_no_byte_of_what_is_erased_again_comes_into_the_new_record(home: Path, file: Path) -> None:
    """The engine writes forwards, so what is erased from files stays in them: the new record is written without it."""
    async with opened(home) as at:
        await at.say("the oystercatcher", "the lighthouse")
        await at.state({"key": "likes", "value": "oystercatcher soup"})
        await contexts.bootstrap(at.rt, "other")
        await contexts.patch(at.rt, "other", contexts.ContextChange(description="about gannets"))
        await backup(at.rt, file)
        for query in ("the oystercatcher", "oystercatcher soup"):
            await forget(at.rt, at.context, caller(), Forget(query=query, purge=True))
        await contexts.delete(at.rt, "other")
        wanted = await dump(at.context.db)
    done = await restore(home, file)
    assert (done.replayed, done.left_out) == (2, ("other",))
    for old in done.aside.values():
        shutil.rmtree(old)
    words = [(p.name, word) for p in home.rglob("*") if p.is_file() for word in _WORDS if word in p.read_bytes()]
    assert {word for _, word in words} == {b"lighthouse"}, words
    assert [p.name for p in home.iterdir() if p.name.startswith("record")] == [RECORD_FOLDER]
    assert (await doctor(home)).sound
    async with opened(home) as at:
        after = await dump(at.context.db)
        own = ("change", "meta", "audit")  # what was done here, and not what is remembered
        assert {name: len(rows) for name, rows in after.items() if name not in own} == {
            name: len(rows) for name, rows in wanted.items() if name not in own
        }
        assert await at.found("lighthouse") == ["the lighthouse"]
        await at.say("one more")
    async with opened(home) as at:
        assert await at.found("one more") == ["one more"]


# ---------------------------------------------------------------------- put together by hand
async def test_a_hostile_archive_reaches_nothing_outside(home: Path, file: Path, tmp_path: Path) -> None:
    async with opened(home) as at:
        await at.say("the canary")
        await backup(at.rt, file)
    (tmp_path / "victim" / "finder").mkdir(parents=True)
    (tmp_path / "victim" / "finder" / "mine").write_text("mine")
    before, sound = snapshot(tmp_path), file.read_bytes()
    for hostile in ("../victim", str(tmp_path / "victim"), "..", "record"):
        body = b"".join(sound.replace(b"acme", hostile.encode()).splitlines(keepends=True)[:-1])
        trailer = json.loads(sound.splitlines()[-1])["trailer"]
        counts = {name.replace("acme", hostile): tables for name, tables in trailer["counts"].items()}
        end = {"trailer": {"counts": counts, "sha256": hashlib.sha256(body).hexdigest()}}
        file.write_bytes(body + json.dumps(end).encode() + b"\n")
        with pytest.raises(Invalid, match="names of contexts"):
            await restore(home, file)
    file.write_bytes(sound)
    assert snapshot(tmp_path) == before
    lines = sound.splitlines(keepends=True)
    head, rows = lines[0], [line for line in lines[1:-1] if b'"db":"context:acme"' in line]
    trailer = json.loads(lines[-1])["trailer"]
    trailer["counts"]["control"] = {}
    trailer["sha256"] = hashlib.sha256(b"".join([head, *rows])).hexdigest()
    file.write_bytes(b"".join([head, *rows, json.dumps({"trailer": trailer}).encode() + b"\n"]))
    with pytest.raises(Invalid, match="before it names any"):
        await restore(home, file)


@pytest.mark.parametrize("hostile", ["../victim", "{}/victim", "linked"])
async def test_a_registered_name_that_leads_outside_is_refused(home: Path, tmp_path: Path, hostile: str) -> None:
    """However it came to be registered."""
    victim = tmp_path / "victim"
    (victim / "finder").mkdir(parents=True)
    (victim / "finder" / "mine").write_text("mine")
    name = hostile.format(tmp_path)
    async with opened(home) as at:
        (home / "linked").symlink_to(victim)
        row = ContextRow(id=name, namespace="keeps", database=database_of(name), created_at=at.rt.clock())
        batch = Batch(at=at.rt.clock())
        batch.puts.append({"id": RecordID("context", name), "row": store_contexts.to_row(row)})
        await at.rt.commit_control(batch)
        for attempt in (at.rt.context(name), contexts.delete(at.rt, name), at.rt.clear(row)):
            with pytest.raises(StoreRefused, match="must lie in the data folder"):
                await attempt
        with pytest.raises(StoreRefused):
            at.rt.home_of(replace(row, id="acme"))
        assert at.rt.ledger.head[0] == 0
        assert [found.id for found in await contexts.list_all(at.rt)] == sorted(["acme", name])
    assert (victim / "finder" / "mine").read_text() == "mine"
    assert len(list(victim.rglob("*"))) == 2


# ---------------------------------------------------------------------- refusals change nothing
def snapshot(folder: Path) -> dict[str, bytes]:
    skipped = ("lock",)
    return {
        str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name not in skipped
    }


@pytest.mark.parametrize("damage", ["cut", "flipped", "trailer", "newer schema", "no such table"])
async def test_a_bad_archive_changes_nothing(home: Path, file: Path, damage: str) -> None:
    async with opened(home) as at:
        await at.say("the canary")
        await backup(at.rt, file)
    content = file.read_bytes()
    lines = content.splitlines(keepends=True)
    changes: dict[str, Callable[[], bytes]] = {
        "cut": lambda: content[:-100],
        "flipped": lambda: content.replace(b"the canary", b"the canapy"),
        "trailer": lambda: b"".join([*lines[:-1], lines[-1].replace(b'"turn":1', b'"turn":2')]),
        "newer schema": lambda: content.replace(b'"context":', b'"context":9', 1),
        "no such table": lambda: b"".join(lines[:2]) + b"{}\n",
    }
    file.write_bytes(changes[damage]())
    assert file.read_bytes() != content
    before = snapshot(home)
    with pytest.raises((Invalid, StoreRefused)):
        await restore(home, file)
    assert snapshot(home) == before


async def test_a_folder_in_use_is_refused(home: Path, file: Path) -> None:
    await saved(home, file)
    with FolderLock(home), pytest.raises(StoreRefused, match="owns the folder"):
        await restore(home, file)


# ---------------------------------------------------------------------- interruptions
INTERRUPTED = """
import asyncio, os, sys
from pathlib import Path
from keeps.services import archive
from keeps.store import swap

home, file, point = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
moves = 0

def watch(step):
    if step.stage == point:
        os._exit(9)

def dying(name):
    work = getattr(swap, name)
    def die(*arguments):
        global moves
        if name == "_move":
            if str(moves) == point.partition(" ")[2]:
                os._exit(9)
            moves += 1
        elif name == point:
            os._exit(9)
        return work(*arguments)
    setattr(swap, name, die)

for name in ("_move", "write_private", "_move_finders"):
    dying(name)
asyncio.run(archive.restore(home, file, progress=watch))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("point", "new"),
    [
        ("load", False),
        ("open", False),
        ("swap", False),
        ("write_private", False),
        ("move 0", True),
        ("move 1", True),
        ("_move_finders", True),
    ],
)
async def test_a_killed_restore_leaves_the_old_or_the_new_record(home: Path, file: Path, point: str, new: bool) -> None:
    async with opened(home) as at:
        await at.say("the first canary")
        await backup(at.rt, file)
        await at.say("the second canary")
    command = [sys.executable, "-c", INTERRUPTED, str(home), str(file), point]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    assert done.returncode == 9, done.stderr
    copy = home.with_name("copy")
    shutil.copytree(home, copy)
    async with opened(home) as at:
        wanted = {"the first canary"} if new else {"the first canary", "the second canary"}
        assert set(await at.found("canary")) == wanted
    for folder in (home, copy):  # opened in between, or not
        finished = await restore(folder, file)
        assert "record" in finished.aside
        assert not (folder / STAGING).exists()
        async with opened(folder) as at:
            assert await at.found("canary") == ["the first canary"]


async def test_an_error_on_the_way_leaves_nothing_behind(home: Path, file: Path) -> None:
    async with opened(home) as at:
        await at.say("the canary")
        await backup(at.rt, file)
    before = snapshot(home)

    def fail(step: Step) -> None:
        if step.stage == "open":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await restore(home, file, progress=fail)
    assert snapshot(home) == before
    done: Restored = await restore(home, file)
    assert done.contexts == ("acme",)


# ---------------------------------------------------------------------- archives of earlier versions
@pytest.mark.parametrize("fixture", sorted(FIXTURES.glob("archive-*.jsonl")), ids=lambda path: path.stem)
async def test_an_archive_of_every_version_is_opened(home: Path, fixture: Path) -> None:
    """These files stay as they are for ever: what was backed up once can be restored with every later version."""
    done = await restore(home, fixture, new_ledger_reason="a file of the tests")
    assert done.contexts == ("Other.One", "acme")
    async with opened(home) as at:
        assert await at.values("role") == ["harbour pilot", "deckhand"]
        assert sorted(await at.values("likes")) == ["rye", "spelt"]
        assert await at.found("When does the pilot boat leave?")
        assert await at.found("forgotten") == []
        edges = await at.context.db.run("SELECT VALUE ->relates_to->entity.name FROM entity WHERE name = 'mara';")
        assert ["harbour"] in edges[0]
        await at.state({"key": "role", "value": "captain"})
        assert await at.values("role") == ["captain", "harbour pilot", "deckhand"]
        assert await Open(at.rt, await at.rt.context("Other.One")).found("memory") == ["another memory"]
    assert (await doctor(home)).sound


def test_there_is_an_archive_of_every_version() -> None:
    assert {path.name for path in FIXTURES.iterdir() if path.name.startswith("archive-")} == {
        f"archive-{version}.jsonl" for version in range(1, VERSION + 1)
    }


# ---------------------------------------------------------------------- large records
LARGE = """
import asyncio, json, resource, sys
from datetime import UTC, datetime
from pathlib import Path
from keeps.config import Config
from keeps.core.scopes import Scope
from keeps.services import archive
from keeps.services.runtime import open_runtime
from keeps.store.archive import Header, Writer
from keeps.store.db import RecordID

folder, count = Path(sys.argv[1]), int(sys.argv[2])
now, scope = datetime.now(UTC), Scope.from_lists([["a"]]).id
first, second = folder / f"{count}.jsonl", folder / f"{count}-again.jsonl"

def made():
    header = Header(created_at=now, control_schema=1, context_schema=1, contexts=("acme",), ledger=(0, ""),
                    pepper_check="")
    with Writer(first, header) as writer:
        context = {"id": RecordID("context", "acme"), "folded": "acme", "namespace": "keeps",
                   "database": "context_acme", "config": {}, "enforcement_blocked": False, "created_at": now}
        writer.row("control", "context", context)
        db = "context:acme"
        writer.row(db, "meta", {"id": RecordID("meta", "state"), "seq": 1, "uid": "u"})
        writer.row(db, "scope_set", {"id": RecordID("scope_set", scope), "clauses": [["a"]], "created_at": now})
        writer.row(db, "session", {"id": RecordID("session", "s"), "scope_set": scope, "created_at": now,
                                   "next_seq": count})
        for n in range(count):
            writer.row(db, "turn", {
                "id": RecordID("turn", f"t{n}"), "session": "s", "seq": n, "role": "user",
                "content": f"number {n} " + "word " * 200, "scope_set": scope, "labels": [], "known_at": now,
                "recorded_at": now, "status": "confirmed", "origin": "user_saved", "trust": 0.5, "taint": [],
                "flags": [], "addressees": [], "folds": [f"f{n}"]})
            writer.row(db, "follows", {
                "id": RecordID("follows", f"f{n}"), "in": RecordID("turn", f"t{n - 1}"),
                "out": RecordID("turn", f"t{n}"), "strength": 1.0, "scope_set": scope})
        writer.finish()

async def main():
    await archive.restore(folder / f"home{count}", first, new_ledger_reason="large")
    async with open_runtime(Config(data=folder / f"home{count}")) as rt:
        done = await archive.backup(rt, second)
        assert done.counts["context:acme"]["turn"] == done.counts["context:acme"]["follows"] == count

made()
asyncio.run(main())
print(json.dumps({"file": first.stat().st_size, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))
"""


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_memory_does_not_grow_with_the_record(tmp_path: Path) -> None:
    peaks: dict[int, int] = {}
    for count in (1_000, 20_000):
        command = [sys.executable, "-c", LARGE, str(tmp_path), str(count)]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        said = json.loads(done.stdout)
        peaks[count] = said["peak"]
    assert said["file"] > 30_000_000
    assert peaks[20_000] - peaks[1_000] < 40_000_000, peaks
