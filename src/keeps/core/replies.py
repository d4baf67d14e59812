"""Answering a repeated write with the reply it got the first time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyKey:
    """Under which name a write keeps its reply, in the same commit as its rows.

    `namespace` is a hash over who asked for what under which key, `fingerprint` a hash of the request;
    `render` turns the value a service returns into the reply as clients see it.
    """

    namespace: str
    fingerprint: str
    expires_at: datetime
    render: Callable[[Any], str]
    status: int = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReply:
    """A reply kept for a repeat. Once a row it tells of was erased, `erased` is true and `body` empty."""

    fingerprint: str
    status: int
    body: str
    erased: bool = False
