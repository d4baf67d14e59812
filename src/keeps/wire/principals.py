"""Who holds grants, and who the caller is."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field

from keeps.core.access import Caller, Principal, Verb, grants_to_wire, parse_kind, parse_roles, parse_verb
from keeps.core.scopes import Pattern, parse_path, parse_pattern
from keeps.wire.base import Instant, WireIn, WireOut, example
from keeps.wire.late import Late
from keeps.wire.pages import PageMeta, PageQuery

if TYPE_CHECKING:
    from keeps.services import principals, roles
    from keeps.services.principals import NewPrincipal, PrincipalChange
else:
    principals = Late("keeps.services.principals")
    roles = Late("keeps.services.roles")


class PrincipalIn(WireIn):
    """A principal to create; with an `external_id` that exists, the one that has it."""

    model_config = example(
        displayName="Keel", externalId="bot-7", kind="agent", grants={"memory:read": ["user/mara/*"]}
    )

    display_name: str
    external_id: str | None = None
    kind: str | None = None
    grants: Any = None
    home: str | None = None
    trusted_writer: bool = False
    roles: tuple[str, ...] = ()

    def to_core(self) -> NewPrincipal:
        """The principal this asks for. Raises: Invalid."""
        return principals.NewPrincipal(
            display_name=self.display_name,
            external_id=self.external_id,
            kind=parse_kind(self.kind),
            grants=self.grants,
            home=None if self.home is None else parse_path(self.home),
            trusted_writer=self.trusted_writer,
            roles=parse_roles(self.roles),
        )


class PrincipalChangeIn(WireIn):
    """What changes; `grants` replace all that is held."""

    model_config = example(displayName="Keel", grants={"memory:read": ["user/mara/*"]})

    display_name: str | None = None
    kind: str | None = None
    grants: Any = None
    home: str | None = None
    trusted_writer: bool | None = None
    roles: tuple[str, ...] | None = None

    def to_core(self) -> PrincipalChange:
        """The change this asks for. Raises: Invalid."""
        return principals.PrincipalChange(
            display_name=self.display_name,
            kind=None if self.kind is None else parse_kind(self.kind),
            grants=self.grants,
            home=None if self.home is None else parse_path(self.home),
            trusted_writer=self.trusted_writer,
            roles=None if self.roles is None else parse_roles(self.roles),
        )


class GrantIn(WireIn):
    """`verbs` over the pattern `path`, to give or to take away."""

    model_config = example(path="user/mara/*", verbs=["memory:read", "memory:write"])

    path: str
    verbs: tuple[str, ...] = Field(min_length=1)

    def to_core(self) -> tuple[Pattern, tuple[Verb, ...]]:
        """The pattern and the verbs. Raises: Invalid, also for short names of verbs."""
        return parse_pattern(self.path), tuple(map(parse_verb, self.verbs))


class PrincipalsQuery(PageQuery):
    pass


class EffectiveQuery(WireIn):
    path: str
    as_of: Instant | None = None


class PrincipalOut(WireOut):
    id: str
    kind: str
    display_name: str
    grants: dict[str, list[str]]
    home: str | None = None
    trusted_writer: bool | None = None
    roles: list[str] | None = None

    @classmethod
    def of(cls, principal: Principal) -> Self:
        return cls(
            id=principal.id,
            kind=principal.kind.value,
            display_name=principal.display_name,
            grants=grants_to_wire(principal.grants),
            home=principal.home,
            trusted_writer=principal.trusted_writer or None,
            roles=sorted(roles.held_by(principal)) or None,
        )


class PrincipalListOut(WireOut):
    principals: list[PrincipalOut]
    page: PageMeta


class EffectiveOut(WireOut):
    path: str
    verbs: list[str]
    as_of: datetime | None = None


class MeOut(WireOut):
    """Who is calling and what that key may do where, all narrowing done."""

    principal_id: str
    kind: str
    display_name: str
    enforce: bool = True
    grants: dict[str, list[str]]
    effective_grants: dict[str, list[str]]
    token_grants: dict[str, list[str]] | None = None
    delegated_principal_id: str | None = None
    home: str | None = None
    roles: list[str] | None = None

    @classmethod
    def of(cls, caller: Caller) -> Self:
        return cls(
            principal_id=caller.principal_id,
            kind=caller.kind.value,
            display_name=caller.display_name,
            grants=grants_to_wire(caller.principal.grants),
            effective_grants=grants_to_wire(caller.effective()),
            token_grants=None if caller.key_grants is None else grants_to_wire(caller.key_grants),
            delegated_principal_id=caller.delegate,
            home=caller.home,
            roles=sorted(roles.of_caller(caller)) or None,
        )
