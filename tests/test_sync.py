"""The memory without an event loop: the same verbs, from any thread, with nothing left behind."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

import keeps
from keeps.client import Client
from keeps.config import Config
from keeps.core.errors import Invalid, NotFound, StoreRefused
from keeps.memory import Memory
from keeps.sync import SyncMemory, Waiting

WITHOUT_VECTORS = Config(embedder="none")
MARA = {"entity": {"type": "person", "name": "Mara"}, "key": "role", "value": "pilot"}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[SyncMemory]:
    with SyncMemory.open(tmp_path / "m", saved_key="owner", config=WITHOUT_VECTORS) as memory:
        yield memory


def verbs_of(kind: type[Any]) -> dict[str, inspect.Signature]:
    """The public verbs of a class, and what each takes and gives."""
    found = inspect.getmembers(kind, inspect.isfunction)
    return {name: inspect.signature(verb) for name, verb in found if not name.startswith("_")}


def nouns_of(thing: object, kind: type[Any]) -> dict[str, type[Any]]:
    return {name: type(value) for name, value in vars(thing).items() if isinstance(value, kind) and name[0] != "_"}


def test_memory_client_and_sync_memory_have_the_same_verbs() -> None:
    assert verbs_of(SyncMemory) == verbs_of(Client)
    assert {name: sign for name, sign in verbs_of(Memory).items() if name in verbs_of(Client)} == verbs_of(Client)
    assert not any(inspect.iscoroutinefunction(verb) for _, verb in inspect.getmembers(SyncMemory))


async def test_nouns_have_the_same_verbs() -> None:
    noun: Any = keeps.client.nouns.Noun
    async with Client() as client:
        nouns = nouns_of(client, noun)
    assert {"sessions", "scopes", "principals", "keys"} <= nouns.keys()
    waiting = {name: kind for name, kind in _sync_nouns().items() if name != "inner"}
    assert {name: verbs_of(kind) for name, kind in waiting.items()} == {
        name: verbs_of(kind) for name, kind in nouns.items()
    }


def _sync_nouns() -> dict[str, type[Any]]:
    shell: Any = SyncMemory(Memory("nowhere", WITHOUT_VECTORS, context="default", key=None, saved_key="agent"), None)  # type: ignore[arg-type]
    return nouns_of(shell, Waiting)


def test_opening_takes_what_memory_takes() -> None:
    ours, theirs = (inspect.signature(kind.open) for kind in (SyncMemory, Memory))
    assert ours.parameters == theirs.parameters


def test_descriptions_stay() -> None:
    assert SyncMemory.recall.__doc__ == Memory.recall.__doc__
    assert SyncMemory.recall.__name__ == "recall"


def test_it_remembers_corrects_recalls_and_forgets(memory: SyncMemory) -> None:
    assert (memory.created, memory.owner, memory.context_id) == (True, True, "default")
    memory.remember("The kettle is blue.", infer="none", speaker="Mara")
    memory.remember(triples=[MARA])
    memory.remember(triples=[{**MARA, "value": "harbour pilot"}])
    assert memory.recall("What is Mara's role?").hits[0].text == "Mara's role is harbour pilot."
    assert [row.value for row in memory.history("person/mara", "role").history] == ["harbour pilot", "pilot"]
    assert "The kettle is blue." in memory.context("kettle").context
    session = memory.sessions.create()
    assert session.id in [row.id for row in memory.sessions.list().sessions]
    assert memory.scopes.register("org/east").path == "org/east/"
    assert memory.principals.list().principals
    assert memory.keys.list().keys
    assert memory.forget("The kettle is blue.", purge=True).deleted >= 1
    with pytest.raises(NotFound):
        memory.entity("person/nobody")


def test_a_wrong_option_is_said_where_it_is_given(memory: SyncMemory) -> None:
    with pytest.raises(TypeError, match="did you mean 'k'"):
        memory.recall("kettle", limit=3)  # type: ignore[call-arg]


def test_several_threads_at_once(memory: SyncMemory) -> None:
    def write(number: int) -> str:
        return str(memory.remember(f"thing number {number}", infer="none").turn_id)

    with ThreadPoolExecutor(8) as pool:
        turns = list(pool.map(write, range(32)))
    assert len(set(turns)) == 32
    assert len(memory.recall("thing number", k=50).hits) == 32


async def test_inside_a_loop_that_runs(tmp_path: Path) -> None:
    with SyncMemory.open(tmp_path / "m", config=WITHOUT_VECTORS) as memory:
        memory.remember("The kettle is blue.", infer="none")
        assert len(memory.recall("kettle").hits) == 1
    assert asyncio.get_running_loop().is_running()


def test_closing_leaves_no_thread_and_no_process(tmp_path: Path) -> None:
    threads, children = set(threading.enumerate()), set(psutil.Process().children(recursive=True))
    with SyncMemory.open(tmp_path / "m", config=WITHOUT_VECTORS) as memory:
        memory.health()
        assert {thread.name for thread in set(threading.enumerate()) - threads} >= {"keeps-memory"}
    assert set(threading.enumerate()) <= threads
    assert set(psutil.Process().children(recursive=True)) <= children
    for call in (memory.health, memory.sessions.list):
        with pytest.raises(Invalid, match="closed"):
            call()


def test_what_is_raised_inside_closes_it_too(tmp_path: Path) -> None:
    threads = set(threading.enumerate())
    with pytest.raises(ZeroDivisionError), SyncMemory.open(tmp_path / "m", config=WITHOUT_VECTORS):
        raise ZeroDivisionError
    assert set(threading.enumerate()) <= threads
    with SyncMemory.open(tmp_path / "m", config=WITHOUT_VECTORS) as again:
        assert again.owner


def test_what_cannot_be_opened_says_why(tmp_path: Path) -> None:
    threads = set(threading.enumerate())
    file = tmp_path / "m"
    file.write_text("not a folder")
    with pytest.raises(StoreRefused, match="not a folder"), SyncMemory.open(file, config=WITHOUT_VECTORS):
        pass
    assert set(threading.enumerate()) <= threads


def test_closed_early_it_says_so(memory: SyncMemory) -> None:
    memory.close()
    with pytest.raises(Invalid, match="closed"):
        memory.health()


def test_a_script_that_leaves_without_closing_ends(tmp_path: Path) -> None:
    code = "import sys; from keeps import SyncMemory\nwith SyncMemory.open(sys.argv[1]) as m:\n    sys.exit(7)"
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "m")],
        timeout=60,
        check=False,
        env={"KEEPS_EMBEDDER": "none"},
        capture_output=True,
        text=True,
    )
    assert (ran.returncode, ran.stderr) == (7, "")


def test_the_package_exports_it() -> None:
    assert keeps.SyncMemory is SyncMemory
    assert "SyncMemory" in dir(keeps)
