"""What the README shows, done: in Python, with the official client, with curl, on the command line."""

from __future__ import annotations

import json
import os

import pytest

from tests.docs.examples import ROOT, RUN, STANDINS, Desk, blocks
from tests.docs.test_pages import NOT_RUN


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_readme_does_what_it_says(desk: Desk) -> None:
    shown = [b for b in blocks(ROOT / "README.md") if b.language in RUN and b.name not in NOT_RUN]
    library, ferry, serve, client, inbox, curl, commands = (desk.run(block) for block in shown)

    unseen, asked, first, newer, older, *block = library.splitlines()
    assert (unseen, asked) == ("1", "Mara's role is deckhand.")
    assert first == "Mara's role is harbour pilot."
    assert f"print(found.hits[0].text)  # {first}" in shown[0].text
    assert newer.startswith("harbour pilot ")
    assert newer.endswith(" None")
    assert older.startswith("deckhand ")
    assert older.endswith(newer.removeprefix("harbour pilot ").removesuffix(" None"))
    assert "The rye starter lives in the cellar." in "\n".join(block)

    again = desk.run(shown[0]).splitlines()
    assert (again[:2], first in again) == ([unseen, asked], True), "on a second run too"

    assert ferry.strip() == "The ferry leaves at seven."

    assert f"answers at http://127.0.0.1:{desk.port}" in serve
    assert "policy         deliberate: " in serve
    assert client.strip() == "[{'about': 'Mara likes rye bread.', 'reason': 'waits for approval'}]"
    assert f"print(done.extraction.uncertainties)  # {client.strip()}" in shown[3].text
    assert "Mara likes rye bread." in inbox
    assert json.loads(curl)["hits"][0]["text"] == first
    desk.env["PATH"] = os.pathsep.join([str(STANDINS), desk.env["PATH"]])  # what a machine without curl uses
    assert json.loads(desk.run(shown[5]))["hits"][0]["text"] == first

    for line in (
        " 1. The spare key hangs behind the oven",
        "person/mara role = harbour pilot",
        "person/mara role = deckhand",
        "Forgot 1 memory (2 rows).",
        "Imported 213 turns in 13 sessions.",
    ):
        assert line in commands, commands
    assert json.loads((desk.home / "memory.jsonl").read_text("utf-8").partition("\n")[0])["format"] == "keeps-archive"
