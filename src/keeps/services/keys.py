"""Keys: minted once, narrowed never widened, rotated, revoked; each change holds at once.

A caller looks after keys of its own principal, as far as the key it comes with reaches; whoever manages grants
over everything, and management, look after all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, cast

from keeps.core import access as core_access
from keeps.core.access import (
    Caller,
    Grants,
    KeyId,
    Principal,
    PrincipalId,
    Verb,
    check_within,
    parse_grants,
    parse_verb,
    region_of,
)
from keeps.core.audit import Entry
from keeps.core.errors import Conflict, Forbidden, Invalid, NotFound, StaleHead
from keeps.core.pages import Page, PageRequest, page_of
from keeps.core.scopes import EVERYTHING
from keeps.core.screen import refuse_secrets
from keeps.core.text import clean_name
from keeps.services import access, principals, roles
from keeps.services.access import SYSTEM, Authority, ManagementCaller, Minted
from keeps.services.principals import NewPrincipal
from keeps.services.runtime import MAX_REPLANS, Context, Runtime
from keeps.store import keys as store_keys
from keeps.store import principals as store_principals
from keeps.store.commit import Batch
from keeps.store.db import Duplicate
from keeps.store.keys import ApiKey

MAX_TTL_S: Final = 10 * 366 * 86400
"""Longest life that may be asked for, seconds: ten years."""
KEPT_AFTER_EXPIRY: Final = timedelta(days=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """A key to mint. Without a name it is called by its id; `grants` as sent, None narrows nothing more.

    A flat list of verbs holds wherever whoever mints holds them.
    """

    name: str | None = None
    grants: object = None
    strict: bool = False
    ttl_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MintedKey:
    """The secret of a key, shown once."""

    id: KeyId
    key: str = field(repr=False)
    principal: PrincipalId
    valid_until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyDetail:
    """What may be told about a key. `last_used_at` is up to a minute behind after a restart."""

    id: KeyId
    name: str
    principal: PrincipalId
    created_at: datetime
    grants: Grants | None = None
    strict: bool = False
    valid_until: datetime | None = None
    last_used_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAccessToken:
    """A short-lived key for the principal known elsewhere as `external_id`, made when it is new."""

    external_id: str
    ttl_s: int
    display_name: str | None = None
    grants: object = None


# What a caller does for itself


async def create(rt: Runtime, context: Context, caller: Caller, request: NewKey) -> MintedKey:
    """A new key for the caller's own principal. It allows no more, and lives no longer, than the caller's key.

    Raises:
        Forbidden: the caller acts for another, or keys are minted by management only here.
        Invalid: grants wider than what the caller holds, a bad name or time to live.
        Conflict: the name is taken.
    """
    _check_self_service(rt, context, caller)
    held = caller.effective()
    grants = _wanted(request.grants, held)
    if grants is None and caller.key_grants is not None:
        grants = held
    async with _alone(context):
        own = await _own_key(context, caller)
        until = _earlier(_until(rt, context, rt.clock(), request.ttl_s), own.valid_until)
        strict = request.strict or caller.strict
        return await _mint(rt, context, caller.principal_id, request.name, grants, strict, until, caller)


async def list_page(rt: Runtime, context: Context, caller: Caller, page: PageRequest) -> Page[KeyDetail]:
    """The key the caller comes with; all keys, by name, when it manages grants over everything."""
    if _manages_all(caller):
        return page_of(await _details(context, await store_keys.list_all(context.db)), _place, page)
    return page_of(await _details(context, [await _own_key(context, caller)]), _place, page)


async def delete(rt: Runtime, context: Context, caller: Caller, name: str) -> None:
    """Revoke a key. Raises: NotFound for a key that is none, or of others."""
    async with _alone(context):
        key = await _reachable(context, caller, name)
        await _remove(rt, context, caller, key)


async def rotate(rt: Runtime, context: Context, caller: Caller, name: str, ttl_s: int | None = None) -> MintedKey:
    """A new secret for a key; the one before is worth nothing any more.

    The time to live begins again when `ttl_s` is given, else the end stays as it was.

    Raises: NotFound for a key that is none, or of others; Forbidden when the caller acts for another, or the key
        allows more than the caller holds; Invalid for a key that is over, without a new time to live.
    """
    _check_self_service(rt, context, caller)
    async with _alone(context):
        key = await _reachable(context, caller, name)
        own = await _own_key(context, caller)
        if key.id != caller.key_id and not await _within(context, caller, key):
            raise Forbidden("this key allows more than yours: only its holder or management can rotate it")
        until = _earlier(_until(rt, context, rt.clock(), ttl_s, key.valid_until), own.valid_until)
        return await _renew(rt, context, key, until, caller)


# What management does


async def create_for(
    rt: Runtime, context: Context, who: ManagementCaller, principal_id: PrincipalId, request: NewKey
) -> MintedKey:
    """A new key for a principal. Raises: NotFound, Forbidden for `system`, Invalid, Conflict."""
    async with _alone(context):
        principal = await _principal(context, principal_id)
        grants = _wanted(request.grants, principal.grants)
        until = _until(rt, context, rt.clock(), request.ttl_s)
        return await _mint(rt, context, principal_id, request.name, grants, request.strict, until, who)


async def list_for(
    rt: Runtime, context: Context, who: ManagementCaller, principal_id: PrincipalId | None = None
) -> list[KeyDetail]:
    """The keys of a principal, or of all, by name. Raises: NotFound."""
    if principal_id is None:
        return await _details(context, await store_keys.list_all(context.db))
    await principals.get(rt, context, who, principal_id)
    return await _details(context, await store_keys.list_of(context.db, principal_id))


async def delete_for(
    rt: Runtime, context: Context, who: ManagementCaller, name: str, principal_id: PrincipalId | None = None
) -> None:
    """Revoke a key. Raises: NotFound, also when it is of another principal than the one named."""
    async with _alone(context):
        await _remove(rt, context, who, await _named(context, name, principal_id))


async def rotate_for(
    rt: Runtime,
    context: Context,
    who: ManagementCaller,
    name: str,
    principal_id: PrincipalId | None = None,
    ttl_s: int | None = None,
) -> MintedKey:
    """A new secret for a key, as `rotate` says. Raises: NotFound, also for a key of another principal; Invalid."""
    async with _alone(context):
        key = await _named(context, name, principal_id)
        return await _renew(rt, context, key, _until(rt, context, rt.clock(), ttl_s, key.valid_until), who)


async def access_token(rt: Runtime, context: Context, who: ManagementCaller, request: NewAccessToken) -> MintedKey:
    """A key that ends, for a principal that is made when it is new and given `grants` when it lacks them.

    Raises: Conflict when the display name is of another principal; Invalid.
    """
    _check_ttl(request.ttl_s)
    name = request.display_name or request.external_id
    wanted = parse_grants(request.grants)
    new = NewPrincipal(display_name=name, external_id=request.external_id, grants=request.grants)
    made = await principals.create(rt, context, who, new)
    if not made.is_new and wanted:
        await principals.assert_grants(rt, context, who, made.principal.id, wanted)
    narrowed = NewKey(grants=request.grants, ttl_s=request.ttl_s)
    return await create_for(rt, context, who, made.principal.id, narrowed)


async def prune(rt: Runtime, context: Context) -> int:
    """Remove keys that were over 30 days ago; how many there were."""
    now = rt.clock()
    async with _alone(context):
        over = [key for key in await store_keys.list_all(context.db) if _is_over(key, now - KEPT_AFTER_EXPIRY)]
        if over:
            await _remove(rt, context, None, *over)
    return len(over)


def _alone(context: Context) -> AbstractAsyncContextManager[None]:
    """Keys change one at a time: a secret that is handed out is the one that is stored."""
    return context.alone_on(["keys"])


async def _mint(
    rt: Runtime,
    context: Context,
    principal_id: PrincipalId,
    name: str | None,
    grants: Grants | None,
    strict: bool,
    until: datetime | None,
    by: Authority,
) -> MintedKey:
    minted = access.mint(rt, context.id, context.uid)
    called = str(minted.id) if name is None else clean_name(name, what="the name of a key")
    if name is not None:
        refuse_secrets(called, "the name of a key")
    for attempt in range(1, MAX_REPLANS + 1):
        stored = await store_principals.find(context.db, principal_id)
        if stored is None:
            raise NotFound(f"principal {principal_id} does not exist")
        now = rt.clock()
        key = ApiKey(
            id=minted.id,
            name=called,
            principal=principal_id,
            digest=minted.digest,
            created_at=now,
            grants=grants,
            strict=strict,
            valid_until=until,
        )
        batch = Batch(at=now)
        # The principal counts as changed, so that whoever removes it now looks at its keys again.
        batch.guards.append({"id": store_principals.record_id(principal_id), "rev": stored.rev})
        batch.patch(store_principals.record_id(principal_id), rev=stored.rev + 1)
        batch.creates.append({"id": store_keys.record_id(key.id), "row": store_keys.to_row(key)})
        batch.entries.append(_entry(by, "key.create", key))
        try:
            await context.commit(batch)
        except Duplicate:
            raise Conflict(f"a key named {called} exists already: choose another name, or rotate it") from None
        except StaleHead:
            if attempt == MAX_REPLANS:
                raise
            continue
        return _shown_once(minted, key.principal, until)
    raise AssertionError("unreachable")


async def _renew(rt: Runtime, context: Context, key: ApiKey, until: datetime | None, by: Authority) -> MintedKey:
    now = rt.clock()
    if until is not None and until <= now:
        raise Invalid("this key is over: give a new time to live in ttlSeconds")
    minted = access.mint_again(rt, context.uid, key.id)
    batch = Batch(at=now)
    batch.patch(store_keys.record_id(key.id), hash=minted.digest, valid_until=until)
    batch.entries.append(_entry(by, "key.rotate", key))
    await context.commit(batch)
    context.known.forget()
    return _shown_once(minted, key.principal, until)


async def _remove(rt: Runtime, context: Context, by: Authority | None, *keys: ApiKey) -> None:
    """Revoke keys; `by` None: their time was over."""
    batch = Batch(at=rt.clock())
    for key in keys:
        batch.deletes += [store_keys.record_id(key.id), store_keys.usage_id(key.id)]
        batch.entries.append(_entry(by, "key.delete", key))
    await context.commit(batch)
    context.known.forget()


def _entry(by: Authority | None, action: str, key: ApiKey) -> Entry:
    return Entry(actor="sweep" if by is None else roles.name_of(by), action=action, target=f"api_key:{key.id}")


def _shown_once(minted: Minted, principal: PrincipalId, until: datetime | None) -> MintedKey:
    return MintedKey(id=minted.id, key=minted.text, principal=principal, valid_until=until)


async def _details(context: Context, keys: Sequence[ApiKey]) -> list[KeyDetail]:
    used = await store_keys.last_uses(context.db, [key.id for key in keys])
    return [
        KeyDetail(
            id=key.id,
            name=key.name,
            principal=key.principal,
            created_at=key.created_at,
            grants=key.grants,
            strict=key.strict,
            valid_until=key.valid_until,
            last_used_at=context.known.last_used(key.id) or used.get(key.id),
        )
        for key in keys
    ]


def _place(key: KeyDetail) -> tuple[str, str]:
    return key.name, key.id


async def _principal(context: Context, principal_id: PrincipalId) -> Principal:
    if principal_id == SYSTEM:
        raise Forbidden("system is reserved and has no keys")
    stored = await store_principals.find(context.db, principal_id)
    if stored is None:
        raise NotFound(f"principal {principal_id} does not exist")
    return stored.principal


async def _own_key(context: Context, caller: Caller) -> ApiKey:
    key = await store_keys.find(context.db, caller.key_id)
    if key is None:
        raise core_access.refused()
    return key


async def _named(context: Context, name: str, principal_id: PrincipalId | None = None) -> ApiKey:
    key = await store_keys.find_named(context.db, name)
    if key is None or (principal_id is not None and key.principal != principal_id):
        raise _unknown(name)
    return key


async def _reachable(context: Context, caller: Caller, name: str) -> ApiKey:
    """The key: the caller's own, one of its principal that allows no more, or any for who manages everything."""
    key = await _named(context, name)
    if key.id == caller.key_id or _manages_all(caller):
        return key
    if key.principal == caller.principal_id and await _within(context, caller, key):
        return key
    raise _unknown(name)


async def _within(context: Context, caller: Caller, key: ApiKey) -> bool:
    """True when the key allows nothing that the caller does not hold."""
    stored = await store_principals.find(context.db, key.principal)
    if stored is None:
        return True
    held = caller.effective()
    for verb in Verb:
        allowed = core_access.region(verb, stored.principal.grants, key.grants)
        if not all(region_of(held, verb).covers_pattern(pattern) for pattern in allowed.patterns):
            return False
    return True


def _manages_all(caller: Caller) -> bool:
    return caller.region(Verb.GRANT_MANAGE).covers_pattern(EVERYTHING)


def _check_self_service(rt: Runtime, context: Context, caller: Caller) -> None:
    if caller.target is not None:
        raise Forbidden("keys cannot be made on behalf of another principal")
    if not (rt.config.allow_self_service_keys and context.config.get("allow_self_service_keys", True)):
        raise Forbidden("in this context only management makes keys")


def _wanted(grants: object, held: Grants) -> Grants | None:
    """The grants a key asks for. Raises: Invalid when they are wider than `held`."""
    if grants is None:
        return None
    if isinstance(grants, list | tuple):
        verbs = [parse_verb(verb) for verb in cast("Sequence[object]", grants)]
        return {verb: held[verb] for verb in verbs if held.get(verb)}
    wanted = parse_grants(grants)
    check_within(wanted, held)
    return wanted


def _check_ttl(ttl_s: int | None) -> None:
    if ttl_s is not None and not 0 < ttl_s <= MAX_TTL_S:
        raise Invalid(f"a time to live is 1 to {MAX_TTL_S} seconds")


def _until(
    rt: Runtime, context: Context, now: datetime, ttl_s: int | None, inherited: datetime | None = None
) -> datetime | None:
    """When a key ends: after `ttl_s`, else as before, and never later than configured. None means never."""
    _check_ttl(ttl_s)
    asked = inherited if ttl_s is None else now + timedelta(seconds=ttl_s)
    settings: Mapping[str, Any] = context.config
    for most_s in (rt.config.max_token_ttl_s, settings.get("max_token_ttl_seconds")):
        if most_s is not None:
            asked = _earlier(asked, now + timedelta(seconds=min(most_s, MAX_TTL_S)))
    return asked


def _earlier(one: datetime | None, other: datetime | None) -> datetime | None:
    if one is None or other is None:
        return one or other
    return min(one, other)


def _is_over(key: ApiKey, now: datetime) -> bool:
    return key.valid_until is not None and key.valid_until <= now


def _unknown(name: str) -> NotFound:
    return NotFound(f"key {name} does not exist")
