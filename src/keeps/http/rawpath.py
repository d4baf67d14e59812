"""Path segments as the client meant them: `%2F` stays inside its segment, nothing is ever redirected.

The server decodes a path before it is matched, so a name that holds a slash would be cut in two. `RawPath`
matches on the path as sent instead: each segment is decoded by itself, with the two characters that would be
mistaken for structure escaped again; the path parameter convertor `segment` undoes that.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote_from_bytes, unquote_to_bytes

from starlette.convertors import Convertor, register_url_convertor
from starlette.types import ASGIApp, Receive, Scope, Send

from keeps.core.errors import Invalid
from keeps.core.text import refuse_bad_text
from keeps.http.errors import send_error

MAX_PATH_BYTES: Final = 8192


class RawPath:
    """ASGI middleware: the router sees segments decoded one by one, and no trailing slash."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                scope["path"] = routable(raw_path(scope))
            except Invalid as error:
                await send_error(error, scope, receive, send)
                return
        await self.app(scope, receive, send)


def raw_path(scope: Scope) -> bytes:
    """The path as the client sent it, percent signs and all, without the query."""
    raw = scope.get("raw_path")
    path = raw if isinstance(raw, bytes) else quote_from_bytes(scope["path"].encode()).encode()
    return path.partition(b"?")[0]


def routable(raw: bytes) -> str:
    """The path to match: segments decoded, `/` and `%` inside them escaped, one trailing slash dropped.

    Raises: Invalid for bytes that are no UTF-8 or characters that cannot be stored.
    """
    if len(raw) > MAX_PATH_BYTES:
        raise Invalid(f"the path takes more than {MAX_PATH_BYTES} bytes")
    if raw.isalnum() or (b"%" not in raw and raw.isascii()):
        path = raw.decode("ascii")
        if path.isprintable():
            return path[:-1] if len(path) > 1 and path.endswith("/") else path
    path = "/".join(_segment(segment) for segment in raw.split(b"/"))
    return path[:-1] if len(path) > 1 and path.endswith("/") else path


def _segment(raw: bytes) -> str:
    try:
        text = unquote_to_bytes(raw).decode("utf-8")
    except UnicodeDecodeError:
        raise Invalid("the path holds bytes that are no UTF-8") from None
    refuse_bad_text(text, what="the path")
    return text.replace("%", "%25").replace("/", "%2F")


class SegmentConvertor(Convertor[str]):
    """One path segment, handed over exactly as the client meant it: `{name:segment}`."""

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        return value.replace("%2F", "/").replace("%25", "%")

    def to_string(self, value: str) -> str:
        return value.replace("%", "%25").replace("/", "%2F")


register_url_convertor("segment", SegmentConvertor())
