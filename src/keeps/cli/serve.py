"""`keeps serve` and `keeps bootstrap`: make a memory, and answer over HTTP."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import signal
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Final

import typer

from keeps.cli.reach import note, settings, show_json
from keeps.config import DEFAULT_HOST, DEFAULT_PORT, Config
from keeps.memory import DEFAULT_CONTEXT, DEFAULT_FOLDER
from keeps.owning import Owned, owning
from keeps.services import contexts
from keeps.services.context import count_waiting
from keeps.services.contexts import Bootstrapped
from keeps.services.runtime import open_runtime
from keeps.store.owner import FolderLock

app = typer.Typer()

_AUTOMATIC: Final = "automatic"
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

Data = Annotated[Path, typer.Option(metavar="DIR", envvar="KEEPS_DATA", help="The data folder.")]


def _policy(name: str) -> str:
    if name != _AUTOMATIC:
        raise typer.BadParameter("only automatic exists so far: asking a person first is not there yet")
    return name


Policy = Annotated[str, typer.Option(callback=_policy, help="What may be kept without asking.")]


@app.command(epilog="Example: keeps serve --data ./memory --port 9090")
def serve(
    data: Data = DEFAULT_FOLDER,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = DEFAULT_HOST,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = DEFAULT_PORT,
    policy: Policy = _AUTOMATIC,
) -> None:
    """Answer over HTTP until told to stop. An empty folder gets a context, whose keys are printed once."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for noisy in ("uvicorn", "uvicorn.error", "httpx", "mcp"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    asyncio.run(_serve(settings(data=data.expanduser(), policy=policy), host, port))


@app.command(epilog="Example: keeps bootstrap --data ./memory --context harbour --json")
def bootstrap(
    data: Data = DEFAULT_FOLDER,
    context: Annotated[str, typer.Option(metavar="ID", help="The name of the new memory.")] = DEFAULT_CONTEXT,
    policy: Policy = _AUTOMATIC,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else.")] = False,
) -> None:
    """Make a context with an owner and an agent. The keys are printed once."""
    config = settings(data=data.expanduser(), policy=policy)
    minted = asyncio.run(_bootstrap(config, context))
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
    _tell_keys(minted)
    typer.echo(f"endpoint       {endpoint} (once `keeps serve --data {data}` runs)")


async def _bootstrap(config: Config, context: str) -> Bootstrapped:
    assert config.data is not None
    with FolderLock(config.data):
        async with open_runtime(config) as rt:
            return await contexts.bootstrap(rt, context, policy=config.policy)


async def _serve(config: Config, host: str, port: int) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def end() -> None:
        stop.set()
        for number in _SIGNALS:  # the second one ends the process at once
            loop.remove_signal_handler(number)

    for number in _SIGNALS:
        loop.add_signal_handler(number, end)
    note(f"Opening {config.data} …")
    async with owning(config, host=host, port=port, context=DEFAULT_CONTEXT, warm=True) as owned:
        _tell(config, owned, host, await count_waiting(owned.rt))
        await stop.wait()
        note("Stopping …")


def _tell(config: Config, owned: Owned, host: str, waiting: int) -> None:
    if owned.minted is not None:
        _tell_keys(owned.minted)
    typer.echo(f"keeps {version('keeps')} answers at {owned.endpoint}, from {config.data}")
    typer.echo(f"policy         {config.policy}: what agents write is kept without asking, labelled as unconfirmed")
    typer.echo(f"pending        {waiting} {'proposal waits' if waiting == 1 else 'proposals wait'} for a decision")
    typer.echo(f"docs           {owned.endpoint}/docs")
    if not _is_loopback(host):
        note(
            f"keeps: {host} lets other machines in, and what they send is not encrypted: anyone on the way can read "
            "keys and memories. Put a proxy with TLS in front, or listen on 127.0.0.1."
        )


def _tell_keys(minted: Bootstrapped) -> None:
    typer.echo("Keys, shown this once:")
    typer.echo(f"context        {minted.context}")
    typer.echo(f"managementKey  {minted.management_key}")
    typer.echo(f"ownerKey       {minted.owner_key}")
    typer.echo(f"agentKey       {minted.agent_key}   (give your agent this one)")


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
