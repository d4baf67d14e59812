"""What the local embedder costs: texts a second of CPU, a question, loading, and memory.

    python -m evals.embedder

Prints one line a measurement. Seconds are those of the processor, so that other work on the machine counts little.
"""

from __future__ import annotations

import asyncio
import time

import psutil

from keeps.models.minilm import MiniLM

WORDS = (
    "mara keeps her sailing boat in the old harbour near the fish market of horta and tells her brother about it"
    " every evening when the wind has gone down and tea is ready on the table"
).split()
ROUNDS = 5


def text(tokens: int, number: int) -> str:
    """A text of so many tokens; another number is another text."""
    return " ".join(WORDS[(number * 7 + place) % len(WORDS)] for place in range(tokens - 2))


def memory_mb() -> int:
    """What this process holds now."""
    return psutil.Process().memory_info().rss // 2**20


async def speed(embedder: MiniLM, tokens: int, batch: int, *, asking: bool = False) -> float:
    """Texts a second, the best of some rounds."""
    count = max(batch, 1000 // tokens)
    best = 0.0
    for _ in range(ROUNDS):
        began = time.process_time()
        for start in range(0, count, batch):
            await embedder.embed([text(tokens, start + place) for place in range(batch)], asking=asking)
        best = max(best, -(-count // batch) * batch / (time.process_time() - began))
    return best


async def main() -> None:
    """Measure and print."""
    embedder = MiniLM()
    before, began = memory_mb(), time.process_time()
    await embedder.space()
    print(f"load: {time.process_time() - began:.2f} s, memory {before} MB before and {memory_mb()} MB after")
    for tokens in (20, 100, 256):
        for batch in (1, 32):
            found = await speed(embedder, tokens, batch)
            print(f"{tokens} tokens, {batch} at once: {found:.0f} texts/s")
    print(f"a question of 10 tokens: {1000 / await speed(embedder, 10, 1, asking=True):.1f} ms")
    print(f"memory after all: {memory_mb()} MB")
    await embedder.close()


if __name__ == "__main__":
    asyncio.run(main())
