"""A server killed with traces in its hands: those are lost, and nothing else is."""

from __future__ import annotations

import subprocess
from pathlib import Path

import httpx
import pytest

from keeps.store.secrets import saved_keys
from tests.cli.conftest import start_server


@pytest.mark.slow
def test_traces_that_wait_are_lost_by_a_kill_and_the_record_is_not(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    running = start_server(folder)
    headers = {"Authorization": f"Bearer {saved_keys(folder, 'default')['owner']}"}
    asked: list[str] = []
    with httpx.Client(base_url=f"{running.endpoint}/api/v1/default", headers=headers, timeout=30) as http:
        for number in range(20):
            reply = http.post("/facts", json={"text": f"the heron number {number}", "infer": "none"})
            assert reply.status_code == 200, reply.text
            asked.append(http.post("/query", json={"query": f"heron {number}"}).headers["X-Trace-Id"])
    running.stop(subprocess.Popen.kill)
    again = start_server(folder)
    with httpx.Client(base_url=f"{again.endpoint}/api/v1/default", headers=headers, timeout=30) as http:
        hits = http.post("/query", json={"query": "heron", "k": 50}).json()["hits"]
        assert len(hits) == 20
        kept = [row["id"] for row in http.get("/traces?limit=500").json()["traces"]][1:]
        # What was saved is the beginning of what was asked: nothing was saved in part or out of order.
        assert kept == asked[: len(kept)][::-1]
    code, out, err = again.stop()
    assert code == 0, (out, err)
    assert "dropped" not in err
