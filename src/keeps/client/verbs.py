"""Client: one short method a verb."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Literal, Protocol, Self, TypedDict, TypeVar, Unpack

import httpx

from keeps.client.calls import DEFAULT_ENDPOINT, Call, OnPending, answer, http_client, path_of, unreachable
from keeps.client.given import check_options, check_triples
from keeps.client.governing import Audit, Controls, Settings
from keeps.client.nouns import Keys, Memories, Principals, Runs, Scopes, ScopeSpelling, Sessions, Traces
from keeps.core.entities import parse_ref
from keeps.core.errors import Invalid, Unavailable
from keeps.core.pages import MAX_LIMIT
from keeps.wire import entities as wire_entities
from keeps.wire.entities import EntityListOut, EntityOut, EntitySearchOut, HistoryOut, NeighboursOut
from keeps.wire.facts import BatchOut, FactsOut
from keeps.wire.forget import ForgetOut
from keeps.wire.health import HealthOut
from keeps.wire.inbox import DecidedOut, InboxOut, PromotedOut, ReconsideredOut
from keeps.wire.index import IndexOut
from keeps.wire.inspect import InspectOut
from keeps.wire.pages import PageMeta
from keeps.wire.principals import MeOut
from keeps.wire.query import ContextOut, QueryOut
from keeps.wire.scopes import ScopeForgetOut

Moment = datetime | str
"""A time with an offset, as a value or as RFC 3339 text."""

Infer = Literal["full", "triples", "preview", "none"]


class Written(TypedDict, total=False):
    """What may be said about a write.

    `observed_at`: when it was said or seen, if not now. `category`: identity, knowledge or context. `kind`: note,
    preference, topic, insight, fact, goal or event. `run`: the run of an agent that writes. `idempotency_key`: a
    repeat with the same key writes nothing new and gets the same answer.
    """

    session: str
    run: str
    scopes: ScopeSpelling
    labels: Sequence[str]
    role: Literal["user", "assistant", "system", "tool"]
    speaker: str
    observed_at: Moment
    category: str
    kind: str
    metadata: Mapping[str, object]
    idempotency_key: str


class When(TypedDict, total=False):
    """The time a question is about; nothing given means now.

    `as_of`: what was known then. `at_instant`: what the record held then. `valid_from`, `valid_until`: what was
    true in the world in between.
    """

    as_of: Moment
    at_instant: Moment
    valid_from: Moment
    valid_until: Moment


class Asked(When, total=False):
    """How to ask. `k`: hits at most, 1 to 50, else 10. `lens`: only what belongs to these scopes. `labels`: all of
    them. `include`: facts, passages, or both. `session`: the one the question is asked in. `min_score`: what scores
    less is left out, 0 to 1. `run`: the run of an agent that asks. `source`: a word for the trace that says who asks,
    as `notebook`."""

    k: int
    mode: Literal["hybrid", "bm25", "vector", "graph"]
    lens: ScopeSpelling
    labels: Sequence[str]
    include: Sequence[Literal["facts", "passages"]]
    session: str
    include_duplicates: bool
    min_score: float
    run: str
    source: str


_WIRE_NAMES = {
    "session": "sessionId",
    "as_of": "asOf",
    "at_instant": "atInstant",
    "valid_from": "validFrom",
    "valid_until": "validUntil",
    "include_duplicates": "includeDuplicates",
    "min_score": "minScore",
    "run": "runId",
}
_WRITTEN = Written.__optional_keys__
_WHEN = When.__optional_keys__
_ASKED = Asked.__optional_keys__
_FACT_NAMES = {"session": "session_id", "category": "memory_category", "run": "run_id"}


class Client:
    """The memory of one context at a service, for one key. Use it in an `async with` block, or `close()` it.

    Reading calls are repeated for a moment when the service is away or busy, and so are writes that carry an
    `idempotency_key`. Another write whose answer is lost raises `Unavailable` and says that it may be written.

    `on_pending`, a function or a coroutine function, is told how many proposals a write left for a person to decide
    on, before the write returns; it has 5 seconds. What it raises goes to the loop's handler of exceptions.
    """

    def __init__(
        self,
        endpoint: str = DEFAULT_ENDPOINT,
        *,
        key: str | None = None,
        context: str = "default",
        on_behalf_of: str | None = None,
        timeout_s: float = 30.0,
        transport: httpx.AsyncBaseTransport | None = None,
        on_pending: OnPending | None = None,
    ) -> None:
        self.context_id = context
        self._on_pending = on_pending
        self._on_behalf_of = on_behalf_of
        self._timeout_s = timeout_s
        self._closed = False
        self._http = http_client(endpoint, key=key, on_behalf_of=on_behalf_of, timeout_s=timeout_s, transport=transport)
        self.sessions = Sessions(self._ask)
        self.scopes = Scopes(self._ask)
        self.principals = Principals(self._ask)
        self.keys = Keys(self._ask)
        self.traces = Traces(self._ask)
        self.runs = Runs(self._ask)
        self.settings = Settings(self._ask)
        self.controls = Controls(self._ask)
        self.audit = Audit(self._ask)
        self.memories = Memories(self._ask)

    @property
    def endpoint(self) -> str:
        """Where the service is."""
        return str(self._http.base_url).rstrip("/")

    async def close(self) -> None:
        """Close the connections; a verb that is called later raises `Invalid`."""
        self._closed = True
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _ask(self, call: Call) -> Any:
        self._check_open()
        try:
            return await answer(self._http, self.context_id, call, on_pending=self._on_pending)
        except httpx.ConnectError:
            raise unreachable(self.endpoint) from None

    def _check_open(self) -> None:
        if self._closed:
            raise Invalid(f"this {type(self).__name__} is closed: open another")

    async def _get(self, path: str, /, **params: object) -> Any:
        return await self._ask(Call(method="GET", path=path, params=params, repeatable=True))

    async def _post(self, path: str, body: Mapping[str, object]) -> Any:
        return await self._ask(Call(method="POST", path=path, body=body, repeatable=True))

    async def remember(
        self,
        text: str | None = None,
        *,
        triples: Sequence[Mapping[str, object]] | None = None,
        infer: Infer | None = None,
        **about: Unpack[Written],
    ) -> FactsOut:
        """Write a text, or facts as given: what was stored, and what it corrected.

        A triple is a mapping: `{"entity": {"type": "person", "name": "Mara"}, "key": "role", "value": "pilot"}`.
        With triples `infer` is `triples`; a text without `infer` is read by a model when the service has one.
        An entry with a key needs a value, a target or a verb, and a member that is not known is refused.

        Raises: Invalid, Unprocessable, Forbidden, Unavailable.
        """
        check_options("remember", about, _WRITTEN)
        if triples is not None:
            check_triples(triples)
            infer = infer or "triples"
        body: dict[str, object] = {"text": text, "triples": triples, "infer": infer}
        key = about.pop("idempotency_key", None)
        body |= {_FACT_NAMES.get(name, name): value for name, value in about.items()}
        call = Call(method="POST", path="/facts", body=body, idempotency_key=key, repeatable=key is not None)
        return FactsOut.parse(await self._ask(call))

    async def remember_many(
        self,
        messages: Sequence[Mapping[str, object]],
        *,
        infer: Infer | None = None,
        extract: Literal["whole_conversation", "per_message"] | None = None,
        **about: Unpack[Written],
    ) -> BatchOut:
        """Write the messages of one conversation in one commit, 1,000 at most: one turn id each, in order.

        A message is a mapping: `content`, and if you like `role`, `speaker` and `ts`, the time it was said.

        Raises: as `remember`.
        """
        check_options("remember_many", about, _WRITTEN)
        body: dict[str, object] = {"messages": messages, "infer": infer, "extract": extract}
        key = about.pop("idempotency_key", None)
        body |= {_FACT_NAMES.get(name, name): value for name, value in about.items()}
        call = Call(method="POST", path="/facts/batch", body=body, idempotency_key=key, repeatable=key is not None)
        return BatchOut.parse(await self._ask(call))

    async def recall(self, query: str, **asked: Unpack[Asked]) -> QueryOut:
        """What answers a question, the best first; no hits when nothing does. Raises: Invalid."""
        check_options("recall", asked, _ASKED)
        return QueryOut.parse(await self._post("/query", {"query": query, **_wire(asked)}))

    async def context(
        self,
        query: str,
        *,
        subject: str | None = None,
        budget: Mapping[str, object] | None = None,
        **asked: Unpack[Asked],
    ) -> ContextOut:
        """The same as one block of text to put beside a prompt, in `context`; empty when nothing answers.

        `subject`: facts about this entity only, written `person/mara`. `budget`: what the prompt has room for, as
        `{"maxTokens": 400}`; it only narrows what is allowed. Raises: Invalid.
        """
        check_options("context", asked, _ASKED)
        body = {"query": query, "subject": subject, "budget": budget, **_wire(asked)}
        found = await self._post("/context", body)
        return ContextOut.parse(found)

    async def forget(
        self,
        query: str | None = None,
        *,
        ids: Sequence[str] | None = None,
        purge: bool = False,
        dry_run: bool = False,
        lens: ScopeSpelling | None = None,
    ) -> ForgetOut:
        """Retire what equals the words or, when nothing does, what they can only mean, and what has these ids.

        With `purge` erase what is named exactly. `dry_run` only tells.

        Raises: Invalid, Forbidden.
        """
        body = {"query": query, "ids": ids, "purge": purge, "dryRun": dry_run, "lens": lens}
        return ForgetOut.parse(await self._ask(Call(method="POST", path="/forget", body=body, repeatable=dry_run)))

    async def inbox(
        self,
        *,
        held: bool | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        count: bool | None = None,
    ) -> InboxOut:
        """A page of what waits for you, newest first, and what became of what each agent proposed.

        `held`: only what is held back, or only what is not. Raises: Forbidden for an agent.
        """
        return InboxOut.parse(await self._get("/inbox", held=held, limit=limit, cursor=cursor, count=count))

    async def decide(self, decisions: Sequence[Mapping[str, object]]) -> DecidedOut:
        """Decide on what waits, 100 things at most, each by itself: what came of each, in order.

        A decision is a mapping: `{"id": …, "decision": "keep"}`, with `text` for `edit`. The others are `discard`,
        `discard_and_block`, `replace`, `keep_both` and `release`. Raises: Invalid; Forbidden for an agent.
        """
        return DecidedOut.parse(
            await self._ask(Call(method="POST", path="/inbox/decide", body={"decisions": decisions}))
        )

    async def reconsider(self, *, dry_run: bool = False) -> ReconsideredOut:
        """Let what the policy in force would not keep unasked wait for a person again, 100 memories at most.

        `dry_run` only counts. Raises: Forbidden for who is no owner or admin.
        """
        body = {"dryRun": dry_run}
        return ReconsideredOut.parse(
            await self._ask(Call(method="POST", path="/inbox/reconsider", body=body, repeatable=dry_run))
        )

    async def promote(
        self,
        *,
        turn: str | None = None,
        chunk: str | None = None,
        text: str | None = None,
        kind: str | None = None,
        slot: str | None = None,
        idempotency_key: str | None = None,
    ) -> PromotedOut:
        """Remember an exact part of what was said, or all of a turn or passage. Only a person does that.

        Raises: NotFound, Unprocessable, Forbidden.
        """
        body = {"turnId": turn, "chunkId": chunk, "text": text, "kind": kind, "slot": slot}
        repeatable = idempotency_key is not None
        call = Call(method="POST", path="/promote", body=body, idempotency_key=idempotency_key, repeatable=repeatable)
        return PromotedOut.parse(await self._ask(call))

    async def forget_scope(self, path: str) -> ScopeForgetOut:
        """Erase all that belongs to a scope and the ones below it. Raises: Forbidden."""
        return await self.scopes.forget(path)

    async def entities(
        self,
        type: str | None = None,  # noqa: A002 - the field's own word
        *,
        limit: int | None = None,
        cursor: str | None = None,
        count: bool | None = None,
    ) -> EntityListOut:
        """A page of entities by type and name."""
        return EntityListOut.parse(await self._get("/entities", type=type, limit=limit, cursor=cursor, count=count))

    async def find_entities(self, name: str, *, type: str | None = None, limit: int | None = None) -> EntitySearchOut:  # noqa: A002
        """Entities whose names are like `name`, the most alike first."""
        return EntitySearchOut.parse(await self._get("/entities/search", q=name, type=type, limit=limit))

    async def entity(self, ref: str, *, limit: int | None = None, **when: Unpack[When]) -> EntityOut:
        """One entity, written `person/mara`, with its facts and relations. Raises: NotFound, Invalid."""
        check_options("entity", when, _WHEN)
        return EntityOut.parse(await self._get(_entity_path(ref), limit=limit, **_wire(when)))

    async def history(
        self, entity: str, key: str | None = None, *, limit: int | None = None, cursor: str | None = None
    ) -> HistoryOut:
        """Every value an entity had, of one key or of all, newest first. Raises: NotFound, Invalid."""
        path = _entity_path(entity) + path_of("history", *([] if key is None else [key]))
        return HistoryOut.parse(await self._get(path, limit=limit, cursor=cursor))

    async def neighbours(self, entity: str, *, limit: int | None = None, cursor: str | None = None) -> NeighboursOut:
        """Entities one relation away. Raises: NotFound, Invalid."""
        path = _entity_path(entity) + "/neighbourhood"
        return NeighboursOut.parse(await self._get(path, limit=limit, cursor=cursor))

    async def delete_entity(self, ref: str) -> None:
        """Erase an entity with its facts and relations. Raises: NotFound, Forbidden, Invalid."""
        await self._ask(Call(method="DELETE", path=_entity_path(ref)))

    async def facts(
        self,
        *,
        entity: str | None = None,
        key: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        count: bool | None = None,
    ) -> wire_entities.AttributesOut:
        """A page of current facts, newest first."""
        found = await self._get("/attributes", entity=entity, key=key, limit=limit, cursor=cursor, count=count)
        return wire_entities.AttributesOut.parse(found)

    async def relations(
        self, *, limit: int | None = None, cursor: str | None = None, count: bool | None = None
    ) -> wire_entities.RelationsOut:
        """A page of relations between entities."""
        found = await self._get("/relations", limit=limit, cursor=cursor, count=count)
        return wire_entities.RelationsOut.parse(found)

    async def actions(
        self, *, limit: int | None = None, cursor: str | None = None, count: bool | None = None
    ) -> wire_entities.ActionsOut:
        """A page of things done, in the order they were written."""
        found = await self._get("/actions", limit=limit, cursor=cursor, count=count)
        return wire_entities.ActionsOut.parse(found)

    async def inspect(self, ref: str, **when: Unpack[When]) -> InspectOut:
        """One thing by its reference: `attribute:person/mara/role`, `turn:<id>` … Raises: NotFound, Invalid."""
        check_options("inspect", when, _WHEN)
        return InspectOut.parse(await self._get("/inspect", ref=ref, **_wire(when)))

    async def index(self) -> IndexOut:
        """Whether texts have vectors here, and how far these are. Raises: Forbidden."""
        return IndexOut.parse(await self._get("/index"))

    async def switch_index(
        self, *, mode: Literal["hybrid", "durable"] | None = None, embedder: str | None = None
    ) -> IndexOut:
        """Switch vectors on or off, or to another embedder; they follow by and by. Raises: Forbidden, Invalid."""
        call = Call(method="PATCH", path="/index", body={"mode": mode, "embedder": embedder}, repeatable=True)
        return IndexOut.parse(await self._ask(call))

    async def whoami(self) -> MeOut:
        """Who the key belongs to and what it may do where. Raises: Unauthenticated."""
        return MeOut.parse(await self._get("/me"))

    async def health(self) -> HealthOut:
        """That the service answers, and its version. Raises: Unavailable."""
        return HealthOut.parse(await self._ask(Call(method="GET", path="/health", rooted=True, repeatable=True)))


class Paged(Protocol):
    """A page of a list."""

    @property
    def page(self) -> PageMeta | None: ...


PageT = TypeVar("PageT", bound=Paged)


async def walk(verb: Callable[..., Awaitable[PageT]], *args: object, **filters: object) -> AsyncIterator[PageT]:
    """Every page of a list verb: `async for page in walk(memory.sessions.turns, session)`."""
    cursor = None
    while True:
        page = await verb(*args, limit=MAX_LIMIT, cursor=cursor, **filters)
        yield page
        if page.page is None or not page.page.has_more:
            return
        cursor = page.page.next_cursor
        if cursor is None:
            raise Unavailable("the service says that more follows, and not where")


def _entity_path(ref: str) -> str:
    entity = parse_ref(ref)
    return path_of("entities", entity.type.value, entity.name)


def _wire(options: Mapping[str, Any]) -> dict[str, object]:
    return {_WIRE_NAMES.get(name, name): value for name, value in options.items()}
