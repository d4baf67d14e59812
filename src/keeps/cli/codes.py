"""How a command ends: which error is which exit code, and what is said about it."""

from __future__ import annotations

import sys
from typing import Final

from keeps.core.errors import Gone, KeepsError, NotFound, StaleHead, StoreRefused, Unauthenticated, Unavailable
from keeps.core.fence import plain

FAILED: Final = 1
USAGE: Final = 2
NOT_FOUND: Final = 3
UNAVAILABLE: Final = 4

_CODES: Final[dict[type[KeepsError], int]] = {
    StoreRefused: USAGE,
    NotFound: NOT_FOUND,
    Gone: NOT_FOUND,
    Unavailable: UNAVAILABLE,
    StaleHead: UNAVAILABLE,
}


def exit_code_of(error: KeepsError) -> int:
    """1 for what the service refused, 2 for a folder it must not open, 3 for nothing there, 4 for try again."""
    return next((code for kind, code in _CODES.items() if isinstance(error, kind)), FAILED)


_KEY: Final = (
    "the key is not one of this context: give another in KEEPS_KEY or --key. Beside a folder leave both out, and the "
    "owner's key in its keys.json is used"
)


def say_error(error: KeepsError) -> None:
    """One line on stderr."""
    # The service speaks of a header, which nobody writes in a shell.
    message = _KEY if isinstance(error, Unauthenticated) else plain(error.message)
    print(f"keeps: {message}", file=sys.stderr)
