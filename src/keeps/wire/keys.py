"""Keys: minted once, listed without their secret, rotated, revoked."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, ClassVar

from pydantic import Field

from keeps.wire.base import WireIn, WireOut
from keeps.wire.pages import PageMeta, PageQuery


class KeyIn(WireIn):
    """A key to mint for the caller's own principal, narrowed by `grants`."""

    name: str | None = None
    grants: Any = None
    strict: bool = False


class KeyTtlQuery(WireIn):
    also: ClassVar[Mapping[str, tuple[str, ...]]] = {"ttl_seconds": ("ttl",)}

    ttl_seconds: Annotated[int, Field(ge=1, le=10 * 366 * 86400)] | None = None


class KeysQuery(PageQuery):
    pass


class MintedKey(WireOut):
    """The secret `key` is shown here and never again."""

    id: str
    key: str
    valid_until: datetime | None = None


class KeyDetail(WireOut):
    id: str
    name: str
    created_at: datetime
    grants: dict[str, list[str]] | None = None
    last_used_at: datetime | None = None
    valid_until: datetime | None = None


class KeyListOut(WireOut):
    keys: list[KeyDetail]
    page: PageMeta
