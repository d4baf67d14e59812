"""Who may decide what besides its grants: owner, admin, curator, and the person whose memory it is.

A role belongs to a principal that asks with a key of its own and on nobody's behalf; a key that was narrowed to some
grants carries none. An agent has no role, whatever is written beside its name.
"""

from __future__ import annotations

from typing import Final

from keeps.core.access import Caller, Principal, PrincipalId, PrincipalKind, Role
from keeps.services.access import ADMIN, SYSTEM, Authority, ManagementCaller
from keeps.services.runtime import Context

FIRST_OWNER: Final = PrincipalId("owner")
"""The person a context begins with; an owner also in contexts that were made before there were roles."""

RESERVED: Final = frozenset({SYSTEM, ADMIN})
"""Principals that stand for the service itself."""

_MAY_ADMINISTER: Final = frozenset({PrincipalKind.HUMAN, PrincipalKind.SERVICE})


def held_by(principal: Principal) -> frozenset[Role]:
    """The roles a principal has, whoever asks for it."""
    if principal.id == ADMIN:
        return frozenset({Role.ADMIN})
    roles = principal.roles | ({Role.OWNER} if principal.id == FIRST_OWNER else frozenset[Role]())
    if principal.kind is PrincipalKind.HUMAN:
        return roles
    return roles & {Role.ADMIN} if principal.kind in _MAY_ADMINISTER else frozenset[Role]()


def of_caller(caller: Caller) -> frozenset[Role]:
    """The roles a caller may use now: none on behalf of another, none with a narrowed key."""
    if caller.target is not None or caller.key_grants is not None:
        return frozenset()
    return held_by(caller.principal)


def is_owner(context: Context, caller: Authority) -> bool:
    """True for an owner of the context, and for management."""
    return isinstance(caller, ManagementCaller) or Role.OWNER in of_caller(caller)


def is_admin(context: Context, caller: Authority) -> bool:
    """True for who may set what concerns everybody: an admin, an owner, management."""
    return isinstance(caller, ManagementCaller) or bool({Role.OWNER, Role.ADMIN} & of_caller(caller))


def is_curator(context: Context, caller: Caller) -> bool:
    """True for a person who may decide about what is under several homes or none. The grants are asked elsewhere."""
    return caller.kind is PrincipalKind.HUMAN and bool({Role.OWNER, Role.CURATOR} & of_caller(caller))


def may(context: Context, caller: Authority, role: Role) -> bool:
    """True when the caller has a role or one above it; for owner and admin."""
    return is_owner(context, caller) if role is Role.OWNER else is_admin(context, caller)


def name_of(caller: Authority) -> str:
    """Who did something, for the audit."""
    return caller.principal_id if isinstance(caller, Caller) else f"management:{caller.key_id}"
