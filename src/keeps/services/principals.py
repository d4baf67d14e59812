"""Principals: who may hold grants, what each holds, and what it held at a time.

A caller sees and changes principals within what it manages (`grant:manage`) and gives only what it holds;
management is bound by nothing but the reserved principals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from keeps.core import access as core_access
from keeps.core.access import (
    Caller,
    Grants,
    KeyId,
    Principal,
    PrincipalId,
    PrincipalKind,
    Region,
    Role,
    Verb,
    parse_grants,
    region_of,
)
from keeps.core.audit import Entry
from keeps.core.errors import Conflict, Forbidden, Invalid, NotFound, StaleHead
from keeps.core.pages import Page, PageRequest, page_of
from keeps.core.scopes import EVERYTHING, Pattern, ScopePath
from keeps.core.screen import refuse_secrets
from keeps.core.text import clean_name
from keeps.services import audit, roles
from keeps.services.access import ADMIN, SYSTEM, Authority, ManagementCaller
from keeps.services.runtime import MAX_REPLANS, Context, Runtime, new_id
from keeps.store import keys as store_keys
from keeps.store import principals as store_principals
from keeps.store import scopes as store_scopes
from keeps.store.commit import Batch
from keeps.store.db import Duplicate, RecordID
from keeps.store.principals import GrantEvent, StoredPrincipal

_TICK: Final = timedelta(microseconds=1)
_ALL: Final[Grants] = dict.fromkeys(Verb, (EVERYTHING,))
_MANAGEMENT: Final = Principal(id=PrincipalId("management"), display_name="management", grants=_ALL)
_MANAGING_ALL: Final = Caller(principal=_MANAGEMENT, key_id=KeyId("management"))


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPrincipal:
    """A principal to make. `grants` as sent; a flat list of verbs holds over the home and what is below it."""

    display_name: str
    external_id: str | None = None
    kind: PrincipalKind = PrincipalKind.UNKNOWN
    grants: object = None
    home: ScopePath | None = None
    trusted_writer: bool = False
    roles: frozenset[Role] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class PrincipalChange:
    """What to change; None leaves as it is. `grants` replace all that is held."""

    display_name: str | None = None
    kind: PrincipalKind | None = None
    grants: object = None
    home: ScopePath | None = None
    trusted_writer: bool | None = None
    roles: frozenset[Role] | None = None

    @property
    def beside_grants(self) -> bool:
        """True when it changes only what an admin or owner of the context decides: roles, and who is vouched for."""
        return self.display_name is None and self.kind is None and self.grants is None and self.home is None


@dataclass(frozen=True, slots=True)
class Made:
    """A principal, and whether it is new or was there under its external id."""

    principal: Principal
    is_new: bool


async def create(rt: Runtime, context: Context, who: Authority, request: NewPrincipal) -> Made:
    """A new principal, or the one that has the external id, unchanged.

    Raises:
        Forbidden: the caller manages no grants, or gives more than it may.
        Conflict: the display name is taken, or the external id by a principal the caller cannot see.
        Invalid: a bad name or grant.
    """
    powers = _managing(who)
    name = _name(request.display_name)
    external = None if request.external_id is None else clean_name(request.external_id, what="an external id")
    if external is not None:
        refuse_secrets(external, "an external id")
    grants = parse_grants(request.grants, over=_below(request.home))
    _check_gift(powers, grants, request.home)
    await _check_roles(rt, context, who, request.roles, frozenset(), request.trusted_writer, request.kind)
    if external is not None and (known := await store_principals.find_external(context.db, external)) is not None:
        return _made_before(powers, known.principal)
    now = rt.clock()
    principal = Principal(
        id=PrincipalId(new_id()),
        display_name=name,
        kind=request.kind,
        grants=grants,
        home=request.home,
        external_id=external,
        trusted_writer=request.trusted_writer,
        roles=request.roles,
    )
    batch = Batch(at=now)
    batch.entries.append(_entry(who, "principal.create", principal))
    _add(batch, StoredPrincipal(principal=principal, created_at=now, updated_at=now), _name_of(who))
    _register(context, batch, request.home)
    try:
        await context.commit(batch)
    except Duplicate:
        if external is not None and (known := await store_principals.find_external(context.db, external)) is not None:
            return _made_before(powers, known.principal)
        raise _taken(name) from None
    await _move_in(context)
    return Made(principal, is_new=True)


async def get(rt: Runtime, context: Context, who: Authority, principal_id: PrincipalId) -> Principal:
    """A principal, with those of its grants that the caller manages. Raises: Forbidden, NotFound."""
    powers = _managing(who)
    return _shown((await _visible(context, powers, principal_id)).principal, powers)


async def list_all(rt: Runtime, context: Context, who: Authority) -> list[Principal]:
    """The principals the caller can see, in order of their ids. Raises: Forbidden."""
    powers = _managing(who)
    everyone = [stored.principal for stored in await store_principals.list_all(context.db)]
    return [_shown(principal, powers) for principal in everyone if _sees(powers, principal)]


async def list_page(rt: Runtime, context: Context, who: Authority, page: PageRequest) -> Page[Principal]:
    """A page of `list_all`."""
    return page_of(await list_all(rt, context, who), lambda principal: (principal.id, principal.id), page)


async def patch(
    rt: Runtime, context: Context, who: Authority, principal_id: PrincipalId, change: PrincipalChange
) -> Principal:
    """The principal as changed; it holds at once. Within a context only roles and who is vouched for can be changed.

    Raises: NotFound; Forbidden for `system`, for roles unless an owner gives them, for a writer unless an admin vouches
    for it; Conflict for a display name that is taken, and for the first owner's own role; Invalid.
    """
    if isinstance(who, Caller) and not change.beside_grants:
        raise Forbidden("name, kind, home and all grants of a principal are changed with a management key")
    stored = await store_principals.find(context.db, principal_id)
    if stored is None:
        raise _unknown(principal_id)
    held, kind = stored.principal.roles, change.kind or stored.principal.kind
    vouched = change.trusted_writer is not None and change.trusted_writer != stored.principal.trusted_writer
    await _check_roles(rt, context, who, held if change.roles is None else change.roles, held, vouched, kind)
    if principal_id == roles.FIRST_OWNER and change.roles is not None and Role.OWNER not in change.roles:
        raise Conflict("the first owner stays one: a context without an owner could not be set any more")

    def changed(principal: Principal) -> Principal:
        home = principal.home if change.home is None else change.home
        name = change.display_name
        writer = change.trusted_writer
        return replace(
            principal,
            display_name=principal.display_name if name is None else _name(name),
            kind=principal.kind if change.kind is None else change.kind,
            grants=principal.grants
            if change.grants is None
            else parse_grants(change.grants, over=_below(home) or _patterns(principal.grants)),
            home=home,
            trusted_writer=principal.trusted_writer if writer is None else writer,
            roles=principal.roles if change.roles is None else change.roles,
        )

    return await _change(rt, context, who, principal_id, changed, decided=change.beside_grants)


async def delete(rt: Runtime, context: Context, who: ManagementCaller, principal_id: PrincipalId) -> None:
    """Remove a principal and its keys. Raises: NotFound; Forbidden for the reserved ones."""
    if principal_id in (SYSTEM, ADMIN):
        raise Forbidden(f"{principal_id} is reserved and cannot be deleted")
    for attempt in range(1, MAX_REPLANS + 1):
        stored = await store_principals.find(context.db, principal_id)
        if stored is None:
            raise _unknown(principal_id)
        batch = Batch(at=rt.clock())
        batch.guards.append({"id": store_principals.record_id(principal_id), "rev": stored.rev})
        batch.deletes.append(store_principals.record_id(principal_id))
        batch.entries.append(_entry(who, "principal.delete", stored.principal))
        for key in await store_keys.list_of(context.db, principal_id):
            batch.deletes += [store_keys.record_id(key.id), store_keys.usage_id(key.id)]
        try:
            await context.commit(batch)
        except StaleHead:
            if attempt == MAX_REPLANS:
                raise
            continue
        context.known.forget()
        await _move_in(context)
        return


async def grant(
    rt: Runtime, context: Context, who: Authority, principal_id: PrincipalId, pattern: Pattern, verbs: Sequence[Verb]
) -> Principal:
    """The principal with `verbs` over `pattern` added; it holds at once.

    Raises: NotFound; Forbidden for `system`, and unless the caller manages the pattern and holds each verb over it.
    """
    powers = _managing(who)

    def changed(principal: Principal) -> Principal:
        return replace(principal, grants=core_access.plan_grant(powers, principal.grants, pattern, verbs))

    return await _change(rt, context, who, principal_id, changed)


async def revoke(
    rt: Runtime, context: Context, who: Authority, principal_id: PrincipalId, pattern: Pattern, verbs: Sequence[Verb]
) -> Principal:
    """The principal without exactly `pattern` for `verbs`; it holds at once.

    Raises: NotFound; Forbidden for `system`, and unless the caller manages the pattern.
    """
    powers = _managing(who)

    def changed(principal: Principal) -> Principal:
        return replace(principal, grants=core_access.plan_revoke(powers, principal.grants, pattern, verbs))

    return await _change(rt, context, who, principal_id, changed)


async def effective(
    rt: Runtime,
    context: Context,
    who: Authority,
    principal_id: PrincipalId,
    path: ScopePath,
    as_of: datetime | None = None,
) -> tuple[Verb, ...]:
    """The verbs a principal holds over a node, now or at an instant. Raises: Forbidden, NotFound."""
    powers = _managing(who)
    if not powers.holds(Verb.GRANT_MANAGE, path):
        raise Forbidden(f"grant:manage is not held over {path}")
    grants = (await _visible(context, powers, principal_id)).principal.grants
    if as_of is not None:
        grants = store_principals.replayed(await store_principals.events_until(context.db, principal_id, as_of))
    return tuple(verb for verb in Verb if region_of(grants, verb).covers(path))


async def assert_grants(
    rt: Runtime, context: Context, who: ManagementCaller, principal_id: PrincipalId, grants: Grants
) -> Principal:
    """The principal, holding at least `grants`. Raises: NotFound, Forbidden for `system`."""

    def changed(principal: Principal) -> Principal:
        held = dict(principal.grants)
        for verb, patterns in grants.items():
            lacking = (p for p in patterns if not region_of(held, verb).covers_pattern(p))
            held[verb] = (*held.get(verb, ()), *lacking)
        return replace(principal, grants=held)

    return await _change(rt, context, who, principal_id, changed)


async def _change(
    rt: Runtime,
    context: Context,
    who: Authority,
    principal_id: PrincipalId,
    changed: Callable[[Principal], Principal],
    *,
    decided: bool = False,
) -> Principal:
    """Change a principal, again when somebody else came first, and write down what its grants gained and lost.
    `decided`: whether the caller may was settled by its role."""
    powers = _MANAGING_ALL if decided else _managing(who)
    for attempt in range(1, MAX_REPLANS + 1):
        stored = await _visible(context, powers, principal_id)
        if principal_id == SYSTEM:
            raise Forbidden("system is reserved and cannot be changed")
        after = changed(stored.principal)
        if after == stored.principal:
            return _shown(after, powers)
        batch = Batch(at=rt.clock())
        # Later than the change before, so that history can be replayed in order.
        at = max(batch.at, stored.updated_at + _TICK)
        rev = stored.rev + 1
        updated = StoredPrincipal(principal=after, created_at=stored.created_at, updated_at=at, rev=rev)
        batch.guards.append({"id": store_principals.record_id(principal_id), "rev": stored.rev})
        batch.puts.append({"id": store_principals.record_id(principal_id), "row": store_principals.to_row(updated)})
        _add_events(batch, store_principals.changes_between(stored.principal.grants, after.grants, at), after, who)
        batch.entries.append(_entry(who, _act(stored.principal, after), after))
        _register(context, batch, after.home)
        try:
            await context.commit(batch)
        except Duplicate:
            raise _taken(after.display_name) from None
        except StaleHead:
            if attempt == MAX_REPLANS:
                raise
            continue
        context.known.forget()
        await _move_in(context)
        return _shown(after, powers)
    raise AssertionError("unreachable")


async def _check_roles(
    rt: Runtime,
    context: Context,
    who: Authority,
    wanted: frozenset[Role],
    held: frozenset[Role],
    vouched: bool,
    kind: PrincipalKind,
) -> None:
    """Raises: Forbidden unless an owner changes roles, and an admin vouches for a writer; Invalid for a role that one
    of that kind cannot have."""
    if wanted != held and not roles.is_owner(context, who):
        await audit.denied(rt, context, who, "principal.roles", "principals")
        raise Forbidden("roles are given and taken by an owner of the context")
    if vouched and not roles.is_admin(context, who):
        await audit.denied(rt, context, who, "principal.trust", "principals")
        raise Forbidden("only an owner or an admin of the context, or management, can vouch for a writer")
    allowed = _ROLES_OF_KIND.get(kind, frozenset[Role]())
    if not wanted - held <= allowed:
        raise Invalid(f"a principal of kind {kind} can have {' or '.join(sorted(allowed)) or 'no role'}")


_ROLES_OF_KIND: Final = {
    PrincipalKind.HUMAN: frozenset({Role.OWNER, Role.ADMIN, Role.CURATOR}),
    PrincipalKind.SERVICE: frozenset({Role.ADMIN}),
}
"""Nobody is made a subject: everybody is, of what lies under their home."""


def _act(before: Principal, after: Principal) -> str:
    """What the audit calls a change."""
    if before.roles != after.roles:
        return "principal.roles"
    if before.trusted_writer != after.trusted_writer:
        return "principal.trust"
    return "principal.grants" if before.grants != after.grants else "principal.change"


def _entry(who: Authority, action: str, principal: Principal) -> Entry:
    return Entry(actor=_name_of(who), action=action, target=f"principal:{principal.id}")


async def _move_in(context: Context) -> None:
    """Let whose home is where be known at once: it decides whose word counts."""
    context.consent.move_in(await store_principals.homes(context.db))


def _add(batch: Batch, stored: StoredPrincipal, by: str) -> None:
    principal = stored.principal
    batch.creates.append({"id": store_principals.record_id(principal.id), "row": store_principals.to_row(stored)})
    events = store_principals.changes_between({}, principal.grants, stored.created_at)
    store_principals.add_events(batch, _numbered(events), principal.id, by)


def _add_events(batch: Batch, events: Iterable[GrantEvent], of: Principal, who: Authority) -> None:
    store_principals.add_events(batch, _numbered(events), of.id, _name_of(who))


def _numbered(events: Iterable[GrantEvent]) -> list[tuple[RecordID, GrantEvent]]:
    return [(RecordID("grant_event", new_id()), event) for event in events]


def _register(context: Context, batch: Batch, home: ScopePath | None) -> None:
    if home is not None and home not in context.nodes:
        batch.scopes += [row for row in store_scopes.node_rows([home], batch.at) if row["id"].id not in context.nodes]


def _name_of(who: Authority) -> str:
    return who.principal_id if isinstance(who, Caller) else f"management:{who.key_id}"


def _name(display_name: str) -> str:
    """A display name fit to store. Raises: Invalid; SecretRefused when it holds a secret."""
    name = clean_name(display_name, what="a display name")
    refuse_secrets(name, "a display name")
    return name


def _managing(who: Authority) -> Caller:
    """The caller whose regions bound what is done. Raises: Forbidden when it manages nothing."""
    if not isinstance(who, Caller):
        return Caller(principal=_MANAGEMENT, key_id=who.key_id)
    if not who.region(Verb.GRANT_MANAGE):
        raise Forbidden("this needs grant:manage over some scope")
    return who


def _check_gift(powers: Caller, grants: Grants, home: ScopePath | None) -> None:
    """Raises: Forbidden unless the caller could grant all this one by one, and manages the home."""
    held: Grants = {}
    for verb, patterns in grants.items():
        for pattern in patterns:
            held = core_access.plan_grant(powers, held, pattern, [verb])
    if home is not None and not powers.holds(Verb.GRANT_MANAGE, home):
        raise Forbidden(f"grant:manage is not held over {home}")


def _below(home: ScopePath | None) -> tuple[Pattern, ...]:
    return () if home is None else (Pattern(home, subtree=True),)


def _patterns(grants: Grants) -> tuple[Pattern, ...]:
    return Region(tuple(pattern for patterns in grants.values() for pattern in patterns)).patterns


def _sees(powers: Caller, principal: Principal) -> bool:
    """True for oneself, for those without grants, and for those that hold something the caller manages."""
    if principal.id == powers.principal_id or not _patterns(principal.grants):
        return True
    managed = powers.region(Verb.GRANT_MANAGE)
    return any(managed.meets(pattern) for pattern in _patterns(principal.grants))


def _shown(principal: Principal, powers: Caller) -> Principal:
    """The principal without scopes that are no business of the caller."""
    managed = powers.region(Verb.GRANT_MANAGE)
    if principal.id == powers.principal_id or managed.covers_pattern(EVERYTHING):
        return principal
    grants = {verb: tuple(p for p in patterns if managed.meets(p)) for verb, patterns in principal.grants.items()}
    home = principal.home if principal.home is not None and managed.covers(principal.home) else None
    return replace(principal, grants=grants, home=home)


async def _visible(context: Context, powers: Caller, principal_id: PrincipalId) -> StoredPrincipal:
    stored = await store_principals.find(context.db, principal_id)
    if stored is None or not _sees(powers, stored.principal):
        raise _unknown(principal_id)
    return stored


def _made_before(powers: Caller, principal: Principal) -> Made:
    if not _sees(powers, principal):
        raise Conflict("this external id is taken")
    return Made(_shown(principal, powers), is_new=False)


def _unknown(principal_id: PrincipalId) -> NotFound:
    return NotFound(f"principal {principal_id} does not exist")


def _taken(name: str) -> Conflict:
    return Conflict(f"the display name {name} is taken: choose another")
