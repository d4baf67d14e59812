"""After a purge no byte of it is left in any table, in the finder's files or in the ledger.

One place is left out and told so to users: the engine's own log under `record/` keeps deleted bytes until it is
rewritten.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from keeps.config import Config
from keeps.core.replies import ReplyKey
from keeps.core.scopes import parse_scopes
from keeps.core.triples import parse_triples
from keeps.services.erase import Forget, delete_session, forget, forget_scope
from keeps.services.remember import Infer, Message, Remember, Remembered, remember
from keeps.services.runtime import RECORD_FOLDER, Context, Runtime, open_runtime
from keeps.store import contexts as store_contexts
from keeps.store.commit import Batch
from keeps.store.db import RecordID
from tests.services.conftest import HandClock, caller
from tests.services.embedding import embed

CANARY = "zanzibarquux"
MADE: dict[str, bytes] = {}
"""Every vector that was made, by its text."""


async def register(rt: Runtime) -> Context:
    row = store_contexts.ContextRow(
        id="acme", namespace="keeps", database=store_contexts.database_of("acme"), created_at=rt.clock()
    )
    batch = Batch(at=rt.clock())
    batch.puts.append({"id": RecordID("context", row.id), "row": store_contexts.to_row(row)})
    await rt.commit_control(batch)
    return await rt.context("acme")


@pytest_asyncio.fixture
async def on_disk(tmp_path: Path, clock: HandClock) -> AsyncIterator[Runtime]:
    async with open_runtime(Config(data=tmp_path), clock=clock) as runtime:
        yield runtime


async def leftovers(rt: Runtime, context: Context) -> list[str]:
    """Tables with a row that holds the canary, and files that hold it, the engine's own apart."""
    held: list[str] = []
    tables: dict[str, Any] = (await context.db.run("INFO FOR DB;"))[0]["tables"]
    assert {"turn", "attribute", "chain", "change", "meta", "reply", "job", "proposal", "uncertainty"} <= set(tables)
    for table in tables:
        rows = (await context.db.run("SELECT * FROM type::table($table);", table=table))[0]
        held += [f"table {table}" for row in rows if CANARY in repr(row).casefold()]
    files = [path for path in rt.folder.rglob("*") if path.is_file() and RECORD_FOLDER not in path.parts]
    assert any(path.suffix == ".sqlite3" for path in files)
    held += [f"file {path.name}" for path in files if CANARY.encode() in path.read_bytes().lower()]
    return held + await _vectors_left(context, files)


async def _vectors_left(context: Context, files: list[Path]) -> list[str]:
    """The same of the vectors of texts that hold the canary, made now of what has none yet."""
    MADE.update(await embed(context))
    traces = {content for text, content in MADE.items() if CANARY in text.casefold()}
    rows = (await context.db.run("SELECT VALUE bytes FROM vector;"))[0]
    held = ["table vector" for content in rows if content in traces]
    contents = {path.name: path.read_bytes() for path in files if path.exists()}
    return held + [f"file {name}" for name, content in contents.items() if any(trace in content for trace in traces)]


async def state(rt: Runtime, context: Context, *entries: dict[str, object], **more: Any) -> Remembered:
    triples = parse_triples(
        [{"entity": {"type": "person", "name": "Mara"}} | entry for entry in entries], anchor=rt.clock()
    )
    key = ReplyKey(
        namespace=f"n{rt.clock().microsecond}",
        fingerprint="f",
        expires_at=rt.clock() + timedelta(days=1),
        render=lambda done: repr(done),
    )
    where = {"scope": parse_scopes("user/mara")} | more
    return await remember(rt, context, caller(), Remember(infer=Infer.TRIPLES, triples=triples, reply=key, **where))


async def say(rt: Runtime, context: Context, text: str, **more: Any) -> Remembered:
    return await remember(
        rt,
        context,
        caller(),
        Remember(messages=[Message(text=text, speaker="Mara")], scope=parse_scopes("user/mara"), **more),
    )


async def purge(rt: Runtime, context: Context, query: str) -> int:
    return (await forget(rt, context, caller(), Forget(query=query, purge=True))).memories


async def test_a_fact_with_all_its_versions(on_disk: Runtime) -> None:
    rt = on_disk
    context = await register(rt)
    await state(rt, context, {"key": "role", "value": "deckhand"}, {"key": "likes", "value": "rye bread"})
    await state(rt, context, {"key": "role", "value": f"Captain of the {CANARY.upper()}"})
    await state(rt, context, {"key": "role", "value": "cook"}, {"key": "likes", "value": CANARY})
    assert {"table attribute", "table chain", "table turn", "table reply"} <= set(await leftovers(rt, context))
    assert await purge(rt, context, CANARY) == 1
    assert await purge(rt, context, f"captain of the {CANARY}") == 1
    assert await leftovers(rt, context) == []
    assert await context.finder.find("rye bread", context.sets.everything()) != []


async def test_a_turn_beside_others(on_disk: Runtime) -> None:
    rt = on_disk
    context = await register(rt)
    first = await say(rt, context, f"The {CANARY} is late")
    await say(rt, context, "Then we wait", session=first.session)
    await state(
        rt,
        context,
        {"key": "role", "value": "pilot", "sourceClause": f"the {CANARY} is late"},
        session=first.session,
        messages=[Message(text=f"I steer as the {CANARY} is late", speaker="Mara")],
    )
    assert any(held.startswith("file text") for held in await leftovers(rt, context))
    assert await purge(rt, context, f"The {CANARY} is late") == 1
    assert await purge(rt, context, f"Mara: I steer as the {CANARY} is late") == 1
    assert await leftovers(rt, context) == []
    assert await context.finder.find("pilot wait", context.sets.everything()) != []


async def test_an_entity_with_all_that_names_it(on_disk: Runtime) -> None:
    rt = on_disk
    context = await register(rt)
    ship = {"type": "product", "name": CANARY.title()}
    await state(rt, context, {"key": "works_on", "target": ship}, {"verb": "painted", "object": CANARY})
    await state(rt, context, {"entity": ship, "key": "length", "value": "30 m"})
    await purge(rt, context, CANARY)
    assert await leftovers(rt, context) == []


async def test_a_proposal_and_its_question(on_disk: Runtime) -> None:
    rt = on_disk
    context = await register(rt)
    await state(rt, context, {"key": "role", "value": "pilot"})
    await context.db.run("UPDATE attribute SET user_confirmed = true;")
    done = await state(rt, context, {"key": "role", "value": CANARY})
    assert done.extraction is not None
    assert done.extraction.proposals
    assert await purge(rt, context, CANARY) == 1
    assert await leftovers(rt, context) == []
    assert await context.finder.find("pilot", context.sets.everything()) != []


@pytest.mark.parametrize("whole", ["session", "scope"])
async def test_a_whole_session_and_a_whole_scope(on_disk: Runtime, whole: str) -> None:
    rt = on_disk
    context = await register(rt)
    said = await say(rt, context, f"The {CANARY} is late", metadata={"ship": CANARY})
    if whole == "session":
        await delete_session(rt, context, caller(), said.session)
    else:
        await state(rt, context, {"key": "likes", "value": CANARY}, {"verb": "painted", "object": CANARY})
        await forget_scope(rt, context, caller(), "user/mara")
    assert await leftovers(rt, context) == []


async def test_after_the_index_missed_the_purge(on_disk: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash between the commit and the index: the next start builds the index anew."""
    rt = on_disk
    context = await register(rt)
    await say(rt, context, f"The {CANARY} is late")
    await state(rt, context, {"entity": {"type": "product", "name": CANARY}, "key": "length", "value": "30 m"})

    async def crashed(*_: object, **__: object) -> None:
        raise RuntimeError("crash")

    with monkeypatch.context() as patched:
        patched.setattr("keeps.services.index.follow", crashed)
        for words in (f"The {CANARY} is late", CANARY):
            with pytest.raises(RuntimeError):
                await purge(rt, context, words)
    assert {held.partition(" ")[0] for held in await leftovers(rt, context)} == {"file"}
    await rt.forget_context("acme")
    context = await rt.context("acme")
    assert await leftovers(rt, context) == []


async def test_after_a_crash_before_the_bytes_were_scrubbed(on_disk: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    rt = on_disk
    context = await register(rt)
    for n in range(30):
        await say(rt, context, f"The {CANARY} is late {n}")

    async def crashed(*_: object) -> None:
        raise RuntimeError("crash")

    with monkeypatch.context() as patched:
        patched.setattr(type(context.finder), "scrub", crashed)
        with pytest.raises(RuntimeError):
            await forget_scope(rt, context, caller(), "user/mara")
    assert {held.partition(" ")[0] for held in await leftovers(rt, context)} == {"file"}
    await rt.forget_context("acme")
    context = await rt.context("acme")
    assert await leftovers(rt, context) == []
    assert not (rt.folder / "acme" / "scrub-owed").exists()
