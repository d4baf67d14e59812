"""`keeps memory`: what is remembered, listed, changed, pinned, muted, deleted and brought back, one by one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Annotated, Final

import typer
from rich.console import Console

from keeps.cli.codes import NOT_FOUND
from keeps.cli.reach import Reach, Reaching, confirm, counted, moment, note, said
from keeps.client import Client
from keeps.core.facts import Origin, Status
from keeps.core.fence import LABELS
from keeps.wire.memories import MemoriesOut, MemoryOut

app = typer.Typer(no_args_is_help=True, help="Memories one by one: list, edit, pin, mute, delete, undo.")

_LISTED: Final = 50
_MOST: Final = 200
_USED: Final = Status.CONFIRMED.value

Id = Annotated[str, typer.Argument(metavar="ID", help="As `keeps memory list` and `keeps recall` name it.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@app.command("list", cls=Reaching, epilog="Example: keeps memory list --kind preference")
def list_memories(
    ctx: typer.Context,
    words: Annotated[str | None, typer.Argument(help="Only those that hold these words.")] = None,
    status: Annotated[Status, typer.Option(help="Those in this state.")] = Status.CONFIRMED,
    kind: Annotated[str | None, typer.Option(help="Of this kind only.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=_MOST, help="At most so many.")] = _LISTED,
) -> None:
    """List what is remembered, the latest first."""
    reach = Reach.of(ctx)
    found = reach.ask(lambda memory: memory.memories.list(status=status.value, kind=kind, q=words, limit=limit))
    reach.show(found, lambda out: _tell_all(out, found))


@app.command(cls=Reaching, epilog="Example: keeps memory show 3v9c0k2m7x1q8d4f6h5j")
def show(ctx: typer.Context, id_: Id) -> None:
    """Show one memory and every version of it, the newest first."""
    reach = Reach.of(ctx)
    found = reach.ask(lambda memory: memory.memories.history(id_))

    def tell(out: Console) -> None:
        for version in found.versions:
            tell_memory(out, version)

    reach.show(found, tell)
    if not found.versions:
        raise typer.Exit(NOT_FOUND)


@app.command(cls=Reaching, epilog='Example: keeps memory edit 3v9c0k2m7x1q8d4f6h5j "Prefers short answers"')
def edit(
    ctx: typer.Context,
    id_: Id,
    text: Annotated[list[str], typer.Argument(help="What it says from now on.")],
) -> None:
    """Let a memory say something else; what it said before stays in its history."""
    _change(ctx, id_, "Changed", lambda memory, rev: memory.memories.edit(id_, rev=rev, text=" ".join(text)))


@app.command(cls=Reaching, epilog="Example: keeps memory pin 3v9c0k2m7x1q8d4f6h5j")
def pin(ctx: typer.Context, id_: Id) -> None:
    """Put a memory into every prompt first."""
    _change(ctx, id_, "Pinned", lambda memory, rev: memory.memories.edit(id_, rev=rev, pinned=True))


@app.command(cls=Reaching, epilog="Example: keeps memory unpin 3v9c0k2m7x1q8d4f6h5j")
def unpin(ctx: typer.Context, id_: Id) -> None:
    """Put it into prompts only when it answers."""
    _change(ctx, id_, "No longer pinned", lambda memory, rev: memory.memories.edit(id_, rev=rev, pinned=False))


@app.command(cls=Reaching, epilog="Example: keeps memory mute 3v9c0k2m7x1q8d4f6h5j")
def mute(ctx: typer.Context, id_: Id) -> None:
    """Keep a memory, and keep it out of prompts."""
    _change(ctx, id_, "Muted", lambda memory, rev: memory.memories.edit(id_, rev=rev, muted=True))


@app.command(cls=Reaching, epilog="Example: keeps memory unmute 3v9c0k2m7x1q8d4f6h5j")
def unmute(ctx: typer.Context, id_: Id) -> None:
    """Let it into prompts again."""
    _change(ctx, id_, "No longer muted", lambda memory, rev: memory.memories.edit(id_, rev=rev, muted=False))


@app.command(cls=Reaching, epilog="Example: keeps memory renew 3v9c0k2m7x1q8d4f6h5j --until 2027-03-01T00:00:00Z")
def renew(
    ctx: typer.Context,
    id_: Id,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", callback=moment, help="Until when; as its kind lasts unless given.")
    ] = None,
) -> None:
    """Use again what had expired."""
    _change(ctx, id_, "In use again", lambda memory, rev: memory.memories.renew(id_, expires_at=until, rev=rev))


@app.command(cls=Reaching, epilog="Example: keeps memory delete 3v9c0k2m7x1q8d4f6h5j")
def delete(ctx: typer.Context, id_: Id, yes: Yes = False) -> None:
    """Delete a memory with its history. `keeps memory undo` brings it back for some seconds, then it is gone."""
    reach = Reach.of(ctx)
    found = reach.ask(lambda memory: memory.memories.get(id_))
    confirm(f"Delete “{_text(found)}”?", yes=yes)
    done = reach.ask(lambda memory: memory.memories.delete(id_, rev=found.rev))
    reach.show(done, lambda out: out.print(said(f"Deleted: {_text(found)}")))
    if done.undo_until is not None and not reach.json:
        left = max(0, round((done.undo_until - datetime.now(UTC)).total_seconds()))
        note(f"For {counted(left, 'second')} `keeps memory undo {done.id}` brings it back.")


@app.command(cls=Reaching, epilog="Example: keeps memory undo 3v9c0k2m7x1q8d4f6h5j")
def undo(ctx: typer.Context, id_: Id) -> None:
    """Bring back what was deleted a moment ago."""
    reach = Reach.of(ctx)
    done = reach.ask(lambda memory: memory.memories.undo(id_))
    reach.show(done, lambda out: _tell_done(out, "Back", done))


def _change(ctx: typer.Context, id_: str, done_as: str, change: Callable[[Client, int], Awaitable[MemoryOut]]) -> None:
    """Do one thing to a memory as it stands now."""
    reach = Reach.of(ctx)

    async def work(memory: Client) -> MemoryOut:
        return await change(memory, (await memory.memories.get(id_)).rev)

    done = reach.ask(work)
    reach.show(done, lambda out: _tell_done(out, done_as, done))


def _tell_done(out: Console, done_as: str, done: MemoryOut) -> None:
    out.print(said(f"{done_as}: {_text(done)}"))
    out.print(said(f"    {done.id}", "dim"))


def _tell_all(out: Console, found: MemoriesOut) -> None:
    if not found.memories:
        out.print("Nothing.")
    for memory in found.memories:
        tell_memory(out, memory)
    if found.page.has_more:
        out.print(said("There is more: --limit, or name words, a --kind or a --status.", "dim"))


def tell_memory(out: Console, memory: MemoryOut) -> None:
    """Print a memory for people: what it says, who stands behind it, and how it stands."""
    out.print(said(_text(memory)))
    out.print(said("    " + " · ".join(_about(memory)), "dim"))


def _about(memory: MemoryOut) -> list[str]:
    parts = [memory.kind]
    if memory.origin is not None:
        parts.append(LABELS[Origin(memory.origin)])
    if memory.created_at is not None:
        parts.append(f"{memory.created_at:%Y-%m-%d %H:%M}")
    if memory.status != _USED:
        parts.append(memory.status)
    parts += [word for word, holds in (("pinned", memory.pinned), ("muted", memory.muted)) if holds]
    if memory.expires_at is not None:
        parts.append(f"until {memory.expires_at:%Y-%m-%d}")
    return [*parts, memory.id]


def _text(memory: MemoryOut) -> str:
    return memory.sentence or memory.text or "its text is gone"
