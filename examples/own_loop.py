"""A chat loop with memory beside each question, and a writer that keeps what was said without holding the loop up."""

import asyncio
import re

from keeps import Memory
from keeps.loop import ByQuestion, Writer, with_memory


async def model(agent: str, messages: list[dict[str, str]], *, system: str) -> str:
    """Stands for a model: it repeats the first memory it was told, and cites it."""
    told = re.search(r'"id":"([^"]+)".*"text":"([^"]+)"', messages[-1]["content"])
    return f"You said it: {told[2]} [{told[1]}]" if told else "I will keep that in mind."


async def main() -> None:
    async with Memory.open("memory") as memory, Writer(memory) as writer:
        session = (await memory.sessions.create()).id
        recall = ByQuestion(memory=memory, session=session)
        ask = with_memory(model, recall, agents={"assistant"}, timeout_s=10)
        for said in ("I row on Tuesdays.", "When do I row?"):
            answer = await ask("assistant", [{"role": "user", "content": said}], system="Be brief.")
            print(f"> {said}\n{answer.text}")
            for memory_used in answer.used.memories:
                print(f"    {memory_used.text} ({memory_used.label})")
            writer.put(said, infer="none", session=session, role="user")
            writer.put(answer.text, infer="none", session=session, role="assistant")
            await writer.flush()
        print(f"{writer.counts.written} turns written")


asyncio.run(main())
