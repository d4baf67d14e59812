"""What was done, by whom, to what: rows of ids and fixed words, each sealed with the one before it."""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, Final

FIRST: Final = ""
"""What stands for the seal before the first row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing that was done or refused. `actor`: a principal, or `sweep`, `policy`, `system`. `action`: a fixed word
    as `memory.confirm` or `denied.memory.confirm`. `target`: what it was done to, `table:id`, a node or a setting.
    `before`, `after`: of settings alone, secrets masked. `request`: the id of the request, when there is one.
    """

    actor: str
    action: str
    target: str
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    request: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """An entry in its place: `seq` counts from 1 without gaps."""

    seq: int
    at: datetime
    entry: Entry
    prev: str
    mac: str


def sealed(secret: bytes, seq: int, at: datetime, entry: Entry, prev: str) -> Sealed:
    """The entry with its seal: HMAC-SHA-256 over all it says, its number, its time and the seal before it."""
    return Sealed(seq=seq, at=at, entry=entry, prev=prev, mac=_mac(secret, seq, at, entry, prev))


def holds(secret: bytes, row: Sealed) -> bool:
    """True when nothing of the row was changed since it was sealed."""
    return hmac.compare_digest(row.mac, _mac(secret, row.seq, row.at, row.entry, row.prev))


def _mac(secret: bytes, seq: int, at: datetime, entry: Entry, prev: str) -> str:
    said = [seq, round(at.timestamp() * 1_000_000), entry.actor, entry.action, entry.target]
    more = [entry.before, entry.after, entry.request, prev]
    text = json.dumps([*said, *more], ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    return hmac.new(secret, text.encode(), sha256).hexdigest()
