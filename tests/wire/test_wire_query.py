"""What a question may say."""

from __future__ import annotations

import pytest

from keeps.core.errors import Invalid
from keeps.core.modes import Mode
from keeps.services.recall import Recall
from keeps.wire.base import validated
from keeps.wire.query import ContextIn, QueryIn


def test_a_question_becomes_a_request() -> None:
    asked = validated(QueryIn, {"query": "heron", "minScore": 0.5, "mode": "graph", "source": "notebook"}).to_core()
    assert (asked.min_score, asked.mode, asked.source) == (0.5, Mode.GRAPH, "notebook")
    assert validated(QueryIn, {"query": "heron"}).to_core() == Recall(query="heron", source="query")
    block = validated(ContextIn, {"query": "heron", "min_score": 0}).to_core()
    assert block == Recall(query="heron", min_score=0.0, source="context")


@pytest.mark.parametrize("floor", [-0.01, 1.01, "much"])
def test_a_floor_outside_of_nought_to_one_is_refused(floor: object) -> None:
    with pytest.raises(Invalid):
        validated(QueryIn, {"query": "heron", "minScore": floor})
