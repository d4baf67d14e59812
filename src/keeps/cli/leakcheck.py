"""`keeps leakcheck`: a key for each owner's memories asks for everybody else's; nothing may come back."""

from __future__ import annotations

from typing import Annotated, Final

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from keeps.cli.codes import FAILED
from keeps.cli.reach import Reach, Reaching, counted, errors, said
from keeps.client import Client
from keeps.client.leaks import Effort, Found, look_for_leaks
from keeps.wire.base import WireOut

app = typer.Typer()

_SHOWN: Final = 20
"""Leaks listed for people; `--json` has them all."""


class LeakOut(WireOut):
    """One thing that a key was shown and may not see; `ref` names what it belongs to, never its text."""

    door: str
    what: str
    ref: str


class LookedOut(WireOut):
    """What one temporary key asked and saw."""

    scopes: list[str]
    others: int
    questions: int
    rows: int
    leaks: list[LeakOut]


class LeakcheckOut(WireOut):
    """The whole check: it passes with no leaks. `leftOut`: keys that `--limit` had no room for."""

    leaks: int
    keys: list[LookedOut]
    left_out: int

    @classmethod
    def of(cls, found: Found) -> LeakcheckOut:
        """What a check found."""
        keys = [
            LookedOut(
                scopes=list(looked.reader.patterns),
                others=looked.others,
                questions=looked.questions,
                rows=looked.rows,
                leaks=[LeakOut(door=leak.door, what=leak.what, ref=leak.ref) for leak in looked.leaks],
            )
            for looked in found.looked
        ]
        return cls(leaks=len(found.leaks), keys=keys, left_out=found.left_out)


@app.command(cls=Reaching, epilog="Example: keeps leakcheck --questions 5")
def leakcheck(
    ctx: typer.Context,
    questions: Annotated[int, typer.Option(min=1, max=1000, metavar="N", help="Rows to ask for, of each other.")] = 3,
    limit: Annotated[int, typer.Option(min=1, max=10_000, metavar="N", help="Keys to try at most.")] = 20,
) -> None:
    """Ask with every scope's key for what belongs to the others. Ends with 1 when anything comes back."""
    reach = Reach.of(ctx)
    found = reach.ask(lambda memory: _check(memory, Effort(questions=questions, limit=limit)))
    reach.show(LeakcheckOut.of(found), lambda out: _tell(out, found))
    if found.leaks:
        raise typer.Exit(FAILED)


async def _check(memory: Client, effort: Effort) -> Found:
    def connect(key: str) -> Client:
        return Client(memory.endpoint, key=key, context=memory.context_id)

    screen = errors()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task("Asking", total=None)
        return await look_for_leaks(
            memory,
            effort,
            connect=connect,
            advance=lambda done, total: bar.update(task, completed=done, total=total),
        )


def _tell(out: Console, found: Found) -> None:
    table = Table(box=None, pad_edge=False)
    for title, side in (("key for", "left"), ("others", "right"), ("asked", "right"), ("seen", "right")):
        table.add_column(title, justify=side)  # pyright: ignore[reportArgumentType]
    table.add_column("leaks", justify="right")
    for looked in found.looked:
        numbers = (looked.others, looked.questions, looked.rows, len(looked.leaks))
        table.add_row(said(str(looked.reader)), *map(str, numbers), style="bold red" if looked.leaks else "")
    out.print(table)
    if found.left_out:
        out.print(f"{counted(found.left_out, 'key')} not tried: raise --limit.")
    for leak in found.leaks[:_SHOWN]:
        out.print(said(f"LEAK: the key for {leak.reader} was shown {leak.what} {leak.ref} by {leak.door}", "bold red"))
    if len(found.leaks) > _SHOWN:
        out.print(f"… and {len(found.leaks) - _SHOWN} more: see --json.")
    out.print("No leak." if not found.leaks else f"{counted(len(found.leaks), 'leak')}: do not give out keys.")
