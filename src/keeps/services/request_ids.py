"""The id of the request that is being served: what is written down on its behalf names it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_CURRENT: Final[ContextVar[str | None]] = ContextVar("keeps_request_id", default=None)


def current() -> str | None:
    """The id of the request that this task works for; None for work that nobody asked for."""
    return _CURRENT.get()


@contextmanager
def serving(request_id: str) -> Generator[None]:
    """All that is done in the block, and in tasks it begins, is done for this request."""
    before = _CURRENT.set(request_id)
    try:
        yield
    finally:
        _CURRENT.reset(before)
