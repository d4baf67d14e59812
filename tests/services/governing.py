"""A context that asks before it keeps, and the callers of it: owner, agent, and others with roles."""

from __future__ import annotations

from dataclasses import dataclass, replace

from keeps.core.access import Caller, KeyId, Principal, PrincipalId, PrincipalKind, Role
from keeps.core.scopes import ScopePath
from keeps.services import access, contexts, principals
from keeps.services.principals import NewPrincipal
from keeps.services.runtime import Context, Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """One context with an owner, an agent, and management."""

    rt: Runtime
    context: Context
    owner: Caller
    agent: Caller

    async def someone(
        self,
        name: str,
        *roles: Role,
        kind: PrincipalKind = PrincipalKind.HUMAN,
        home: str | None = None,
        grants: object = None,
    ) -> Caller:
        """A further principal with roles, as it asks with a key of its own."""
        made = await principals.create(
            self.rt,
            self.context,
            access.ManagementCaller(KeyId("m")),
            NewPrincipal(
                display_name=name,
                kind=kind,
                roles=frozenset(roles),
                home=ScopePath(home) if home else None,
                grants=grants,
            ),
        )
        return Caller(principal=made.principal, key_id=KeyId(f"k-{name}"))

    def on_behalf_of(self, caller: Caller, target: Principal) -> Caller:
        """The same caller, acting for another."""
        return replace(caller, target=target)


async def house(rt: Runtime, name: str = "house", policy: str = "deliberate") -> House:
    """A fresh context."""
    made = await contexts.bootstrap(rt, name, policy=policy)
    owner = await access.authenticate(rt, name, made.owner_key, None)
    agent = await access.authenticate(rt, name, made.agent_key, None)
    return House(rt=rt, context=owner.context, owner=owner.caller, agent=agent.caller)


def bare(kind: PrincipalKind, *roles: Role, name: str = "x") -> Caller:
    """A caller that is in no record."""
    return Caller(
        principal=Principal(id=PrincipalId(name), display_name=name, kind=kind, roles=frozenset(roles)),
        key_id=KeyId("k"),
    )
