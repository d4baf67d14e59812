"""A tutor that knows what a learner did, and a judge that is never told. Code writes the facts, from numbers alone."""

import asyncio
import re

from keeps import Memory
from keeps.loop import ByRule, Pseudonyms, Selection, Template, with_memory

PEOPLE = Pseudonyms(b"a key of at least 32 bytes, kept by the app", context="tutor", issuer="accounts")
GOAL = Template("reach unit {unit:int}", key="goal", kind="goal")
RESULT = Template("guessed {guessed:int} and proved {proved:int} of {total:int}", key="result", kind="event")


async def call_agent(agent: str, messages: list[dict[str, str]]) -> str:
    """Stands for a model: it cites the last memory it was told, and one that there never was."""
    told = re.findall(r'"id":"([^"]+)"', messages[-1]["content"])
    return f"You proved two [{told[-1]}], and all of them once [attribute:made_up]." if told else "Two of five."


async def main() -> None:
    learner = "mara@school.example"
    entity, scope = PEOPLE.entity(learner), PEOPLE.scope(learner)
    async with Memory.open("memory", saved_key="owner") as owner:  # once: what the app may do, with its own key
        await owner.principals.grant("agent", "user/*", ["memory:read", "memory:write", "memory:forget"])
        await owner.principals.change("agent", trusted_writer=True)
    async with Memory.open("memory") as memory:
        for fact in (GOAL(unit=7), RESULT(guessed=3, proved=2, total=5)):
            await memory.remember(triples=[fact.triple(entity)], kind=fact.kind, scopes=scope)
        recall = ByRule(memory=memory, entity=entity, lens=scope, selection=Selection(keys=["goal", "result"]))
        ask = with_memory(call_agent, recall, agents={"tutor"}, timeout_s=10)
        for agent in ("tutor", "judge"):
            answer = await ask(agent, [{"role": "user", "content": "Where was I?"}])
            print(f"{agent}: {answer.text}")
            for memory_used in answer.used.memories:
                print(f"    {memory_used.text} ({memory_used.label})")
        gone = await PEOPLE.forget_me(memory, learner)
        print(f"forgotten: {gone.memories} memories, and a look finds {gone.left}")


asyncio.run(main())
