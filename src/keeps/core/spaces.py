"""Spaces: what a model turns a text into, and how far the vectors of a record are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Space:
    """The vectors of one model: only those of the same space can be compared. `dims`: numbers in each."""

    model: str
    dims: int


class Point(NamedTuple):
    """Where a question lies in a space. `vector`: little-endian 32-bit floats of length 1."""

    space: Space
    vector: bytes


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many units of an index should have a vector of a space, and how many do."""

    space: Space
    wanted: int
    held: int

    @property
    def whole(self) -> bool:
        """True when nothing is missing."""
        return self.held >= self.wanted
