"""How an engine's reply becomes plain values or one error, and when a script is run again."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeVar, cast

import surrealdb

from keeps.core.errors import Invalid, KeepsError, StaleHead, StoreRefused, Unavailable

RecordID = surrealdb.RecordID

Kind = Literal["thrown", "conflict", "duplicate", "timeout", "storage", "value", "open", "script"]
"""How a script can fail: see `error_for`."""

MAX_ATTEMPTS: Final = 8
"""How often a script is run when it loses against other writers, the first time included."""

R = TypeVar("R")


class EngineError(Exception):
    """A script failed for a reason the caller's code knows about; never shown to a user as it is."""


class StoreDamaged(StoreRefused):
    """The files of a database cannot be read: a backup has to take their place, or an empty database."""


class Thrown(EngineError):
    """The script ran into its own `THROW`; `reason` is the text thrown."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Duplicate(EngineError):
    """A record of that id, or another with the same value in a unique index, exists already."""


class ScriptRejected(EngineError):
    """The engine refused the script: an error of ours. Its text names fields and records, no values."""


_THROWN_PREFIX: Final = "An error occurred: "
_CONFLICT_SIGNS: Final = ("can be retried", "Transaction conflict", "Resource busy")
_STORAGE_SIGNS: Final = (
    "No space left",
    "os error 28",
    "Read-only file system",
    "os error 30",
    "Input/output error",
)
_SYSTEM_SIGNS: Final = ("Too many open files", "Cannot allocate memory", "Input/output error")
"""Reasons for which sound files cannot be opened."""

_VALUES: Final = (
    (re.compile(r"(but found ).*", re.DOTALL), r"\1…"),
    (re.compile(r"(already contains ).*(, with record)", re.DOTALL), r"\1…\2"),
    (re.compile(r"^(Found ).*(for field )", re.DOTALL), r"\1… \2"),
    (re.compile(r"'[^']*'"), "'…'"),
)


def error_for(kind: Kind, text: str) -> KeepsError | EngineError:
    """The error to raise for a failure; texts of rows are taken out of its message."""
    if kind == "thrown":
        reason = text.removeprefix(_THROWN_PREFIX)
        if reason == "stale-head" or reason.startswith("stale-head:"):
            return StaleHead("Another write to the same value came first; try again.", retry_after_s=1)
        return Thrown(reason)
    if kind == "conflict":
        return Unavailable("Too many writers at once; try again.", retry_after_s=1)
    if kind == "timeout":
        return Unavailable("The record took too long to answer; try again.", retry_after_s=1)
    if kind == "storage":
        return Unavailable("The disk refuses writes (full or read-only); make room, then try again.", retry_after_s=30)
    if kind == "value":
        return Invalid("A text or number cannot be stored: it holds a lone surrogate or exceeds 64 bits.")
    if kind == "open":
        return _refusal(text)
    shown = text if "Parse error" in text else _without_values(text)
    return Duplicate(shown) if kind == "duplicate" else ScriptRejected(shown)


def _refusal(text: str) -> KeepsError:
    if "already locked" in text:
        return StoreRefused(
            "Another process has this store open: stop it, or talk to it instead of opening the folder."
        )
    if "No space left" in text:
        return StoreRefused("The disk is full and the store cannot be opened: make room, then start again.")
    if any(sign in text for sign in ("Read-only file system", "Permission denied")):
        return StoreRefused("The store's folder cannot be written: make it writable for this user, or choose another.")
    reason = text.rpartition("datastore: ")[2][:200]
    if any(sign in text for sign in _SYSTEM_SIGNS):
        return StoreRefused(
            f"The store cannot be opened, the system is in the way: mend that, then start again: {reason}"
        )
    return StoreDamaged(
        "The store cannot be opened, its files seem damaged. Bring back a backup with `keeps restore --data DIR FILE`, "
        "or set them aside and go on without what they hold: `keeps doctor --accept-loss --data DIR`. The engine says: "
        f"{reason}"
    )


def _without_values(text: str) -> str:
    for pattern, replacement in _VALUES:
        text = pattern.sub(replacement, text)
    return text[:300]


def failure_in(reply: Mapping[str, Any]) -> tuple[Kind, str] | None:
    """Why a raw reply is a failure, or `None` when every statement succeeded.

    Statements beside the failing one say only that they were not run, so the one that says more is picked.
    """
    if "result" not in reply:
        error = cast(Mapping[str, Any], reply.get("error") or {})
        text = str(error.get("message", "the engine gave no reason"))
        return _kind_of(error, text), text
    bad = [s for s in cast(list[dict[str, Any]], reply["result"]) if s.get("status") != "OK"]
    if not bad:
        return None
    telling = next((s for s in bad if s.get("kind") == "Thrown"), None)
    if telling is None:
        telling = next((s for s in bad if not _is_aftermath(s)), bad[0])
    text = str(telling.get("result"))
    return _kind_of(telling, text), text


def _is_aftermath(statement: Mapping[str, Any]) -> bool:
    text = str(statement.get("result"))
    return "was not executed due to" in text or "aborted due to a prior error" in text


def _detail(statement: Mapping[str, Any]) -> str:
    details = statement.get("details")
    return str(cast(Mapping[str, Any], details).get("kind", "")) if isinstance(details, Mapping) else ""


def _kind_of(statement: Mapping[str, Any], text: str) -> Kind:
    if statement.get("kind") == "Thrown":
        return "thrown"
    if any(sign in text for sign in _CONFLICT_SIGNS):
        return "conflict"
    if any(sign in text for sign in _STORAGE_SIGNS):
        return "storage"
    if _detail(statement) == "TimedOut":
        return "timeout"
    if statement.get("kind") == "AlreadyExists" or ("Database index" in text and "already contains" in text):
        return "duplicate"
    return "script"


_BEGIN: Final = re.compile(r"\s*BEGIN\b", re.IGNORECASE)
_COMMIT: Final = re.compile(r"\bCOMMIT\b", re.IGNORECASE)


def commits_in(surql: str) -> int:
    """How many transactions a script that succeeded has committed: 0 or 1."""
    return 1 if _COMMIT.search(surql) else 0


def values_in(reply: Mapping[str, Any]) -> list[Any]:
    """The plain results of a reply without failure, one a statement."""
    return [plain(statement["result"]) for statement in reply["result"]]


def plain(value: Any) -> Any:
    """`value` with the engine's own types made ours: datetimes, NULL, sets."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in cast(dict[str, Any], value).items()}
    if isinstance(value, list):  # the engine's set is a list too
        return [plain(item) for item in cast(list[Any], value)]
    if isinstance(value, datetime):
        at = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        return datetime(at.year, at.month, at.day, at.hour, at.minute, at.second, at.microsecond, UTC)
    if isinstance(value, RecordID) and isinstance(value.id, list):
        return RecordID(value.table_name, plain(cast(Any, value.id)))
    return None if value is surrealdb.Null else value


class LostConflict(Exception):
    """Another transaction committed first; the script changed nothing and may be run again."""


def is_atomic(surql: str) -> bool:
    """True when a script that failed has changed nothing: one transaction, or one statement."""
    return bool(_BEGIN.match(surql)) or ";" not in surql.strip().removesuffix(";")


async def retrying(surql: str, attempt: Callable[[], Awaitable[R]]) -> R:
    """What `attempt` returns, run again with growing random pauses while it raises `LostConflict`.

    Raises:
        Unavailable: it lost `MAX_ATTEMPTS` times, or once when part of the script may have taken effect.
    """
    for tried in range(1, MAX_ATTEMPTS + 1 if is_atomic(surql) else 2):
        try:
            return await attempt()
        except LostConflict:
            if tried < MAX_ATTEMPTS:
                await asyncio.sleep(random.uniform(0, 0.002 * 2**tried))
    raise error_for("conflict", "")
