"""Whether the service answers."""

from __future__ import annotations

from keeps.wire.base import WireOut


class HealthOut(WireOut):
    status: str
    version: str
