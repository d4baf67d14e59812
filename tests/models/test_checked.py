"""No embedder is believed: wrong answers, errors and silence all become the one error, which quotes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from keeps.core.spaces import Space
from keeps.models.base import EmbedderLost
from keeps.models.checked import Checked
from keeps.models.fake import FakeEmbedder
from tests.models.faulty import Faulty, Lie

SECRET = "the code of the safe is 4711"


class Rude:
    """Answers or raises what it was given."""

    model = "rude"

    def __init__(self, answer: Any, dims: int = 2, model: str = "rude") -> None:
        self.answer = answer
        self.described = Space(model, dims)

    async def space(self) -> Space:
        return self.described

    async def embed(self, texts: Sequence[str], *, asking: bool = False) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    async def close(self) -> None:
        """Nothing was opened."""


async def test_a_good_answer_passes() -> None:
    checked = Checked(FakeEmbedder())
    assert checked.model == "fake-384"
    assert await checked.space() == Space("fake-384", 384)
    rows = await checked.embed(["tea", "boat"])
    assert np.allclose(rows, await FakeEmbedder().embed(["tea", "boat"]), atol=1e-6)
    assert (await checked.embed([])).shape == (0, 384)


async def test_lengths_are_made_one() -> None:
    rows = await Checked(Faulty(FakeEmbedder(), lie="length")).embed(["tea", "boat"])
    assert np.allclose(rows, await FakeEmbedder().embed(["tea", "boat"]), atol=1e-6)


@pytest.mark.parametrize("lie", ["width", "few", "nan", "zero"])
async def test_a_lie_is_an_error(lie: Lie) -> None:
    with pytest.raises(EmbedderLost, match="fake-384"):
        await Checked(Faulty(FakeEmbedder(), lie=lie)).embed([SECRET, "boat"])


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        [[1.0]],
        [[1.0, 2.0], [1.0, 2.0]],
        [["a", "b"]],
        [[1.0, float("inf")]],
        [[1e300, 1.0]],
        [[1.0, None]],
        [1.0, 2.0],
        [[[1.0, 2.0]]],
        [[0.0, 1e-30]],
        SECRET,
        {"embedding": [1.0, 2.0]},
        ValueError(SECRET),
        KeyError(SECRET),
        MemoryError(),
        OSError(13, SECRET),
    ],
)
async def test_a_wrong_answer_or_error_is_the_one_error_and_quotes_nothing(answer: object) -> None:
    with pytest.raises(EmbedderLost) as lost:
        await Checked(Rude(answer)).embed([SECRET])
    assert "rude" in str(lost.value)
    assert "4711" not in str(lost.value)
    assert lost.value.__cause__ is None
    assert lost.value.__suppress_context__ or lost.value.__context__ is None


async def test_numbers_of_another_kind_are_taken() -> None:
    for answer in ([[3, 4]], ((3.0, 4.0),), np.array([[3, 4]], np.float64), [[3e30, 4e30]]):
        assert np.allclose(await Checked(Rude(answer)).embed(["x"]), [[0.6, 0.8]])


@pytest.mark.parametrize("rude", [Rude([[1.0]], dims=0), Rude([[1.0, 1.0]], model="other")])
async def test_a_space_must_be_its_own(rude: Rude) -> None:
    with pytest.raises(EmbedderLost, match="rude"):
        await Checked(rude).space()


@pytest.mark.parametrize("asking", [True, False])
async def test_silence_ends(asking: bool) -> None:
    limits = (0.01, 60.0) if asking else (60.0, 0.01)
    checked = Checked(Faulty(FakeEmbedder(), delay_s=60), question_timeout_s=limits[0], batch_timeout_s=limits[1])
    with pytest.raises(EmbedderLost, match=r"did not answer within 0\.01 s"):
        await checked.embed([SECRET], asking=asking)


async def test_a_cancelled_call_is_cancelled_and_not_lost() -> None:
    task = asyncio.create_task(Checked(Faulty(FakeEmbedder(), delay_s=60)).embed(["tea"]))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_failure_is_not_for_ever() -> None:
    faulty = Faulty(FakeEmbedder(), fail=True)
    checked = Checked(faulty)
    with pytest.raises(EmbedderLost, match="told to"):
        await checked.space()
    faulty.fail = False
    assert (await checked.embed(["tea"])).shape == (1, 384)
