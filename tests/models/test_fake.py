"""The embedder without a model: near when words are shared, and equal everywhere."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keeps.models.base import EmbedderLost
from keeps.models.fake import FakeEmbedder
from tests.models.faulty import Faulty, Lie


async def cosine(a: str, b: str) -> float:
    rows = await FakeEmbedder().embed([a, b])
    return float(rows[0] @ rows[1])


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Mara likes green tea", "green tea"),
        ("she was baking cakes", "She bakes a cake"),
        ("SAILING boats", "sail, boat!"),
        ("Straße", "STRASSE"),
    ],
)
async def test_texts_that_share_words_are_near(a: str, b: str) -> None:
    assert await cosine(a, b) > 0.6


@pytest.mark.parametrize(("a", "b"), [("green tea", "interest rates"), ("the cat is here", "the dog was there")])
async def test_texts_that_share_no_word_that_counts_are_far(a: str, b: str) -> None:
    assert abs(await cosine(a, b)) < 0.25


async def test_vectors_are_equal_on_every_machine() -> None:
    rows = await FakeEmbedder(16).embed(["green tea"])
    assert np.sign(rows[0]).astype(int).tolist() == [-1, -1, 0, 0, 1, 0, 0, 0, -1, 0, 0, 0, 1, 0, -1, -1]


async def test_another_width_or_seed_is_another_space() -> None:
    spaces = [await embedder.space() for embedder in (FakeEmbedder(), FakeEmbedder(768), FakeEmbedder(seed=1))]
    assert [space.dims for space in spaces] == [384, 768, 384]
    assert len({space.model for space in spaces}) == 3
    one, other = [await embedder.embed(["green tea"]) for embedder in (FakeEmbedder(), FakeEmbedder(seed=1))]
    assert abs(float(one[0] @ other[0])) < 0.3


@given(st.lists(st.text(), max_size=5), st.sampled_from([1, 2, 7, 384]))
async def test_every_text_has_a_direction(texts: list[str], dims: int) -> None:
    rows = await FakeEmbedder(dims).embed(texts)
    assert rows.shape == (len(texts), dims)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)


async def test_faults_come_and_go() -> None:
    faulty = Faulty(FakeEmbedder())
    good = await faulty.embed(["tea", "boat"])
    faulty.fail = True
    with pytest.raises(EmbedderLost, match="fake-384"):
        await faulty.embed(["tea"])
    with pytest.raises(EmbedderLost):
        await faulty.space()
    faulty.fail = False
    assert (await faulty.embed(["tea", "boat"])).tobytes() == good.tobytes()
    assert faulty.calls == 3


@pytest.mark.parametrize(
    ("lie", "wrong"),
    [
        ("width", lambda rows: rows.shape == (2, 383)),
        ("few", lambda rows: rows.shape == (1, 384)),
        ("nan", lambda rows: np.isnan(rows).any()),
        ("length", lambda rows: not np.allclose(np.linalg.norm(rows, axis=1), 1)),
        ("zero", lambda rows: not rows[-1].any()),
    ],
)
async def test_a_lie_is_one(lie: Lie, wrong: object) -> None:
    assert callable(wrong)
    assert wrong(await Faulty(FakeEmbedder(), lie=lie).embed(["tea", "boat"]))
