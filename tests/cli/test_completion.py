"""Completion for shells: the script is printed or put in place, and what it asks for are commands and options."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from keeps.cli.app import COMMANDS, GROUPS, app
from keeps.cli.codes import USAGE
from tests.cli.test_docs import commands

SHELLS = ("bash", "zsh", "fish")


def keeps(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "keeps", *arguments],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def shown(*arguments: str, **env: str) -> Any:
    return CliRunner().invoke(app, list(arguments), env=env, prog_name="keeps")


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_printed(shell: str, tmp_path: Path) -> None:
    script = shown("--show-completion", shell).stdout
    assert f"_KEEPS_COMPLETE=complete_{shell}" in script
    assert shown("--show-completion", SHELL=f"/usr/bin/{shell}").stdout == script
    if found := shutil.which(shell):
        file = tmp_path / "script"
        file.write_text(script)
        assert subprocess.run([found, "-n", str(file)], check=False).returncode == 0


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_put_where_the_shell_looks(shell: str, tmp_path: Path) -> None:
    done = keeps("--install-completion", shell, HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    written = "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    assert f"_KEEPS_COMPLETE=complete_{shell}" in written


@pytest.mark.parametrize("arguments", [["tcsh"], ["powershell"], [""]])
def test_another_shell_is_wrong_usage(arguments: list[str]) -> None:
    assert shown("--show-completion", *arguments).exit_code == USAGE
    assert shown("--show-completion", SHELL="").exit_code == USAGE


@pytest.mark.slow
def test_bash_is_offered_every_command() -> None:
    told = keeps(_KEEPS_COMPLETE="complete_bash", COMP_WORDS="keeps ", COMP_CWORD="1").stdout
    assert set(told.split()) == {*COMMANDS, *GROUPS}
    told = keeps(_KEEPS_COMPLETE="complete_bash", COMP_WORDS="keeps keys ", COMP_CWORD="2").stdout
    assert {"list", "create", "rotate", "delete"} <= set(told.split())


@pytest.mark.slow
def test_zsh_and_fish_are_offered_options_and_never_what_is_remembered(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    assert keeps("remember", "the gannetbox", "--data", str(folder), KEEPS_EMBEDDER="none").returncode == 0
    env = {"KEEPS_DATA": str(folder), "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    for shell in ("zsh", "fish"):
        told = keeps(_KEEPS_COMPLETE=f"complete_{shell}", _TYPER_COMPLETE_ARGS="keeps recall --", **env).stdout
        assert "--mode" in told
        for line in ("keeps recall g", "keeps show "):
            told = keeps(_KEEPS_COMPLETE=f"complete_{shell}", _TYPER_COMPLETE_ARGS=line, **env).stdout
            assert "gannet" not in told
            assert "note_" not in told


def test_every_example_is_one_the_command_takes() -> None:
    every = commands()
    for name, command in every.items():
        for example in command.epilog.partition("Example: ")[2].split(" \u00b7 "):
            words = shlex.split(example.partition(" >")[0])
            if "--" in words:  # another program runs it
                words = words[words.index("--") + 1 :]
            assert words[0] == "keeps", example
            shown = " ".join(words[1:3]) if words[1] in GROUPS else words[1]
            every[shown].make_context(name, words[1 + len(shown.split()) :])
        assert f"keeps {name}" in command.epilog
