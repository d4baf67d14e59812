"""Importance, which fades with time: set back by an answer that relied on a memory and did no harm, by nothing else.

Neither trust nor importance rises above what it was at first: who has a thing read most often does not decide what is
true.
"""

from __future__ import annotations

from typing import Final

from keeps.core.citations import refreshed
from keeps.core.facts import IMPORTANCE, Origin, Row, Status
from keeps.core.runs import Outcome
from keeps.services.run_buffer import Kept
from keeps.services.runtime import Context, Runtime
from keeps.store import hits as store_hits
from keeps.store import uses as store_uses
from keeps.store.commit import Batch

_VOUCHED_FOR: Final = frozenset(
    {Origin.USER_SAVED, Origin.USER_CONFIRMED, Origin.ADMIN_SET, Origin.DOCUMENT, Origin.APP_WRITTEN}
)
_ROWS: Final = frozenset({"attribute", "relates_to", "action"})


async def refresh(rt: Runtime, context: Context, kept: Kept) -> int:
    """Set back the importance of what a run that ended relied on, unless it was marked as hurt; of how many.

    Once a day each, never for guesses or for what came from outside.
    """
    run = kept.run
    cited = {memory for memory in kept.cited if memory.partition(":")[0] in _ROWS}
    if run.end_reason is None or run.temporary or run.outcome is Outcome.HURT or not cited:
        return 0
    found = await store_hits.by_refs(context.db, context.sets, sorted(cited), context.sets.everything())
    faded = {ref: row for ref, row in found.items() if isinstance(row, Row) and _fades(row)}
    if not faded:
        return 0
    await context.runs.traces.settle()
    now = rt.clock()
    done = await store_uses.refreshed_on(context.db, faded, store_uses.day_of(now))
    batch = Batch(at=now)
    for ref in sorted(faded.keys() - done):
        first = IMPORTANCE[faded[ref].category]
        store_uses.refresh(batch, ref, refreshed(faded[ref].importance, first=first), agent=run.agent, at=now)
    if batch.patches:
        await context.commit(batch)
    return len(batch.patches) // 2


def _fades(row: Row) -> bool:
    """True when the importance of a row is less than it was, and may be set back."""
    control = row.control
    if control.status is not Status.CONFIRMED or row.clocks.forgotten_at is not None or control.taint:
        return False
    sure = control.user_confirmed or control.origin in _VOUCHED_FOR
    return sure and row.importance < IMPORTANCE[row.category]
