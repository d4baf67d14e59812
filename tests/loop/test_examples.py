"""The example loops run as they stand, in a context that asks, and print what they promise."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MAX_LINES = 40
PRINTED = {
    "tutor.py": """\
tutor: You proved two, and all of them once.
    result: guessed 3 and proved 2 of 5 (recorded by the app)
judge: Two of five.
forgotten: 2 memories, and a look finds 0
""",
    "own_loop.py": """\
> I row on Tuesdays.
I will keep that in mind.
> When do I row?
You said it: user: I row on Tuesdays.
    user: I row on Tuesdays. (from a past conversation, not confirmed)
4 turns written
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PRINTED))
def test_d3_d4_d5_an_example_is_short_and_does_what_it_says(name: str, tmp_path: Path) -> None:
    assert len((EXAMPLES / name).read_text("utf-8").splitlines()) <= MAX_LINES
    env = {key: value for key, value in os.environ.items() if not key.startswith("KEEPS_")}
    command = [sys.executable, "-W", "error", str(EXAMPLES / name)]
    done = subprocess.run(command, cwd=tmp_path, env=env | {"KEEPS_EMBEDDER": "none"}, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (PRINTED[name], "")


def test_every_example_that_is_code_is_run() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == PRINTED.keys()
