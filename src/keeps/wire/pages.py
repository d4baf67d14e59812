"""Pages on the wire: limits, opaque cursors bound to their list, and what says whether more follows."""

from __future__ import annotations

import hashlib
import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, cast

from pydantic import BeforeValidator, Field

from keeps.core.errors import Invalid
from keeps.core.pages import DEFAULT_LIMIT, MAX_LIMIT, Page, PageRequest, Place
from keeps.wire.base import WireIn, WireOut

_VERSION: Final = 1
_TAG_BYTES: Final = 16
_MAX_CURSOR_CHARS: Final = 4096
_MAX_OFFSET: Final = 1_000_000


def _limit(value: object) -> object:
    """Larger limits are cut down rather than refused, 0 stands for the default."""
    if isinstance(value, str) and value.isdecimal() and len(value) <= 18:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    return DEFAULT_LIMIT if value == 0 else min(value, MAX_LIMIT)


Limit = Annotated[int, BeforeValidator(_limit), Field(ge=1, le=MAX_LIMIT)]
"""Rows on a page: 100 unless asked, 500 at most."""


class PageQuery(WireIn):
    """The query parameters of every list."""

    also: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    limit: Limit = DEFAULT_LIMIT
    cursor: Annotated[str, Field(max_length=_MAX_CURSOR_CHARS)] | None = None
    count: bool = False
    offset: Annotated[int, Field(ge=0, le=_MAX_OFFSET)] | None = None

    def filters(self) -> dict[str, object]:
        """What besides the page narrows or orders the list: a cursor holds for these values only."""
        return self.model_dump(mode="json", exclude={*PageQuery.model_fields, "page", "page_size"})


class PageMeta(WireOut):
    """Whether more follows, and the cursor that gets it."""

    has_more: bool
    next_cursor: str | None = None
    total_size: int | None = None


class Cursors:
    """Makes and reads cursors. `secret` keeps clients from making up places in lists."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def request(self, query: PageQuery, *, route: str) -> PageRequest:
        """The page `query` asks for. Raises: Invalid for a cursor of another list, or used with `offset`."""
        if query.cursor is None:
            return PageRequest(limit=query.limit, offset=query.offset or 0, count=query.count)
        if query.offset:
            raise Invalid("a cursor and an offset cannot be used together: leave the offset out")
        place = self.decode(query.cursor, binding(route, query.filters()))
        return PageRequest(limit=query.limit, after=place, count=query.count)

    def meta(self, page: Page[Any], query: PageQuery, *, route: str) -> PageMeta:
        """What to say about `page` of the list that `query` asked for."""
        if page.next is None:
            return PageMeta(has_more=False, total_size=page.total)
        cursor = self.encode(page.next, binding(route, query.filters()))
        return PageMeta(has_more=True, next_cursor=cursor, total_size=page.total)

    def encode(self, place: Place, bound_to: str) -> str:
        """An opaque, signed name for `place`."""
        text = json.dumps([_VERSION, bound_to, *place], separators=(",", ":"), ensure_ascii=False).encode()
        return urlsafe_b64encode(self._tag(text) + text).rstrip(b"=").decode("ascii")

    def decode(self, cursor: str, bound_to: str) -> Place:
        """The place `cursor` names. Raises: Invalid unless made here for the same list, filters and order."""
        try:
            raw = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        except (Base64Error, ValueError):
            raise _bad_cursor() from None
        tag, text = raw[:_TAG_BYTES], raw[_TAG_BYTES:]
        if not hmac.compare_digest(tag, self._tag(text)):
            raise _bad_cursor()
        version, bound, key, row = cast("tuple[int, str, str, str]", json.loads(text))
        if version != _VERSION or bound != bound_to:
            raise Invalid("this cursor belongs to another list, filter or order: begin again without it")
        return key, row

    def _tag(self, text: bytes) -> bytes:
        return hmac.digest(self._secret, b"cursor\0" + text, "sha256")[:_TAG_BYTES]


def binding(route: str, filters: Mapping[str, object]) -> str:
    """A short hash of a list and everything that narrows or orders it."""
    text = json.dumps([route, filters], sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _bad_cursor() -> Invalid:
    return Invalid("this is no cursor of this server: begin again without it")
