"""The settings of a context: seen, changed in versions, taken back, and the switch that stops memory at once.

One document holds them all, also what management sets as the configuration of a context. A change, its version and
what the audit says of it are one commit, and hold in this process from then on; other processes on the same engine
read them again within seconds.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final, cast
from urllib.parse import unquote

from keeps.core import contexts as core_contexts
from keeps.core import setting_keys, webhook
from keeps.core.access import Role
from keeps.core.audit import Entry
from keeps.core.errors import Forbidden, Invalid, KeepsError, NotFound, StaleRevision, Unprocessable
from keeps.core.kinds import KINDS
from keeps.core.pages import Page, PageRequest, number_key
from keeps.core.screen import refuse_secrets
from keeps.core.settings import Kill, Settings, document_of, is_looser
from keeps.services import audit, consent, roles
from keeps.services.access import Authority
from keeps.services.runtime import MAX_REPLANS, Context, Runtime
from keeps.store import settings as store_settings
from keeps.store.commit import Batch
from keeps.store.db import Duplicate
from keeps.store.embedded import EmbeddedEngine
from keeps.store.settings import Version

FRESH_FOR: Final = timedelta(seconds=2)
"""How old settings may be in a process that shares its engine with others, before they are read again."""

BLIND_AFTER: Final = timedelta(seconds=30)
"""A process that could not read them for so long stops memory until it can."""

MAX_REASON_CHARS: Final = 500
_FIRST: Final = "setup"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Current:
    """What holds. `document`: everything, also what was never set; `own`: what was set here."""

    version: int
    document: Mapping[str, Any]
    own: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What to change. `expected`: the version it is meant for. `dry_run`: only say what would change."""

    document: Mapping[str, Any]
    expected: int | None
    dry_run: bool = False
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """What a change did, or would do. `before`, `after`: by path, only what differs. `older`: by kind, how many
    memories in use are older than the new retention. `unasked`: how many in use nobody was asked about, when the
    policy asks more than before; they stay as they are."""

    version: int
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    applied: bool
    older: Mapping[str, int] = field(default_factory=dict[str, int])
    unasked: int = 0


async def get(rt: Runtime, context: Context, caller: Authority) -> Current:
    """The settings in force. Raises: Forbidden unless the caller is an owner or an admin."""
    await _check(rt, context, caller, Role.ADMIN, "setting.read", "settings")
    return _current(context)


async def patch(rt: Runtime, context: Context, caller: Authority, change: Change) -> Changed:
    """Change some settings; a null takes one back to what holds without it.

    Raises:
        Forbidden: the caller has not the role for one of them.
        Unprocessable: there is no such setting, or a value is out of its range; nothing was changed.
        StaleRevision: it does not say for which version it is meant, or another one holds now.
        SecretRefused: a text of it, or the reason, holds a secret.
    """
    await _check(rt, context, caller, Role.ADMIN, "setting.change", "settings")
    given = setting_keys.canonical(change.document)
    _refuse_secrets(given, change.reason)
    _check_version(context, change.expected)
    document = _timed(rt, context, core_contexts.merged(context.config, given))
    await _check_document(rt, context, caller, document)
    if change.dry_run:
        return await _seen(rt, context, document)
    return await _apply(rt, context, caller, document, "setting.change", change.reason)


async def manage(rt: Runtime, context: Context, by: Authority, given: Mapping[str, Any]) -> None:
    """Lay a configuration over what holds, as management does: no version is asked for, and what is not known here is
    kept for others. Raises: Invalid; SecretRefused when a text of it holds a secret."""
    _refuse_secrets(given)
    for attempt in range(1, MAX_REPLANS + 1):
        document = core_contexts.merged(context.config, given)
        core_contexts.check_config(document)
        document = _timed(rt, context, document)
        _check_outside(rt, document)
        if not setting_keys.changed_paths(context.config, document):
            return
        try:
            await _apply(rt, context, by, document, "setting.change", None)
        except StaleRevision:
            if attempt == MAX_REPLANS:
                raise
            await refresh(rt, context)
            continue
        return


async def history(rt: Runtime, context: Context, caller: Authority, page: PageRequest) -> Page[Version]:
    """A page of versions, the newest first. Raises: Forbidden unless the caller is an owner or an admin."""
    await _check(rt, context, caller, Role.ADMIN, "setting.read", "settings")
    below = context.consent.settings.version + 1 if page.after is None else int(page.after[0])
    found = await store_settings.before(context.db, below, limit=page.limit + 1)
    shown = tuple(found[: page.limit])
    more = len(found) > len(shown)
    return Page(rows=shown, next=(number_key(shown[-1].number), str(shown[-1].number)) if more and shown else None)


async def revert(
    rt: Runtime, context: Context, caller: Authority, number: int, *, expected: int | None, reason: str | None = None
) -> Changed:
    """Let what held in a version hold again, as a new version. Raises: NotFound; as `patch`."""
    await _check(rt, context, caller, Role.ADMIN, "setting.revert", f"setting:{number}")
    _check_version(context, expected)
    found = await store_settings.find(context.db, number)
    if found is None:
        raise NotFound(f"there is no version {number} of the settings")
    document = _timed(rt, context, found.document)
    if "kill" in context.config or "kill" in document:  # the switch is turned by hand alone
        document = core_contexts.merged(document, {"kill": context.config.get("kill")})
    await _check_document(rt, context, caller, document)
    return await _apply(rt, context, caller, document, "setting.revert", reason)


async def kill(rt: Runtime, context: Context, caller: Authority, to: Kill, reason: str | None = None) -> Changed:
    """Stop the use of memory, saving, or both, at once; `NONE` lets it go on. Raises: Forbidden for who is no admin."""
    await _check(rt, context, caller, Role.ADMIN, "setting.kill", "settings")
    for attempt in range(1, MAX_REPLANS + 1):
        document = core_contexts.merged(context.config, {"kill": None if to is Kill.NONE else to.value})
        try:
            return await _apply(rt, context, caller, document, "setting.kill", reason)
        except StaleRevision:
            if attempt == MAX_REPLANS:
                raise
            await refresh(rt, context)
    raise AssertionError("unreachable")


async def fresh(rt: Runtime, context: Context) -> None:
    """See that settings and controls are those in force, where other processes may have changed them.

    A process that cannot read them for half a minute stops memory: what people decided meanwhile may be just that.
    """
    if isinstance(rt.engine, EmbeddedEngine):
        return  # nobody else writes to it
    now, held = rt.clock(), context.consent
    if held.read_at is not None and now - held.read_at < FRESH_FOR:
        return
    try:
        await refresh(rt, context)
    except KeepsError as error:
        if held.read_at is not None and now - held.read_at >= BLIND_AFTER and held.settings.kill is not Kill.BOTH:
            _log.warning("settings of %s cannot be read (%s): memory stops", context.id, type(error).__name__)
            held.settings = replace(held.settings, kill=Kill.BOTH)


async def refresh(rt: Runtime, context: Context) -> None:
    """Read settings and controls again. Raises: Unavailable."""
    config, held = await consent.read(context.db, context.config, rt.config.policy, rt.clock())
    await _hold(context, config, held)


async def _hold(context: Context, config: Mapping[str, Any], held: consent.Consent) -> None:
    changed = dict(config) != dict(context.config)
    context.config, context.consent = config, held
    if changed:
        await context.vectors.configure(config)


def _current(context: Context) -> Current:
    settings = context.consent.settings
    document = core_contexts.effective(context.config) | document_of(settings)
    return Current(version=settings.version, document=document, own=context.config)


def _check_version(context: Context, expected: int | None) -> None:
    version = context.consent.settings.version
    if expected is None:
        raise StaleRevision(f"say with If-Match which version of the settings this changes; version {version} holds")
    if expected != version:
        raise StaleRevision(f"the settings changed meanwhile: version {version} holds, this is meant for {expected}")


async def _check(rt: Runtime, context: Context, caller: Authority, role: Role, action: str, target: str) -> None:
    if roles.may(context, caller, role):
        return
    await audit.denied(rt, context, caller, action, target)
    raise Forbidden(f"settings are for the {'owner' if role is Role.OWNER else 'owners and admins'} of the context")


async def _check_document(rt: Runtime, context: Context, caller: Authority, document: Mapping[str, Any]) -> None:
    """Raises: Unprocessable for a bad value; Forbidden when one takes a role that the caller lacks."""
    if (fault := setting_keys.fault_of(document)) is not None:
        raise Unprocessable(f"bad setting: {fault}")
    try:
        core_contexts.check_config(document)
        _check_outside(rt, document)
    except Invalid as error:
        raise Unprocessable(error.message) from None
    await _check_kinds(context, document)
    before, after = context.consent.settings, _settings(rt, document, 0)
    for path in setting_keys.changed_paths(context.config, document):
        await _check(rt, context, caller, setting_keys.role_for(path, before, after), "setting.change", path)


def _refuse_secrets(given: Mapping[str, Any], reason: str | None = None) -> None:
    """Raises: SecretRefused when a text of a change holds a secret, also one written for an address."""
    for text in (*_texts(given), reason or ""):
        refuse_secrets(f"{text}\n{unquote(text)}", "a setting")


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, inner in cast("Mapping[str, object]", value).items():
            yield str(name)
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in cast("Sequence[object]", value):
            yield from _texts(inner)
    elif isinstance(value, str):
        yield value


def _check_outside(rt: Runtime, document: Mapping[str, Any]) -> None:
    """Raises: Invalid for an embedder that cannot be opened here, or an address that is no webhook's."""
    if document.get("embedder") is not None:
        rt.embedders.get(core_contexts.embedder_of(document, rt.embedders.default))
    if (url := document.get("webhook_url")) is not None:
        webhook.check_url(url, private_hosts=rt.config.webhook_hosts)


async def _check_kinds(context: Context, document: Mapping[str, Any]) -> None:
    """Raises: Unprocessable when a kind goes that rows have, or is one that every context has."""
    kinds = _kinds(document)
    if own := sorted(kinds & KINDS.keys()):
        raise Unprocessable(f"bad setting: kinds names {own[0]}, which every context has")
    for gone in sorted(_kinds(context.config) - kinds):
        if await store_settings.is_used(context.db, gone):
            raise Unprocessable(
                f"bad setting: memories of the kind {gone} are there, so it cannot be removed from kinds"
            )


def _kinds(document: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(document.get("kinds") or ())


def _timed(rt: Runtime, context: Context, document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with the time at which texts of questions are kept no more, where they are kept for some hours."""
    wanted, held = document.get("trace_text"), context.config.get("trace_text")
    hours = setting_keys.trace_hours(wanted) if isinstance(wanted, str) else None
    ends: int | None = None
    if hours is not None:
        known = context.config.get(core_contexts.TRACE_ENDS) if wanted == held else None
        ends = known or int((rt.clock() + timedelta(hours=hours)).timestamp())
    return core_contexts.merged(document, {core_contexts.TRACE_ENDS: ends})


def _settings(rt: Runtime, document: Mapping[str, Any], version: int) -> Settings:
    return consent.settings_of(document, rt.config.policy, version)


async def _seen(rt: Runtime, context: Context, document: Mapping[str, Any]) -> Changed:
    """What a document would change."""
    version = context.consent.settings.version
    told = _told(rt, context.config, document)
    before, after = context.consent.settings, _settings(rt, document, version)
    return Changed(
        version=version,
        before=told[0],
        after=told[1],
        applied=False,
        older=await _older(context, before, after, rt.clock()),
        unasked=await store_settings.count_unasked(context.db) if is_looser(before.policy, after.policy) else 0,
    )


async def _older(context: Context, before: Settings, after: Settings, now: datetime) -> dict[str, int]:
    found: dict[str, int] = {}
    for kind, days in after.retention_days.items():
        known = KINDS.get(kind)
        held = before.retention_days.get(kind, known.life_days if known is not None else None)
        if held is None or days < held:
            found[kind] = await store_settings.count_older(context.db, kind, now - timedelta(days=days))
    return found


def _told(rt: Runtime, before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What differs between two documents, as the audit may show it: where one says nothing, what holds without it."""
    one, other = (
        setting_keys.flat(core_contexts.effective(each) | document_of(_settings(rt, each, 0))) | setting_keys.flat(each)
        for each in (before, after)
    )
    paths: Sequence[str] = setting_keys.changed_paths(before, after)
    return (
        {path: setting_keys.masked(path, one[path]) for path in paths if path in one},
        {path: setting_keys.masked(path, other[path]) for path in paths if path in other},
    )


async def _apply(
    rt: Runtime, context: Context, by: Authority, document: Mapping[str, Any], action: str, reason: str | None
) -> Changed:
    """Let a sound document hold from now on. Raises: StaleRevision when another came first."""
    version = context.consent.settings.version + 1
    before, after = _told(rt, context.config, document)
    if not before and not after:
        return Changed(version=version - 1, before=before, after=after, applied=False)
    who, batch = roles.name_of(by), Batch(at=rt.clock())
    if version == 1:
        first = Version(number=0, document=context.config, by=_FIRST, at=batch.at)
        store_settings.add_first(batch, first)
    made = Version(number=version, document=document, by=who, at=batch.at, reason=_reason(reason))
    store_settings.add(batch, made)
    batch.entries.append(Entry(actor=who, action=action, target=f"setting:{version}", before=before, after=after))
    try:
        await context.commit(batch)
    except Duplicate:
        raise StaleRevision("the settings changed meanwhile: read them again") from None
    context.consent.settings = _settings(rt, document, version)
    context.config = document
    await context.vectors.configure(document)
    async with rt.registering:
        await rt.mirror(context.id, document)
    return Changed(version=version, before=before, after=after, applied=True)


def _reason(text: str | None) -> str | None:
    return text[:MAX_REASON_CHARS] if text else None
