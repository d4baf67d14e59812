"""What a caller gave to a verb, looked at before it is sent: options by name, and facts that would be lost.

The service takes an entry of triples without value, target and verb for the entity alone, and lets members pass that
it does not know, as its published contract says. From Python such an entry is a slip.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, cast

from keeps.core.errors import Invalid, Unprocessable

MAX_K: Final = 50

_CLOSE: Final = 0.6
_ELSEWHERE: Final = {"limit": "k", "top_k": "k", "n": "k", "scope": "lens", "scopes": "lens", "session_id": "session"}
"""What other interfaces call an option of ours."""

_SAYING: Final = ("value", "target", "verb")
MEMBERS: Final = (
    "entity",
    "key",
    *_SAYING,
    "object",
    "summary",
    "memory_category",
    "confidence",
    "occurred_at",
    "temporal_hint",
    "valid_from",
    "valid_until",
    "source_clause",
)


def check_options(verb: str, options: Mapping[str, Any], known: frozenset[str]) -> None:
    """Nothing when every option is a known one. Raises: TypeError naming the first that is not; Invalid for `k`."""
    for name in options:
        if name not in known:
            raise TypeError(f"{verb}() has no option {name!r}: {_instead(name, sorted(known))}")
    check_k(options.get("k"))


def check_k(k: object) -> None:
    """Nothing for None and for 1 to 50. Raises: Invalid."""
    if k is not None and (not isinstance(k, int) or isinstance(k, bool) or not 1 <= k <= MAX_K):
        raise Invalid(f"k is a number from 1 to {MAX_K}")


def check_triples(triples: Sequence[Mapping[str, object]]) -> None:
    """Nothing when each entry says something, and only what is understood. Raises: Unprocessable naming the entry."""
    for index, entry in enumerate(cast("Sequence[object]", triples)):
        # What is no list of mappings at all, the service refuses in its own words.
        if isinstance(entry, Mapping) and (fault := _fault(cast("Mapping[object, object]", entry))):
            raise Unprocessable(f"triples[{index}]: {fault}")


def _fault(entry: Mapping[object, object]) -> str | None:
    unknown = [name for name in map(str, entry) if _snake(name) not in MEMBERS]
    given = {_snake(str(name)): value for name, value in entry.items() if value is not None}
    if "key" in given and not any(name in given for name in _SAYING):
        return "value is missing" + (f" (unknown: {', '.join(unknown)})" if unknown else "")
    if unknown:
        return f"unknown: {unknown[0]}, {_instead(unknown[0], MEMBERS)}"
    value = given.get("value", "")
    if isinstance(value, bool | int | float):
        return f'value is text: write "{str(value).lower() if isinstance(value, bool) else value}" in quotes'
    if not isinstance(value, str):
        return f"value is text, not a {type(value).__name__}"
    return None


def _instead(name: str, known: Sequence[str]) -> str:
    meant = _ELSEWHERE.get(name)
    close = [meant] if meant in known else get_close_matches(name, known, n=1, cutoff=_CLOSE)
    return f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)}"


def _snake(name: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name)
