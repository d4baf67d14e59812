"""The example conversation: long enough, in order, answerable by words, and free of anything real."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from snowballstemmer import stemmer

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
TURNS: list[dict[str, Any]] = [
    json.loads(line) for line in (EXAMPLES / "conversation.jsonl").read_text("utf-8").splitlines()
]
QUESTIONS: list[dict[str, str]] = json.loads((EXAMPLES / "questions.json").read_text("utf-8"))


@cache
def stems(text: str) -> list[str]:
    """Stemmed words of a text, folded in case."""
    return stemmer("english").stemWords(re.findall(r"\w+", text.casefold()))


def best_by_words(question: str) -> list[str]:
    """Turns in the order of plain BM25 over stems: the least a text search has to reach."""
    docs = [stems(f"{turn['speaker']} {turn['content']}") for turn in TURNS]
    seen = Counter(word for doc in docs for word in set(doc))
    mean = sum(map(len, docs)) / len(docs)

    def score(doc: list[str]) -> float:
        counts, weight = Counter(doc), 0.0
        for word in set(stems(question)) & counts.keys():
            idf = math.log(1 + (len(docs) - seen[word] + 0.5) / (seen[word] + 0.5))
            weight += idf * counts[word] * 2.2 / (counts[word] + 1.2 * (0.25 + 0.75 * len(doc) / mean))
        return weight

    ranked = sorted(range(len(docs)), key=lambda n: -score(docs[n]))
    return [TURNS[n]["content"] for n in ranked]


def test_shape() -> None:
    assert len(TURNS) >= 160
    assert len({turn["session"] for turn in TURNS}) >= 12
    for turn in TURNS:
        assert set(turn) == {"session", "role", "speaker", "content", "ts"}
        assert turn["role"] == ("assistant" if turn["speaker"] == "Keel" else "user")
        assert turn["content"] == turn["content"].strip() != ""


def test_the_readme_counts_right() -> None:
    sessions = {turn["session"] for turn in TURNS}
    assert f"{len(TURNS)} turns in {len(sessions)} sessions" in (EXAMPLES / "README.md").read_text("utf-8")


def test_time_runs_forwards_and_sessions_do_not_mix() -> None:
    times = [datetime.fromisoformat(turn["ts"]) for turn in TURNS]
    assert all(moment.utcoffset() == timedelta(0) for moment in times)
    assert times == sorted(set(times))
    assert times[0].year == times[-1].year == 2026
    sessions = [turn["session"] for turn in TURNS]
    assert sessions == sorted(sessions)


def test_it_has_what_makes_text_hard() -> None:
    everything = " ".join(turn["content"] for turn in TURNS)
    for piece in ("å", "ñ", "食パン", "🍞", "°C", "04:40"):
        assert piece in everything
    assert max(len(turn["content"].split()) for turn in TURNS) > 120
    assert min(len(turn["content"].split()) for turn in TURNS) < 6


def test_it_names_no_address_of_anybody() -> None:
    everything = (EXAMPLES / "conversation.jsonl").read_text("utf-8")
    assert not re.search(r"\w@\w|https?:|\+\d{6}", everything)


def test_there_are_twelve_questions() -> None:
    assert len(QUESTIONS) == len({question["q"] for question in QUESTIONS}) == 12


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question["expect"])
def test_question_is_answered_by_its_words(question: dict[str, str]) -> None:
    first, *others = best_by_words(question["q"])
    assert question["expect"].casefold() in first.casefold(), (first, others[:2])


def test_questions_tell_turns_apart() -> None:
    firsts = {best_by_words(question["q"])[0] for question in QUESTIONS}
    assert len(firsts) == len(QUESTIONS)
