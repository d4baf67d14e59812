"""`keeps remember`: save a note, a fact, or something that was said."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import typer
from rich.console import Console

from keeps.cli.look import shortened
from keeps.cli.reach import Reach, Reaching, moment, said
from keeps.cli.spoken import spoken
from keeps.client import Client
from keeps.core.cardinality import is_many_valued
from keeps.core.entities import EntityType, normalise_type, parse_ref
from keeps.core.errors import KeepsError
from keeps.core.facts import Status
from keeps.core.summaries import NOTE_PREFIX
from keeps.wire.facts import WAITING, FactsOut

app = typer.Typer()

_NOTE_ID_BYTES: Final = 6
_REPEAT_BYTES: Final = 16


@app.command(
    cls=Reaching, epilog='Example: keeps remember "I take my coffee black" · keeps remember --fact Mara role pilot'
)
def remember(
    ctx: typer.Context,
    text: Annotated[str | None, typer.Argument(help="What to remember; - reads it from stdin.")] = None,
    fact: Annotated[
        tuple[str, str, str] | None,
        typer.Option(metavar="WHO KEY VALUE", help='A fact instead: --fact Mara role pilot. WHO may be "type/name".'),
    ] = None,
    as_turn: Annotated[bool, typer.Option("--as-turn", help="Keep it as something said, not as a note.")] = False,
    kind: Annotated[
        str | None, typer.Option(metavar="KIND", help="preference, note, topic, insight, fact, goal or event.")
    ] = None,
    scope: Annotated[list[str] | None, typer.Option(metavar="SCOPE", help="Whose it is; may be given again.")] = None,
    label: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="May be given again.")] = None,
    observed_at: Annotated[
        str | None, typer.Option(metavar="TIME", callback=moment, help="When it was known, if not now.")
    ] = None,
) -> None:
    """Save a note, a fact (--fact), or something that was said (--as-turn).

    What you save is kept at once; with an agent's key it waits in `keeps inbox` under the policy deliberate.
    """
    if (text is None) == (fact is None):
        raise typer.BadParameter("give a text, or --fact WHO KEY VALUE")
    if fact is not None and as_turn:
        raise typer.BadParameter("a fact is not said: leave out --as-turn")
    reach = Reach.of(ctx)
    said_text = sys.stdin.read() if text == "-" else text
    about: Mapping[str, object] = {
        "scopes": scope or None,
        "labels": label or None,
        "observed_at": observed_at,
        "kind": kind or (None if fact or as_turn else "note"),
    }
    given = {name: value for name, value in about.items() if value is not None}
    # Whoever owns the folder may end while this is under way: then it is asked again, of the next one.
    given["idempotency_key"] = secrets.token_hex(_REPEAT_BYTES)

    beside: dict[str, list[str]] = {}

    async def work(memory: Client) -> FactsOut:
        if fact is not None:
            done = await memory.remember(triples=[fact_of(*fact)], **given)  # pyright: ignore[reportArgumentType]
            beside.update(await _beside(memory, done))
            return done
        assert said_text is not None
        if as_turn:
            return await memory.remember(said_text, infer="none", **given)  # pyright: ignore[reportArgumentType]
        triple = await note_of(memory, said_text)
        return await memory.remember(triples=[triple], **given)  # pyright: ignore[reportArgumentType]

    done = reach.ask(work, creates=True)
    reach.show(done, lambda console: _tell(console, done, beside))


async def note_of(memory: Client, text: str) -> dict[str, object]:
    """A note as a fact of whoever the key belongs to, under a key of its own."""
    me = await memory.whoami()
    entity = {"type": "person" if me.kind == "human" else "agent", "name": me.display_name}
    return {"entity": entity, "key": f"{NOTE_PREFIX}{secrets.token_hex(_NOTE_ID_BYTES)}", "value": text}


def fact_of(who: str, key: str, value: str) -> dict[str, object]:
    """A fact as given on a command line; who it is about is a person unless a type stands before the name."""
    type_, slash, _ = who.partition("/")
    if slash and (normalise_type(type_) != EntityType.OTHER or type_.casefold() == EntityType.OTHER):
        ref = parse_ref(who)
        return {"entity": {"type": ref.type.value, "name": who.partition("/")[2]}, "key": key, "value": value}
    return {"entity": {"type": EntityType.PERSON.value, "name": who}, "key": key, "value": value}


async def _beside(memory: Client, done: FactsOut) -> dict[str, list[str]]:
    """The other values in force of keys that hold several, by the id of the fact that was saved."""
    found: dict[str, list[str]] = {}
    for fact in done.extraction.attributes if done.extraction is not None else ():
        if not is_many_valued(fact.key):
            continue
        try:
            held = await memory.inspect(f"attribute:{fact.entity_id.removeprefix('entity:')}/{fact.key}")
        except KeepsError:
            continue  # Who may only write is not told what is there.
        found[fact.id] = [
            row.value
            for row in held.history or ()
            if row.id != fact.id and row.superseded_by is None and row.valid_until is None
        ]
    return found


def _tell(console: Console, done: FactsOut, beside: Mapping[str, Sequence[str]]) -> None:
    for left in done.dropped or ():
        console.print(said(f"Not kept what was said: {spoken(left.reason)}", "yellow"))
    for name in done.removed or ():
        console.print(said(f"Left out: a secret ({name})", "yellow"))
    found = done.extraction
    if found is None:
        if done.turn_id is not None:
            console.print(f"Kept as said: turn:{done.turn_id}")
        return
    corrected = {(change.entity_id, change.key): change.old_value for change in found.corrections}
    for fact in found.attributes:
        about = fact.entity_id.removeprefix("entity:")
        line = said(f"Saved: {about} {fact.key} = {fact.value}")
        if (fact.entity_id, fact.key) in corrected:
            line += said(f" (was: {corrected[fact.entity_id, fact.key]})", "dim")
        if others := beside.get(fact.id):
            line += said(f" (beside: {shortened(', '.join(others))})", "dim")
        console.print(line)
        console.print(said(f"  attribute:{about}/{fact.key}", "dim"))
    proposals = found.proposals or ()
    waiting = [proposal.text for proposal in proposals]
    for proposal in proposals:
        held = proposal.status == Status.QUARANTINED.value
        how = "Held back until the person has looked at it" if held else "Waits for a yes"
        console.print(said(f"{how}: {proposal.text} (keeps inbox)", "yellow"))
    for left in found.dropped or ():
        console.print(said(f"Not kept: {spoken(left.reason)}", "yellow"))
    doubts: Sequence[tuple[str, str]] = [(doubt.about, doubt.reason) for doubt in found.uncertainties]
    for about, reason in doubts:
        if about not in waiting or reason != WAITING:
            console.print(said(f"Not settled: {about} ({reason})", "yellow"))
