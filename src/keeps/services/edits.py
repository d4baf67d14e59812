"""A person changes what is kept: a new text is a new version, everything else stays on the same one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from keeps.core.access import Caller, Verb
from keeps.core.errors import Conflict, IllegalTransition, Unprocessable
from keeps.core.facts import PROVENANCE_TRUST, Fact, Row, Source
from keeps.core.memories import MAX_PINNED, Memory, check_kind, check_text, of_row
from keeps.core.screen import Screened
from keeps.core.status import Move
from keeps.core.supersession import same_value
from keeps.core.text import fold
from keeps.core.triples import Triple
from keeps.services import candidates, confirming, moves, standing, suppression
from keeps.services.index import Changes, entry_of
from keeps.services.proposing import triple_of
from keeps.services.reconcile import Incoming, Reconciliation, fingerprint_of, texts_of
from keeps.services.runtime import Context, Runtime
from keeps.services.standing import Held
from keeps.store import facts as store_facts
from keeps.store import memories as store_memories
from keeps.store import rows as store_rows
from keeps.store.commit import Batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """What changes; None leaves as it is. `lasts`: the end that was set goes."""

    text: str | None = None
    kind: str | None = None
    muted: bool | None = None
    pinned: bool | None = None
    expires_at: datetime | None = None
    lasts: bool = False


async def edit(
    rt: Runtime, context: Context, caller: Caller, memory_id: str, change: Edit, *, rev: int | None = None
) -> Memory:
    """The memory as changed. A new text makes a new version with an id of its own, which the one before points at.

    Raises:
        NotFound, Forbidden, IllegalTransition: there is none, it is not the caller's, or it is not in use.
        StaleRevision: it was changed since `rev`.
        Unprocessable: an unknown kind, a text its kind does not allow, an end in the past.
        SecretRefused: the new text holds a secret.
        Conflict: `MAX_PINNED` of its scope are pinned already.
    """

    async def act() -> Memory:
        held = await standing.find(rt, context, caller, memory_id, moves=True)
        standing.check_rev(held.memory, rev)
        await standing.allowed(rt, context, caller, held, Move.EDIT)
        row = held.memory.row
        if row is None or held.memory.proposal is not None:
            raise IllegalTransition("only what is kept can be edited: confirm it (a text may go along), or reject it")
        now = rt.clock()
        changed = await _changed(context, row, change, caller, now)
        if change.text is None:
            line = moves.entry(caller.principal_id, Move.EDIT, held.memory.ref)
            return await moves.write(context, row, changed, line, now)
        if not isinstance(changed, Fact):
            raise Unprocessable("only a fact has a text that can be edited")
        said = check_text(change.text, check_kind(changed.control.kind, context.consent.settings))
        triple = replace(triple_of(changed, {}), value=said, valid_from=None, confidence=None, source_clause=None)
        (found,) = await candidates.refuse_secrets([triple], row.labels, row.metadata)
        if fold(said) == fold(changed.value):
            return await _rewrite(context, caller, row, replace(changed, value=said), now)
        assert isinstance(row, Fact)
        return await _say_anew(context, caller, held, (row, changed), (triple, found), now)

    return await moves.alone(rt, context, memory_id, act, rev=rev, pins=change.pinned is True)


async def _changed(context: Context, row: Row, change: Edit, caller: Caller, now: datetime) -> Row:
    """The row with what people decide about it as it will be."""
    control = row.control
    fields: dict[str, Any] = {}
    if change.kind is not None:
        kind = check_kind(change.kind, context.consent.settings)
        if change.text is None and isinstance(row, Fact):
            check_text(row.value, kind)
        fields["kind"] = kind.name
    if change.muted is not None:
        fields["muted"] = change.muted
    if change.pinned is not None:
        if change.pinned and not control.pinned:
            held = await store_memories.count_pinned(context.db, row.scope.id, row.id)
            if held >= MAX_PINNED:
                raise Conflict(f"{MAX_PINNED} memories of this scope are pinned: unpin one first")
        fields["pinned"] = change.pinned
    if change.expires_at is not None and change.expires_at <= now:
        raise Unprocessable("expiresAt lies in the past: retire or delete the memory instead")
    if change.expires_at is not None or change.lasts:
        fields["expires_at"] = change.expires_at
    by = {"status_by": caller.principal_id, "status_reason": "user", "status_at": now}
    return replace(row, control=replace(control, **fields, **by, rev=control.rev + 1))


async def _rewrite(context: Context, caller: Caller, before: Row, after: Row, now: datetime) -> Memory:
    """Commit the same said in other letters: no new version, for it says nothing new."""
    assert isinstance(before, Fact)
    assert isinstance(after, Fact)
    assert same_value(before, after)
    batch, changes = Batch(at=now), Changes()
    summary = before.summary.replace(before.value, after.value) if before.value in before.summary else before.summary
    after = replace(after, summary=summary)
    moves.patch(batch, changes, before, after)
    folds = [context.fold_key(text) for text in texts_of(after)]
    record_id = store_facts.record_id(store_rows.ref_of(after))
    batch.patch(record_id, value=after.value, summary=summary, folds=folds, fingerprint=fingerprint_of(context, after))
    batch.vectors.append(store_rows.ref_of(after))
    changes.put[:] = [entry_of(after)]
    batch.entries.append(moves.entry(caller.principal_id, Move.EDIT, store_rows.ref_of(after)))
    await context.commit(batch, changes)
    return of_row(after, now)


async def _say_anew(
    context: Context,
    caller: Caller,
    held: Held,
    edited: tuple[Fact, Fact],
    said: tuple[Triple, Screened],
    now: datetime,
) -> Memory:
    """Commit a new version in the person's own words; it enters the record where everything does, and closes the one
    before, also where its key holds many values. `edited`: the row as it stands, and with what else was changed.
    `said`: the new text for it, and what screening found there."""
    batch, changes = Batch(at=now), Changes()
    (before, row), (triple, found) = edited, said
    control = confirming.agreed(context, row.control, held.actor, caller, now, reworded=True)
    control = confirming.screened_as(control, found)
    incoming = Incoming(
        triples=[triple],
        scope=row.scope,
        # The stream it came from, so that it takes the place of what it corrects.
        source=Source(kind=row.source.kind, trust=PROVENANCE_TRUST["upsert"]),
        control=control,
        now=now,
        known_at=now,
        observed=False,
        readable=context.sets.readable(caller.region(Verb.MEMORY_READ)),
        proposed_by=caller.principal_id,
        category=row.category,
        labels=row.labels,
        metadata=row.metadata,
        corrects={0: before},
    )
    extraction = await Reconciliation(context, incoming, batch, changes).run()
    kept = extraction.facts[0]
    batch.entries.append(moves.entry(caller.principal_id, Move.EDIT, f"attribute:{kept.id}"))
    await suppression.lift(batch, context, [kept])
    await context.commit(batch, changes)
    stored = await store_memories.find_row(context.db, context.sets, kept.id)
    return of_row(stored or kept, now)
