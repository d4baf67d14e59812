"""References: how anything remembered is named in one line of text.

| form | names |
| --- | --- |
| `entity:<type>/<name>`, `<type>/<name>`, `<type>:<name>` | an entity |
| `attribute:<type>/<name>/<key>` | a key of an entity, with its history |
| `relation:<type>/<name>-[<label>]-><type>/<name>` | relations between two entities |
| `relation:<name>/<label>/<name>` | the same between entities of any type |
| `<table>:<id>` | one row: `attribute`, `relation`, `action`, `turn`, `memory_chunk`, `session`, `uncertainty` … |
| `<id>` | a row by its id alone |
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from keeps.core.entities import (
    EntityRef,
    EntityType,
    entity_ref,
    known_type,
    normalise_key,
    normalise_label,
    normalise_name,
)
from keeps.core.errors import Invalid

MAX_REFERENCE_CHARS: Final = 1024


@dataclass(frozen=True, slots=True)
class KeyReference:
    """A key of an entity."""

    entity: EntityRef
    key: str


@dataclass(frozen=True, slots=True)
class RelationReference:
    """Relations of a label from any of `subjects` to any of `objects`: the same name in several types."""

    subjects: tuple[EntityRef, ...]
    label: str
    objects: tuple[EntityRef, ...]


@dataclass(frozen=True, slots=True)
class RowReference:
    """One row by its id; without a table it may be in any."""

    table: str | None
    id: str


Reference: TypeAlias = EntityRef | KeyReference | RelationReference | RowReference

_TABLES: Final[Mapping[str, str]] = {
    "attribute": "attribute",
    "relation": "relates_to",
    "relates_to": "relates_to",
    "action": "action",
    "turn": "turn",
    "memory_chunk": "memory_chunk",
    "session": "session",
    "uncertainty": "uncertainty",
    "trace": "trace",
    "decision_trace": "trace",
    "retrieval_trace": "trace",
    "response_trace": "trace",
    "document": "document",
    "doc": "document",
    "passage": "passage",
    "chunk": "chunk",
    "section": "section",
    "instruction": "instruction",
}
"""Words before the colon, and the table each means."""

_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")
_BARE_ID: Final = re.compile(r"[a-z0-9]{20}(_[0-9]{1,9})?")
_PASSAGE: Final = re.compile(r"[A-Za-z0-9_-]{1,128}/[0-9]{1,9}")
_ARROW: Final = re.compile(r"(?P<subject>.+?)-\[(?P<label>[^\[\]]+)\]->(?P<object>.+)", re.DOTALL)


def parse_reference(text: str) -> Reference:
    """What `text` names; names and keys may be spelled as in a write. Raises: Invalid."""
    text = text.strip()
    if not text or len(text) > MAX_REFERENCE_CHARS:
        raise _bad()
    prefix, colon, rest = text.partition(":")
    word = prefix.strip().casefold()
    rest = rest.strip()
    if colon and word == "entity":
        return _entity(rest)
    if colon and word == "attribute" and "/" in rest:
        named, _, key = rest.rpartition("/")
        return KeyReference(_entity(named), normalise_key(key))
    if colon and word == "relation" and "/" in rest:
        return _relation(rest)
    if colon and word in _TABLES:
        return _row(_TABLES[word], rest)
    if colon and known_type(prefix) is not None:
        return entity_ref(prefix, rest)
    if _BARE_ID.fullmatch(text):
        return RowReference(None, text)
    if known_type(text.partition("/")[0]) is not None and "/" in text:
        return _entity(text)
    raise _bad()


def _row(table: str, rest: str) -> RowReference:
    pattern = _PASSAGE if table == "passage" else _ID
    if not pattern.fullmatch(rest):
        raise _bad()
    return RowReference(table, rest)


def _entity(text: str) -> EntityRef:
    """An entity from `<type>/<name>`; the hint form `<type>:<name>` after `entity:` is taken too."""
    found = re.search("[/:]", text)
    if found is None or not text[: found.start()].strip():
        raise _bad()
    return entity_ref(text[: found.start()], text[found.end() :])


def _relation(rest: str) -> RelationReference:
    arrow = _ARROW.fullmatch(rest)
    if arrow is not None:
        return RelationReference(
            (_entity(arrow["subject"]),), normalise_label(arrow["label"]), (_entity(arrow["object"]),)
        )
    if "]->" in rest:
        raise _bad()
    parts = rest.split("/")
    if len(parts) == 3:
        subject, label, object_ = parts
        return RelationReference(_any_type(subject), normalise_label(label), _any_type(object_))
    if len(parts) == 5:
        return RelationReference(
            (entity_ref(parts[0], parts[1]),), normalise_label(parts[2]), (entity_ref(parts[3], parts[4]),)
        )
    raise _bad()


def _any_type(name: str) -> tuple[EntityRef, ...]:
    normal = normalise_name(name)
    return tuple(EntityRef(type_, normal) for type_ in EntityType)


def _bad() -> Invalid:
    return Invalid(
        "bad reference: write entity:<type>/<name>, attribute:<type>/<name>/<key>, "
        "relation:<type>/<name>-[<label>]-><type>/<name>, or the id of a row such as turn:<id>"
    )
