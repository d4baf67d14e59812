"""`keeps recall` and `keeps context`: ask the memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from keeps.cli.mode import NO_EMBEDDER
from keeps.cli.reach import Reach, Reaching, moment, named, note, said
from keeps.client import Client
from keeps.core.errors import KeepsError
from keeps.core.facts import Origin
from keeps.core.fence import LABELS, PASSAGE_LABEL
from keeps.core.fusion import MIN_SCORE
from keeps.core.generations import IndexMode
from keeps.core.runs import Inclusion
from keeps.core.settings import Kill
from keeps.wire.index import IndexOut
from keeps.wire.query import Hit, QueryOut

app = typer.Typer()

_AT_LEAST: Final = 3
"""So many hits are shown to people, also when they hardly answer; of the unlikely no more. JSON has them all."""

_VECTOR: Final = "vector"
_WAITS: Final = "`keeps mode --wait` waits for them"
_SEARCHES: Final = {"text": "that by words", "exact": "that by names", "graph": "that by relations"}
"""Searches by the name that answers and traces give them."""

_PAUSED: Final = Inclusion.DROPPED_PAUSED.value
_OFF: Final = "Memory is switched off: whoever runs it let nothing into prompts (`keeps settings kill none` ends it)."
_PAUSED_BY_YOU: Final = "You paused the use of your memory (`keeps resume` ends it)."
_STOPPED: Final = "The use of memory is paused or switched off, so nothing answers this."

Query = Annotated[str, typer.Argument(help="The question.")]
K = Annotated[int, typer.Option("-k", min=1, max=50, help="Hits at most.")]
Lens = Annotated[
    list[str] | None, typer.Option(metavar="SCOPE", help="Only what belongs to this scope; may be given again.")
]
Label = Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="Only what has it; may be given again.")]
MinScore = Annotated[
    float | None, typer.Option(metavar="SCORE", min=0.0, max=1.0, help="Only what has at least this score, 0 to 1.")
]
AsOf = Annotated[str | None, typer.Option(metavar="TIME", callback=moment, help="Answer from what was known then.")]


def _asked(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None and value != []}


@app.command(cls=Reaching, epilog='Example: keeps recall "where is the spare key?" -k 3')
def recall(
    ctx: typer.Context,
    query: Query,
    k: K = 10,
    mode: Annotated[str | None, typer.Option(metavar="MODE", help="hybrid, vector, bm25 or graph.")] = None,
    lens: Lens = None,
    label: Label = None,
    include: Annotated[
        list[str] | None, typer.Option(metavar="HALF", help="facts or passages; both unless given.")
    ] = None,
    as_of: AsOf = None,
) -> None:
    """Find what answers a question, the best first.

    What waits in `keeps inbox` is not found, nor, with an agent's key under the policy deliberate, other conversations.
    """
    reach = Reach.of(ctx)
    asked = _asked(k=k, mode=mode, lens=lens, labels=label, include=include, as_of=as_of)

    async def work(memory: Client) -> tuple[QueryOut, IndexOut | None, str | None]:
        answer = await memory.recall(query, **asked)
        if reach.json:
            return answer, None, None
        return answer, await index_behind(memory, answer), None if answer.hits else await resting(memory)

    found, index, rests = reach.ask(work)
    reach.show(found, lambda console: tell_hits(console, found))
    if rests:
        note(rests)
    if not reach.json:
        for line in lacking(found.degraded or (), index):
            note(line)
        note(f"why: keeps why {found.trace.trace_id}")


@app.command(cls=Reaching, epilog='Example: keeps context "where is the spare key?" >> prompt.txt')
def context(
    ctx: typer.Context,
    query: Query,
    k: K = 10,
    subject: Annotated[
        str | None, typer.Option(metavar="TYPE/NAME", callback=named, help="Facts about this entity only.")
    ] = None,
    lens: Lens = None,
    label: Label = None,
    min_score: MinScore = None,
    as_of: AsOf = None,
) -> None:
    """Print what answers a question as one block for a prompt.

    What waits in `keeps inbox` does not stand in it under the policy deliberate, unless a setting lets it.
    """
    reach = Reach.of(ctx)
    asked = _asked(k=k, lens=lens, labels=label, as_of=as_of, min_score=min_score)
    block = reach.ask(lambda memory: memory.context(query, subject=subject, **asked))
    if reach.json or block.context:
        reach.show(block, lambda _: print(block.context))
    if not block.context:
        off = {_PAUSED} & {left.reason for left in block.dropped}
        note(reach.ask(resting) or (_STOPPED if off else "Nothing that is remembered answers this."))


async def resting(memory: Client) -> str | None:
    """Why memory answers nobody now: it is switched off, or the caller paused it; None when neither is known."""
    try:
        settings = (await memory.settings.get()).settings
        if settings.get("kill") in (Kill.NO_PROMPT, Kill.BOTH):
            return _OFF
    except KeepsError:
        pass  # An agent may not read them.
    try:
        pauses = (await memory.controls.pauses()).pauses
    except KeepsError:
        return None
    return _PAUSED_BY_YOU if any(pause.using and pause.agents is None for pause in pauses) else None


async def index_behind(memory: Client, found: QueryOut) -> IndexOut | None:
    """How far the vectors are when an answer lacked some; None when it did not, or the caller may not know."""
    if _VECTOR not in (found.degraded or ()):
        return None
    try:
        return await memory.index()
    except KeepsError:
        return None


def tell_hits(console: Console, found: QueryOut) -> None:
    """Print hits for people: what was found, who stands behind it, and what it rests on."""
    likely = [hit for hit in found.hits if hit.score >= MIN_SCORE]
    unlikely = found.hits[len(likely) : max(len(likely), _AT_LEAST)]
    if not likely:
        console.print("Nothing found." if not unlikely else "Nothing clearly answers that. What comes nearest:")
    for rank, hit in enumerate((*likely, *unlikely), 1):
        if likely and rank == len(likely) + 1:
            console.print("Less likely:")
        console.print(said(f"{rank:2}. {_spoken(hit)}"))
        console.print(said(f"    {_standing(hit)} · score {hit.score:.2f}", "dim"))


def lacking(degraded: Iterable[str], index: IndexOut | None) -> Iterator[str]:
    """What an answer had to do without, a line each. `index`: how far the vectors are, where that is known."""
    for name in degraded:
        if name != _VECTOR:
            yield f"One search could not answer in time, {_SEARCHES.get(name, name)}: ask again"
        elif index is None:
            yield f"Some texts have no vector yet, so meaning counts only in part: {_WAITS}"
        elif index.mode == IndexMode.DURABLE.value:
            yield "This context keeps no vectors (mode durable), so nothing is found by meaning"
        elif index.degraded:
            yield f"Meaning counts only in part: {index.degraded}"
        elif index.pending:
            have = "1 text has" if index.pending == 1 else f"{index.pending} texts have"
            yield f"{have} no vector yet, so meaning counts only in part: {_WAITS}"
        elif index.embedder == NO_EMBEDDER:
            yield "There is no embedder (KEEPS_EMBEDDER is none), so nothing is found by meaning"
        else:
            yield "Some texts had no vector yet, so meaning counted only in part: they have one now, ask again"


def _spoken(hit: Hit) -> str:
    speaker = hit.speaker or hit.role
    return f"{speaker}: {hit.text}" if speaker and hit.source == "memory_chunk" else hit.text


def _standing(hit: Hit) -> str:
    label = PASSAGE_LABEL if hit.source == "memory_chunk" else LABELS[Origin(hit.origin)]
    rests = f" · rests on {hit.source_ref}" if hit.source_ref else ""
    return f"{label} · {hit.occurred_at:%Y-%m-%d} · {hit.id}{rests}"
