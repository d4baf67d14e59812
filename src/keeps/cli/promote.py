"""`keeps promote`: remember a sentence of what was said."""

from __future__ import annotations

import secrets
from typing import Annotated, Final

import typer

from keeps.cli.reach import Reach, Reaching, said

app = typer.Typer()

_CHUNK: Final = "memory_chunk:"
_REPEAT_BYTES: Final = 16


@app.command(cls=Reaching, epilog='Example: keeps promote turn:3v9c0k2m7x1q8d4f6h5j "I work nights this week."')
def promote(
    ctx: typer.Context,
    where: Annotated[str, typer.Argument(metavar="TURN", help="turn:<id> or memory_chunk:<id>, as `recall` names it.")],
    text: Annotated[str | None, typer.Argument(help="An exact part of it; all of it unless given.")] = None,
    kind: Annotated[
        str, typer.Option(metavar="KIND", help="note, preference, topic, insight, fact, goal or event.")
    ] = "note",
    slot: Annotated[
        str | None, typer.Option(metavar="NAME", help="What it is about: a new value of it replaces the old one.")
    ] = None,
) -> None:
    """Remember a sentence of what was said: history becomes memory, because you say so."""
    reach = Reach.of(ctx)
    chunk = where.removeprefix(_CHUNK) if where.startswith(_CHUNK) else None
    turn = None if chunk is not None else where.removeprefix("turn:")
    repeat = secrets.token_hex(_REPEAT_BYTES)
    done = reach.ask(
        lambda memory: memory.promote(turn=turn, chunk=chunk, text=text, kind=kind, slot=slot, idempotency_key=repeat)
    )
    reach.show(done, lambda out: out.print(said(f"Saved: {done.text}"), said(done.id, "dim")))
