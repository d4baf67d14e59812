"""`keeps runs`: what agents were offered from memory, what their answers cited, and why something was left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

import typer
from rich.console import Console

from keeps.cli.look import shortened, texts_of
from keeps.cli.reach import Reach, Reaching, counted, said
from keeps.cli.spoken import spoken
from keeps.client import Client
from keeps.wire.runs import RunOut, RunRecord, RunsOut

app = typer.Typer(no_args_is_help=True, help="Runs of agents: what each was offered, cited, and why not.")

_LISTED: Final = 20
_MOST: Final = 200


@app.command("list", cls=Reaching, epilog="Example: keeps runs list --memory attribute:3v9c0k2m7x1q8d4f6h5j")
def list_runs(
    ctx: typer.Context,
    agent: Annotated[str | None, typer.Option(metavar="ID", help="Only those of this agent.")] = None,
    memory: Annotated[str | None, typer.Option(metavar="REF", help="Only those that were given this.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=_MOST, help="At most so many.")] = _LISTED,
) -> None:
    """List runs, the one that began last first."""
    reach = Reach.of(ctx)
    found = reach.ask(lambda client: client.runs.list(agent=agent, memory=memory, limit=limit))
    reach.show(found, lambda out: _tell_all(out, found))


@app.command(cls=Reaching, epilog="Example: keeps runs show run:3v9c0k2m7x1q8d4f6h5j")
def show(
    ctx: typer.Context, run: Annotated[str, typer.Argument(metavar="RUN", help="As `keeps runs list` names it.")]
) -> None:
    """Show one run: each memory it was offered, whether its answer cited it, and why others were left out."""
    explain(Reach.of(ctx), run.strip())


def explain(reach: Reach, run: str) -> None:
    """Print what a run was offered, as `keeps runs show` and `keeps why` do. Raises: NotFound."""
    texts: dict[str, str] = {}

    async def work(memory: Client) -> RunOut:
        found = await memory.runs.get(run)
        if not reach.json:
            texts.update(await texts_of(memory, [each.id for each in found.memories if each.id]))
        return found

    found = reach.ask(work)
    reach.show(found, lambda out: tell_run(out, found, texts))


def _tell_all(out: Console, found: RunsOut) -> None:
    if not found.runs:
        out.print("No run yet.")
    for run in found.runs:
        out.print(said(_headline(run)))
        out.print(said("    " + _outcome(run), "dim"))


def _headline(run: RunRecord) -> str:
    parts = [run.id, f"{run.started_at:%Y-%m-%d %H:%M:%S}", f"by {run.agent_id}"]
    if run.on_behalf_of:
        parts.append(f"for {run.on_behalf_of}")
    if run.temporary:
        parts.append("temporary")
    return " · ".join(parts)


def _outcome(run: RunRecord) -> str:
    ended = spoken(run.end_reason) if run.end_reason else "still open"
    cites = f"{counted(run.cites_kept, 'citation')} kept"
    dropped = f", {run.cites_dropped} of what it was not offered" if run.cites_dropped else ""
    return f"{ended} · {cites}{dropped}" + (f" · memory {run.outcome}" if run.outcome else "")


def tell_run(out: Console, run: RunOut, texts: Mapping[str, str]) -> None:
    """Print a run for people. `texts`: what stands now in what it was offered, as far as the reader may know."""
    out.print(said(_headline(run)))
    out.print(said(_outcome(run), "dim"))
    if not run.memories:
        out.print("It was offered no memory.")
    for each in run.memories:
        if each.gone:
            out.print(said(f"{each.rank:2}. no longer there, or not yours to see", "dim"))
            continue
        out.print(said(f"{each.rank:2}. {shortened(texts.get(each.id, each.id))}"))
        cited = " · cited" if each.cited else ""
        parts = f"{spoken(each.prompt_inclusion)}{cited} · found by: {spoken(each.retrieval_reason)} · {each.id}"
        out.print(said(f"    {parts}", "dim"))
    if run.proposed:
        out.print(said(f"It proposed {counted(run.proposed, 'memory', 'memories')}.", "dim"))
    for name in run.degraded:
        out.print(said(f"Could not answer in full: {name}", "yellow"))
