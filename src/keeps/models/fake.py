"""An embedder without a model: deterministic, at no cost."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from keeps.core.spaces import Space
from keeps.models.base import Vectors

_WORD: Final = re.compile(r"[^\W_]+")
_DULL: Final = frozenset(
    "a an and are as at be but by did do does for from had has have he her his i in is it its me my of on or our she"
    " that the their them they this to was we were what when where which who whose why how will with you your".split()
)
"""Words nearly every text has: two texts are not alike because both contain `the`."""
_BEFORE_A_BREATH: Final = 64
"""Texts between two moments in which other tasks of the loop run."""


class FakeEmbedder:
    """Texts that share words are near each other and the others near 0. Equal in every process and on every machine.

    Each word, folded and without a plural or `-ing`, stands for a fixed row of signs; a text is their sum.
    """

    def __init__(self, dims: int = 384, seed: int = 0) -> None:
        """`dims`: numbers in a vector, 1 or more. Another `seed` is another space, and another model id."""
        self._space = Space(f"fake-{dims}" if seed == 0 else f"fake-{dims}-seed{seed}", dims)
        self._seed = seed

    @property
    def model(self) -> str:
        """`fake-<dims>`."""
        return self._space.model

    async def space(self) -> Space:
        """Known from the start."""
        return self._space

    async def embed(self, texts: Sequence[str], *, asking: bool = False) -> Vectors:
        """One vector a text; a question is a text like any other."""
        rows = np.zeros((len(texts), self._space.dims), np.float32)
        for number, text in enumerate(texts):
            if number % _BEFORE_A_BREATH == _BEFORE_A_BREATH - 1:
                await asyncio.sleep(0)
            rows[number] = self._row(text)
        return rows

    async def close(self) -> None:
        """Nothing was opened."""

    def _row(self, text: str) -> NDArray[np.float64]:
        said = [_stem(word) for word in _WORD.findall(text.casefold())]
        words = [word for word in said if word not in _DULL] or said or [text]
        row = np.sum([self._signs(word) for word in words], axis=0, dtype=np.float64)
        if not row.any():  # the signs of two words can cancel each other when there are few numbers
            row = self._signs(text).astype(np.float64)
        return np.divide(row, np.linalg.norm(row))

    def _signs(self, word: str) -> NDArray[np.int8]:
        dims = self._space.dims
        seeded = hashlib.shake_128(f"{self._seed} {word}".encode("utf-8", "replace"))
        bits = np.unpackbits(np.frombuffer(seeded.digest((dims + 7) // 8), np.uint8))[:dims]
        return bits.astype(np.int8) * 2 - 1


def _stem(word: str) -> str:
    """The word without an English plural or `-ing`; crude, and the same for both texts, which is all it must be."""
    for ending in ("ings", "ing", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word.removesuffix(ending).removesuffix("e")
    return word.removesuffix("e") if len(word) > 3 else word
