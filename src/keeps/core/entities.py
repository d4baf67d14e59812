"""Names of things: entity references, and the normal form of entity names, keys, labels and verbs.

The type is half of an entity's identity: `person/mercury` and `topic/mercury` are two entities.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from keeps.core.errors import Invalid
from keeps.core.text import clean, clean_name, refuse_mark_runs

MAX_NAME_CHARS: Final = 256
MAX_KEY_CHARS: Final = 128


class EntityType(StrEnum):
    """What sort of thing an entity is; a closed list."""

    PERSON = "person"
    ORGANISATION = "organisation"
    PROJECT = "project"
    LOCATION = "location"
    TOPIC = "topic"
    PRODUCT = "product"
    POLICY = "policy"
    CONCEPT = "concept"
    EVENT = "event"
    AGENT = "agent"
    SERVICE = "service"
    OTHER = "other"


_SPELLINGS: Final[Mapping[str, EntityType]] = {
    **{member.value: member for member in EntityType},
    "company": EntityType.ORGANISATION,
    "org": EntityType.ORGANISATION,
    "organization": EntityType.ORGANISATION,
}
_KEY_BREAKS: Final = re.compile(r"[\s._/\\-]+")
_SELECTORS: Final = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")
"""They choose how the sign before them is drawn: the same name, drawn another way."""
_REF_PREFIX: Final = "entity:"


@dataclass(frozen=True, slots=True, order=True)
class EntityRef:
    """An entity by type and normal name. Make one with `entity_ref` or `parse_ref`."""

    type: EntityType
    name: str

    def __str__(self) -> str:
        return f"{self.type.value}/{self.name}"

    @property
    def wire(self) -> str:
        """The form sent to clients: `entity:person/mara`."""
        return f"{_REF_PREFIX}{self}"


def entity_ref(type_: str, name: str) -> EntityRef:
    """The reference for a type and a name in any spelling. Raises: Invalid for an empty or overlong name."""
    return EntityRef(normalise_type(type_), normalise_name(name))


def parse_ref(value: str) -> EntityRef:
    """A reference from `entity:person/mara`, `person/mara` or the hint form `person:mara`.

    Only the first separator divides: `person/alice/1` is named `alice/1`. Raises: Invalid.
    """
    text = value.strip().removeprefix(_REF_PREFIX)
    found = re.search("[/:]", text)
    if not found or not text[: found.start()].strip():
        raise Invalid("bad reference: write it as entity:<type>/<name>, for example entity:person/mara")
    return entity_ref(text[: found.start()], text[found.end() :])


def normalise_type(value: str) -> EntityType:
    """The type for a spelling or alias in any case; what is not on the list is `other`."""
    return known_type(value) or EntityType.OTHER


def known_type(value: str) -> EntityType | None:
    """The type for a spelling or alias in any case; None for what is not on the list."""
    return _SPELLINGS.get(value.strip().casefold())


def normalise_name(value: str) -> str:
    """The name entities are told apart by: composed, case folded, single spaces; nothing fuzzy.

    Raises: Invalid for an empty name, one above 256 characters or one that cannot be stored.
    """
    current = display_name(value)
    while True:
        # Without its neighbour a joiner may have nothing left to join: cleaned again, it goes too.
        folded = " ".join(clean(_SELECTORS.sub("", current.casefold())).text.split())
        if folded == current:
            break
        current = folded
    if not folded:
        raise Invalid("bad text: an entity name must not be empty")
    # Folding can turn a letter into a letter and a mark.
    refuse_mark_runs(folded, what="an entity name")
    return folded


def display_name(value: str) -> str:
    """The name as written, cleaned, on one line. Raises: Invalid as `normalise_name` does."""
    return clean_name(value, what="an entity name", limit_chars=MAX_NAME_CHARS)


def normalise_key(value: str, *, what: str = "a key") -> str:
    """Lower snake case: dots, spaces, hyphens and slashes become single underscores, none at the ends.

    Raises: Invalid when nothing is left or more than 128 characters are.
    """
    current = clean_name(value, what=what, limit_chars=MAX_NAME_CHARS)
    while True:
        key = _KEY_BREAKS.sub("_", unicodedata.normalize("NFC", current.lower())).strip("_")
        if key == current:
            break
        current = key
    refuse_mark_runs(key, what=what)
    if not key:
        raise Invalid(f"bad name: {what} needs at least one character besides dots, spaces and dashes")
    if len(key) > MAX_KEY_CHARS:
        raise Invalid(f"bad name: {what} has {len(key)} characters, at most {MAX_KEY_CHARS} are allowed")
    return key


def normalise_label(value: str) -> str:
    """The normal form of a relation's label. Raises: Invalid."""
    return normalise_key(value, what="a label")


def normalise_verb(value: str) -> str:
    """The normal form of an action's verb. Raises: Invalid."""
    return normalise_key(value, what="a verb")
