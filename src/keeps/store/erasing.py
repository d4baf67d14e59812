"""An erasure while it is planned: the batch it becomes, and how rows stand afterwards."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, LiteralString

from keeps.core.erasure import Fate, Gone, Order, Presence
from keeps.core.facts import Row
from keeps.core.scopes import Scope
from keeps.core.sessions import Turn
from keeps.store import scopes as store_scopes
from keeps.store.commit import ANEW, Batch
from keeps.store.db import INDEXED_VALUES, Db, RecordID
from keeps.store.rows import Record
from keeps.store.scopes import ScopeSets

READ_S: Final = 60.0
"""Deadline of the reads of an erasure, seconds: it may touch a whole scope."""


@dataclass(slots=True, kw_only=True)
class Plan:
    """What an order comes to.

    `done`: the part of the order that finds something to do; `scope_sets`: where its rows lie now. `turns` and
    `rows`: those the index must look at, as they stand afterwards, None once they are out of it. `windows`: turns
    to index again, each with the turn before it. `gone` and `released` count rows by table.
    """

    batch: Batch
    done: Order = field(default_factory=Order)
    scope_sets: Mapping[str, str] = field(default_factory=dict[str, str])
    turns: dict[str, Turn | None] = field(default_factory=dict[str, "Turn | None"])
    rows: dict[str, Row | None] = field(default_factory=dict[str, "Row | None"])
    windows: list[tuple[Turn, Turn | None]] = field(default_factory=list["tuple[Turn, Turn | None]"])
    names: set[Presence] = field(default_factory=set[Presence])
    dropped_names: set[Presence] = field(default_factory=set[Presence])
    gone: Counter[str] = field(default_factory=Counter[str])
    released: Counter[str] = field(default_factory=Counter[str])
    purges: bool = False


class Work:
    """One order against the record: what was read, what was decided, what will be written."""

    def __init__(self, db: Db, sets: ScopeSets, order: Order, now: datetime) -> None:
        self.db = db
        self.sets = sets
        self.order = order
        self.now = now
        self.batch = Batch(at=now)
        self.plan = Plan(batch=self.batch)
        self.records: dict[str, Record] = {}
        self.touched: defaultdict[Presence, list[tuple[Fate, bool]]] = defaultdict(list)
        """Entities of the rows decided about: what became of each row, and whether it was live."""
        self.fates: dict[str, Fate] = {}
        """What was decided, by `table:key`: rows of the order, and rows that go along with them."""
        self._patches: dict[str, tuple[RecordID, dict[str, Any]]] = {}
        self._deletes: dict[str, RecordID] = {}
        self._replaced: dict[str, RecordID] = {}

    def decide(self, ref: str, row: Record, fate: Fate) -> None:
        """Book that a row goes, or leaves its scope set."""
        self.fates[ref] = fate
        self.records[ref] = row
        self.batch.rows.append(ref)
        table = row["id"].table_name
        if isinstance(fate, Scope):
            self.plan.released[table] += 1
            self.register(fate)
            return
        self.plan.gone[table] += 1
        if fate is Gone.PURGE:
            self.delete(row["id"])

    def patch(self, record_id: RecordID, **changes: Any) -> None:
        """Change fields of a row; later changes of the same field win."""
        self._patches.setdefault(str(record_id), (record_id, {}))[1].update(changes)

    def delete(self, record_id: RecordID) -> None:
        """Delete a row with its edges."""
        self.plan.purges = True
        self._deletes[str(record_id)] = record_id

    def replace(self, record_id: RecordID) -> None:
        """Delete a row whose content the batch inserts again; it does not count as a purge."""
        self._replaced[str(record_id)] = record_id

    def guard(self, row: Record) -> None:
        """Refuse the commit when the row moved since it was read."""
        self.batch.guards.append({"id": row["id"], "rev": row["rev"]})

    def patched(self, row: Record) -> Record:
        """A row as it will stand."""
        known = self._patches.get(str(row["id"]))
        return row | known[1] if known else row

    def finish(self) -> Plan:
        """The plan, complete."""
        self.batch.deletes = [*self._replaced.values(), *self._deletes.values()]
        self.batch.patches = [
            {"id": record_id, "set": changes}
            for name, (record_id, changes) in self._patches.items()
            if name not in self._deletes and name not in self._replaced
        ]
        if self.plan.purges or self.plan.dropped_names:
            self.batch.rows.append(ANEW)
        self.batch.rows = list(dict.fromkeys(self.batch.rows))
        return self.plan

    def register(self, scope: Scope) -> None:
        """Make sure that the scope set of a scope is there."""
        known = {row["id"].id for row in self.batch.scope_sets}
        if scope.id not in self.sets and scope.id not in known:
            self.batch.scope_sets.append(store_scopes.scope_set_row(scope, self.now))


async def read(db: Db, surql: LiteralString, ids: Sequence[Any]) -> list[Record]:
    """Rows of a query over `$ids`, asked in parts; each row once."""
    found: dict[str, Record] = {}
    for start in range(0, len(ids), INDEXED_VALUES):
        rows = await db.run(surql, timeout_s=READ_S, ids=list(ids[start : start + INDEXED_VALUES]))
        found.update((str(row["id"]), row) for row in rows[0])
    return list(found.values())
