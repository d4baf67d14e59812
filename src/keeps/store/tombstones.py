"""Orders to erase as lines of the ledger, and lines read back as orders.

Rows appear by their random ids. What is a name itself, an entity, a scope or a clause, appears as a hash keyed by
the random name of the record: a restored copy makes the same hashes, a reader of the ledger alone cannot. What is
not to be learned again appears by the keyed hashes it is known by.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from keeps.core.erasure import Clause, Fate, Gone, Order, Presence
from keeps.core.errors import StoreRefused
from keeps.core.facts import Status
from keeps.core.scopes import ROOT, Scope, ScopePath
from keeps.store import facts as store_facts
from keeps.store import meta as store_meta
from keeps.store import scopes as store_scopes
from keeps.store.db import Db
from keeps.store.ledger import Tombstone
from keeps.store.rows import ENTITY, Record
from keeps.store.scopes import ScopeSets

RELEASE: Final = "release"
"""Kind of a line whose rows stay for their other owners."""
NAMES: Final = "names"
"""Kind of a line whose scope nodes lose their display name and description."""
DISCARD: Final = "discard"
"""Kind of a line whose rows waited and were not kept: what they said goes, that they were there stays."""
CONTEXT: Final = "context"
"""Kind of a line that names a whole context, by the random name of its record: it is not served again."""

MAX_IDS: Final = 500
"""How many ids one line holds."""

_MARK: Final = "mark#"
"""What stands before a hash by which something is known that is not to be learned again."""

_SCAN_S: Final = 60.0
_UNSCOPED: Final[frozenset[Clause]] = frozenset({frozenset({ROOT})})


@dataclass(frozen=True, slots=True)
class Seal:
    """Keyed hashes of names, by the random name of one record."""

    key: bytes

    @classmethod
    async def of(cls, db: Db) -> Seal:
        """The seal of this record."""
        return cls.by(await store_meta.uid(db))

    @classmethod
    def by(cls, uid: str) -> Seal:
        """The seal of the record with that random name."""
        return cls(uid.encode())

    def presence(self, presence: Presence) -> str:
        """How a line names an entity of one scope set."""
        return f"{ENTITY}#{self._hash(list(presence))}"

    def record(self) -> str:
        """How a line names the whole record."""
        return f"{CONTEXT}#{self._hash(CONTEXT)}"

    def node(self, path: ScopePath) -> str:
        """How a line names a scope node."""
        return f"scope#{self._hash(path)}"

    def clause(self, clause: Clause) -> str:
        """How a line names a clause."""
        return self._hash(sorted(clause))

    def _hash(self, value: object) -> str:
        return hmac.new(self.key, json.dumps(value).encode(), hashlib.sha256).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Line:
    """What one line of the ledger says."""

    kind: str
    ids: tuple[str, ...]
    detail: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Discarded:
    """What became of rows that waited: how they stand now, and whether their time was merely over."""

    status: Status
    by_itself: bool


def lines(
    order: Order, sets: ScopeSets, scope_sets: Mapping[str, str], seal: Seal, *, marks: Iterable[str] = ()
) -> list[Line]:
    """The lines for an order. `scope_sets`: where each row lies before it is carried out, by `table:key`; `marks`: by
    what is known what is not to be learned again."""
    groups: defaultdict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for ref, fate in order.rows.items():
        groups[_kind(fate, sets, scope_sets[ref], seal)].append(ref)
    for presence, fate in order.presences.items():
        groups[_kind(fate, sets, presence[1], seal)].append(seal.presence(presence))
    if order.nodes:
        groups[NAMES, ()] = [seal.node(node) for node in sorted(order.nodes)]
    if marked := _marked(marks):
        gone = next((group for group in groups if group[0] in tuple(Gone)), (str(Gone.RETIRE), ()))
        groups[gone] += marked
    return [
        Line(kind, part, {"clauses": list(clauses)} if clauses else {})
        for (kind, clauses), ids in groups.items()
        for part in _in_parts(ids)
    ]


def discards(became: Mapping[str, Discarded], *, marks: Iterable[str] = ()) -> list[Line]:
    """The lines for rows that waited and were not kept, by `table:key`; `marks` as in `lines`."""
    groups: defaultdict[Discarded, list[str]] = defaultdict(list)
    for ref, how in became.items():
        groups[how].append(ref)
    if groups:
        next(iter(groups.values())).extend(_marked(marks))
    return [
        Line(DISCARD, part, {"status": str(how.status), "by_itself": how.by_itself})
        for how, ids in groups.items()
        for part in _in_parts(ids)
    ]


def discarded(tombstone: Tombstone) -> Discarded | None:
    """What a line says became of rows that waited; None for a line about others."""
    if tombstone.kind != DISCARD:
        return None
    return Discarded(status=Status(tombstone.detail["status"]), by_itself=bool(tombstone.detail["by_itself"]))


def marks_of(tombstone: Tombstone) -> list[str]:
    """The hashes by which a line knows what is not to be learned again."""
    return [id_.removeprefix(_MARK) for id_ in tombstone.ids if id_.startswith(_MARK)]


def _marked(marks: Iterable[str]) -> list[str]:
    return [_MARK + mark for mark in dict.fromkeys(marks)]


def _in_parts(ids: Sequence[str]) -> Iterator[tuple[str, ...]]:
    return (tuple(ids[start : start + MAX_IDS]) for start in range(0, len(ids), MAX_IDS))


def _kind(fate: Fate, sets: ScopeSets, scope_set: str, seal: Seal) -> tuple[str, tuple[str, ...]]:
    if isinstance(fate, Gone):
        return fate.value, ()
    taken = _clauses(sets[scope_set]) - fate.clauses
    return RELEASE, tuple(sorted(seal.clause(clause) for clause in taken))


async def order_of(db: Db, sets: ScopeSets, tombstone: Tombstone) -> Order:
    """The order a tombstone stands for, on this record.

    Raises:
        StoreRefused: the tombstone is of a kind that this version does not know.
    """
    if tombstone.kind == CONTEXT:
        return Order()  # of another record under the same id: one that is named itself is never opened
    seal = await Seal.of(db)
    if tombstone.kind == NAMES:
        wanted = set(tombstone.ids)
        nodes = (node.path for node in await store_scopes.list_nodes(db))
        return Order(nodes=frozenset(path for path in nodes if seal.node(path) in wanted))
    if tombstone.kind not in (*Gone, RELEASE, DISCARD):
        raise StoreRefused(
            f"The ledger of erased rows holds a line of an unknown kind ({tombstone.kind}): "
            "a newer version of keeps wrote it; open this folder with that version."
        )
    refs = [id_ for id_ in tombstone.ids if "#" not in id_]
    presences = await _presences(db, {id_ for id_ in tombstone.ids if id_.startswith(f"{ENTITY}#")}, seal)
    if tombstone.kind != RELEASE:
        gone = Gone.PURGE if tombstone.kind == DISCARD else Gone(tombstone.kind)
        return Order(rows=dict.fromkeys(refs, gone), presences=dict.fromkeys(presences, gone))
    taken = set(tombstone.detail["clauses"])
    found = await store_facts.records(db, refs)
    rows = {ref: _left(sets[row["scope_set"]], taken, seal) for ref, row in found.items()}
    left = {presence: _left(sets[presence[1]], taken, seal) for presence in presences}
    return Order(
        rows={ref: fate for ref, fate in rows.items() if fate is not None},
        presences={presence: fate for presence, fate in left.items() if fate is not None},
    )


async def _presences(db: Db, hashes: set[str], seal: Seal) -> list[Presence]:
    if not hashes:
        return []
    found: list[Record] = (await db.run("SELECT ref, scope_set FROM entity TIMEOUT 60s;", timeout_s=_SCAN_S))[0]
    return [p for p in ((row["ref"], row["scope_set"]) for row in found) if seal.presence(p) in hashes]


def _left(scope: Scope, taken: set[str], seal: Seal) -> Fate | None:
    kept = frozenset(clause for clause in _clauses(scope) if seal.clause(clause) not in taken)
    if kept == _clauses(scope):
        return None
    return Scope(kept) if kept else Gone.PURGE


def _clauses(scope: Scope) -> frozenset[Clause]:
    return scope.clauses or _UNSCOPED
