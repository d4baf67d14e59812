"""`keeps forget`: take something out of every answer, or erase it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

import typer
from rich.console import Console

from keeps.cli.codes import NOT_FOUND
from keeps.cli.look import shortened, texts_of
from keeps.cli.reach import Reach, Reaching, confirm, console, counted, note, said
from keeps.client import Client
from keeps.wire.forget import ForgetOut

app = typer.Typer()

_NEAR: Final = 5
"""How many near misses people are shown; JSON has them all."""

_OTHERS: Final = 20
"""Of how many rows that go along the text is shown."""

_UNDERSTOOD = (
    "Understood are the exact text of a memory, a name (Mara), a key (role), a reference (person/mara/role), "
    "and the id of a row: --id attribute:<id>"
)


@app.command(cls=Reaching, epilog='Example: keeps forget "The spare key hangs behind the oven" --purge')
def forget(
    ctx: typer.Context,
    query: Annotated[
        str | None, typer.Argument(help="The exact text, name, key or reference (person/mara/role) of what to forget.")
    ] = None,
    ids: Annotated[list[str] | None, typer.Option("--id", metavar="REF", help="This row; may be given again.")] = None,
    lens: Annotated[
        list[str] | None, typer.Option(metavar="SCOPE", help="Only in this scope; may be given again.")
    ] = None,
    purge: Annotated[bool, typer.Option("--purge", help="Erase the text itself, everywhere.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Take something out of every answer; with --purge erase it. Ends with 3 when nothing is meant.

    There is no way back from here: what `keeps memory delete` takes out can be brought back for some seconds.
    """
    if query is None and not ids:
        raise typer.BadParameter("say what to forget: words, or --id")
    reach = Reach.of(ctx)

    texts: dict[str, str] = {}

    async def work(memory: Client) -> ForgetOut:
        first = None if yes else await memory.forget(query, ids=ids, purge=purge, dry_run=True, lens=lens)
        if first is not None:
            texts.update(await _others(memory, first))
            if dry_run or not first.deleted:
                return first
            _tell(console(), first, query, texts, would=True)
            confirm("Erase this for good?" if purge else "Forget this?", yes=yes, shows=True)
        done = await memory.forget(query, ids=ids, purge=purge, dry_run=dry_run, lens=lens)
        texts.update(await _others(memory, done))
        return done

    done = reach.ask(work)
    reach.show(done, lambda out: _tell(out, done, query, texts, would=dry_run))
    if not done.deleted and not done.released:
        note(f"keeps: nothing here is meant by that. {_UNDERSTOOD}")
        if done.near_misses:
            note(f"To forget the nearest: keeps forget --id {done.near_misses[0].id}{' --purge' if purge else ''}")
        raise typer.Exit(NOT_FOUND)


async def _others(memory: Client, would: ForgetOut) -> dict[str, str]:
    """The texts of rows that would go beside the memories that are told: former values, and turns they came from."""
    told = {match.id for match in would.matches or ()}
    return await texts_of(memory, [row for row in would.ids or () if row not in told][:_OTHERS])


def _tell(out: Console, done: ForgetOut, query: str | None, texts: Mapping[str, str], *, would: bool) -> None:
    if done.deleted or done.released:
        count = counted(done.deleted if done.memories is None else done.memories, "memory", "memories")
        out.print(f"{'Would forget' if would else 'Forgot'} {count} ({counted(done.deleted, 'row')}).")
    told = {match.id for match in done.matches or ()}
    for match in done.matches or ():
        out.print(said(f"    {match.text}"), said(match.id, "dim"))
    for row in done.ids or ():
        if row not in told:
            out.print(said(f"    {shortened(texts[row])} {row}" if row in texts else f"    {row}", "dim"))
    if done.near_misses and not _is_exact(query, done):
        out.print("Like it, and not touched:")
        for miss in done.near_misses[:_NEAR]:
            text = shortened(" ".join(miss.text.split()))
            out.print(said(f"    {text}"), said(f"{miss.id} · score {miss.score:.2f}", "dim"))
    if done.released:
        rows = f"{done.released} {'row stays' if done.released == 1 else 'rows stay'}"
        out.print(f"{rows} for others whose they are too.")
    if done.remaining:
        out.print(f"{done.remaining} more are meant by these words: forget again, or name them with --id.")


def _is_exact(query: str | None, done: ForgetOut) -> bool:
    """True when the words are the text of what would go: then nobody has to be shown what else there is."""
    words = " ".join((query or "").split()).casefold()
    return any(match.text.casefold() == words for match in done.matches or ())
