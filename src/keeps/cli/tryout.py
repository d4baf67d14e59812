"""`keeps try`: the main job from beginning to end, in a folder that is thrown away afterwards."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from importlib import resources
from pathlib import Path
from typing import Final

import typer
from rich.console import Console
from rich.rule import Rule

from keeps.cli.conversations import Aim, import_talks
from keeps.cli.inbox import tell as tell_inbox
from keeps.cli.look import tell_facts
from keeps.cli.mode import NO_EMBEDDER, settled
from keeps.cli.reach import console, counted, said, settings
from keeps.cli.recall import index_behind, lacking, tell_hits
from keeps.cli.remember import note_of
from keeps.cli.transcripts import read_talks
from keeps.client.verbs import Asked
from keeps.core.errors import NotFound, Unavailable
from keeps.core.fusion import MIN_SCORE
from keeps.memory import Memory
from keeps.wire.facts import FactsOut
from keeps.wire.index import IndexOut

app = typer.Typer()

QUESTIONS: Final = (
    "Who gave Sill four stitches in his paw?",
    "How long is the Aurelia Dawn, the longest ship?",
    "Where did Néstor Ibáñez come from?",
)
OTHER_WORDS: Final = "What breed is the pet?"
"""No word of it stands in the memory that answers it."""

MARA: Final = {"type": "person", "name": "Mara"}
HOMES: Final = (
    ("2026-03-02T09:05:51Z", "Tollgatan 14 in Kråkvik", "I rent a flat on the third floor at Tollgatan 14 in Kråkvik"),
    ("2026-06-21T10:05:26Z", "Lotsbacken 7 in Almenäs", "I have you at Lotsbacken 7 in Almenäs from now on"),
)
PATIENCE_S: Final = 60.0
"""How long the questions wait for the vectors of what was imported, seconds."""

IN_MAY: Final = "2026-05-15T00:00:00Z"
HEARD: Final = (
    ("wants", "a post in Hamnsund", "They look for a pilot in Hamnsund, I see", "insight"),
    ("prefers", "oat milk in her coffee", "I take oat milk in my coffee these days", "preference"),
)
"""What an agent makes of two sentences, each a key, a value, the sentence and a kind: a guess, and what was said."""
COFFEE: Final = "Does she take milk in her coffee?"
SECRET: Final = "The spare key hangs under the gannetbox by the slipway"
SECRET_WORD: Final = "gannetbox"

_NEXT: Final = """\
Next:
  keeps serve                                  answer over HTTP, at http://127.0.0.1:9090/docs
  keeps import conversation FILE               bring in a conversation of your own
  keeps remember "I take my coffee black"      save a note
  keeps recall "coffee"                        ask
  keeps inbox                                  decide what agents may keep
  keeps --help                                 everything else
From Python:
  from keeps import Memory
  async with Memory.open("./memory", saved_key="owner") as memory:
      await memory.remember("I take my coffee black")
      found = await memory.recall("coffee")"""


@app.command("try", epilog="Example: keeps try")
def tryout() -> None:
    """Show everything once: import, ask, correct, look back, decide what an agent may keep, see who used what, forget.

    Touches no memory of yours."""
    asyncio.run(run(console()))


async def run(out: Console) -> None:
    """The whole show, printed on `out`. Raises: AssertionError when the memory does not do what is shown."""
    began = time.monotonic()
    async with _fresh_memory() as (memory, folder):
        await _import(out, memory)
        await _ask(out, memory)
        await _correct(out, memory)
        await _look_back(out, memory)
        async with Memory.open(folder) as agent:
            await _decide(out, memory, agent)
            await _use(out, memory, agent)
        await _forget(out, memory, folder)
    out.print(Rule(style="dim"))
    out.print(f"Done in {time.monotonic() - began:.0f} s. The folder is gone again.\n")
    out.print(_NEXT)


@asynccontextmanager
async def _fresh_memory() -> AsyncGenerator[tuple[Memory, Path]]:
    with tempfile.TemporaryDirectory(prefix="keeps-try-") as place:
        folder = Path(place) / "memory"
        async with Memory.open(
            folder, saved_key="owner", config=settings(engine_url=None, policy="deliberate")
        ) as memory:
            yield memory, folder


def _step(out: Console, number: int, title: str) -> None:
    out.print()
    out.print(Rule(f"{number}. {title}", align="left", style="dim"))


async def _import(out: Console, memory: Memory) -> None:
    _step(out, 1, "Import a conversation")
    with resources.as_file(resources.files("keeps.cli") / "data" / "conversation.jsonl") as file:
        talks = read_talks(file)
    done = await import_talks(memory, talks, Aim())
    again = await import_talks(memory, talks, Aim())
    out.print("Mara, a harbour pilot who learns to bake, and her assistant Keel. Both are made up.")
    out.print(f"Imported {done.turns} turns in {done.sessions} sessions into an empty folder.")
    out.print(f"Imported the same file again: {again.turns} new, {again.already} were there already.")
    await _wait(out, memory)


async def _wait(out: Console, memory: Memory) -> None:
    """Let the vectors catch up, which no write waits for."""
    began = time.monotonic()
    now = await _settle(memory)
    if now.embedder == NO_EMBEDDER:
        return
    done = f"{counted(now.stored, 'vector')} after {time.monotonic() - began:.0f} s more"
    late = "" if now.settled else f"; {now.pending} are still to come"
    out.print(f"To be found by meaning a text needs a vector, made here in the background: {done}{late}.")


async def _settle(memory: Memory) -> IndexOut:
    now = await memory.index()
    with suppress(Unavailable):  # without vectors the words answer, and each answer says so
        now = await settled(memory, now, within_s=PATIENCE_S)
    return now


async def _ask(out: Console, memory: Memory) -> None:
    _step(out, 2, "Ask it")
    for question in QUESTIONS:
        out.print(said(f"? {question}", "bold"))
        await _tell(out, memory, question, Asked(k=1))
    if (await memory.index()).embedder == NO_EMBEDDER:
        out.print("A question in other words than the memory holds is left out: there is no embedder (KEEPS_EMBEDDER).")
        return
    out.print("And one in other words than the memory holds, so that only its meaning can find it:")
    out.print(said(f"? {OTHER_WORDS}", "bold"))
    await _tell(out, memory, OTHER_WORDS, Asked(k=1))


async def _tell(out: Console, memory: Memory, question: str, asked: Asked) -> None:
    found = await memory.recall(question, **asked)
    tell_hits(out, found)
    for line in lacking(found.degraded or (), await index_behind(memory, found)):
        out.print(said(line, "yellow"))


async def _correct(out: Console, memory: Memory) -> None:
    _step(out, 3, "Write a fact, then correct it")
    for at, home, words in HOMES:
        triple = {"entity": MARA, "key": "lives_at", "value": home}
        done = await memory.remember(words, triples=[triple], observed_at=at)
        assert done.extraction is not None
        out.print(said(f"On {at[:10]}: Mara lives at {home}"))
        for change in done.extraction.corrections:
            out.print(said(f"    which corrects: {change.old_value}", "dim"))


async def _look_back(out: Console, memory: Memory) -> None:
    _step(out, 4, "Look back")
    question = "Where does Mara live?"
    out.print(said(f"? {question}", "bold"))
    await _settle(memory)
    await _tell(out, memory, question, Asked(k=1, include=["facts"]))
    out.print(said(f"? {question} (as of {IN_MAY[:10]})", "bold"))
    await _tell(out, memory, question, Asked(k=1, include=["facts"], as_of=IN_MAY))
    out.print("Every value it had, newest first, and what each rests on:")
    history = (await memory.history("person/mara", "lives_at")).history
    tell_facts(out, history)
    for fact in reversed(history):
        assert fact.source is not None
        assert fact.source.ref is not None
        turn = (await memory.inspect(fact.source.ref)).turn
        assert turn is not None
        out.print(said(f"    {fact.source.ref} of {turn.created_at:%Y-%m-%d} says: {turn.content}", "dim"))


async def _decide(out: Console, memory: Memory, agent: Memory) -> None:
    _step(out, 5, "Decide what an agent may keep")
    out.print("All that was yours. An agent, with a key of its own, makes this of two sentences it hears:")
    for heard in HEARD:
        await _propose(agent, heard)
        out.print(said(f"    “{heard[2]}”  →  {heard[0]}: {heard[1]}"))
    out.print("Before you say so it answers nothing:")
    await _ask_agent(out, memory, agent)
    out.print("It is in your inbox, with the sentence it rests on and why it waits:")
    found = await memory.inbox()
    tell_inbox(out, found)
    guess, stated = (next(item for item in found.items if heard[1] in item.text) for heard in HEARD)
    await memory.decide([{"id": stated.id, "decision": "keep"}, {"id": guess.id, "decision": "discard"}])
    out.print("You say yes to 1 and no to 2:")
    await _ask_agent(out, memory, agent)
    again = await _propose(agent, HEARD[0])
    assert again.extraction is not None
    assert again.extraction.dropped
    left = again.extraction.dropped[0]
    waiting = (await memory.inbox()).counts.waiting
    out.print(f"The agent brings up 2 once more: not kept ({left.reason}). Waiting for you: {waiting}")


async def _ask_agent(out: Console, memory: Memory, agent: Memory) -> None:
    """What the agent is answered, as far as it is likely."""
    await _settle(memory)
    out.print(said(f"? {COFFEE}", "bold"))
    await _tell(out, agent, COFFEE, Asked(k=1, min_score=MIN_SCORE))


async def _propose(agent: Memory, heard: tuple[str, str, str, str]) -> FactsOut:
    key, value, words, kind = heard
    return await agent.remember(words, triples=[{"entity": MARA, "key": key, "value": value}], kind=kind)


async def _use(out: Console, memory: Memory, agent: Memory) -> None:
    _step(out, 6, "See who used what")
    run = await agent.runs.open()
    block = await agent.context(COFFEE, run=run.id)
    await agent.runs.cite(run.id, [each.id for each in block.offered or ()])
    await agent.runs.close(run.id)
    seen = await memory.runs.get(run.id)
    assert seen.memories_used is not None
    for used in seen.memories_used.cited:
        out.print(said(f"The {seen.agent_id} was given this memory and relied on it: {used.text} ({used.label})"))


async def _forget(out: Console, memory: Memory, folder: Path) -> None:
    _step(out, 7, "Forget something for good")
    note = await memory.remember(triples=[await note_of(memory, SECRET)], kind="note")
    assert note.extraction is not None
    (saved,) = note.extraction.attributes
    ref = f"attribute:{saved.entity_id.removeprefix('entity:')}/{saved.key}"
    out.print(said(f"Saved a note: {SECRET}."))
    await _tell_word(out, memory, folder)
    done = await memory.forget(SECRET, purge=True)
    out.print(f"Purged it: {counted(done.deleted, 'row')} erased.")
    try:
        await memory.inspect(ref)
        raise AssertionError(f"{ref} is still there")
    except NotFound:
        gone = "not found"
    await _tell_word(out, memory, folder)
    out.print(f"    Looked up by its reference: {gone}.")


async def _tell_word(out: Console, memory: Memory, folder: Path) -> None:
    found = (await memory.recall(SECRET_WORD)).hits
    hits = counted(sum(SECRET_WORD in hit.text for hit in found), "hit holds it", "hits hold it")
    files = counted(_files_with(folder, SECRET_WORD), "file")
    out.print(said(f'    Asked for "{SECRET_WORD}": {hits}. The word stands in {files} of the index.'))


def _files_with(folder: Path, word: str) -> int:
    """How many files of the search index hold the word's bytes, in any case."""
    needle = word.casefold().encode()
    files = [file for finder in folder.glob("*/finder") for file in finder.rglob("*") if file.is_file()]
    return sum(needle in file.read_bytes().lower() for file in files)
