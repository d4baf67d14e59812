"""A bootstrapped context, and the means to make principals with keys in it and to come in with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from keeps.core.access import Caller, KeyId, PrincipalId, Verb
from keeps.services import access, contexts, keys, principals
from keeps.services.access import ManagementCaller
from keeps.services.contexts import Bootstrapped
from keeps.services.keys import NewKey
from keeps.services.principals import NewPrincipal
from keeps.services.runtime import Context, Runtime

MANAGEMENT = ManagementCaller(KeyId("m"))


@dataclass
class Place:
    """The context `acme`."""

    rt: Runtime
    made: Bootstrapped
    context: Context

    @classmethod
    async def of(cls, rt: Runtime) -> Place:
        """Bootstrap it."""
        return cls(rt, await contexts.bootstrap(rt, "acme"), await rt.context("acme"))

    async def principal(self, name: str, grants: object, **more: Any) -> PrincipalId:
        """A new principal, made by management."""
        request = NewPrincipal(display_name=name, grants=grants, **more)
        return (await principals.create(self.rt, self.context, MANAGEMENT, request)).principal.id

    async def key(self, of: PrincipalId, **request: Any) -> str:
        """A new key, made by management."""
        return (await keys.create_for(self.rt, self.context, MANAGEMENT, of, NewKey(**request))).key

    async def enter(self, key: str | None, on_behalf_of: str | None = None) -> Caller:
        """The caller behind a key."""
        return (await access.authenticate(self.rt, "acme", key, on_behalf_of)).caller

    async def someone(self, name: str, grants: object, **key: Any) -> Caller:
        """A new principal that has come in with a new key."""
        return await self.enter(await self.key(await self.principal(name, grants), **key))

    async def owner(self) -> Caller:
        """The owner."""
        return await self.enter(self.made.owner_key)


def everywhere(*patterns: str) -> dict[str, list[str]]:
    """Every verb over `patterns`, as sent."""
    return {str(verb): list(patterns) for verb in Verb}
