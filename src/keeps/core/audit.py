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


# --- where the chain ends, and where it begins anew ------------------------------------------------------

RESTART: Final = "audit.restart"
"""Says that the record was put back as it was at an earlier time, or lives on under another key."""

_NEW_KEY: Final = "new"


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The last row of a chain as it was at a time, kept apart from the rows. `seal`: over all of it."""

    seq: int
    mac: str
    at: datetime
    seal: str = ""


def sealed_head(secret: bytes, seq: int, mac: str, at: datetime) -> Head:
    """The end of a chain, sealed."""
    return Head(seq=seq, mac=mac, at=at, seal=_head_seal(secret, seq, mac, at))


def head_holds(secret: bytes, head: Head) -> bool:
    """True when nothing of a kept end was changed, and it was sealed with this key."""
    return hmac.compare_digest(head.seal, _head_seal(secret, head.seq, head.mac, head.at))


def _head_seal(secret: bytes, seq: int, mac: str, at: datetime) -> str:
    text = json.dumps(["head", seq, mac, round(at.timestamp() * 1_000_000)], separators=(",", ":"))
    return hmac.new(secret, text.encode(), sha256).hexdigest()


def restart_entry(why: str, *, new_key: bool) -> Entry:
    """What a chain says where it begins anew. `new_key`: the rows before are sealed with a key that is lost."""
    return Entry(
        actor="system", action=RESTART, target="audit", after={"why": why, "key": _NEW_KEY if new_key else "same"}
    )


def begins_a_key(row: Sealed) -> bool:
    """True for a row from which on another key holds."""
    return row.entry.action == RESTART and (row.entry.after or {}).get("key") == _NEW_KEY
