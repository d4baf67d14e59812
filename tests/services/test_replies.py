"""Kept replies: found until their time is over, empty once erased, replaced, pruned."""

from __future__ import annotations

from datetime import timedelta

from keeps.core.replies import ReplyKey, StoredReply
from keeps.services import replies
from keeps.services.runtime import Context, Runtime
from keeps.store.commit import Batch
from keeps.store.db import RecordID
from tests.services.conftest import HandClock


def key_for(rt: Runtime, namespace: str = "n1", fingerprint: str = "f1") -> ReplyKey:
    return ReplyKey(
        namespace=namespace,
        fingerprint=fingerprint,
        expires_at=rt.clock() + timedelta(hours=24),
        render=str,
        status=201,
    )


async def test_kept_until_its_time_is_over(rt: Runtime, context: Context, clock: HandClock) -> None:
    assert await replies.find(rt, context, "n1") is None
    await replies.save(rt, context, key_for(rt), '{"id":"x"}')
    kept = StoredReply(fingerprint="f1", status=201, body='{"id":"x"}')
    assert await replies.find(rt, context, "n1") == kept
    assert await replies.find(rt, context, "n2") is None
    clock.forward(hours=23, minutes=59)
    assert await replies.find(rt, context, "n1") == kept
    clock.forward(minutes=2)
    assert await replies.find(rt, context, "n1") is None


async def test_a_name_free_again_takes_another_reply(rt: Runtime, context: Context, clock: HandClock) -> None:
    await replies.save(rt, context, key_for(rt), "one")
    clock.forward(hours=25)
    await replies.save(rt, context, key_for(rt, fingerprint="f2"), "two")
    found = await replies.find(rt, context, "n1")
    assert found is not None
    assert (found.fingerprint, found.body) == ("f2", "two")


async def test_erased_reply_has_no_body(rt: Runtime, context: Context) -> None:
    await replies.save(rt, context, key_for(rt), "secret", ["turn:t1"])
    batch = Batch(at=rt.clock())
    batch.patch(RecordID("reply", "n1"), erased=True)
    await context.commit(batch)
    assert await replies.find(rt, context, "n1") == StoredReply(fingerprint="f1", status=201, body="", erased=True)


async def test_pruning_removes_only_what_is_over(rt: Runtime, context: Context, clock: HandClock) -> None:
    await replies.save(rt, context, key_for(rt, "old"), "1")
    clock.forward(hours=20)
    await replies.save(rt, context, key_for(rt, "new"), "2")
    clock.forward(hours=5)
    assert await replies.prune(rt, context) == 1
    assert await replies.prune(rt, context) == 0
    assert (await context.db.run("SELECT VALUE record::id(id) FROM reply;"))[0] == ["new"]
