"""Management: contexts, their principals and keys. Written in snake_case, unlike all else."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field

from keeps.core.access import Principal, grants_to_wire
from keeps.services import keys, roles
from keeps.services.contexts import ContextChange, NewContext
from keeps.services.keys import MAX_TTL_S, NewAccessToken, NewKey
from keeps.store.contexts import ContextRow
from keeps.wire.base import WireIn, WireOut, example

_SNAKE = ConfigDict(alias_generator=None)


class ManagedContextIn(WireIn):
    """A context to make; each of its members may be left out."""

    model_config = _SNAKE | example(description="What the harbour's agents remember")

    namespace: str | None = None
    database: str | None = None
    description: str | None = None
    admin_external_id: str | None = None
    admin_display_name: str | None = None
    config: dict[str, Any] | None = None
    enforcement_blocked: bool | None = None

    def to_core(self, context_id: str) -> NewContext:
        """The context this asks for, under `context_id`."""
        return NewContext(
            id=context_id,
            namespace=self.namespace,
            description=self.description,
            config=self.config or {},
            enforcement_blocked=bool(self.enforcement_blocked),
            admin_external_id=self.admin_external_id,
            admin_display_name=self.admin_display_name,
        )


class ManagedContextPatchIn(WireIn):
    """What changes in a context; `config` is laid over what is there."""

    model_config = _SNAKE | example(description="What the agents of both harbours remember")

    description: str | None = None
    config: dict[str, Any] | None = None
    enforcement_blocked: bool | None = None

    def to_core(self) -> ContextChange:
        """The change this asks for."""
        return ContextChange(
            description=self.description, config=self.config, enforcement_blocked=self.enforcement_blocked
        )


class ManagedKeyIn(WireIn):
    """A key for a principal, narrowed by `grants`."""

    model_config = _SNAKE | example(grants={"memory:read": ["user/mara/*"]})

    grants: Any = None
    strict: bool = False

    def to_core(self, name: str, ttl_s: int | None) -> NewKey:
        """The key this asks for, named `name`, living `ttl_s` seconds."""
        return NewKey(name=name, grants=self.grants, strict=self.strict, ttl_s=ttl_s)


class AccessTokenIn(WireIn):
    """A short-lived key for the principal with this external id, made when it is new."""

    model_config = _SNAKE | example(external_id="mara", display_name="Mara", ttl_seconds=900)

    external_id: str
    display_name: str | None = None
    ttl_seconds: Annotated[int, Field(ge=1, le=MAX_TTL_S)]
    grants: Any = None

    def to_core(self) -> NewAccessToken:
        """The token this asks for."""
        return NewAccessToken(
            external_id=self.external_id,
            ttl_s=self.ttl_seconds,
            display_name=self.display_name,
            grants=self.grants,
        )


class ManagementOut(WireOut):
    model_config = _SNAKE


class ManagedContextOut(ManagementOut):
    id: str
    namespace: str
    database: str
    description: str | None = None
    enforcement_blocked: bool = False
    config: dict[str, Any]
    created_at: datetime

    @classmethod
    def of(cls, row: ContextRow) -> Self:
        return cls(
            id=row.id,
            namespace=row.namespace,
            database=row.database,
            description=row.description,
            enforcement_blocked=row.enforcement_blocked,
            config=dict(row.config),
            created_at=row.created_at,
        )


class ManagedContextListOut(ManagementOut):
    contexts: list[ManagedContextOut]


class ManagedPrincipalOut(ManagementOut):
    id: str
    kind: str
    display_name: str
    grants: dict[str, list[str]]
    external_id: str | None = None
    home: str | None = None
    trusted_writer: bool = False
    roles: list[str] | None = None

    @classmethod
    def of(cls, principal: Principal) -> Self:
        return cls(
            id=principal.id,
            kind=principal.kind.value,
            display_name=principal.display_name,
            grants=grants_to_wire(principal.grants),
            external_id=principal.external_id,
            home=principal.home,
            trusted_writer=principal.trusted_writer,
            roles=sorted(roles.held_by(principal)) or None,
        )


class ManagedKeyDetail(ManagementOut):
    id: str
    name: str
    created_at: datetime
    grants: dict[str, list[str]] | None = None
    valid_until: datetime | None = None
    last_used_at: datetime | None = None
    principal_id: str
    strict: bool = False

    @classmethod
    def of(cls, key: keys.KeyDetail) -> Self:
        return cls(
            id=key.id,
            name=key.name,
            created_at=key.created_at,
            grants=None if key.grants is None else grants_to_wire(key.grants),
            valid_until=key.valid_until,
            last_used_at=key.last_used_at,
            principal_id=key.principal,
            strict=key.strict,
        )


class ManagedMintedKey(ManagementOut):
    id: str
    key: str
    valid_until: datetime | None = None

    @classmethod
    def of(cls, minted: keys.MintedKey) -> Self:
        return cls(id=minted.id, key=minted.key, valid_until=minted.valid_until)


class AccessTokenOut(ManagementOut):
    principal_id: str
    id: str
    key: str
    valid_until: datetime | None = None

    @classmethod
    def of(cls, minted: keys.MintedKey) -> Self:
        return cls(principal_id=minted.principal, id=minted.id, key=minted.key, valid_until=minted.valid_until)


class VerbOut(ManagementOut):
    verb: str
    description: str
