"""What stands above the default floor with the real model: answers do, and nothing for a question about else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest
import pytest_asyncio

from keeps.core.access import PrincipalKind
from keeps.core.fusion import MIN_SCORE
from keeps.models.minilm import MiniLM
from keeps.services.recall import Recall, recall
from keeps.services.runtime import Context, Runtime
from keeps.store.db import Engine
from tests.services.conftest import caller
from tests.services.test_vectors import is_settled, opened, say, until

pytestmark = pytest.mark.slow

# What a memory holds, and a question it answers.
HELD = {
    "The rye starter lives in the cellar and is fed on Thursdays": "where is the sourdough?",
    "Ines is allergic to walnuts and to penicillin": "which nuts must Ines not eat?",
    "The allotment is watered from the rain barrel, never from the tap": "how do we water the garden?",
    "Rent is due on the third of each month, by standing order": "when do I pay for the flat?",
    "The choir rehearses in the parish hall every Tuesday at half past seven": "what time is choir practice?",
    "Grandfather's telescope is lent to the school until June": "who has the telescope?",
    "We always take the night train to Ljubljana because Tom gets seasick": "how do we travel to Slovenia?",
    "The washing machine leaks unless the door is pushed twice": "why is there water under the washer?",
    "Marit speaks Norwegian with the children and English with me": "what languages are spoken at home?",
    "The bicycle's rear brake was replaced in March at Kowalski's": "when was the bike repaired?",
    "The cat only takes her tablets wrapped in smoked salmon": "how do I give the cat her medicine?",
    "Passwords for the router are written inside the fuse box": "where do I find the wifi password?",
}

UNRELATED = (
    "Which element has the highest melting point?",
    "Who won the battle of Lepanto?",
    "How does a transistor amplify a signal?",
    "What is the longest bone in the human body?",
    "Which philosopher wrote the Critique of Pure Reason?",
    "How are hailstones formed?",
    "What is the escape velocity of Mars?",
    "Which architect designed the dome of Florence cathedral?",
    "What does the Krebs cycle produce?",
    "How did the Phoenicians write vowels?",
)


@pytest_asyncio.fixture
async def memory(engine_of_the_run: Engine) -> AsyncIterator[tuple[Runtime, Context]]:
    async with opened(engine_of_the_run, MiniLM()) as (rt, context):
        yield rt, context


async def told(memory: tuple[Runtime, Context], texts: Sequence[str]) -> None:
    rt, context = memory
    await say(rt, context, *texts)
    await until(context, is_settled)


async def above(memory: tuple[Runtime, Context], question: str) -> list[str]:
    """The texts at or above the floor, best first."""
    rt, context = memory
    found = await recall(
        rt, context, caller("/*", kind=PrincipalKind.HUMAN), Recall(query=question, min_score=MIN_SCORE)
    )
    assert found.degraded == []
    return [hit.text for hit in found.hits]


async def test_answers_stand_above_the_floor_and_nothing_does_for_other_questions(
    memory: tuple[Runtime, Context],
) -> None:
    await told(memory, list(HELD))
    first = {question: (await above(memory, question))[:1] for question in HELD.values()}
    assert first == {question: [text] for text, question in HELD.items()}
    found = {question: await above(memory, question) for question in UNRELATED}
    assert found == {question: [] for question in UNRELATED}


@pytest.mark.parametrize("size", [1, 2, 3])
async def test_the_first_rows_of_a_memory_are_found_and_only_when_asked_for(
    memory: tuple[Runtime, Context], size: int
) -> None:
    held = dict(list(HELD.items())[:size])
    await told(memory, list(held))
    for text, question in held.items():
        assert (await above(memory, question))[:1] == [text]
    found = {question: await above(memory, question) for question in UNRELATED}
    assert found == {question: [] for question in UNRELATED}
