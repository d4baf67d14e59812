"""Faults put before any embedder."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Literal

import numpy as np

from keeps.core.spaces import Space
from keeps.models.base import Embedder, EmbedderLost, Vectors

Lie = Literal["width", "nan", "few", "length", "zero"]
"""How a wrong answer is wrong: too few numbers a row, a NaN, a row too few, rows not of length 1, rows of zeros."""


class Faulty:
    """An embedder that is late, fails or lies while it is told to; `calls` counts the calls of `embed`."""

    def __init__(self, embedder: Embedder, *, delay_s: float = 0.0, fail: bool = False, lie: Lie | None = None) -> None:
        self.embedder = embedder
        self.delay_s = delay_s
        self.fail = fail
        self.lie: Lie | None = lie
        self.calls = 0

    @property
    def model(self) -> str:
        """The id of the embedder behind."""
        return self.embedder.model

    async def space(self) -> Space:
        """The space of the embedder behind; fails when told to."""
        self._refuse()
        return await self.embedder.space()

    async def embed(self, texts: Sequence[str], *, asking: bool = False) -> Vectors:
        """What the embedder behind says, late or made wrong when told to."""
        self.calls += 1
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        self._refuse()
        rows = await self.embedder.embed(texts, asking=asking)
        return rows if self.lie is None else _wrong(rows, self.lie)

    async def close(self) -> None:
        """Close the embedder behind."""
        await self.embedder.close()

    def _refuse(self) -> None:
        if self.fail:
            raise EmbedderLost(f"{self.model} fails because it was told to")


def _wrong(rows: Vectors, lie: Lie) -> Vectors:
    """The rows with one thing wrong about them."""
    if lie == "width":
        return rows[:, :-1]
    if lie == "few":
        return rows[:-1]
    rows = rows.copy()
    if lie == "nan":
        rows[-1:, :1] = np.nan
    elif lie == "length":
        rows *= 3
    else:
        rows[-1:] = 0
    return rows
