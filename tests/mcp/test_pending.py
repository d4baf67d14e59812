"""What waits for a person is told by the tools as a number, outside the fence."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from keeps.mcp import rendering
from keeps.wire.facts import FactsOut
from keeps.wire.query import ContextOut

AT = datetime(2026, 5, 1, tzinfo=UTC)


def block(pending: int, context: str = "<memory-0123456789abcdef>\n</memory-0123456789abcdef>") -> str:
    return rendering.block(ContextOut(context=context, pending=pending, tier="hybrid", query_ms=1))


@pytest.mark.parametrize(
    ("pending", "last"),
    [
        (1, "1 proposal waits for the person to decide on: keeps inbox."),
        (3, "3 proposals wait for the person to decide on: keeps inbox."),
    ],
)
def test_the_block_says_how_many_wait_behind_the_fence(pending: int, last: str) -> None:
    assert block(pending).splitlines()[-2:] == ["</memory-0123456789abcdef>", last]
    assert block(pending, "").splitlines() == [rendering.NOTHING, last]


def test_nothing_is_said_when_nothing_waits() -> None:
    assert "wait" not in block(0)


def test_a_write_says_what_waits_and_what_was_not_kept() -> None:
    told = FactsOut.parse(
        {
            "turnId": "t1",
            "sessionId": "s1",
            "mode": "triples",
            "extraction": {
                "turnId": "t1",
                "proposals": [{"id": "p1", "kind": "fact", "status": "proposed", "text": "", "reason": "policy"}],
                "dropped": [{"reason": "suppressed", "kind": "fact"}],
            },
        }
    )
    assert rendering.written(told) == (
        "Remembered: turn:t1. 1 waits for the person's approval, 1 not kept (suppressed)."
    )
