"""How much of what stands above the floor belongs there, and whether an unrelated question finds anything.

Each question of a set has an exact list of answers. What counts as found is every hit with at least the score that
a block for a prompt asks for by default.
"""

from __future__ import annotations

from pathlib import Path
from statistics import mean
from typing import Any, Final

import httpx
from evals.place import served, settled

from keeps.core.fusion import MIN_SCORE

FLOOR: Final = MIN_SCORE

_ASKED_FOR: Final = 20

# Questions about the world that no diary, chat or list of working habits answers.
UNRELATED: Final = (
    "Which acid dissolves limestone?",
    "How many moons does Saturn have?",
    "Who painted the ceiling of the Sistine Chapel?",
    "What is the boiling point of ethanol at sea level?",
    "Which treaty ended the Thirty Years War?",
    "How long is the Danube?",
    "What does a carburettor mix?",
    "Which enzyme unwinds the double helix?",
    "In which year did the Berlin Wall fall?",
    "What is the capital of Mongolia?",
    "How is nitric acid produced industrially?",
    "Which bird lays the largest egg?",
    "What does the Chandrasekhar limit describe?",
    "Who wrote the Brandenburg Concertos?",
    "How deep is the Mariana Trench?",
    "Which metal is liquid at room temperature?",
    "What is the atomic number of tungsten?",
    "How do glaciers carve fjords?",
    "Which emperor built the Colosseum?",
    "What is a palindromic number?",
)


def measure(data: Any, folder: Path) -> dict[str, Any]:
    """Mean precision and recall above the floor over the questions of `data`, a set of the kit, from a real server;
    and how many hits of unrelated questions stand above it."""
    with served(folder, embedder="minilm") as server, server.client() as http:
        ids = _remembered(http, data.items)
        settled(http)
        rows = [(_found(http, probe.q, ids), set(probe.gold)) for probe in data.probes]
        strangers = [hit for question in UNRELATED for hit in _found(http, question, ids)]
    return {
        "items": len(data.items),
        "questions": len(rows),
        "floor": FLOOR,
        "precision": round(mean(len(found & gold) / len(found) if found else 0.0 for found, gold in rows), 4),
        "recall": round(mean(len(found & gold) / len(gold) for found, gold in rows if gold), 4),
        "found_each": round(mean(len(found) for found, _ in rows), 2),
        "unrelated": {"questions": len(UNRELATED), "hits": len(strangers)},
    }


def _remembered(http: httpx.Client, items: Any) -> dict[str, str]:
    """Every item written as a turn; what each is called in the kit by its turn."""
    body = {"messages": [{"role": "user", "content": item.text} for item in items], "infer": "none"}
    reply = http.post("/facts/batch", json=body | {"extract": "per_message"}).raise_for_status().json()
    return {f"turn:{turn}": item.id for turn, item in zip(reply["turnIds"], items, strict=True)}


def _found(http: httpx.Client, question: str, ids: dict[str, str]) -> set[str]:
    body = {"query": question, "k": _ASKED_FOR, "minScore": FLOOR}
    hits = http.post("/query", json=body).raise_for_status().json()["hits"]
    return {ids[hit["sourceRef"]] for hit in hits}
