"""Which of two shapes a list takes: newer clients read an object with a page, older ones a bare array."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, cast

from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import Response

from keeps.core.errors import Invalid
from keeps.http.shell import ShellSettings
from keeps.wire.base import WireOut

ENVELOPE_HEADER: Final = "X-List-Envelope"
_PAGED: Final = frozenset({"limit", "cursor", "count"})


class ListShape(StrEnum):
    """`object`: rows under a name, with `page`. `array`: the rows alone."""

    OBJECT = "object"
    ARRAY = "array"


def list_shape(request: Request) -> ListShape:
    """The shape this client reads: what it asks for, else what its way of asking and its name tell.

    Raises: Invalid for an unknown value of the header.
    """
    settings: ShellSettings = request.app.state.settings
    asked = request.headers.get(ENVELOPE_HEADER)
    if asked is not None:
        try:
            return ListShape(asked.strip().lower())
        except ValueError:
            raise Invalid(f"{ENVELOPE_HEADER} is array or object") from None
    if _PAGED & request.query_params.keys():
        return ListShape.OBJECT
    if request.headers.get("user-agent", "").startswith(settings.legacy_list_user_agents):
        return ListShape.ARRAY
    return ListShape.ARRAY if settings.legacy_lists else ListShape.OBJECT


def listed(request: Request, out: WireOut) -> Response:
    """`out` as this client reads lists: whole, or its rows alone, which are its one list."""
    if list_shape(request) is ListShape.OBJECT:
        return Response(out.to_json(), media_type="application/json")
    rows = next(cast("list[object]", value) for _, value in out if isinstance(value, list))
    return Response(to_json(rows, exclude_none=True, by_alias=True), media_type="application/json")
