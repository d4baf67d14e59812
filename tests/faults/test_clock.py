"""The clock of the machine is set back: what was written last still comes last."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from keeps.config import Config
from keeps.http.app import create_app
from keeps.services import contexts
from keeps.services.runtime import Runtime, open_runtime
from tests.faults.audit import audit
from tests.faults.server import fact, note

pytestmark = pytest.mark.slow

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


class Clock:
    """Shows a time until it is set."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def client(rt: Runtime, key: str) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(create_app(rt))
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1/api/v1/default", headers=headers)


async def test_heads_stay_the_last_written(clock: Clock, tmp_path: Path) -> None:
    async with open_runtime(Config(data=tmp_path / "memory"), clock=clock) as rt:
        await heads_stay(rt, clock)
    assert "\n".join((await audit(tmp_path / "memory")).faults) == ""


async def heads_stay(rt: Runtime, clock: Clock) -> None:
    made = await contexts.bootstrap(rt, "default")
    back = [0, 1, 5, 0, 24, 24, 500, 0]
    async with client(rt, made.owner_key) as http:
        session = (await http.post("/sessions", json={})).json()["id"]
        for number, hours in enumerate(back):
            clock.now = NOON - timedelta(hours=hours)
            for body in (fact("role", f"role {number}"), note(f"entry {number}", session_id=session)):
                assert (await http.post("/facts", json=body)).status_code == 200
            live = (await http.get("/attributes")).json()["attributes"]
            assert [row["value"] for row in live] == [f"role {number}"]
            found = (await http.post("/query", json={"query": "what is Mara's role"})).json()["hits"]
            assert [hit["text"] for hit in found if "role" in hit["text"]] == [f"Mara's role is role {number}."]
        history = (await http.get("/entities/person/Mara/history/role")).json()["history"]
        assert [row["value"] for row in history] == [f"role {number}" for number in reversed(range(len(back)))]
        times = [datetime.fromisoformat(row["createdAt"]) for row in history]
        assert times == sorted(set(times), reverse=True)
        turns = (await http.get(f"/sessions/{session}/turns")).json()["turns"]
        assert [turn["content"] for turn in turns] == [f"entry {number}" for number in range(len(back))]


async def test_nothing_that_ended_comes_back_with_the_old_time(clock: Clock) -> None:
    """A key that was revoked, a memory that was forgotten and a reply that was kept do not look at the clock."""
    async with open_runtime(Config(), clock=clock) as rt:
        await nothing_comes_back(rt, clock)


async def nothing_comes_back(rt: Runtime, clock: Clock) -> None:
    made = await contexts.bootstrap(rt, "default")
    async with client(rt, made.owner_key) as http:
        minted = (await http.post("/keys", json={"name": "guest"})).json()["key"]
        guest: dict[str, Any] = {"headers": {"Authorization": f"Bearer {minted}"}}
        once = {"Idempotency-Key": "once"}
        first = await http.post("/facts", json=note("the hold is empty"), headers=once)
        assert (await http.get("/me", **guest)).status_code == 200
        assert (await http.delete("/keys/guest")).status_code == 204
        await http.post("/facts", json=note("a secret berth"))
        assert (await http.post("/forget", json={"query": "a secret berth"})).json()["memories"] == 1
        for hours in (1, 24 * 365):
            clock.now = NOON - timedelta(hours=hours)
            assert (await http.get("/me", **guest)).status_code == 401
            assert (await http.post("/query", json={"query": "secret berth"})).json()["hits"] == []
            again = await http.post("/facts", json=note("the hold is empty"), headers=once)
            assert (again.status_code, again.text) == (200, first.text)
