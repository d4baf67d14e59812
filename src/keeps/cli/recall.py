"""`keeps recall` and `keeps context`: ask the memory."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console

from keeps.cli.reach import Reach, Reaching, moment, named, note, said
from keeps.core.facts import Origin
from keeps.core.fence import LABELS, PASSAGE_LABEL
from keeps.wire.query import Hit, QueryOut

app = typer.Typer()

Query = Annotated[str, typer.Argument(help="The question.")]
K = Annotated[int, typer.Option("-k", min=1, max=50, help="Hits at most.")]
Lens = Annotated[
    list[str] | None, typer.Option(metavar="SCOPE", help="Only what belongs to this scope; may be given again.")
]
Label = Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="Only what has it; may be given again.")]
AsOf = Annotated[str | None, typer.Option(metavar="TIME", callback=moment, help="Answer from what was known then.")]


def _asked(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value}


@app.command(cls=Reaching, epilog='Example: keeps recall "where is the spare key?" -k 3')
def recall(
    ctx: typer.Context,
    query: Query,
    k: K = 10,
    mode: Annotated[str | None, typer.Option(metavar="MODE", help="hybrid or bm25.")] = None,
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
    as_of: AsOf = None,
) -> None:
    """Print what answers a question as one block for a prompt."""
    reach = Reach.of(ctx)
    asked = _asked(k=k, lens=lens, labels=label, as_of=as_of)
    block = reach.ask(lambda memory: memory.context(query, subject=subject, **asked))
    if reach.json or block.context:
        reach.show(block, lambda _: print(block.context))


def tell_hits(console: Console, found: QueryOut) -> None:
    """Print hits for people: what was found, who stands behind it, and what it rests on."""
    if not found.hits:
        console.print("Nothing found.")
    for rank, hit in enumerate(found.hits, 1):
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
