"""Lists of what is known now: facts, relations, actions and doubts, each row as its reader may see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from keeps.core.access import Caller, Verb
from keeps.core.entities import EntityRef, normalise_key, normalise_label, normalise_verb
from keeps.core.errors import Invalid
from keeps.core.facts import Action, Fact, Relation, Row, RowId
from keeps.core.pages import FIRST_PAGE, Page, PageRequest, Place, time_key
from keeps.core.sight import Sight
from keeps.core.uncertainties import Uncertainty
from keeps.services.runtime import Context, Runtime
from keeps.services.sight import doubts_shown, sight_of
from keeps.store import facts as store_facts
from keeps.store import uncertainties as store_uncertainties

AnyRow = TypeVar("AnyRow", bound=Row)

_DOUBTS_AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ListAttributes:
    """Which facts: of an entity, of a key in any spelling, or both."""

    entity: EntityRef | None = None
    key: str | None = None
    page: PageRequest = FIRST_PAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRelations:
    """Which relations: from an entity, to one, of a label in any spelling."""

    subject: EntityRef | None = None
    object: EntityRef | None = None
    label: str | None = None
    page: PageRequest = FIRST_PAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class ListActions:
    """Which actions: of an actor, of a verb, with a time between `since` and `until`, both included."""

    actor: EntityRef | None = None
    verb: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    page: PageRequest = FIRST_PAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class ListUncertainties:
    """Which doubts: about an entity, settled ones or open ones; both unless said."""

    entity: EntityRef | None = None
    resolved: bool | None = None
    page: PageRequest = FIRST_PAGE


async def attributes(rt: Runtime, context: Context, caller: Caller, request: ListAttributes) -> Page[Fact]:
    """Live facts the caller may see, newest first. Raises: Invalid for a key that cannot be one."""
    equal = {
        "entity": str(request.entity) if request.entity else None,
        "key": None if request.key is None else normalise_key(request.key),
    }
    return await _list(rt, context, caller, _wanted("attribute", equal, request.page), request.page)


async def relations(rt: Runtime, context: Context, caller: Caller, request: ListRelations) -> Page[Relation]:
    """Live relations the caller may see, newest first. Raises: Invalid for a label that cannot be one."""
    equal = {
        "subject": str(request.subject) if request.subject else None,
        "object": str(request.object) if request.object else None,
        "label": None if request.label is None else normalise_label(request.label),
    }
    return await _list(rt, context, caller, _wanted("relates_to", equal, request.page), request.page)


async def actions(rt: Runtime, context: Context, caller: Caller, request: ListActions) -> Page[Action]:
    """Live actions the caller may see, the one written down last first. Raises: Invalid for a bad verb."""
    equal = {
        "actor": str(request.actor) if request.actor else None,
        "verb": None if request.verb is None else normalise_verb(request.verb),
    }
    wanted = replace(_wanted("action", equal, request.page), since=request.since, until=request.until)
    return await _list(rt, context, caller, wanted, request.page)


async def uncertainties(context: Context, caller: Caller, request: ListUncertainties) -> Page[Uncertainty]:
    """Doubts the caller may see, newest first."""
    page, sight = request.page, sight_of(context, caller)
    guarded = bool(sight.rest)
    wanted = store_uncertainties.Wanted(
        entity=request.entity,
        resolved=request.resolved,
        before=before_of(page.after),
        offset=0 if guarded else page.offset,
        limit=_DOUBTS_AT_ONCE if guarded else page.limit + 1,
    )
    found: list[Uncertainty] = []
    most = page.offset + page.limit + 1 if guarded else page.limit + 1
    while True:
        part = await store_uncertainties.list_some(context.db, context.sets, wanted, sight.sets)
        found += await doubts_shown(context, caller, sight, part)
        if not guarded or len(part) < wanted.limit or len(found) >= most:
            break
        wanted = replace(wanted, before=(part[-1].created_at, part[-1].id))
    rest = found[page.offset :] if guarded else found
    shown = tuple(rest[: page.limit])
    following = (time_key(shown[-1].created_at), shown[-1].id) if len(rest) > len(shown) and shown else None
    return Page(rows=shown, next=following, total=await _count_doubts(context, caller, sight, request))


async def _count_doubts(context: Context, caller: Caller, sight: Sight, request: ListUncertainties) -> int | None:
    """How many doubts the whole list holds, when that is asked."""
    if not request.page.count:
        return None
    wanted = store_uncertainties.Wanted(
        entity=request.entity, resolved=request.resolved, offset=0, limit=_DOUBTS_AT_ONCE
    )
    if not sight.rest:
        return await store_uncertainties.count(context.db, wanted, sight.sets)
    total = 0
    while True:
        part = await store_uncertainties.list_some(context.db, context.sets, wanted, sight.sets)
        total += len(await doubts_shown(context, caller, sight, part))
        if len(part) < wanted.limit:
            return total
        wanted = replace(wanted, before=(part[-1].created_at, part[-1].id))


def resolvable(caller: Caller, uncertainty: Uncertainty) -> bool:
    """True when this caller may settle the doubt: open, about one key, and all its scopes writable."""
    writable = uncertainty.scope.within(caller.region(Verb.MEMORY_WRITE))
    return not uncertainty.resolved and uncertainty.has_subject and writable


def doubt_as_seen(caller: Caller, doubt: Uncertainty) -> Uncertainty:
    """The doubt without owners its reader does not hold. Ask `resolvable` of the whole one first."""
    return replace(doubt, scope=doubt.scope.seen_by(caller.region(Verb.MEMORY_READ)))


def readable_by(context: Context, caller: Caller) -> frozenset[str]:
    """Ids of the scope sets this caller may read."""
    return context.sets.readable(caller.region(Verb.MEMORY_READ))


async def as_seen(context: Context, rows: Sequence[AnyRow], caller: Caller, sight: Sight | None = None) -> list[AnyRow]:
    """The rows without what their reader cannot see: other owners, and links to other versions, turns, sessions.

    `sight`: what the caller may look at, when that is known already."""
    region = caller.region(Verb.MEMORY_READ)
    hidden = await store_facts.hidden(context.db, rows, sight or sight_of(context, caller))
    return [replace(_without(row, hidden) if hidden else row, scope=row.scope.seen_by(region)) for row in rows]


def _without(row: AnyRow, hidden: frozenset[str]) -> AnyRow:
    source = row.source
    changes: dict[str, Any] = {}
    if source.ref in hidden or f"session:{source.session}" in hidden:
        changes["source"] = replace(
            source,
            ref=None if source.ref in hidden else source.ref,
            session=None if f"session:{source.session}" in hidden else source.session,
        )
    if isinstance(row, Fact):
        changes["supersedes"] = _seen_link(row.supersedes, hidden)
        changes["superseded_by"] = _seen_link(row.superseded_by, hidden)
    return replace(row, **changes)


def _seen_link(link: RowId | None, hidden: frozenset[str]) -> RowId | None:
    return None if f"attribute:{link}" in hidden else link


def before_of(place: Place | None) -> tuple[datetime, str] | None:
    """The time and id where a page of a list ordered by time goes on. Raises: Invalid for another list's place."""
    if place is None:
        return None
    try:
        return datetime.strptime(place[0], "%Y-%m-%dT%H:%M:%S.%f").replace(tzinfo=UTC), place[1]
    except ValueError:
        raise Invalid("this cursor belongs to another list: begin again without it") from None


def _wanted(table: str, equal: dict[str, str | None], page: PageRequest) -> store_facts.Wanted:
    return store_facts.Wanted(
        table=table,
        equal={column: text for column, text in equal.items() if text is not None},
        before=before_of(page.after),
        offset=page.offset,
        limit=page.limit + 1,
    )


async def _list(
    rt: Runtime, context: Context, caller: Caller, wanted: store_facts.Wanted, page: PageRequest
) -> Page[Any]:
    """One page, and where the next one begins: by known time, for actions by the time they were written down."""
    sight, now = sight_of(context, caller), rt.clock()
    found = await store_facts.list_live(context.db, context.sets, wanted, sight, now)
    total = await store_facts.count_live(context.db, wanted, sight, now) if page.count else None
    shown = await as_seen(context, found[: page.limit], caller, sight)
    following = None
    if len(found) > len(shown) and shown:
        clocks = shown[-1].clocks
        following = (time_key(clocks.recorded_at if wanted.table == "action" else clocks.known_at), shown[-1].id)
    return Page(rows=tuple(shown), next=following, total=total)
