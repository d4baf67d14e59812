"""Citations: what an answer says it relied on is verified, counted once, and shown as memories a person knows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from keeps.core.access import Caller
from keeps.core.citations import PASSAGE_SHOWN_AS, SHOWN_AS, Verified, safe_part, verify_cites
from keeps.core.facts import Row, Status
from keeps.core.runs import Candidate, Run
from keeps.core.screen import without_secrets
from keeps.core.sessions import Turn
from keeps.core.validity import offered as may_be_given
from keeps.services import importance, runs
from keeps.services.history import heard
from keeps.services.run_buffer import MOST_ANSWERS, MOST_BAD, Kept
from keeps.services.runtime import Context, Runtime
from keeps.services.sight import sight_of
from keeps.store import hits as store_hits
from keeps.store import proposals as store_proposals
from keeps.store import runs as store_runs

_STANDING: Final = frozenset({Status.CONFIRMED, Status.SUPERSEDED})
"""What stood in a prompt may have been replaced since; that it was relied on stays true."""

PASSAGE: Final = "passage"
_READ_CHARS: Final = 1024
"""Characters of a cite that is none which are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedMemory:
    """A memory as a person is shown it: its text out of the record, who stands behind it, since when it is known."""

    id: str
    kind: str
    text: str
    origin: str
    label: str
    at: datetime


@dataclass(frozen=True, slots=True)
class MemoriesUsed:
    """What an answer relied on, and what its prompt held besides; only what the reader may read, in its order."""

    cited: tuple[UsedMemory, ...] = ()
    also_shown: tuple[UsedMemory, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cited:
    """What became of the cites of one answer. `memories_used` None: the context does not show them."""

    verified: Verified
    memories_used: MemoriesUsed | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """A candidate as its reader sees it. `gone`: there is nothing left to see for them, and its id is not told."""

    candidate: Candidate
    cited: bool
    gone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """A run with what it weighed. `memories_used` only for its agent and for whom it was given memory of."""

    run: Run
    weighed: tuple[Weighed, ...] = ()
    bad: tuple[str, ...] = ()
    memories_used: MemoriesUsed | None = None


async def cite(rt: Runtime, context: Context, caller: Caller, run_id: str, cites: Sequence[str]) -> Cited:
    """Verify what an answer of the caller's run cites; what stands is counted, once a run and memory.

    Raises:
        NotFound: the caller has no such run.
    """
    kept = await runs.own(context, caller, run_id)
    now = rt.clock()
    offered = kept.offered
    verified = verify_cites(cites, offered, await _shown(context, caller, offered.intersection(cites), now))
    answer = tuple(cites)
    if cites and not kept.run.temporary and answer not in kept.answers:
        if len(kept.answers) < MOST_ANSWERS:
            kept.answers.add(answer)
        kept.cite(verified.kept, now)
        _note_bad(kept, [each for each in verified.dropped if each not in offered], now)
        dropped = kept.run.cites_dropped + len(verified.dropped)
        context.runs.change(kept, now, cites_kept=len(kept.cited), cites_dropped=dropped)
        await importance.refresh(rt, context, kept)
    return Cited(verified=verified, memories_used=await memories_used(rt, context, caller, run_id))


async def memories_used(rt: Runtime, context: Context, caller: Caller, run_id: str) -> MemoriesUsed | None:
    """The memories of a run, ready to be shown; None where the context does not show them.

    Raises:
        NotFound: it is neither the caller's own run nor one that was given their memory.
    """
    kept = await runs.looked_at(context, caller, run_id)
    if not context.consent.settings.show_memories_used or not _may_read(caller, kept):
        return None
    return _used(kept, await _shown(context, caller, kept.offered, rt.clock()))


async def view(rt: Runtime, context: Context, caller: Caller, run_id: str) -> RunView:
    """One run with its candidates by rank; what is gone, or not this reader's, is not named.

    Raises:
        NotFound: the caller may not look at it.
    """
    kept = await runs.looked_at(context, caller, run_id)
    names = list(kept.candidates)
    readable: Mapping[str, UsedMemory] = {}
    if _may_read(caller, kept):
        readable = await _shown(context, caller, names, rt.clock())
    there = readable if readable or not runs.is_admins(caller) else await store_runs.standing(context.db, names)
    shows = context.consent.settings.show_memories_used and _may_read(caller, kept)
    return RunView(
        run=replace(runs.told_of(kept.run, there), proposed=await runs.count_proposed(context, run_id)),
        weighed=tuple(
            Weighed(candidate=each, cited=each.memory in kept.cited, gone=each.memory not in there)
            for each in _ranked(kept)
        ),
        bad=tuple(kept.bad) if runs.is_own(caller, kept.run) or runs.is_admins(caller) else (),
        memories_used=_used(kept, readable) if shows else None,
    )


def _may_read(caller: Caller, kept: Kept) -> bool:
    """True for those who may be shown texts; who only administers sees ids and numbers."""
    return runs.is_own(caller, kept.run) or runs.is_persons(caller, kept.run)


def _ranked(kept: Kept) -> list[Candidate]:
    return sorted(kept.candidates.values(), key=lambda each: (each.rank, each.memory))


def _used(kept: Kept, shown: Mapping[str, UsedMemory]) -> MemoriesUsed:
    offered = kept.offered
    listed = [shown[each.memory] for each in _ranked(kept) if each.memory in offered and each.memory in shown]
    return MemoriesUsed(
        tuple(each for each in listed if each.id in kept.cited),
        tuple(each for each in listed if each.id not in kept.cited),
    )


def _note_bad(kept: Kept, dropped: Sequence[str], now: datetime) -> None:
    """Note what stood in an answer where an id should, as far as it holds no secret."""
    parts = [safe_part(without_secrets(each[:_READ_CHARS])[0]) for each in dropped]
    new = [part for part in dict.fromkeys(parts) if part and part not in kept.bad]
    if new:
        kept.bad = [*kept.bad, *new][:MOST_BAD]
        kept.bad_at = now


# ---------------------------------------------------------------------- out of the record
async def _shown(context: Context, caller: Caller, names: Collection[str], now: datetime) -> dict[str, UsedMemory]:
    """Those of the memories that stand and that the caller can read now, as they are shown."""
    sight = sight_of(context, caller)
    refs = {name: name for name in names if name.partition(":")[0] in store_runs.ROW_TABLES}
    pieces = await store_runs.pieces(context.db, [name for name in names if name.startswith("memory_chunk:")])
    refs |= {name: piece.turn for name, piece in pieces.items()}
    rows = await store_hits.by_refs(context.db, context.sets, sorted(set(refs.values())), sight.sets)
    may_hear = await heard(context, caller, [row for row in rows.values() if isinstance(row, Turn)], answered=True)
    shown: dict[str, UsedMemory] = {}
    for name, ref in refs.items():
        row = rows.get(ref)
        if isinstance(row, Turn):
            if row.active and row.id in may_hear:
                shown[name] = _passage(name, row, pieces.get(name))
        elif row is not None and _stands(row, now) and sight.shows_kind(row.scope, row.control.kind):
            shown[name] = _memory(name, row)
    for name in names:
        if name.startswith("proposal:"):
            waiting = await store_proposals.find(context.db, context.sets, name.partition(":")[2])
            if waiting is None or waiting.status is not Status.PROPOSED or waiting.scope_set not in sight.sets:
                continue
            if waiting.row is not None:
                shown[name] = _memory(name, waiting.row)
    return shown


def _stands(row: Row, now: datetime) -> bool:
    return row.clocks.forgotten_at is None and row.control.status in _STANDING and may_be_given(row.control, now)


def _memory(name: str, row: Row) -> UsedMemory:
    control = row.control
    return UsedMemory(
        id=name,
        kind=control.kind,
        text=row.summary,
        origin=control.origin.value,
        label=SHOWN_AS[control.origin],
        at=row.clocks.known_at,
    )


def _passage(name: str, turn: Turn, piece: store_runs.Piece | None) -> UsedMemory:
    text = turn.content[piece.start : piece.end] if piece else turn.content
    return UsedMemory(
        id=name,
        kind=PASSAGE,
        text=f"{turn.speaker or turn.role}: {text}",
        origin=turn.origin.value,
        label=PASSAGE_SHOWN_AS,
        at=turn.known_at,
    )
