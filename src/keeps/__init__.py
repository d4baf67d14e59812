"""Agent memory that people can see, correct and erase."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from keeps.core import errors
from keeps.core.errors import KeepsError

if TYPE_CHECKING:
    from keeps.client import Client
    from keeps.core.citations import Verified, verify_cites
    from keeps.memory import Memory
    from keeps.sync import SyncMemory

__all__ = ["Client", "KeepsError", "Memory", "SyncMemory", "Verified", "errors", "verify_cites"]

_HOMES = {
    "Client": "keeps.client",
    "Memory": "keeps.memory",
    "SyncMemory": "keeps.sync",
    "Verified": "keeps.core.citations",
    "verify_cites": "keeps.core.citations",
}


def __getattr__(name: str) -> Any:
    """Load the library when it is first used: importing the package alone costs nothing."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
