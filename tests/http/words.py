"""Words for a server that many tests share."""

from __future__ import annotations

import secrets


def fresh(stem: str = "") -> str:
    """A word that begins with `stem`, and that nothing else in this run uses."""
    return stem + "".join(secrets.choice("bcdfghjklmnpqrstvwxz") for _ in range(10))
