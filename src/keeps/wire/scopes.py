"""The tree of scopes: names registered, removed, and all that belongs to one erased."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import ClassVar

from keeps.wire.base import WireIn, WireOut
from keeps.wire.pages import PageMeta, PageQuery


class ScopeIn(WireIn):
    path: str
    display_name: str | None = None
    description: str | None = None


class ScopeForgetIn(WireIn):
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


class ScopeListOut(WireOut):
    scopes: list[ScopeNode]
    page: PageMeta


class ScopeForgetOut(WireOut):
    """`forgotten` counts rows of every table, `memories` what a person would call one thing remembered."""

    forgotten: int
    memories: int | None = None
    receipt: str | None = None
