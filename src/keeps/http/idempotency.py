"""The same write sent twice is done once: `Idempotency-Key` reserves its name, replays its reply.

Reservations live in this process, which is the only one that writes to its folder; replies live in the
record, written in the commit of the write itself.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from keeps.core.errors import Conflict, Gone, Invalid
from keeps.core.replies import ReplyKey, StoredReply

KEY_HEADER: Final = "Idempotency-Key"
REPLAYED_HEADER: Final = "Idempotency-Replayed"
KEPT_FOR: Final = timedelta(hours=24)
WAIT_S: Final = 5.0
MAX_KEY_CHARS: Final = 255


@dataclass(frozen=True, slots=True)
class Answer:
    """A status and a JSON body."""

    status: int
    body: str

    def response(self, *, replayed: bool = False) -> Response:
        """The reply as it is sent."""
        headers = {REPLAYED_HEADER: "true"} if replayed else None
        return Response(self.body, self.status, headers, "application/json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a request claims: the hash of its name and the hash of its content."""

    namespace: str
    fingerprint: str


def claim_of(request: Request, body: object, who: Sequence[str | None]) -> Claim | None:
    """The claim of a request by `who` (context, principal, the one acted for); None without a key.

    Raises: Invalid for a key that is too long, not printable ASCII, or given twice differently.
    """
    keys = set(request.headers.getlist(KEY_HEADER)) - {""}
    if not keys:
        return None
    if len(keys) > 1:
        raise Invalid(f"{KEY_HEADER} is given twice with different values")
    key = keys.pop()
    if len(key) > MAX_KEY_CHARS or not (key.isascii() and key.isprintable()):
        raise Invalid(f"{KEY_HEADER} must be 1 to {MAX_KEY_CHARS} printable ASCII characters")
    query = sorted(request.query_params.multi_items())
    return Claim(
        namespace=_digest([*who, request.method, request.scope["path"], key])[:40],
        fingerprint=_digest([body, query]),
    )


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


@dataclass(slots=True)
class _Running:
    fingerprint: str
    done: asyncio.Future[Answer | None] = field(default_factory=asyncio.Future[Answer | None])


class Reservations:
    """The writes with a key that are running now."""

    def __init__(self, *, wait_s: float = WAIT_S) -> None:
        self._running: dict[str, _Running] = {}
        self._wait_s = wait_s

    def __len__(self) -> int:
        return len(self._running)

    async def once(
        self,
        claim: Claim,
        act: Callable[[], Awaitable[Answer]],
        *,
        find: Callable[[str], Awaitable[StoredReply | None]],
    ) -> Response:
        """The reply of `act`, run unless its reply is known: kept earlier, or given to a twin running now.

        A twin waits up to `wait_s` for the first; when the first fails, the next one tries.

        Raises: Conflict when the same key came with another content, or the first still runs after the wait;
            Gone when what the kept reply tells of was erased; whatever `act` raises.
        """
        twin = await self._await_twin(claim)
        if twin is not None:
            return twin.response(replayed=True)
        running = self._running[claim.namespace] = _Running(claim.fingerprint)
        answer: Answer | None = None
        try:
            kept = await find(claim.namespace)
            if kept is not None:
                return _replay(kept, claim)
            done = await act()
            answer = done if 200 <= done.status < 300 else None
            return done.response()
        finally:
            del self._running[claim.namespace]
            running.done.set_result(answer)

    async def _await_twin(self, claim: Claim) -> Answer | None:
        """The answer of a twin that was running; None when nobody runs, so that the caller may.

        On return of None nothing has been awaited since the check: the caller can reserve safely.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + self._wait_s
        while (running := self._running.get(claim.namespace)) is not None:
            if running.fingerprint != claim.fingerprint:
                raise _other_content()
            done, _ = await asyncio.wait([running.done], timeout=max(0.0, until - loop.time()))
            if not done:
                raise Conflict("the same request is still running: ask again in a moment", retry_after_s=1)
            answer = running.done.result()
            if answer is not None:
                return answer
        return None


def _replay(kept: StoredReply, claim: Claim) -> Response:
    if kept.fingerprint != claim.fingerprint:
        raise _other_content()
    if kept.erased:
        raise Gone("what this request wrote was erased since: send it under a new key to write it again")
    return Answer(kept.status, kept.body).response(replayed=True)


def _other_content() -> Conflict:
    return Conflict(f"this {KEY_HEADER} was used for another request: choose a new one")


def reply_key(claim: Claim, render: Callable[[Any], str], *, now: datetime, status: int = 200) -> ReplyKey:
    """What a service needs to keep the reply with the write: for 24 hours."""
    return ReplyKey(
        namespace=claim.namespace,
        fingerprint=claim.fingerprint,
        expires_at=now + KEPT_FOR,
        render=render,
        status=status,
    )
