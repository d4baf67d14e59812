"""What a model is told when a call fails: what to do, and nothing of what was asked or remembered.

An error stands outside the fence. A name or reference that it repeated could be a text that somebody else wrote.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, cast

from keeps.core.errors import (
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    KeepsError,
    Limited,
    NotFound,
    SecretRefused,
    TooLarge,
    Unauthenticated,
    Unprocessable,
)

_NAMING: Final[Mapping[type[KeepsError], str]] = {
    NotFound: "there is nothing by that name or id that this key may see",
    Forbidden: "this key may not do that there: leave the scope out, or name one that it may use",
    Conflict: "that conflicts with what is there, or names too many: choose another name, or fewer labels",
    Gone: "what this names was erased",
    SecretRefused: "that holds a secret, and secrets are never remembered: leave it out",
    Unprocessable: "the content was refused: see what the tool takes",
}
"""Errors that say which thing they are about: only the kind is told."""

_OTHERS: Final[Mapping[type[KeepsError], str]] = {
    Invalid: "an argument is malformed: see what the tool takes",
    TooLarge: "that is too long: split it",
    Limited: "a budget or a rate is used up: try again later",
    Unauthenticated: "the key of this connection is not accepted: the person has to set another",
}
_ANY: Final = "the memory cannot answer now: try again later"

_PLAIN: Final = re.compile(r"[ !#-%'-;=?@A-Z\\^_a-z~]*")
"""Printable ASCII without what opens or closes a tag, a string, a template token or code."""

_SHORT: Final = 3
"""Arguments shorter than this are part of any sentence."""


def told(error: KeepsError, arguments: Mapping[str, object] | None) -> str:
    """What is said of an error: its own message where that cannot hold anything of the arguments, else a fixed one."""
    for kind, sentence in _NAMING.items():
        if isinstance(error, kind):
            return sentence
    message = error.message
    said = message.casefold()
    echoes = any(len(text) >= _SHORT and text in said for text in _texts(arguments))
    if message and _PLAIN.fullmatch(message) and not echoes:
        return message
    return next((sentence for kind, sentence in _OTHERS.items() if isinstance(error, kind)), _ANY)


def _texts(value: object) -> Iterator[str]:
    """Every text in the arguments, as compared."""
    if isinstance(value, str):
        yield value.strip().casefold()
    elif isinstance(value, Mapping):
        for each in cast("Mapping[str, object]", value).values():
            yield from _texts(each)
    elif isinstance(value, Sequence):
        for each in cast("Sequence[object]", value):
            yield from _texts(each)
