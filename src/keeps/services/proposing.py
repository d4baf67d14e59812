"""Proposals: what waits for a person is put into the inbox, as far as there is room and it is not there already."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from keeps.core import summaries
from keeps.core.access import Region
from keeps.core.cardinality import chain_key
from keeps.core.entities import EntityRef
from keeps.core.facts import Action, Fact, Relation, Row, Status
from keeps.core.policy import Drop
from keeps.core.proposals import Proposal
from keeps.core.scopes import Pattern, Scope
from keeps.core.triples import Family, Named, Triple
from keeps.services import runs
from keeps.services.incoming import DoubtRow, Extraction, Incoming, Left, Wait, Waiting, add_doubt
from keeps.services.reconcile import entities_of, fingerprint_of, texts_of
from keeps.services.runtime import Context
from keeps.store import named as store_named
from keeps.store import proposals as store_proposals
from keeps.store import replies as store_replies
from keeps.store import rows as store_rows
from keeps.store import uncertainties as store_uncertainties
from keeps.store.commit import Batch
from keeps.store.proposals import Stub

INBOX: Final = "inbox"
"""Held from counting what waits until the commit: two writers never fill the last place both."""

_A_DAY: Final = timedelta(days=1)


def propose(
    batch: Batch,
    context: Context,
    row: Row,
    *,
    wait: Wait,
    names: Mapping[str, str],
    proposed_by: str,
    conflicts_with: str | None = None,
    asked: bool = False,
) -> Proposal:
    """Add a row to a batch as a proposal: it takes the id of the row, and goes by itself after its time."""
    settings = context.consent.settings
    days = settings.quarantine_ttl_days if wait.status is Status.QUARANTINED else settings.proposal_ttl_days
    fingerprint = row.control.fingerprint or fingerprint_of(context, row)
    row = replace(row, control=replace(row.control, status=wait.status, fingerprint=fingerprint))
    proposal = Proposal(
        id=row.id,
        row=row,
        status=wait.status,
        reason=str(wait.why),
        reasons=wait.reasons,
        proposed_by=proposed_by,
        created_at=batch.at,
        scope_set=row.scope.id,
        kind=row.control.kind,
        names=names,
        conflicts_with=conflicts_with,
        source_ref=row.source.ref,
        run=row.source.run,
        asked=asked,
        fingerprint=fingerprint,
        ends_at=batch.at + timedelta(days=days),
    )
    folds = [context.fold_key(text) for text in texts_of(row)]
    batch.proposals.append(store_proposals.to_row(proposal, folds=folds))
    batch.rows.append(f"{store_proposals.PROPOSAL}:{proposal.id}")
    return proposal


def triple_of(row: Row, names: Mapping[str, str]) -> Triple:
    """A row as the triple it came from, to enter reconciliation once a person said yes. `names`: as in the proposal."""
    clocks = row.clocks
    since = clocks.valid_from if clocks.valid_from != clocks.known_at else None
    said = Triple(
        family=Family.ENTITY,
        entity=_named(entities_of(row)[0], names),
        category=row.category,
        confidence=row.confidence,
        occurred_at=row.occurred_at,
        source_clause=row.source_clause,
        hidden_chars="hidden_chars" in row.control.flags,
    )
    if isinstance(row, Fact):
        timed = replace(said, valid_from=since, valid_until=clocks.valid_until)
        return replace(timed, family=Family.ATTRIBUTE, key=row.key, value=row.value)
    if isinstance(row, Relation):
        timed = replace(said, valid_from=since, valid_until=clocks.valid_until)
        return replace(timed, family=Family.RELATION, key=row.label, target=_named(row.object, names))
    assert isinstance(row, Action)
    what = row.object_text if row.object is None else _named(row.object, names).name
    return replace(said, family=Family.ACTION, verb=row.verb, object_text=what, summary=row.summary)


def _named(ref: EntityRef, names: Mapping[str, str]) -> Named:
    return Named(ref, names.get(str(ref), ref.name))


@dataclass(slots=True)
class _Room:
    """How many more proposals fit, and what is there already. `slots`: what the same agent has in the inbox."""

    run: int
    day: int
    inbox: int
    said: set[str]
    slots: dict[tuple[str, str, str], Stub]

    def full(self) -> Drop | None:
        """Why no further proposal fits, or None."""
        if self.run <= 0:
            return Drop.RUN_FULL
        if self.day <= 0:
            return Drop.DAY_FULL
        return Drop.INBOX_FULL if self.inbox <= 0 else None

    def take(self, proposal: Proposal) -> None:
        """Count one in."""
        self.run, self.day, self.inbox = self.run - 1, self.day - 1, self.inbox - 1
        if proposal.row is not None:
            self.said.add(proposal.fingerprint)


async def enter(context: Context, batch: Batch, incoming: Incoming, extraction: Extraction) -> None:
    """Turn what waits into proposals of the batch, and name what was left out and why. Hold `INBOX` until the commit.

    Left out is what the caller can read already, what waits already, and what there is no room for. A newer proposal of
    the same agent for the same slot takes the place of the older one.
    """
    waiting = extraction.waiting
    if not waiting:
        return
    known = await _known(context, incoming, waiting)
    room = await _room(context, incoming)
    replaced: list[Stub] = []
    for place, one in enumerate(waiting):
        row = one.row
        older = room.slots.get(_slot(row)) if isinstance(row, Fact) else None
        why = _left_out(one, place, known, room, replaces=older is not None)
        if why is not None:
            extraction.dropped.append(Left(one.number, row.control.kind, why))
            continue
        proposal = propose(
            batch,
            context,
            row,
            wait=one.wait,
            names=one.names,
            proposed_by=incoming.proposed_by,
            conflicts_with=None if one.beside is None else store_rows.ref_of(one.beside),
            asked=incoming.asked,
        )
        room.take(proposal)
        extraction.proposals.append(proposal)
        if older is not None:
            room.inbox += 1
            replaced.append(room.slots.pop(_slot(row)))
        if one.doubt is not None:
            extraction.doubts.append(one.doubt)
            _add_conflict(batch, incoming, one)
    extraction.waiting = []
    await _replace(context, batch, replaced)


def _left_out(one: Waiting, place: int, known: Collection[int], room: _Room, *, replaces: bool) -> Drop | None:
    if place in known or one.row.control.fingerprint in room.said:
        return Drop.KNOWN
    why = room.full()
    return None if why is Drop.INBOX_FULL and replaces else why


async def _known(context: Context, incoming: Incoming, waiting: Sequence[Waiting]) -> set[int]:
    """The places of what the caller can read already, in any scope: the same value, or the same sentence."""
    folds = [[context.fold_key(text) for text in texts_of(one.row)] for one in waiting]
    every = sorted({fold for each in folds for fold in each})
    if not every or not incoming.readable:
        return set()
    there = await store_named.live_with(context.db, every, incoming.readable, incoming.now)
    known: set[int] = set()
    for place, one in enumerate(waiting):
        row = one.row
        for found in there:
            if isinstance(row, Fact) and not row.key.startswith(summaries.NOTE_PREFIX):
                same = folds[place][1] in found.folds or (
                    found.entity == str(row.entity) and found.key == row.key and folds[place][0] in found.folds
                )
            else:
                same = folds[place][0] in found.folds
            if same:
                known.add(place)
    return known


async def _room(context: Context, incoming: Incoming) -> _Room:
    limits = context.consent.settings.writes
    sets = cohort(context, incoming.scope)
    found = await store_proposals.stubs(context.db, sets, since=incoming.now - _A_DAY)
    run = incoming.source.run
    return _Room(
        # Without a run the day alone counts.
        run=limits.max_proposals_per_run - await runs.count_proposed(context, run) if run else len(incoming.triples),
        day=limits.max_proposals_per_day - found.lately,
        inbox=limits.max_inbox - len(found.open),
        said={stub.fingerprint for stub in found.open},
        slots={stub.slot: stub for stub in found.open if stub.slot and stub.proposed_by == incoming.proposed_by},
    )


async def has_room(context: Context, scope: Scope, now: datetime) -> Drop | None:
    """Why no further question fits into the inbox a scope shares, or None. Hold `INBOX` until the commit."""
    limits = context.consent.settings.writes
    found = await store_proposals.stubs(context.db, cohort(context, scope), since=now - _A_DAY)
    if found.lately >= limits.max_proposals_per_day:
        return Drop.DAY_FULL
    return Drop.INBOX_FULL if len(found.open) >= limits.max_inbox else None


def cohort(context: Context, scope: Scope) -> frozenset[str]:
    """The scope sets that share one inbox with a scope: all of the person it belongs to, else itself alone."""
    person = context.consent.person_of(scope.nodes())
    if person is None:
        return frozenset({scope.id})
    homes = (home for home, who in context.consent.homes.items() if who == person)
    region = Region(tuple(Pattern(home, subtree=True) for home in homes))
    return context.sets.readable(region) | {scope.id}


def _slot(row: Row) -> tuple[str, str, str]:
    assert isinstance(row, Fact)
    return (row.scope.id, str(row.entity), chain_key(row.key, row.value, row.category, row.id))


def _add_conflict(batch: Batch, incoming: Incoming, one: Waiting) -> None:
    """Note the doubt by ids and by the key of the value that stands: the new one is not known to anybody yet."""
    doubt = one.doubt
    assert doubt is not None
    contenders = (f"attribute:{doubt.standing.id}", f"attribute:{doubt.incoming.id}")
    about = summaries.words_of(doubt.standing.key)
    add_doubt(batch, incoming, DoubtRow(about, doubt.reason, doubt.kind, doubt.standing, contenders))


async def _replace(context: Context, batch: Batch, older: Sequence[Stub]) -> None:
    """Close proposals that a newer one of the same agent took the place of; their text goes, from kept replies too."""
    for stub in older:
        proposal = await store_proposals.find(context.db, context.sets, stub.id)
        if proposal is None or not proposal.is_open:
            continue
        closed = replace(
            proposal,
            row=None,
            names={},
            status=Status.SUPERSEDED,
            status_by="policy",
            status_at=batch.at,
            rev=proposal.rev + 1,
        )
        record = store_proposals.to_row(closed)
        batch.guards.append({"id": record["id"], "rev": proposal.rev})
        batch.puts.append({"id": record.pop("id"), "row": record})
        ref = f"{store_proposals.PROPOSAL}:{proposal.id}"
        batch.rows.append(ref)
        for reply in await store_replies.telling_of(context.db, [ref]):
            batch.patch(reply, body="", erased=True)
        for doubt in await store_uncertainties.open_about(context.db, proposal.scope_set, f"attribute:{proposal.id}"):
            batch.patch(doubt, resolved=True, resolved_at=batch.at)
            batch.touch(doubt)
