"""Which hostile input is checked by what, and which ones wait for the capability they attack."""

from __future__ import annotations

from collections.abc import Callable

from tests.hostile.place import Place

Check = Callable[[Place], None]

IDS = tuple(f"O{number:02}" for number in range(1, 53))
"""Every hostile input there is."""

CHECKS: dict[str, Check] = {}
"""The check of an input. Fill it with `@row`."""

PENDING: dict[str, str] = {
    "O39": "fetching what an address names",
    "O40": "documents that are uploaded",
    "O41": "the memory sheet in a browser",
    "O42": "the memory sheet in a browser",
    "O43": "the memory sheet in a browser",
    "O44": "the memory sheet in a browser",
    "O45": "sign-in to the memory sheet",
}
"""The inputs without a check so far, each with what must exist first."""

PARTLY: dict[str, str] = {
    "O11": "import of memories, as opposed to conversations",
    "O16": "the memory sheet in a browser",
    "O27": "the memory sheet, whose ids could be guessed",
    "O51": "import of memories, as opposed to conversations",
}
"""Inputs whose check covers what there is, each with what it must be widened for once that exists."""


def row(identifier: str) -> Callable[[Check], Check]:
    """Make a function the check of an input."""

    def keep(check: Check) -> Check:
        assert identifier not in CHECKS, f"{identifier} has two checks"
        CHECKS[identifier] = check
        return check

    return keep
