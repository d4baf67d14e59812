"""The sweep: what nobody decided on, and what has had its time, goes by itself; each move is written down."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from keeps.core.inbox import SWEEP
from keeps.services import discarding, erase
from keeps.services.runtime import Context, Runtime
from keeps.store import sweep as store_sweep
from keeps.store.rows import ref_of

MOST: Final = 200
"""How many of each are moved in one sweep: what is left goes in the next."""

ROWS_EVERY: Final = timedelta(hours=1)
"""How often rows are looked through for such as have ended: until then whoever reads them sees to it."""

RENEWABLE: Final = timedelta(days=30)
"""How long the text of what ended is kept, so that its person can renew it."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Swept:
    """What one sweep moved: proposals nobody decided on, rows that ended, rows that are gone for good."""

    proposals: int = 0
    ended: int = 0
    forgotten: int = 0


async def sweep(rt: Runtime, context: Context) -> Swept:
    """Move what has had its time, `MOST` of each kind at most.

    Rows are looked through once an hour, and again at once while there is more than one sweep takes.

    Raises: Unavailable, and what was not moved waits for the next sweep.
    """
    now = rt.clock()
    swept = Swept()
    swept.proposals = await discarding.expire_waiting(rt, context, limit=MOST)
    if context.swept_at is None or now - context.swept_at >= ROWS_EVERY:
        over = await store_sweep.over(context.db, context.sets, now, limit=MOST)
        for row in over:
            swept.ended += await discarding.expire(rt, context, row.id) is not None
        long_over = await store_sweep.long_over(context.db, context.sets, now - RENEWABLE, limit=MOST)
        if long_over:
            swept.forgotten = await erase.forget_ended(rt, context, list(map(ref_of, long_over)), by=SWEEP)
        if max(len(over), len(long_over)) < MOST:
            context.swept_at = now
    if swept != Swept():
        _log.info(
            "sweep of %s: %d proposals, %d rows ended, %d rows gone",
            context.id,
            swept.proposals,
            swept.ended,
            swept.forgotten,
        )
    return swept
