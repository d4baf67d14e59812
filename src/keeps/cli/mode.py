"""`keeps mode`: whether texts have vectors, how far these are, and switching them on and off."""

from __future__ import annotations

import asyncio
import math
import time
from typing import Annotated, Final

import typer
from rich.console import Console

from keeps.cli.reach import Reach, Reaching, counted, note, said
from keeps.client import Client
from keeps.core.errors import Unavailable
from keeps.core.generations import IndexMode
from keeps.wire.index import IndexOut, IndexSpace

app = typer.Typer()

NO_EMBEDDER: Final = "none"
"""The embedder that makes no vectors."""

_PAUSE_S: Final = 0.2
_STUCK_S: Final = 90.0
"""How long to wait while nothing moves: longer than the longest pause between two tries."""


@app.command(cls=Reaching, epilog="Example: keeps mode durable --wait")
def mode(
    ctx: typer.Context,
    wanted: Annotated[
        IndexMode | None, typer.Argument(metavar="[hybrid|durable]", help="Switch to this mode; only show it.")
    ] = None,
    embedder: Annotated[
        str | None, typer.Option(metavar="NAME", help="What turns texts into vectors from now on, e.g. minilm.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="End only when every vector is there, or gone.")] = False,
) -> None:
    """Show the mode of a context, or switch it: `hybrid` finds by meaning too, `durable` keeps no vector anywhere."""
    reach = Reach.of(ctx)

    async def work(memory: Client) -> IndexOut:
        if wanted is None and embedder is None:
            now = await memory.index()
        else:
            now = await memory.switch_index(mode=wanted.value if wanted else None, embedder=embedder)
        return await settled(memory, now) if wait else now

    now = reach.ask(work)
    reach.show(now, lambda out: _tell(out, now))
    if now.degraded:
        note(f"keeps: {now.degraded}")


async def settled(memory: Client, now: IndexOut, *, within_s: float = math.inf) -> IndexOut:
    """The index once nothing is left to do, or as it is after `within_s`. Raises: Unavailable when it stands still."""
    began_at = moved_at = time.monotonic()
    while not now.settled and time.monotonic() - began_at < within_s:
        if time.monotonic() - moved_at > _STUCK_S:
            raise Unavailable(f"{counted(now.pending, 'vector')} missing, and nothing moves: {now.degraded or ''}")
        await asyncio.sleep(_PAUSE_S)
        before, now = now, await memory.index()
        if (before.pending, before.stored) != (now.pending, now.stored):
            moved_at = time.monotonic()
    return now


def _tell(out: Console, now: IndexOut) -> None:
    out.print(f"{now.mode}, {_says(now)}")
    for space in now.spaces:
        out.print(
            said(f"    {space.model}"),
            said(f"{space.dims} numbers · {space.held} of {space.wanted} · {_state(now, space)}", "dim"),
        )


def _says(now: IndexOut) -> str:
    stored = f"{counted(now.stored, 'vector')} in the record"
    if now.mode == IndexMode.DURABLE.value:
        clean = now.settled and not now.spaces and not now.stored
        return f"verified: {stored}, none in the index" if clean else f"{stored}, being removed"
    if now.embedder == NO_EMBEDDER:
        return f"no embedder · {stored}"
    return f"{stored}, {now.pending} to come · {now.embedder}"


def _state(now: IndexOut, space: IndexSpace) -> str:
    """What becomes of the vectors of a space, for people: without an embedder they stay, and nothing asks them."""
    kept = now.mode == IndexMode.HYBRID.value and now.embedder == NO_EMBEDDER
    return "kept, not asked" if kept else space.state
