"""The replies kept for writes that may be sent again."""

from __future__ import annotations

from collections.abc import Sequence

from keeps.core.replies import ReplyKey, StoredReply
from keeps.services.runtime import Context, Runtime
from keeps.store import replies as store_replies
from keeps.store.commit import Batch


async def find(rt: Runtime, context: Context, namespace: str) -> StoredReply | None:
    """The reply kept under `namespace`; None when there is none or its time is over."""
    return await store_replies.find(context.db, namespace, rt.clock())


async def save(rt: Runtime, context: Context, key: ReplyKey, body: str, rows: Sequence[str] = ()) -> None:
    """Keep the reply of a write that did not keep it in its own commit. `rows`: those it tells of, as `table:id`."""
    now = rt.clock()
    batch = Batch(at=now)
    record = {"id": store_replies.record_id(key.namespace), "row": store_replies.to_row(key, body, rows, now)}
    batch.puts.append(record)
    await context.commit(batch)


async def prune(rt: Runtime, context: Context) -> int:
    """Remove the replies whose time is over; how many there were."""
    return await store_replies.prune(context.db, rt.clock())
