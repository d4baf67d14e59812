"""Places among the requests that are served at once. A slow sender takes none while its body is awaited."""

from __future__ import annotations

from collections import Counter

from starlette.types import Message, Receive, Scope

from keeps.core.errors import Unavailable


class Slots:
    """At most `limit` requests run at once. Of one key, a quarter as many more may be sending their bodies."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.most_sending = max(1, limit // 4)
        self.running = 0
        self.sending: Counter[bytes] = Counter()

    def enter(self) -> None:
        """Take a place. Raises: Unavailable when all are taken."""
        if self.running >= self.limit:
            raise Unavailable("too many requests are running: ask again in a moment", retry_after_s=1)
        self.running += 1

    def leave(self) -> None:
        """Give a place back."""
        self.running -= 1


class Slot:
    """The place of one request, and the way to read its body: waiting for the body, the place is free for others.

    Raises Unavailable, from reading, when too many of the same key are sending, or when all places are taken by
    the time the body is there.
    """

    def __init__(self, slots: Slots, scope: Scope, receive: Receive) -> None:
        slots.enter()
        self._slots = slots
        self._receive = receive
        # Bodies are read when the key was found good: a stranger cannot use up the places of a key, nor invent keys.
        self._key = b" ".join(value for name, value in scope["headers"] if name == b"authorization")
        self._runs = True
        self._sends = False
        self._whole = False

    async def receive(self) -> Message:
        """The next part of the body, as ASGI has it."""
        if self._whole:
            return await self._receive()
        if not self._sends:
            self._begin()
        message = await self._receive()
        if not message.get("more_body", False):
            self._whole = True
            self._end_sending()
            if message["type"] != "http.disconnect":
                self._slots.enter()
                self._runs = True
        return message

    def close(self) -> None:
        """Give back what is held."""
        if self._sends:
            self._end_sending()
        if self._runs:
            self._runs = False
            self._slots.leave()

    def _begin(self) -> None:
        if self._slots.sending[self._key] >= self._slots.most_sending:
            raise Unavailable(
                "too many requests with this key are still sending their bodies: ask again in a moment", retry_after_s=1
            )
        self._slots.sending[self._key] += 1
        self._sends = True
        self._runs = False
        self._slots.leave()

    def _end_sending(self) -> None:
        self._sends = False
        self._slots.sending[self._key] -= 1
        if not self._slots.sending[self._key]:
            del self._slots.sending[self._key]
