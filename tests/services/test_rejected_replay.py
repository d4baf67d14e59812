"""What a person said no to stays away: also from a record that is put back as it was before."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from keeps.config import Config
from keeps.core.errors import StaleHead, Unavailable
from keeps.core.facts import Status
from keeps.core.inbox import Choice
from keeps.core.pages import FIRST_PAGE
from keeps.core.policy import Drop
from keeps.services import erase, memories
from keeps.services.archive import backup, restore
from keeps.services.inbox import Decision, decide, list_inbox
from keeps.services.memories import Save
from keeps.services.runtime import Context, Runtime, open_runtime
from keeps.services.sweep import sweep
from keeps.store import proposals as store_proposals
from keeps.store import tables as store_tables
from keeps.store.commit import Batch
from keeps.store.db import RecordID
from tests.services.conftest import HandClock
from tests.services.waiting import People, candidate, everything, people, put

CANARY = "quokka zanzibar lighthouse"

Act = Callable[[Runtime, People, str], Awaitable[Any]]


async def reject(rt: Runtime, at: People, proposal: str) -> None:
    await memories.reject(rt, at.context, at.owner, proposal)


async def withdraw(rt: Runtime, at: People, proposal: str) -> None:
    await memories.withdraw(rt, at.context, at.agent, proposal)


async def delete(rt: Runtime, at: People, proposal: str) -> None:
    await memories.delete(rt, at.context, at.owner, proposal)


async def block(rt: Runtime, at: People, proposal: str) -> None:
    (done,) = await decide(rt, at.context, at.owner, [Decision(id=proposal, choice=Choice.DISCARD_AND_BLOCK)])
    assert done.error is None


async def expire(rt: Runtime, at: People, proposal: str) -> None:
    assert await memories.expire_waiting(rt, at.context, limit=10) == 1


async def propose(rt: Runtime, at: People, text: str, **more: Any) -> memories.Saved:
    return await memories.save(rt, at.context, at.agent, Save(kind="preference", text=text, **more))


async def rows_of(context: Context, *names: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for table in await store_tables.tables(context.db):
        if table.name in names:
            async for page in store_tables.pages(context.db, table):
                found += [dict(row) for row in page]
    return found


async def put_back(rt: Runtime, context: Context, before: list[dict[str, Any]]) -> None:
    """The record as it was: these rows are there again, nothing is suppressed, no line of the ledger was followed."""
    batch = Batch(at=rt.clock())
    batch.deletes += [row["id"] for row in await rows_of(context, "suppression")]
    batch.puts += [{"id": row.pop("id"), "row": row} for row in before]
    batch.patch(RecordID("meta", "state"), tombstone=0)
    await context.commit(batch)


@pytest.mark.parametrize(
    ("act", "became", "kept_away"),
    [
        (reject, Status.REJECTED, True),
        (block, Status.REJECTED, True),
        (withdraw, Status.REJECTED, False),
        (expire, Status.EXPIRED, False),
        (delete, None, True),
    ],
)
async def test_what_was_not_kept_says_nothing_in_a_record_put_back(
    rt: Runtime, clock: HandClock, act: Act, became: Status | None, kept_away: bool
) -> None:
    at = await people(rt)
    made = (await propose(rt, at, CANARY, slot="hideaway")).memory
    assert made is not None
    before = await rows_of(at.context, "proposal", "reply")
    lines = rt.ledger.head[0]
    clock.forward(days=31 if act is expire else 0)
    await act(rt, at, made.id)
    assert rt.ledger.head[0] == lines + 1
    assert CANARY not in await everything(at.context)
    await put_back(rt, at.context, before)
    assert CANARY in await everything(at.context)
    await rt.replay(at.context)
    assert CANARY not in await everything(at.context)
    assert (await list_inbox(rt, at.context, at.owner, FIRST_PAGE)).waiting == 0
    left = await store_proposals.find(at.context.db, at.context.sets, made.id)
    assert (left.status if left is not None else None) is became
    if left is not None:
        assert left.status_by == ("sweep" if act is expire else None)
    again = await propose(rt, at, CANARY, slot="hideaway")
    assert (again.dropped is not None and again.dropped.why is Drop.SUPPRESSED) is kept_away
    other = await propose(rt, at, "another place", slot="hideaway")
    assert (other.dropped is not None) is (act is block)


async def test_following_a_line_twice_changes_nothing_more(rt: Runtime) -> None:
    at = await people(rt)
    made = (await propose(rt, at, CANARY)).memory
    assert made is not None
    await reject(rt, at, made.id)
    batch = Batch(at=rt.clock())
    batch.patch(RecordID("meta", "state"), tombstone=0)
    once = await rows_of(at.context, "proposal", "suppression")
    await at.context.commit(batch)
    await rt.replay(at.context)
    assert await rows_of(at.context, "proposal", "suppression") == once


async def test_what_a_person_says_anew_is_learned_although_the_ledger_knows_it(rt: Runtime) -> None:
    at = await people(rt)
    made = (await propose(rt, at, CANARY, slot="hideaway")).memory
    assert made is not None
    await reject(rt, at, made.id)
    await put_back(rt, at.context, [])
    await rt.replay(at.context)
    assert await rows_of(at.context, "suppression") != []
    saved = await memories.save(rt, at.context, at.owner, Save(kind="preference", text=CANARY, slot="hideaway"))
    assert saved.memory is not None
    assert await rows_of(at.context, "suppression") == []


async def test_what_was_deleted_is_not_learned_again_after_a_restore(rt: Runtime, clock: HandClock) -> None:
    at = await people(rt)
    saved = (await memories.save(rt, at.context, at.owner, Save(kind="note", text=CANARY))).memory
    assert saved is not None
    await memories.delete(rt, at.context, at.owner, saved.id)
    clock.forward(seconds=11)
    assert await memories.finish_deletions(rt, at.context) == 1
    await put_back(rt, at.context, [])
    await rt.replay(at.context)
    assert (await propose(rt, at, CANARY)).dropped is not None


async def test_many_that_nobody_decided_on_are_one_line_and_one_commit(rt: Runtime, clock: HandClock) -> None:
    at = await people(rt)
    made = [candidate(clock(), f"tea {number}") for number in range(40)]
    await put(at.context, *made, candidate(clock(), "held", status=Status.QUARANTINED))
    clock.forward(days=31)
    lines, commits = rt.ledger.head[0], rt.engine.commits
    assert (await sweep(rt, at.context)).proposals == 41
    assert rt.ledger.head[0] == lines + 2  # one of those that ran out, one of those that were held back
    assert rt.engine.commits == commits + 1
    assert "tea 1" not in await everything(at.context)


async def test_when_the_ledger_cannot_be_written_it_waits_on(rt: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    at = await people(rt)
    made = (await propose(rt, at, CANARY)).memory
    assert made is not None

    async def full(*_: object) -> int:
        raise Unavailable("full", retry_after_s=1)

    with monkeypatch.context() as patched:
        patched.setattr(erase, "note", full)
        with pytest.raises(Unavailable):
            await reject(rt, at, made.id)
    assert (await memories.get(rt, at.context, at.owner, made.id)).text == CANARY
    await reject(rt, at, made.id)
    assert CANARY not in await everything(at.context)


async def test_what_others_moved_meanwhile_is_refused_after_all(rt: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    at = await people(rt)
    made = (await propose(rt, at, CANARY)).memory
    assert made is not None
    commit, tried = at.context.commit, 0

    async def once_late(*parts: Any, **more: Any) -> Any:
        nonlocal tried
        tried += 1
        if tried == 1:
            raise StaleHead("moved", retry_after_s=0)
        return await commit(*parts, **more)

    monkeypatch.setattr(type(at.context), "commit", lambda _, *parts, **more: once_late(*parts, **more))
    await reject(rt, at, made.id)
    assert tried == 2
    assert not at.context.unsettled
    assert CANARY not in await everything(at.context)


@pytest.mark.slow
async def test_a_backup_from_before_a_rejection_brings_nothing_back(tmp_path: Path) -> None:
    home, file = tmp_path / "home", tmp_path / "backup.jsonl"
    async with open_runtime(Config(data=home)) as rt:
        at = await people(rt)
        made = [(await propose(rt, at, f"{CANARY} {number}")).memory for number in range(2)]
        await backup(rt, file)
        assert made[0] is not None
        assert made[1] is not None
        await reject(rt, at, made[0].id)
        await withdraw(rt, at, made[1].id)
        ids = at.context.id, at.owner, at.agent
    done = await restore(home, file)
    assert done.replayed == 2
    async with open_runtime(Config(data=home)) as rt:
        at = People(await rt.context(ids[0]), ids[1], ids[2])
        assert "quokka" not in await everything(at.context)
        found = await list_inbox(rt, at.context, at.owner, FIRST_PAGE)
        assert (found.waiting, found.page.rows) == (0, ())
        assert (await propose(rt, at, f"{CANARY} 0")).dropped is not None
    for old in done.aside.values():
        shutil.rmtree(old)
    assert b"quokka" in file.read_bytes()
    held = [path.name for path in home.rglob("*") if path.is_file() and b"quokka" in path.read_bytes()]
    assert held == []
