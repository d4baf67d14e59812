"""Looking at one thing by its reference: whatever answers can be named can be looked up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from keeps.core.access import Caller
from keeps.core.entities import EntityRef
from keeps.core.errors import NotFound
from keeps.core.facts import Action, Fact, Relation, Row
from keeps.core.pages import DEFAULT_LIMIT
from keeps.core.references import KeyReference, RelationReference, RowReference, parse_reference
from keeps.core.sessions import Turn
from keeps.core.supersession import current
from keeps.core.uncertainties import Uncertainty
from keeps.core.validity import NOW, When, answers, known, offered
from keeps.services import entities, history, sessions, traces
from keeps.services.entities import EntityView, GetEntity
from keeps.services.facts import AnyRow, as_seen, doubt_as_seen, resolvable
from keeps.services.runtime import Context, Runtime
from keeps.services.sessions import SessionView
from keeps.services.sight import doubts_shown, sight_of
from keeps.services.traces import TraceView
from keeps.store import facts as store_facts
from keeps.store import sessions as store_sessions
from keeps.store import uncertainties as store_uncertainties

_FACT_TABLES: Final = ("attribute", "relates_to", "action")


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspect:
    """What to look at, and at what time. `limit` 1..500 rows of each sort."""

    ref: str
    when: When = NOW
    limit: int = DEFAULT_LIMIT


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspected:
    """What was found. `kind` says which members are there.

    `entity`: `view`. `attribute`: `current` (None when nothing holds), `history` newest first, and `row` when the
    reference named one. `relation`: `matches`, `truncated`, and `row`. `action`: `row`. `turn`: `turn`.
    `memory_chunk`: `turn` and `passage`, the text of that part. `session`: `session`. `uncertainty`: `uncertainty`
    and whether this caller may settle it. `trace`: `trace`.
    """

    kind: str
    view: EntityView | None = None
    row: Row | None = None
    current: Fact | None = None
    history: tuple[Fact, ...] = ()
    matches: tuple[Relation, ...] = ()
    truncated: bool = False
    turn: Turn | None = None
    passage: str | None = None
    session: SessionView | None = None
    uncertainty: Uncertainty | None = None
    resolvable: bool = False
    trace: TraceView | None = None


async def inspect(rt: Runtime, context: Context, caller: Caller, request: Inspect) -> Inspected:
    """The thing a reference names, as the caller may see it.

    Raises:
        Invalid: the text is no reference, or the limit is out of range.
        NotFound: there is no such thing, or it is not visible: the two look alike.
    """
    reference = parse_reference(request.ref)
    look = _Look(rt, context, caller, request)
    if isinstance(reference, EntityRef):
        get = GetEntity(ref=reference, when=request.when, limit=request.limit)
        return Inspected(kind="entity", view=await entities.get(rt, context, caller, get))
    if isinstance(reference, KeyReference):
        return await look.key(reference.entity, reference.key)
    if isinstance(reference, RelationReference):
        return await look.relations(reference)
    return await look.row(reference)


class _Look:
    """One look: the caller's scope sets and the moment it happens."""

    def __init__(self, rt: Runtime, context: Context, caller: Caller, request: Inspect) -> None:
        self._rt = rt
        self._context = context
        self._caller = caller
        self._request = request
        self._sight = sight_of(context, caller)
        self._now: datetime = rt.clock()

    async def key(self, entity: EntityRef, key: str, row: Fact | None = None) -> Inspected:
        """The value that holds and all that held, at the time asked about."""
        context, when = self._context, self._request.when
        found = await store_facts.versions(context.db, context.sets, entity, key, self._sight.sets)
        versions = await self._seen([fact for fact in found if self._shows(fact)])
        if not versions:
            raise self._missing()
        limit = self._request.limit
        then = versions if when.is_now else [fact for fact in versions if known(fact, when)]
        return Inspected(
            kind="attribute",
            row=row,
            current=current(fact for fact in versions if answers(fact, when, self._now)),
            history=tuple(then[:limit]),
            truncated=len(then) > limit,
        )

    async def relations(self, reference: RelationReference) -> Inspected:
        """Relations between the two ends that hold at the time asked about."""
        context, limit = self._context, self._request.limit
        found = await store_facts.between(
            context.db, context.sets, reference.subjects, reference.label, reference.objects, self._sight.sets
        )
        offering = [relation for relation in found if self._shows(relation)]
        if not offering:
            raise self._missing()
        matches = [relation for relation in offering if answers(relation, self._request.when, self._now)]
        shown = await self._seen(matches[:limit])
        return Inspected(kind="relation", matches=tuple(shown), truncated=len(matches) > limit)

    async def row(self, reference: RowReference) -> Inspected:
        """One row by its id, whatever time is asked about."""
        found = None
        if reference.table in (None, *_FACT_TABLES):
            found = await self._fact(reference)
        if found is None and reference.table in (None, "turn"):
            found = await self._turn(reference.id)
        if found is None and reference.table in (None, "memory_chunk"):
            found = await self._passage(reference.id)
        if found is None and reference.table in (None, "session"):
            found = await self._session(reference.id)
        if found is None and reference.table in (None, "uncertainty"):
            found = await self._uncertainty(reference.id)
        if found is None and reference.table in (None, "trace"):
            found = await self._trace(reference.id)
        if found is None:
            raise self._missing()
        return found

    async def _fact(self, reference: RowReference) -> Inspected | None:
        context = self._context
        tables = _FACT_TABLES if reference.table is None else (reference.table,)
        refs = [f"{table}:{reference.id}" for table in tables]
        found = await store_facts.by_refs(context.db, context.sets, refs, self._sight.sets)
        rows = [r for r in found.values() if r.clocks.forgotten_at is None and self._shows(r)]
        if not rows:
            return None
        (row, *_) = await self._seen(rows)
        if isinstance(row, Fact):
            return await self.key(row.entity, row.key, row)
        if isinstance(row, Relation):
            return Inspected(kind="relation", row=row, matches=(row,))
        assert isinstance(row, Action)
        return Inspected(kind="action", row=row)

    async def _turn(self, turn_id: str) -> Inspected | None:
        turn = await self._active_turn(turn_id)
        return None if turn is None else Inspected(kind="turn", turn=turn)

    async def _active_turn(self, turn_id: str) -> Turn | None:
        context = self._context
        found = await store_sessions.turns_by_id(context.db, context.sets, [turn_id], self._sight.sets)
        turn = found.get(turn_id)
        if turn is None or not turn.active or not await history.heard(context, self._caller, [turn]):
            return None
        return sessions.turn_as_seen(turn, self._caller)

    async def _passage(self, chunk_id: str) -> Inspected | None:
        found = await store_sessions.find_chunk(self._context.db, chunk_id)
        if found is None:
            return None
        turn_id, chunk = found
        turn = await self._active_turn(turn_id)
        if turn is None:
            return None
        return Inspected(kind="memory_chunk", turn=turn, passage=turn.content[chunk.start : chunk.end])

    async def _session(self, session_id: str) -> Inspected | None:
        try:
            view = await sessions.get(self._context, self._caller, session_id)
        except NotFound:
            return None
        return Inspected(kind="session", session=view)

    async def _uncertainty(self, uncertainty_id: str) -> Inspected | None:
        context = self._context
        found = await store_uncertainties.find(context.db, context.sets, uncertainty_id, self._sight.sets)
        if found is None or not await doubts_shown(context, self._caller, self._sight, [found]):
            return None
        return Inspected(
            kind="uncertainty",
            uncertainty=doubt_as_seen(self._caller, found),
            resolvable=resolvable(self._caller, found),
        )

    async def _trace(self, trace_id: str) -> Inspected | None:
        try:
            view = await traces.get(self._rt, self._context, self._caller, trace_id)
        except NotFound:
            return None
        return Inspected(kind="trace", trace=view)

    async def _seen(self, rows: Sequence[AnyRow]) -> list[AnyRow]:
        return await as_seen(self._context, rows, self._caller, self._sight)

    def _shows(self, row: Row) -> bool:
        return offered(row.control, self._now) and self._sight.shows(row)

    def _missing(self) -> NotFound:
        return NotFound(f"{self._request.ref.strip()} does not exist")
