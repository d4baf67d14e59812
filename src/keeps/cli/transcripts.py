"""Conversations in files: which spellings are read, and what they mean.

A file is JSON (a list of turns, or an object that holds one in `turns` or `messages`, or several
conversations, each with an id and its turns, in `conversations`) or JSON lines, one turn a line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, cast

from keeps.core.errors import Invalid, KeepsError
from keeps.core.instants import parse_instant
from keeps.core.sessions import MAX_TURN_BYTES, Role
from keeps.core.text import clean

_ONE: Final = "conversation"
_TEXT: Final = ("content", "text", "message")
_TIME: Final = ("ts", "timestamp", "time", "created_at", "date")
_ROLES: Final[Mapping[str, Role]] = {
    **{role.value: role for role in Role},
    "human": Role.USER,
    "ai": Role.ASSISTANT,
    "model": Role.ASSISTANT,
    "bot": Role.ASSISTANT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One turn. `text` as it stands in the file, `kept` in the form it is kept in."""

    text: str
    kept: str
    role: Role
    speaker: str | None
    at: datetime | None

    def message(self) -> dict[str, object]:
        """The turn as it is sent."""
        said: dict[str, object] = {"role": self.role.value, "content": self.text}
        if self.speaker is not None:
            said["speaker"] = self.speaker
        if self.at is not None:
            said["ts"] = self.at.isoformat()
        return said


@dataclass(slots=True, kw_only=True)
class Talk:
    """One session of one conversation, its turns in order."""

    conversation: str
    session: str
    lines: list[Line] = field(default_factory=list[Line])


def read_talks(path: Path) -> list[Talk]:
    """The sessions of the conversations in a file, in the order they begin.

    Raises: Invalid, naming the turn, for a file that cannot be read whole: nothing is imported in part.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Invalid(f"{path} is no UTF-8 text") from None
    talks: dict[tuple[str, str], Talk] = {}
    for where, conversation, turn in _turns(text, path):
        line = _line(turn, where)
        session = turn.get("session", turn.get("session_id", turn.get("sessionId")))
        name = _ONE if session is None else str(session)
        talk = talks.setdefault((conversation, name), Talk(conversation=conversation, session=name))
        talk.lines.append(line)
    if not talks:
        raise Invalid(f"{path} holds no turns: expected JSON or JSON lines of turns with role or speaker and content")
    return list(talks.values())


def _turns(text: str, path: Path) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Where each turn stands, the id of its conversation, and its members."""
    try:
        whole: object = json.loads(text)
    except json.JSONDecodeError:
        yield from _of_lines(text, path)
        return
    except RecursionError:
        raise Invalid(f"{path} is nested too deeply") from None
    if isinstance(whole, dict):
        members = cast("Mapping[str, Any]", whole)
        if "conversations" in members:
            for number, part in enumerate(_list(members["conversations"], "conversations"), 1):
                one = _object(part, f"conversation {number}")
                turns = _list(one.get("turns", one.get("messages")), f"the turns of conversation {number}")
                yield from _of_list(turns, f"conversation {number}, ", str(one.get("id", number)))
            return
        turns = members.get("turns", members.get("messages"))
        whole = [members] if turns is None else turns
    yield from _of_list(_list(whole, "the file"), "", "")


def _of_lines(text: str, path: Path) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        where = f"line {number}"
        try:
            value: object = json.loads(line)
        except (json.JSONDecodeError, RecursionError):
            raise Invalid(f"{path}, {where}: this is neither JSON nor a line of JSON lines") from None
        yield where, "", _object(value, where)


def _of_list(turns: Sequence[object], before: str, conversation: str) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for number, turn in enumerate(turns, 1):
        where = f"{before}turn {number}"
        yield where, conversation, _object(turn, where)


def _line(turn: Mapping[str, Any], where: str) -> Line:
    text = next((turn[name] for name in _TEXT if turn.get(name) is not None), None)
    if not isinstance(text, str):
        raise Invalid(f"{where}: a turn needs content, as text")
    if len(text.encode("utf-8", "surrogatepass")) > MAX_TURN_BYTES:
        raise Invalid(f"{where}: a turn holds at most {MAX_TURN_BYTES} bytes")
    try:
        cleaned = clean(text).text
        when = next((turn[name] for name in _TIME if turn.get(name) is not None), None)
        at = None if when is None else _instant(when)
    except KeepsError as error:
        raise Invalid(f"{where}: {error.message}") from None
    if not cleaned:
        raise Invalid(f"{where}: the content is empty")
    speaker = turn.get("speaker", turn.get("name"))
    if speaker is not None and not isinstance(speaker, str):
        raise Invalid(f"{where}: a speaker is a name")
    return Line(text=text, kept=cleaned, role=_role(turn.get("role"), speaker, where), speaker=_name(speaker), at=at)


def _role(role: object, speaker: str | None, where: str) -> Role:
    """What the turn says, else what its speaker is called, else a person."""
    if role is None:
        return _ROLES.get((speaker or "").strip().casefold(), Role.USER)
    found = _ROLES.get(str(role).strip().casefold())
    if found is None:
        raise Invalid(f"{where}: role is user, assistant, system or tool")
    return found


def _name(speaker: str | None) -> str | None:
    """The speaker's name; None when it only says the role again."""
    name = (speaker or "").strip()
    return None if not name or name.casefold() in _ROLES else name


def _instant(when: object) -> datetime:
    """The moment of a turn; a time without an offset is taken as UTC, a number as seconds since 1970."""
    if isinstance(when, int | float) and not isinstance(when, bool):
        try:
            return parse_instant(datetime.fromtimestamp(when, UTC))
        except (OverflowError, OSError, ValueError):
            raise Invalid("the time is out of range") from None
    if isinstance(when, str):
        try:
            naive = datetime.fromisoformat(when.strip())
        except ValueError:
            return parse_instant(when)
        return parse_instant(naive if naive.tzinfo else naive.replace(tzinfo=UTC))
    return parse_instant(when)


def _list(value: object, what: str) -> Sequence[object]:
    if not isinstance(value, list):
        raise Invalid(f"{what} must be a list of turns")
    return cast("list[object]", value)


def _object(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise Invalid(f"{where}: a turn is a JSON object")
    return cast("Mapping[str, Any]", value)
