"""Reads by the tools of the protocol leave traces that say so."""

from __future__ import annotations

import pytest

from tests.mcp.conftest import Place
from tests.mcp.test_tools import says


@pytest.mark.parametrize("tool", ["recall", "context"])
async def test_a_read_leaves_a_trace_that_names_the_protocol(place: Place, tool: str) -> None:
    await place.memory.remember("The storm lantern hangs in the porch", infer="none")
    async with place.client() as client:
        _, found = await says(client, tool, query="storm lantern")
        trace = await place.memory.traces.get(found["trace_id"])
        assert (trace.source, trace.retrieved_count, trace.query_text) == ("mcp", 1, "")
        text, seen = await says(client, "inspect", ref=f"trace:{found['trace_id']}")
        assert (seen["kind"], seen["trace"]["id"]) == ("trace", found["trace_id"])
        assert "lantern" not in text
