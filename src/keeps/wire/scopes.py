"""The tree of scopes: names registered, removed, and all that belongs to one erased."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar, Self

from keeps.core.scopes import parse_path, wire_path
from keeps.wire.base import WireIn, WireOut, example
from keeps.wire.late import Late
from keeps.wire.pages import PageMeta, PageQuery

if TYPE_CHECKING:
    from keeps.services import scopes
    from keeps.services.erase import ScopeForgotten
    from keeps.services.scopes import NewScope
    from keeps.store.scopes import ScopeNode as Node
else:
    scopes = Late("keeps.services.scopes")


class ScopeIn(WireIn):
    """A scope to register, with those above it."""

    model_config = example(path="team/harbour", displayName="The harbour team")

    path: str
    display_name: str | None = None
    description: str | None = None

    def to_core(self) -> NewScope:
        """The node this asks for. Raises: Invalid for a bad path."""
        return scopes.NewScope(path=parse_path(self.path), display_name=self.display_name, description=self.description)


class ScopeForgetIn(WireIn):
    """A scope to erase with everything in it and below."""

    model_config = example(path="team/harbour/2019")
    also: ClassVar[Mapping[str, tuple[str, ...]]] = {"path": ("scope",)}

    path: str


class ScopePathQuery(WireIn):
    path: str


class ScopesQuery(PageQuery):
    pass


class ScopeNode(WireOut):
    """One node. `tombstonedAt` when its name was removed; rows of it stay readable."""

    path: str
    created_at: datetime
    tombstoned_at: datetime | None = None
    display_name: str | None = None
    description: str | None = None

    @classmethod
    def of(cls, node: Node) -> Self:
        return cls(
            path=wire_path(node.path),
            created_at=node.created_at,
            tombstoned_at=node.tombstoned_at,
            display_name=node.display_name,
            description=node.description,
        )


class ScopeListOut(WireOut):
    scopes: list[ScopeNode]
    page: PageMeta


class ScopeForgetOut(WireOut):
    """`forgotten` counts rows of every table, `memories` what a person would call one thing remembered.

    Of the rows, `released` stay for their other owners.
    """

    forgotten: int
    memories: int | None = None
    released: int | None = None

    @classmethod
    def of(cls, gone: ScopeForgotten) -> Self:
        return cls(forgotten=gone.rows, memories=gone.memories, released=gone.released or None)
