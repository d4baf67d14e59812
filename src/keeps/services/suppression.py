"""Not learning again what a person rejected or forgot: it is known again by keyed hashes, however it is written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from keeps.core.cardinality import chain_key
from keeps.core.facts import Fact, Relation, Row
from keeps.core.summaries import NOTE_PREFIX
from keeps.core.text import fold
from keeps.services.runtime import Context, new_id
from keeps.store import suppressions as store_suppressions
from keeps.store.commit import Batch

_SENTENCE_WORDS: Final = 3
"""From so many words on a value says enough by itself to be known again under another key."""


def marks_of(context: Context, row: Row) -> list[str]:
    """The hashes by which what a row says is known again: by where it would stand and what it says there, by its
    sentence, and, when its value is a sentence itself, by that. Case, spaces and forms of letters make no difference.

    What is one person's is known again everywhere under their home; what is shared, in the same scopes, and of the
    same entity: a no about one is no no about the others there.
    """
    where = _where(context, row)
    shared = isinstance(row, Fact) and context.consent.person_of(row.scope.nodes()) is None
    told = f"{where} of {row.entity}" if isinstance(row, Fact) and shared else where
    said = [f"{told} says {fold(row.summary)}"]
    if isinstance(row, Fact):
        value = fold(row.value)
        said.append(f"{where} holds {row.entity} {row.key} {value}")
        if len(value.split()) >= _SENTENCE_WORDS:
            said.append(f"{told} says {value}")
    elif isinstance(row, Relation):
        said.append(f"{where} holds {row.subject} {row.label} {row.object}")
    return list(dict.fromkeys(context.fold_key(each) for each in said))


def _where(context: Context, row: Row) -> str:
    person = context.consent.person_of(row.scope.nodes())
    return f"person {person}" if person is not None else f"scope {row.scope.id}"


def slot_mark_of(context: Context, row: Row) -> str | None:
    """The hash by which everything about one slot is known, whatever its value; None for what has no slot.

    Where a key holds many values, each is a slot of its own.
    """
    if not isinstance(row, Fact) or row.key.startswith(NOTE_PREFIX):
        return None
    return context.fold_key(
        f"{_where(context, row)} asks {row.entity} {chain_key(row.key, row.value, row.category, '')}"
    )


async def is_suppressed(context: Context, rows: Sequence[Row]) -> set[int]:
    """The places of those among `rows` that say what a person rejected or forgot."""
    marks = [_known_by(context, row) for row in rows]
    held = await store_suppressions.holding(context.db, {mark for each in marks for mark in each})
    return {number for number, each in enumerate(marks) if not held.keys().isdisjoint(each)}


def _known_by(context: Context, row: Row) -> list[str]:
    slot = slot_mark_of(context, row)
    return [*marks_of(context, row), *([slot] if slot is not None else [])]


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
    marks = {mark for row in rows for mark in _known_by(context, row)}
    held = await store_suppressions.holding(context.db, marks)
    batch.deletes += list({str(id_): id_ for ids in held.values() for id_ in ids}.values())
