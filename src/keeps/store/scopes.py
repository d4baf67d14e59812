"""Scope nodes and scope sets as rows, and the scope sets of a context in memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from keeps.core.access import Region
from keeps.core.errors import Invalid
from keeps.core.scopes import ROOT, Scope, ScopePath, ancestors
from keeps.store.db import Db, RecordID
from keeps.store.rows import Record, key_of

_CACHED_REGIONS: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeNode:
    """A registered node. A tombstoned one stays in the list; its rows stay readable."""

    path: ScopePath
    created_at: datetime
    display_name: str | None = None
    description: str | None = None
    tombstoned_at: datetime | None = None


class ScopeSets:
    """Every scope set of a context, by id. Complete: the rule of visibility runs here, once, for all legs."""

    def __init__(self) -> None:
        self._scopes: dict[str, Scope] = {}
        self._readable: OrderedDict[Region, set[str]] = OrderedDict()

    def __contains__(self, scope_set: str) -> bool:
        return scope_set in self._scopes

    def __getitem__(self, scope_set: str) -> Scope:
        return self._scopes[scope_set]

    def everything(self) -> frozenset[str]:
        """Ids of all scope sets: for the index and for operators, never for a caller."""
        return frozenset(self._scopes)

    def add(self, scope: Scope) -> None:
        """Take up a scope that now has rows."""
        if scope.id in self._scopes:
            return
        self._scopes[scope.id] = scope
        for region, ids in self._readable.items():
            if scope.visible_to(region):
                ids.add(scope.id)

    def readable(self, region: Region) -> frozenset[str]:
        """Ids of the scope sets whose rows `region` may see; empty when there are none."""
        ids = self._readable.get(region)
        if ids is None:
            ids = {scope_set for scope_set, scope in self._scopes.items() if scope.visible_to(region)}
            self._readable[region] = ids
            if len(self._readable) > _CACHED_REGIONS:
                self._readable.popitem(last=False)
        self._readable.move_to_end(region)
        return frozenset(ids)


async def load_scope_sets(db: Db, into: ScopeSets) -> None:
    """Read every scope set of the context into memory."""
    for row in (await db.run("SELECT * FROM scope_set TIMEOUT 30s;", timeout_s=60.0))[0]:
        into.add(scope_of_row(row))


def scope_of_row(row: Record) -> Scope:
    """The scope a scope set row holds."""
    return Scope.from_lists(row["clauses"])


def scope_set_row(scope: Scope, at: datetime) -> Record:
    """A scope set as a row."""
    return {"id": RecordID("scope_set", scope.id), "clauses": scope.to_lists(), "created_at": at}


def node_rows(paths: Iterable[ScopePath], at: datetime) -> list[Record]:
    """Rows for nodes and all their ancestors, the root included."""
    wanted = {ROOT}
    for path in paths:
        wanted.update((*ancestors(path), path))
    return [
        {"id": RecordID("scope", path), "parent": _parent(path), "created_at": at}
        for path in sorted(wanted, key=lambda p: (p.count("/"), p))
    ]


def _parent(path: ScopePath) -> str | None:
    if path == ROOT:
        return None
    above = ancestors(path)
    return above[-1] if above else ROOT


async def find_node(db: Db, path: ScopePath) -> ScopeNode | None:
    """The node, live or tombstoned; `None` when it was never registered."""
    row = (await db.run("SELECT * FROM ONLY $id TIMEOUT 2s;", id=RecordID("scope", path)))[0]
    return node_from_row(row) if row else None


async def list_nodes(db: Db) -> list[ScopeNode]:
    """All nodes in order of their paths."""
    rows = (await db.run("SELECT * FROM scope TIMEOUT 10s;", timeout_s=15.0))[0]
    return sorted((node_from_row(row) for row in rows), key=lambda node: node.path)


def node_from_row(row: Record) -> ScopeNode:
    """The node a row holds."""
    return ScopeNode(
        path=ScopePath(key_of(row["id"])),
        created_at=row["created_at"],
        display_name=row.get("display_name"),
        description=row.get("description"),
        tombstoned_at=row.get("tombstoned_at"),
    )


def refuse_unregistered(paths: Iterable[ScopePath], known: frozenset[ScopePath]) -> None:
    """Raises: Invalid when a path was never registered and writes may not register it."""
    for path in sorted(paths):
        if path not in known:
            raise Invalid(f"scope {path} is not registered; register it with POST /scopes first")
