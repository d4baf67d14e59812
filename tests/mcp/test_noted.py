"""What a model asks to be remembered becomes a memory that the person sees, and not history alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from keeps.client import Client
from tests.mcp.conftest import Place, opened
from tests.mcp.test_tools import says


@pytest.mark.parametrize("policy", ["deliberate", "automatic"])
async def test_a_text_waits_for_the_person_or_is_kept_as_the_policy_says(tmp_path: Path, policy: str) -> None:
    async with opened(tmp_path / "m", policy=policy) as place, place.client() as client:
        text, written = await says(client, "remember", text="Prefers short answers.")
        note = written["memory"]["id"]
        _, found = await says(client, "recall", query="short answers", mode="bm25")
        ids = [hit["id"] for hit in found["hits"]]
        if policy == "automatic":
            assert text.endswith(f"Kept as memory:{note}.")
            assert f"attribute:{note}" in ids
            return
        assert f"As a memory it waits for the person's approval: memory:{note}." in text
        assert ids == []
        async with Client(place.memory.endpoint, key=place.owner_key) as owner:
            await owner.memories.confirm(note)
        _, found = await says(client, "recall", query="short answers", mode="bm25")
        assert [hit["id"] for hit in found["hits"]] == [f"attribute:{note}"]


async def test_history_alone_stays_history_and_a_long_text_is_no_note(place: Place) -> None:
    async with place.client() as client:
        for arguments in (
            {"text": "Prefers short answers.", "infer": "none"},
            {"text": "Prefers short answers.", "infer": "preview"},
            {"text": "x " * 1001},
        ):
            _, written = await says(client, "remember", **arguments)
            assert "memory" not in written
