"""The vectors of a context: what there is, and switching them on and off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Self

from pydantic import Field

from keeps.core.generations import IndexMode, IndexStatus, SpaceStatus
from keeps.core.setting_keys import MAX_EMBEDDER_CHARS
from keeps.wire.base import WireIn, WireOut, example
from keeps.wire.late import Late

if TYPE_CHECKING:
    from keeps.services import index_mode
    from keeps.services.index_mode import Switch
else:
    index_mode = Late("keeps.services.index_mode")


class IndexIn(WireIn):
    """Another mode, or another embedder; what is left out stays."""

    model_config = example(mode="durable")

    mode: IndexMode | None = None
    embedder: Annotated[str | None, Field(min_length=1, max_length=MAX_EMBEDDER_CHARS)] = None

    def to_core(self) -> Switch:
        """What this asks to change."""
        return index_mode.Switch(mode=self.mode.value if self.mode else None, embedder=self.embedder)


class IndexSpace(WireOut):
    """The vectors of one model. `wanted`: how many units should have one, `held`: how many have.

    `state`: `answering`, `filling` beside it, or `leaving`."""

    model: str
    dims: int
    wanted: int
    held: int
    state: str


class IndexOut(WireOut):
    """The vectors of a context. `pending`: how many units wait for one; `stored`: how many the record holds.

    `settled`: nothing is left to do: all is filled, or all is removed. `degraded`: why it does not go on by itself.
    """

    mode: str
    embedder: str
    spaces: tuple[IndexSpace, ...] = ()
    pending: int
    stored: int
    settled: bool
    degraded: str | None = None

    @classmethod
    def of(cls, status: IndexStatus) -> Self:
        """What is told of a context's vectors."""
        return cls(
            mode=status.mode.value,
            embedder=status.embedder,
            spaces=tuple(map(_space, status.spaces)),
            pending=status.pending,
            stored=status.stored,
            settled=status.settled,
            degraded=status.fault,
        )


def _space(status: SpaceStatus) -> IndexSpace:
    return IndexSpace(
        model=status.space.model,
        dims=status.space.dims,
        wanted=status.wanted,
        held=status.held,
        state=status.state,
    )
