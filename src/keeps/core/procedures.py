"""How one agent should behave, as an admin set it: free text in versions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from keeps.core.access import PrincipalId

MAX_CHARS: Final = 2000
"""The longest text for one agent, code points."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Procedure:
    """The instructions of one agent. `id`: of the row. `version` counts from 1; `until` None while it holds."""

    id: str
    agent: PrincipalId
    text: str
    version: int
    set_by: str
    since: datetime
    until: datetime | None = None
