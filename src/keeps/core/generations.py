"""Which vectors a record keeps: one space answers, another may be filled beside it until it can take its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from keeps.core.spaces import Space


class IndexMode(StrEnum):
    """Whether texts have vectors: beside the words (`hybrid`), or nowhere (`durable`)."""

    DURABLE = "durable"
    HYBRID = "hybrid"


@dataclass(frozen=True, slots=True)
class Generation:
    """The vectors of one space in a record. `embedder`: the name it was made with; `answering`: it was whole once,
    or had nobody beside it."""

    space: Space
    embedder: str
    answering: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Turnout:
    """What becomes of the spaces of a record. `answers`: the one that questions are asked in, `fills`: the one that
    is brought up beside it, `drops`: those that nobody needs any more."""

    answers: Generation | None = None
    fills: Generation | None = None
    drops: tuple[Generation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceStatus:
    """One space of a context: how many units should have a vector of it, and how many have.

    `state`: `answering`, `filling` beside it, or `leaving`.
    """

    space: Space
    wanted: int
    held: int
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexStatus:
    """The vectors of a context. `pending`: units that wait for one; `stored`: vectors in the record.

    `settled`: nothing is left to do. `fault`: why it does not go on; it is tried again.
    """

    mode: IndexMode
    embedder: str
    spaces: tuple[SpaceStatus, ...]
    pending: int
    stored: int
    settled: bool
    fault: str | None = None


def turnout(held: Sequence[Generation], wanted: str | None) -> Turnout:
    """What becomes of the spaces in `held`, oldest first, when `wanted` is the model that should have one.

    Without a wanted model the newest that answers stays. A space of the wanted model that is still being filled
    leaves the answers to the newest one before it that answers; where there is none, it answers as far as it is.
    """
    own = next((each for each in held if each.space.model == wanted), None)
    answering = [each for each in held if each.answering]
    if own is None:
        answers = answering[-1] if answering else (held[-1] if held else None)
        return Turnout(answers=answers, drops=tuple(each for each in held if each is not answers))
    others = [each for each in answering if each is not own]
    answers = own if own.answering or not others else others[-1]
    fills = own if own is not answers else None
    return Turnout(answers=answers, fills=fills, drops=tuple(each for each in held if each not in (answers, fills)))
