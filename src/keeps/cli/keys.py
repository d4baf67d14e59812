"""`keeps keys`: further keys for your own principal."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from keeps.cli.reach import Reach, Reaching, console, note, said, show_json
from keeps.client import Client, walk
from keeps.wire.keys import KeyListOut, MintedKey
from keeps.wire.pages import PageMeta

app = typer.Typer(no_args_is_help=True, help="Keys: list, make, renew and revoke them.")

Name = Annotated[str, typer.Argument(help="The name of the key.")]
Ttl = Annotated[int | None, typer.Option("--ttl", metavar="SECONDS", min=1, help="How long it works; for ever.")]


@app.command("list", cls=Reaching, epilog="Example: keeps keys list --json")
def list_keys(ctx: typer.Context) -> None:
    """List keys, never their secrets."""
    reach = Reach.of(ctx)

    async def work(memory: Client) -> KeyListOut:
        rows = [row async for page in walk(memory.keys.list) for row in page.keys]
        return KeyListOut(keys=rows, page=PageMeta(has_more=False))

    found = reach.ask(work)

    def tell(out: Console) -> None:
        for key in found.keys:
            used = f"used {key.last_used_at:%Y-%m-%d}" if key.last_used_at else "never used"
            until = f" · until {key.valid_until:%Y-%m-%d %H:%M}" if key.valid_until else ""
            out.print(said(key.name), said(f"{key.id} · {used}{until}", "dim"))

    reach.show(found, tell)


@app.command(cls=Reaching, epilog='Example: keeps keys create reader --grant "memory:read=org/*" --ttl 86400')
def create(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Argument(help="A name for it; its id unless given.")] = None,
    grant: Annotated[
        list[str] | None,
        typer.Option(metavar="VERB=PATTERN", help='Only this, for example "memory:read=org/*"; may be given again.'),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse what it may not read, instead of hiding it.")
    ] = False,
    ttl: Ttl = None,
) -> None:
    """Make a further key. It is printed once."""
    reach = Reach.of(ctx)
    grants = _grants(grant)
    made = reach.ask(
        lambda memory: memory.keys.create(name, grants=grants, strict=strict or None, ttl_s=ttl), creates=True
    )
    _tell_once(reach, made)


@app.command(cls=Reaching, epilog="Example: keeps keys rotate reader")
def rotate(ctx: typer.Context, name: Name, ttl: Ttl = None) -> None:
    """Give a key a new secret, printed once; the old one stops working."""
    reach = Reach.of(ctx)
    _tell_once(reach, reach.ask(lambda memory: memory.keys.rotate(name, ttl_s=ttl)))


@app.command(cls=Reaching, epilog="Example: keeps keys delete reader")
def delete(ctx: typer.Context, name: Name) -> None:
    """Revoke a key."""
    reach = Reach.of(ctx)
    reach.ask(lambda memory: memory.keys.delete(name))
    if reach.json:
        show_json({"name": name, "deleted": True})
    else:
        console().print(said(f"Revoked {name}."))


def _grants(spelled: list[str] | None) -> dict[str, list[str]] | None:
    if not spelled:
        return None
    grants: dict[str, list[str]] = {}
    for grant in spelled:
        verb, equals, pattern = grant.partition("=")
        if not equals or not verb or not pattern:
            raise typer.BadParameter("a grant is written memory:read=org/*")
        grants.setdefault(verb, []).append(pattern)
    return grants


def _tell_once(reach: Reach, made: MintedKey) -> None:
    reach.show(made, lambda out: out.print(made.key))
    note("This key is shown once: keep it now.")
