"""Vectors go with what they are made of, by every way of erasing, in the record and in the index."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from keeps.config import Config
from keeps.core.scopes import parse_scopes
from keeps.core.spaces import Space
from keeps.services import index
from keeps.services.erase import Forget, delete_entity, delete_session, forget, forget_scope
from keeps.services.remember import Message, Remember, remember
from keeps.services.runtime import RECORD_FOLDER, Context, Runtime, open_runtime
from keeps.store import erase as store_erase
from keeps.store import vectors as store_vectors
from tests.services.conftest import HandClock, caller
from tests.services.embedding import SPACE, check_vectors, embed, made_of
from tests.services.test_erase_bytes import register, say, state
from tests.services.test_erase_replay import MARA, erase, fill

WIDE = Space("by hand, wide", 384)


async def held(context: Context, *texts: str) -> list[bool]:
    """Of each text, whether its vector is in the record."""
    found = {content async for page in store_vectors.all_of(context.db, SPACE) for content in page.values()}
    return [made_of(text) in found for text in texts]


async def test_every_way_of_erasing_takes_the_vectors_along(rt: Runtime, context: Context) -> None:
    names = await fill(rt, context)
    for space in (SPACE, WIDE):
        await embed(context, space)
    before = await store_vectors.count(context.db, SPACE)
    assert before == await store_vectors.count(context.db, WIDE) > 10
    await check_vectors(context)
    steps = (
        lambda: forget(rt, context, caller(), Forget(query="rye bread", purge=True)),
        lambda: forget(rt, context, caller(), Forget(query="Mara: the boat is late")),
        lambda: forget_scope(rt, context, caller(), "user/al"),
        lambda: delete_session(rt, context, caller(), names["session"]),
        lambda: delete_entity(rt, context, caller(), MARA),
    )
    for step in steps:
        await step()
        await check_vectors(context)
        left = await store_vectors.count(context.db, SPACE)
        assert left == await store_vectors.count(context.db, WIDE) < before
        before = left
    assert before > 0
    await forget_scope(rt, context, caller(), "/")
    assert await store_vectors.count(context.db) == 0


@pytest.mark.parametrize("purge", [False, True])
async def test_a_fact_or_turn_that_goes_takes_its_own_vector_only(rt: Runtime, context: Context, purge: bool) -> None:
    await state(rt, context, {"key": "role", "value": "pilot"}, {"key": "likes", "value": "rye bread"})
    await say(rt, context, "The boat is late")
    made = await embed(context)
    (bread,) = [text for text in made if "rye bread" in text]
    (pilot,) = [text for text in made if "pilot" in text]
    assert await held(context, bread, pilot, "Mara: The boat is late") == [True, True, True]
    await forget(rt, context, caller(), Forget(query="rye bread", purge=purge))
    assert await held(context, bread, pilot, "Mara: The boat is late") == [False, True, True]
    await forget(rt, context, caller(), Forget(query="Mara: The boat is late", purge=purge))
    assert await held(context, bread, pilot, "Mara: The boat is late") == [False, True, False]
    await check_vectors(context)


async def test_a_superseded_fact_keeps_its_vector(rt: Runtime, context: Context) -> None:
    await state(rt, context, {"key": "role", "value": "deckhand"})
    made = await embed(context)
    await state(rt, context, {"key": "role", "value": "pilot"})
    assert await held(context, *made) == [True] * len(made)
    await embed(context)
    assert await store_vectors.count(context.db, SPACE) == 2
    await check_vectors(context)


async def test_a_vector_that_comes_between_the_plan_and_the_commit_goes_too(rt: Runtime, context: Context) -> None:
    await state(rt, context, {"key": "role", "value": "pilot"})
    made = await embed(context)
    await context.db.run("DELETE vector RETURN NONE;")
    (ref,) = [f"attribute:{row['id'].id}" for row in (await context.db.run("SELECT id FROM attribute;"))[0]]
    order = store_erase.Order(rows={ref: store_erase.Gone.PURGE})
    planned = await store_erase.plan(context.db, context.sets, order, rt.clock())
    (content,) = made.values()
    assert await store_vectors.save(context.db, SPACE, {ref: (ref, content)}) == {ref}
    await context.commit_apart(planned.batch)
    assert await store_vectors.count(context.db) == 0
    assert await store_vectors.save(context.db, SPACE, {ref: (ref, content)}) == frozenset()


async def test_a_row_that_stays_with_another_owner_keeps_one_vector(rt: Runtime, context: Context) -> None:
    both = parse_scopes([["user/al"], ["user/bo"]])
    bo = {"type": "person", "name": "Bo"}
    await state(rt, context, {"key": "role", "value": "pilot"}, {"key": "knows", "target": bo}, scope=both)
    shared = Remember(messages=[Message(text="We share the shed", speaker="Al")], scope=both)
    await remember(rt, context, caller(), shared)
    await embed(context)
    await forget_scope(rt, context, caller(), "user/al")
    await check_vectors(context)
    # An edge gets another id when it moves, and is embedded anew; the others keep what they have.
    assert [ref.partition(":")[0] for ref, _ in await context.finder.lacking(SPACE)] == ["relates_to"]
    await embed(context)
    await check_vectors(context)


async def test_a_restored_record_loses_its_vectors_again(tmp_path: Path, clock: HandClock) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy"
    async with open_runtime(Config(data=data), clock=clock) as rt:
        context = await register(rt)
        names = await fill(rt, context)
        await embed(context)
    shutil.copytree(data / RECORD_FOLDER, copy)
    async with open_runtime(Config(data=data), clock=clock) as rt:
        context = await rt.context("acme")
        await erase(rt, context, names)
        await check_vectors(context)
        left = await store_vectors.count(context.db)
    for name in (RECORD_FOLDER, "watermark"):
        shutil.rmtree(data / name)
    shutil.copytree(copy, data / RECORD_FOLDER)
    async with open_runtime(Config(data=data), clock=clock) as rt:
        context = await rt.context("acme")
        assert await store_vectors.count(context.db) == left
        await check_vectors(context)


async def test_an_index_built_anew_has_all_vectors_without_a_model(rt: Runtime, context: Context) -> None:
    await fill(rt, context)
    for space in (SPACE, WIDE):
        await embed(context, space)
    before = await context.finder.spaces()
    assert all(coverage.whole and coverage.held > 10 for coverage in before)
    await index.rebuild(context.indexed)
    assert await context.finder.spaces() == before
    await check_vectors(context)
