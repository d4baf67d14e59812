"""What became of proposals, counted: their texts may be long gone."""

from __future__ import annotations

from collections.abc import Collection

from keeps.core.facts import Status
from keeps.core.inbox import Tally
from keeps.core.proposals import Proposal
from keeps.store.db import Db
from keeps.store.proposals import from_row
from keeps.store.scopes import ScopeSets


async def tallies(db: Db, within: Collection[str] | None = None) -> list[Tally]:
    """How many proposals each agent made, by how and by whose hand they ended: in some scope sets, or in all."""
    (found,) = await db.run(
        "SELECT proposed_by, status, status_by, scope_set, count() AS number FROM proposal"
        " GROUP BY proposed_by, status, status_by, scope_set TIMEOUT 10s;",
        timeout_s=15.0,
    )
    counted: dict[tuple[str, Status, str | None], int] = {}
    for row in found:
        if within is None or row["scope_set"] in within:
            key = (row["proposed_by"], Status(row["status"]), row.get("status_by"))
            counted[key] = counted.get(key, 0) + int(row["number"])
    return [Tally(*key, count=number) for key, number in counted.items()]


async def counts(db: Db, within: Collection[str]) -> dict[Status, int]:
    """How many proposals wait in the scope sets, by what they wait as."""
    (found,) = await db.run(
        "SELECT status, scope_set, count() AS number FROM proposal WHERE status IN ['proposed', 'quarantined']"
        " GROUP BY status, scope_set TIMEOUT 10s;",
        timeout_s=15.0,
    )
    counted = {Status.PROPOSED: 0, Status.QUARANTINED: 0}
    for row in found:
        if row["scope_set"] in within:
            counted[Status(row["status"])] += int(row["number"])
    return counted


async def like(db: Db, sets: ScopeSets, proposal: Proposal) -> list[Proposal]:
    """Proposals of the same place, state and fingerprint, itself among them, newest first; none without one."""
    if not proposal.fingerprint:
        return []
    (found,) = await db.run(
        "SELECT * FROM proposal WITH INDEX proposal_fingerprint WHERE fingerprint = $print AND scope_set = $set"
        " AND status = $status ORDER BY created_at DESC, id DESC TIMEOUT 5s;",
        print=proposal.fingerprint,
        set=proposal.scope_set,
        status=str(proposal.status),
    )
    return [from_row(row, sets) for row in found if row["scope_set"] in sets]
