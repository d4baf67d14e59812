"""`keeps pause`, `resume`, `consent`: a person's own controls. `keeps audit`: who did what."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence, Set
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Final

import typer
from rich.console import Console

from keeps.cli.codes import FAILED
from keeps.cli.reach import Reach, Reaching, confirm, counted, note, said
from keeps.client import Client
from keeps.wire.audit import AuditOut
from keeps.wire.base import WireOut
from keeps.wire.controls import AppOut, PauseOut, PausesOut, RulesOut

app = typer.Typer()

_SPAN: Final = re.compile(r"([1-9]\d{0,3})(m|h|d)")
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days"}


class ControlsOut(WireOut):
    """All of a person's own controls."""

    pauses: list[PauseOut]
    rules: RulesOut
    apps: list[AppOut]


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
    if sys.stdin.isatty() and not (saving or using or for_ or agent):
        confirm("Pause saving and use, for all agents, until `keeps resume`?", yes=False)
    end = _until(for_, datetime.now().astimezone())
    wanted: dict[str, object] = {
        "saving": saving or both,
        "using": using or both,
        "until": None if end is None else end.isoformat(),
    }

    async def work(memory: Client) -> PausesOut:
        if agent:
            known = (await memory.controls.apps()).apps
            wanted["agents"] = [_agent(known, name) for name in agent]
        held = await memory.controls.pauses()
        kept = [one.model_dump(mode="json", exclude_none=True, by_alias=True) for one in held.pauses]
        return await memory.controls.set_pauses([*kept, wanted], rev=held.rev)

    done = reach.ask(work)
    reach.show(done, lambda out: _tell_pauses(out, done.pauses))


@app.command(cls=Reaching, epilog="Example: keeps resume · keeps resume --agent agent")
def resume(
    ctx: typer.Context,
    agent: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Only those of this agent; may be given again.")
    ] = None,
) -> None:
    """Lift every pause, or with --agent those that name this agent; a pause of all agents stays then."""
    reach = Reach.of(ctx)

    async def work(memory: Client) -> PausesOut:
        held = await memory.controls.pauses()
        left: list[PauseOut] = []
        if agent:
            known = (await memory.controls.apps()).apps
            left = _without(held.pauses, {_agent(known, name) for name in agent})
        if left == held.pauses:
            return held
        kept = [one.model_dump(mode="json", exclude_none=True, by_alias=True) for one in left]
        return await memory.controls.set_pauses(kept, rev=held.rev)

    done = reach.ask(work)
    reach.show(done, lambda out: _tell_pauses(out, done.pauses))


def _without(pauses: Sequence[PauseOut], agents: Set[str]) -> list[PauseOut]:
    """The pauses that are left when none names these agents."""
    left: list[PauseOut] = []
    for one in pauses:
        named = None if one.agents is None else [who for who in one.agents if who not in agents]
        if named is None or named:
            left.append(one.model_copy(update={"agents": named}))
    return left


def _agent(known: Sequence[AppOut], name: str) -> str:
    """The id of an agent by its id or name. Raises: a usage error that names those there are."""
    found = [one.agent for one in known if name.removeprefix("principal:") == one.agent]
    found = found or [one.agent for one in known if name.casefold() == one.name.casefold()]
    if len(found) == 1:
        return found[0]
    names = ", ".join(one.agent if one.agent == one.name else f"{one.agent} ({one.name})" for one in known)
    raise typer.BadParameter(f"no agent is called {name}. Those that reach your memory: {names or 'none'}")


def _tell_pauses(out: Console, pauses: list[PauseOut]) -> None:
    if not pauses:
        out.print("Nothing is paused.")
    for one in pauses:
        what = "Saving and use" if one.saving and one.using else "Saving" if one.saving else "Use"
        whom = f" of {', '.join(one.agents)}" if one.agents is not None else ""
        until = f"until {one.until.astimezone():%Y-%m-%d %H:%M}" if one.until else "until you run `keeps resume`"
        out.print(said(f"{what}{whom} paused {until}."))


class Switch(StrEnum):
    """What an agent may do."""

    ON = "on"
    OFF = "off"


@app.command(cls=Reaching, epilog="Example: keeps controls · keeps controls agent --suggest off")
def controls(
    ctx: typer.Context,
    agent: Annotated[str | None, typer.Argument(help="The agent whose rights change.")] = None,
    use: Annotated[Switch | None, typer.Option(metavar="on|off", help="Whether it is given your memory.")] = None,
    suggest: Annotated[Switch | None, typer.Option(metavar="on|off", help="Whether it may propose memories.")] = None,
    kind: Annotated[
        list[str] | None, typer.Option(metavar="KIND", help="Only of this kind, or all; may be given again.")
    ] = None,
) -> None:
    """Show your pauses, what may be kept about you and what each agent may do; change that of one."""
    reach = Reach.of(ctx)
    changes = use is not None or suggest is not None or bool(kind)
    if changes != (agent is not None):
        raise typer.BadParameter("name an agent, and what it may do: --use, --suggest or --kind")

    async def work(memory: Client) -> ControlsOut:
        held = await memory.controls.apps()
        if agent is not None:
            who = _agent(held.apps, agent)
            apps = {one.agent: _app(one, use, suggest, kind) if one.agent == who else _app(one) for one in held.apps}
            held = await memory.controls.set_apps(apps, rev=held.rev)
        pauses, rules = await memory.controls.pauses(), await memory.controls.rules()
        return ControlsOut(pauses=pauses.pauses, rules=rules, apps=held.apps)

    found = reach.ask(work)

    def tell(out: Console) -> None:
        _tell_pauses(out, found.pauses)
        _tell_rules(out, found.rules)
        for one in found.apps:
            may = [word for word, holds in (("uses memory", one.use), ("may propose", one.suggest)) if holds]
            kinds = f", only {', '.join(one.kinds)}" if one.kinds is not None else ""
            out.print(said(f"{one.name}: {', '.join(may) or 'neither uses memory nor may propose'}{kinds}"))
            out.print(said(f"    {one.agent}", "dim"))

    reach.show(found, tell)


def _app(
    held: AppOut, use: Switch | None = None, suggest: Switch | None = None, kinds: Sequence[str] | None = None
) -> dict[str, object]:
    """What an agent may do from now on; what is not given stays."""
    only = held.kinds if not kinds else None if "all" in kinds else list(kinds)
    may: dict[str, object] = {
        "use": held.use if use is None else use is Switch.ON,
        "suggest": held.suggest if suggest is None else suggest is Switch.ON,
    }
    return may if only is None else may | {"kinds": only}


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
        if unknown := [one for one in unblock or () if one not in held.blocked]:
            there = ", ".join(f"“{one}”" for one in held.blocked) or "nothing"
            raise typer.BadParameter(f"“{unknown[0]}” is not blocked: blocked is {there}")
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
    reach.show(done, lambda out: _tell_rules(out, done))


def _tell_rules(out: Console, rules: RulesOut) -> None:
    out.print(said(f"agreed to: {', '.join(rules.consents) or 'nothing sensitive'}"))
    out.print(said(f"past conversations: {'agents find them' if rules.history else 'for you alone'}"))
    for one in rules.blocked:
        out.print(said(f"never: {one}"))
    for one in rules.never_kinds:
        out.print(said(f"never of kind: {one}"))


_LATEST: Final = 500
"""Entries whose acts are named when none is of the act that was asked for."""


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
    if action is not None and not found.entries and not reach.json:
        latest = reach.ask(lambda memory: memory.audit.list(limit=_LATEST))
        note(f"Acts in the latest entries: {', '.join(sorted({row.action for row in latest.entries})) or 'none'}")


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
    if found.entries:
        out.print(said("number · what was done · to what · by whom · when", "dim"))
    for row in found.entries:
        out.print(said(f"{row.seq} {row.action} {row.target}"), said(f"{row.actor} · {row.at:%Y-%m-%d %H:%M}", "dim"))
    if not found.entries:
        out.print("No entries.")
