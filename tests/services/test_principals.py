"""Principals: made, found, granted, revoked, changed, removed; what each held at a time; who may do so."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from keeps.core.access import PrincipalId, PrincipalKind, Verb, grants_to_wire
from keeps.core.errors import Conflict, Forbidden, Invalid, NotFound
from keeps.core.pages import PageRequest
from keeps.core.scopes import ScopePath, parse_path, parse_pattern
from keeps.services import contexts, principals
from keeps.services.access import ADMIN, SYSTEM
from keeps.services.principals import NewPrincipal, PrincipalChange
from keeps.services.runtime import Runtime
from keeps.store import principals as store_principals
from keeps.store.commit import Batch
from keeps.store.db import RecordID
from keeps.store.principals import GrantEvent, GrantOp
from tests.services.conftest import HandClock
from tests.services.identity import MANAGEMENT, Place, everywhere

READ, WRITE = Verb.MEMORY_READ, Verb.MEMORY_WRITE
ORG_A = parse_pattern("org/a/*")


@pytest.fixture
async def place(rt: Runtime) -> Place:
    return await Place.of(rt)


def new(name: str, **more: Any) -> NewPrincipal:
    return NewPrincipal(display_name=name, **more)


async def test_made_with_what_was_given(place: Place) -> None:
    request = new(
        "  Ann   Lee ",
        kind=PrincipalKind.HUMAN,
        grants={"memory:read": ["org/a/*", {"org": "a", "user": "b"}]},
        home=parse_path("user/ann"),
        external_id="u-1",
    )
    made = await principals.create(place.rt, place.context, await place.owner(), request)
    assert made.is_new
    ann = made.principal
    assert (ann.display_name, ann.kind, ann.home, ann.external_id) == (
        "Ann Lee", PrincipalKind.HUMAN, "user/ann", "u-1"
    )  # fmt: skip
    assert grants_to_wire(ann.grants) == {"memory:read": ["org/a/*", "org/a/user/b"]}
    assert not ann.trusted_writer
    assert ScopePath("user/ann") in place.context.nodes
    assert await principals.get(place.rt, place.context, await place.owner(), ann.id) == ann
    plain = (await principals.create(place.rt, place.context, MANAGEMENT, new("plain"))).principal
    assert (plain.kind, plain.home, plain.external_id, plain.grants) == (PrincipalKind.UNKNOWN, None, None, {})


async def test_a_flat_list_of_verbs_holds_at_home(place: Place) -> None:
    home = parse_path("user/bo")
    made = await principals.create(place.rt, place.context, MANAGEMENT, new("bo", grants=["memory:read"], home=home))
    assert grants_to_wire(made.principal.grants) == {"memory:read": ["user/bo/*"]}
    with pytest.raises(Invalid):
        await principals.create(place.rt, place.context, MANAGEMENT, new("homeless", grants=["memory:read"]))
    with pytest.raises(Invalid):
        await principals.create(place.rt, place.context, MANAGEMENT, new("flat", grants={"read": ["a"]}))


async def test_external_id_is_made_once(place: Place) -> None:
    first = await principals.create(place.rt, place.context, MANAGEMENT, new("one", external_id="x"))
    again = await principals.create(
        place.rt, place.context, MANAGEMENT, new("two", external_id="x", grants=everywhere("/*"))
    )
    assert not again.is_new
    assert again.principal == first.principal
    made = await asyncio.gather(
        *(principals.create(place.rt, place.context, MANAGEMENT, new(f"n{n}", external_id="y")) for n in range(8))
    )
    assert len({one.principal.id for one in made}) == 1
    assert sum(one.is_new for one in made) == 1


async def test_one_of_many_parallel_principals_of_one_name_wins(place: Place) -> None:
    names = ["Twin", "twin", " TWIN ", "Ｔwin"] * 3
    results = await asyncio.gather(
        *(principals.create(place.rt, place.context, MANAGEMENT, new(name)) for name in names),
        return_exceptions=True,
    )
    assert sum(isinstance(one, principals.Made) for one in results) == 1
    assert sum(isinstance(one, Conflict) for one in results) == len(names) - 1
    for taken in ("owner", "System", "AGENT"):
        with pytest.raises(Conflict):
            await principals.create(place.rt, place.context, MANAGEMENT, new(taken))


async def test_names_that_are_none(place: Place) -> None:
    for name in ("", "   ", "\u200b", "x" * 129, "a\0b"):
        with pytest.raises(Invalid):
            await principals.create(place.rt, place.context, MANAGEMENT, new(name))


async def test_granting_and_revoking(place: Place) -> None:
    rt, context, owner = place.rt, place.context, await place.owner()
    of = await place.principal("p", {"memory:read": ["org/*"]})
    after = await principals.grant(rt, context, owner, of, ORG_A, [READ, WRITE])
    assert grants_to_wire(after.grants) == {"memory:read": ["org/*", "org/a/*"], "memory:write": ["org/a/*"]}
    assert await principals.grant(rt, context, owner, of, ORG_A, [READ]) == after
    after = await principals.revoke(rt, context, owner, of, ORG_A, [READ, WRITE])
    assert grants_to_wire(after.grants) == {"memory:read": ["org/*"]}
    # Only exactly what was granted goes.
    assert await principals.revoke(rt, context, owner, of, parse_pattern("org"), [READ]) == after
    for act in (principals.grant, principals.revoke):
        with pytest.raises(Forbidden):
            await act(rt, context, owner, SYSTEM, ORG_A, [READ])
        with pytest.raises(NotFound):
            await act(rt, context, owner, PrincipalId("nobody"), ORG_A, [READ])


async def test_parallel_grants_are_all_kept(place: Place) -> None:
    of = await place.principal("p", None)
    patterns = [parse_pattern(f"org/{n}") for n in range(12)]
    await asyncio.gather(
        *(principals.grant(place.rt, place.context, MANAGEMENT, of, pattern, [READ]) for pattern in patterns)
    )
    held = (await principals.get(place.rt, place.context, MANAGEMENT, of)).grants
    assert set(held[READ]) == set(patterns)


async def test_nobody_gives_what_it_does_not_hold(place: Place) -> None:
    rt, context = place.rt, place.context
    boss = await place.someone("boss", {"grant:manage": ["org/*"], "memory:read": ["org/a/*"]})
    of = await place.principal("p", {"memory:read": ["org/b"]})
    assert (await principals.grant(rt, context, boss, of, ORG_A, [READ])).grants
    for pattern, verb in (("org/b", READ), ("org/a/*", WRITE), ("team", READ), ("/*", READ)):
        with pytest.raises(Forbidden):
            await principals.grant(rt, context, boss, of, parse_pattern(pattern), [verb])
    with pytest.raises(Forbidden):
        await principals.revoke(rt, context, boss, of, parse_pattern("team"), [READ])
    for request in (
        new("wide", grants={"memory:read": ["/*"]}),
        new("write", grants={"memory:write": ["org/a"]}),
        new("home", home=parse_path("user/owner")),
        new("trusted", trusted_writer=True),
    ):
        with pytest.raises(Forbidden):
            await principals.create(rt, context, boss, request)
    made = await principals.create(
        rt, context, boss, new("small", grants={"memory:read": ["org/a/x"]}, home=parse_path("org/a"))
    )
    assert made.is_new


async def test_an_attenuated_key_and_a_delegated_caller_give_no_more(place: Place) -> None:
    rt, context = place.rt, place.context
    of = await place.principal("p", None)
    weak = await place.enter(await place.key(contexts.OWNER, grants={"grant:manage": ["/*"]}))
    with pytest.raises(Forbidden):
        await principals.grant(rt, context, weak, of, ORG_A, [READ])
    for_agent = await place.enter(place.made.owner_key, "agent")
    with pytest.raises(Forbidden):
        await principals.grant(rt, context, for_agent, of, ORG_A, [READ])


async def test_without_grant_manage_nothing_is_seen(place: Place) -> None:
    rt, context = place.rt, place.context
    agent = await place.enter(place.made.agent_key)
    for act in (
        principals.list_all(rt, context, agent),
        principals.get(rt, context, agent, agent.principal_id),
        principals.create(rt, context, agent, new("x")),
        principals.grant(rt, context, agent, agent.principal_id, ORG_A, [READ]),
        principals.effective(rt, context, agent, agent.principal_id, parse_path("user/owner")),
    ):
        with pytest.raises(Forbidden):
            await act


async def test_a_manager_sees_only_what_it_manages(place: Place) -> None:
    rt, context = place.rt, place.context
    boss = await place.someone("boss", {"grant:manage": ["org/*"]})
    inside = await place.principal("inside", {"memory:read": ["org/a", "team/x"]}, home=parse_path("user/i"))
    outside = await place.principal("outside", {"memory:read": ["team/x"]})
    seen = {principal.id: principal for principal in await principals.list_all(rt, context, boss)}
    assert inside in seen
    assert outside not in seen
    assert boss.principal_id in seen
    assert grants_to_wire(seen[inside].grants) == {"memory:read": ["org/a"]}
    assert seen[inside].home is None
    with pytest.raises(NotFound) as hidden:
        await principals.get(rt, context, boss, outside)
    with pytest.raises(NotFound) as absent:
        await principals.get(rt, context, boss, PrincipalId("nobody"))
    assert hidden.value.message.replace(outside, "ID") == absent.value.message.replace("nobody", "ID")
    with pytest.raises(NotFound):
        await principals.grant(rt, context, boss, outside, ORG_A, [Verb.GRANT_MANAGE])
    await principals.patch(rt, context, MANAGEMENT, outside, PrincipalChange(home=parse_path("user/o")))
    with pytest.raises(Conflict):
        await principals.create(rt, context, boss, new("outside"))


async def test_pages(place: Place) -> None:
    rt, context, owner = place.rt, place.context, await place.owner()
    for n in range(5):
        await place.principal(f"p{n}", None)
    everyone = [principal.id for principal in await principals.list_all(rt, context, owner)]
    assert {"system", "admin", "owner", "agent"} < set(everyone)
    walked: list[str] = []
    request = PageRequest(limit=4, count=True)
    while True:
        page = await principals.list_page(rt, context, owner, request)
        assert page.total == 9
        walked += [principal.id for principal in page.rows]
        if page.next is None:
            break
        request = PageRequest(limit=4, after=page.next, count=True)
    assert walked == everyone == sorted(everyone)


async def test_history_of_grants(place: Place, clock: HandClock) -> None:
    rt, context, owner = place.rt, place.context, await place.owner()
    node = parse_path("org/a/x")
    before = clock()
    of = await place.principal("p", {"memory:read": ["org/*"]})
    moments = [("made", clock(), (READ,))]
    clock.forward(minutes=1)
    await principals.grant(rt, context, owner, of, ORG_A, [WRITE])
    moments.append(("granted", clock(), (READ, WRITE)))
    clock.forward(minutes=1)
    await principals.revoke(rt, context, owner, of, parse_pattern("org/*"), [READ])
    moments.append(("revoked", clock(), (WRITE,)))
    clock.forward(minutes=1)
    change = PrincipalChange(grants={"memory:read": ["org/a/x"]})
    await principals.patch(rt, context, MANAGEMENT, of, change)
    moments.append(("replaced", clock(), (READ,)))
    clock.forward(minutes=1)
    await principals.grant(rt, context, owner, of, parse_pattern("/*"), [WRITE])
    assert await principals.effective(rt, context, owner, of, node, before) == ()
    for name, moment, verbs in moments:
        assert await principals.effective(rt, context, owner, of, node, moment) == verbs, name
    assert await principals.effective(rt, context, owner, of, node) == (READ, WRITE)
    assert await principals.effective(rt, context, owner, of, node, datetime(2100, 1, 1, tzinfo=UTC)) == (READ, WRITE)
    assert await principals.effective(rt, context, owner, of, parse_path("org/b")) == (WRITE,)


async def test_history_within_one_second(place: Place) -> None:
    db, second = place.context.db, datetime(2026, 5, 2, 12, 0, tzinfo=UTC)
    batch = Batch(at=second)
    for turn, op in enumerate((GrantOp.GRANT, GrantOp.REVOKE, GrantOp.GRANT)):
        event = GrantEvent(verb=READ, pattern=ORG_A, op=op, at=second + timedelta(milliseconds=250 * turn))
        store_principals.add_events(batch, [(RecordID("grant_event", f"e{turn}"), event)], PrincipalId("p"), "b")
    await place.context.commit(batch)
    for turn in range(3):
        moment = second + timedelta(milliseconds=250 * turn + 100)
        events = await store_principals.events_until(db, PrincipalId("p"), moment)
        assert [event.at for event in events] == [second + timedelta(milliseconds=250 * n) for n in range(turn + 1)]


async def test_history_is_in_order_when_the_clock_goes_back(place: Place, clock: HandClock) -> None:
    rt, context, owner = place.rt, place.context, await place.owner()
    of = await place.principal("p", None)
    for turn in range(4):
        clock.now -= timedelta(hours=1)
        act = principals.grant if turn % 2 == 0 else principals.revoke
        await act(rt, context, owner, of, ORG_A, [READ])
    clock.forward(days=1)
    assert await principals.effective(rt, context, owner, of, parse_path("org/a"), clock()) == ()


async def test_effective_needs_the_node_to_be_managed(place: Place) -> None:
    boss = await place.someone("boss", {"grant:manage": ["org/*"]})
    with pytest.raises(Forbidden):
        await principals.effective(place.rt, place.context, boss, boss.principal_id, parse_path("team"))


async def test_changes_by_management(place: Place) -> None:
    rt, context = place.rt, place.context
    of = await place.principal("p", {"memory:read": ["org/*"]})
    change = PrincipalChange(
        display_name="Q", kind=PrincipalKind.SERVICE, home=parse_path("org/q"), trusted_writer=True
    )
    changed = await principals.patch(rt, context, MANAGEMENT, of, change)
    assert (changed.display_name, changed.kind, changed.home, changed.trusted_writer) == (
        "Q", PrincipalKind.SERVICE, "org/q", True
    )  # fmt: skip
    assert grants_to_wire(changed.grants) == {"memory:read": ["org/*"]}
    assert await principals.patch(rt, context, MANAGEMENT, of, PrincipalChange()) == changed
    with pytest.raises(Conflict):
        await principals.patch(rt, context, MANAGEMENT, of, PrincipalChange(display_name="owner"))
    with pytest.raises(NotFound):
        await principals.patch(rt, context, MANAGEMENT, PrincipalId("nobody"), PrincipalChange())


async def test_reserved_principals(place: Place) -> None:
    rt, context = place.rt, place.context
    for change in (PrincipalChange(display_name="x"), PrincipalChange(grants=everywhere("/*"))):
        with pytest.raises(Forbidden):
            await principals.patch(rt, context, MANAGEMENT, SYSTEM, change)
    for reserved in (SYSTEM, ADMIN):
        with pytest.raises(Forbidden):
            await principals.delete(rt, context, MANAGEMENT, reserved)
    renamed = await principals.patch(rt, context, MANAGEMENT, ADMIN, PrincipalChange(display_name="Root"))
    assert renamed.display_name == "Root"


async def test_removed_with_its_keys(place: Place) -> None:
    rt, context = place.rt, place.context
    of = await place.principal("p", everywhere("org/*"))
    await place.key(of, name="k")
    await principals.delete(rt, context, MANAGEMENT, of)
    with pytest.raises(NotFound):
        await principals.get(rt, context, MANAGEMENT, of)
    with pytest.raises(NotFound):
        await principals.delete(rt, context, MANAGEMENT, of)
    again = await place.principal("p", None)
    assert again != of
    await place.key(again, name="k")
