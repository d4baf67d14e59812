"""Replies of writes, kept for a repeat of the same request."""

from __future__ import annotations

from collections.abc import Sequence

from keeps.core.replies import ReplyKey, StoredReply
from keeps.services.runtime import Context, Runtime
from keeps.store import replies as store_replies
from keeps.store.commit import Batch


async def find(rt: Runtime, context: Context, namespace: str) -> StoredReply | None:
    """The reply kept under `namespace`; None when there is none or its 24 hours are over."""
    return await store_replies.find(context.db, namespace, rt.clock())


async def save(rt: Runtime, context: Context, key: ReplyKey, body: str, *, rows: Sequence[str] = ()) -> None:
    """Keep the reply of a write that did not keep it in its own commit; `rows` are those it tells of."""
    now = rt.clock()
    await context.commit(Batch(at=now, puts=[store_replies.to_put(key, body, rows, now)]))
