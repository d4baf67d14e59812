"""`keeps try`: what it must show."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from inline_snapshot import snapshot
from rich.console import Console

from keeps.cli import tryout
from tests.cli.conftest import keeps

pytestmark = pytest.mark.slow

FACTS = {
    "imported": r"Imported (\d+ turns in \d+ sessions) into an empty folder",
    "answered": r"(Dr Ahlgren put in four stitches)",
    "corrected": r"which corrects: (.*)",
    "then": r"\(as of 2026-05-15\)\s+1\. (.*)",
    "waits": r"Before you say so it answers nothing:\n\? .*\n(.*)\n",
    "decided": r"You say yes to 1 and no to 2:\n\? .*\n 1\. (.*)\n    (confirmed by the user) ",
    "again": r"The agent brings up 2 once more: (.*)",
    "used": r"relied on it: (.*)",
    "gone": r"Purged it: \d+ rows erased\.\s+(.*)\n\s+(.*)\n",
}


async def test_transcript_shows_what_it_says() -> None:
    screen = io.StringIO()
    await tryout.run(Console(file=screen, width=120, highlight=False, markup=False, soft_wrap=True))
    text = screen.getvalue()
    found = {name: re.search(pattern, text) for name, pattern in FACTS.items()}
    assert {name: match and match.groups() for name, match in found.items()} == snapshot(
        {
            "imported": ("213 turns in 13 sessions",),
            "answered": ("Dr Ahlgren put in four stitches",),
            "corrected": ("Tollgatan 14 in Kråkvik",),
            "then": ("Mara lives at Tollgatan 14 in Kråkvik.",),
            "waits": ("Nothing found.",),
            "decided": ("Mara prefers oat milk in her coffee.", "confirmed by the user"),
            "again": ("not kept (suppressed). Waiting for you: 0",),
            "used": ("Mara prefers oat milk in her coffee. (You confirmed this)",),
            "gone": (
                'Asked for "gannetbox": 0 hits hold it. The word stands in 0 files of the index.',
                "Looked up by its reference: not found.",
            ),
        }
    )
    inbox = text[text.index("Waiting for you: 2\n") : text.index("You say yes")]
    for guess, said, why in (
        ("1. Mara prefers oat milk in her coffee.", "I take oat milk in my coffee these days", "preference"),
        ("2. Mara wants a post in Hamnsund.", "They look for a pilot in Hamnsund, I see", "never kept unasked"),
    ):
        assert re.search(rf"{guess}\n    because this was said: “{said}”\n    .*{why}", inbox)
    assert 'Asked for "gannetbox": 1 hit holds it. The word stands in 1 file of the index.' in text
    assert "says: I rent a flat on the third floor at Tollgatan 14" in text
    assert text.rstrip().endswith('found = await memory.recall("coffee")')


async def test_a_question_in_other_words_is_found_by_its_meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEEPS_EMBEDDER", "minilm")
    screen = io.StringIO()
    await tryout.run(Console(file=screen, width=120, highlight=False, markup=False, soft_wrap=True))
    text = screen.getvalue()
    assert "made here in the background: 213 vectors after" in text
    assert re.search(re.escape(tryout.OTHER_WORDS) + r"\n 1\. Mara: .*whippet", text)
    assert "no vector yet" not in text
    assert "relied on it: Mara prefers oat milk in her coffee. (You confirmed this)" in text
    assert 'Asked for "gannetbox": 0 hits hold it. The word stands in 0 files of the index.' in text


async def test_without_an_embedder_it_says_what_it_leaves_out() -> None:
    screen = io.StringIO()
    await tryout.run(Console(file=screen, width=120, highlight=False, markup=False, soft_wrap=True))
    assert "there is no embedder (KEEPS_EMBEDDER)" in screen.getvalue()
    assert tryout.OTHER_WORDS not in screen.getvalue()


def test_it_runs_as_a_command_and_touches_nothing_here(tmp_path: Path) -> None:
    ran = keeps("try", cwd=str(tmp_path))
    assert ran.returncode == 0, ran.stderr
    assert "The folder is gone again." in ran.stdout
    assert ran.stderr == ""
    assert not list(tmp_path.iterdir())
