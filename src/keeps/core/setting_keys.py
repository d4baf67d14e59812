"""Every setting: its range, the role it takes to set it; and what differs between two documents."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, Final, cast

from keeps.core import kinds
from keeps.core.access import Role
from keeps.core.errors import Invalid, Unprocessable
from keeps.core.generations import IndexMode
from keeps.core.packing import SensitiveUse, Tainted, Unconfirmed
from keeps.core.policy import History, Preset
from keeps.core.sensitive import TOPICS
from keeps.core.settings import Kill, Settings, is_looser, is_named, rule_of
from keeps.core.text import fold

Fits = Callable[[object], bool]

MAX_RETENTION_DAYS: Final = 3650
MAX_TRACE_HOURS: Final = 72
MAX_RULES: Final = 200
MAX_AGENTS: Final = 1000
MAX_KINDS: Final = 32
MAX_EMBEDDER_CHARS: Final = 200
_MAX_URL_CHARS: Final = 2000
_MAX_COUNT: Final = 2**53


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key of the document. `path`: with dots where it lies in an object. `wanted`: its range, in words.

    `who`: the role that may set it; an owner may set all.
    """

    path: str
    fits: Fits
    wanted: str
    who: Role = Role.ADMIN


def _flag(value: object) -> bool:
    return isinstance(value, bool)


def _whole(low: int, high: int) -> Fits:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _share(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _one_of(values: type[StrEnum], *, but: StrEnum | None = None) -> Fits:
    allowed = {value.value for value in values if value is not but}
    return lambda value: isinstance(value, str) and value in allowed


def _embedder(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_EMBEDDER_CHARS and value.isprintable()


def _names(most: int, fits: Fits = is_named) -> Fits:
    def check(value: object) -> bool:
        return (
            isinstance(value, list | tuple)
            and len(found := cast("Sequence[object]", value)) <= most
            and all(map(fits, found))
        )

    return check


def _kind_name(value: object) -> bool:
    return isinstance(value, str) and kinds.is_name(value)


def _topic(value: object) -> bool:
    return isinstance(value, str) and value in TOPICS


def _trace_text(value: object) -> bool:
    return isinstance(value, bool) or (isinstance(value, str) and trace_hours(value) is not None)


def _url(value: object) -> bool:
    return (
        isinstance(value, str)
        and len(value) <= _MAX_URL_CHARS
        and value.isprintable()
        and value.startswith(("https://", "http://"))
    )


def trace_hours(value: str) -> int | None:
    """How many hours `hours:N` names, 1 to 72; None for anything else."""
    word, _, number = value.partition(":")
    if word != "hours" or not number.isascii() or not number.isdecimal() or len(number) > 2:
        return None
    return hours if 1 <= (hours := int(number)) <= MAX_TRACE_HOURS else None


BUDGET_KEYS: Final[Mapping[str, tuple[Fits, str]]] = {
    "max_memories": (_whole(0, 50), "a whole number from 0 to 50"),
    "max_tokens": (_whole(0, 8000), "a whole number from 0 to 8000"),
    "max_per_kind": (_whole(0, 50), "a whole number from 0 to 50"),
    "max_per_source": (_whole(1, 50), "a whole number from 1 to 50"),
    "kinds": (_names(100, _kind_name), "a list of kinds"),
    "allow_unconfirmed": (_one_of(Unconfirmed), "never, label or allow"),
    "allow_tainted": (_one_of(Tainted), "never or confirmed_only"),
    "allow_sensitive": (_one_of(SensitiveUse), "never or on_topic"),
    "min_score": (_share, "between 0 and 1"),
    "min_trust": (_share, "between 0 and 1"),
    "min_trust_guess": (_share, "between 0 and 1"),
    "max_age_days": (_whole(1, MAX_RETENTION_DAYS), f"a whole number from 1 to {MAX_RETENTION_DAYS}"),
    "timeout_ms": (_whole(50, 10_000), "a whole number from 50 to 10000"),
}
"""What a budget may say, and of which range."""

_WRITE_KEYS: Final[Mapping[str, tuple[Fits, str]]] = {
    "max_proposals_per_run": (_whole(0, 50), "a whole number from 0 to 50"),
    "max_proposals_per_day": (_whole(0, 10_000), "a whole number from 0 to 10000"),
    "max_inbox": (_whole(0, 10_000), "a whole number from 0 to 10000"),
    "max_stored": (_whole(0, 10_000_000), "a whole number from 0 to 10000000"),
}

_CONSENT_KEYS: Final = (
    Key(path="policy", fits=_one_of(Preset), wanted="deliberate, operational or automatic; looser is the owner's"),
    Key(path="rules", fits=lambda value: _rules_fault(value) is None, wanted=f"a list of at most {MAX_RULES} rules"),
    Key(path="history", fits=_one_of(History), wanted="off, session or on"),
    *(Key(path=f"budget.{name}", fits=fits, wanted=wanted) for name, (fits, wanted) in BUDGET_KEYS.items()),
    *(Key(path=f"writes.{name}", fits=fits, wanted=wanted) for name, (fits, wanted) in _WRITE_KEYS.items()),
    Key(
        path="agents",
        fits=lambda value: _agents_fault(value) is None,
        wanted="an object: a budget for each principal named",
    ),
    Key(path="kill", fits=_one_of(Kill), wanted="none, no_prompt, no_write or both"),
    Key(path="home_topics", fits=_names(len(TOPICS), _topic), wanted=f"a list of some of {', '.join(sorted(TOPICS))}"),
    Key(path="sensitive_min_score", fits=_share, wanted="between 0 and 1"),
    Key(path="kinds", fits=_names(MAX_KINDS, _kind_name), wanted=f"a list of at most {MAX_KINDS} names of kinds"),
    Key(
        path="retention_days",
        fits=lambda value: _retention_fits(value),
        wanted=f"an object: whole days from 1 to {MAX_RETENTION_DAYS} for each kind named",
    ),
    Key(path="proposal_ttl_days", fits=_whole(1, 365), wanted="a whole number from 1 to 365"),
    Key(path="quarantine_ttl_days", fits=_whole(1, 365), wanted="a whole number from 1 to 365"),
    Key(path="undo_seconds", fits=_whole(0, 300), wanted="a whole number from 0 to 300"),
    Key(path="show_memories_used", fits=_flag, wanted="true or false"),
    Key(path="webhook_url", fits=_url, wanted="an https address"),
    Key(
        path="trace_text",
        fits=_trace_text,
        wanted=f"true, false or hours:N, N from 1 to {MAX_TRACE_HOURS}",
        who=Role.OWNER,
    ),
)

_SERVICE_KEYS: Final = (
    Key(path="mode", fits=_one_of(IndexMode), wanted="hybrid or durable"),
    Key(
        path="embedder",
        fits=_embedder,
        wanted=f"the name of an embedder, at most {MAX_EMBEDDER_CHARS} characters",
        who=Role.OWNER,
    ),
    Key(path="min_score", fits=_share, wanted="between 0 and 1"),
    Key(path="llm_extraction_enabled", fits=_flag, wanted="true or false"),
    Key(path="pii_redaction_enabled", fits=_flag, wanted="true or false"),
    Key(path="allow_self_service_keys", fits=_flag, wanted="true or false"),
    Key(path="token_limit", fits=_whole(1, _MAX_COUNT), wanted="a whole number above 0"),
    Key(path="max_token_ttl_seconds", fits=_whole(1, _MAX_COUNT), wanted="a whole number of seconds above 0"),
    Key(
        path="trace_retention.retrieval_trace_days",
        fits=_whole(1, MAX_RETENTION_DAYS),
        wanted=f"a whole number of days from 1 to {MAX_RETENTION_DAYS}",
    ),
    Key(path="reconciliation.confidence_floor", fits=_share, wanted="between 0 and 1"),
    Key(path="response_cache.enabled", fits=_flag, wanted="true or false"),
    Key(
        path="response_cache.freshness_window_seconds",
        fits=_whole(1, _MAX_COUNT),
        wanted="a whole number of seconds above 0",
    ),
    Key(path="response_cache.similarity_threshold", fits=_share, wanted="between 0 and 1"),
)

KEYS: Final[Mapping[str, Key]] = {key.path: key for key in (*_CONSENT_KEYS, *_SERVICE_KEYS)}
"""Everything that can be set, by its path."""

_OBJECTS: Final = frozenset(path.partition(".")[0] for path in KEYS if "." in path)

_SHORT: Final[Mapping[str, str]] = {
    "retrieval_limit": "budget.max_memories",
    "retention": "retention_days",
    "proposal_ttl": "proposal_ttl_days",
    **{name: f"budget.{name}" for name in BUDGET_KEYS if name not in ("kinds", "min_score")},
    **{name: f"writes.{name}" for name in _WRITE_KEYS},
}
"""Other names that a change may use."""

_FREE: Final = frozenset({"agents", "retention_days"})
"""Objects whose members are named by those who set them."""


def _snake(name: str) -> str:
    """`maxMemories` as `max_memories`; a name that has no capitals stays."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


def canonical(change: Mapping[str, Any]) -> dict[str, Any]:
    """A change as the document spells it: names in snake_case, short names in full.

    Raises: Unprocessable naming a key that is not known, or given twice.
    """
    result: dict[str, Any] = {}
    for given, value in change.items():
        name = _snake(given)
        path = _SHORT.get(name, name)
        if path in _OBJECTS and isinstance(value, Mapping):
            for member, below in cast("Mapping[str, Any]", value).items():
                _put(result, f"{path}.{_snake(member)}", below, given=f"{given}.{member}")
        elif path in _OBJECTS and value is None:
            result[path] = None
        else:
            _put(result, path, _deep(path, value), given=given)
    return result


def _deep(path: str, value: Any) -> Any:
    """What lies in a value spelled as the document spells it; names that people chose stay."""
    if path == "rules" and isinstance(value, list | tuple):
        return [_spelled(rule) for rule in cast("Sequence[Any]", value)]
    if path == "agents" and isinstance(value, Mapping):
        return {who: _spelled(budget) for who, budget in cast("Mapping[str, Any]", value).items()}
    return value


def _spelled(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {_snake(name): below for name, below in cast("Mapping[str, Any]", value).items()}


def _put(result: dict[str, Any], path: str, value: Any, *, given: str) -> None:
    if path not in KEYS:
        near = ", ".join(get_close_matches(path, KEYS, n=3))
        raise Unprocessable(
            f"there is no setting {_quoted(given)}"
            + (f"; near it: {near}" if near else "")
            + ". `keeps settings show` and GET /settings list them"
        )
    *above, last = path.split(".")
    place = result
    for part in above:
        below = place.setdefault(part, {})
        if not isinstance(below, dict):
            raise Unprocessable(f"the setting {path} is given twice")
        place = cast("dict[str, Any]", below)
    if last in place and place[last] != value:
        raise Unprocessable(f"the setting {path} is given twice")
    place[last] = value


def _quoted(name: str) -> str:
    return json.dumps(name[:64], ensure_ascii=True)


def at(document: Mapping[str, Any], path: str) -> Any:
    """What the document says at a path; None where it says nothing. Raises: Invalid when an object is none."""
    found: Any = document
    for part in path.split("."):
        if found is None:
            return None
        if not isinstance(found, Mapping):
            raise Invalid(f"{path.partition('.')[0]} must be an object")
        found = cast("Mapping[str, Any]", found).get(part)
    return found


def fault_of(document: Mapping[str, Any]) -> str | None:
    """What is wrong with a document: the key, and its range. None when nothing is."""
    for path, key in KEYS.items():
        try:
            value = at(document, path)
        except Invalid as error:
            return error.message
        if value is not None and not key.fits(value):
            more = {"rules": _rules_fault, "agents": _agents_fault}.get(path)
            return f"{path} must be {key.wanted}" + (f" ({more(value)})" if more else "")
    return None


def _rules_fault(value: object) -> str | None:
    if not isinstance(value, list | tuple) or len(found := cast("Sequence[object]", value)) > MAX_RULES:
        return f"at most {MAX_RULES}, in a list"
    for number, rule in enumerate(found, start=1):
        try:
            rule_of(rule)
        except (Invalid, ValueError) as error:
            return f"rule {number}: {error.message if isinstance(error, Invalid) else error}"
    return None


def _agents_fault(value: object) -> str | None:
    if not isinstance(value, Mapping) or len(found := cast("Mapping[str, object]", value)) > MAX_AGENTS:
        return f"an object with at most {MAX_AGENTS} members"
    for who, said in found.items():
        if not is_named(who) or not isinstance(said, Mapping):
            return "each member is a budget"
        for name, one in cast("Mapping[str, object]", said).items():
            if name not in BUDGET_KEYS:
                return f"a budget has no {_quoted(name)}"
            fits, wanted = BUDGET_KEYS[name]
            if one is not None and not fits(one):
                return f"{name} must be {wanted}"
    return None


def _retention_fits(value: object) -> bool:
    fits = _whole(1, MAX_RETENTION_DAYS)
    return isinstance(value, Mapping) and all(
        _kind_name(kind) and fits(days) for kind, days in cast("Mapping[str, object]", value).items()
    )


# --- what changed ----------------------------------------------------------------------------------------


def flat(document: Mapping[str, Any]) -> dict[str, Any]:
    """What a document says, by path; objects whose members people name are one value."""
    found: dict[str, Any] = {}
    for name, value in document.items():
        if isinstance(value, Mapping) and name in _OBJECTS:
            members = cast("Mapping[str, Any]", value).items()
            found |= {f"{name}.{member}": below for member, below in members if below is not None}
        elif value is not None:
            found[name] = value
    return found


def changed_paths(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The paths at which two documents differ, in order."""
    one, other = flat(before), flat(after)
    paths = one.keys() | other.keys()
    return sorted(path for path in paths if one.get(path) != other.get(path))


_SECRET: Final = frozenset({"webhook_url"})


def masked(path: str, value: Any) -> Any:
    """A value as the audit may show it: of an address no more than that it is set, and its last four characters."""
    if path not in _SECRET or not isinstance(value, str):
        return value
    return f"set (…{fold(value)[-4:]})"


def role_for(path: str, before: Settings, after: Settings) -> Role:
    """The role it takes to change what stands at a path from one state to the other."""
    if path == "policy" and is_looser(after.policy, before.policy):
        return Role.OWNER
    return KEYS[path].who if path in KEYS else Role.OWNER
