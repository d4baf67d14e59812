"""Modules below that are loaded when a request is read: who only reads replies does without the whole service."""

from __future__ import annotations

import importlib
from typing import Any


class Late:
    """Stands for a module until something of it is asked for. For the type checker import the module itself."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(importlib.import_module(self._name), name)
