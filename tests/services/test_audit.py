"""The audit: gapless under writers, whole or found not to be, and no false alarm after a restore or a new pepper."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from keeps.config import Config
from keeps.core.access import KeyId, PrincipalKind, Role, Verb
from keeps.core.audit import Entry
from keeps.core.errors import Forbidden, KeepsError
from keeps.core.pages import FIRST_PAGE, PageRequest
from keeps.core.scopes import EVERYTHING
from keeps.services import audit, keys, principals, request_ids
from keeps.services.access import ManagementCaller
from keeps.services.audit import Filters
from keeps.services.audit_chain import Flaw, Verdict
from keeps.services.keys import NewKey
from keeps.services.principals import PrincipalChange
from keeps.services.rehash import rehash
from keeps.services.runtime import Runtime, open_runtime
from keeps.store import audit as store_audit
from keeps.store.commit import Batch
from keeps.store.db import RecordID
from tests.services.conftest import Borrowed, HandClock
from tests.services.governing import House, bare, house


@pytest.fixture
async def at(rt: Any) -> House:
    return await house(rt)


async def write(at: House, *actions: str) -> None:
    for action in actions:
        batch = Batch(at=at.rt.clock())
        batch.entries.append(Entry(actor="owner", action=action, target="attribute:x"))
        await at.context.commit(batch)


async def test_f5_what_nobody_asked_for_names_no_request(at: House) -> None:
    await write(at, "a.before")
    with request_ids.serving("0123456789abcdef"):
        await asyncio.create_task(write(at, "a.during"))
    await write(at, "a.after")
    rows = (await audit.list_(at.rt, at.context, at.owner, Filters(action="a"), FIRST_PAGE)).rows
    assert {row.entry.action: row.entry.request for row in rows} == {
        "a.before": None,
        "a.during": "0123456789abcdef",
        "a.after": None,
    }
    assert (await verdict(at)).ok


async def verdict(at: House) -> Verdict:
    return await audit.verify(at.rt, at.context, at.owner)


async def test_f5_a_whole_audit_is_whole(at: House) -> None:
    assert await verdict(at) == Verdict(rows=0)
    await write(at, *(f"a.{n}" for n in range(7)))
    await audit.keep_head(at.rt, at.context)
    assert await verdict(at) == Verdict(rows=7)


@pytest.mark.parametrize(
    "how",
    [
        "UPDATE audit:3 SET actor = 'someone';",
        "UPDATE audit:3 SET at_us += 1;",
        "UPDATE audit:3 SET before = { a: 1 };",
        "UPDATE audit:3 SET mac = 'x';",
        "UPDATE audit:3 SET prev = 'x';",
    ],
)
async def test_f5_an_edited_row_is_named(at: House, how: str) -> None:
    await write(at, *(f"a.{n}" for n in range(5)))
    await at.context.db.run(how)  # pyright: ignore[reportArgumentType]
    found = await verdict(at)
    assert (found.ok, found.flaw, found.first_bad, found.rows) == (False, Flaw.CHANGED, 3, 2)


async def test_f5_a_row_that_is_gone_is_named(at: House) -> None:
    await write(at, *(f"a.{n}" for n in range(5)))
    await at.context.db.run("DELETE audit:2;")
    assert await verdict(at) == Verdict(rows=1, flaw=Flaw.MISSING, first_bad=2)


async def test_f5_a_tail_cut_off_is_missed_while_it_runs_and_after_a_restart(at: House) -> None:
    await write(at, *(f"a.{n}" for n in range(5)))
    await at.context.db.run("DELETE audit:4, audit:5;")
    assert await verdict(at) == Verdict(rows=3, flaw=Flaw.TAIL, first_bad=4)
    await at.rt.forget_context("house")  # which notes what it knew was the end
    again = await at.rt.context("house")
    assert (await audit.check(at.rt, again)).flaw is Flaw.TAIL
    # New rows in the place of the old ones do not hide it, nor does a minute that passes.
    reopened = House(rt=at.rt, context=again, owner=at.owner, agent=at.agent)
    await write(reopened, "b.1", "b.2", "b.3")
    await audit.keep_head(at.rt, again)
    found = await audit.check(at.rt, again)
    assert (found.flaw, found.first_bad) == (Flaw.TAIL, 5)


async def test_f5_all_rows_cut_off_are_missed(at: House) -> None:
    await write(at, "a.1", "a.2")
    await at.rt.forget_context("house")
    await (await at.rt.engine.database("context_house")).run("DELETE audit;")
    again = await at.rt.context("house")
    assert await audit.check(at.rt, again) == Verdict(rows=0, flaw=Flaw.TAIL, first_bad=1)


async def test_f5_a_record_put_back_as_it_was_is_no_fault(at: House) -> None:
    await write(at, *(f"a.{n}" for n in range(5)))
    await audit.keep_head(at.rt, at.context)
    await at.context.db.run("DELETE audit:4, audit:5;")  # as a backup of that time would have it
    await at.rt.forget_context("house")
    again = await at.rt.context("house")
    await audit.restart(at.rt, again, why="restore", new_key=False)
    assert await audit.check(at.rt, again) == Verdict(rows=4)
    await audit.keep_head(at.rt, again)
    assert await audit.check(at.rt, again) == Verdict(rows=4)
    # From then on a tail is missed again.
    reopened = House(rt=at.rt, context=again, owner=at.owner, agent=at.agent)
    await write(reopened, "b.1")
    await audit.keep_head(at.rt, again)
    await again.db.run("DELETE audit:5;")
    assert (await audit.check(at.rt, again)).flaw is Flaw.TAIL


async def test_f5_an_older_restart_excuses_no_cut(at: House) -> None:
    await write(at, "a.1")
    await audit.restart(at.rt, at.context, why="restore", new_key=False)
    await write(at, "a.3", "a.4")
    await audit.keep_head(at.rt, at.context)
    await at.context.db.run("DELETE audit:4;")
    await at.rt.forget_context("house")
    again = await at.rt.context("house")
    assert (await audit.check(at.rt, again)).flaw is Flaw.TAIL


async def test_f5_under_a_new_pepper_the_chain_goes_on_and_says_from_where(
    clock: HandClock, engine_of_the_run: Any, tmp_path: Path
) -> None:
    (tmp_path / "a").mkdir()
    lent = Borrowed(engine_of_the_run)
    keep: list[Any] = []
    async with open_runtime(Config(), clock=clock, engine=_Kept(lent, keep)) as rt:
        at = await house(rt)
        await write(at, "a.1", "a.2", "a.3")
    config = Config()
    async with open_runtime(config, clock=clock, engine=lent, any_pepper=True) as rt:
        context = await rt.context("house")
        assert (await audit.check(rt, context)).flaw is Flaw.CHANGED
        await rehash(rt, context)
        found = await audit.check(rt, context)
        assert (found.ok, found.rows, found.under_older_key) == (True, 4, 3)
        await context.db.run("UPDATE audit:4 SET actor = 'x';")
        assert not (await audit.check(rt, context)).ok


class _Kept:
    """An engine that stays open when its runtime closes."""

    def __init__(self, engine: Borrowed, keep: list[Any]) -> None:
        self._engine = engine
        keep.append(engine)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def close(self) -> None:
        pass


async def test_a_refused_commit_leaves_no_row_and_no_gap(at: House) -> None:
    await write(at, "a.1")
    batch = Batch(at=at.rt.clock())
    batch.guards.append({"id": RecordID("attribute", "missing"), "rev": 5})
    batch.entries.append(Entry(actor="owner", action="never", target="x"))
    with pytest.raises(KeepsError):
        await at.context.commit(batch)
    await write(at, "a.2")
    assert await verdict(at) == Verdict(rows=2)


@hypothesis_settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=12))
async def test_racing_commits_keep_the_chain_gapless(rt: Runtime, batches: list[tuple[int, bool]]) -> None:
    at = await _shared(rt)
    before = at.context.audit_head[0]

    async def one(entries: int, fails: bool) -> int:
        batch = Batch(at=at.rt.clock())
        batch.entries += [Entry(actor="owner", action=f"a.{n}", target="x") for n in range(entries)]
        if fails:
            batch.guards.append({"id": RecordID("attribute", "missing"), "rev": 5})
        try:
            await at.context.commit(batch)
        except KeepsError:
            return 0
        return entries

    written = sum(await asyncio.gather(*(one(entries, fails) for entries, fails in batches)))
    assert at.context.audit_head[0] == before + written
    assert await verdict(at) == Verdict(rows=before + written)


async def _shared(rt: Runtime) -> House:
    """One house for all examples: making one costs more than the rest."""
    if "house" not in rt.contexts:
        return await house(rt)
    context = rt.contexts["house"]
    return House(rt=rt, context=context, owner=bare(PrincipalKind.HUMAN, Role.OWNER), agent=bare(PrincipalKind.AGENT))


async def test_grants_roles_keys_and_who_is_vouched_for_are_written_down(at: House) -> None:
    kim = (await at.someone("Kim")).principal_id
    management = ManagementCaller(KeyId("m"))
    await principals.patch(at.rt, at.context, at.owner, kim, PrincipalChange(roles=frozenset({Role.CURATOR})))
    await principals.patch(at.rt, at.context, at.owner, kim, PrincipalChange(trusted_writer=True))
    reads = [Verb.MEMORY_READ]
    await principals.grant(at.rt, at.context, at.owner, kim, EVERYTHING, reads)
    made = await keys.create_for(at.rt, at.context, management, kim, NewKey(name="desk"))
    await keys.rotate_for(at.rt, at.context, management, "desk")
    await keys.delete_for(at.rt, at.context, management, "desk")
    await principals.delete(at.rt, at.context, management, kim)
    rows = (await audit.list_(at.rt, at.context, at.owner, Filters(), FIRST_PAGE)).rows
    assert [(row.entry.action, row.entry.target) for row in reversed(rows)] == [
        ("principal.create", f"principal:{kim}"),
        ("principal.roles", f"principal:{kim}"),
        ("principal.trust", f"principal:{kim}"),
        ("principal.grants", f"principal:{kim}"),
        ("key.create", f"api_key:{made.id}"),
        ("key.rotate", f"api_key:{made.id}"),
        ("key.delete", f"api_key:{made.id}"),
        ("principal.delete", f"principal:{kim}"),
    ]
    assert {row.entry.actor for row in rows} == {"owner", "management:m"}
    assert made.key not in repr(rows)
    assert await verdict(at) == Verdict(rows=8)


async def test_the_list_is_newest_first_filtered_and_in_pages(at: House) -> None:
    await write(at, "memory.confirm", "memory.reject", "key.create", "memory.confirm")
    page = await audit.list_(at.rt, at.context, at.owner, Filters(), PageRequest(limit=3))
    assert [row.seq for row in page.rows] == [4, 3, 2]
    rest = await audit.list_(at.rt, at.context, at.owner, Filters(), PageRequest(limit=3, after=page.next))
    assert ([row.seq for row in rest.rows], rest.next) == ([1], None)
    for filters, wanted in (
        (Filters(action="memory"), [4, 2, 1]),
        (Filters(action="memory.confirm"), [4, 1]),
        (Filters(action="mem"), []),
        (Filters(target="attribute:x", actor="owner"), [4, 3, 2, 1]),
        (Filters(actor="nobody"), []),
    ):
        found = await audit.list_(at.rt, at.context, at.owner, filters, FIRST_PAGE)
        assert [row.seq for row in found.rows] == wanted


async def test_f4_only_owners_and_admins_see_it(at: House) -> None:
    await write(at, "a.1")
    admin = await at.someone("Kim", Role.ADMIN)
    assert (await audit.list_(at.rt, at.context, admin, Filters(), FIRST_PAGE)).rows
    for other in (at.agent, await at.someone("Cura", Role.CURATOR), at.on_behalf_of(at.agent, at.owner.principal)):
        with pytest.raises(Forbidden):
            await audit.list_(at.rt, at.context, other, Filters(), FIRST_PAGE)
        with pytest.raises(Forbidden):
            await audit.verify(at.rt, at.context, other)


async def test_what_is_kept_beside_the_record_is_ids_and_a_seal(at: House) -> None:
    await write(at, "a.1")
    await audit.keep_head(at.rt, at.context)
    file = at.rt.folder / "house" / store_audit.HEAD_NAME
    assert file.stat().st_mode & 0o077 == 0
    assert b"owner" not in file.read_bytes()
    head = store_audit.read_head(at.rt.folder / "house")
    assert head is not None
    assert (head.seq, head.mac) == at.context.audit_head
