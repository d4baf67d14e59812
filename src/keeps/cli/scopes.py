"""`keeps scopes`: the tree that says whose memories are whose."""

from __future__ import annotations

from typing import Annotated

import typer

from keeps.cli.reach import Reach, Reaching, confirm, console, counted, said, show_json
from keeps.client import Client, walk
from keeps.wire.pages import PageMeta
from keeps.wire.scopes import ScopeListOut

app = typer.Typer(no_args_is_help=True, help="The tree that says whose memories are whose.")

Path = Annotated[str, typer.Argument(help="For example org/north/team.")]


@app.command("list", cls=Reaching, epilog="Example: keeps scopes list")
def list_scopes(ctx: typer.Context) -> None:
    """List the scopes you may see."""
    reach = Reach.of(ctx)

    async def work(memory: Client) -> ScopeListOut:
        rows = [row async for page in walk(memory.scopes.list) for row in page.scopes]
        return ScopeListOut(scopes=rows, page=PageMeta(has_more=False))

    found = reach.ask(work)

    def tell() -> None:
        for node in found.scopes:
            console().print(said(node.path), said("removed" if node.tombstoned_at else "", "dim"))

    reach.show(found, lambda _: tell())


@app.command(cls=Reaching, epilog="Example: keeps scopes register org/north/team")
def register(
    ctx: typer.Context,
    path: Path,
    display_name: Annotated[str | None, typer.Option(help="A name for people.")] = None,
    description: Annotated[str | None, typer.Option(help="What belongs here.")] = None,
) -> None:
    """Register a scope and its missing ancestors."""
    reach = Reach.of(ctx)
    node = reach.ask(
        lambda memory: memory.scopes.register(path, display_name=display_name, description=description), creates=True
    )
    reach.show(node, lambda out: out.print(said(f"Registered {node.path}")))


@app.command(cls=Reaching, epilog="Example: keeps scopes delete org/north/team")
def delete(ctx: typer.Context, path: Path) -> None:
    """Remove the name of a scope; its memories stay."""
    reach = Reach.of(ctx)
    reach.ask(lambda memory: memory.scopes.delete(path))
    if reach.json:
        show_json({"path": path, "deleted": True})
    else:
        console().print(said(f"Removed the name {path}; its memories stay."))


@app.command(cls=Reaching, epilog="Example: keeps scopes forget org/north/team")
def forget(
    ctx: typer.Context,
    path: Path,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Erase everything that belongs to a scope and those below it."""
    reach = Reach.of(ctx)
    confirm(f"Erase everything in {path} and below, for good?", yes=yes)
    done = reach.ask(lambda memory: memory.scopes.forget(path))
    memories = "" if done.memories is None else f" ({counted(done.memories, 'memory', 'memories')})"
    reach.show(done, lambda out: out.print(f"Erased {counted(done.forgotten, 'row')}{memories}."))
