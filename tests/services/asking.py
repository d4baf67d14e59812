"""The verbs of the client over services alone: the same calls and answers, with no HTTP in between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from keeps.core.access import Caller
from keeps.core.entities import parse_ref
from keeps.core.pages import PageRequest
from keeps.services import context as context_service
from keeps.services import entities, erase, facts, inspect, remember, sessions
from keeps.services.runtime import Context, Runtime
from keeps.wire.base import WireOut
from keeps.wire.entities import EntityDetail, EntityMatch, EntityOut, Neighbour
from keeps.wire.facts import FactsIn, FactsOut
from keeps.wire.forget import ForgetIn, ForgetOut
from keeps.wire.inspect import InspectOut
from keeps.wire.query import ContextIn, ContextOut, QueryIn, QueryOut
from keeps.wire.rows import ActionDetail, AttributeDetail, RelationDetail
from keeps.wire.sessions import SessionContextIn, SessionOut, TurnOut


class Many(WireOut):
    """Rows of a list, whatever they are."""

    rows: list[Any]


class Sessions:
    """What is asked about sessions."""

    def __init__(self, rt: Runtime, context: Context, caller: Caller) -> None:
        self._at = (rt, context, caller)

    async def list(self, *, limit: int) -> Many:
        _, context, caller = self._at
        page = await sessions.list_all(context, caller, PageRequest(limit=limit))
        return Many(rows=[SessionOut.of(row) for row in page.rows])

    async def turns(self, session: str, *, limit: int) -> Many:
        _, context, caller = self._at
        page = await sessions.turns(context, caller, session, PageRequest(limit=limit))
        return Many(rows=[TurnOut.of(row) for row in page.rows])

    async def context(self, session: str, query: str, *, k: int) -> str:
        asked = SessionContextIn.model_validate({"query": query, "k": k}).to_core()
        return await sessions.block(*self._at, session, asked)


class Services:
    """One caller's verbs."""

    def __init__(self, rt: Runtime, context: Context, caller: Caller) -> None:
        self._at = (rt, context, caller)
        self.sessions = Sessions(rt, context, caller)

    async def remember(
        self, text: str | None = None, *, triples: Sequence[Mapping[str, object]] | None = None, **about: Any
    ) -> FactsOut:
        rt = self._at[0]
        said = {"text": text, "triples": triples, "infer": "none" if triples is None else "triples", **about}
        request = FactsIn.model_validate({name: value for name, value in said.items() if value is not None})
        return FactsOut.of(await remember.remember(*self._at, request.to_core(now=rt.clock(), lenient=True)))

    async def recall(self, query: str, **asked: Any) -> QueryOut:
        request = QueryIn.model_validate({"query": query, **asked}).asked()
        return QueryOut.of(await context_service.search(*self._at, request))

    async def context(self, query: str, **asked: Any) -> ContextOut:
        request = ContextIn.model_validate({"query": query, **asked}).asked()
        return ContextOut.of(await context_service.block(*self._at, request))

    async def forget(
        self, query: str | None = None, *, ids: Sequence[str] | None = None, purge: bool = False
    ) -> ForgetOut:
        asked = ForgetIn.model_validate({"query": query, "ids": list(ids or ()), "purge": purge})
        return ForgetOut.of(await erase.forget(*self._at, asked.to_core()), asked)

    async def inspect(self, ref: str) -> InspectOut:
        return InspectOut.of(await inspect.inspect(*self._at, inspect.Inspect(ref=ref)))

    async def entities(self, *, limit: int) -> Many:
        _, context, caller = self._at
        page = await entities.list_all(context, caller, entities.ListEntities(page=PageRequest(limit=limit)))
        return Many(rows=[EntityDetail.of(row) for row in page.rows])

    async def find_entities(self, name: str) -> Many:
        found = await entities.search(*self._at, entities.SearchEntities(query=name, limit=20))
        return Many(rows=[EntityMatch.of(match) for match in found])

    async def entity(self, ref: str) -> EntityOut:
        return EntityOut.of(await entities.get(*self._at, entities.GetEntity(ref=parse_ref(ref))))

    async def history(self, ref: str) -> Many:
        page = await entities.history(*self._at, entities.History(ref=parse_ref(ref)))
        return Many(rows=[AttributeDetail.of(fact) for fact in page.rows])

    async def neighbours(self, ref: str) -> Many:
        page = await entities.neighbourhood(*self._at, entities.Neighbourhood(ref=parse_ref(ref)))
        return Many(rows=[Neighbour.of(row) for row in page.rows])

    async def facts(self, *, limit: int) -> Many:
        page = await facts.attributes(*self._at, facts.ListAttributes(page=PageRequest(limit=limit)))
        return Many(rows=[AttributeDetail.of(row) for row in page.rows])

    async def relations(self, *, limit: int) -> Many:
        page = await facts.relations(*self._at, facts.ListRelations(page=PageRequest(limit=limit)))
        return Many(rows=[RelationDetail.of(row) for row in page.rows])

    async def actions(self, *, limit: int) -> Many:
        page = await facts.actions(*self._at, facts.ListActions(page=PageRequest(limit=limit)))
        return Many(rows=[ActionDetail.of(row) for row in page.rows])
