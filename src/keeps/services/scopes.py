"""The tree of scopes: nodes registered, listed and taken out of use. What belongs to a node is not touched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from keeps.core.access import Caller, Region, Verb
from keeps.core.errors import Forbidden, Invalid, NotFound, Unavailable
from keeps.core.pages import Page, PageRequest, page_of
from keeps.core.scopes import ROOT, Scope, ScopePath, wire_path
from keeps.core.screen import refuse_secrets
from keeps.core.text import clean, clean_name
from keeps.services.runtime import Context, Runtime
from keeps.store import scopes as store_scopes
from keeps.store.commit import Batch
from keeps.store.db import RecordID
from keeps.store.scopes import ScopeNode

MAX_DESCRIPTION_CHARS: Final = 2000

MAX_NEW_NODES: Final = 256
"""How many nodes one write may be the first to use, those above them included."""


def first_use(rt: Runtime, context: Context, batch: Batch, *scopes: Scope) -> None:
    """Add to a write the scope sets and nodes it is the first to use.

    Raises: Invalid for a node nobody registered, where the configuration asks for that, and for more than 256 new
    nodes; SecretRefused for a node that is named after a secret.
    """
    batch.scope_sets += [
        store_scopes.scope_set_row(scope, batch.at)
        for scope in {scope.id: scope for scope in scopes}.values()
        if scope.id not in context.sets
    ]
    fresh = [node for scope in scopes for node in scope.nodes() if node not in context.nodes]
    if not fresh:
        return
    if not rt.config.auto_register_scopes:
        store_scopes.refuse_unregistered(fresh, frozenset(context.nodes))
    rows = [row for row in store_scopes.node_rows(fresh, batch.at) if row["id"].id not in context.nodes]
    if len(rows) > MAX_NEW_NODES:
        raise Invalid(f"too many new scopes: one write may add {MAX_NEW_NODES} nodes, this one adds {len(rows)}")
    for row in rows:
        _refuse_secret(row["id"].id)
    batch.scopes += rows


@dataclass(frozen=True, slots=True, kw_only=True)
class NewScope:
    """A node to register."""

    path: ScopePath
    display_name: str | None = None
    description: str | None = None


async def register(rt: Runtime, context: Context, caller: Caller, request: NewScope) -> ScopeNode:
    """The node, new with all nodes above it, in use again, or as it is when it is in use.

    Name and description are taken up by a node that has none.

    Raises:
        Forbidden: scope:create is not held over the path, or it is the root.
        SecretRefused: its path, name or description holds a secret.
    """
    path = request.path
    _check(caller, Verb.SCOPE_CREATE, path)
    described = _described(request)
    found = await store_scopes.find_node(context.db, path)
    batch = Batch(at=rt.clock())
    if found is None:
        _refuse_secret(path)
        rows = store_scopes.node_rows([path], batch.at)
        batch.scopes += [row | described if row["id"].id == path else row for row in rows]
    else:
        revived = found.tombstoned_at is not None
        changes: dict[str, Any] = {
            name: text for name, text in described.items() if revived or getattr(found, name) is None
        }
        if revived:
            changes["tombstoned_at"] = None
        if not changes:
            return found
        batch.patch(RecordID("scope", path), **changes)
    await context.commit(batch)
    node = await store_scopes.find_node(context.db, path)
    if node is None:
        raise Unavailable(f"scope {path} was removed meanwhile; try again", retry_after_s=1)
    return node


async def list_page(rt: Runtime, context: Context, caller: Caller, page: PageRequest) -> Page[ScopeNode]:
    """The nodes over which the caller holds any verb, those out of use included, in order of their paths."""
    seen = Region(tuple(pattern for verb in Verb for pattern in caller.region(verb).patterns))
    nodes = [node for node in await store_scopes.list_nodes(context.db) if seen.covers(node.path)]
    return page_of(nodes, lambda node: (node.path, node.path), page)


async def tombstone(rt: Runtime, context: Context, caller: Caller, path: ScopePath) -> None:
    """Take a node out of use; its rows stay readable. Nothing when it is out of use already.

    Raises: Forbidden unless scope:delete is held over the path, and for the root; NotFound.
    """
    _check(caller, Verb.SCOPE_DELETE, path)
    found = await store_scopes.find_node(context.db, path)
    if found is None:
        raise NotFound(f"scope {wire_path(path)} is not registered")
    if found.tombstoned_at is None:
        batch = Batch(at=rt.clock())
        batch.patch(RecordID("scope", path), tombstoned_at=batch.at)
        await context.commit(batch)


def _check(caller: Caller, verb: Verb, path: ScopePath) -> None:
    if not caller.holds(verb, path):
        raise Forbidden(f"{verb} is not held over {wire_path(path)}")
    if path == ROOT:
        raise Forbidden("the root is always there: it is neither registered nor removed")


def _refuse_secret(path: str) -> None:
    refuse_secrets(path.replace("/", " "), "the path of a scope")


def _described(request: NewScope) -> dict[str, str]:
    described: dict[str, str] = {}
    if request.display_name is not None:
        described["display_name"] = clean_name(request.display_name, what="a display name")
        refuse_secrets(described["display_name"], "a display name")
    if request.description is not None:
        described["description"] = clean(request.description, limit_chars=MAX_DESCRIPTION_CHARS).text
        refuse_secrets(described["description"], "a description")
    return described
