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
    "O11": "import of memories, as opposed to conversations",
    "O12": "citations, which refresh a memory",
    "O27": "traces, receipts and the memory sheet, whose ids could be guessed",
    "O31": "the routes of single memories",
    "O32": "sorting by a field that the caller names",
    "O39": "fetching what an address names",
    "O40": "documents that are uploaded",
    "O41": "the memory sheet in a browser",
    "O42": "the memory sheet in a browser",
    "O43": "the memory sheet in a browser",
    "O44": "the memory sheet in a browser",
    "O45": "sign-in to the memory sheet",
    "O47": "proposals that a person confirms",
    "O48": "citations, which refresh a memory",
    "O50": "caps on proposals",
    "O51": "import of memories, as opposed to conversations",
    "O52": "the audit log",
}
"""The inputs without a check so far, each with what must exist first."""


def row(identifier: str) -> Callable[[Check], Check]:
    """Make a function the check of an input."""

    def keep(check: Check) -> Check:
        assert identifier not in CHECKS, f"{identifier} has two checks"
        CHECKS[identifier] = check
        return check

    return keep
