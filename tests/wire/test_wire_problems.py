"""One table maps errors to statuses, and back."""

from __future__ import annotations

import inspect

import pytest

from keeps.core import errors
from keeps.core.errors import Conflict, Invalid, KeepsError, Limited, NotFound, Unavailable
from keeps.wire.problems import INTERNAL, PROBLEMS, body_of, error_of, problem_of

CLASSES = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, KeepsError) and kind is not KeepsError
]


def test_every_error_of_the_tree_has_a_status() -> None:
    assert set(CLASSES) == set(PROBLEMS)
    assert problem_of(KeepsError("?")) is INTERNAL


@pytest.mark.parametrize("kind", CLASSES)
def test_an_error_comes_back_as_its_class(kind: type[KeepsError]) -> None:
    problem = problem_of(kind("no such thing"))
    body = body_of(problem, "no such thing", instance="/api/v1/a/x", retry_after_s=3)
    back = error_of(problem.status, body)
    assert type(back) is kind
    assert (back.message, back.retry_after_s) == ("no such thing", 3)


def test_the_body_is_readable_in_both_conventions() -> None:
    body = body_of(problem_of(NotFound("gone")), "gone", instance="/p")
    assert body == {
        "type": "urn:agent-memory:error:not-found",
        "title": "Not found",
        "status": 404,
        "detail": "gone",
        "instance": "/p",
        "message": "gone",
        "retry_after": None,
    }


@pytest.mark.parametrize(
    ("status", "body", "kind", "message"),
    [
        (404, {"message": "m"}, NotFound, "m"),
        (409, {"title": "t"}, Conflict, "t"),
        (400, "plain text", Invalid, "plain text"),
        (418, None, Invalid, "the server answered 418"),
        (500, {"error": "e"}, Unavailable, "e"),
        (429, {"message": "slow", "retry_after": 2}, Limited, "slow"),
    ],
)
def test_foreign_bodies_are_understood(status: int, body: object, kind: type[KeepsError], message: str) -> None:
    back = error_of(status, body)
    assert type(back) is kind
    assert back.message == message
