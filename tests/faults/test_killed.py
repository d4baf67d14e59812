"""The server and its engine, killed again and again under writers: nothing acknowledged is lost, nothing is torn."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

import psutil
import pytest

from tests.faults.audit import Audit, audit
from tests.faults.server import fact, keeps, note, serving, until
from tests.faults.writers import Writers

pytestmark = pytest.mark.slow
ROUNDS = 6
WRITES_A_ROUND = 25


def complete(found: Audit, written: Writers) -> None:
    """All that was acknowledged is there, once, with all that belongs to it; and nothing else."""
    assert "\n".join(found.faults) == ""
    assert set().union(*written.acknowledged) <= found.refs
    assert {text: found.contents()[text] for text in written.texts} == dict.fromkeys(written.texts, 1)
    values = Counter(row["value"] for row in found.rows["attribute"].values())
    assert values == dict.fromkeys(written.values, 1)
    assert len(found.rows["turn"]) == len(written.acknowledged)


async def test_killing_the_server_loses_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    with serving(folder) as server:
        with Writers(server) as written:
            for number in range(ROUNDS):
                before, engine = written.done(), psutil.Process(server.worker_pid())
                until(lambda before=before: written.done() >= before + WRITES_A_ROUND, what="the writes of a round")
                if number % 2:
                    os.kill(engine.pid, signal.SIGKILL)
                server.kill()
                server.start()
                assert not engine.is_running() or engine.status() == psutil.STATUS_ZOMBIE
            written.finish()
        assert server.stop() == 0
        assert written.broken > 0
        complete(await audit(folder), written)
    told = keeps("doctor", "--data", str(folder))
    assert told.exit_code == 0, told.stdout


async def test_killing_the_engine_loses_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    with serving(folder) as server:
        with Writers(server) as written:
            for _ in range(ROUNDS):
                before, pid = written.done(), server.worker_pid()
                until(lambda before=before: written.done() >= before + WRITES_A_ROUND, what="the writes of a round")
                os.kill(pid, signal.SIGKILL)
                until(lambda pid=pid: server.worker_pid() != pid, what="another engine process")
            written.finish()
        assert written.broken == 0
        assert set(written.statuses) == {200, 503}
        with server.client() as http:
            assert http.post("/facts", json=note("the log is closed")).status_code == 200
        assert server.stop() == 0
        found = await audit(folder)
        del found.rows["turn"][
            next(k for k, row in found.rows["turn"].items() if row["content"] == "the log is closed")
        ]
        complete(found, written)


async def test_a_stopped_engine_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    with serving(folder) as server, server.client() as http:
        assert http.post("/facts", json=note("before it hung")).status_code == 200
        stuck = psutil.Process(server.worker_pid())
        os.kill(stuck.pid, signal.SIGSTOP)
        hung = http.get("/sessions")
        assert hung.status_code == 503
        assert int(hung.headers["Retry-After"]) >= 1
        assert hung.json()["retry_after"] == int(hung.headers["Retry-After"])
        until(lambda: not stuck.is_running() or stuck.status() == psutil.STATUS_ZOMBIE, what="the end of the stuck one")
        assert server.worker_pid() != stuck.pid
        until(lambda: http.post("/facts", json=fact("role", "pilot")).status_code == 200, what="a write")
        assert len(http.get("/sessions").json()["sessions"]) == 2
        assert server.stop() == 0
    found = await audit(folder)
    assert "\n".join(found.faults) == ""
    assert len(found.rows["turn"]) == 2
