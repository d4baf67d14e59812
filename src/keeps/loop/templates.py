"""Sentences that code writes from typed values: a fact about somebody in which nothing they typed can stand."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final

from keeps.core.entities import parse_ref
from keeps.core.errors import Invalid
from keeps.core.kinds import KINDS

MAX_INT: Final = 10**15
"""Whole numbers and the whole part of others are smaller, by size: what is larger is no count of anything."""

MAX_DIGITS: Final = 6
"""Digits after the point, at most."""

MAX_IDENT: Final = 32
"""Characters of a name in a slot, at most: too few for a sentence."""

_SLOT: Final = re.compile(r"\{([a-z][a-z0-9_]{0,31}):([a-z]+)(?:\.([0-9]{1,2}))?\}")
_KEY: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_BOOL: Final = {True: "yes", False: "no"}


@dataclass(frozen=True, slots=True)
class _Slot:
    """One place for a value: how it is written, and the form and length that can come of it."""

    name: str
    write: Callable[[object], str]
    form: str
    longest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """A sentence that a template wrote."""

    text: str
    key: str
    kind: str

    def triple(self, entity: str, *, at: datetime | None = None) -> dict[str, object]:
        """The fact for `remember(triples=[…], kind=sentence.kind)`, about an entity such as `person/p1-7f…`.

        `at`: when it happened. Raises: Invalid for a name that is not `[a-z0-9_-]`, 64 at most: it is no place for
        what somebody typed either.
        """
        ref = parse_ref(entity)
        if not _NAME.fullmatch(entity.partition("/")[2]):
            raise Invalid("write the entity as <type>/<name>, the name of a-z, 0-9, _ and -, 64 characters at most")
        about = {"type": ref.type.value, "name": ref.name}
        said: dict[str, object] = {"entity": about, "key": self.key, "value": self.text}
        return said if at is None else said | {"occurred_at": at}


class Template:
    """A sentence with typed places: `Template("Proved {proved:int} of {total:int}", key="session_result")`.

    A place is `{name:int}`, `{name:float}` or with the digits after the point `{name:float.1}`, `{name:bool}` (yes or
    no), `{name:date}`, `{name:ident.24}` for an id of code's own making (`[a-z0-9_-]`, 24 characters at most), or
    `{name:choice}` with the texts it may be in `choices`. Anything else between braces is refused.

    Call it with a value for each place. Raises: Invalid for a sentence that is no template, a key, kind or choice that
    cannot be, or a text that could get longer than its kind may be.
    """

    def __init__(
        self, text: str, *, key: str, kind: str = "event", choices: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        if not _KEY.fullmatch(key):
            raise Invalid("a key is lower case: a letter, then letters, digits and _, 64 characters at most")
        if kind not in KINDS:
            raise Invalid(f"kind is one of {', '.join(KINDS)}")
        self.text, self.key, self.kind = text, key, kind
        self._parts = _parsed(text, {name: tuple(map(str, each)) for name, each in (choices or {}).items()})
        self._slots = tuple(part for part in self._parts if isinstance(part, _Slot))
        longest = sum(part.longest if isinstance(part, _Slot) else len(part) for part in self._parts)
        if longest > KINDS[kind].max_chars:
            raise Invalid(f"this can get {longest} characters long, a memory of kind {kind} {KINDS[kind].max_chars}")
        forms = (part.form if isinstance(part, _Slot) else re.escape(part) for part in self._parts)
        self.pattern: Final = re.compile("".join(forms))
        """What every sentence of this template matches whole."""

    def __call__(self, **values: object) -> Sentence:
        """The sentence. Raises: Invalid for a value of another type, one too many, or one that is missing."""
        named = {slot.name for slot in self._slots}
        if values.keys() != named:
            raise Invalid(f"this template takes {', '.join(sorted(named)) or 'no values'}, each once")
        text = "".join(part.write(values[part.name]) if isinstance(part, _Slot) else part for part in self._parts)
        return Sentence(text=text, key=self.key, kind=self.kind)


def _parsed(text: str, choices: Mapping[str, tuple[str, ...]]) -> list[str | _Slot]:
    """The fixed parts and the places, in order."""
    parts: list[str | _Slot] = []
    end = 0
    used: set[str] = set()
    for match in _SLOT.finditer(text):
        name, kind, size = match.groups()
        parts += [_fixed(text[end : match.start()]), _slot(name, kind, size, choices)]
        end = match.end()
        if name in used:
            raise Invalid(f"{name} stands twice in the template: give each place a name of its own")
        used.add(name)
    parts.append(_fixed(text[end:]))
    of_choice = {match[1] for match in _SLOT.finditer(text) if match[2] == "choice"}
    if choices.keys() - of_choice:
        raise Invalid("choices are given for a place that is no {name:choice}")
    if not any(isinstance(part, str) and part.strip() for part in parts):
        raise Invalid("a template is a sentence: it has words of its own")
    return parts


def _fixed(text: str) -> str:
    if "{" in text or "}" in text:
        raise Invalid("between braces stands a name and a type, as {proved:int}: nothing else, and no other braces")
    if not text.isprintable():
        raise Invalid("a template is one line of characters that are seen")
    return text


def _slot(name: str, kind: str, size: str | None, choices: Mapping[str, tuple[str, ...]]) -> _Slot:
    number = None if size is None else int(size)
    sized = kind in {"float", "ident"}
    if number is not None and not sized:
        raise Invalid(f"{{{name}:{kind}}} takes no size")
    match kind:
        case "int":
            return _Slot(name, _whole(name), "-?[0-9]{1,15}", 16)
        case "float":
            return _of_float(name, 2 if number is None else number)
        case "bool":
            return _Slot(name, _yes_no(name), "(?:yes|no)", 3)
        case "date":
            return _Slot(name, _day(name), "[0-9]{4}-[0-9]{2}-[0-9]{2}", 10)
        case "ident":
            return _of_ident(name, number)
        case "choice":
            return _of_choice(name, choices.get(name, ()))
        case _:
            raise Invalid(f"{kind} is no type of a place: int, float, bool, date, ident.N and choice are")


# Types are compared exactly: a class of somebody's making may say anything when it is asked for its text.


def _whole(name: str) -> Callable[[object], str]:
    def write(value: object) -> str:
        if type(value) is not int or abs(value) >= MAX_INT:
            raise Invalid(f"{name} is a whole number below {MAX_INT:.0e}")
        return str(value)

    return write


def _of_float(name: str, digits: int) -> _Slot:
    if digits > MAX_DIGITS:
        raise Invalid(f"{name} has at most {MAX_DIGITS} digits after the point")

    def write(value: object) -> str:
        if type(value) is not float and type(value) is not int:
            raise Invalid(f"{name} is a number")
        # By size first: a whole number may be too large to become a float.
        if abs(value) >= MAX_INT - 1 or not math.isfinite(value):
            raise Invalid(f"{name} is a finite number below {MAX_INT:.0e}")
        return f"{float(value):.{digits}f}"

    point = rf"\.[0-9]{{{digits}}}" if digits else ""
    return _Slot(name, write, f"-?[0-9]{{1,15}}{point}", 17 + digits)


def _yes_no(name: str) -> Callable[[object], str]:
    def write(value: object) -> str:
        if type(value) is not bool:
            raise Invalid(f"{name} is True or False")
        return _BOOL[value]

    return write


def _day(name: str) -> Callable[[object], str]:
    def write(value: object) -> str:
        if type(value) is datetime:
            return value.date().isoformat()
        if type(value) is not date:
            raise Invalid(f"{name} is a date")
        return value.isoformat()

    return write


def _of_ident(name: str, size: int | None) -> _Slot:
    if size is None or not 1 <= size <= MAX_IDENT:
        raise Invalid(f"say how long {name} may be, 1 to {MAX_IDENT}, as {{{name}:ident.24}}")
    form = f"[a-z0-9_-]{{1,{size}}}"

    def write(value: object) -> str:
        if type(value) is not str or not re.fullmatch(form, value):
            raise Invalid(f"{name} is an id of a-z, 0-9, _ and -, at most {size} characters")
        return value

    return _Slot(name, write, form, size)


def _of_choice(name: str, texts: tuple[str, ...]) -> _Slot:
    if not texts:
        raise Invalid(f"say in choices what {name} may be")
    for text in texts:
        if not text.strip() or _fixed(text) != text:
            raise Invalid(f"a choice of {name} is empty")

    def write(value: object) -> str:
        # The text on the list is written, whatever the given one is made of.
        found: Any = next((text for text in texts if isinstance(value, str) and text == value), None)
        if found is None:
            raise Invalid(f"{name} is one of {', '.join(texts)}")
        return found

    return _Slot(name, write, f"(?:{'|'.join(map(re.escape, texts))})", max(map(len, texts)))
