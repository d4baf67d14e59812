"""The command `keeps`: each of its commands is loaded when it is asked for, so that starting costs little."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Sequence
from difflib import get_close_matches
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer import completion
from typer.core import TyperGroup

from keeps.cli.codes import exit_code_of, say_error
from keeps.core.errors import KeepsError

COMMANDS: Final = {
    "try": "keeps.cli.tryout",
    "serve": "keeps.cli.serve",
    "bootstrap": "keeps.cli.serve",
    "mcp": "keeps.cli.mcp",
    "remember": "keeps.cli.remember",
    "recall": "keeps.cli.recall",
    "context": "keeps.cli.recall",
    "show": "keeps.cli.look",
    "history": "keeps.cli.look",
    "why": "keeps.cli.why",
    "traces": "keeps.cli.why",
    "entities": "keeps.cli.look",
    "inbox": "keeps.cli.inbox",
    "promote": "keeps.cli.promote",
    "forget": "keeps.cli.forget",
    "pause": "keeps.cli.controls",
    "resume": "keeps.cli.controls",
    "consent": "keeps.cli.controls",
    "controls": "keeps.cli.controls",
    "audit": "keeps.cli.controls",
    "mode": "keeps.cli.mode",
    "export": "keeps.cli.export",
    "backup": "keeps.cli.archive",
    "restore": "keeps.cli.archive",
    "doctor": "keeps.cli.archive",
    "leakcheck": "keeps.cli.leakcheck",
}
"""Commands by name, each in the module that has it."""

GROUPS: Final = {
    "import": "keeps.cli.conversations",
    "memory": "keeps.cli.memory",
    "runs": "keeps.cli.runs",
    "scopes": "keeps.cli.scopes",
    "keys": "keeps.cli.keys",
    "settings": "keeps.cli.settings",
}
"""Groups of commands by name, each a module of its own."""

_EPILOG: Final = (
    "Exit codes: 0 done · 1 the service said no · 2 wrong usage, or a folder that must not be opened · "
    "3 not found · 4 not available now, try again."
)


_COMPLETIONS: Final = ("--install-completion", "--show-completion")
_SHELLS: Final = ("bash", "zsh", "fish")


_NO_CHOICE: Final = re.compile(r"'([^']*)' is not one of (.*)\.")


def _with_the_nearest(message: str) -> str:
    """What is wrong with a parameter, with the choice that comes nearest to what was given."""
    message = message.removeprefix("Value error, ")
    if (wrong := _NO_CHOICE.fullmatch(message)) is None:
        return message
    near = get_close_matches(wrong[1], re.findall(r"'([^']*)'", wrong[2]), n=1)
    return message + (f" Did you mean {near[0]!r}?" if near else "")


class _Commands(TyperGroup):
    """Loads a command's module when the command is named, and turns errors into a line and an exit code."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*COMMANDS, *GROUPS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        module = COMMANDS.get(cmd_name) or GROUPS.get(cmd_name)
        if module is None:
            return None
        group = typer.main.get_group(importlib.import_module(module).app)
        group.name = cmd_name
        return group if cmd_name in GROUPS else group.commands[cmd_name]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[-1] in _COMPLETIONS:  # without the name of a shell: for the one that is in use
            args = [*args, Path(os.environ.get("SHELL", "")).name]
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0]
        if name not in self.list_commands(ctx) and not name.startswith("-"):
            close = get_close_matches(name, self.list_commands(ctx), n=1)
            ctx.fail(f"There is no command {name!r}." + (f" Did you mean {close[0]!r}?" if close else ""))
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = _with_the_nearest(error.message)
            raise
        except KeepsError as error:
            say_error(error)
            raise typer.Exit(exit_code_of(error)) from None


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,  # ours take the name of a shell
    pretty_exceptions_enable=False,
    help="Agent memory that people can see, correct and erase.",
    epilog=_EPILOG,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"keeps {version('keeps')}")
        raise typer.Exit


def _shell(name: str | None) -> str | None:
    if name is not None and name not in _SHELLS:
        raise typer.BadParameter(f"name the shell: {', '.join(_SHELLS)}")
    return name


def _install(ctx: typer.Context, param: typer.CallbackParam, shell: str | None) -> None:
    completion.install_callback(ctx, param, _shell(shell))


def _show(ctx: typer.Context, param: typer.CallbackParam, shell: str | None) -> None:
    completion.show_callback(ctx, param, _shell(shell))


@app.callback()
def keeps(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and end.")
    ] = False,
    _install_completion: Annotated[
        str | None,
        typer.Option(
            "--install-completion",
            metavar="SHELL",
            callback=_install,
            is_eager=True,
            help="Let bash, zsh or fish complete commands and options; the shell in use unless named.",
        ),
    ] = None,
    _show_completion: Annotated[
        str | None,
        typer.Option(
            "--show-completion",
            metavar="SHELL",
            callback=_show,
            is_eager=True,
            help="Print what that would install, and change nothing.",
        ),
    ] = None,
) -> None:
    """Agent memory that people can see, correct and erase."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command of this process's command line, and end with its exit code."""
    completion.get_completion_inspect_parameters()  # makes known how each shell asks
    app(arguments, prog_name="keeps")
