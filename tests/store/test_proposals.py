"""Proposals as rows: what is put in comes out, old rows are read, lists are newest first and bounded."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from keeps.core.entities import entity_ref
from keeps.core.facts import Clocks, Fact, RowId, Source, Status
from keeps.core.proposals import Proposal
from keeps.core.scopes import Scope, parse_scopes
from keeps.store import proposals
from keeps.store.commit import Batch, commit
from keeps.store.db import open_engine
from keeps.store.migrate import migrate
from keeps.store.scopes import ScopeSets

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


def scope_of(path: str) -> Scope:
    scope = parse_scopes(path)
    assert scope is not None
    return scope


def proposal(key: str, *, scope: Scope, at: datetime = NOW, status: Status = Status.PROPOSED) -> Proposal:
    fact = Fact(
        id=RowId(key),
        scope=scope,
        clocks=Clocks(known_at=at, recorded_at=at, valid_from=at),
        source=Source(kind="upsert", ref="turn:t1", trust=0.95),
        summary="Mara likes tea",
        entity=entity_ref("person", "Mara"),
        key="likes",
        value="tea",
    )
    return Proposal(
        id=fact.id,
        row=fact,
        status=status,
        reason="policy",
        reasons=("imperative",),
        proposed_by="agent",
        created_at=at,
        scope_set=scope.id,
        kind="fact",
        names={"person/mara": "Mara"},
        conflicts_with="attribute:other",
        source_ref="turn:t1",
        run="r1",
        asked=True,
        fingerprint="print",
        ends_at=at + timedelta(days=30),
    )


@pytest.fixture
def sets() -> ScopeSets:
    found = ScopeSets()
    for path in ("user/mara", "user/ben"):
        found.add(scope_of(path))
    return found


async def test_a_proposal_is_read_as_it_was_written(sets: ScopeSets) -> None:
    engine = await open_engine("mem://")
    db = await engine.database("t")
    await migrate(db, "context")
    one = proposal("a" * 20, scope=scope_of("user/mara"))
    gone = replace(proposal("b" * 20, scope=scope_of("user/mara"), status=Status.REJECTED), row=None, names={})
    batch = Batch(at=NOW)
    batch.proposals += [proposals.to_row(one, folds=["f1", "f2"]), proposals.to_row(gone)]
    await commit(db, batch)
    assert await proposals.find(db, sets, one.id) == one
    assert await proposals.find(db, sets, gone.id) == gone
    assert await proposals.find(db, sets, "c" * 20) is None
    await engine.close()


async def test_what_waits_is_listed_newest_first_in_parts(sets: ScopeSets) -> None:
    engine = await open_engine("mem://")
    db = await engine.database("t")
    await migrate(db, "context")
    mara, ben = scope_of("user/mara"), scope_of("user/ben")
    batch = Batch(at=NOW)
    # Two of them are of the same moment, so that only their ids tell which comes first.
    times = [0, 0, 1, 2]
    made = [
        proposal(letter * 20, scope=mara, at=NOW + timedelta(seconds=s))
        for letter, s in zip("abcd", times, strict=True)
    ]
    made.append(proposal("e" * 20, scope=mara, at=NOW + timedelta(seconds=3), status=Status.QUARANTINED))
    made.append(proposal("f" * 20, scope=mara, at=NOW + timedelta(seconds=4), status=Status.REJECTED))
    made.append(proposal("g" * 20, scope=ben, at=NOW + timedelta(seconds=5)))
    batch.proposals += [proposals.to_row(one) for one in made]
    await commit(db, batch)
    seen: list[str] = []
    after = None
    while page := await proposals.list_open(db, sets, {mara.id}, limit=2, after=after):
        seen += [one.id[0] for one in page]
        after = (page[-1].created_at, page[-1].id)
    assert seen == ["e", "d", "c", "b", "a"]
    only = await proposals.list_open(db, sets, {mara.id, ben.id}, status=Status.REJECTED, limit=9)
    assert [one.id[0] for one in only] == ["f"]
    assert await proposals.count_waiting(db, {mara.id}) == 4
    due = await proposals.due(db, sets, NOW + timedelta(days=30, seconds=1), limit=9)
    assert [one.id[0] for one in due] == ["a", "b", "c"]
    await engine.close()


def test_a_row_of_before_is_read_with_what_it_lacks(sets: ScopeSets) -> None:
    new = proposal("a" * 20, scope=scope_of("user/mara"))
    later = ("reasons", "kind", "names", "run", "asked", "ends_s", "status_by", "status_at", "rev")
    old: dict[str, Any] = {name: value for name, value in proposals.to_row(new).items() if name not in later}
    read = proposals.from_row(old, sets)
    assert (read.row, read.kind, read.rev, read.names, read.asked, read.ends_at) == (
        new.row,
        "fact",
        1,
        {},
        False,
        None,
    )
