"""Vectors of everything, made by hand, where no model is wanted; and what must hold for them."""

from __future__ import annotations

import hashlib
from collections import defaultdict

import numpy as np

from keeps.core.generations import Generation
from keeps.core.spaces import Point, Space
from keeps.finder.base import Only
from keeps.services import index
from keeps.services.runtime import Context
from keeps.store import vectors as store_vectors
from keeps.store.rows import key_of

SPACE = Space("by hand", 8)


def made_of(text: str, space: Space = SPACE) -> bytes:
    """The vector of a text: another one for each."""
    seed = int.from_bytes(hashlib.sha256(f"{space.model} {text}".encode()).digest()[:8])
    drawn = np.random.default_rng(seed).standard_normal(space.dims)
    return (drawn / np.linalg.norm(drawn)).astype("<f2").tobytes()


async def embed(context: Context, space: Space = SPACE) -> dict[str, bytes]:
    """Give everything that lacks one a vector, in the record and in the index; those, by the text they are made of."""
    if space not in await store_vectors.spaces(context.db):
        await store_vectors.begin(context.db, Generation(space, "by hand", answering=True))
    await context.finder.begin_space(space)
    made: dict[str, bytes] = {}
    while lacking := await context.finder.lacking(space):
        texts = await index.read_meanings(context.indexed, [ref for ref, _ in lacking])
        rows = {unit: (ref, made_of(texts[unit], space)) for ref, unit in lacking if unit in texts}
        if not rows:  # the index is behind the record
            break
        assert await store_vectors.save(context.db, space, rows) == rows.keys()
        put = {unit: content for unit, (_, content) in rows.items()}
        assert await context.finder.put_vectors(space, put, meanings=texts) == len(rows)
        made |= {text: made_of(text, space) for text in texts.values()}
    return made


async def check_vectors(context: Context) -> None:
    """Every vector of the record is that of the text its row has now, and the index holds no other."""
    rows = (await context.db.run("SELECT * FROM vector;"))[0]
    refs: defaultdict[Space, set[str]] = defaultdict(set)
    meanings = await index.read_meanings(context.indexed, {row["of"] for row in rows})
    for row in rows:
        space = Space(row["model"], row["dims"])
        assert row["bytes"] == made_of(meanings[row["unit"]], space), f"{row['of']} {key_of(row['id'])}"
        refs[space].add(row["of"])
    for coverage in await context.finder.spaces():
        space = coverage.space
        question = np.frombuffer(made_of("", space), "<f2").astype("<f4").tobytes()
        everywhere = context.sets.everything()
        found = await context.finder.near(Point(space, question), everywhere, only=Only(live=False), limit=10_000)
        assert {hit.ref for hit in found} == refs[space]
        assert coverage.held == sum(1 for row in rows if row["model"] == space.model)
