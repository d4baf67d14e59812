"""Not learning again what a person rejected or forgot: it is known again by keyed hashes, however it is written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from keeps.core.cardinality import chain_key
from keeps.core.facts import Action, Fact, Relation, Row
from keeps.core.folding import bare_letters, bare_words
from keeps.core.summaries import NOTE_PREFIX
from keeps.core.text import fold
from keeps.services.runtime import Context, new_id
from keeps.store import suppressions as store_suppressions
from keeps.store.commit import Batch

_SENTENCE_WORDS: Final = 3
"""From so many words on a value says enough by itself to be known again under another key."""

_PERSON: Final = "person "
"""How a place begins that is a person's own."""


def marks_of(context: Context, row: Row) -> list[str]:
    """The hashes by which what a row says is known again: by what it says of whom, by its sentence, and, when its value
    is a sentence itself, by that. Case, accents, signs, spaces, plurals and the type of an entity make no difference,
    nor whether it is told as a value, a relation or something done.

    What is one person's is known again everywhere under their home; what is shared, in the same scopes, and of the
    same entity: a no about one is no no about the others there.
    """
    return _marks(context, row, _where(context, row))


def _marks(context: Context, row: Row, where: str) -> list[str]:
    of, key, value = _parts(row)
    told = where if where.startswith(_PERSON) or not isinstance(row, Fact) else f"{where} of {of}"
    sentences = [row.summary, *([value] if isinstance(row, Fact) and len(bare_words(value)) >= _SENTENCE_WORDS else [])]
    said = [f"{told} says {form}" for sentence in sentences for form in _forms(sentence)]
    said += [f"{where} holds {of} {key} {form}" for form in _forms(value)]
    return list(dict.fromkeys(context.fold_key(each) for each in said))


def _parts(row: Row) -> tuple[str, str, str]:
    """Of whom a row says what: the bare name, the bare key, the value as it stands."""
    if isinstance(row, Fact):
        of, key, value = row.entity, row.key, row.value
    elif isinstance(row, Relation):
        of, key, value = row.subject, row.label, row.object.name
    elif isinstance(row, Action):
        of, key, value = row.actor, row.verb, row.object.name if row.object else row.object_text or ""
    else:
        raise TypeError(f"nothing is said by a {type(row).__name__}")
    return bare_letters(of.name), " ".join(bare_words(key)), value


def _forms(text: str) -> tuple[str, str]:
    """A text with nothing left of how it is written: by its words, and by its letters, told apart by what they begin
    with. What is signs alone stays as it is."""
    words = bare_words(text)
    return (f"words {' '.join(words)}", f"letters {bare_letters(text)}") if words else (fold(text), fold(text))


def _where(context: Context, row: Row) -> str:
    person = context.consent.person_of(row.scope.nodes())
    return f"{_PERSON}{person}" if person is not None else f"scope {row.scope.id}"


def _wheres(context: Context, row: Row) -> list[str]:
    """Where a no may have been said that holds for a row: with each of the people under whose home it lies too."""
    homes = context.consent.homes_of(row.scope)
    people = sorted({f"{_PERSON}{context.consent.homes[home]}" for home in homes})
    return list(dict.fromkeys((_where(context, row), *people)))


def slot_mark_of(context: Context, row: Row) -> str | None:
    """The hash by which everything about one slot is known, whatever its value; None for what has no slot.

    Where a key holds many values, each is a slot of its own.
    """
    return _slot_mark(context, row, _where(context, row))


def _slot_mark(context: Context, row: Row, where: str) -> str | None:
    if not isinstance(row, Fact) or row.key.startswith(NOTE_PREFIX):
        return None
    of, key, _ = _parts(row)
    chain = chain_key(row.key, row.value, row.category, "").removeprefix(row.key)
    return context.fold_key(f"{where} asks {of} {key} {bare_letters(chain) or fold(chain)}")


async def is_suppressed(context: Context, rows: Sequence[Row]) -> set[int]:
    """The places of those among `rows` that say what a person rejected or forgot."""
    marks = [_known_by(context, row, _wheres(context, row)) for row in rows]
    held = await store_suppressions.holding(context.db, {mark for each in marks for mark in each})
    return {number for number, each in enumerate(marks) if not held.keys().isdisjoint(each)}


def _known_by(context: Context, row: Row, wheres: Sequence[str]) -> list[str]:
    marks = [mark for where in wheres for mark in _marks(context, row, where)]
    slots = [_slot_mark(context, row, where) for where in wheres]
    return [*marks, *(slot for slot in slots if slot is not None)]


def suppress(batch: Batch, context: Context, rows: Iterable[Row], *, reason: str, by: str) -> list[str]:
    """Let a commit also write down that what `rows` say is not to be learned again; by which hashes it is known.

    `reason`: one fixed word.
    """
    marks: list[str] = []
    for row in rows:
        said = marks_of(context, row)
        marks += said
        batch.creates.append(
            store_suppressions.to_row(
                new_id(),
                said,
                scope_set=row.scope.id,
                reason=reason,
                kind=row.control.kind,
                by=by,
                at=batch.at,
            )
        )
    return marks


def suppress_slot(batch: Batch, context: Context, row: Row, *, by: str) -> list[str]:
    """Let a commit also write down that nothing about the slot of a row is to be proposed, and by which hash it is
    known; nothing without a slot."""
    mark = slot_mark_of(context, row)
    if mark is not None:
        batch.creates.append(
            store_suppressions.to_row(
                new_id(),
                [mark],
                scope_set=row.scope.id,
                reason="slot_blocked",
                kind=row.control.kind,
                by=by,
                at=batch.at,
            )
        )
    return [mark] if mark is not None else []


async def lift(batch: Batch, context: Context, rows: Sequence[Row]) -> None:
    """Let a commit also end what keeps `rows` from being learned: the person said it anew, or took it back."""
    marks = {mark for row in rows for mark in _known_by(context, row, [_where(context, row)])}
    held = await store_suppressions.holding(context.db, marks)
    batch.deletes += list({str(id_): id_ for ids in held.values() for id_ in ids}.values())
