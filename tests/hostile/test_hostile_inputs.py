"""Every known hostile input, one check an id, through the real server.

A new check is a function with `@row("O…")` in one of the modules named below; its line in `rows.PENDING` goes.
`pytest tests/hostile -rs` lists the inputs that wait.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.hostile import bodies, callers, citing, deciding, fences, guessing, regions, screening, tampering, words
from tests.hostile.place import Place
from tests.hostile.rows import CHECKS, IDS, PARTLY, PENDING

MODULES = (bodies, callers, citing, deciding, fences, guessing, regions, screening, tampering, words)
LIST = os.environ.get("KEEPS_HOSTILE_INPUTS")


@pytest.mark.parametrize("identifier", IDS)
def test_hostile_input(identifier: str, place: Place) -> None:
    if identifier in PENDING:
        pytest.skip(f"{identifier} waits for: {PENDING[identifier]}")
    CHECKS[identifier](place)


def test_every_input_is_checked_or_waits_never_both() -> None:
    assert sorted([*CHECKS, *PENDING]) == list(IDS)
    assert PARTLY.keys() <= CHECKS.keys()
    assert {check.__module__ for check in CHECKS.values()} == {module.__name__ for module in MODULES}


@pytest.mark.skipif(LIST is None, reason="set KEEPS_HOSTILE_INPUTS to the list of inputs to compare their ids")
def test_no_input_of_the_list_is_unknown() -> None:
    assert LIST is not None
    listed = [json.loads(line)["id"] for line in Path(LIST).read_text(encoding="utf-8").splitlines() if line.strip()]
    assert sorted(listed) == list(IDS)
