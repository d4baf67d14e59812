"""`keeps serve` and `keeps bootstrap`: make a memory, and answer over HTTP."""

from __future__ import annotations

import asyncio
import importlib
import logging
from pathlib import Path
from types import ModuleType
from typing import Annotated, Final

import typer

from keeps.cli.reach import note, settings, show_json
from keeps.config import DEFAULT_HOST, DEFAULT_PORT, Config
from keeps.core.policy import Preset
from keeps.memory import DEFAULT_CONTEXT, DEFAULT_FOLDER

app = typer.Typer()

_HALF: Final = "keeps.cli.serving"
"""Loaded once a line is printed: it takes a second or more."""

Data = Annotated[Path, typer.Option(metavar="DIR", envvar="KEEPS_DATA", help="The data folder.")]


Policy = Annotated[
    Preset | None,
    typer.Option(
        envvar="KEEPS_POLICY",
        help="What a new memory keeps without asking: nothing (deliberate), what is no person's, or everything.",
        show_default=Preset.DELIBERATE.value,
    ),
]


def _config(data: Path, policy: Preset | None) -> Config:
    return settings(data=data.expanduser(), **({"policy": policy.value} if policy else {}))


@app.command(epilog="Example: keeps serve --data ./memory --port 9090")
def serve(
    data: Data = DEFAULT_FOLDER,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = DEFAULT_HOST,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = DEFAULT_PORT,
    policy: Policy = None,
) -> None:
    """Answer over HTTP until told to stop. An empty folder gets a context, whose keys are printed once."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for noisy in ("uvicorn", "uvicorn.error", "httpx", "mcp"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    config = _config(data, policy)
    note(f"Opening {config.data} …")
    asyncio.run(_half().serve(config, host, port, asked=policy))


@app.command(epilog="Example: keeps bootstrap --data ./memory --context harbour --json")
def bootstrap(
    data: Data = DEFAULT_FOLDER,
    context: Annotated[str, typer.Option(metavar="ID", help="The name of the new memory.")] = DEFAULT_CONTEXT,
    policy: Policy = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else.")] = False,
) -> None:
    """Make a context with an owner and an agent. The keys are printed once."""
    config = _config(data, policy)
    minted = asyncio.run(_half().bootstrap(config, context))
    endpoint = f"http://{DEFAULT_HOST}:{DEFAULT_PORT}"
    if json:
        show_json(
            {
                "context": minted.context,
                "managementKey": minted.management_key,
                "ownerKey": minted.owner_key,
                "agentKey": minted.agent_key,
                "endpoint": endpoint,
            }
        )
        return
    _half().tell_keys(minted)
    typer.echo(f"endpoint       {endpoint} (once `keeps serve --data {data}` runs)")


def _half() -> ModuleType:
    return importlib.import_module(_HALF)
