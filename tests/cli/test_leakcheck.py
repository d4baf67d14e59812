"""`keeps leakcheck`: passes over a sound service, and reports each sort of leak of one that is not."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import keeps.services
from keeps.cli.codes import FAILED
from keeps.client import Client, leaks
from keeps.client.known import Known, bare, covers, owners_of, reads
from keeps.client.leaks import Effort, look_for_leaks
from keeps.config import Config
from keeps.core.errors import Unavailable
from keeps.memory import Memory
from keeps.services import traces
from keeps.store.scopes import ScopeSets
from tests.cli.conftest import Desk

pytestmark = pytest.mark.slow

OWNERS: list[Any] = ["team/north", "team/northern", "team/north/deck", "Team/North", [["team/north", "team/south"]]]
"""Names that begin alike, differ in case, lie in one another; two who own together."""


async def fill(memory: Client) -> None:
    for number, scopes in enumerate(OWNERS):
        mara = {"type": "person", "name": "Mara"}
        await memory.remember(
            f"the harbour crane number {number} stands still",
            scopes=scopes,
            triples=[
                {"entity": mara, "key": "favourite_ship", "value": f"the blue ferry of crew {number}"},
                {"entity": mara, "key": "works_with", "target": {"type": "person", "name": f"Pilot {number}"}},
                {"entity": {"type": "person", "name": f"Cook {number}"}, "verb": "baked", "object": f"loaf {number}"},
            ],
        )
        await memory.remember(f"The harbour master called crew {number} twice.", infer="none", scopes=scopes)


@pytest.fixture
def filled(alone: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setenv("KEEPS_EMBEDDER", "none")
    for number, scopes in enumerate(OWNERS[:4]):
        alone("remember", f"The harbour master called crew {number} twice.", "--as-turn", "--scope", str(scopes))
    return alone


def leaky_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every scope set is readable by everybody, through every door."""
    monkeypatch.setattr(ScopeSets, "readable", lambda sets, region: sets.everything())


def leaky_recall(monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions alone forget whom they are asked by."""
    patched = 0
    for found in pkgutil.iter_modules(keeps.services.__path__):
        module = importlib.import_module(f"keeps.services.{found.name}")
        if hasattr(module, "readable_sets"):
            monkeypatch.setattr(module, "readable_sets", lambda context, caller, lens: context.sets.everything())
            patched += 1
    assert patched


def test_a_sound_service_passes(filled: Desk) -> None:
    told = filled("leakcheck", "--questions", "2").out
    assert "No leak." in told
    report = filled("leakcheck", "--json", "--limit", "2").json
    assert report["leaks"] == 0
    assert len(report["keys"]) == 2
    assert report["leftOut"] > 0
    assert all(key["questions"] > 0 for key in report["keys"])
    assert [key["name"] for key in filled("keys", "list", "--json").json["keys"] if "leakcheck" in key["name"]] == []


@pytest.mark.parametrize("fault", [leaky_sets, leaky_recall])
def test_a_leaky_service_does_not(
    filled: Desk, monkeypatch: pytest.MonkeyPatch, fault: Callable[[pytest.MonkeyPatch], None]
) -> None:
    fault(monkeypatch)
    told = filled("leakcheck", code=FAILED).out
    assert "LEAK: " in told
    assert "harbour" not in told  # it says what leaked, and does not leak it once more
    report = filled("leakcheck", "--json", code=FAILED).json
    doors = {leak["door"] for key in report["keys"] for leak in key["leaks"]}
    assert {"POST /query hybrid", "POST /query bm25", "POST /context"} <= doors
    assert report["leaks"] == sum(len(key["leaks"]) for key in report["keys"])
    assert [key["name"] for key in filled("keys", "list", "--json").json["keys"] if "leakcheck" in key["name"]] == []


def test_a_service_that_shows_traces_of_others_does_not(filled: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "may_see", lambda patterns, region: True)
    report = filled("leakcheck", "--json", "--questions", "1", code=FAILED).json
    assert {leak["door"] for key in report["keys"] for leak in key["leaks"]} == {"GET /traces/{id}"}


@dataclass
class Opened:
    memory: Memory

    async def look(self, effort: Effort) -> leaks.Found:
        def connect(key: str) -> Client:
            return Client(self.memory.endpoint, key=key, context=self.memory.context_id)

        return await look_for_leaks(self.memory, effort, connect=connect)


async def test_facts_relations_actions_and_turns_are_all_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Memory.open(tmp_path / "memory", saved_key="owner", config=Config(embedder="none")) as memory:
        await fill(memory)
        opened = Opened(memory)
        found = await opened.look(Effort(questions=5, limit=30))
        assert found.leaks == []
        names = {str(looked.reader) for looked in found.looked}
        assert {"team/north", "team/north/*", "team/northern", "Team/North", "team/north + team/south"} <= names
        assert all(looked.rows for looked in found.looked if str(looked.reader) not in {"team/south"})

        leaky_sets(monkeypatch)
        found = await opened.look(Effort(questions=5, limit=2))
        assert {leak.what for leak in found.leaks} == {"id", "text", "entity", "count"}
        assert {leak.door for leak in found.leaks} >= {
            "GET /inspect",
            "GET /facts",
            "GET /relations",
            "GET /actions",
            "GET /sessions",
            "GET /sessions/{session}",
            "GET /sessions/{session}/turns",
            "POST /sessions/{session}/context",
            "GET /entities",
            "GET /entities/search",
            "GET /entities/{entity}",
            "GET /entities/{entity}/history",
            "GET /entities/{entity}/neighbourhood",
            "POST /query atInstant",
        }


async def test_keys_are_revoked_when_it_is_interrupted(tmp_path: Path) -> None:
    async with Memory.open(tmp_path / "memory", saved_key="owner", config=Config(embedder="none")) as memory:
        await fill(memory)

        def connect(key: str) -> Client:
            raise Unavailable("cut off")

        with pytest.raises(Unavailable):
            await look_for_leaks(memory, Effort(), connect=connect)
        keys = await memory.keys.list()
        assert not any(key.name.startswith("leakcheck") for key in keys.keys)


async def test_a_narrow_key_looks_at_what_it_reads_alone(tmp_path: Path) -> None:
    async with Memory.open(tmp_path / "memory", saved_key="owner", config=Config(embedder="none")) as memory:
        await fill(memory)
        minted = await memory.keys.create("writer", grants={"memory:read": ["team/north"]})
        async with Client(memory.endpoint, key=minted.key) as narrow:
            found = await look_for_leaks(
                narrow, Effort(), connect=lambda key: Client(memory.endpoint, key=key, context=memory.context_id)
            )
        assert found.leaks == []
        assert [str(looked.reader) for looked in found.looked] == ["team/north"]


@pytest.mark.parametrize(
    ("pattern", "path", "covered"),
    [
        ("team/north", "team/north", True),
        ("team/north", "team/northern", False),
        ("team/north", "team/north/deck", False),
        ("team/north/*", "team/north/deck", True),
        ("team/north/*", "team/north", True),
        ("team/north/*", "team/northern", False),
        ("team/north", "Team/North", False),
        ("/*", "team", True),
        ("/*", "/", True),
        ("/", "/", True),
        ("/", "team", False),
    ],
)
def test_the_yardstick_compares_whole_segments(pattern: str, path: str, *, covered: bool) -> None:
    assert covers(pattern, path) is covered


def test_the_yardstick_wants_one_clause_whole() -> None:
    shared = owners_of([["a", "b"], ["c/"]])
    assert reads(["c"], shared)
    assert reads(["a", "b"], shared)
    assert not reads(["a"], shared)
    assert reads(["/"], owners_of([]))
    assert not reads(["a"], owners_of([]))


def test_a_text_is_known_in_any_frame() -> None:
    assert bare("«The KEY»\n hangs…") == bare("the key hangs")
    known = Known()
    known.rows["x"] = owners_of([["a"]])
    known.texts[bare("The key hangs low")] = ["x"]
    assert known.says(["a"], "key hangs")
    assert not known.says(["b"], "key hangs")
