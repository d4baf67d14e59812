"""`keeps pause`, `resume`, `consent`: a person's own controls. `keeps audit`: who did what."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Final

import typer
from rich.console import Console

from keeps.cli.codes import FAILED
from keeps.cli.reach import Reach, Reaching, counted, said
from keeps.client import Client
from keeps.wire.audit import AuditOut
from keeps.wire.controls import PauseOut, PausesOut, RulesOut

app = typer.Typer()

_SPAN: Final = re.compile(r"([1-9]\d{0,3})(m|h|d)")
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days"}


def _until(spelled: str | None, now: datetime) -> datetime | None:
    """The end of a pause: after `1h`, `30m` or `2d`, or at the end of `today` where this runs; None is for good."""
    if spelled is None:
        return None
    if spelled == "today":
        return (now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    found = _SPAN.fullmatch(spelled)
    if found is None:
        raise typer.BadParameter("a time is written 30m, 1h, 2d or today")
    return now + timedelta(**{_UNITS[found[2]]: int(found[1])})


@app.command(cls=Reaching, epilog="Example: keeps pause --saving --for 1h")
def pause(
    ctx: typer.Context,
    saving: Annotated[bool, typer.Option("--saving", help="Only saving rests.")] = False,
    using: Annotated[bool, typer.Option("--using", help="Only the use of memory rests.")] = False,
    for_: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="30m, 1h, 2d or today; until `keeps resume`.")
    ] = None,
    agent: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Only for this agent; may be given again.")
    ] = None,
) -> None:
    """Pause your memory: what is said meanwhile is dropped, not kept for later. Saving by hand still works."""
    reach = Reach.of(ctx)
    both = saving == using
    end = _until(for_, datetime.now().astimezone())
    wanted = {
        "saving": saving or both,
        "using": using or both,
        "until": None if end is None else end.isoformat(),
        "agents": agent or None,
    }

    async def work(memory: Client) -> PausesOut:
        held = await memory.controls.pauses()
        kept = [one.model_dump(mode="json", exclude_none=True, by_alias=True) for one in held.pauses]
        return await memory.controls.set_pauses([*kept, wanted], rev=held.rev)

    done = reach.ask(work)
    reach.show(done, lambda out: _tell_pauses(out, done.pauses))


@app.command(cls=Reaching, epilog="Example: keeps resume")
def resume(ctx: typer.Context) -> None:
    """Lift every pause."""
    reach = Reach.of(ctx)

    async def work(memory: Client) -> PausesOut:
        held = await memory.controls.pauses()
        return await memory.controls.set_pauses([], rev=held.rev) if held.pauses else held

    done = reach.ask(work)
    reach.show(done, lambda out: _tell_pauses(out, done.pauses))


def _tell_pauses(out: Console, pauses: list[PauseOut]) -> None:
    if not pauses:
        out.print("Nothing is paused.")
    for one in pauses:
        what = "Saving and use" if one.saving and one.using else "Saving" if one.saving else "Use"
        whom = f" of {', '.join(one.agents)}" if one.agents is not None else ""
        until = f"until {one.until.astimezone():%Y-%m-%d %H:%M}" if one.until else "until you run `keeps resume`"
        out.print(said(f"{what}{whom} paused {until}."))


@app.command(cls=Reaching, epilog="Example: keeps consent health --history on")
def consent(
    ctx: typer.Context,
    topic: Annotated[
        list[str] | None, typer.Argument(help="Sensitive topics that may be kept when you say them.")
    ] = None,
    withdraw: Annotated[bool, typer.Option("--withdraw", help="Agree to these topics no more.")] = False,
    history: Annotated[
        str | None, typer.Option(metavar="on|off", help="Whether agents find what you said in other sessions.")
    ] = None,
    block: Annotated[
        list[str] | None, typer.Option(metavar="WORDS", help="Never keep anything about this; may be given again.")
    ] = None,
    unblock: Annotated[list[str] | None, typer.Option(metavar="WORDS", help="Block this no more.")] = None,
) -> None:
    """Show or change what may be kept about you."""
    reach = Reach.of(ctx)
    if history not in (None, "on", "off"):
        raise typer.BadParameter("--history is on or off")
    topics = set(topic or ())

    async def work(memory: Client) -> RulesOut:
        held = await memory.controls.rules()
        consents = set(held.consents) - topics if withdraw else set(held.consents) | topics
        blocked = [one for one in [*held.blocked, *(block or ())] if one not in (unblock or ())]
        keeps_history = held.history if history is None else history == "on"
        unchanged = (set(held.consents), held.blocked, held.history) == (consents, blocked, keeps_history)
        if unchanged:
            return held
        return await memory.controls.set_rules(
            rev=held.rev,
            blocked=blocked,
            consents=sorted(consents),
            history=keeps_history,
            never_kinds=held.never_kinds,
        )

    done = reach.ask(work)

    def tell(out: Console) -> None:
        out.print(said(f"agreed to: {', '.join(done.consents) or 'nothing sensitive'}"))
        out.print(said(f"past conversations: {'agents find them' if done.history else 'for you alone'}"))
        for one in done.blocked:
            out.print(said(f"never: {one}"))
        for one in done.never_kinds:
            out.print(said(f"never of kind: {one}"))

    reach.show(done, tell)


class Look(StrEnum):
    """What to do with the audit."""

    LIST = "list"
    VERIFY = "verify"


@app.command(cls=Reaching, epilog="Example: keeps audit verify")
def audit(
    ctx: typer.Context,
    what: Annotated[
        Look, typer.Argument(metavar="[list|verify]", help="List the latest entries, or check all.")
    ] = Look.LIST,
    action: Annotated[str | None, typer.Option(help="Only this act, or those that begin with it and a dot.")] = None,
    target: Annotated[str | None, typer.Option(help="Only what was done to this.")] = None,
    actor: Annotated[str | None, typer.Option(help="Only what this principal did.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many at most.")] = 50,
) -> None:
    """Show who did what, or check that no entry was changed and none is missing."""
    reach = Reach.of(ctx)
    if what is Look.VERIFY:
        _verify(reach)
        return
    found = reach.ask(lambda memory: memory.audit.list(action=action, target=target, actor=actor, limit=limit))
    reach.show(found, lambda out: _tell_audit(out, found))


def _verify(reach: Reach) -> None:
    verdict = reach.ask(lambda memory: memory.audit.verify())

    def tell(out: Console) -> None:
        if verdict.ok:
            out.print(f"Whole: {counted(verdict.rows, 'entry', 'entries')}, none changed and none missing.")
        else:
            out.print(said(f"Not whole ({verdict.flaw}): entry {verdict.first_bad} is wrong or missing.", "bold"))
        if verdict.under_older_key:
            older = counted(verdict.under_older_key, "entry", "entries")
            out.print(said(f"Of {older}, sealed with a key that is lost, only the order was checked.", "dim"))

    reach.show(verdict, tell)
    if not verdict.ok:
        raise typer.Exit(FAILED)


def _tell_audit(out: Console, found: AuditOut) -> None:
    for row in found.entries:
        out.print(said(f"{row.seq} {row.action} {row.target}"), said(f"{row.actor} · {row.at:%Y-%m-%d %H:%M}", "dim"))
    if not found.entries:
        out.print("No entries.")
