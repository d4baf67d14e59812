"""What every embedder keeps, whatever is behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import numpy as np
import pytest

from keeps.models.base import Embedder
from keeps.models.checked import Checked
from keeps.models.fake import FakeEmbedder
from keeps.models.minilm import MiniLM
from keeps.models.provider import ProviderEmbedder
from tests.models.double import Double

TEXTS = [
    "The ferry to Horta leaves at nine.",
    "Mara moved from Lisbon to Porto in March, and keeps her sailing boat in the old harbour near the fish market.",
    "tea",
    "Interest rates rose again.",
    "Her brother plays the cello in an orchestra that tours every summer, mostly in the north, by train.",
]
ODD = [
    "",
    " ",
    "\n\t",
    "ß",
    "日本語のテキスト",
    "🦊🦊🦊",
    "...",
    "the",
    "a\ud800b",
    "word " * 5000,
    "x" * 20000,
    "a\x00b",
    "\u202e",
]
RAW = pytest.mark.parametrize("raw", ["fake", "minilm", "provider"], indirect=True)


@pytest.fixture
async def raw(request: pytest.FixtureRequest) -> AsyncIterator[Embedder]:
    """An embedder as it is, before it is checked."""
    if request.param == "minilm":
        minilm: MiniLM = request.getfixturevalue("minilm")
        yield minilm
    elif request.param == "fake":
        yield FakeEmbedder()
    else:
        double: Double = request.getfixturevalue("double")
        embedder = ProviderEmbedder("compatible", "small", url=double.url)
        yield embedder
        await embedder.close()


@RAW
async def test_one_row_a_text_of_length_one(raw: Embedder) -> None:
    space = await raw.space()
    rows = await raw.embed(TEXTS)
    assert space.model == raw.model
    assert rows.shape == (len(TEXTS), space.dims)
    assert rows.dtype == np.float32
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)


@RAW
async def test_rows_stand_in_the_order_of_the_texts(raw: Embedder) -> None:
    rows = await raw.embed(TEXTS)
    turned = await raw.embed(TEXTS[::-1])
    assert np.abs(rows - turned[::-1]).max() < 1e-5
    assert np.argmax(rows @ turned[::-1].T, axis=1).tolist() == list(range(len(TEXTS)))


@RAW
async def test_company_does_not_change_a_vector(raw: Embedder) -> None:
    together = await raw.embed(TEXTS * 9)
    alone = np.concatenate([await raw.embed([text]) for text in TEXTS])
    assert np.abs(together - np.tile(alone, (9, 1))).max() < 1e-5


@RAW
async def test_no_text_has_no_row(raw: Embedder) -> None:
    assert (await raw.embed([])).shape == (0, (await raw.space()).dims)


@RAW
@pytest.mark.parametrize("asking", [False, True])
async def test_odd_texts_have_vectors_too(raw: Embedder, asking: bool) -> None:
    rows = await Checked(raw).embed(ODD, asking=asking)
    assert np.isfinite(rows).all()
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)


@RAW
async def test_eight_at_once_get_the_same_bits(raw: Embedder) -> None:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(raw.embed(TEXTS * 4)) for _ in range(8)]
    assert len({task.result().tobytes() for task in tasks}) == 1


@RAW
async def test_a_question_has_the_same_vector_as_a_short_text(raw: Embedder) -> None:
    text, question = await raw.embed(TEXTS[:1]), await raw.embed(TEXTS[:1], asking=True)
    assert np.abs(text - question).max() < 1e-5


@pytest.mark.parametrize("kind", ["fake", "minilm", "provider"])
async def test_closing_twice_is_closing_once(kind: str, double: Double) -> None:
    made: dict[str, Embedder] = {
        "fake": FakeEmbedder(),
        "minilm": MiniLM(),
        "provider": ProviderEmbedder("compatible", "small", url=double.url),
    }
    await made[kind].close()
    await made[kind].close()
