"""What a person expects of the first hits in a memory of notes, facts and much talk, with the real model."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from keeps.core.access import PrincipalKind
from keeps.core.fusion import MIN_SCORE
from keeps.core.scopes import ScopePath
from keeps.core.sessions import Role
from keeps.models.minilm import MiniLM
from keeps.services.recall import Hit, Recall, recall
from keeps.services.remember import Message, Remember, remember
from keeps.services.runtime import Context, Runtime
from keeps.store.db import Engine
from tests.services.conftest import caller
from tests.services.saying import fact, say
from tests.services.test_vectors import is_settled, opened, until

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

CITY = "Mara's city is Kråkvik."
NOTES = (
    "I am allergic to hazelnuts",
    "My daughter has cello lessons every Tuesday",
    "The dentist appointment is on Thursday at 3 pm",
    "The spare key is under the blue flowerpot",
    "Boat departs 7:40",
    "The boat departs at 7:40 from pier 4",
    "The dentist appointment is on Friday at 10 am",
)


PERSON = caller("/*", kind=PrincipalKind.HUMAN, home="user/mara")


@pytest_asyncio.fixture
async def memory(engine_of_the_run: Engine) -> AsyncIterator[tuple[Runtime, Context]]:
    """The example conversation, two facts about who speaks in it, and notes of somebody else."""
    async with opened(engine_of_the_run, MiniLM()) as (rt, context):
        who = PERSON
        context.consent.move_in({ScopePath("user/mara"): PERSON.principal_id})
        lines = (EXAMPLES / "conversation.jsonl").read_text("utf-8").splitlines()
        turns: list[dict[str, Any]] = [json.loads(line) for line in lines]
        await remember(rt, context, who, Remember(messages=[_message(turn) for turn in turns]))
        await say(rt, context, who, fact("role", "harbour pilot"), fact("city", "Kråkvik"))
        for number, text in enumerate(NOTES):
            await say(rt, context, who, fact(f"note_{number:02}", text, name="Ines"), kind="note")
        await until(context, is_settled, within_s=120.0)
        yield rt, context


def _message(turn: dict[str, Any]) -> Message:
    return Message(
        text=turn["content"],
        role=Role(turn["role"]),
        speaker=turn["speaker"],
        observed_at=datetime.fromisoformat(turn["ts"]),
    )


async def test_the_first_hits_are_what_a_person_expects(memory: tuple[Runtime, Context]) -> None:
    rt, context = memory

    async def asked(query: str, **more: Any) -> list[Hit]:
        found = await recall(rt, context, PERSON, Recall(query=query, **more))
        assert found.degraded == []
        return list(found.hits)

    async def texts(query: str, **more: Any) -> list[str]:
        return [hit.text for hit in await asked(query, **more)]

    # A note that says it in other words is first, and no chance word of old talk before it.
    assert (await texts("which foods must I avoid?", min_score=MIN_SCORE))[0] == NOTES[0]
    assert (await texts("what instrument does my kid practise?"))[0] == NOTES[1]

    # A name alone brings nothing that was merely said by who bears it.
    assert set(await texts("Wo wohnt Mara?", min_score=MIN_SCORE)) <= {"Mara's role is harbour pilot.", CITY}
    assert CITY in await texts("Wo wohnt Mara?", min_score=MIN_SCORE)
    role = await texts("What is Mara's role?", min_score=MIN_SCORE)
    assert role[0] == "Mara's role is harbour pilot."
    assert set(role[1:]) <= {CITY}

    # Of notes that answer equally well the newest is first; of others the one that answers better.
    dentist = await asked("when is my dentist appointment?", min_score=MIN_SCORE)
    assert [hit.text for hit in dentist] == [NOTES[6], NOTES[2]]
    assert (await texts("when does the boat depart?"))[:2] == [NOTES[4], NOTES[5]]

    # Talk still answers what only talk does, and nothing answers what nobody said.
    assert "four stitches" in (await texts("Who gave Sill four stitches in his paw?"))[0]
    assert await texts("What is the capital of Mongolia?", min_score=MIN_SCORE) == []
