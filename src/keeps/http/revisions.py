"""Which state a change is meant for: the `If-Match` of a request, and the `ETag` of a reply."""

from __future__ import annotations

import re
from typing import Final

from fastapi import Request

from keeps.core.errors import Invalid

_TAG: Final = re.compile(r'(?:W/)?"(\d{1,15})"|(\d{1,15})')


def expected_revision(request: Request) -> int | None:
    """The number in `If-Match`, with or without quotes; None without the header. Raises: Invalid for anything else."""
    given = request.headers.get("if-match")
    if given is None:
        return None
    found = _TAG.fullmatch(given.strip())
    if found is None:
        raise Invalid('If-Match names one state, as its ETag does: If-Match: "3"')
    return int(found[1] or found[2])


def tagged(revision: int) -> dict[str, str]:
    """The headers of a reply that shows a state."""
    return {"ETag": f'"{revision}"'}
