"""Contexts: made whole or not at all, configured, removed with everything in them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from keeps.core import contexts as core_contexts
from keeps.core.access import Grants, KeyId, Principal, PrincipalId, PrincipalKind, Role, Verb
from keeps.core.contexts import MAX_DESCRIPTION_CHARS, RESERVED_NAMESPACES
from keeps.core.errors import Conflict, Invalid, NotFound, Unprocessable
from keeps.core.scopes import EVERYTHING, Pattern, ScopePath
from keeps.core.text import fold
from keeps.services import access, settings
from keeps.services.access import ADMIN, SYSTEM, Authority, ManagementCaller, Minted
from keeps.services.runtime import Runtime, new_id
from keeps.store import commit as store_commit
from keeps.store import contexts as store_contexts
from keeps.store import keys as store_keys
from keeps.store import meta as store_meta
from keeps.store import principals as store_principals
from keeps.store import scopes as store_scopes
from keeps.store import secrets as store_secrets
from keeps.store.commit import Batch
from keeps.store.contexts import ContextRow
from keeps.store.db import Duplicate, RecordID
from keeps.store.keys import ApiKey, ManagementKey
from keeps.store.migrate import migrate
from keeps.store.principals import StoredPrincipal
from keeps.store.tombstones import CONTEXT, Seal

NAMESPACE: Final = "keeps"
OWNER: Final = PrincipalId("owner")
AGENT: Final = PrincipalId("agent")
OWNER_HOME: Final = ScopePath("user/owner")

_ALL: Final[Grants] = dict.fromkeys(Verb, (EVERYTHING,))
_AGENT_VERBS: Final = (Verb.MEMORY_READ, Verb.MEMORY_WRITE, Verb.MEMORY_FORGET)
_AGENT_GRANTS: Final[Grants] = {verb: (Pattern(OWNER_HOME, subtree=True),) for verb in _AGENT_VERBS}
_SETUP: Final = "setup"
_ITSELF: Final = ManagementCaller(KeyId("itself"))


@dataclass(frozen=True, slots=True, kw_only=True)
class NewContext:
    """A context to make. `namespace` is a label; where the rows lie follows from the id."""

    id: str
    namespace: str | None = None
    description: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    enforcement_blocked: bool = False
    admin_external_id: str | None = None
    admin_display_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextChange:
    """What to change; None leaves as it is. `config` is laid over what is there, a null in it removes."""

    description: str | None = None
    config: Mapping[str, Any] | None = None
    enforcement_blocked: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bootstrapped:
    """A fresh context and the secrets to use it, shown once."""

    context: str
    management_key: str = field(repr=False)
    owner_key: str = field(repr=False)
    agent_key: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reissued:
    """New secrets of a context; None for a principal that it does not have."""

    owner_key: str | None = field(default=None, repr=False)
    agent_key: str | None = field(default=None, repr=False)


async def create(rt: Runtime, request: NewContext) -> ContextRow:
    """A new context with the principals `system` and `admin`, and no keys.

    Raises:
        Unprocessable: the id or namespace is malformed or reserved.
        Conflict: the id is taken, or differs only in case from one that is.
        Invalid: a bad configuration.
    """
    row = _checked(rt, request)
    async with rt.registering:
        await _check_free(rt, row.id)
        await _seed(rt, row, _reserved(request), [])
        await _register(rt, row, Batch(at=rt.clock()))
    return await get(rt, row.id)


async def bootstrap(rt: Runtime, context_id: str, *, policy: str | None = None) -> Bootstrapped:
    """A new context with an owner and an agent, their keys, and a management key.

    The owner's and the agent's key also stay in the data folder, for commands run beside it.

    Raises:
        Unprocessable: the id is malformed or reserved.
        Conflict: the id is taken, or differs only in case from one that is.
        Invalid: a policy there is not.
    """
    request = NewContext(id=context_id, config={"policy": policy} if policy else {})
    row = _checked(rt, request)
    async with rt.registering:
        await _check_free(rt, context_id)
        minted = await _seed(rt, row, [*_reserved(request), *_people()], [OWNER, AGENT])
        management = access.mint_management(rt)
        batch = Batch(at=rt.clock())
        _add_management(batch, management)
        keys = {str(of): key.text for of, key in minted.items()}
        await asyncio.to_thread(store_secrets.save_keys, rt.folder, context_id, keys)
        try:
            await _register(rt, row, batch)
        except BaseException:
            store_secrets.save_keys(rt.folder, context_id, {})
            raise
    return Bootstrapped(
        context=context_id,
        management_key=management.text,
        owner_key=minted[OWNER].text,
        agent_key=minted[AGENT].text,
    )


async def reissue(rt: Runtime, context_id: str) -> Reissued:
    """Revoke every key of a context and mint new ones for its owner and its agent.

    For a record whose pepper is lost: none of its keys can be verified any more. Raises: NotFound.
    """
    context = await rt.context(context_id)
    now = rt.clock()
    batch = Batch(at=now)
    for key in await store_keys.list_all(context.db):
        batch.deletes += [store_keys.record_id(key.id), store_keys.usage_id(key.id)]
    held = {stored.principal.id for stored in await store_principals.list_all(context.db)}
    minted = {of: access.mint(rt, context_id, context.uid) for of in (OWNER, AGENT) if of in held}
    for of, key in minted.items():
        _add_key(batch, of, key)
    await context.commit(batch)
    context.known.forget()
    keys = {str(of): key.text for of, key in minted.items()}
    await asyncio.to_thread(store_secrets.save_keys, rt.folder, context_id, keys)
    return Reissued(owner_key=keys.get(OWNER), agent_key=keys.get(AGENT))


async def readmit(rt: Runtime, context_id: str) -> Reissued:
    """Let the owner and the agent in again, with what every context begins with made anew where it is missing.

    For a record that lost them or their keys. Keys that nobody could use any more go too; keys of others stay.
    Raises: NotFound.
    """
    context = await rt.context(context_id)
    batch = Batch(at=rt.clock())
    held = [stored.principal for stored in await store_principals.list_all(context.db)]
    ids, names = {principal.id for principal in held}, {fold(principal.display_name) for principal in held}
    missing = [p for p in (*_reserved(NewContext(id=context_id)), *_people()) if p.id not in ids]
    # A name may be taken by somebody else, and no two may have one.
    named = [replace(p, display_name=f"{p.id} {new_id()}") if fold(p.display_name) in names else p for p in missing]
    _add_principals(batch, named)
    for key in await store_keys.list_all(context.db):
        useless = key.principal not in ids or not access.minted_for(rt.pepper, context_id, key, batch.at)
        if useless or {key.principal, key.name} & {OWNER, AGENT}:
            batch.deletes += [store_keys.record_id(key.id), store_keys.usage_id(key.id)]
    minted = {of: access.mint(rt, context_id, context.uid) for of in (OWNER, AGENT)}
    for of, key in minted.items():
        _add_key(batch, of, key)
    keys = {str(of): key.text for of, key in minted.items()}
    await asyncio.to_thread(store_secrets.save_keys, rt.folder, context_id, keys)
    await context.commit(batch)
    context.known.forget()
    return Reissued(owner_key=minted[OWNER].text, agent_key=minted[AGENT].text)


async def reissue_management(rt: Runtime) -> str:
    """Revoke every management key; the secret of the one that takes their place."""
    batch = Batch(at=rt.clock())
    batch.deletes += await store_keys.management_ids(rt.control)
    minted = access.mint_management(rt)
    _add_management(batch, minted)
    await rt.commit_control(batch)
    return minted.text


async def get(rt: Runtime, context_id: str) -> ContextRow:
    """A context with the configuration that holds in it. Raises: NotFound."""
    return _effective(await _row(rt, context_id))


async def list_all(rt: Runtime) -> list[ContextRow]:
    """All contexts in order of their ids, with the configuration that holds in each."""
    return [_effective(row) for row in await store_contexts.list_all(rt.control)]


async def patch(rt: Runtime, context_id: str, change: ContextChange, *, by: Authority | None = None) -> ContextRow:
    """The context as changed; it holds at once. `by`: who changed it, for the audit; the service itself without.

    The configuration and the settings of a context are one document. Raises: NotFound, Invalid.
    """
    _check_description(change.description)
    await _row(rt, context_id)
    if change.config:
        await settings.manage(rt, await rt.context(context_id), by or _ITSELF, change.config)
    async with rt.registering:
        row = await _row(rt, context_id)
        blocked = change.enforcement_blocked
        changed = replace(
            row,
            description=row.description if change.description is None else change.description,
            enforcement_blocked=row.enforcement_blocked if blocked is None else blocked,
        )
        if changed != row:
            batch = Batch(at=rt.clock())
            batch.puts.append({"id": RecordID("context", row.id), "row": store_contexts.to_row(changed)})
            await rt.commit_control(batch)
        opened = rt.contexts.get(context_id)
        if opened is not None:
            opened.enforcement_blocked = changed.enforcement_blocked
    return _effective(changed)


async def delete(rt: Runtime, context_id: str) -> None:
    """Remove a context with its record, its index and its keys. The ledger of erased rows stays, and says so first:
    neither a backup made before nor a crash on the way brings the context back.

    Raises:
        NotFound: there is none of that id.
        StoreRefused: it is registered with a place outside the data folder.
        Unavailable: the ledger cannot be written; nothing was removed.
    """
    async with rt.registering:
        row = await _row(rt, context_id)
        rt.home_of(row)  # before anything says that it is gone
        db = await rt.engine.database(row.database)
        name = (await Seal.of(db)).record()
        change = await store_commit.last_change(db)
        await asyncio.to_thread(rt.ledger.append, row.id, CONTEXT, [name], change)
        rt.deleted.add(name)
        batch = Batch(at=rt.clock())
        batch.deletes.append(RecordID("context", row.id))
        try:
            await rt.commit_control(batch)
        finally:  # from here on nobody gets in any more, whatever is left of the rest
            await rt.forget_context(row.id)
        await rt.clear(row)


async def _row(rt: Runtime, context_id: str) -> ContextRow:
    row = await store_contexts.find(rt.control, context_id)
    if row is None:
        raise NotFound(f"context {context_id} does not exist")
    return row


def _effective(row: ContextRow) -> ContextRow:
    return replace(row, config=core_contexts.effective(row.config))


def _checked(rt: Runtime, request: NewContext) -> ContextRow:
    core_contexts.check_context_id(request.id)
    core_contexts.check_config(request.config)
    _check_embedder(rt, request.config)
    _check_description(request.description)
    if request.namespace is not None and request.namespace.lower() in RESERVED_NAMESPACES:
        raise Unprocessable(f"the namespace {request.namespace} is reserved: choose another")
    return ContextRow(
        id=request.id,
        namespace=request.namespace or NAMESPACE,
        database=store_contexts.database_of(request.id),
        created_at=rt.clock(),
        description=request.description,
        config=core_contexts.merged({"policy": rt.config.policy}, request.config),
        enforcement_blocked=request.enforcement_blocked,
    )


def _check_embedder(rt: Runtime, config: Mapping[str, Any]) -> None:
    """Raises: Invalid for an embedder that cannot be opened here."""
    if config.get("embedder") is not None:
        rt.embedders.get(core_contexts.embedder_of(config, rt.embedders.default))


def _check_description(description: str | None) -> None:
    if description is not None and len(description) > MAX_DESCRIPTION_CHARS:
        raise Invalid(f"a description has at most {MAX_DESCRIPTION_CHARS} characters")


async def _check_free(rt: Runtime, context_id: str) -> None:
    for row in await store_contexts.list_all(rt.control):
        if row.id.lower() == context_id.lower():
            raise Conflict(f"context {row.id} exists already")


def _reserved(request: NewContext) -> list[Principal]:
    return [
        Principal(id=SYSTEM, display_name="system", kind=PrincipalKind.SERVICE),
        Principal(
            id=ADMIN,
            display_name=request.admin_display_name or "admin",
            kind=PrincipalKind.SERVICE,
            grants=_ALL,
            external_id=request.admin_external_id,
        ),
    ]


def _people() -> list[Principal]:
    return [
        Principal(
            id=OWNER,
            display_name="Owner",
            kind=PrincipalKind.HUMAN,
            grants=_ALL,
            home=OWNER_HOME,
            roles=frozenset({Role.OWNER}),
        ),
        Principal(id=AGENT, display_name="Agent", kind=PrincipalKind.AGENT, grants=_AGENT_GRANTS, home=OWNER_HOME),
    ]


async def _seed(
    rt: Runtime, row: ContextRow, principals: Sequence[Principal], with_keys: Sequence[PrincipalId]
) -> dict[PrincipalId, Minted]:
    """Make the record of a context that is not registered yet: a crash before that leaves nothing in the way."""
    await rt.clear(row)
    db = await rt.engine.database(row.database)
    await migrate(db, "context")
    uid = await store_meta.uid(db)
    batch = Batch(at=rt.clock())
    _add_principals(batch, principals)
    minted = {of: access.mint(rt, row.id, uid) for of in with_keys}
    for of, key in minted.items():
        _add_key(batch, of, key)
    # What was erased from an earlier context of this name is no business of the new one.
    batch.patch(RecordID("meta", "state"), tombstone=rt.ledger.head[0])
    try:
        rt.watermark.write(db.name, await store_commit.commit(db, batch))
    except Duplicate:
        raise Conflict("the name of the admin is taken by a reserved principal: choose another") from None
    return minted


def _add_principals(batch: Batch, principals: Sequence[Principal]) -> None:
    """Put principals in with what they hold from the first, and the nodes of their homes."""
    for principal in principals:
        stored = StoredPrincipal(principal=principal, created_at=batch.at, updated_at=batch.at)
        record = {"id": store_principals.record_id(principal.id), "row": store_principals.to_row(stored)}
        batch.creates.append(record)
        store_principals.add_events(
            batch,
            ((RecordID("grant_event", new_id()), event) for event in _first_grants(principal, stored)),
            principal.id,
            _SETUP,
        )
    batch.scopes += store_scopes.node_rows((p.home for p in principals if p.home is not None), batch.at)


def _first_grants(principal: Principal, stored: StoredPrincipal) -> list[store_principals.GrantEvent]:
    return store_principals.changes_between({}, principal.grants, stored.created_at)


def _add_key(batch: Batch, of: PrincipalId, minted: Minted) -> None:
    key = ApiKey(id=minted.id, name=str(of), principal=of, digest=minted.digest, created_at=batch.at)
    batch.creates.append({"id": store_keys.record_id(key.id), "row": store_keys.to_row(key)})


def _add_management(batch: Batch, minted: Minted) -> None:
    key = ManagementKey(id=minted.id, name=str(minted.id), digest=minted.digest, created_at=batch.at)
    row = store_keys.management_row(key)
    batch.creates.append({"id": RecordID(store_keys.MANAGEMENT_TABLE, key.id), "row": row})


async def _register(rt: Runtime, row: ContextRow, batch: Batch) -> None:
    batch.creates.append({"id": RecordID("context", row.id), "row": store_contexts.to_row(row)})
    try:
        await rt.commit_control(batch)
    except Duplicate:
        raise Conflict(f"context {row.id} exists already") from None
