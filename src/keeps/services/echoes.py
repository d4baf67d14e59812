"""What an agent repeats of what it was given in the same run: that is no evidence, whatever key it comes under."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from keeps.core.facts import Fact, Row
from keeps.core.policy import Drop
from keeps.core.summaries import NOTE_PREFIX
from keeps.core.text import fold
from keeps.core.triples import Triple
from keeps.services.candidates import Judged
from keeps.services.reconcile import texts_of
from keeps.services.runtime import Context
from keeps.store import facts as store_facts

_ROWS: Final = frozenset({"attribute", "relates_to", "action"})
_SENTENCE_WORDS: Final = 3
"""A value of so many words says the same under any key."""


async def without_echoes(
    context: Context, judged: Judged, triples: Sequence[Triple], *, offered: Collection[str], readable: Collection[str]
) -> Judged:
    """The same, without what says word by word what a memory that was `offered` in the run says: notes, which have a
    key of their own each, and whole sentences about the same entity. The same value of the same key is known by its
    history anyway."""
    said = {number: fold(triple.value) for number, triple in enumerate(triples) if triple.value and _could_echo(triple)}
    said = {number: text for number, text in said.items() if number not in judged.drops}
    refs = sorted(ref for ref in offered if ref.partition(":")[0] in _ROWS)
    if not said or not refs:
        return judged
    rows = await store_facts.by_refs(context.db, context.sets, refs, readable)
    given = [(row, {fold(text) for text in texts_of(row)}) for row in rows.values()]
    echoes = [
        number
        for number, text in said.items()
        if any(text in texts and _about_the_same(triples[number], row) for row, texts in given)
    ]
    return replace(judged, drops={**judged.drops, **dict.fromkeys(echoes, Drop.KNOWN)}) if echoes else judged


def _could_echo(triple: Triple) -> bool:
    return _is_note(triple) or len((triple.value or "").split()) >= _SENTENCE_WORDS


def _about_the_same(triple: Triple, row: Row) -> bool:
    return _is_note(triple) or not isinstance(row, Fact) or row.entity == triple.entity.ref


def _is_note(triple: Triple) -> bool:
    return triple.key is not None and triple.key.startswith(NOTE_PREFIX)
