"""`keeps show`, `keeps history`, `keeps entities`: look at what is remembered."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Final

import typer
from rich.console import Console

from keeps.cli.reach import Reach, Reaching, counted, moment, said, someone
from keeps.client import Client, walk
from keeps.core.errors import KeepsError
from keeps.core.facts import Origin
from keeps.core.fence import LABELS
from keeps.wire.entities import EntityDetail, EntityListOut, HistoryOut
from keeps.wire.inspect import InspectOut
from keeps.wire.pages import PageMeta
from keeps.wire.rows import AttributeDetail, RowOut

app = typer.Typer()

LINE_CHARS: Final = 80
"""How much of a memory stands on one line of a list."""

AsOf = Annotated[str | None, typer.Option(metavar="TIME", callback=moment, help="As it was known then.")]


@app.command(cls=Reaching, epilog="Example: keeps show attribute:person/mara/role")
def show(
    ctx: typer.Context,
    ref: Annotated[str, typer.Argument(help="entity:person/mara, attribute:person/mara/role, turn:<id> …")],
    as_of: AsOf = None,
    at_instant: Annotated[
        str | None, typer.Option(metavar="TIME", callback=moment, help="As the record held it then.")
    ] = None,
) -> None:
    """Show one thing by its reference, with what it rests on."""
    reach = Reach.of(ctx)
    times = {name: value for name, value in (("as_of", as_of), ("at_instant", at_instant)) if value is not None}
    found = reach.ask(lambda memory: memory.inspect(ref, **times))  # pyright: ignore[reportArgumentType]
    reach.show(found, lambda console: tell(console, found))


@app.command(cls=Reaching, epilog="Example: keeps history person/mara role")
def history(
    ctx: typer.Context,
    entity: Annotated[
        str, typer.Argument(callback=someone, help="type/name, for example person/mara; a bare name is a person.")
    ],
    key: Annotated[str | None, typer.Argument(help="One key; all of them unless given.")] = None,
) -> None:
    """Show every value an entity had, newest first."""
    reach = Reach.of(ctx)

    async def work(memory: Client) -> HistoryOut:
        if key is not None:
            return await memory.history(entity, key)
        rows = [row async for page in walk(memory.history, entity) for row in page.history]
        return HistoryOut(history=rows, page=PageMeta(has_more=False))

    found = reach.ask(work)
    reach.show(found, lambda console: tell_facts(console, found.history))


@app.command(cls=Reaching, epilog="Example: keeps entities --type person")
def entities(
    ctx: typer.Context,
    type_: Annotated[str | None, typer.Option("--type", help="person, organisation, project, location …")] = None,
) -> None:
    """List what is known by name."""
    reach = Reach.of(ctx)

    async def work(memory: Client) -> EntityListOut:
        rows = [row async for page in walk(memory.entities, type=type_) for row in page.entities]
        return EntityListOut(entities=rows, page=PageMeta(has_more=False))

    found = reach.ask(work)
    reach.show(found, lambda console: _tell_entities(console, found.entities))


def tell_facts(console: Console, facts: Iterable[AttributeDetail]) -> None:
    """Print facts for people: value, since when until when, who stands behind it, what it rests on."""
    for fact in facts:
        about = fact.entity.removeprefix("entity:")
        ended = f" until {_day(fact.valid_until)}" if fact.valid_until else ""
        console.print(said(f"{about} {fact.key} = {fact.value}", "" if not ended else "dim"))
        since = f"since {_day(fact.valid_from or fact.created_at)}{ended}"
        console.print(said(f"    {since} · {_standing(fact)}", "dim"))


def _standing(row: RowOut) -> str:
    parts = [LABELS[Origin(row.origin)]] if row.origin else []
    if row.source is not None and row.source.ref:
        parts.append(f"rests on {row.source.ref}")
    return " · ".join([*parts, row.id])


def _day(at: datetime) -> str:
    return f"{at:%Y-%m-%d}" if (at.hour, at.minute, at.second) == (0, 0, 0) else f"{at:%Y-%m-%d %H:%M:%S}"


def tell(console: Console, found: InspectOut) -> None:
    """Print for people the thing a reference named."""
    if found.entity is not None:
        _tell_entities(console, [found.entity])
    if found.history is not None:
        if found.current is None:
            console.print("No value now.")
        asked = [found.attribute] if found.attribute is not None else []
        tell_facts(console, [*asked, *(row for row in found.history if row.id not in {one.id for one in asked})])
    else:
        tell_facts(console, found.attributes or [])
    one = [found.relation] if found.relation else []
    for relation in [*(found.relations or []), *(found.matches or []), *one]:
        ends = (relation.subject.removeprefix("entity:"), relation.object.removeprefix("entity:"))
        console.print(said(f"{ends[0]} {relation.label} {ends[1]}"))
        console.print(said(f"    {_standing(relation)}", "dim"))
    if found.turn is not None:
        turn = found.turn
        console.print(said(f"{turn.speaker or turn.role}: {turn.content}"))
        console.print(said(f"    {_day(turn.created_at)} · session:{turn.session} · turn {turn.seq}", "dim"))
    if found.session is not None:
        console.print(said(f"session:{found.session.id} · {counted(found.session.turn_count or 0, 'turn')}"))
    if found.action is not None:
        console.print(said(found.action.summary or found.action.verb))
        console.print(said(f"    {_standing(found.action)}", "dim"))
    if found.uncertainty is not None:
        console.print(said(f"{found.uncertainty.about}: {found.uncertainty.reason}"))


async def texts_of(memory: Client, refs: Iterable[str]) -> dict[str, str]:
    """What stands in rows, each on one line; without those that are gone, or not the caller's to read."""
    found: dict[str, str] = {}
    for ref in refs:
        try:
            row = await memory.inspect(ref)
        except KeepsError:
            continue
        if (text := _text_of(row)) is not None:
            found[ref] = " ".join(text.split())
    return found


def shortened(text: str) -> str:
    """A text on one line of a list."""
    return text if len(text) <= LINE_CHARS else text[: LINE_CHARS - 1].rstrip() + "…"


def _text_of(row: InspectOut) -> str | None:
    if row.attribute is not None:
        ended = " (no longer)" if row.attribute.valid_until or row.attribute.superseded_by else ""
        return f"{row.attribute.entity.removeprefix('entity:')} {row.attribute.key} = {row.attribute.value}{ended}"
    if row.turn is not None:
        return f"{row.turn.speaker or row.turn.role}: {row.turn.content}"
    other = row.relation or row.action
    return row.text if other is None else other.summary


def _tell_entities(console: Console, rows: Iterable[EntityDetail]) -> None:
    for row in rows:
        console.print(said(row.name), said(row.id.removeprefix("entity:"), "dim"))
