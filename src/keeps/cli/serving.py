"""The halves of `keeps serve` and `keeps bootstrap` that bring the engine and the web framework along."""

from __future__ import annotations

import asyncio
import ipaddress
import signal
from collections.abc import Mapping
from importlib.metadata import version
from typing import Final

import typer

from keeps.cli.reach import note
from keeps.config import Config
from keeps.core.policy import Preset
from keeps.memory import DEFAULT_CONTEXT
from keeps.owning import Owned, owning
from keeps.services import contexts
from keeps.services.context import count_waiting
from keeps.services.contexts import Bootstrapped
from keeps.services.runtime import open_runtime
from keeps.store.owner import FolderLock

_MEANS: Final[Mapping[Preset, str]] = {
    Preset.DELIBERATE: "what agents write waits until a person says yes (keeps inbox)",
    Preset.OPERATIONAL: "what agents write about a person waits for that person; the rest is kept, not confirmed",
    Preset.AUTOMATIC: "what agents write is kept without asking, labelled as unconfirmed",
}

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


async def bootstrap(config: Config, context: str) -> Bootstrapped:
    """Make a context; its keys. Raises: StoreRefused, Conflict."""
    assert config.data is not None
    with FolderLock(config.data):
        async with open_runtime(config) as rt:
            return await contexts.bootstrap(rt, context, policy=config.policy)


async def serve(config: Config, host: str, port: int, *, asked: Preset | None = None) -> None:
    """Answer over HTTP until a signal comes. `asked`: the policy a new context gets. Raises: as `owning`."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def end() -> None:
        stop.set()
        for number in _SIGNALS:  # the second one ends the process at once
            loop.remove_signal_handler(number)

    for number in _SIGNALS:
        loop.add_signal_handler(number, end)
    async with owning(config, host=host, port=port, context=DEFAULT_CONTEXT, warm=True) as owned:
        _tell(config, owned, host, await count_waiting(owned.rt))
        if asked is not None and owned.minted is None:
            _tell_policies_stay(asked, owned)
        await stop.wait()
        note("Stopping …")


def _tell(config: Config, owned: Owned, host: str, waiting: int) -> None:
    if owned.minted is not None:
        tell_keys(owned.minted)
    typer.echo(f"keeps {version('keeps')} answers at {owned.endpoint}, from {config.data}")
    for line in _policies(config, owned):
        typer.echo(f"policy         {line}")
    typer.echo(f"pending        {waiting} {'proposal waits' if waiting == 1 else 'proposals wait'} for a decision")
    typer.echo(f"docs           {owned.endpoint}/docs")
    if not _is_loopback(host):
        note(
            f"keeps: {host} lets other machines in, and what they send is not encrypted: anyone on the way can read "
            "keys and memories. Put a proxy with TLS in front, or listen on 127.0.0.1."
        )


def _tell_policies_stay(asked: Preset, owned: Owned) -> None:
    """Say which contexts keep another policy than `asked`: a policy is given to what is new alone."""
    for context in owned.rt.contexts.values():
        held = context.consent.settings.policy
        if held is not asked:
            note(
                f"keeps: {context.id} keeps its policy {held}, since --policy and KEEPS_POLICY are for a new memory. "
                f"To change it: keeps settings set policy {asked} --context {context.id}"
            )


def _policies(config: Config, owned: Owned) -> list[str]:
    """What holds in the contexts that are served, a line for each policy, with their names when there are several."""
    contexts_of: dict[Preset, list[str]] = {}
    for context in owned.rt.contexts.values():
        contexts_of.setdefault(context.consent.settings.policy, []).append(context.id)
    if len(contexts_of) <= 1:
        policy = next(iter(contexts_of), Preset(config.policy))
        return [f"{policy}: {_MEANS[policy]}"]
    return [f"{policy}: {_MEANS[policy]} ({', '.join(sorted(names))})" for policy, names in sorted(contexts_of.items())]


def tell_keys(minted: Bootstrapped) -> None:
    """Print the keys of a context that was made."""
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
