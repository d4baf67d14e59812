"""`keeps mcp`: the memory for one agent, over stdin and stdout."""

from __future__ import annotations

import asyncio
import importlib
import logging
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from keeps.cli.reach import note, settings
from keeps.client import Client
from keeps.memory import DEFAULT_CONTEXT, DEFAULT_FOLDER, Memory

app = typer.Typer()

_HALF: Final = "keeps.mcp.stdio"
"""Loaded when it runs: the list of commands does without."""

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@app.command(epilog="Example: claude mcp add keeps -- keeps mcp --data ~/memory")
def mcp(
    data: Annotated[
        Path, typer.Option(metavar="DIR", envvar="KEEPS_DATA", help="The data folder; made when it is missing.")
    ] = DEFAULT_FOLDER,
    endpoint: Annotated[
        str | None, typer.Option(metavar="URL", envvar="KEEPS_ENDPOINT", help="A running service, not a folder.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(metavar="KEY", envvar="KEEPS_KEY", help="The key; beside a folder its agent's.")
    ] = None,
    context: Annotated[
        str, typer.Option(metavar="ID", envvar="KEEPS_CONTEXT", help="Which context.")
    ] = DEFAULT_CONTEXT,
) -> None:
    """Answer an agent over stdin and stdout, with the tools of the Model Context Protocol.

    What it asks to be remembered waits for your yes in `keeps inbox`, under the policy deliberate.
    """
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    asyncio.run(_run(data.expanduser(), endpoint, key, context))


async def _run(folder: Path, endpoint: str | None, key: str | None, context: str) -> None:
    """Serves until stdin ends or a signal comes."""
    half = importlib.import_module(_HALF)
    loop = asyncio.get_running_loop()
    with half.taken() as (source, sink):
        async with _opened(folder, endpoint, key, context) as memory:
            serving = asyncio.create_task(half.serve(memory, source, sink), name="keeps-mcp")

            def end() -> None:
                serving.cancel()
                for number in _SIGNALS:  # the second one ends the process at once
                    loop.remove_signal_handler(number)

            for number in _SIGNALS:
                loop.add_signal_handler(number, end)
            await asyncio.wait({serving})
            if not serving.cancelled():
                serving.result()


@asynccontextmanager
async def _opened(folder: Path, endpoint: str | None, key: str | None, context: str) -> AsyncGenerator[Client]:
    if endpoint is not None:
        async with Client(endpoint, key=key, context=context) as client:
            yield client
        return
    async with Memory.open(folder, context=context, key=key, config=settings(data=folder)) as memory:
        if memory.created:
            note(f"Began a new memory in {folder}.")
        yield memory
