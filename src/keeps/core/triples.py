"""Facts given ready-made: one entry of a request's `triples`, checked and brought into normal form.

An entry is one of four families, told apart by which of `value`, `target` and `verb` it carries.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, cast

from keeps.core.entities import (
    EntityRef,
    display_name,
    entity_ref,
    normalise_key,
    normalise_label,
    normalise_verb,
)
from keeps.core.errors import Invalid, Unprocessable
from keeps.core.facts import Category
from keeps.core.instants import parse_instant, resolve_hint
from keeps.core.text import clean, conceals, refuse_unstorable

MAX_TRIPLES: Final = 1_000
MAX_VALUE_CHARS: Final = 8_192
MAX_CLAUSE_CHARS: Final = 4_096
MAX_SUMMARY_CHARS: Final = 1_000
MAX_HINT_CHARS: Final = 200


class Family(StrEnum):
    """What an entry says."""

    ATTRIBUTE = "attribute"
    RELATION = "relation"
    ACTION = "action"
    ENTITY = "entity"


@dataclass(frozen=True, slots=True)
class Named:
    """An entity as the caller wrote it, beside the reference it is known by."""

    ref: EntityRef
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Triple:
    """One checked entry.

    `key` is the attribute's key or the relation's label, in normal form. `confidence` 0..1 and `category` are
    None when not given. `occurred_at` of an attribute or relation is also its `valid_from`.
    `unresolved_hint` is a phrase about time that means no certain day: worth a question, never a guess.
    `hidden_chars`: invisible characters were removed from what it says, or stand in a row in it.
    """

    family: Family
    entity: Named
    key: str | None = None
    value: str | None = None
    target: Named | None = None
    verb: str | None = None
    object_text: str | None = None
    summary: str | None = None
    category: Category | None = None
    confidence: float | None = None
    occurred_at: datetime | None = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    unresolved_hint: str | None = None
    source_clause: str | None = None
    hidden_chars: bool = False


def parse_triples(value: object, *, anchor: datetime, lenient_category: bool = True) -> tuple[Triple, ...]:
    """All entries of a request, in order. `anchor` is the moment relative phrases are seen from.

    `lenient_category`: an unknown category counts as `context` instead of being refused.
    Raises: Unprocessable naming the entry, and then nothing of the request may be written; Invalid for text
    or numbers that cannot be stored.
    """
    if not isinstance(value, list | tuple) or not value:
        raise Unprocessable("triples: give at least one entry")
    entries = cast("Sequence[object]", value)
    if len(entries) > MAX_TRIPLES:
        raise Unprocessable(f"triples: {len(entries)} entries, at most {MAX_TRIPLES} are accepted at once")
    refuse_unstorable(entries, what="triples")
    parsed: list[Triple] = []
    for index, entry in enumerate(entries):
        try:
            parsed.append(_Entry(entry, lenient_category=lenient_category).triple(anchor))
        except Invalid as error:
            raise Unprocessable(f"triples[{index}]: {error.message}") from None
    return tuple(parsed)


def parse_category(value: object, *, lenient: bool) -> Category:
    """A memory category; when `lenient` an unknown name counts as `context`. Raises: Invalid."""
    if isinstance(value, str):
        if value in {member.value for member in Category}:
            return Category(value)
        if lenient:
            return Category.CONTEXT
    raise Invalid(f"memory_category is one of {', '.join(Category)}")


class _Entry:
    """One entry while it is read: collects whether hidden characters were removed on the way."""

    def __init__(self, entry: object, *, lenient_category: bool) -> None:
        if not isinstance(entry, Mapping):
            raise Invalid('write an entry as {"entity": {"type": …, "name": …}, "key": …, "value": …}')
        self._fields = cast("Mapping[str, object]", entry)
        self._lenient_category = lenient_category
        self._hidden = False

    def triple(self, anchor: datetime) -> Triple:
        family = self._family()
        entity = self._named("entity")
        if entity is None:
            raise Invalid("entity is required")
        occurred_at, unresolved = self._occurred(anchor)
        valid_from, valid_until = self._validity(family, occurred_at)
        if family is Family.ACTION and self._get("key") is not None:
            raise Invalid("an action has a verb and no key")
        is_action = family is Family.ACTION
        return Triple(
            family=family,
            entity=entity,
            key=self._key(family),
            value=self._text("value", MAX_VALUE_CHARS),
            target=self._named("target"),
            verb=normalise_verb(self._text("verb", MAX_VALUE_CHARS) or "") if is_action else None,
            object_text=self._text("object", MAX_SUMMARY_CHARS) if is_action else None,
            summary=self._text("summary", MAX_SUMMARY_CHARS) if is_action else None,
            category=self._category(),
            confidence=self._confidence(family),
            occurred_at=occurred_at,
            valid_from=valid_from,
            valid_until=valid_until,
            unresolved_hint=unresolved,
            source_clause=self._text("source_clause", MAX_CLAUSE_CHARS),
            hidden_chars=self._hidden,
        )

    def _family(self) -> Family:
        given = [
            family
            for name, family in (
                ("value", Family.ATTRIBUTE),
                ("target", Family.RELATION),
                ("verb", Family.ACTION),
            )
            if self._get(name) is not None
        ]
        if len(given) > 1:
            raise Invalid("give only one of value, target and verb")
        return given[0] if given else Family.ENTITY

    def _get(self, name: str) -> object:
        """The member under its snake_case or camelCase name; null counts as absent."""
        head, *rest = name.split("_")
        camel = head + "".join(part.capitalize() for part in rest)
        one, other = self._fields.get(name), self._fields.get(camel)
        if one is not None and other is not None and one != other:
            raise Invalid(f"{name} is given twice with different values")
        return other if one is None else one

    def _text(self, name: str, limit_chars: int) -> str | None:
        value = self._get(name)
        if value is None:
            return None
        if not isinstance(value, str):
            raise Invalid(f"{name} must be text")
        cleaned = clean(value)
        if not cleaned.text:
            raise Invalid(f"{name} must not be empty")
        if len(cleaned.text) > limit_chars:
            raise Invalid(f"{name} has {len(cleaned.text)} characters, at most {limit_chars} are allowed")
        self._hidden = self._hidden or cleaned.hidden_chars or conceals(cleaned.text)
        return cleaned.text

    def _named(self, name: str) -> Named | None:
        value = self._get(name)
        if value is None:
            return None
        fields = cast("Mapping[str, object]", value if isinstance(value, Mapping) else {})
        type_ = fields.get("type") or fields.get("entity_type") or fields.get("entityType")
        written = fields.get("name")
        if not isinstance(type_, str) or not type_.strip() or not isinstance(written, str):
            raise Invalid(f'{name} is written {{"type": "person", "name": "Mara"}}')
        self._hidden = self._hidden or clean(written).hidden_chars
        return Named(entity_ref(type_, written), display_name(written))

    def _key(self, family: Family) -> str | None:
        if family not in {Family.ATTRIBUTE, Family.RELATION}:
            return None
        written = self._text("key", MAX_VALUE_CHARS)
        if written is None:
            raise Invalid("key is required with value and with target")
        return normalise_key(written) if family is Family.ATTRIBUTE else normalise_label(written)

    def _category(self) -> Category | None:
        value = self._get("memory_category")
        return None if value is None else parse_category(value, lenient=self._lenient_category)

    def _confidence(self, family: Family) -> float | None:
        value = self._get("confidence")
        if value is None:
            return None
        if family not in {Family.ATTRIBUTE, Family.ACTION}:
            raise Invalid("confidence belongs to entries with value or verb")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Invalid("confidence is a number from 0 to 1")
        if not math.isfinite(value) or not 0 <= value <= 1:
            raise Invalid("confidence is a number from 0 to 1")
        return float(value)

    def _moment(self, name: str) -> datetime | None:
        value = self._get(name)
        if value is None:
            return None
        try:
            return parse_instant(value)
        except Invalid as error:
            raise Invalid(f"{name}: {error.message}") from None

    def _occurred(self, anchor: datetime) -> tuple[datetime | None, str | None]:
        occurred_at, hint = self._moment("occurred_at"), self._text("temporal_hint", MAX_HINT_CHARS)
        if hint is None:
            return occurred_at, None
        if occurred_at is not None:
            raise Invalid("give occurred_at or temporal_hint, not both")
        resolved = resolve_hint(hint, anchor)
        return resolved, hint if resolved is None else None

    def _validity(self, family: Family, occurred_at: datetime | None) -> tuple[datetime | None, datetime | None]:
        valid_from, valid_until = self._moment("valid_from"), self._moment("valid_until")
        if family not in {Family.ATTRIBUTE, Family.RELATION}:
            if valid_from is not None or valid_until is not None:
                raise Invalid("valid_from and valid_until belong to entries with value or target")
            return None, None
        if valid_from is not None and (occurred_at is not None or self._get("temporal_hint") is not None):
            raise Invalid("give valid_from or the time it occurred, not both")
        since = occurred_at if valid_from is None else valid_from
        if since is not None and valid_until is not None and valid_until <= since:
            raise Invalid("valid_until must be later than valid_from")
        return since, valid_until
