"""From a secret to a caller: keys are looked up, compared, narrowed; nothing else makes a region.

A key is `sp-<id>-<secret>`. The first letters of its id say for whom it was minted (a context, or management),
so that a key of another context is turned away, and the context of a key found, without a search. Whatever is
wrong with a key, the answer is the same, and so is the work: one look at the record, one keyed hash, one
comparison in constant time.
"""

from __future__ import annotations

import hmac
import logging
import re
import secrets
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Final, TypeAlias

from keeps.core import access
from keeps.core.access import Caller, DelegationRule, KeyId, Principal, PrincipalId
from keeps.core.errors import Forbidden, KeepsError, NotFound
from keeps.core.marks import MARK_CHARS, mark_of
from keeps.services.runtime import Context, Runtime
from keeps.store import contexts as store_contexts
from keeps.store import keys as store_keys
from keeps.store.keys import ApiKey, ManagementKey

SYSTEM: Final = PrincipalId("system")
"""The principal that stands for the server itself: unchangeable, and nobody acts for it."""
ADMIN: Final = PrincipalId("admin")
"""The principal that may do everything and cannot be deleted."""

_LOWER: Final = "abcdefghijklmnopqrstuvwxyz0123456789"
_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ" + _LOWER
_ID_CHARS: Final = 20
_SECRET_CHARS: Final = 43
"""43 letters out of 62 hold 256 bits."""

_KEY: Final = re.compile(rf"sp-([a-z0-9]{{{_ID_CHARS}}})-([A-Za-z0-9]{{{_SECRET_CHARS}}})")
_NOBODY: Final = KeyId("nobody")
_NO_DIGEST: Final = bytes(sha256().digest_size)
_MANAGEMENT: Final = "management"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Session:
    """Who asks, in which context."""

    caller: Caller
    context: Context


@dataclass(frozen=True, slots=True)
class ManagementCaller:
    """Someone with a management key: may change every context, principal and key."""

    key_id: KeyId


Authority: TypeAlias = Caller | ManagementCaller
"""Who changes principals, keys or scopes: a caller within what it holds, or management within nothing."""


@dataclass(frozen=True, slots=True)
class Minted:
    """A new key: what is stored, and what is shown once."""

    id: KeyId
    text: str
    digest: bytes


async def authenticate(rt: Runtime, context_id: str, secret: str | None, on_behalf_of: str | None) -> Session:
    """The caller behind `secret` in a context, acting for the principal `on_behalf_of` when that is given.

    Raises: Unauthenticated, always in the same words: no such context, key or target, a key that is wrong,
        revoked, expired, of another context or of nobody, a target it may not act for.
    """
    now = rt.clock()
    key_id, text = _taken_apart(secret)
    ours = key_id.startswith(mark_of(rt.pepper, context_id))
    context = await _context_for(rt, context_id, opens=ours)
    digest = _digest(rt.pepper, context.uid if context else "", key_id, text)
    key = await _known_key(context, key_id if ours else _NOBODY, digest, now) if context else None
    if context is None or key is None or not _lives(key.valid_until, now):
        raise access.refused()
    principal = await context.known.principal(context.db, key.principal, now)
    if principal is None:
        raise access.refused()
    caller = Caller(principal=principal, key_id=key.id, key_grants=key.grants, strict=key.strict)
    if on_behalf_of is not None:
        caller = await _delegated(rt, context, caller, PrincipalId(on_behalf_of), now)
    context.known.used(key.id, now)
    return Session(caller, context)


async def authenticate_management(rt: Runtime, secret: str | None) -> ManagementCaller:
    """The caller behind a management key.

    Raises:
        Forbidden: the key is good, but of a context.
        Unauthenticated: anything else.
    """
    now = rt.clock()
    key_id, text = _taken_apart(secret)
    ours = key_id.startswith(mark_of(rt.pepper, None))
    digest = _digest(rt.pepper, _MANAGEMENT, key_id, text)
    key = await store_keys.find_management(rt.control, key_id if ours else _NOBODY)
    if _matches(key, digest) and key is not None and _lives(key.valid_until, now):
        return ManagementCaller(key.id)
    if not ours and (context_id := await context_of(rt, secret)) is not None:
        await authenticate(rt, context_id, secret, None)
        raise Forbidden("this is a key of a context: the management routes need a management key")
    raise access.refused()


async def context_of(rt: Runtime, secret: str | None) -> str | None:
    """The id of the context a key was minted for; None for none. That the key is good is not said."""
    key_id, _ = _taken_apart(secret)
    for row in await store_contexts.list_all(rt.control):
        if key_id.startswith(mark_of(rt.pepper, row.id)):
            return row.id
    return None


def minted_for(pepper: bytes, context_id: str | None, key: ApiKey | ManagementKey, now: datetime) -> bool:
    """True when a key was minted with this pepper for the context, or for management, and is still in force."""
    return key.id.startswith(mark_of(pepper, context_id)) and _lives(key.valid_until, now)


def is_secret_of(pepper: bytes, uid: str, key: ApiKey, secret: str) -> bool:
    """True when `secret` is that of the key; `uid` is the name of the record it lies in."""
    key_id, text = _taken_apart(secret)
    return key_id == key.id and _matches(key, _digest(pepper, uid, key_id, text))


def mint(rt: Runtime, context_id: str, uid: str) -> Minted:
    """A new key of a context; `uid` is the name of its record."""
    return _mint(rt, mark_of(rt.pepper, context_id), uid)


def mint_again(rt: Runtime, uid: str, key_id: KeyId) -> Minted:
    """A new secret for the key `key_id`; the one before is worth nothing once this is stored."""
    text = "".join(secrets.choice(_LETTERS) for _ in range(_SECRET_CHARS))
    return Minted(key_id, f"sp-{key_id}-{text}", _digest(rt.pepper, uid, key_id, text))


def mint_management(rt: Runtime) -> Minted:
    """A new management key."""
    return _mint(rt, mark_of(rt.pepper, None), _MANAGEMENT)


async def flush_usage(rt: Runtime) -> int:
    """Write down when keys were used, at most one write a minute a key; how many were written."""
    written = 0
    for context in list(rt.contexts.values()):
        try:
            written += await context.known.note_uses(context.db)
        except KeepsError as error:
            _log.warning("uses of keys of %s not written: %s", context.id, error.message)
    return written


async def _delegated(rt: Runtime, context: Context, caller: Caller, target_id: PrincipalId, now: datetime) -> Caller:
    """The caller acting for a principal: both must allow what is done. What that one may act for is not followed."""
    target: Principal | None = await context.known.principal(context.db, target_id, now)
    if target is None or target.id == SYSTEM:
        raise access.refused()
    access.check_delegation(caller, target, DelegationRule(rt.config.delegation))
    return Caller(
        principal=caller.principal,
        key_id=caller.key_id,
        key_grants=caller.key_grants,
        strict=caller.strict,
        target=target,
    )


async def _context_for(rt: Runtime, context_id: str, *, opens: bool) -> Context | None:
    """The context, when it is open or a key names it: nobody makes us open contexts by guessing."""
    found = rt.contexts.get(context_id)
    if found is not None:
        return found
    if not opens:
        await store_contexts.find(rt.control, context_id)
        return None
    try:
        return await rt.context(context_id)
    except NotFound:
        return None


async def _known_key(context: Context, key_id: KeyId, digest: bytes, now: datetime) -> ApiKey | None:
    """The key whose digest this is. What is known from before can only let in: a refusal looks at the record."""
    known = context.known.key(key_id, now)
    if _matches(known, digest):
        return known
    fresh = await context.known.read_key(context.db, key_id, now)
    return fresh if _matches(fresh, digest) else None


def _matches(key: ApiKey | ManagementKey | None, digest: bytes) -> bool:
    same = hmac.compare_digest(_NO_DIGEST if key is None else key.digest, digest)
    return key is not None and same


def _lives(until: datetime | None, now: datetime) -> bool:
    return until is None or now < until


def _taken_apart(secret: str | None) -> tuple[KeyId, str]:
    """Id and secret of a key; for what is none, an id that nobody has."""
    found = _KEY.fullmatch(secret or "")
    return (KeyId(found[1]), found[2]) if found else (_NOBODY, "")


def _mint(rt: Runtime, mark: str, uid: str) -> Minted:
    rest = "".join(secrets.choice(_LOWER) for _ in range(_ID_CHARS - MARK_CHARS))
    return mint_again(rt, uid, KeyId(mark + rest))


def _digest(pepper: bytes, uid: str, key_id: KeyId, text: str) -> bytes:
    """What is stored of a key: a hash with a secret that lies outside the database."""
    return hmac.digest(pepper, f"key\0{uid}\0{key_id}\0{text}".encode(), "sha256")
