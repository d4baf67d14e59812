"""The examples on the pages: what stands in their fences, and how each is run."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from keeps.store.secrets import saved_keys

ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "examples/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
)
RUN = {"python", "console"}
"""Languages of fences that hold examples a reader may copy."""

STANDINS = Path(__file__).with_name("standins")
"""Programs to use where the machine has none of that name."""

READY_S = 60.0
_READY = "/docs\n"
"""How the last line ends that a server prints at its start."""
_SERVED = ".served"
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PORT = "9090"
_KEY = "sp-..."
_MANAGEMENT = "MANAGEMENT_KEY=sp-..."


@dataclass(frozen=True, slots=True)
class Block:
    """One fence of a page. `shown` is what the page says that it prints, when it does."""

    page: str
    line: int
    language: str
    text: str
    shown: str | None = None

    @property
    def name(self) -> tuple[str, str]:
        """What tells it from others: its page and how its first line begins, without a comment."""
        return self.page, self.text.partition("\n")[0].partition("  #")[0].strip()[:60]


def blocks(page: Path) -> list[Block]:
    """The fences of a page in order; a `text` fence that follows at once is what the one before it prints."""
    content = page.read_text("utf-8")
    name = page.relative_to(ROOT).as_posix()
    found: list[Block] = []
    end = 0
    for match in _FENCE.finditer(content):
        language, text = match.groups()
        follows = bool(found) and found[-1].language in RUN and not content[end : match.start()].strip()
        end = match.end()
        if language == "text" and follows:
            last = found.pop()
            found.append(Block(last.page, last.line, last.language, last.text, text))
        else:
            found.append(Block(name, content.count("\n", 0, match.start()) + 1, language, text))
    return found


def matches(shown: str, printed: str) -> bool:
    """Whether `printed` is what the page shows; `…` on the page stands for any part of a line, a line of its own
    for any lines."""
    parts = [
        r"(?:.*\n)*?" if line.strip() == "…" else ".*?".join(map(re.escape, line.rstrip().split("…"))) + r"[ ]*\n"
        for line in shown.splitlines()
    ]
    return re.fullmatch("".join(parts), printed if printed.endswith("\n") else printed + "\n") is not None


@dataclass(slots=True)
class Desk:
    """A folder that a reader works in, with a port of its own; the server runs once a page starts it."""

    home: Path
    port: int = 0
    server: subprocess.Popen[str] | None = None
    env: dict[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        ours = {name for name in os.environ if name.startswith("KEEPS_")}
        kept = {name: value for name, value in os.environ.items() if name not in ours}
        paths = [str(Path(sys.executable).parent), kept.get("PATH", "/usr/bin:/bin")]
        if shutil.which("curl") is None:
            paths.insert(0, str(STANDINS))
        self.env = {**kept, "HOME": str(self.home), "PATH": os.pathsep.join(paths), "COLUMNS": "100", "TERM": "dumb"}

    def run(self, block: Block) -> str:
        """What the example prints on stdout. It must end well; every question it asks is answered yes."""
        text = block.text.replace(_PORT, str(self.port))
        if block.language == "python":
            return self._ran([sys.executable, "-W", "error", "-c", self._with_key(text)], block)
        if command := re.search(r"^keeps serve.*$", text, re.MULTILINE):
            assert len(text.strip().splitlines()) == 1, f"{block.name}: a server takes a terminal of its own"
            return self._serve(command[0])
        return self._ran(["bash", "-euo", "pipefail", "-c", self._with_key(text)], block)

    def _with_key(self, text: str) -> str:
        if _KEY not in text:
            return text
        if _MANAGEMENT in text:
            printed = re.search(r"managementKey +(\S+)", (self.home / _SERVED).read_text("utf-8"))
            assert printed, "no management key was printed"
            text = text.replace(_KEY, printed[1])
        return text.replace(_KEY, saved_keys(self.home / "memory", "default")["agent"])

    def _ran(self, command: list[str], block: Block) -> str:
        ours, theirs = os.openpty()  # questions are asked only of a terminal
        try:
            os.write(ours, b"y\n" * 8)
            done = subprocess.run(
                command,
                cwd=self.home,
                env=self.env,
                stdin=theirs,
                capture_output=True,
                text=True,
                timeout=200,
                check=False,
            )
        finally:
            os.close(ours)
            os.close(theirs)
        assert done.returncode == 0, (block.name, done.stdout, done.stderr)
        return done.stdout

    def _serve(self, command: str) -> str:
        words = command.partition("#")[0].split()
        if "--port" not in words:
            words += ["--port", str(self.port)]
        printed = self.home / _SERVED
        with printed.open("w") as out:
            self.server = subprocess.Popen(words, cwd=self.home, env=self.env, stdout=out, text=True)
        until = time.monotonic() + READY_S
        while time.monotonic() < until and self.server.poll() is None:
            if _READY in (told := printed.read_text("utf-8")):
                return told
            time.sleep(0.02)
        raise AssertionError(f"{command!r} did not start")

    def leave(self) -> None:
        """End the server, when one runs."""
        if self.server is not None:
            self.server.terminate()
            assert self.server.wait(timeout=60) == 0


def every_block() -> Iterator[Block]:
    """All fences of all pages."""
    for page in PAGES:
        yield from blocks(page)
