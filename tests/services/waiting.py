"""Proposals as a write leaves them, made without one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from zlib import crc32

from keeps.core.access import Caller
from keeps.core.entities import entity_ref
from keeps.core.facts import Clocks, Control, Fact, Origin, Source, Status
from keeps.core.policy import Why
from keeps.core.proposals import Proposal
from keeps.core.scopes import Scope, ScopePath
from keeps.services import contexts
from keeps.services.access import authenticate
from keeps.services.runtime import Context, Runtime, new_id
from keeps.store import proposals as store_proposals
from keeps.store import scopes as store_scopes
from keeps.store import tables as store_tables
from keeps.store.commit import Batch


@dataclass(frozen=True, slots=True)
class People:
    """A context that asks before it keeps, with its owner and its agent."""

    context: Context
    owner: Caller
    agent: Caller


async def people(rt: Runtime, *, policy: str = "deliberate") -> People:
    """Such a context, new, under its policy or another."""
    made = await contexts.bootstrap(rt, "deliberate", policy=policy)
    owner = await authenticate(rt, made.context, made.owner_key, None)
    agent = await authenticate(rt, made.context, made.agent_key, None)
    return People(owner.context, owner.caller, agent.caller)


def scope_of(*paths: str) -> Scope:
    """The scope with these nodes in one clause."""
    return Scope(frozenset({frozenset(map(ScopePath, paths))}))


def candidate(
    at: datetime,
    value: str,
    *,
    key: str = "likes",
    scope: Scope | None = None,
    status: Status = Status.PROPOSED,
    days: int = 30,
    agent: str = "agent",
    **parts: object,
) -> Proposal:
    """A proposal that Mara holds `value` under `key`; `parts` replace fields of it."""
    row = Fact(
        id=new_id(),
        scope=scope or scope_of("user/owner"),
        clocks=Clocks(known_at=at, recorded_at=at),
        source=Source(kind="turn", trust=0.5),
        summary=f"Mara {key} {value}.",
        control=Control(
            kind="preference",
            status=status,
            origin=Origin.AGENT_INFERRED,
            trust=0.4,
            fingerprint=f"f{crc32(f'{key} {value}'.encode())}",
        ),
        entity=entity_ref("person", "Mara"),
        key=key,
        value=value,
    )
    made = Proposal(
        id=row.id,
        row=row,
        status=status,
        reason=Why.QUARANTINE if status is Status.QUARANTINED else Why.POLICY,
        proposed_by=agent,
        created_at=at,
        scope_set=row.scope.id,
        kind="preference",
        names={"person/mara": "Mara"},
        fingerprint=row.control.fingerprint,
        ends_at=at + timedelta(days=days),
    )
    return replace(made, **parts)  # pyright: ignore[reportArgumentType]


async def put(context: Context, *proposals: Proposal) -> None:
    """Write proposals down."""
    batch = Batch(at=proposals[0].created_at)
    for proposal in proposals:
        assert proposal.row is not None
        scope = proposal.row.scope
        if scope.id not in context.sets and all(row["id"].id != scope.id for row in batch.scope_sets):
            batch.scope_sets.append(store_scopes.scope_set_row(scope, batch.at))
        batch.proposals.append(store_proposals.to_row(proposal))
        batch.rows.append(f"proposal:{proposal.id}")
    await context.commit(batch)


async def everything(context: Context) -> str:
    """All that the record of a context holds, as one text to look for words in."""
    found: list[str] = []
    for table in await store_tables.tables(context.db):
        async for page in store_tables.pages(context.db, table):
            found += map(str, page)
    return "\n".join(found)
