"""An embedder that is not believed: its answers are checked, its faults become one error, its time is limited."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any, Final, TypeVar, cast

import numpy as np

from keeps.core.spaces import Space
from keeps.models.base import MOST_DIMS, Embedder, EmbedderLost, Vectors

R = TypeVar("R")

_NO_LENGTH: Final = 1e-6
"""A row shorter than this points nowhere."""


class Checked:
    """Gives what the embedder behind gives: rows that are as many, as wide and as finite as they must be, made
    of length 1. Everything else is `EmbedderLost`, whose message holds nothing of a text or of another's error."""

    def __init__(self, embedder: Embedder, *, question_timeout_s: float = 10.0, batch_timeout_s: float = 120.0) -> None:
        """`question_timeout_s`: for questions. `batch_timeout_s`: for everything else, loading included."""
        self._embedder = embedder
        self._question_timeout_s = question_timeout_s
        self._batch_timeout_s = batch_timeout_s
        self._space: Space | None = None

    @property
    def model(self) -> str:
        """The id of the embedder behind."""
        return self._embedder.model

    async def space(self) -> Space:
        """Asked for until it is known once. Raises `EmbedderLost`."""
        if self._space is None:
            space = await self._within(self._batch_timeout_s, self._embedder.space())
            if space.model != self.model or space.dims < 1:
                raise EmbedderLost(f"{self.model} describes a space that cannot be its own")
            if space.dims > MOST_DIMS:
                raise EmbedderLost(f"{self.model} gives vectors of {space.dims} numbers, at most {MOST_DIMS} are kept")
            self._space = space
        return self._space

    async def embed(self, texts: Sequence[str], *, asking: bool = False) -> Vectors:
        """One row a text, in their order. Raises `EmbedderLost`."""
        limit_s = self._question_timeout_s if asking else self._batch_timeout_s
        return await self._within(limit_s, self._embed(texts, asking))

    async def close(self) -> None:
        """Close the embedder behind."""
        await self._embedder.close()

    async def _embed(self, texts: Sequence[str], asking: bool) -> Vectors:
        dims = (await self.space()).dims
        if not texts:
            return np.empty((0, dims), np.float32)
        given = cast(Any, await self._embedder.embed(texts, asking=asking))
        with np.errstate(over="ignore", invalid="ignore"):
            rows = np.asarray(given, np.float32)
        if rows.shape != (len(texts), dims):
            raise EmbedderLost(
                f"{self.model} gave an answer of the shape {rows.shape} where {(len(texts), dims)} was asked for"
            )
        if not np.isfinite(rows).all():
            raise EmbedderLost(f"{self.model} gave a vector that is not made of numbers")
        # In double precision the square of no float32 is infinite or nothing.
        lengths = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
        if lengths.min() < _NO_LENGTH:
            raise EmbedderLost(f"{self.model} gave a vector of no length")
        return (rows / lengths).astype(np.float32)

    async def _within(self, limit_s: float, work: Awaitable[R]) -> R:
        """What `work` gives. Raises `EmbedderLost` for each of its errors, and after `limit_s`."""
        try:
            async with asyncio.timeout(limit_s):
                return await work
        except EmbedderLost:
            raise
        except TimeoutError:
            raise EmbedderLost(f"{self.model} did not answer within {limit_s:g} s: try again later") from None
        except Exception as error:  # noqa: BLE001 - becomes the one error of embedders
            # What an error of a library says, and what it was raised from, may quote a text or a key.
            raise EmbedderLost(f"{self.model} failed ({type(error).__name__}): try again later") from None
