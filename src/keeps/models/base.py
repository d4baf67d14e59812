"""What an embedder is: text in, vectors of one space out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from keeps.core.spaces import Space

Vectors = NDArray[np.float32]
"""One row a text, each of length 1."""


MOST_DIMS: Final = 4096
"""The widest space that is kept."""


class EmbedderLost(Exception):
    """The embedder gives no vectors now. The message is safe to show: it names the model and what to do, no text."""


class Embedder(Protocol):
    """Turns texts into vectors. Every method but `close` may raise `EmbedderLost`, and is safe to call at once
    from several tasks of one event loop; none blocks the loop."""

    @property
    def model(self) -> str:
        """The id kept with every vector: it names the weights, not only the family."""
        ...

    async def space(self) -> Space:
        """The space of its vectors; loads what it needs at the first call."""
        ...

    async def embed(self, texts: Sequence[str], *, asking: bool = False) -> Vectors:
        """One vector a text, in their order, finite and of length 1. `asking`: the texts are questions."""
        ...

    async def close(self) -> None:
        """Let go of what was loaded."""
        ...
