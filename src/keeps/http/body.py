"""Reading a JSON body: at most 1 MiB unless set otherwise, and only what every reader of JSON understands the same way.

Size, nesting and length of arrays are settled on the bytes before anything is parsed, so that a hostile body
costs a bounded amount of time and memory. Duplicate names, numbers that would be rounded or wrapped, and text
that cannot be stored are refused.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any, Final, Generic, NoReturn, TypeVar, cast

from fastapi import Request
from pydantic import BaseModel
from starlette.requests import ClientDisconnect
from starlette.types import Receive

from keeps.core.errors import Invalid, TooLarge, UnsupportedMedia
from keeps.core.text import MAX_DEPTH, MAX_SAFE_INT, refuse_unstorable
from keeps.wire.base import validated

MAX_BODY_BYTES: Final = 1024 * 1024
BODY_S: Final = 10.0
"""How long a body may take to arrive, seconds from when it is asked for to its last byte."""

CLOSES: Final = "closes"
"""In the state of a request: its connection is closed after the reply, since what would follow is not read."""

MAX_ITEMS: Final = 1000
_MAX_DIGITS: Final = len(str(MAX_SAFE_INT)) + 1

# A whole string or one structural character. Possessive repeats: a long string is passed over in one go.
_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{},]', re.DOTALL)
_BLANK: Final = b" \t\r\n"
_OPENING: Final = (b"[", b"{")

ModelT = TypeVar("ModelT", bound=BaseModel)


class JsonBody(Generic[ModelT]):
    """A dependency that gives the body of a request as `model`: `Depends(JsonBody(FactsIn))`.

    An absent or empty body counts as `{}`: what is then missing is said by the model.
    """

    def __init__(self, model: type[ModelT]) -> None:
        self.model = model

    async def __call__(self, request: Request) -> ModelT:
        """Raises: Invalid, TooLarge, UnsupportedMedia."""
        members = await read_object(request)
        request.scope["state"]["body"] = members
        return validated(self.model, members)


async def read_object(request: Request) -> dict[str, Any]:
    """The members of the JSON object in the body; empty for an empty body. Raises as `JsonBody` does."""
    data = await read_bytes(request, limit_bytes=request.app.state.settings.max_body_bytes)
    # A client that sends no body may still name a type of its own choice for it.
    if not data.strip(_BLANK):
        return {}
    check_media(request)
    return parse_object(data)


def check_media(request: Request) -> None:
    """Raises: UnsupportedMedia for a compressed body or a content type other than JSON; none is fine."""
    headers = request.headers
    if headers.get("content-encoding", "identity").strip().lower() not in {"", "identity"}:
        raise UnsupportedMedia("compressed request bodies are not accepted: send the JSON as it is")
    media, _, parameters = headers.get("content-type", "").partition(";")
    media = media.strip().lower()
    if media not in {"", "application/json"} and not (media.startswith("application/") and media.endswith("+json")):
        raise UnsupportedMedia("send the body as application/json")
    charset = re.search(r"charset\s*=\s*\"?([^\s;\"]+)", parameters, re.IGNORECASE)
    if charset is not None and charset.group(1).lower() not in {"utf-8", "utf8", "us-ascii", "ascii"}:
        raise UnsupportedMedia("send the body in UTF-8")


async def read_bytes(request: Request, *, limit_bytes: int = MAX_BODY_BYTES) -> bytes:
    """The body, read until it ends or goes over `limit_bytes`.

    Raises: TooLarge; Invalid when it takes longer than 10 seconds; ClientDisconnect.
    """
    length = request.headers.get("content-length")
    if length is not None and (not length.isdecimal() or int(length[:20]) > limit_bytes):
        raise _too_large(limit_bytes)
    try:
        async with asyncio.timeout(BODY_S):
            return await _read_stream(request.receive, limit_bytes)
    except TimeoutError:
        request.scope["state"][CLOSES] = True
        raise Invalid(f"the body did not arrive within {BODY_S:g} seconds: send it in smaller parts") from None


async def _read_stream(receive: Receive, limit_bytes: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > limit_bytes:
            raise _too_large(limit_bytes)
        chunks.append(chunk)
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _too_large(limit_bytes: int) -> TooLarge:
    return TooLarge(f"a body may hold at most {limit_bytes} bytes")


def parse_object(data: bytes) -> dict[str, Any]:
    """The members of the JSON object in `data`; empty for blank `data`. Raises: Invalid."""
    if not data.strip(_BLANK):
        return {}
    check_shape(data)
    try:
        value: object = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_number,
            parse_constant=_constant,
        )
    except UnicodeDecodeError:
        raise Invalid("the body is no UTF-8") from None
    except (json.JSONDecodeError, RecursionError):
        raise Invalid("the body is not well-formed JSON") from None
    if not isinstance(value, dict):
        raise Invalid("the body must be a JSON object")
    members = cast("dict[str, Any]", value)
    refuse_unstorable(members, what="the body")
    return members


def check_shape(data: bytes) -> None:
    """One pass over the bytes. Raises: Invalid for nesting deeper than 32 or an array of over 1,000 items."""
    deep = data.count(b"[") + data.count(b"{") > MAX_DEPTH
    long = data.count(b",") >= MAX_ITEMS
    if not deep and not long:
        return
    commas: list[int] = []
    for match in _TOKEN.finditer(data):
        token = match.group()
        if token in _OPENING:
            if len(commas) == MAX_DEPTH:
                raise Invalid(f"the body is nested deeper than {MAX_DEPTH}")
            commas.append(0)
        elif token in (b"]", b"}"):
            if commas:
                commas.pop()
        elif token == b"," and commas:
            commas[-1] += 1
            if commas[-1] >= MAX_ITEMS:
                raise Invalid(f"an array or object in the body holds more than {MAX_ITEMS} items")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise Invalid("duplicate key: an object in the body names one member twice")
    return members


def _integer(digits: str) -> int:
    if len(digits) > _MAX_DIGITS or abs(value := int(digits)) > MAX_SAFE_INT:
        raise Invalid("an integer in the body lies beyond 2^53: send it as text")
    return value


def _number(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise Invalid("a number in the body is too large to keep")
    return value


def _constant(name: str) -> NoReturn:
    raise Invalid(f"{name} is no JSON number")
