"""When a policy was tightened: what it would not keep unasked any more may go back to be asked about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from keeps.core.access import Caller
from keeps.core.audit import Entry
from keeps.core.erasure import Gone, Order
from keeps.core.errors import Forbidden, StaleHead
from keeps.core.facts import Origin, Row, Status
from keeps.core.policy import Drop, Subject, Why, decide
from keeps.core.proposals import Proposal
from keeps.services import audit, erase, roles
from keeps.services.reconcile import fingerprint_of, texts_of
from keeps.services.runtime import Context, Runtime
from keeps.store import entities as store_entities
from keeps.store import erase as store_erase
from keeps.store import facts as store_facts
from keeps.store import proposals as store_proposals
from keeps.store import sweep as store_sweep
from keeps.store.rows import ref_of

MOST: Final = 100
"""How many rows go back in one call: as many as an inbox holds."""

_ACTOR: Final = "policy"
_UNASKED: Final[Mapping[Origin, Origin]] = {
    Origin.AUTO_ACCEPTED: Origin.AGENT_INFERRED,
    Origin.APP_WRITTEN: Origin.APP_WRITTEN,
}
"""What nobody said yes to, and as what it came."""


async def reconsider(rt: Runtime, context: Context, caller: Caller, *, dry_run: bool = False) -> int:
    """Put what the policy in force would not keep unasked among what waits, at most `MOST` rows; how many, or with
    `dry_run` how many would go. What a person stands behind stays.

    Raises: Forbidden unless an owner or an admin asks; that is written down.
    """
    if not roles.is_admin(context, caller):
        await audit.denied(rt, context, caller, "memory.reconsider", "policy")
        raise Forbidden("what was kept is reconsidered by owners and admins of the context")
    now = rt.clock()
    rows = [row async for row in store_sweep.unasked(context.db, context.sets, list(map(str, _UNASKED)))]
    asked = [(row, why) for row in rows if (why := _why(context, row, now)) is not None][:MOST]
    if dry_run:
        return len(asked)
    moved = 0
    for row, why in asked:
        moved += await _back(rt, context, row, why)
    return moved


def _why(context: Context, row: Row, now: datetime) -> Why | None:
    """Why a row would wait if it came now; None when it would be kept, or is stopped by something that passes."""
    control, nodes = row.control, row.scope.nodes()
    subject = Subject(
        kind=control.kind,
        origin=_UNASKED[control.origin],
        agent=control.proposed_by or "",
        nodes=nodes,
        personal=context.consent.person_of(nodes) is not None,
        sensitivity=control.sensitivity,
        topics=control.topics,
        tainted=bool(control.taint),
        stated=True,
    )
    verdict = decide(
        subject,
        settings=context.consent.settings,
        controls=context.consent.over(row.scope),
        now=now,
        trusted_writer=control.origin is Origin.APP_WRITTEN,
    )
    if verdict.status is Status.PROPOSED:
        return verdict.why
    return Why.POLICY if verdict.drop is Drop.POLICY else None


async def _back(rt: Runtime, context: Context, row: Row, why: Why) -> bool:
    """Take one row out of use and put it into the inbox under its own id; False when it changed meanwhile."""
    ref, entities = ref_of(row), store_facts.entities_of(row)
    async with context.alone_on({*map(str, entities), f"memory:{row.id}", erase.ERASING}), context.traces.quiet():
        now = rt.clock()
        stands = (await store_facts.by_refs(context.db, context.sets, [ref], {row.scope.id})).get(ref)
        if stands is None or stands.control.rev != row.control.rev or stands.control.user_confirmed:
            return False
        # It leaves the record as what is deleted does, and is no deletion: no ledger has to know of it.
        planned = await store_erase.plan(context.db, context.sets, Order(rows={ref: Gone.PURGE}), now)
        known = await store_entities.presences(context.db, entities, {row.scope.id})
        names = {str(entity): places[0].display for entity, places in known.items()}
        proposal = _proposal(context, row, why, names, now)
        folds = [context.fold_key(text) for text in texts_of(row)]
        planned.batch.proposals.append(store_proposals.to_row(proposal, folds=folds))
        planned.batch.rows.append(f"{store_proposals.PROPOSAL}:{proposal.id}")
        planned.batch.entries.append(Entry(actor=_ACTOR, action="memory.tighten", target=ref))
        try:
            await context.commit(planned.batch, await erase.changes_of(context, planned))
        except StaleHead:
            return False
    return True


def _proposal(context: Context, row: Row, why: Why, names: Mapping[str, str], now: datetime) -> Proposal:
    fingerprint = row.control.fingerprint or fingerprint_of(context, row)
    control = replace(
        row.control,
        status=Status.PROPOSED,
        origin=_UNASKED[row.control.origin],
        status_by=_ACTOR,
        status_reason="policy:tightened",
        status_at=now,
        fingerprint=fingerprint,
    )
    return Proposal(
        id=row.id,
        row=replace(row, control=control),
        status=Status.PROPOSED,
        reason=str(why),
        proposed_by=row.control.proposed_by or _ACTOR,
        created_at=now,
        scope_set=row.scope.id,
        kind=row.control.kind,
        names=names,
        source_ref=row.source.ref,
        run=row.source.run,
        fingerprint=fingerprint,
        ends_at=now + timedelta(days=context.consent.settings.proposal_ttl_days),
    )
