"""`keeps settings`: what holds for everybody in a context, seen and changed without a restart."""

from __future__ import annotations

import json
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Annotated, Any

import typer
from rich.console import Console

from keeps.cli.reach import Reach, Reaching, confirm, counted, note, said
from keeps.client import Client, walk
from keeps.core import setting_keys
from keeps.core.settings import Kill
from keeps.wire.controls import ProceduresOut
from keeps.wire.pages import PageMeta
from keeps.wire.settings import SettingsChangedOut, SettingsHistoryOut, SettingsOut, SettingsVersion

app = typer.Typer(no_args_is_help=True, help="Settings of the context: seen and changed without a restart.")

Reason = Annotated[str | None, typer.Option(help="Why, for those who read the history.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@app.command(cls=Reaching, epilog="Example: keeps settings show budget")
def show(
    ctx: typer.Context,
    key: Annotated[str | None, typer.Argument(help="Only this one, or those below it.")] = None,
) -> None:
    """Show the settings that hold; what was set here is marked."""
    if key is not None:
        _check_key(key)
    reach = Reach.of(ctx)
    found = reach.ask(lambda memory: memory.settings.get())
    reach.show(found, lambda out: _tell(out, found, key))


@app.command("set", cls=Reaching, epilog="Example: keeps settings set retrieval_limit 5 --dry-run")
def set_(
    ctx: typer.Context,
    key: Annotated[str, typer.Argument(help="For example policy, budget.max_tokens or retention_days.topic.")],
    value: Annotated[str, typer.Argument(help="A word, a number, JSON, or null to take it back.")],
    dry_run: DryRun = False,
    reason: Reason = None,
    yes: Yes = False,
) -> None:
    """Change one setting, now. It asks first when memories would go."""
    reach = Reach.of(ctx)
    change = _change(key, _value(value))

    async def look(memory: Client) -> tuple[int, SettingsChangedOut]:
        version = (await memory.settings.get()).settings_version
        return version, await memory.settings.patch(change, version=version, dry_run=True)

    version, shown = reach.ask(look)
    if not dry_run and shown.older and any(shown.older.values()):
        confirm(f"{counted(sum(shown.older.values()), 'memory', 'memories')} would go. Do it?", yes=yes, shows=True)
    done = shown if dry_run else reach.ask(lambda memory: memory.settings.patch(change, version=version, reason=reason))
    reach.show(done, lambda out: _tell_change(out, done))


@app.command(cls=Reaching, epilog="Example: keeps settings history")
def history(ctx: typer.Context) -> None:
    """Show every version, the newest first."""
    reach = Reach.of(ctx)

    async def work(memory: Client) -> SettingsHistoryOut:
        rows = [row async for page in walk(memory.settings.history) for row in page.versions]
        return SettingsHistoryOut(versions=rows, page=PageMeta(has_more=False))

    found = reach.ask(work)

    def tell(out: Console) -> None:
        _tell_versions(out, found.versions)

    reach.show(found, tell)


@app.command(cls=Reaching, epilog="Example: keeps settings revert 3")
def revert(
    ctx: typer.Context,
    version: Annotated[int, typer.Argument(min=0, help="The version whose settings are to hold again.")],
    reason: Reason = None,
) -> None:
    """Let what held in a version hold again, as a new one."""
    reach = Reach.of(ctx)

    async def work(memory: Client) -> SettingsChangedOut:
        held = (await memory.settings.get()).settings_version
        return await memory.settings.revert(version, version=held, reason=reason)

    done = reach.ask(work)
    reach.show(done, lambda out: _tell_change(out, done))


@app.command(cls=Reaching, epilog="Example: keeps settings kill no_prompt")
def kill(
    ctx: typer.Context,
    state: Annotated[Kill, typer.Argument(metavar="[no_prompt|no_write|both|none]", help="What to stop.")],
    reason: Reason = None,
) -> None:
    """Stop memory at once: its use, saving, or both; `none` lets it go on. Seeing and deleting always work."""
    reach = Reach.of(ctx)
    done = reach.ask(lambda memory: memory.settings.kill(state.value, reason=reason))
    words = {
        Kill.NONE: "Memory goes on.",
        Kill.NO_PROMPT: "No memory goes into prompts.",
        Kill.NO_WRITE: "Agents save nothing.",
        Kill.BOTH: "No memory goes into prompts, and agents save nothing.",
    }
    reach.show(done, lambda out: out.print(words[state]))


@app.command(cls=Reaching, epilog='Example: keeps settings agent agent "Answer in British English."')
def agent(
    ctx: typer.Context,
    principal: Annotated[str, typer.Argument(help="The id of the agent's principal.")],
    text: Annotated[str | None, typer.Argument(help="How it should behave from now on; only show it.")] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Take back what it was told.")] = False,
) -> None:
    """Show or set how an agent should behave."""
    reach = Reach.of(ctx)
    if clear and text is not None:
        raise typer.BadParameter("give a text, or --clear")

    async def work(memory: Client) -> ProceduresOut:
        if clear:
            await memory.settings.untell_agent(principal)
        elif text is not None:
            await memory.settings.tell_agent(principal, text)
        return await memory.settings.agent(principal)

    found = reach.ask(work)

    def tell(out: Console) -> None:
        if found.current is None:
            out.print(said(f"{principal} was told nothing."))
        for one in found.versions:
            out.print(said(one.text), said(f"version {one.version} · {one.set_by} · {one.since:%Y-%m-%d}", "dim"))

    reach.show(found, tell)


def _check_key(key: str) -> None:
    """Nothing for a setting, and for what stands above some. Raises: a usage error for anything else."""
    if key in setting_keys.KEYS or any(path.startswith(f"{key}.") for path in setting_keys.KEYS):
        return
    near = ", ".join(get_close_matches(key, setting_keys.KEYS, n=3))
    raise typer.BadParameter(
        f"there is no setting {key}" + (f"; near it: {near}" if near else "") + ". `keeps settings show` lists them"
    )


def _change(key: str, value: object) -> dict[str, object]:
    """`a.b` as an object in an object. Raises: a usage error for what no setting is called."""
    first, *rest = key.split(".")
    change: object = value
    for part in reversed(rest):
        change = {part: change}
    if not first or not all(rest):
        raise typer.BadParameter("a setting is written as policy or budget.max_tokens")
    return {first: change}


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _tell(out: Console, found: SettingsOut, key: str | None) -> None:
    own = setting_keys.flat(found.own)
    everything = setting_keys.flat(found.settings)
    shown = {
        path: value
        for path, value in sorted(everything.items())
        if path in setting_keys.KEYS and (key is None or path == key or path.startswith(f"{key}."))
    }
    if not shown:
        note(f"keeps: nothing is said by {key}")
    for path, value in shown.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        out.print(said(f"{path} = {text}"), said("set here" if path in own else "", "dim"))
    out.print(said(f"version {found.settings_version}", "dim"))


def _tell_versions(out: Console, versions: Sequence[SettingsVersion]) -> None:
    """Print each version and what it changed of the one before it; secrets are masked in both."""
    for row, older in zip(versions, [*versions[1:], None], strict=True):
        why = f" · {row.reason}" if row.reason else ""
        out.print(said(f"{row.version}"), said(f"{row.at:%Y-%m-%d %H:%M} · {row.by}{why}", "dim"))
        before = older.settings if older is not None else {}
        for path in sorted(before.keys() | row.settings.keys()):
            if before.get(path) != row.settings.get(path):
                was, now = (json.dumps(side.get(path), ensure_ascii=False) for side in (before, row.settings))
                out.print(said(f"    {path}: {was} → {now}"))


def _tell_change(out: Console, done: SettingsChangedOut) -> None:
    for path in sorted(done.before.keys() | done.after.keys()):
        before, after = (json.dumps(side.get(path), ensure_ascii=False) for side in (done.before, done.after))
        out.print(said(f"{path}: {before} → {after}"))
    if not done.before and not done.after:
        out.print("Nothing changes.")
    for kind, count in (done.older or {}).items():
        out.print(said(f"{counted(count, 'memory', 'memories')} of kind {kind} older than that", "dim"))
    if done.unasked:
        out.print(said(f"{counted(done.unasked, 'memory', 'memories')} that nobody was asked about stay", "dim"))
    out.print(said(f"version {done.settings_version}" + ("" if done.applied else ", unchanged"), "dim"))
