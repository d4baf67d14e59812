"""What words that equal nothing come near to, and which of that they can mean."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from keeps.core.meant import MAX_CHARS, Said, asked_by, same, torn
from keeps.core.sessions import is_short
from keeps.finder.base import FinderLost
from keeps.services import vectors
from keeps.services.runtime import Context
from keeps.store import facts as store_facts
from keeps.store import sessions as store_sessions

NEAR_ENOUGH: Final = 0.8
"""The least cosine between words and what they may mean."""

WORTH_TELLING: Final = 0.5
"""The least cosine of what is told as a near miss."""

_LOOKED_AT: Final = 64
"""Rows that come near which are looked at: more than may go at once, so that it can be told how many are left."""

_DEADLINE_S: Final = 1.0
_CATCH_UP_S: Final = 1.0
_AT_ONCE: Final = 4_096
"""Characters compared on the event loop; more are compared in a thread."""
"""How long the words may take to be embedded, and rows that lack a vector before, seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meant:
    """What words come near to. `refs`: the rows they can mean, nearest first; `near`: the cosine of all that is worth
    telling, those included. `late`: there should be vectors, and some or all could not be asked."""

    refs: tuple[str, ...] = ()
    near: tuple[tuple[str, float], ...] = ()
    late: bool = False


async def meant_by(context: Context, words: str, scope_sets: Collection[str]) -> Meant:
    """What `words` can mean in scope sets; nothing where there are no vectors. Never raises for what they are made by.

    A row is meant when it comes near enough and says the same, word by word. Words of more than `MAX_CHARS` characters,
    and a text of several passages, are never meant as a whole.
    """
    if len(words) > MAX_CHARS:
        return Meant()
    whole = await vectors.fill(context, scope_sets, budget_s=_CATCH_UP_S)
    question = await vectors.meaning_of(context, words, _DEADLINE_S)
    if question is None:
        return Meant(late=not whole or vectors.why_not(context) is not None)
    try:
        found = await context.finder.near(*question, scope_sets, limit=_LOOKED_AT)
    except FinderLost:
        return Meant(late=True)
    enough = [near.ref for near in found if near.cosine >= NEAR_ENOUGH]
    refs = await _possible(context, words, enough) if enough else ()
    return Meant(
        refs=refs,
        near=tuple((near.ref, near.cosine) for near in found if near.cosine >= WORTH_TELLING),
        late=not whole,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """What a row says, and in whose voice: who `I` is in it."""

    ref: str
    text: str
    speaker: str | None
    scope_set: str


async def _possible(context: Context, words: str, refs: Sequence[str]) -> tuple[str, ...]:
    """Of rows that come near enough, those that say what the words say, in their order."""
    rows = await _rows(context, refs)
    if sum(len(row.text) for row in rows) + len(words) <= _AT_ONCE:
        return _saying(words, rows)
    return await asyncio.to_thread(_saying, words, rows)


async def _rows(context: Context, refs: Sequence[str]) -> list[_Row]:
    everywhere = context.sets.everything()
    turns = [ref.removeprefix("turn:") for ref in refs if ref.startswith("turn:")]
    facts = [ref for ref in refs if not ref.startswith("turn:")]
    found = {
        f"turn:{turn.id}": _Row(
            ref=f"turn:{turn.id}", text=turn.content, speaker=turn.speaker or turn.role, scope_set=turn.scope.id
        )
        for turn in (await store_sessions.turns_by_id(context.db, context.sets, turns, everywhere)).values()
        if turn.active and is_short(turn)
    }
    for ref, fact in (await store_facts.by_refs(context.db, context.sets, facts, everywhere)).items():
        if fact.clocks.forgotten_at is None:
            found[ref] = _Row(ref=ref, text=fact.summary, speaker=None, scope_set=fact.scope.id)
    return [found[ref] for ref in refs if ref in found and len(found[ref].text) <= MAX_CHARS]


def _saying(words: str, rows: Sequence[_Row]) -> tuple[str, ...]:
    """The rows that say what the words say; none when what `I` is in them differs, since nobody said who is meant."""
    asked = asked_by(words)
    said = [(row, Said.of(row.text)) for row in rows]
    alike = [
        (row, text)
        for row, text in said
        if same(asked, text) or (row.speaker is not None and same(asked, Said.of(f"{row.speaker}: {row.text}")))
    ]
    if torn([(text, (row.speaker, row.scope_set)) for row, text in alike]):
        return ()
    return tuple(row.ref for row, _ in alike)
