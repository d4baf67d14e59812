"""Who may do what where: verbs, grants, regions, delegation.

What a caller may do with a verb is a region: the patterns its principal holds, narrowed by the key when the
key carries grants of its own, narrowed again by the target when it acts on behalf of one. Every step is an
intersection, so no step can widen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NewType, TypeAlias, cast

from keeps.core.errors import Forbidden, Invalid, Unauthenticated
from keeps.core.scopes import Lens, Pattern, Scope, ScopePath, parse_pattern, wire_path

PrincipalId = NewType("PrincipalId", str)
KeyId = NewType("KeyId", str)

MAX_PATTERNS: Final = 256


class Verb(StrEnum):
    """What a grant allows."""

    MEMORY_READ = "memory:read"
    MEMORY_WRITE = "memory:write"
    MEMORY_FORGET = "memory:forget"
    SCOPE_READ = "scope:read"
    SCOPE_CREATE = "scope:create"
    SCOPE_DELETE = "scope:delete"
    GRANT_MANAGE = "grant:manage"


VERB_DESCRIPTIONS: Final[Mapping[Verb, str]] = {
    Verb.MEMORY_READ: "Find and read facts, passages and documents.",
    Verb.MEMORY_WRITE: "Save facts, sessions and documents.",
    Verb.MEMORY_FORGET: "Retire and purge memories, delete entities, erase scopes.",
    Verb.SCOPE_READ: "See the names of scopes.",
    Verb.SCOPE_CREATE: "Register scopes.",
    Verb.SCOPE_DELETE: "Remove scopes from the vocabulary.",
    Verb.GRANT_MANAGE: "Grant and revoke what one holds oneself, and see everyone's keys and traces.",
}

Grants: TypeAlias = Mapping[Verb, tuple[Pattern, ...]]


class PrincipalKind(StrEnum):
    """What stands behind a principal. It labels; it never widens access."""

    HUMAN = "human"
    AGENT = "agent"
    SERVICE = "service"
    UNKNOWN = "unknown"


class Role(StrEnum):
    """What a principal may decide besides its grants: everything, the settings, what is shared, or what is its own.

    Every person is the subject of the memory under their home; the other roles are given. None of them lets an agent
    confirm anything.
    """

    OWNER = "owner"
    ADMIN = "admin"
    CURATOR = "curator"
    SUBJECT = "subject"


class DelegationRule(StrEnum):
    """Who may act on behalf of another: any key, or only one that manages grants over the other's scopes."""

    ANY = "any"
    MANAGE = "manage"


def parse_verb(value: object) -> Verb:
    """A verb by its full name. Raises: Invalid, also for short names such as `read`."""
    try:
        return Verb(cast("str", value))
    except ValueError:
        raise Invalid(f"bad grant: unknown verb, use one of {', '.join(Verb)}") from None


def parse_kind(value: object) -> PrincipalKind:
    """A kind of principal; None gives `unknown`. Raises: Invalid."""
    if value is None:
        return PrincipalKind.UNKNOWN
    try:
        return PrincipalKind(cast("str", value))
    except ValueError:
        raise Invalid(f"bad kind: use one of {', '.join(PrincipalKind)}") from None


def parse_roles(values: Iterable[str]) -> frozenset[Role]:
    """Roles by their names. Raises: Invalid, also for `subject`, which nobody is made."""
    try:
        found = frozenset(map(Role, values))
    except ValueError:
        found = frozenset({Role.SUBJECT})
    if Role.SUBJECT in found:
        raise Invalid("bad role: use owner, admin or curator")
    return found


def parse_grants(value: object, *, over: Iterable[Pattern] = ()) -> Grants:
    """Grants from `{verb: [pattern]}`, from the object form, or from a flat list of verbs.

    In the object form a pattern is written `{"org": "acme", "user": "mara"}` for `org/acme/user/mara`, in the
    order of its names. A flat list gives each verb over the patterns `over`. None gives no grants.
    Raises: Invalid.
    """
    if value is None:
        return {}
    if isinstance(value, Mapping):
        entries = cast("Mapping[object, object]", value)
        return {parse_verb(verb): _parse_patterns(patterns) for verb, patterns in entries.items()}
    if isinstance(value, list | tuple):
        verbs = [parse_verb(verb) for verb in cast("Sequence[object]", value)]
        patterns = tuple(dict.fromkeys(over))
        if verbs and not patterns:
            raise Invalid("bad grant: say where each verb holds, as {verb: [pattern]}")
        return dict.fromkeys(verbs, patterns)
    raise Invalid("bad grant: give {verb: [pattern]}")


def _parse_patterns(value: object) -> tuple[Pattern, ...]:
    entries = cast("Sequence[object]", value) if isinstance(value, list | tuple) else (value,)
    if len(entries) > MAX_PATTERNS:
        raise Invalid(f"bad grant: at most {MAX_PATTERNS} patterns are allowed for a verb")
    return tuple(dict.fromkeys(map(_parse_grant_pattern, entries)))


def _parse_grant_pattern(value: object) -> Pattern:
    if not isinstance(value, Mapping):
        return parse_pattern(value)
    parts = [part for pair in cast("Mapping[object, object]", value).items() for part in pair]
    # A slash inside a part would shift the meaning of the names after it.
    if not parts or not all(isinstance(part, str) and "/" not in part for part in parts):
        raise Invalid('bad grant: write a scope as {"org": "acme"}, names and values without slashes')
    return parse_pattern("/".join(map(str, parts)))


def grants_to_wire(grants: Grants) -> dict[str, list[str]]:
    """`{verb: [pattern]}` as strings, verbs in their order, verbs without a pattern left out."""
    return {verb.value: [str(pattern) for pattern in grants[verb]] for verb in Verb if grants.get(verb)}


def meet(one: Pattern, other: Pattern) -> Pattern | None:
    """The pattern covering what both cover; None when they share nothing."""
    if one.covers_pattern(other):
        return other
    if other.covers_pattern(one):
        return one
    return None


@dataclass(frozen=True, slots=True)
class Region:
    """The nodes a verb may touch: an OR of patterns, kept without those another one covers, sorted."""

    patterns: tuple[Pattern, ...] = ()

    def __post_init__(self) -> None:
        given = sorted(set(self.patterns))
        kept = tuple(
            pattern
            for pattern in given
            if not any(other != pattern and other.covers_pattern(pattern) for other in given)
        )
        object.__setattr__(self, "patterns", kept)

    def __bool__(self) -> bool:
        return bool(self.patterns)

    def __and__(self, other: Region) -> Region:
        """What both regions cover; never more than either."""
        met = (meet(one, two) for one in self.patterns for two in other.patterns)
        return Region(tuple(pattern for pattern in met if pattern is not None))

    def covers(self, path: ScopePath) -> bool:
        """True when some pattern covers the node."""
        return any(pattern.covers(path) for pattern in self.patterns)

    def covers_pattern(self, pattern: Pattern) -> bool:
        """True when one pattern here covers all that `pattern` covers."""
        return any(own.covers_pattern(pattern) for own in self.patterns)

    def meets(self, pattern: Pattern) -> bool:
        """True when the region and `pattern` share a node."""
        return any(meet(own, pattern) is not None for own in self.patterns)

    def nodes(self) -> tuple[ScopePath, ...]:
        """The node of each pattern, sorted: where a write lands that names no scope."""
        return tuple(sorted({pattern.path for pattern in self.patterns}))


EMPTY_REGION: Final = Region()


def region_of(grants: Grants, verb: Verb) -> Region:
    """Where `grants` allow `verb`; empty when the verb is not listed."""
    return Region(grants.get(verb, ()))


def region(verb: Verb, principal: Grants, key: Grants | None = None, target: Grants | None = None) -> Region:
    """Where the verb holds for a principal, its key and the one it acts for.

    `key` None means the key narrows nothing; a key with grants allows only the verbs it lists. `target` None
    means no delegation. The target's own delegations are never followed.
    """
    held = region_of(principal, verb)
    for narrowing in (key, target):
        if narrowing is not None:
            held &= region_of(narrowing, verb)
    return held


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Someone who can hold grants. `home` is the scope node bound to it; None when it has none.

    `trusted_writer`: an admin vouches for what its code writes, so its facts count as written by the app.
    """

    id: PrincipalId
    display_name: str
    kind: PrincipalKind = PrincipalKind.UNKNOWN
    grants: Grants = field(default_factory=dict[Verb, tuple[Pattern, ...]])
    home: ScopePath | None = None
    external_id: str | None = None
    trusted_writer: bool = False
    roles: frozenset[Role] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who is asking: a principal with a key, perhaps on behalf of `target`.

    `key_grants` None means the key narrows nothing. `strict`: selectors outside the region are refused
    instead of finding nothing.
    """

    principal: Principal
    key_id: KeyId
    key_grants: Grants | None = None
    strict: bool = False
    target: Principal | None = None

    @property
    def principal_id(self) -> PrincipalId:
        """The principal the key belongs to, never the target."""
        return self.principal.id

    @property
    def display_name(self) -> str:
        """The name of the principal the key belongs to."""
        return self.principal.display_name

    @property
    def kind(self) -> PrincipalKind:
        """The kind of the principal the key belongs to."""
        return self.principal.kind

    @property
    def is_person(self) -> bool:
        """True for a person with a key of their own, on nobody's behalf."""
        return self.principal.kind is PrincipalKind.HUMAN and self.target is None

    @property
    def home(self) -> ScopePath | None:
        """The node bound to the principal the key belongs to."""
        return self.principal.home

    @property
    def delegate(self) -> PrincipalId | None:
        """The principal acted for; None without delegation."""
        return self.target.id if self.target else None

    def region(self, verb: Verb) -> Region:
        """Where this caller may use the verb, all narrowing done."""
        target = self.target.grants if self.target else None
        return region(verb, self.principal.grants, self.key_grants, target)

    def effective(self) -> Grants:
        """All regions as grants; verbs held nowhere are left out."""
        held = {verb: self.region(verb).patterns for verb in Verb}
        return {verb: patterns for verb, patterns in held.items() if patterns}

    def holds(self, verb: Verb, path: ScopePath) -> bool:
        """True when the verb is held over the node."""
        return self.region(verb).covers(path)

    def default_scope(self) -> Scope:
        """Where a write lands that names no scope: the home of the one acted for, else the caller's own.

        A home outside the write region does not count; without one each node of the region is a clause.
        Raises: Forbidden when nothing may be written.
        """
        writable = self.region(Verb.MEMORY_WRITE)
        if not writable:
            raise Forbidden("this key may not write anywhere: it needs memory:write over some scope")
        for owner in (self.target, self.principal):
            if owner and owner.home is not None and writable.covers(owner.home):
                return Scope(frozenset({frozenset({owner.home})}))
        return Scope(frozenset(frozenset({node}) for node in writable.nodes()))


def check_write(scope: Scope, region: Region) -> None:
    """Raises: Forbidden when a node of any clause lies outside `region`, the caller's memory:write."""
    nodes = sorted(scope.nodes()) or [ScopePath("/")]
    for node in nodes:
        if not region.covers(node):
            raise Forbidden(
                f"memory:write is not held over {wire_path(node)}: write below a scope that whoami names, or let the"
                " owner of the context or management grant it (principals.grant)"
            )


def check_lens(lens: Lens, region: Region) -> None:
    """For strict keys. Raises: Forbidden when a lens names a pattern that shares nothing with `region`."""
    for clause in lens.clauses:
        for pattern in sorted(clause):
            if not region.meets(pattern):
                raise Forbidden(f"memory:read is not held over {pattern}")


def check_delegation(caller: Caller, target: Principal, rule: DelegationRule) -> None:
    """Raises: Unauthenticated when `caller` may not act for `target`, in the words used for any other refusal.

    Under `manage` the caller holds grant:manage over some node that the target's grants name.
    """
    if rule is DelegationRule.ANY:
        return
    managed = region(Verb.GRANT_MANAGE, caller.principal.grants, caller.key_grants)
    if not any(managed.covers(pattern.path) for patterns in target.grants.values() for pattern in patterns):
        raise refused()


def refused() -> Unauthenticated:
    """The one answer to a missing, wrong, expired or foreign key, and to a target that may not be acted for."""
    return Unauthenticated("send a valid key of this context, as Authorization: Bearer <key>")


def plan_grant(caller: Caller, held: Grants, pattern: Pattern, verbs: Iterable[Verb]) -> Grants:
    """The grants `held` with `verbs` over `pattern` added.

    Raises: Forbidden unless the caller manages grants over the whole pattern and holds each verb over it.
    """
    _check_manages(caller, pattern)
    granted = dict(held)
    for verb in verbs:
        if not caller.region(verb).covers_pattern(pattern):
            raise Forbidden(f"{verb} over {pattern} is not yours to give")
        granted[verb] = tuple(dict.fromkeys((*granted.get(verb, ()), pattern)))
        if len(granted[verb]) > MAX_PATTERNS:
            raise Invalid(f"bad grant: at most {MAX_PATTERNS} patterns are allowed for a verb")
    return granted


def plan_revoke(caller: Caller, held: Grants, pattern: Pattern, verbs: Iterable[Verb]) -> Grants:
    """The grants `held` without exactly `pattern` for `verbs`; wider and narrower patterns stay.

    Raises: Forbidden unless the caller manages grants over the whole pattern.
    """
    _check_manages(caller, pattern)
    left = dict(held)
    for verb in verbs:
        left[verb] = tuple(kept for kept in left.get(verb, ()) if kept != pattern)
    return {verb: patterns for verb, patterns in left.items() if patterns}


def _check_manages(caller: Caller, pattern: Pattern) -> None:
    if not caller.region(Verb.GRANT_MANAGE).covers_pattern(pattern):
        raise Forbidden(f"grant:manage is not held over {pattern}")


def check_within(wanted: Grants, held: Grants) -> None:
    """Raises: Invalid when `wanted` allows what `held` does not: a key is never wider than its owner."""
    for verb, patterns in wanted.items():
        owned = region_of(held, verb)
        for pattern in patterns:
            if not owned.covers_pattern(pattern):
                raise Invalid(f"bad grant: {verb} over {pattern} is wider than what the principal holds")
