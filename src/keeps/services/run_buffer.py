"""Runs of agents on their way to the record: each is in memory at once, many are saved together, no read waits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from keeps.core.runs import Candidate, Inclusion, Run
from keeps.services.consent import Consent
from keeps.services.trace_buffer import TraceBuffer
from keeps.store import runs as store_runs
from keeps.store.db import Db
from keeps.store.runs import Saved, Stored
from keeps.store.scopes import ScopeSets

KEPT: Final = 4096
"""Runs that stay in memory, at most, besides those that wait to be saved: the others are read again when needed."""

MOST_CANDIDATES: Final = 500
"""Candidates that one run notes, at most; what stood in a prompt is always noted."""

MOST_BAD: Final = 20
"""Cites that were dropped and are noted, at most."""

MOST_ANSWERS: Final = 50
"""Answers of one run that are told apart from their retries, at most."""

SaveRuns = Callable[[Sequence["Kept"]], Awaitable[None]]


@dataclass(slots=True, eq=False)
class Kept:
    """A run in memory. `offered_at`, `cited_at`: when, by memory, as far as that is not saved yet."""

    run: Run
    active_at: datetime
    candidates: dict[str, Candidate] = field(default_factory=dict[str, Candidate])
    offered_at: dict[str, datetime] = field(default_factory=dict[str, datetime])
    cited_at: dict[str, datetime] = field(default_factory=dict[str, datetime])
    cited: set[str] = field(default_factory=set[str])
    bad: list[str] = field(default_factory=list[str])
    bad_at: datetime | None = None
    answers: set[tuple[str, ...]] = field(default_factory=set[tuple[str, ...]])
    """What was cited so far, answer by answer: the same again is a retry and counts nothing."""
    waits: bool = False

    @property
    def offered(self) -> frozenset[str]:
        """The memories that stood in a prompt of this run."""
        return frozenset(each.memory for each in self.candidates.values() if each.inclusion is Inclusion.INCLUDED)

    def add(self, candidates: Iterable[Candidate], at: datetime) -> None:
        """Take candidates in. What stood in a prompt once, did, whatever is said of it later."""
        for each in candidates:
            before = self.candidates.get(each.memory)
            if before is not None and before.inclusion is Inclusion.INCLUDED:
                continue
            shown = each.inclusion is Inclusion.INCLUDED
            if not shown and (before is not None or len(self.candidates) >= MOST_CANDIDATES):
                continue
            self.candidates[each.memory] = each
            if shown:
                self.offered_at[each.memory] = at

    def cite(self, kept: Collection[str], at: datetime) -> set[str]:
        """Note what an answer relied on; what of it is new to this run."""
        new = set(kept) - self.cited
        self.cited |= new
        self.cited_at.update(dict.fromkeys(new, at))
        return new

    def to_save(self) -> Saved:
        """What of it is not saved yet."""
        return Saved(
            run=self.run,
            active_at=self.active_at,
            candidates=[self.candidates[memory] for memory in sorted(self.offered_at)],
            left_out=[each for each in self.candidates.values() if each.inclusion is not Inclusion.INCLUDED],
            offered_at=dict(self.offered_at),
            cited_at=dict(self.cited_at),
            bad=tuple(self.bad),
            bad_at=self.bad_at,
        )

    def saved(self, what: Saved) -> None:
        """Take note that this much is saved."""
        for memory in what.offered_at:
            self.offered_at.pop(memory, None)
        for memory in what.cited_at:
            self.cited_at.pop(memory, None)


class RunBuffer:
    """The runs of one context that are in memory, and the temporary chats that ever were."""

    def __init__(self, save: SaveRuns) -> None:
        self._kept: dict[str, Kept] = {}
        self._save = save
        self._temporary: set[str] = set()
        self._temporary_sessions: set[str] = set()
        self.traces: TraceBuffer[Kept] = TraceBuffer(self._save_some, what="runs", on_drop=_waits_no_more)

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, run_id: str) -> Kept | None:
        """The run, when it is in memory."""
        return self._kept.get(run_id)

    def all(self) -> list[Kept]:
        """Every run that is in memory."""
        return list(self._kept.values())

    def open(self, run: Run) -> Kept:
        """Take a new run in; it is saved soon."""
        kept = Kept(run, active_at=run.started_at)
        if run.temporary:
            self.mark_temporary(run.id, run.session)
        self._keep(kept)
        self.touch(kept, run.started_at)
        return kept

    def take(self, stored: Stored) -> Kept:
        """Keep a run that was read from the record, unless it is here already."""
        known = self._kept.get(stored.run.id)
        if known is not None:
            return known
        kept = Kept(
            stored.run,
            active_at=stored.active_at,
            candidates={each.memory: each for each in stored.candidates},
            cited=set(stored.cited),
            bad=list(stored.bad),
            bad_at=stored.bad_at,
        )
        self._keep(kept)
        return kept

    def change(self, kept: Kept, at: datetime, **changes: object) -> None:
        """Change what a run says, and save it soon."""
        kept.run = replace(kept.run, **changes)  # type: ignore[arg-type]
        self.touch(kept, at)

    def touch(self, kept: Kept, at: datetime) -> None:
        """Save a run soon, as it will stand then."""
        kept.active_at = max(kept.active_at, at)
        if not kept.waits:
            kept.waits = True
            self.traces.put(kept)

    def drop_old(self, before: datetime, bad_before: datetime) -> None:
        """Forget runs from before a time, and what stood for ids in answers from before another."""
        for kept in self.all():
            if kept.bad_at is not None and kept.bad_at < bad_before:
                kept.bad, kept.bad_at = [], None
        self.forget([kept.run.id for kept in self.all() if kept.run.started_at < before])

    def forget(self, run_ids: Iterable[str]) -> None:
        """Drop runs from memory, saved or not."""
        for run_id in run_ids:
            self._kept.pop(run_id, None)

    # ------------------------------------------------------------------ temporary chats
    def mark_temporary(self, run_id: str, session: str | None) -> None:
        """Note that nothing may be kept of a run and its session, ever."""
        self._temporary.add(run_id)
        if session is not None:
            self._temporary_sessions.add(session)

    def is_temporary(self, run_id: str | None, session: str | None) -> bool:
        """True when nothing may be read or kept there."""
        return run_id in self._temporary or session in self._temporary_sessions

    # ------------------------------------------------------------------ saving
    async def _save_some(self, runs: Sequence[Kept]) -> None:
        for kept in runs:
            kept.waits = False
        try:
            await self._save(runs)
        except BaseException:
            for kept in runs:
                kept.waits = True
            raise

    def _keep(self, kept: Kept) -> None:
        self._kept[kept.run.id] = kept
        if len(self._kept) > KEPT:
            idle = [id_ for id_, one in self._kept.items() if not one.waits and one is not kept]
            self.forget(idle[: len(self._kept) - KEPT * 3 // 4])


def _waits_no_more(kept: Kept) -> None:
    """A run that could not be saved is tried again when something more comes of it."""
    kept.waits = False


async def save(db: Db, sets: ScopeSets, consent: Consent, runs: Sequence[Kept]) -> None:
    """Write what of the runs is not saved yet, and note whose memory each was given."""
    shown = {memory for kept in runs for memory in kept.offered_at}
    lies_in = await store_runs.owners(db, shown)
    saved: list[tuple[Kept, Saved]] = []
    for kept in runs:
        scopes = {lies_in[memory] for memory in kept.offered_at if memory in lies_in}
        people = {consent.homes[home] for each in scopes if each in sets for home in consent.homes_of(sets[each])}
        if not people <= kept.run.people:
            kept.run = replace(kept.run, people=kept.run.people | people)
        saved.append((kept, kept.to_save()))
    await store_runs.save(db, [what for _, what in saved])
    for kept, what in saved:
        kept.saved(what)
