"""A person takes a sentence out of history: it is remembered, and points at where it was said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from keeps.core.access import Caller, Verb, check_write
from keeps.core.errors import Forbidden, NotFound, StaleHead, Unprocessable
from keeps.core.facts import PROVENANCE_TRUST, Fact, Origin, Source
from keeps.core.kinds import INSTRUCTION
from keeps.core.memories import check_kind, check_slot, check_text
from keeps.core.screen import may_instruct
from keeps.core.sessions import Turn
from keeps.core.summaries import NOTE_PREFIX
from keeps.core.triples import Family, Named, Triple
from keeps.services import audit, candidates, memories, moves, standing, suppression
from keeps.services.candidates import Given
from keeps.services.history import heard
from keeps.services.incoming import Incoming
from keeps.services.index import Changes
from keeps.services.reconcile import Reconciliation
from keeps.services.runtime import MAX_REPLANS, Context, Runtime, new_id
from keeps.services.standing import PEOPLE
from keeps.store import sessions as store_sessions
from keeps.store.commit import Batch
from keeps.store.rows import ref_of

_ACTION: Final = "memory.promote"
_NOTE_CHARS: Final = 12
_NOTE: Final = "note"
_STATED: Final = "api"


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """What to remember: an exact part of a turn, or all of a turn or of one passage of it. `slot`: what it is about."""

    turn: str | None = None
    chunk: str | None = None
    text: str | None = None
    kind: str = _NOTE
    slot: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Promoted:
    """What is remembered now, and where it was said: characters `start` to `end` of the turn."""

    row: Fact
    turn: str
    start: int
    end: int

    @property
    def ref(self) -> str:
        """Where it lies, as `table:id`."""
        return ref_of(self.row)


async def promote(rt: Runtime, context: Context, caller: Caller, request: Promotion) -> Promoted:
    """Remember a part of what was said, in the scope it was said in; where it came from stays with it.

    Raises:
        Forbidden: for who is no person, or not the one it belongs to; that is written down.
        NotFound: there is no such turn, or none for this caller.
        Unprocessable: the text is no exact part of it, or does not fit its kind.
        SecretRefused: it holds a secret.
    """
    if not caller.is_person:
        await audit.denied(rt, context, caller, _ACTION, "history")
        raise Forbidden("only the person it belongs to takes something out of history: an agent proposes it")
    turn, start, end = await _found(context, caller, request)
    if standing.actor_of(context, caller, turn.scope) not in PEOPLE:
        await audit.denied(rt, context, caller, _ACTION, f"turn:{turn.id}")
        raise Forbidden("only the person it belongs to takes this out of history")
    check_write(turn.scope, caller.region(Verb.MEMORY_WRITE))
    entity = await memories.about(rt, context, caller, turn.scope)
    triple = _triple(context, entity, request, turn.content[start:end])
    async with context.alone_on({str(triple.entity.ref)}):
        for attempt in range(1, MAX_REPLANS + 1):
            try:
                row = await _keep(rt, context, caller, request.kind, turn, triple)
            except StaleHead:
                if attempt == MAX_REPLANS:
                    raise
            else:
                return Promoted(row=row, turn=turn.id, start=start, end=end)
    raise AssertionError("unreachable")


async def _found(context: Context, caller: Caller, request: Promotion) -> tuple[Turn, int, int]:
    """The turn, and which part of it is meant."""
    turn_id, within = request.turn, None
    if request.chunk is not None:
        found = await store_sessions.find_chunk(context.db, request.chunk)
        if found is None:
            raise NotFound(f"memory_chunk {request.chunk} does not exist")
        turn_id, within = found[0], (found[1].start, found[1].end)
    assert turn_id is not None
    readable = context.sets.readable(caller.region(Verb.MEMORY_READ))
    turn = (await store_sessions.turns_by_id(context.db, context.sets, [turn_id], readable)).get(turn_id)
    if turn is None or not turn.active or turn.id not in await heard(context, caller, [turn]):
        raise NotFound(f"turn {turn_id} does not exist")
    start, end = within or (0, len(turn.content))
    if request.text is not None:
        at = turn.content.find(request.text, start, end)
        if not request.text.strip() or at < 0:
            raise Unprocessable("text is no exact part of what was said there: copy it letter by letter")
        start, end = at, at + len(request.text)
    return turn, start, end


def _triple(context: Context, entity: Named, request: Promotion, text: str) -> Triple:
    kind = check_kind(request.kind, context.consent.settings)
    said = check_text(text, kind)
    if kind.name == INSTRUCTION and not may_instruct(said):
        raise Unprocessable("an instruction is about language, tone, length or form: keep this as a note instead")
    key = check_slot(request.slot) if request.slot is not None else NOTE_PREFIX + new_id()[:_NOTE_CHARS]
    return Triple(family=Family.ATTRIBUTE, entity=entity, key=key, value=said, source_clause=text)


async def _keep(rt: Runtime, context: Context, caller: Caller, kind: str, turn: Turn, triple: Triple) -> Fact:
    now = rt.clock()
    batch, changes = Batch(at=now), Changes()
    given = Given(
        scope=turn.scope,
        origin=Origin.USER_SAVED,
        agent=caller.principal_id,
        heard=turn.content,
        taint=turn.taint,
        kind=kind,
        confirmed_by=caller.principal_id,
    )
    screened = await candidates.refuse_secrets([triple], (), None)
    judged = candidates.judge(context, given, [triple], screened, now)
    if judged.drops or judged.waits:
        why = next(iter(judged.drops.values()), "policy")
        raise Unprocessable(f"this may not be remembered here: {why}")
    incoming = Incoming(
        triples=[triple],
        scope=turn.scope,
        # It is the person who states it now; that it was said before says only where it stands.
        source=Source(kind=_STATED, ref=f"turn:{turn.id}", session=turn.session, trust=PROVENANCE_TRUST["upsert"]),
        control=judged.controls[0],
        now=now,
        known_at=now,
        observed=False,
        readable=context.sets.readable(caller.region(Verb.MEMORY_READ)),
        proposed_by=caller.principal_id,
        labels=turn.labels,
    )
    extraction = await Reconciliation(context, incoming, batch, changes).run()
    kept = extraction.facts[0]
    batch.entries.append(moves.entry(caller.principal_id, "promote", ref_of(kept)))
    await suppression.lift(batch, context, [kept])
    await context.commit(batch, changes)
    return kept
