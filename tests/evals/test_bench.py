"""The bench at tiny sizes: it runs, and what it writes is what the documentation says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from evals.making import Writer

from evals import bench


def test_the_same_seed_writes_the_same() -> None:
    assert Writer(7).messages(20) == Writer(7).messages(20)
    assert Writer(7).messages(20) != Writer(8).messages(20)


def test_a_question_is_six_to_eight_words_of_its_message() -> None:
    writer = Writer(1)
    for message in writer.messages(50):
        question = writer.question(message)
        assert 6 <= len(question.split()) <= 8
        assert question.rstrip("?") in message


@pytest.mark.slow
def test_writes_batches_vectors_and_growth(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = "--rounds 3 --batch 5 --batches 2 --rows 60 --questions 5 --recalls 110".split()
    assert bench.main([*sizes, "--out", str(tmp_path)]) == 0
    (path,) = tmp_path.iterdir()  # nothing but the figures is left
    result: dict[str, Any] = json.loads(path.read_text())
    assert set(result) == {"version", "at", "machine", "writes", "batches", "vectors", "growth"}
    assert set(result["writes"]) == {"bare", "none", "triples", "http_none", "http_triples"}
    for figure in result["writes"].values():
        assert figure["n"] == 3
        assert 0 < figure["p50_ms"] <= figure["p95_ms"]
    assert result["writes"]["none"]["commits_each"] == result["writes"]["triples"]["commits_each"] == 1
    assert result["batches"]["messages"] == 10
    assert min(result["batches"][f"{place}_messages_per_s"] for place in ("library", "http")) > 0
    assert result["vectors"]["messages"] == 10
    assert result["vectors"]["ratio"] > 0
    assert result["vectors"]["messages"] == 10
    assert min(result["vectors"][name] for name in ("bare_embedder_per_s", "messages_per_s", "ratio")) > 0
    (at,) = result["growth"]
    assert (at["rows"], at["facts"]) == (60, 3)
    assert at["recalls"] == 110
    for name in ("find", "recall", "http_recall"):
        assert at[name]["n"] == 5
        assert at[name]["cpu_ms"] >= 0
    for name in ("record_bytes", "finder_bytes_a_row", "resident_mb", "rebuild_s", "start_to_first_answer_s"):
        assert at[name] > 0, name
    shown = capsys.readouterr().out
    assert "write triples" in shown
    assert "60 rows: find" in shown


def test_quality_needs_a_kit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KEEPS_BENCH_KIT", raising=False)
    assert bench.main(["--only", "quality", "--out", str(tmp_path)]) == 2
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("run", "leaking"),
    [
        ({"special": {"forbidden_hits": 0}}, False),
        ({"special": {"forbidden_hits": 2}}, True),
        ({"cites": {"true": {"accepted": 9}, "deleted": {"accepted": 0}, "foreign": {"accepted": 9}}}, False),
        ({"cites": {"true": {"accepted": 9}, "made-up": {"accepted": 1}}}, True),
        ({"cites": {"deleted": {"accepted": 1}}}, True),
    ],
)
def test_a_leak_is_seen(run: dict[str, Any], leaking: bool) -> None:
    assert bool(list(bench.leaks({"quality": {"server": {"some": run}}}))) is leaking
