"""Keys: minted once, listed without their secret, rotated, revoked."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import Field

from keeps.core.access import grants_to_wire
from keeps.wire.base import WireIn, WireOut, example
from keeps.wire.late import Late
from keeps.wire.pages import PageMeta, PageQuery

if TYPE_CHECKING:
    from keeps.services import keys
    from keeps.services.keys import NewKey
else:
    keys = Late("keeps.services.keys")


class KeyIn(WireIn):
    """A key to mint for the caller's own principal, narrowed by `grants`."""

    model_config = example(name="reader-on-the-bridge", grants={"memory:read": ["user/mara/*"]})

    name: str | None = None
    grants: Any = None
    strict: bool = False

    def to_core(self, ttl_s: int | None) -> NewKey:
        """The key this asks for, living `ttl_s` seconds."""
        return keys.NewKey(name=self.name, grants=self.grants, strict=self.strict, ttl_s=ttl_s)


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

    @classmethod
    def of(cls, minted: keys.MintedKey) -> Self:
        return cls(id=minted.id, key=minted.key, valid_until=minted.valid_until)


class KeyDetail(WireOut):
    id: str
    name: str
    created_at: datetime
    grants: dict[str, list[str]] | None = None
    last_used_at: datetime | None = None
    valid_until: datetime | None = None

    @classmethod
    def of(cls, key: keys.KeyDetail) -> Self:
        return cls(
            id=key.id,
            name=key.name,
            created_at=key.created_at,
            grants=None if key.grants is None else grants_to_wire(key.grants),
            last_used_at=key.last_used_at,
            valid_until=key.valid_until,
        )


class KeyListOut(WireOut):
    keys: list[KeyDetail]
    page: PageMeta
