"""Errors on the wire: which class is which status, the body every client can read, and the way back.

The body is a union of two conventions: problem details (`type`, `title`, `status`, `detail`, `instance`)
and a plain `message`, because clients in use read one or the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from keeps.core.errors import (
    Conflict,
    Forbidden,
    Gone,
    IllegalTransition,
    Invalid,
    KeepsError,
    Limited,
    NotFound,
    NotImplementedYet,
    SecretRefused,
    StaleHead,
    StaleRevision,
    StoreRefused,
    TooLarge,
    Unauthenticated,
    Unavailable,
    Unprocessable,
    UnsupportedMedia,
)

TYPE_PREFIX: Final = "urn:agent-memory:error:"


@dataclass(frozen=True, slots=True)
class Problem:
    """A kind of error on the wire: its status, the last part of its type, its title."""

    status: int
    slug: str
    title: str


# More specific classes first: an error takes the first row whose class it is.
PROBLEMS: Final[Mapping[type[KeepsError], Problem]] = {
    Invalid: Problem(400, "invalid", "Invalid request"),
    Unauthenticated: Problem(401, "unauthenticated", "Not authenticated"),
    Forbidden: Problem(403, "forbidden", "Not allowed"),
    NotFound: Problem(404, "not-found", "Not found"),
    IllegalTransition: Problem(409, "illegal-transition", "Not possible from here"),
    Conflict: Problem(409, "conflict", "Conflict"),
    Gone: Problem(410, "gone", "Erased"),
    StaleRevision: Problem(412, "stale-revision", "Changed meanwhile"),
    TooLarge: Problem(413, "too-large", "Too large"),
    UnsupportedMedia: Problem(415, "unsupported-media", "Media type not accepted"),
    SecretRefused: Problem(422, "secret-refused", "Secret refused"),
    Unprocessable: Problem(422, "unprocessable", "Content refused"),
    Limited: Problem(429, "too-many-requests", "Too many requests"),
    NotImplementedYet: Problem(501, "not-implemented", "Not implemented"),
    StaleHead: Problem(503, "busy", "Busy"),
    StoreRefused: Problem(503, "store-refused", "Store refused"),
    Unavailable: Problem(503, "unavailable", "Unavailable"),
}

METHOD_NOT_ALLOWED: Final = Problem(405, "method-not-allowed", "Method not allowed")
INTERNAL: Final = Problem(500, "internal", "Internal error")

_EMPTY: Final[Mapping[str, object]] = {}
_BY_SLUG: Final = {problem.slug: kind for kind, problem in PROBLEMS.items()}
_BY_STATUS: Final[Mapping[int, type[KeepsError]]] = {
    **{problem.status: kind for kind, problem in PROBLEMS.items()},
    405: Invalid,
    502: Unavailable,
    504: Unavailable,
}


def problem_of(error: KeepsError) -> Problem:
    """The kind of `error` on the wire; an unlisted class is an internal error."""
    for kind, problem in PROBLEMS.items():
        if isinstance(error, kind):
            return problem
    return INTERNAL


def body_of(problem: Problem, message: str, *, instance: str, retry_after_s: int | None = None) -> dict[str, object]:
    """The JSON body of `problem`; `instance` is the path that was asked for."""
    return {
        "type": TYPE_PREFIX + problem.slug,
        "title": problem.title,
        "status": problem.status,
        "detail": message,
        "instance": instance,
        "message": message,
        "retry_after": retry_after_s,
    }


def error_of(status: int, body: object, *, retry_after_s: int | None = None) -> KeepsError:
    """The error that a reply with this status and body stands for; the other way round of `body_of`.

    Bodies of other servers are understood as far as they go: `message`, else `detail`, `title`, `error`, or
    plain text.
    """
    members: Mapping[str, object] = cast("Mapping[str, object]", body) if isinstance(body, Mapping) else _EMPTY
    slug = str(members.get("type", "")).removeprefix(TYPE_PREFIX)
    kind = _BY_SLUG.get(slug) or _BY_STATUS.get(status) or (Unavailable if status >= 500 else Invalid)
    message = next(
        (
            text
            for name in ("message", "detail", "title", "error")
            if isinstance(text := members.get(name), str) and text
        ),
        body if isinstance(body, str) and body else f"the server answered {status}",
    )
    waits = members.get("retry_after")
    if retry_after_s is None and isinstance(waits, int) and not isinstance(waits, bool):
        retry_after_s = waits
    return kind(message, retry_after_s=retry_after_s)
