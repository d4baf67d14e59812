"""`keeps recall` and `keeps context`: ask the memory."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer
from rich.console import Console

from keeps.cli.reach import Reach, Reaching, moment, named, note, said
from keeps.core.facts import Origin
from keeps.core.fence import LABELS, PASSAGE_LABEL
from keeps.core.fusion import MIN_SCORE
from keeps.wire.query import Hit, QueryOut

app = typer.Typer()

_AT_LEAST: Final = 3
"""So many hits are shown to people, also when they hardly answer; of the unlikely no more. JSON has them all."""

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
    """Find what answers a question, the best first."""
    reach = Reach.of(ctx)
    asked = _asked(k=k, mode=mode, lens=lens, labels=label, include=include, as_of=as_of)
    found = reach.ask(lambda memory: memory.recall(query, **asked))
    reach.show(found, lambda console: tell_hits(console, found))
    if not reach.json:
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
    """Print what answers a question as one block for a prompt."""
    reach = Reach.of(ctx)
    asked = _asked(k=k, lens=lens, labels=label, as_of=as_of, min_score=min_score)
    block = reach.ask(lambda memory: memory.context(query, subject=subject, **asked))
    if reach.json or block.context:
        reach.show(block, lambda _: print(block.context))


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
    if found.degraded:
        console.print(said(f"Could not answer this time: {', '.join(found.degraded)}", "yellow"))


def _spoken(hit: Hit) -> str:
    speaker = hit.speaker or hit.role
    return f"{speaker}: {hit.text}" if speaker and hit.source == "memory_chunk" else hit.text


def _standing(hit: Hit) -> str:
    label = PASSAGE_LABEL if hit.source == "memory_chunk" else LABELS[Origin(hit.origin)]
    rests = f" · rests on {hit.source_ref}" if hit.source_ref else ""
    return f"{label} · {hit.occurred_at:%Y-%m-%d} · {hit.id}{rests}"
