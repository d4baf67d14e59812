"""A restored record loses again what was erased since: by the ledger, before it serves."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from keeps.config import Config
from keeps.core.access import Verb
from keeps.core.entities import entity_ref
from keeps.core.errors import StoreRefused, Unavailable
from keeps.core.scopes import parse_scopes
from keeps.finder.base import Only
from keeps.services.erase import Forget, ScopeForgotten, delete_entity, delete_session, forget, forget_scope
from keeps.services.remember import Message, Remember, remember
from keeps.services.runtime import RECORD_FOLDER, WATERMARK_FOLDER, Context, Runtime, open_runtime
from keeps.store import erase as store_erase
from keeps.store.ledger import GENESIS, Tombstone
from tests.services.conftest import HandClock, caller
from tests.services.test_erase_bytes import register, say, state

MARA = entity_ref("person", "Mara")
_TIMES = ("forgotten_at", "valid_until", "close_recorded_at", "resolved_at", "updated_at")


async def fill(rt: Runtime, context: Context) -> dict[str, str]:
    """A record with something for every way of erasing; names of what the test needs again."""
    await state(rt, context, {"key": "role", "value": "deckhand"})
    await state(rt, context, {"key": "role", "value": "pilot"}, {"key": "likes", "value": "rye bread"})
    first = await say(rt, context, "The boat is late")
    await say(rt, context, "Then we wait", session=first.session)
    other = await say(rt, context, "A session of its own")
    both = parse_scopes([["user/al"], ["user/bo"]])
    shared = await remember(
        rt, context, caller(), Remember(messages=[Message(text="We share the shed", speaker="Al")], scope=both)
    )
    for scope in (both, parse_scopes("user/al"), parse_scopes("user/bo")):
        await state(
            rt,
            context,
            {"entity": {"type": "person", "name": "Al"}, "key": "city", "value": f"Lyon {len(str(scope))}"},
            {
                "entity": {"type": "person", "name": "Al"},
                "key": "knows",
                "target": {"type": "person", "name": "Bo"},
            },
            scope=scope,
        )
    return {"session": other.session, "shared": shared.session}


async def erase(rt: Runtime, context: Context, names: dict[str, str]) -> None:
    """Everything there is to erase with, once."""
    await forget(rt, context, caller(), Forget(query="rye bread", purge=True))
    await forget(rt, context, caller(), Forget(query="Mara: the boat is late"))
    await forget_scope(rt, context, caller(), "user/al")
    await delete_session(rt, context, caller(), names["session"])
    await delete_entity(rt, context, caller(), MARA)


async def dump(context: Context) -> dict[str, list[str]]:
    """What every table holds, but for bookkeeping, and for the times at which a thing was erased."""
    tables: dict[str, Any] = (await context.db.run("INFO FOR DB;"))[0]["tables"]
    held: dict[str, list[str]] = {}
    for table in sorted(set(tables) - {"change", "meta", "key_usage", "audit"}):
        rows = (await context.db.run("SELECT * FROM type::table($table);", table=table))[0]
        held[table] = sorted(repr({k: v is None if k in _TIMES else v for k, v in row.items()}) for row in rows)
    return held


async def listed(context: Context) -> set[str]:
    return {
        hit.ref
        for words in ("pilot rye boat wait session shed lyon al bo knows role", "mara")
        for hit in await context.finder.find(words, context.sets.everything(), only=Only(live=False))
    }


@pytest.mark.slow
@pytest.mark.parametrize("rows_at_once", [2_000, 3])
async def test_a_restored_record_ends_where_the_first_one_did(
    tmp_path: Path, clock: HandClock, monkeypatch: pytest.MonkeyPatch, rows_at_once: int
) -> None:
    monkeypatch.setattr("keeps.services.erase.MAX_ROWS", rows_at_once)
    data, copy = tmp_path / "data", tmp_path / "copy"
    async with open_runtime(Config(data=data), clock=clock) as rt:
        names = await fill(rt, await register(rt))
    shutil.copytree(data / RECORD_FOLDER, copy)
    async with open_runtime(Config(data=data), clock=clock) as rt:
        context = await rt.context("acme")
        before = await dump(context)
        await erase(rt, context, names)
        expected, seen, lines = await dump(context), await listed(context), rt.ledger.head[0]
    assert before != expected
    for again in range(2):
        if again == 0:
            shutil.rmtree(data / RECORD_FOLDER)
            shutil.rmtree(data / WATERMARK_FOLDER)
            shutil.copytree(copy, data / RECORD_FOLDER)
        async with open_runtime(Config(data=data), clock=clock) as rt:
            context = await rt.context("acme")
            found = await dump(context)
            for table in expected:
                assert found[table] == expected[table], table
            assert await listed(context) == seen
            assert rt.ledger.head[0] == lines


async def test_replaying_twice_changes_nothing_more(rt: Runtime, context: Context) -> None:
    names = await fill(rt, context)
    await erase(rt, context, names)
    once = await dump(context)
    for tombstone in rt.ledger.since("acme", 0):
        await context.commit_apart(await store_erase.plan_replay(context.db, context.sets, tombstone, rt.clock()))
    assert await dump(context) == once


async def test_an_erasure_cut_short_after_the_ledger_is_completed_at_the_next_start(
    rt: Runtime, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(rt, context)

    async def lost(*_: object) -> int:
        raise Unavailable("the engine died")

    with monkeypatch.context() as patched:
        patched.setattr(Context, "commit", lost)
        with pytest.raises(Unavailable):
            await forget(rt, context, caller(), Forget(query="pilot", purge=True))
    await rt.forget_context("acme")
    context = await rt.context("acme")
    values = (await context.db.run("SELECT VALUE value FROM attribute;"))[0]
    assert "pilot" not in values
    assert "rye bread" in values
    assert await context.finder.find("pilot", context.sets.everything()) == []


async def test_a_scope_half_erased_is_completed(rt: Runtime, context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    await fill(rt, context)
    monkeypatch.setattr("keeps.services.erase.MAX_ROWS", 3)
    commit, left = Context.commit, [2]

    async def dies(context: Context, *args: Any) -> int:
        left[0] -= 1
        if left[0] < 0:
            raise Unavailable("the engine died")
        return await commit(context, *args)

    with monkeypatch.context() as patched:
        patched.setattr(Context, "commit", dies)
        with pytest.raises(Unavailable):
            await forget_scope(rt, context, caller(), "user/mara")
    # Rows go in no order but this one: sessions come last.
    count = "SELECT VALUE id FROM session WHERE scope_set IN $sets;"
    mara = context.sets.readable(caller("user/mara").region(Verb.MEMORY_READ))
    assert (await context.db.run(count, sets=sorted(mara)))[0] != []
    await rt.forget_context("acme")
    context = await rt.context("acme")
    assert (await context.db.run(count, sets=sorted(mara)))[0] == []
    assert await forget_scope(rt, context, caller(), "user/mara") == ScopeForgotten(rows=0, memories=0)


async def test_an_unknown_kind_is_refused(rt: Runtime, context: Context) -> None:
    line = Tombstone(
        seq=1, at=rt.clock(), context="acme", kind="fold-space", ids=("turn:x",), change=1, detail={}, digest=GENESIS
    )
    with pytest.raises(StoreRefused, match="newer version"):
        await store_erase.plan_replay(context.db, context.sets, line, rt.clock())


async def test_the_ledger_holds_no_names(rt: Runtime, context: Context) -> None:
    names = await fill(rt, context)
    await erase(rt, context, names)
    text = (rt.folder / "ledger" / "tombstones.jsonl").read_text()
    for word in ("mara", "user/al", "lyon", "pilot", "boat", "person"):
        assert word not in text.casefold()
