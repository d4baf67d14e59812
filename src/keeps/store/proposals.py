"""What waits for a person: proposals as rows, found, listed and counted.

The text of a proposal lies in its `row` alone, the record it would become; a proposal whose text is gone has an
empty one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, LiteralString

from keeps.core.cardinality import chain_key
from keeps.core.facts import Action, Fact, Relation, Row, RowId, Status
from keeps.core.proposals import Proposal
from keeps.store.commit import Batch
from keeps.store.db import Db, RecordID
from keeps.store.rows import (
    Record,
    action_from_row,
    action_to_row,
    fact_from_row,
    fact_to_row,
    key_of,
    relation_from_row,
    relation_to_row,
    table_of,
)
from keeps.store.scopes import ScopeSets

PROPOSAL: Final = "proposal"

_LIST_S: Final = 15.0

_NOT_OF_THE_ROW: Final = ("id", "in", "out")
"""What a row in its own table has and a row that waits has not: it is made when a person says yes."""


def record_id(proposal_id: str) -> RecordID:
    """The row of a proposal."""
    return RecordID(PROPOSAL, proposal_id)


def to_row(proposal: Proposal, *, folds: Sequence[str] = ()) -> Record:
    """A proposal as a whole row. `folds`: keyed hashes of the folded texts its row may be forgotten by."""
    row = proposal.row
    return {
        "id": record_id(proposal.id),
        "target": table_of(row) if row is not None else "attribute",
        "row": _content(row, list(folds)) if row is not None else {},
        "scope_set": proposal.scope_set,
        "status": str(proposal.status),
        "reason": proposal.reason,
        "reasons": list(proposal.reasons) or None,
        "kind": proposal.kind,
        "names": dict(proposal.names) or None,
        "conflicts_with": proposal.conflicts_with,
        "proposed_by": proposal.proposed_by,
        "created_at": proposal.created_at,
        "fingerprint": proposal.fingerprint,
        "source_ref": proposal.source_ref,
        "run": proposal.run,
        "asked": proposal.asked or None,
        "ends_s": int(proposal.ends_at.timestamp()) if proposal.ends_at is not None else None,
        "status_by": proposal.status_by,
        "status_at": proposal.status_at,
        "rev": proposal.rev,
    }


def _content(row: Row, folds: list[str]) -> Record:
    if isinstance(row, Fact):
        record = fact_to_row(row, chain=chain_key(row.key, row.value, row.category, row.id), folds=folds)
    elif isinstance(row, Relation):
        record = relation_to_row(row, folds=folds)
    else:
        assert isinstance(row, Action)
        record = action_to_row(row, folds=folds)
    return {name: value for name, value in record.items() if name not in _NOT_OF_THE_ROW}


def from_row(record: Record, sets: ScopeSets) -> Proposal:
    """The proposal a row holds; what older rows lack is as in a new one."""
    row = _row_of(record, sets)
    ends_s = record.get("ends_s")
    return Proposal(
        id=RowId(key_of(record["id"])),
        row=row,
        status=Status(record["status"]),
        reason=record["reason"],
        reasons=tuple(record.get("reasons") or ()),
        proposed_by=record["proposed_by"],
        created_at=record["created_at"],
        scope_set=record["scope_set"],
        kind=record.get("kind") or (row.control.kind if row is not None else "fact"),
        names=dict(record.get("names") or {}),
        conflicts_with=record.get("conflicts_with"),
        source_ref=record.get("source_ref"),
        run=record.get("run"),
        asked=bool(record.get("asked")),
        fingerprint=record.get("fingerprint") or "",
        ends_at=datetime.fromtimestamp(ends_s, UTC) if ends_s is not None else None,
        status_by=record.get("status_by"),
        status_at=record.get("status_at"),
        rev=record.get("rev") or 1,
    )


def _row_of(record: Record, sets: ScopeSets) -> Row | None:
    content = record["row"]
    if not content:
        return None
    scope = sets[record["scope_set"]]
    row = content | {"id": RecordID(record["target"], key_of(record["id"]))}
    if record["target"] == "attribute":
        return fact_from_row(row, scope)
    if record["target"] == "relates_to":
        return relation_from_row(row, scope)
    return action_from_row(row, scope)


def write_over(batch: Batch, before: Proposal, after: Proposal, *, folds: Sequence[str] = ()) -> None:
    """Let a commit also put a proposal in the place of what was read of it. `folds` as in `to_row`."""
    row = to_row(after, folds=folds)
    of = row.pop("id")
    batch.guards.append({"id": of, "rev": before.rev})
    batch.puts.append({"id": of, "row": row})
    batch.touch(of)


def stays(batch: Batch, proposal: Proposal) -> None:
    """Take a proposal out of what an erasure deletes: what became of it is counted, and its id leads nowhere else."""
    of = record_id(proposal.id)
    batch.deletes = [gone for gone in batch.deletes if gone != of]


async def find(db: Db, sets: ScopeSets, proposal_id: str) -> Proposal | None:
    """The proposal of that id, wherever it lies; the caller checks who may see it."""
    (row,) = await db.run("SELECT * FROM ONLY $id TIMEOUT 5s;", id=record_id(proposal_id))
    return from_row(row, sets) if row and row["scope_set"] in sets else None


_OPEN: Final = (Status.PROPOSED, Status.QUARANTINED)


async def list_open(
    db: Db,
    sets: ScopeSets,
    readable: Collection[str],
    *,
    status: Status | None = None,
    limit: int,
    after: tuple[datetime, str] | None = None,
    proposed_by: str | None = None,
) -> list[Proposal]:
    """Proposals of the readable scope sets, newest first: those of one status, else all that wait.

    `after`: when the last one of the part before was made, and its id.
    """
    statuses = (status,) if status is not None else _OPEN
    part: LiteralString = "SELECT * FROM proposal WHERE status IN $statuses AND scope_set IN $sets"
    if proposed_by is not None:
        part = part + " AND proposed_by = $by"
    if after is not None:
        part = part + " AND (created_at < $after_at OR (created_at = $after_at AND id < $after_id))"
    after_at, after_key = after or (None, "")
    (found,) = await db.run(
        part + " ORDER BY created_at DESC, id DESC LIMIT $limit TIMEOUT 10s;",
        timeout_s=_LIST_S,
        statuses=[str(one) for one in statuses],
        sets=sorted(readable),
        by=proposed_by,
        after_at=after_at,
        after_id=record_id(after_key),
        limit=limit,
    )
    return [from_row(row, sets) for row in found if row["scope_set"] in sets]


async def refused(db: Db, conflicts_with: str, reason: str, *, since: datetime) -> bool:
    """True when a person said no to such a proposal about a row since then."""
    (found,) = await db.run(
        "SELECT VALUE id FROM proposal WHERE conflicts_with = $row AND reason = $reason AND status = 'rejected'"
        " AND status_at >= $since LIMIT 1 TIMEOUT 5s;",
        row=conflicts_with,
        reason=reason,
        since=since,
    )
    return bool(found)


async def due(db: Db, sets: ScopeSets, now: datetime, *, limit: int) -> list[Proposal]:
    """Proposals that wait although their time is over, the first over first."""
    (found,) = await db.run(
        "SELECT * FROM proposal WHERE status IN $statuses AND ends_s != NONE AND ends_s <= $now_s"
        " ORDER BY ends_s, id LIMIT $limit TIMEOUT 10s;",
        timeout_s=_LIST_S,
        statuses=[str(one) for one in _OPEN],
        now_s=int(now.timestamp()),
        limit=limit,
    )
    return [from_row(row, sets) for row in found if row["scope_set"] in sets]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stub:
    """A proposal without what it says. `slot`: the scope set, the entity and the chain of the fact it would become."""

    id: str
    scope_set: str
    fingerprint: str
    proposed_by: str
    slot: tuple[str, str, str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stubs:
    """What waits in some scope sets, and how many were made there since a moment. What came from an import does not
    count: it is reviewed apart."""

    open: list[Stub]
    lately: int


async def stubs(db: Db, scope_sets: Collection[str], *, since: datetime) -> Stubs:
    """What a writer must know of an inbox, in one read."""
    waiting, lately = await db.run(
        "SELECT id, scope_set, fingerprint, proposed_by, target, row.entity AS entity, row.chain AS chain FROM proposal"
        " WHERE status IN $statuses AND scope_set IN $sets AND reason != 'imported' TIMEOUT 5s;"
        "SELECT count() FROM proposal WHERE scope_set IN $sets AND created_at > $since AND reason != 'imported'"
        " GROUP ALL TIMEOUT 5s;",
        timeout_s=_LIST_S,
        statuses=[str(one) for one in _OPEN],
        sets=sorted(scope_sets),
        since=since,
    )
    return Stubs(
        open=[_stub(row) for row in waiting],
        lately=int(lately[0]["count"]) if lately else 0,
    )


def _stub(row: Record) -> Stub:
    slot = (row["scope_set"], row["entity"], row["chain"]) if row["target"] == "attribute" else None
    return Stub(
        id=key_of(row["id"]),
        scope_set=row["scope_set"],
        fingerprint=row.get("fingerprint") or "",
        proposed_by=row["proposed_by"],
        slot=slot,
    )


async def count_waiting(db: Db, readable: Collection[str]) -> int:
    """How many proposals in the readable scope sets nobody has decided on."""
    # Few wait, and a reader may hold very many scope sets: those that wait are read, by their index.
    (found,) = await db.run(
        "SELECT scope_set, count() AS waiting FROM proposal WHERE status = 'proposed' GROUP BY scope_set TIMEOUT 2s;"
    )
    return sum(int(row["waiting"]) for row in found if row["scope_set"] in readable)
