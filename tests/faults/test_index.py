"""The index lost, cut, or exchanged while the server is down: it is built anew, and the answers stay the same."""

from __future__ import annotations

import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from tests.faults.audit import audit
from tests.faults.server import CONTEXT, Owner, answers, fact, keeps, note, serving

pytestmark = pytest.mark.slow
WORDS = (
    *("anchor", "buoy", "cable", "derrick", "ebb", "fender", "gangway", "hawser", "islet", "jetty"),
    *("keel", "lantern", "mast", "net", "oar", "pier", "quay", "rope", "sail", "tide"),
)
QUESTIONS = [
    *(f"where is the {word}" for word in WORDS),
    *(f"what lies at berth {number}" for number in range(20)),
    *(f"what do you know about Hold {number}" for number in range(4)),
    *("spare", "moved to the pier", "berth", "stowed", "who is nobody", "holds and berths"),
]


def finder(folder: Path, context: str = CONTEXT) -> Path:
    return folder / context / "finder"


def deleted(folder: Path) -> None:
    shutil.rmtree(finder(folder))


def truncated(folder: Path) -> None:
    for file in finder(folder).glob("text-*.sqlite3"):
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def overwritten(folder: Path) -> None:
    for file in finder(folder).iterdir():
        file.write_bytes(b"\0" * file.stat().st_size)


def without_vectors(folder: Path) -> None:
    (file,) = finder(folder).glob("text-*.sqlite3")
    with closing(sqlite3.connect(file)) as connection, connection:
        assert connection.execute("DELETE FROM vector").rowcount > 0


def without_half_of_the_vectors(folder: Path) -> None:
    (file,) = finder(folder).glob("text-*.sqlite3")
    with closing(sqlite3.connect(file)) as connection, connection:
        assert connection.execute("DELETE FROM vector WHERE key % 2 = 0").rowcount > 0


def of_another_context(folder: Path) -> None:
    deleted(folder)
    shutil.copytree(finder(folder, "other"), finder(folder))


def of_another_day(folder: Path) -> None:
    deleted(folder)
    shutil.copytree(folder.with_name("before"), finder(folder))


def settled(http: httpx.Client) -> None:
    """Return once every row has its vector."""
    while not http.get("/index").raise_for_status().json()["settled"]:
        time.sleep(0.05)


async def test_the_answers_do_not_depend_on_the_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEEPS_EMBEDDER", "fake-64")
    assert len(QUESTIONS) == 50
    folder = tmp_path / "memory"
    assert keeps("bootstrap", "--data", str(folder)).exit_code == 0
    assert keeps("bootstrap", "--data", str(folder), "--context", "other").exit_code == 0
    foreign = keeps("remember", "--data", str(folder), "--context", "other", "--as-turn", "a foreign anchor")
    assert foreign.exit_code == 0, foreign.stderr
    with serving(folder) as server:
        with server.client() as http:
            session = http.post("/sessions", json={}).json()["id"]
            for number, word in enumerate(WORDS):
                http.post("/facts", json=note(f"the {word} lies at berth {number}", session_id=session))
                http.post("/facts", json=fact("stowed", f"{word} {number}", name=f"Hold {number % 4}"))
        server.kill()
    shutil.copytree(finder(folder), folder.with_name("before"))
    with Owner(folder) as owner, owner.client() as http:
        http.post("/facts", json=note("the anchor was moved to the pier", session_id=session))
        http.post("/facts", json=fact("stowed", "a spare mast", name="Hold 1"))
        settled(http)
        wanted = answers(http, QUESTIONS)
    assert all(wanted)
    harms = (deleted, truncated, overwritten, without_vectors, without_half_of_the_vectors)
    for harm in (*harms, of_another_context, of_another_day):
        harm(folder)
        with Owner(folder) as owner, owner.client() as http:
            settled(http)
            assert (harm.__name__, answers(http, QUESTIONS)) == (harm.__name__, wanted)
    found = await audit(folder)
    assert "\n".join(found.faults) == ""
