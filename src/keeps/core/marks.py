"""What the ids of keys begin with: whose they are, told by nobody who lacks the secret of the folder."""

from __future__ import annotations

import hmac
from typing import Final

MARK_CHARS: Final = 6

_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz0123456789"


def mark_of(pepper: bytes, context_id: str | None) -> str:
    """The first letters of the ids of all keys of a context, or of management for None."""
    whose = "management" if context_id is None else f"context {context_id}"
    number = int.from_bytes(hmac.digest(pepper, f"keys of {whose}".encode(), "sha256")[:8], "big")
    letters: list[str] = []
    for _ in range(MARK_CHARS):
        number, index = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[index])
    return "".join(letters)
