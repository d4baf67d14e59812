"""From a secret to a caller: what gets in, what does not, and that every refusal looks and works the same."""

from __future__ import annotations

import asyncio
import hmac
import itertools
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keeps.config import Config
from keeps.core.access import PrincipalKind, Region, Verb, region_of
from keeps.core.errors import Forbidden, Unauthenticated
from keeps.core.scopes import Pattern, parse_path, parse_pattern, parse_scopes
from keeps.services import access, contexts, keys, principals
from keeps.services.access import ManagementCaller
from keeps.services.runtime import Runtime, open_runtime
from keeps.store import keys as store_keys
from tests.services.conftest import HandClock
from tests.services.identity import MANAGEMENT, Place, everywhere

READ = Verb.MEMORY_READ


@pytest.fixture
async def place(rt: Runtime) -> Place:
    return await Place.of(rt)


# What gets in


VISIBILITY: list[tuple[Any, list[str], bool]] = [
    ([["org/acme"]], ["org/acme"], True),
    ([["org/acme"]], ["org/acme/*"], True),
    ([["org/acme/user/al"]], ["org/acme"], False),
    ([["org/acme/user/al"]], ["org/acme/*"], True),
    ([["org/acme"]], ["org/acme/user/al"], False),
    ([["org/acme", "user/al"]], ["org/acme", "user/al"], True),
    ([["org/acme", "user/al"]], ["org/acme"], False),
    ([["org/acme/user/al"], ["org/acme/user/bo"]], ["org/acme/user/bo"], True),
    ([["team/a"], ["team/b", "clearance/x"]], ["team/b"], False),
    ([["/"]], ["org/*"], False),
    ([["anything/at/all"]], ["/*"], True),
]


async def test_visibility_through_a_key_a_principal_and_a_target(place: Place) -> None:
    wide = await place.key(await place.principal("wide", everywhere("/*")))
    for number, (row, held, visible) in enumerate(VISIBILITY):
        narrow = await place.principal(f"p{number}", {"memory:read": held})
        by_principal = await place.enter(await place.key(narrow))
        by_key = await place.enter(await place.key(contexts.OWNER, grants={"memory:read": held}))
        by_target = await place.enter(wide, narrow)
        scope = parse_scopes(row)
        assert scope is not None
        for caller in (by_principal, by_key, by_target):
            assert scope.visible_to(caller.region(READ)) is visible, (row, held)
            assert not caller.region(Verb.MEMORY_WRITE)


async def test_key_without_grants_narrows_nothing_and_with_grants_allows_only_those(place: Place) -> None:
    of = await place.principal("p", {"memory:read": ["org/*"], "memory:write": ["org/a"]})
    plain = await place.enter(await place.key(of))
    assert plain.region(READ) == Region((parse_pattern("org/*"),))
    narrowed = await place.enter(await place.key(of, grants={"memory:read": ["org/a/*"]}, strict=True))
    assert narrowed.region(READ) == Region((parse_pattern("org/a/*"),))
    assert not narrowed.region(Verb.MEMORY_WRITE)
    assert narrowed.strict
    assert not plain.strict
    empty = await place.enter(await place.key(of, grants={}))
    assert not empty.effective()


async def test_caller_carries_its_principal(place: Place) -> None:
    of = await place.principal("Ann", everywhere("user/ann/*"), kind=PrincipalKind.HUMAN, home=parse_path("user/ann"))
    caller = await place.enter(await place.key(of))
    assert (caller.principal_id, caller.display_name, caller.kind) == (of, "Ann", PrincipalKind.HUMAN)
    assert caller.home == "user/ann"
    assert caller.default_scope() == parse_scopes("user/ann")
    assert caller.delegate is None


# What does not


async def test_o46_every_refusal_has_the_same_words_and_the_same_work(
    place: Place, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    rt, context = place.rt, place.context
    other = await contexts.bootstrap(rt, "other")
    of = await place.principal("p", everywhere("org/*"))
    good = await place.key(of)
    wrong = good[:-1] + ("a" if good[-1] != "a" else "b")
    expired = await place.key(of, ttl_s=10)
    revoked = await place.key(of, name="revoked")
    await keys.delete_for(rt, context, MANAGEMENT, "revoked")
    unbound_of = await place.principal("gone", everywhere("org/*"))
    unbound = await place.key(unbound_of)
    await context.db.run("DELETE $id RETURN NONE;", id=store_keys.RecordID("principal", unbound_of))
    clock.forward(seconds=11)
    unknown = access.mint(rt, "acme", context.uid).text
    await place.enter(good)  # known from before, as an attacker would hope

    counts = {"hashes": 0, "reads": 0}
    digest, find = hmac.digest, store_keys.find

    def counted_digest(*args: Any) -> bytes:
        counts["hashes"] += 1
        return digest(*args)

    async def counted_find(*args: Any) -> Any:
        counts["reads"] += 1
        return await find(*args)

    monkeypatch.setattr(hmac, "digest", counted_digest)
    monkeypatch.setattr(store_keys, "find", counted_find)
    said: set[str] = set()
    done: dict[str, tuple[int, int]] = {}
    for name, context_id, key in [
        ("none", "acme", None),
        ("empty", "acme", ""),
        ("malformed", "acme", "pfx_AAAA_xyz"),
        ("malformed, long", "acme", "sp-" + "x" * 400),
        ("other scheme", "acme", good.upper()),
        ("unknown", "acme", unknown),
        ("wrong secret", "acme", wrong),
        ("revoked", "acme", revoked),
        ("of another context", "acme", other.owner_key),
        ("of management", "acme", place.made.management_key),
        ("expired", "acme", expired),
        ("unbound", "acme", unbound),
        ("no such context", "nowhere", good),
        ("another case", "ACME", good),
    ]:
        counts.update(hashes=0, reads=0)
        with pytest.raises(Unauthenticated) as refusal:
            await access.authenticate(rt, context_id, key, None)
        said.add(refusal.value.message)
        done[name] = (counts["hashes"], counts["reads"])
    for target in ("nobody", "system", "", "principal:admin"):
        with pytest.raises(Unauthenticated) as refusal:
            await access.authenticate(rt, "acme", good, target)
        said.add(refusal.value.message)
    assert len(said) == 1
    # One mark, one digest, one look at the record; where no context is, there is no record of keys to look at.
    guessed = {name: work for name, work in done.items() if name not in ("no such context", "another case")}
    assert set(guessed.values()) == {(2, 1)}
    assert done["no such context"][0] == done["another case"][0] == 2


async def test_a_guessed_key_opens_no_context(place: Place) -> None:
    made = await contexts.bootstrap(place.rt, "closed")
    await place.rt.forget_context("closed")
    for key in (None, "junk", place.made.owner_key):
        with pytest.raises(Unauthenticated):
            await access.authenticate(place.rt, "closed", key, None)
    assert "closed" not in place.rt.contexts
    await access.authenticate(place.rt, "closed", made.owner_key, None)
    assert "closed" in place.rt.contexts


async def test_a_key_ends_at_its_moment(place: Place, clock: HandClock) -> None:
    key = await place.key(contexts.OWNER, ttl_s=60)
    clock.forward(seconds=59)
    await place.enter(key)
    clock.forward(seconds=1)
    with pytest.raises(Unauthenticated):
        await place.enter(key)


# Management


async def test_management_keys(place: Place) -> None:
    rt = place.rt
    assert isinstance(await access.authenticate_management(rt, place.made.management_key), ManagementCaller)
    with pytest.raises(Forbidden):
        await access.authenticate_management(rt, place.made.owner_key)
    wrong = place.made.owner_key[:-1] + ("a" if place.made.owner_key[-1] != "a" else "b")
    said: set[str] = set()
    for key in (None, "", "junk", wrong, place.made.management_key[:-1] + "!", access.mint_management(rt).text):
        with pytest.raises(Unauthenticated) as refusal:
            await access.authenticate_management(rt, key)
        said.add(refusal.value.message)
    assert len(said) == 1


async def test_context_of_a_key(place: Place) -> None:
    await contexts.bootstrap(place.rt, "other")
    assert await access.context_of(place.rt, place.made.agent_key) == "acme"
    assert await access.context_of(place.rt, place.made.management_key) is None
    assert await access.context_of(place.rt, "junk") is None


# Delegation


async def test_o28_delegation_is_an_intersection_one_step_deep(place: Place) -> None:
    narrow = await place.principal("narrow", {"memory:read": ["org/a/*"], "grant:manage": ["org/*"]})
    wide = await place.principal("wide", everywhere("org/*"))
    key = await place.key(narrow)
    caller = await place.enter(key, wide)
    assert caller.delegate == wide
    assert caller.principal_id == narrow
    assert caller.region(READ) == Region((parse_pattern("org/a/*"),))
    assert not caller.region(Verb.MEMORY_WRITE)
    admin = await place.enter(key, "admin") if await _may(place, key, "admin") else None
    assert admin is None  # grant:manage over org says nothing about the root that admin holds
    itself = await place.enter(key, narrow)
    assert itself.effective() == (await place.enter(key)).effective()
    for target in ("system", "nobody", "wide"):
        with pytest.raises(Unauthenticated):
            await place.enter(key, target)
    # The target acting for another itself adds nothing: there is no header in a header.
    assert await _may(place, await place.key(wide), narrow)


async def _may(place: Place, key: str, target: str) -> bool:
    try:
        await place.enter(key, target)
    except Unauthenticated:
        return False
    return True


async def test_an_agent_acts_for_nobody_by_default(place: Place) -> None:
    for target in ("admin", "owner", "agent", "system"):
        assert not await _may(place, place.made.agent_key, target)
    assert await _may(place, place.made.owner_key, "agent")
    agent = await place.enter(place.made.owner_key, "agent")
    assert agent.effective() == (await place.enter(place.made.agent_key)).effective()


async def test_worked_example_6_with_delegation_for_any(clock: HandClock) -> None:
    async with open_runtime(Config(delegation="any"), clock=clock) as rt:
        place = await Place.of(rt)
        key = await place.key(await place.principal("org", {"memory:read": ["org/acme/*"]}))
        al = await place.principal("al", {"memory:read": ["org/acme/user/al"]})
        caller = await place.enter(key, al)
        assert caller.region(READ) == Region((parse_pattern("org/acme/user/al"),))
        agent = await place.enter(place.made.agent_key, "admin")
        assert agent.effective() == (await place.enter(place.made.agent_key)).effective()
        assert not await _may(place, key, "system")


_patterns = st.sampled_from(["a", "a/*", "a/b", "a/b/*", "a/c", "c", "c/*", "/", "/*"])
_grants = st.dictionaries(
    st.sampled_from([str(verb) for verb in Verb]), st.lists(_patterns, min_size=1, max_size=3), max_size=4
)
_nodes = [parse_path(text) for text in ("/", "a", "a/b", "a/b/c", "a/c", "ab", "c", "c/d")]


def test_key_and_delegation_never_widen() -> None:
    numbers = itertools.count()

    async def check(place: Place, own: Any, key: Any, target: Any) -> None:
        number = next(numbers)
        principal_id = await place.principal(f"p{number}", own)
        target_id = await place.principal(f"t{number}", target)
        secret = await place.key(principal_id)
        held = (await principals.get(place.rt, place.context, MANAGEMENT, principal_id)).grants
        meant = (await principals.get(place.rt, place.context, MANAGEMENT, target_id)).grants
        if key is not None:
            # What is wider than the principal is refused; the rest is minted.
            asked = {verb: patterns for verb, patterns in key.items() if _inside(held, verb, patterns)}
            secret = await place.key(principal_id, grants=asked)
        plain = await place.enter(secret)
        acting = await place.enter(secret, target_id)
        for verb in Verb:
            for node in _nodes:
                if plain.holds(verb, node):
                    assert region_of(held, verb).covers(node)
                both = plain.holds(verb, node) and region_of(meant, verb).covers(node)
                assert acting.holds(verb, node) is both

    with asyncio.Runner() as runner:
        opened = open_runtime(Config(delegation="any"))
        rt = runner.run(opened.__aenter__())
        place = runner.run(Place.of(rt))

        @settings(max_examples=60, deadline=None)
        @given(own=_grants, key=st.none() | _grants, target=_grants)
        def law(own: Any, key: Any, target: Any) -> None:
            runner.run(check(place, own, key, target))

        try:
            law()
        finally:
            runner.run(opened.__aexit__(None, None, None))


def _inside(held: Any, verb: str, patterns: list[str]) -> bool:
    return all(region_of(held, Verb(verb)).covers_pattern(parse_pattern(text)) for text in patterns)


# Changes hold at once


async def test_changes_hold_at_once(place: Place) -> None:
    rt, context = place.rt, place.context
    of = await place.principal("p", {"memory:read": ["org/*"]})
    key = await place.key(of, name="k")
    assert (await place.enter(key)).region(READ)
    await principals.revoke(rt, context, MANAGEMENT, of, Pattern(parse_path("org"), subtree=True), [READ])
    assert not (await place.enter(key)).region(READ)
    fresh = (await keys.rotate_for(rt, context, MANAGEMENT, "k")).key
    assert fresh != key
    with pytest.raises(Unauthenticated):
        await place.enter(key)
    await place.enter(fresh)
    await principals.delete(rt, context, MANAGEMENT, of)
    with pytest.raises(Unauthenticated):
        await place.enter(fresh)


async def test_a_change_elsewhere_holds_within_5_seconds(place: Place, clock: HandClock) -> None:
    key = await place.key(contexts.OWNER)
    caller = await place.enter(key)
    # As another process would: behind the back of this one.
    await place.context.db.run("DELETE $id RETURN NONE;", id=store_keys.record_id(caller.key_id))
    clock.forward(seconds=5)
    with pytest.raises(Unauthenticated):
        await place.enter(key)


async def test_a_read_under_way_does_not_bring_back_what_was_revoked(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await place.key(contexts.OWNER, name="k")
    find = store_keys.find
    reading, go_on = asyncio.Event(), asyncio.Event()

    async def slow_find(*args: Any) -> Any:
        found = await find(*args)
        reading.set()
        await go_on.wait()
        return found

    monkeypatch.setattr(store_keys, "find", slow_find)
    entering = asyncio.create_task(place.enter(key))
    await reading.wait()
    await keys.delete_for(place.rt, place.context, MANAGEMENT, "k")
    go_on.set()
    await entering  # it began before the key was revoked
    with pytest.raises(Unauthenticated):
        await place.enter(key)


# Uses of keys


async def test_uses_are_written_at_most_once_a_minute_and_never_by_a_request(place: Place, clock: HandClock) -> None:
    rt, context = place.rt, place.context
    key = await place.key(contexts.OWNER, name="k")
    key_id = (await place.enter(key)).key_id
    before = rt.engine.commits
    for _ in range(5):
        await place.enter(key)
    assert rt.engine.commits == before
    assert await store_keys.last_uses(context.db, [key_id]) == {}
    assert await access.flush_usage(rt) == 1
    first = (await store_keys.last_uses(context.db, [key_id]))[key_id]
    assert abs(first - clock()) < timedelta(seconds=1)
    clock.forward(seconds=30)
    await place.enter(key)
    assert await access.flush_usage(rt) == 0
    clock.forward(seconds=31)
    assert await access.flush_usage(rt) == 0  # the use is 30 seconds after the one that was written
    await place.enter(key)
    assert await access.flush_usage(rt) == 1
    assert (await store_keys.last_uses(context.db, [key_id]))[key_id] - first > timedelta(seconds=60)
    assert rt.engine.commits == before
    with pytest.raises(Unauthenticated):
        await place.enter("junk")
    assert await access.flush_usage(rt) == 0
