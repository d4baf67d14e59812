"""The page about the command line names every command, option and exit code there is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import typer

from keeps.cli.app import COMMANDS, GROUPS, app
from keeps.cli.codes import FAILED, NOT_FOUND, UNAVAILABLE, USAGE

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "command-line.md").read_text("utf-8")


def commands() -> dict[str, Any]:
    """Every command by its full name."""
    group: Any = typer.main.get_command(app)
    found = {name: group.get_command(None, name) for name in COMMANDS}
    for name in GROUPS:
        inner = group.get_command(None, name)
        found |= {f"{name} {sub}": command for sub, command in inner.commands.items()}
    return found


def test_every_command_is_on_the_page() -> None:
    for name in commands():
        first, *rest = name.split()
        row = re.compile(rf"^\| `keeps {first}\b" + "".join(rf"[^|]*\b{sub}\b" for sub in rest), re.MULTILINE)
        assert row.search(PAGE), name


def test_every_option_is_on_the_page_and_every_one_on_the_page_exists() -> None:
    there = {option for command in commands().values() for p in command.params for option in p.opts if "--" in option}
    there |= {"--help", "--version", "--install-completion", "--show-completion"}
    named = set(re.findall(r"--[a-z-]+[a-z]", PAGE))
    assert sorted(there - named) == []
    assert sorted(named - there) == []


def test_every_command_has_an_example() -> None:
    for name, command in commands().items():
        assert command.epilog, name
        assert f"keeps {name}" in command.epilog, name


def test_every_exit_code_is_on_the_page() -> None:
    for code in (0, FAILED, USAGE, NOT_FOUND, UNAVAILABLE):
        assert f"\n| {code} |" in PAGE
