"""Names for people that say nothing about who they are, made with a key that stays with the application."""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Literal, Protocol, Unpack

from keeps.client.nouns import ScopeSpelling
from keeps.client.verbs import Asked
from keeps.core.errors import Invalid
from keeps.wire.query import QueryOut
from keeps.wire.scopes import ScopeForgetOut

MIN_KEY_BYTES: Final = 32
LENGTH: Final = 26
"""Characters of a pseudonym after its prefix: 130 bits."""

_VERSION: Final = re.compile(r"p[1-9][0-9]{0,3}")


class Forgets(Protocol):
    """What forgetting a person needs of a memory."""

    async def forget_scope(self, path: str) -> ScopeForgetOut: ...
    async def recall(self, query: str, **asked: Unpack[Asked]) -> QueryOut: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgotMe:
    """`rows` and `memories` that went; `left`: what a look afterwards still found, of rows and of hits."""

    rows: int
    memories: int
    left: int

    @property
    def verified(self) -> bool:
        """True when nothing was found afterwards."""
        return self.left == 0


class Pseudonyms:
    """Scopes of people by keyed hash: `Pseudonyms(key, context="tutor", issuer="accounts").scope("mara@x.example")`.

    The service never learns who a person is, and without the key nobody can try out addresses against the names. Keep
    the key, another one for each context, outside the memory. `issuer`: who gave the user ids out. A new key gets a new
    `version`, so that its names have another prefix and nobody is mistaken for somebody else.

    Raises: Invalid for a key below 32 bytes, a version that is not `p1`, `p2` …, or an empty name.
    """

    def __init__(self, key: bytes, context: str, issuer: str, version: str = "p1") -> None:
        if len(key) < MIN_KEY_BYTES:
            raise Invalid(
                f"a key of pseudonyms has at least {MIN_KEY_BYTES} bytes: make one with secrets.token_bytes(32)"
            )
        if not _VERSION.fullmatch(version):
            raise Invalid("the version of a key is p1, p2 …")
        self._key = bytes(key)
        self._before = b"".join(_bytes(part, what) + b"\0" for part, what in ((context, "context"), (issuer, "issuer")))
        self.version = version

    def __repr__(self) -> str:
        return f"Pseudonyms(version={self.version!r})"

    def name(self, user_id: str) -> str:
        """The person's pseudonym, `p1-` and 26 characters of a-z and 2-7; fit to name an entity. Raises: Invalid."""
        digest = hmac.new(self._key, self._before + _bytes(user_id, "user id"), sha256).digest()
        return f"{self.version}-{base64.b32encode(digest).decode().lower()[:LENGTH]}"

    def scope(self, user_id: str) -> str:
        """The scope of everything about a person: `user/p1-…`. Raises: Invalid."""
        return f"user/{self.name(user_id)}"

    def entity(self, user_id: str) -> str:
        """The person as facts name them: `person/p1-…`. Raises: Invalid."""
        return f"person/{self.name(user_id)}"

    async def forget_me(self, memory: Forgets, user_id: str) -> ForgotMe:
        """Erase everything in a person's scope and look whether anything is still found there.

        The look asks for their name in facts and passages, and erases once more, which must find nothing to erase.
        Raises: Forbidden without `memory:forget` over the scope, Unavailable.
        """
        name, scope = self.name(user_id), self.scope(user_id)
        gone = await memory.forget_scope(scope)
        include: Sequence[Literal["facts", "passages"]] = ("facts", "passages")
        lens: ScopeSpelling = [[scope]]
        found = await memory.recall(name, lens=lens, include=include, k=50, min_score=0.0, source="forget_me")
        again = await memory.forget_scope(scope)
        left = len(found.hits) + again.forgotten
        return ForgotMe(rows=gone.forgotten, memories=gone.memories or 0, left=left)


def _bytes(text: str, what: str) -> bytes:
    # The zero byte stands between the parts: inside one it could make two people one.
    if not text or "\0" in text:
        raise Invalid(f"a {what} is not empty and holds no zero character")
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise Invalid(f"a {what} holds half a character (a lone surrogate): decode it properly first") from None
