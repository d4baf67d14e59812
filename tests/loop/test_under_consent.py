"""The whole loop in a context that asks before it keeps: what a trusted writer records, and what nobody agreed to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import pytest_asyncio

from keeps.client import Client
from keeps.config import Config
from keeps.core.access import KeyId
from keeps.http.app import create_app
from keeps.loop import ByQuestion, ByRule, Pseudonyms, Selection, Template, Writer, with_memory
from keeps.loop.offers import Message
from keeps.services import contexts, keys, principals
from keeps.services.access import ManagementCaller
from keeps.services.keys import NewKey
from keeps.services.principals import NewPrincipal
from keeps.services.runtime import open_runtime

WHO = Pseudonyms(bytes(32), context="tutor", issuer="accounts")
TEAL, MARA = "teal@x.example", "mara@x.example"
KEYS = ("goal", "level", "result", "streak")
FACTS = {
    "goal": Template("reach unit {unit:int}", key="goal", kind="goal"),
    "level": Template("level {level:int}", key="level", kind="fact"),
    "result": Template("proved {n:int} of {total:int} lemmas", key="result", kind="event"),
    "streak": Template("{days:int} days in a row", key="streak", kind="event"),
}
ASKED: list[dict[str, Any]] = [{"role": "user", "content": "Where was I?"}]


class Tutoring:
    """A service that asks, and clients of it by who they are."""

    def __init__(self, app: Any, secrets: dict[str, str]) -> None:
        self._app, self._secrets = app, secrets

    @asynccontextmanager
    async def client(self, who: str) -> AsyncIterator[Client]:
        transport = httpx.ASGITransport(self._app)
        async with Client("http://127.0.0.1", context="tutor", key=self._secrets[who], transport=transport) as client:
            yield client


@pytest_asyncio.fixture
async def tutoring() -> AsyncIterator[Tutoring]:
    management = ManagementCaller(KeyId("m"))
    async with open_runtime(Config(policy="deliberate")) as rt:
        made = await contexts.bootstrap(rt, "tutor", policy="deliberate")
        context = await rt.context("tutor")
        grants = {verb: ["user/*"] for verb in ("memory:read", "memory:write", "memory:forget")}
        secrets = {"owner": made.owner_key, "agent": made.agent_key}
        for name, trusted in (("app", True), ("plain", False)):
            request = NewPrincipal(display_name=name, grants=grants, trusted_writer=trusted)
            who = (await principals.create(rt, context, management, request)).principal.id
            secrets[name] = (await keys.create_for(rt, context, management, who, NewKey())).key
        yield Tutoring(create_app(rt), secrets)


async def record(client: Client, user: str, **said: dict[str, Any]) -> None:
    """Write facts about a user through the writer, in order."""
    async with Writer(client) as writer:
        for key, values in said.items():
            fact = FACTS[key](**values)
            assert writer.put(triples=[fact.triple(WHO.entity(user))], kind=fact.kind, scopes=WHO.scope(user))
        assert await writer.flush(60)
        assert writer.counts.written == len(said)


def by_rule(client: Client, user: str, **more: Any) -> ByRule:
    selection = Selection(keys=KEYS, **more)
    return ByRule(memory=client, entity=WHO.entity(user), lens=WHO.scope(user), selection=selection)


@pytest.mark.parametrize(("who", "label"), [("app", "recorded by the app"), ("owner", "saved by the user")])
async def test_d3_what_a_trusted_writer_or_a_person_recorded_reaches_the_tutor_and_nobody_else(
    tutoring: Tutoring, who: str, label: str
) -> None:
    heard: dict[str, Sequence[Message]] = {}

    async def agent(name: str, messages: Sequence[Message], **options: Any) -> str:
        heard[name] = messages
        return "You proved two [attribute:madeup]."

    async with tutoring.client(who) as app:
        await record(app, TEAL, goal={"unit": 7}, level={"level": 3}, result={"n": 2, "total": 5}, streak={"days": 4})
        await record(app, MARA, goal={"unit": 9})
        call = with_memory(agent, by_rule(app, TEAL), agents={"tutor"}, timeout_s=60)
        answer = await call("tutor", ASKED)
        await call("evaluator", ASKED)
    assert heard["evaluator"] is ASKED
    said = heard["tutor"][0]["content"]
    assert [memory.text for memory in answer.used.also] == [
        "goal: reach unit 7",
        "level: level 3",
        "result: proved 2 of 5 lemmas",
        "streak: 4 days in a row",
    ]
    assert {memory.label for memory in answer.used.also} == {label}
    assert "unit 9" not in said
    assert TEAL not in said
    assert WHO.name(TEAL) not in said
    assert (answer.text, answer.used.memories, answer.used.uncited) == ("You proved two.", (), True)


@pytest.mark.parametrize("own", [True, False])
async def test_d4_the_run_of_a_call_says_what_was_offered_and_cited(tutoring: Tutoring, own: bool) -> None:
    async def agent(name: str, messages: Sequence[Message]) -> str:
        cited = offered[0].id
        return f"Unit seven [{cited}] [{cited}] [attribute:madeup]."

    async with tutoring.client("app") as app:
        await record(app, TEAL, goal={"unit": 7}, level={"level": 3})
        offered = (await by_rule(app, TEAL).offer("tutor", ASKED)).memories
        run = (await app.runs.open()).id if own else None
        recall = ByRule(
            memory=app,
            entity=WHO.entity(TEAL),
            lens=WHO.scope(TEAL),
            selection=Selection(keys=["level", "goal"]),
            run=run,
        )
        answer = await with_memory(agent, recall, agents={"tutor"}, timeout_s=60)("tutor", ASKED)
        assert [memory.id for memory in answer.used.memories] == [offered[0].id]
        assert answer.run is not None
        assert run in {None, answer.run}
        seen = await app.runs.get(answer.run)
        assert (seen.cites_kept, seen.cites_dropped) == (1, 1)
        assert {memory.id for memory in offered} <= set(seen.selected_memory_ids)
        assert (seen.end_reason is None) is own


async def test_d3_what_nobody_agreed_to_reaches_no_agent(tutoring: Tutoring) -> None:
    heard: list[Any] = []

    async def agent(name: str, messages: Sequence[Message]) -> str:
        heard.append(messages)
        return ""

    async with tutoring.client("plain") as client:
        await record(client, TEAL, goal={"unit": 7}, result={"n": 2, "total": 5})
        for recall in (by_rule(client, TEAL), ByQuestion(memory=client, lens=WHO.scope(TEAL))):
            await with_memory(agent, recall, agents={"tutor"}, timeout_s=60)("tutor", ASKED)
    assert [messages is ASKED for messages in heard] == [True, True]


async def test_d2_the_owner_forgets_a_pseudonym_in_one_call(tutoring: Tutoring) -> None:
    async with tutoring.client("app") as app, tutoring.client("owner") as owner:
        await record(app, TEAL, goal={"unit": 7}, result={"n": 2, "total": 5})
        await record(app, MARA, goal={"unit": 9})
        gone = await WHO.forget_me(owner, TEAL)
        assert (gone.memories, gone.verified) == (2, True)
        assert (await by_rule(app, TEAL).offer("tutor", ASKED)).memories == ()
        assert len((await by_rule(app, MARA).offer("tutor", ASKED)).memories) == 1
