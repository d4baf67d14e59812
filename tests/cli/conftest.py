"""A running server with a folder of its own, and commands run in this process beside it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from keeps.cli.app import app
from keeps.core.errors import Unavailable
from keeps.store.owner import read_owner

READY_S = 60.0


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Stdout, which must be one JSON value."""
        return json.loads(self.out)


@dataclass(slots=True, kw_only=True)
class Desk:
    """A data folder, and the commands beside it."""

    folder: Path
    env: dict[str, str | None] = field(default_factory=dict[str, str | None])

    def __call__(self, *arguments: str, code: int | None = 0, stdin: str | None = None) -> Ran:
        """Run `keeps` with these arguments; it must end with `code` unless that is None."""
        result = CliRunner().invoke(app, list(arguments), input=stdin, env={"KEEPS_DATA": str(self.folder), **self.env})
        ran = Ran(result.exit_code, result.stdout, result.stderr)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert code is None or ran.code == code, (ran.code, ran.out, ran.err)
        return ran


def keeps(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "keeps", *arguments], capture_output=True, text=True, timeout=100, check=False, **options
    )


@dataclass(slots=True)
class Server:
    """`keeps serve`, running."""

    process: subprocess.Popen[str]
    folder: Path
    endpoint: str

    def stop(self, how: Callable[[subprocess.Popen[str]], None] = subprocess.Popen.terminate) -> tuple[int, str, str]:
        """End it; its exit code and everything it printed."""
        how(self.process)
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err


def start_server(folder: Path, *arguments: str) -> Server:
    """`keeps serve` on a free port, answering."""
    command = [sys.executable, "-m", "keeps", "serve", "--data", str(folder), "--port", "0", *arguments]
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("KEEPS_") or name in ("KEEPS_EMBEDDER", "KEEPS_POLICY")
    }
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    until = time.monotonic() + READY_S
    while time.monotonic() < until and process.poll() is None:
        try:
            owner = read_owner(folder)
        except Unavailable:
            owner = None
        if owner is not None:
            return Server(process, folder, owner.endpoint)
        time.sleep(0.02)
    process.kill()
    out, err = process.communicate()
    raise AssertionError(f"the server did not start: {out}{err}")


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = start_server(tmp_path_factory.mktemp("served") / "memory")
    yield running
    code, out, err = running.stop()
    assert code == 0, (out, err)


@pytest.fixture
def desk(server: Server) -> Desk:
    """Commands beside the folder of the running server."""
    return Desk(folder=server.folder)


@pytest.fixture
def alone(tmp_path: Path) -> Desk:
    """Commands beside a folder nobody else uses; it does not exist yet."""
    return Desk(folder=tmp_path / "memory")
