"""`keeps why`, `keeps traces`, and the line of `keeps recall` that leads there."""

from __future__ import annotations

import re

from tests.cli.conftest import Desk


def _traced(desk: Desk, query: str, *more: str) -> str:
    """Ask for people; the id of the trace as it is told on stderr."""
    found = re.search(r"^why: keeps why ([a-z0-9]{20})$", desk("recall", query, *more).err, re.MULTILINE)
    assert found is not None
    return found[1]


def test_recall_says_how_to_ask_why(desk: Desk) -> None:
    desk("remember", "The avocet wades in the salt pan")
    ran = desk("recall", "avocet", "--json")
    assert "why:" not in ran.out + ran.err
    trace = _traced(desk, "avocet salt")
    lines = desk("why", trace).out.splitlines()
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d · asked by owner · through query · mode hybrid · \d+ ms", lines[0]
    )
    assert lines[1].startswith("searched: ")
    assert re.fullmatch(r" 1\. attribute:person/owner/note_\w+ · score \d\.\d\d", lines[3])
    assert re.fullmatch(r"    person/owner note_\w+ = The avocet wades in the salt pan", lines[4])
    assert lines[5].startswith("    its words (100% of the question) · ")
    assert re.search(r"· attribute:[a-z0-9]{20}$", lines[5])
    assert any(line.startswith("by text: found ") for line in lines)
    assert desk("why", f"trace:{trace}", "--json").json["id"] == trace


def test_a_name_in_the_question_is_said(desk: Desk) -> None:
    desk("remember", "--fact", "Jorun", "boat", "Fulmar")
    out = desk("why", _traced(desk, "what is Jorun's boat?")).out
    assert "looked up by name" in out
    assert "named in the question" in out
    assert "names 1 known thing" in out


def test_a_memory_says_when_it_was_used(desk: Desk) -> None:
    desk("remember", "--fact", "Sigrid", "instrument", "nyckelharpa")
    hit = desk("recall", "nyckelharpa", "--json").json["hits"][0]["id"]
    asked = [_traced(desk, "nyckelharpa"), _traced(desk, "Sigrid instrument")]
    lines = desk("why", hit).out.splitlines()
    assert lines[0] == "person/sigrid instrument = nyckelharpa"
    assert "saved by the user" in lines[1]
    assert "rests on turn:" in lines[1]
    assert lines[2] == "Returned 3 times."
    assert [line.rpartition(" ")[2] for line in lines[3:5]] == asked[::-1]
    used = desk("why", hit.partition(":")[2], "-n", "1", "--json").json
    assert (used["times"], len(used["traces"]), used["row"]["kind"]) == (3, 1, "attribute")
    assert desk("why", "attribute:person/sigrid/instrument", "--json").json["times"] == 3
    assert used["uses"] == {"offered": 0, "cited": 0}
    assert "nyckelharpa" in desk("context", "Sigrid instrument", "--min-score", "0").out
    assert "Put into 1 prompt, cited in 0 answers; last for " in desk("why", hit).out


def test_what_was_erased_is_not_told(desk: Desk) -> None:
    desk("remember", "The dotterel nests on the fell")
    trace = _traced(desk, "dotterel fell")
    hit = desk("recall", "dotterel", "--json").json["hits"][0]["id"]
    desk("forget", "--id", hit, "--purge", "--yes")
    out = desk("why", trace).out
    assert " 1. no longer there, or not yours to see" in out
    assert hit.partition(":")[2] not in out
    assert "does not exist" in desk("why", hit, code=3).err


def test_a_passage_says_who_spoke(desk: Desk) -> None:
    desk("remember", "The ruff struts on the lek", "--as-turn")
    hit = desk("recall", "ruff lek", "--json").json["hits"][0]["id"]
    lines = desk("why", hit).out.splitlines()
    assert lines[0] == "user: The ruff struts on the lek"
    assert lines[2] == "Returned 1 time."


def test_unknown_ones_end_with_3_and_what_is_none_with_1(desk: Desk) -> None:
    for what in ("trace:nothing", "nothing", "a" * 20, "attribute:nothing"):
        assert "does not exist" in desk("why", what, code=3).err, what
    assert "name one row" in desk("why", "person/mara", code=1).err


def test_an_empty_answer_and_a_list(desk: Desk) -> None:
    trace = _traced(desk, "qwertzuiop")
    assert "It found nothing." in desk("why", trace).out
    desk("context", "qwertzuiop")
    lines = desk("traces", "-n", "2").out.splitlines()
    assert len(lines) == 4
    assert "through context" in lines[0]
    assert lines[2].startswith(f"{trace} · ")
    assert lines[3].startswith("    0 hits · ")
    listed = desk("traces", "--limit", "2", "--json").json
    assert [row["queryText"] for row in listed["traces"]] == ["", ""]
    assert listed["page"]["hasMore"] is True


def test_a_new_memory_was_asked_nothing(alone: Desk) -> None:
    alone("remember", "The first note")
    assert alone("traces").out == "Nothing was asked yet.\n"
    hit = alone("remember", "The second note", "--json").json["extraction"]["attributes"][0]["id"]
    assert "Not returned by any read that is kept." in alone("why", f"attribute:{hit}").out
