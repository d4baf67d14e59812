"""Keys: minted, narrowed, rotated, revoked; one's own and everybody's."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta

import pytest

from keeps.config import Config
from keeps.core.access import Caller, PrincipalId, Verb, grants_to_wire
from keeps.core.errors import Conflict, Forbidden, Invalid, NotFound, Unauthenticated
from keeps.core.pages import FIRST_PAGE, PageRequest
from keeps.services import access, contexts, keys, principals
from keeps.services.access import SYSTEM
from keeps.services.contexts import ContextChange
from keeps.services.keys import MintedKey, NewAccessToken, NewKey
from keeps.services.runtime import Runtime, open_runtime
from keeps.services.upkeep import keep_up, kept_up
from tests.services.conftest import HandClock
from tests.services.identity import MANAGEMENT, Place, everywhere

READ, WRITE = Verb.MEMORY_READ, Verb.MEMORY_WRITE


@pytest.fixture
async def place(rt: Runtime) -> Place:
    return await Place.of(rt)


async def mint(place: Place, caller: Caller, **request: object) -> MintedKey:
    return await keys.create(place.rt, place.context, caller, NewKey(**request))  # pyright: ignore


async def names(place: Place, caller: Caller) -> list[str]:
    page = await keys.list_page(place.rt, place.context, caller, FIRST_PAGE)
    return [key.name for key in page.rows]


async def test_form_of_a_key(place: Place) -> None:
    made = await mint(place, await place.owner())
    assert re.fullmatch(r"sp-[a-z0-9]{20}-[A-Za-z0-9]{43}", made.key)
    assert made.key.split("-")[1] == made.id
    assert made.key not in repr(made)
    assert (made.principal, made.valid_until) == ("owner", None)


async def test_a_key_of_ones_own(place: Place) -> None:
    owner = await place.owner()
    made = await mint(place, owner, name="ci", grants={"memory:read": ["org/*"]}, ttl_s=60)
    caller = await place.enter(made.key)
    assert grants_to_wire(caller.effective()) == {"memory:read": ["org/*"]}
    assert made.valid_until is not None
    unnamed = await mint(place, owner)
    assert await names(place, owner) == sorted(["agent", "owner", "ci", str(unnamed.id)])
    flat = await mint(place, await place.enter(place.made.agent_key), grants=["memory:read"])
    assert grants_to_wire((await place.enter(flat.key)).effective()) == {"memory:read": ["user/owner/*"]}


async def test_refused(place: Place) -> None:
    agent = await place.enter(place.made.agent_key)
    for grants in ({"memory:read": ["/*"]}, {"grant:manage": ["user/owner"]}, {"read": ["user/owner"]}):
        with pytest.raises(Invalid):
            await mint(place, agent, grants=grants)
    for name in ("", "  ", "x" * 129):
        with pytest.raises(Invalid):
            await mint(place, agent, name=name)
    for ttl_s in (0, -1, keys.MAX_TTL_S + 1):
        with pytest.raises(Invalid):
            await mint(place, agent, ttl_s=ttl_s)
    with pytest.raises(Conflict):
        await mint(place, agent, name="owner")
    delegated = await place.enter(place.made.owner_key, "agent")
    with pytest.raises(Forbidden):
        await mint(place, delegated)
    with pytest.raises(Forbidden):
        await keys.rotate(place.rt, place.context, delegated, "owner")


async def test_one_of_many_parallel_keys_of_one_name_wins(place: Place) -> None:
    owner = await place.owner()
    made = await asyncio.gather(*(mint(place, owner, name="ci") for _ in range(8)), return_exceptions=True)
    assert sum(isinstance(one, MintedKey) for one in made) == 1
    assert sum(isinstance(one, Conflict) for one in made) == 7


async def test_a_key_made_by_a_narrow_key_is_as_narrow_and_as_short(place: Place) -> None:
    narrow = await place.enter(
        await place.key(contexts.OWNER, grants={"memory:read": ["org/a/*"]}, ttl_s=60, strict=True)
    )
    made = await mint(place, narrow)
    caller = await place.enter(made.key)
    assert caller.effective() == narrow.effective()
    assert caller.strict
    assert made.valid_until is not None
    longer = await mint(place, narrow, ttl_s=3600)
    assert longer.valid_until == made.valid_until
    with pytest.raises(Invalid):
        await mint(place, narrow, grants={"memory:write": ["org/a"]})
    again = await keys.rotate(place.rt, place.context, narrow, str(made.id), ttl_s=3600)
    assert again.valid_until == made.valid_until


async def test_rotation(place: Place, clock: HandClock) -> None:
    rt, context, owner = place.rt, place.context, await place.owner()
    made = await mint(place, owner, name="ci", grants={"memory:read": ["org/*"]}, ttl_s=60, strict=True)
    before = await place.enter(made.key)
    fresh = await keys.rotate(rt, context, owner, "ci")
    assert (fresh.id, fresh.valid_until) == (made.id, made.valid_until)
    with pytest.raises(Unauthenticated):
        await place.enter(made.key)
    after = await place.enter(fresh.key)
    assert (after.key_grants, after.strict, after.principal_id) == (before.key_grants, True, "owner")
    clock.forward(seconds=50)
    longer = await keys.rotate(rt, context, owner, "ci", ttl_s=60)
    clock.forward(seconds=50)
    await place.enter(longer.key)
    clock.forward(seconds=11)
    with pytest.raises(Invalid):
        await keys.rotate(rt, context, owner, "ci")
    await place.enter((await keys.rotate(rt, context, owner, "ci", ttl_s=60)).key)
    itself = await keys.rotate(rt, context, owner, "owner")
    with pytest.raises(Unauthenticated):
        await place.enter(place.made.owner_key)
    await place.enter(itself.key)


async def test_revoking(place: Place) -> None:
    rt, context, owner = place.rt, place.context, await place.owner()
    made = await mint(place, owner, name="ci")
    await place.enter(made.key)
    await keys.delete(rt, context, owner, "ci")
    with pytest.raises(Unauthenticated):
        await place.enter(made.key)
    with pytest.raises(NotFound):
        await keys.delete(rt, context, owner, "ci")
    await mint(place, owner, name="ci")


async def test_others_keys_look_as_if_they_were_not_there(place: Place) -> None:
    rt, context = place.rt, place.context
    agent = await place.enter(place.made.agent_key)
    assert await names(place, agent) == ["agent"]
    said: set[str] = set()
    for name in ("owner", "nobody"):
        for act in (keys.delete(rt, context, agent, name), keys.rotate(rt, context, agent, name)):
            with pytest.raises(NotFound) as refusal:
                await act
            said.add(refusal.value.message.replace(name, "NAME"))
    assert len(said) == 1
    await place.owner()


async def test_a_narrow_key_gets_no_wider_one_of_the_same_principal(place: Place) -> None:
    rt, context = place.rt, place.context
    narrow = await place.enter(await place.key(contexts.OWNER, name="narrow", grants={"memory:read": ["org/a/*"]}))
    await place.key(contexts.OWNER, name="narrower", grants={"memory:read": ["org/a/x"]})
    for act in (keys.rotate, keys.delete):
        with pytest.raises(NotFound):
            await act(rt, context, narrow, "owner")
    await place.enter((await keys.rotate(rt, context, narrow, "narrower")).key)
    await keys.delete(rt, context, narrow, "narrower")
    # Even who manages everything gets no secret that allows what it does not hold.
    manager = await place.enter(await place.key(contexts.OWNER, name="manager", grants={"grant:manage": ["/*"]}))
    assert set(await names(place, manager)) == {"agent", "owner", "manager", "narrow"}
    for wider in ("agent", "owner", "narrow"):
        with pytest.raises(Forbidden):
            await keys.rotate(rt, context, manager, wider)
    await keys.delete(rt, context, manager, "agent")
    with pytest.raises(Unauthenticated):
        await place.enter(place.made.agent_key)


async def test_the_owner_looks_after_all_keys(place: Place) -> None:
    rt, context, owner = place.rt, place.context, await place.owner()
    fresh = await keys.rotate(rt, context, owner, "agent")
    assert (await place.enter(fresh.key)).principal_id == "agent"
    page = await keys.list_page(rt, context, owner, PageRequest(limit=1, count=True))
    assert (page.total, [key.name for key in page.rows]) == (2, ["agent"])
    rest = await keys.list_page(rt, context, owner, PageRequest(limit=1, after=page.next))
    assert [key.name for key in rest.rows] == ["owner"]
    assert rest.next is None
    assert rest.rows[0].last_used_at is not None
    assert page.rows[0].principal == "agent"


async def test_self_service_can_be_switched_off(place: Place, clock: HandClock) -> None:
    rt, context, owner = place.rt, place.context, await place.owner()
    await contexts.patch(rt, "acme", ContextChange(config={"allow_self_service_keys": False}))
    with pytest.raises(Forbidden):
        await mint(place, owner)
    with pytest.raises(Forbidden):
        await keys.rotate(rt, context, owner, "owner")
    await place.key(contexts.OWNER, name="by management")
    await keys.delete(rt, context, owner, "by management")
    async with open_runtime(Config(allow_self_service_keys=False), clock=clock) as other:
        elsewhere = await Place.of(other)
        with pytest.raises(Forbidden):
            await mint(elsewhere, await elsewhere.owner())


async def test_lives_are_cut_to_the_longest_allowed(place: Place, clock: HandClock) -> None:
    rt, context, owner = place.rt, place.context, await place.owner()
    endless = await mint(place, owner, name="endless")
    assert endless.valid_until is None
    await contexts.patch(rt, "acme", ContextChange(config={"max_token_ttl_seconds": 100}))
    second = timedelta(seconds=1)
    for made in (
        await mint(place, owner),
        await mint(place, owner, ttl_s=5000),
        await keys.create_for(rt, context, MANAGEMENT, contexts.AGENT, NewKey()),
        await keys.rotate(rt, context, owner, "endless"),
        await keys.access_token(rt, context, MANAGEMENT, NewAccessToken(external_id="x", ttl_s=5000)),
    ):
        assert made.valid_until is not None
        assert abs(made.valid_until - clock.now - 100 * second) < second
    short = await mint(place, owner, ttl_s=10)
    assert short.valid_until is not None
    assert abs(short.valid_until - clock.now - 10 * second) < second


async def test_management_of_keys(place: Place) -> None:
    rt, context = place.rt, place.context
    of = await place.principal("p", {"memory:read": ["org/*"]})
    made = await keys.create_for(
        rt, context, MANAGEMENT, of, NewKey(name="k", grants={"memory:read": ["org/a"]}, strict=True)
    )
    assert (await place.enter(made.key)).strict
    with pytest.raises(Invalid):
        await keys.create_for(rt, context, MANAGEMENT, of, NewKey(grants={"memory:write": ["org/a"]}))
    with pytest.raises(Conflict):
        await keys.create_for(rt, context, MANAGEMENT, contexts.AGENT, NewKey(name="k"))
    with pytest.raises(NotFound):
        await keys.create_for(rt, context, MANAGEMENT, PrincipalId("nobody"), NewKey())
    with pytest.raises(Forbidden):
        await keys.create_for(rt, context, MANAGEMENT, SYSTEM, NewKey())
    assert [key.name for key in await keys.list_for(rt, context, MANAGEMENT, of)] == ["k"]
    assert [key.name for key in await keys.list_for(rt, context, MANAGEMENT)] == ["agent", "k", "owner"]
    with pytest.raises(NotFound):
        await keys.list_for(rt, context, MANAGEMENT, PrincipalId("nobody"))
    with pytest.raises(NotFound):
        await keys.rotate_for(rt, context, MANAGEMENT, "k", contexts.AGENT)
    with pytest.raises(NotFound):
        await keys.delete_for(rt, context, MANAGEMENT, "k", contexts.AGENT)
    fresh = await keys.rotate_for(rt, context, MANAGEMENT, "k", of, ttl_s=60)
    assert fresh.valid_until is not None
    await place.enter(fresh.key)
    await keys.delete_for(rt, context, MANAGEMENT, "k")
    with pytest.raises(Unauthenticated):
        await place.enter(fresh.key)


async def test_access_tokens(place: Place) -> None:
    rt, context = place.rt, place.context
    request = NewAccessToken(external_id="u1", display_name="Una", ttl_s=60, grants={"memory:read": ["user/u1/*"]})
    one = await keys.access_token(rt, context, MANAGEMENT, request)
    two = await keys.access_token(rt, context, MANAGEMENT, request)
    assert one.principal == two.principal
    assert one.id != two.id
    una = await place.enter(two.key)
    assert una.display_name == "Una"
    assert grants_to_wire(una.effective()) == {"memory:read": ["user/u1/*"]}
    await principals.patch(
        rt, context, MANAGEMENT, one.principal, principals.PrincipalChange(grants={"memory:write": ["user/u1/*"]})
    )
    three = await place.enter((await keys.access_token(rt, context, MANAGEMENT, request)).key)
    assert grants_to_wire(three.effective()) == {"memory:read": ["user/u1/*"]}
    assert grants_to_wire(three.principal.grants) == {"memory:read": ["user/u1/*"], "memory:write": ["user/u1/*"]}
    with pytest.raises(Invalid):
        await keys.access_token(rt, context, MANAGEMENT, NewAccessToken(external_id="u1", ttl_s=0))
    with pytest.raises(Conflict):
        await keys.access_token(rt, context, MANAGEMENT, NewAccessToken(external_id="u2", display_name="una", ttl_s=60))


async def test_upkeep(place: Place, clock: HandClock) -> None:
    rt, context, owner = place.rt, place.context, await place.owner()
    await mint(place, owner, name="old", ttl_s=60)
    await mint(place, owner, name="new", ttl_s=86400 * 40)
    clock.forward(days=29)
    await keep_up(rt)
    assert "old" in await names(place, owner)
    clock.forward(days=2)
    await keep_up(rt)
    assert await names(place, owner) == ["agent", "new", "owner"]
    clock.forward(minutes=2)
    async with kept_up(rt, every_s=0.01):
        await place.owner()
    used = await keys.list_for(rt, context, MANAGEMENT, contexts.OWNER)
    assert await access.flush_usage(rt) == 0
    assert max(key.last_used_at for key in used if key.last_used_at) > clock.now - timedelta(seconds=1)


async def test_a_principal_removed_while_its_key_is_minted_has_none(place: Place) -> None:
    rt, context = place.rt, place.context
    of = await place.principal("p", everywhere("org/*"))
    results = await asyncio.gather(
        keys.create_for(rt, context, MANAGEMENT, of, NewKey(name="k")),
        principals.delete(rt, context, MANAGEMENT, of),
        return_exceptions=True,
    )
    assert isinstance(results[0], MintedKey | NotFound)
    assert results[1] is None
    assert [key.name for key in await keys.list_for(rt, context, MANAGEMENT)] == ["agent", "owner"]
