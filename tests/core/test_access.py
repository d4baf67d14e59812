"""Grants, regions, delegation, granting and revoking: tables, refusals and laws."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keeps.core.access import (
    Caller,
    DelegationRule,
    Grants,
    KeyId,
    Principal,
    PrincipalId,
    PrincipalKind,
    Region,
    Verb,
    check_delegation,
    check_lens,
    check_within,
    check_write,
    grants_to_wire,
    meet,
    parse_grants,
    parse_kind,
    parse_verb,
    plan_grant,
    plan_revoke,
    region,
    region_of,
)
from keeps.core.errors import Forbidden, Invalid, Unauthenticated
from keeps.core.scopes import (
    EVERYTHING,
    ROOT,
    Pattern,
    Scope,
    ScopePath,
    parse_lens,
    parse_path,
    parse_pattern,
    parse_scopes,
)
from tests.core.strategies import grants, paths, patterns, regions, scopes

READ, WRITE, MANAGE = Verb.MEMORY_READ, Verb.MEMORY_WRITE, Verb.GRANT_MANAGE


def area(*texts: str) -> Region:
    return Region(tuple(map(parse_pattern, texts)))


def principal(held: object, *, home: str | None = None, name: str = "al") -> Principal:
    return Principal(
        id=PrincipalId(name),
        display_name=name,
        grants=parse_grants(held),
        home=parse_path(home) if home else None,
    )


def caller(held: object, *, key: object = None, target: Principal | None = None, home: str | None = None) -> Caller:
    return Caller(
        principal=principal(held, home=home),
        key_id=KeyId("k1"),
        key_grants=None if key is None else parse_grants(key),
        target=target,
    )


def everywhere(*texts: str) -> dict[str, list[str]]:
    return {verb.value: list(texts) for verb in Verb}


# Patterns and regions


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("a/*", "a/b", "a/b"),
        ("a/*", "a", "a"),
        ("a/*", "a/b/*", "a/b/*"),
        ("a", "a", "a"),
        ("a/*", "a/*", "a/*"),
        ("/*", "a", "a"),
        ("/*", "/*", "/*"),
        ("/", "/*", "/"),
        ("/", "a", None),
        ("a", "a/b", None),
        ("a", "b", None),
        ("a/*", "ab/*", None),
        ("a/*", "b/*", None),
        ("a/b/*", "a/c", None),
    ],
)
def test_meeting_of_patterns(one: str, other: str, expected: str | None) -> None:
    wanted = None if expected is None else parse_pattern(expected)
    assert meet(parse_pattern(one), parse_pattern(other)) == wanted
    assert meet(parse_pattern(other), parse_pattern(one)) == wanted


@given(patterns, patterns, paths)
def test_a_meeting_covers_exactly_what_both_cover(one: Pattern, other: Pattern, path: ScopePath) -> None:
    met = meet(one, other)
    assert (met is not None and met.covers(path)) is (one.covers(path) and other.covers(path))


@given(patterns, patterns, paths)
def test_covering_a_pattern_means_covering_its_nodes(one: Pattern, other: Pattern, path: ScopePath) -> None:
    if one.covers_pattern(other) and other.covers(path):
        assert one.covers(path)
    assert one.covers_pattern(other) is (meet(one, other) == other)


@given(regions, regions, paths)
def test_intersection_never_widens(one: Region, other: Region, path: ScopePath) -> None:
    assert (one & other).covers(path) is (one.covers(path) and other.covers(path))


@given(regions, regions, regions)
def test_intersection_is_commutative_associative_and_idempotent(one: Region, other: Region, third: Region) -> None:
    assert one & other == other & one
    assert (one & other) & third == one & (other & third)
    assert one & one == one
    assert one & Region((EVERYTHING,)) == one
    assert not one & Region()


@given(st.lists(patterns, max_size=5), paths, st.randoms())
def test_reduction_changes_no_coverage(found: list[Pattern], path: ScopePath, random: object) -> None:
    reduced = Region(tuple(found))
    assert reduced.covers(path) is any(pattern.covers(path) for pattern in found)
    assert Region(tuple(reversed(found))) == reduced
    assert all(reduced.covers_pattern(pattern) for pattern in found)
    for pattern in reduced.patterns:
        assert not any(other.covers_pattern(pattern) for other in reduced.patterns if other != pattern)


@given(regions, patterns)
def test_meeting_a_region_means_sharing_a_node(own: Region, pattern: Pattern) -> None:
    assert own.meets(pattern) is bool(own & Region((pattern,)))


def test_nodes_of_a_region() -> None:
    assert area("org/acme/*", "user/al").nodes() == ("org/acme", "user/al")
    assert area("/*").nodes() == (ROOT,)
    assert area("a", "a/*").nodes() == ("a",)
    assert area().nodes() == ()


# Effective grants


@given(grants, st.none() | grants, st.none() | grants, st.sampled_from(Verb), scopes)
def test_key_and_delegation_never_widen(
    held: Grants, key: Grants | None, target: Grants | None, verb: Verb, row: Scope
) -> None:
    narrowed = region(verb, held, key, target)
    for part in (held, key, target):
        if part is not None and row.visible_to(narrowed):
            assert row.visible_to(region_of(part, verb))


def test_a_key_with_grants_allows_only_what_it_lists() -> None:
    al = caller(everywhere("org/acme/*"), key={"memory:read": ["org/acme/x"]})
    assert al.effective() == {READ: (parse_pattern("org/acme/x"),)}
    assert caller(everywhere("org/acme/*"), key={}).effective() == {}
    assert caller(everywhere("org/acme/*")).effective()[WRITE] == (parse_pattern("org/acme/*"),)


def test_delegation_reads_only_what_both_cover() -> None:
    target = principal(everywhere("org/acme/user/al"), name="target")
    on_behalf = caller(everywhere("org/acme/*"), target=target)
    assert on_behalf.region(READ) == area("org/acme/user/al")
    assert on_behalf.delegate == "target"
    assert on_behalf.principal_id == "al"
    assert not on_behalf.holds(READ, parse_path("org/acme/user/bo"))
    wide = principal(everywhere("/*"), name="target")
    assert caller(everywhere("org/acme/*"), target=wide).region(READ) == area("org/acme/*")


@pytest.mark.parametrize(
    ("manages", "target", "allowed"),
    [
        ({"grant:manage": ["org/acme/*"]}, everywhere("org/acme/user/al"), True),
        ({"grant:manage": ["org/acme/user/al"]}, {"memory:read": ["org/acme/user/al/*"]}, True),
        ({"grant:manage": ["org/acme/user/bo"]}, everywhere("org/acme/user/al"), False),
        ({"grant:manage": ["org/acme/user/al"]}, everywhere("/*"), False),
        ({"memory:read": ["/*"], "memory:write": ["/*"]}, everywhere("org/acme/user/al"), False),
        ({"grant:manage": ["/*"]}, {}, False),
        ({}, everywhere("/*"), False),
    ],
)
def test_who_may_act_for_whom(manages: object, target: object, allowed: bool) -> None:
    other = principal(target, name="other")
    check_delegation(caller(manages), other, DelegationRule.ANY)
    if allowed:
        check_delegation(caller(manages), other, DelegationRule.MANAGE)
    else:
        with pytest.raises(Unauthenticated):
            check_delegation(caller(manages), other, DelegationRule.MANAGE)


def test_a_key_that_was_narrowed_cannot_act_for_others() -> None:
    other = principal(everywhere("org/acme/user/al"), name="other")
    narrowed = caller(everywhere("/*"), key={"memory:read": ["/*"]})
    with pytest.raises(Unauthenticated):
        check_delegation(narrowed, other, DelegationRule.MANAGE)


# Writing


@pytest.mark.parametrize(
    ("written", "held", "allowed"),
    [
        ("org/acme", ["org/acme/*"], True),
        ([["org/acme", "user/al"]], ["org/acme", "user/al"], True),
        ([["org/acme"], ["org/beta"]], ["org/acme/*"], False),
        ("org/beta", ["org/acme/*"], False),
        ("org", ["org/acme/*"], False),
        ("/", ["org/*"], False),
        ("/", ["/*"], True),
        (None, ["org/*"], False),
        (None, ["/*"], True),
        ("org/acme", [], False),
    ],
)
def test_every_node_written_must_be_held(written: object, held: list[str], allowed: bool) -> None:
    scope = parse_scopes(written) or Scope()
    if allowed:
        check_write(scope, area(*held))
    else:
        with pytest.raises(Forbidden, match="memory:write"):
            check_write(scope, area(*held))


@given(scopes, regions)
def test_what_may_be_written_may_be_seen_by_the_same_region(row: Scope, own: Region) -> None:
    try:
        check_write(row, own)
    except Forbidden:
        assert not row.within(own)
        return
    assert row.visible_to(own)


def test_where_a_write_lands_that_names_no_scope() -> None:
    def lands(who: Caller) -> list[list[str]]:
        return who.default_scope().to_lists()

    assert lands(caller(everywhere("/*"), home="user/owner")) == [["user/owner"]]
    assert lands(caller(everywhere("org/acme/*", "user/al"))) == [["org/acme"], ["user/al"]]
    assert lands(caller(everywhere("/*"))) == [["/"]]
    # A home that this key may not write to does not count.
    narrowed = caller(everywhere("/*"), key={"memory:write": ["org/x"]}, home="user/owner")
    assert lands(narrowed) == [["org/x"]]
    target = principal(everywhere("user/bo/*"), home="user/bo", name="bo")
    assert lands(caller(everywhere("/*"), target=target, home="user/owner")) == [["user/bo"]]
    # Both homes may be written to: what is said on someone's behalf is theirs.
    anywhere = principal(everywhere("/*"), home="user/bo", name="bo")
    assert lands(caller(everywhere("/*"), target=anywhere, home="user/owner")) == [["user/bo"]]
    with pytest.raises(Forbidden):
        caller({"memory:read": ["/*"]}).default_scope()


@given(grants, st.none() | grants, st.none() | paths)
def test_the_default_scope_is_always_allowed(held: Grants, key: Grants | None, home: ScopePath | None) -> None:
    who = Caller(
        principal=Principal(id=PrincipalId("p"), display_name="p", grants=held, home=home),
        key_id=KeyId("k"),
        key_grants=key,
    )
    try:
        landed = who.default_scope()
    except Forbidden:
        assert not who.region(WRITE)
        return
    check_write(landed, who.region(WRITE))


def test_a_strict_key_refuses_a_lens_outside_its_region() -> None:
    check_lens(parse_lens("org/*"), area("org/acme"))
    check_lens(parse_lens(None), area())
    for outside in ("org/beta", [["org/acme", "org/beta"]], ["org/acme", "org/beta/*"]):
        with pytest.raises(Forbidden):
            check_lens(parse_lens(outside), area("org/acme"))


# Grants on the wire


@pytest.mark.parametrize(
    ("given_", "wire"),
    [
        ({"memory:read": ["org/acme/*"]}, {"memory:read": ["org/acme/*"]}),
        ({"memory:read": ["*", "/*"]}, {"memory:read": ["/*"]}),
        ({"memory:read": "org/acme/"}, {"memory:read": ["org/acme"]}),
        ({"memory:read": [{"org": "acme", "user": "mara"}]}, {"memory:read": ["org/acme/user/mara"]}),
        ({"memory:read": [{"org": "acme", "user": "*"}]}, {"memory:read": ["org/acme/user/*"]}),
        ({"memory:read": []}, {}),
        ({}, {}),
        (None, {}),
    ],
)
def test_grants_in_every_form(given_: object, wire: dict[str, list[str]]) -> None:
    parsed = parse_grants(given_)
    assert grants_to_wire(parsed) == wire
    assert grants_to_wire(parse_grants(wire)) == wire


def test_a_flat_list_holds_over_what_the_principal_holds() -> None:
    own = (parse_pattern("org/acme/*"),)
    assert parse_grants(["memory:write"], over=own) == {WRITE: own}
    with pytest.raises(Invalid):
        parse_grants(["memory:write"])


@pytest.mark.parametrize(
    "bad",
    [
        {"read": ["/*"]},
        ["read"],
        {"memory:admin": ["/*"]},
        {"memory:read": ["a/*/b"]},
        {"memory:read": [7]},
        {"memory:read": [{}]},
        {"memory:read": [{"org": "acme/user"}]},
        {"memory:read": [{"org": ["acme"]}]},
        {7: ["/*"]},
        "memory:read",
        {"memory:read": [f"a/{n}" for n in range(257)]},
        {"memory:read": ["a\0"]},
        [["memory:read"]],
    ],
)
def test_bad_grants_are_refused(bad: object) -> None:
    with pytest.raises(Invalid):
        parse_grants(bad, over=(EVERYTHING,))


def test_verbs_and_kinds() -> None:
    assert [str(verb) for verb in Verb] == [
        "memory:read",
        "memory:write",
        "memory:forget",
        "scope:read",
        "scope:create",
        "scope:delete",
        "grant:manage",
    ]
    assert parse_verb("memory:read") is READ
    assert parse_kind(None) is PrincipalKind.UNKNOWN
    assert parse_kind("human") is PrincipalKind.HUMAN
    for bad in ("read", "", None, 3, []):
        with pytest.raises(Invalid):
            parse_verb(bad)
    with pytest.raises(Invalid):
        parse_kind("robot")


# Granting and revoking


def test_one_may_give_what_one_holds_where_one_manages() -> None:
    boss = caller({"grant:manage": ["org/*"], "memory:read": ["org/acme/*"]})
    acme = parse_pattern("org/acme/*")
    given_ = plan_grant(boss, {}, acme, [READ])
    assert grants_to_wire(given_) == {"memory:read": ["org/acme/*"]}
    assert plan_grant(boss, given_, acme, [READ]) == given_
    assert grants_to_wire(plan_grant(boss, given_, parse_pattern("org/acme/x"), [READ])) == {
        "memory:read": ["org/acme/*", "org/acme/x"]
    }
    for pattern, verbs in (
        ("org/acme/*", [WRITE]),
        ("org/acme/*", [READ, WRITE]),
        ("org/*", [READ]),
        ("/*", [READ]),
        ("user/al", [READ]),
    ):
        with pytest.raises(Forbidden):
            plan_grant(boss, {}, parse_pattern(pattern), verbs)
    with pytest.raises(Forbidden):
        plan_grant(caller({"memory:read": ["/*"]}), {}, acme, [READ])


def test_revoking_takes_exactly_the_pattern_named() -> None:
    boss = caller(everywhere("org/*"))
    held = parse_grants({"memory:read": ["org/acme", "org/acme/*"], "memory:write": ["org/acme"]})
    left = plan_revoke(boss, held, parse_pattern("org/acme"), [READ, WRITE])
    assert grants_to_wire(left) == {"memory:read": ["org/acme/*"]}
    assert plan_revoke(boss, held, parse_pattern("org/acme/user"), [READ]) == held
    without_subtree = plan_revoke(boss, held, parse_pattern("org/acme/*"), [READ, WRITE])
    assert grants_to_wire(without_subtree) == {"memory:read": ["org/acme"], "memory:write": ["org/acme"]}
    with pytest.raises(Forbidden):
        plan_revoke(boss, held, parse_pattern("/*"), [READ])


@given(grants, grants, patterns, st.lists(st.sampled_from(Verb), max_size=3))
def test_granting_never_gives_more_than_the_giver_has(
    held: Grants, own: Grants, pattern: Pattern, verbs: list[Verb]
) -> None:
    giver = Caller(principal=Principal(id=PrincipalId("p"), display_name="p", grants=own), key_id=KeyId("k"))
    try:
        after = plan_grant(giver, held, pattern, verbs)
    except Forbidden:
        return
    for verb in Verb:
        for new in set(after.get(verb, ())) - set(held.get(verb, ())):
            assert giver.region(verb).covers_pattern(new)


@given(grants, grants)
def test_a_key_within_its_owner_loses_nothing_by_the_intersection(key: Grants, held: Grants) -> None:
    try:
        check_within(key, held)
    except Invalid:
        return
    for verb in key:
        assert region(verb, held, key) == region_of(key, verb)


def test_a_key_wider_than_its_owner_is_refused() -> None:
    held = parse_grants({"memory:read": ["org/acme/*"]})
    check_within(parse_grants({"memory:read": ["org/acme/x/*", "org/acme"]}), held)
    for wider in ({"memory:read": ["org/*"]}, {"memory:write": ["org/acme"]}, {"memory:read": ["/*"]}):
        with pytest.raises(Invalid):
            check_within(parse_grants(wider), held)
