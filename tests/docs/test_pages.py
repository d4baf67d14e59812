"""Every example on every page is run, or stands here with the reason why it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.examples import PAGES, ROOT, RUN, Block, Desk, blocks, every_block, matches

README = "README.md"
"""Has a test of its own, which looks closer."""

_SETS_UP = "sets up the checkout that these tests run in"
_FORM = "shows the forms of a command; the how-to pages run them"
_HOST = "needs a host; what it starts is run by tests/mcp and by the next example"
_NEEDS = "needs what a reader has and a test has not"

NOT_RUN = {
    ("README.md", 'claude mcp add keeps -- "$PWD/.venv/bin/keeps" mcp --data ~/'): _HOST,
    ("README.md", "make try"): _SETS_UP,
    ("CONTRIBUTING.md", "make test"): _SETS_UP,
    ("CONTRIBUTING.md", "def plan(head: Fact | None, incoming: Fact, *, floor: float)"): "a signature",
    ("docs/explanation/performance.md", "make bench"): "takes minutes",
    ("docs/how-to/use-it-over-mcp.md", 'claude mcp add keeps -- "$(which keeps)" mcp --data ~/memory'): _HOST,
    ("docs/explanation/retrieval.md", "KEEPS_BENCH_KIT=<kit> .venv/bin/python -m evals.vector_leg -"): _NEEDS,
    ("docs/explanation/performance.md", "KEEPS_BENCH_KIT=KIT KEEPS_BENCH_PYTHON=KITVENV/bin/python .v"): _NEEDS,
    ("docs/explanation/where-the-bytes-lie.md", 'grep -r -a -c "thatword" memory/*/finder/'): "the tutorial runs it",
    ("docs/reference/archive.md", "keeps backup --data DIR FILE"): _FORM,
    ("docs/reference/library.md", "from keeps import Client, Memory, SyncMemory"): "names the doors",
    ("docs/reference/library.md", "from keeps.loop import ByQuestion, ByRule, Pseudonyms, Selec"): "names the doors",
    ("docs/tutorial/first-memory.md", "make venv"): _SETS_UP,
}


def runnable(page: Path) -> list[Block]:
    """The examples of a page that are run, in order."""
    return [block for block in blocks(page) if block.language in RUN and block.name not in NOT_RUN]


def test_what_is_not_run_is_there_and_has_a_reason() -> None:
    there = {block.name for block in every_block() if block.language in RUN}
    assert sorted(NOT_RUN.keys() - there) == []
    assert all(NOT_RUN.values())


def test_commands_stand_in_fences_that_say_so() -> None:
    plain = [block for block in every_block() if block.language not in RUN]
    begin = ("keeps ", "make ", "curl ", "$ ", "python ", "pip ", "grep ", "import ", "from ", "async ")
    assert [block.name for block in plain if block.text.startswith(begin)] == []
    assert {block.language for block in plain} <= {"", "json", "markdown", "text"}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if runnable(page) and page != ROOT / README],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_examples_of_a_page_do_what_it_says(page: Path, desk: Desk) -> None:
    for block in runnable(page):
        printed = desk.run(block)
        if block.shown is not None:
            assert matches(block.shown, printed), f"{block.name} prints:\n{printed}"


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a\n", "a", True),
        ("a\n", "b\n", False),
        ("id … done\n", "id x7 done\n", True),
        ("id … done\n", "id x7\ndone\n", False),
        ("a\n…\nd\n", "a\nb\nc\nd\n", True),
        ("a\n…\n", "a\nb\n", True),
        ("a\n", "a\nb\n", False),
        ("a.c\n", "abc\n", False),
    ],
)
def test_output_is_compared_line_by_line(shown: str, printed: str, same: bool) -> None:
    assert matches(shown, printed) is same
