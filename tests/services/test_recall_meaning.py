"""Recall by meaning: what it adds to words, and what is left when vectors are late, wrong or missing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from keeps.config import Config
from keeps.core.entities import parse_ref
from keeps.core.facts import Fact
from keeps.core.modes import Include
from keeps.core.scopes import parse_lens
from keeps.core.sessions import Turn
from keeps.core.validity import When
from keeps.models.fake import FakeEmbedder
from keeps.services import contexts, legs
from keeps.services.recall import Mode, Recall, Recalled, recall
from keeps.services.remember import Infer, Message, Remember, remember
from keeps.services.runtime import Context, Runtime, open_runtime
from keeps.store.db import Engine
from tests.models.faulty import Faulty, Lie
from tests.services.conftest import Borrowed, caller
from tests.services.saying import fact, say
from tests.services.test_vectors import is_settled, until

HERON = "The grey heron nests behind the sluice"
TEA = "Genmaicha is the best of all teas"


@dataclass(frozen=True)
class Place:
    rt: Runtime
    context: Context
    embedder: Faulty

    async def tell(self, *texts: str, scope: str = "user/mara", **more: Any) -> None:
        for text in texts:
            request = Remember(infer=Infer.NONE, messages=[Message(text=text, speaker="Mara")], **more)
            await remember(self.rt, self.context, caller(scope), request)

    async def settle(self) -> None:
        await until(self.context, is_settled)

    async def ask(self, query: str, *patterns: str, **more: Any) -> Recalled:
        return await recall(self.rt, self.context, caller(*patterns), Recall(query=query, **more))


@asynccontextmanager
async def place(engine: Engine) -> AsyncIterator[Place]:
    embedder = Faulty(FakeEmbedder(64))
    async with open_runtime(Config(), engine=Borrowed(engine), embedder=embedder) as rt:
        await contexts.bootstrap(rt, "acme")
        yield Place(rt, await rt.context("acme"), embedder)


@pytest.fixture
async def at(engine_of_the_run: Engine) -> AsyncIterator[Place]:
    async with place(engine_of_the_run) as one:
        yield one


def texts(found: Recalled) -> list[str]:
    return [hit.text for hit in found.hits]


async def test_meaning_alone_finds_and_says_how_near(at: Place) -> None:
    await at.tell(HERON, TEA)
    await at.settle()
    found = await at.ask("herons nesting", mode=Mode.VECTOR)
    assert texts(found)[0] == HERON
    signals = found.hits[0].signals
    assert signals.cosine is not None
    assert signals.cosine > 0.5
    assert (signals.text, signals.share, signals.graph) == (0.0, 0.0, 0.0)
    assert found.degraded == []
    assert [leg.name for leg in found.trace.legs] == ["vector"]


async def test_words_alone_ask_for_no_meaning(at: Place) -> None:
    await at.tell(HERON)
    await at.settle()
    calls = at.embedder.calls
    for mode in (Mode.BM25, Mode.GRAPH):
        found = await at.ask("heron", mode=mode)
        assert all(hit.signals.cosine is None for hit in found.hits)
    assert at.embedder.calls == calls


async def test_what_words_find_is_told_how_near_it_is(at: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    await at.tell(*(f"heron number {number} nests in the reeds of the long lake" for number in range(12)))
    await at.settle()
    monkeypatch.setattr(legs, "POOL", 3)
    found = await at.ask("which heron nests in reeds?", k=12)
    assert len(found.hits) >= 3
    assert all(hit.signals.cosine is not None for hit in found.hits)


@pytest.mark.parametrize("lie", ["width", "nan", "few", "zero"])
async def test_an_embedder_that_lies_costs_its_leg_alone(at: Place, lie: Lie) -> None:
    await at.tell(HERON, TEA)
    await at.settle()
    at.embedder.lie = lie
    found = await at.ask("Where does the heron nest?")
    assert texts(found)[0] == HERON
    assert found.degraded == ["vector"]
    only = await at.ask("Where does the heron nest now?", mode=Mode.VECTOR)
    assert only.hits == []
    assert only.degraded == ["vector"]


async def test_a_dead_embedder_costs_its_leg_alone(at: Place) -> None:
    await at.tell(HERON)
    await at.settle()
    at.embedder.fail = True
    found = await at.ask("Where does the heron nest?")
    assert texts(found) == [HERON]
    assert found.degraded == ["vector"]
    assert (await at.ask("heron?", mode=Mode.VECTOR)).hits == []


async def test_a_slow_embedder_is_not_waited_for(at: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    await at.tell(HERON)
    await at.settle()
    at.embedder.delay_s = 600.0
    monkeypatch.setattr(legs, "MEANING_TIMEOUT_S", 0.05)
    async with asyncio.timeout(60):
        found = await at.ask("Where does the heron nest?")
    assert texts(found) == [HERON]
    assert found.degraded == ["vector"]


async def test_rows_without_a_vector_are_found_by_words_and_the_answer_says_so(
    at: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(legs, "MEANING_TIMEOUT_S", 0.05)
    await at.tell(TEA)
    await at.settle()
    at.embedder.delay_s = 1.0
    await at.tell(HERON)
    found = await at.ask("Where does the heron nest?", mode=Mode.HYBRID)
    assert HERON in texts(found)
    assert found.degraded == ["vector"]
    at.embedder.delay_s = 0.0
    await at.settle()
    monkeypatch.setattr(legs, "MEANING_TIMEOUT_S", 30.0)
    assert (await at.ask("Where does a heron nest?")).degraded == []


async def test_nothing_is_degraded_where_there_are_no_vectors_by_choice(rt: Runtime, context: Context) -> None:
    message = Message(text=HERON)
    await remember(rt, context, caller(), Remember(infer=Infer.NONE, messages=[message]))
    assert (await recall(rt, context, caller(), Recall(query="heron"))).degraded == []
    only = await recall(rt, context, caller(), Recall(query="heron", mode=Mode.VECTOR))
    assert only.degraded == ["vector"]


async def test_meaning_keeps_to_region_lens_labels_halves_and_subject(at: Place) -> None:
    await at.tell(HERON, labels=("bird=yes",))
    await at.tell(TEA)
    await at.tell("The heron nests in another place", scope="user/tove")
    who = caller()
    await say(at.rt, at.context, who, fact("bird", "heron"))
    await say(at.rt, at.context, who, fact("bird", "heron", name="Tove"))
    await at.settle()
    heron = "heron nests"

    async def found(*patterns: str, **more: Any) -> set[str]:
        return set(texts(await at.ask(heron, *patterns, mode=Mode.VECTOR, **more)))

    assert await found("user/tove") == {"The heron nests in another place"}
    assert await found(lens=parse_lens("user/tove")) == {"The heron nests in another place"}
    assert await found("user/nobody") == set()
    assert await found(labels=frozenset({"bird=yes"})) == {HERON}
    facts = await at.ask(heron, mode=Mode.VECTOR, include=frozenset({Include.FACTS}))
    assert {type(hit.row) for hit in facts.hits} == {Fact}
    passages = await at.ask(heron, mode=Mode.VECTOR, include=frozenset({Include.PASSAGES}))
    assert {type(hit.row) for hit in passages.hits} == {Turn}
    about = await at.ask(heron, mode=Mode.VECTOR, subject=parse_ref("person/tove"), include=frozenset({Include.FACTS}))
    assert [hit.row.entity.name for hit in about.hits if isinstance(hit.row, Fact)] == ["tove"]


async def test_meaning_answers_about_then_and_leaves_the_superseded_out_of_now(at: Place) -> None:
    who = caller()
    for year, value in ((2020, "deckhand"), (2021, "pilot")):
        await say(at.rt, at.context, who, fact("role", value), observed_at=datetime(year, 1, 1, tzinfo=UTC))
    await at.settle()

    async def values(**more: Any) -> list[str]:
        found = await at.ask("Mara's role", mode=Mode.VECTOR, **more)
        return [hit.row.value for hit in found.hits if isinstance(hit.row, Fact)]

    assert await values() == ["pilot"]
    assert await values(when=When(as_of=datetime(2020, 6, 1, tzinfo=UTC))) == ["deckhand"]
    assert await values(when=When(as_of=datetime(2019, 6, 1, tzinfo=UTC))) == []
    assert await values(when=When(valid_from=datetime(2019, 1, 1, tzinfo=UTC))) == ["pilot", "deckhand"]


async def test_one_question_has_one_order(at: Place) -> None:
    await at.tell(*(f"heron {number} nests near heron {number % 3}" for number in range(60)))
    await at.settle()
    question = "which heron nests near heron 2?"
    first = await at.ask(question, k=50)
    for _ in range(3):
        again = await at.ask(question, k=50)
        assert [(hit.unit, hit.score) for hit in again.hits] == [(hit.unit, hit.score) for hit in first.hits]
    few = await at.ask(question, k=5)
    assert [hit.unit for hit in few.hits] == [hit.unit for hit in first.hits[:5]]
