"""What words that equal nothing come near to, and which of that they can mean."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from keeps.core.meant import MAX_CHARS, Said, asked_by, same, torn
from keeps.core.sessions import Role, is_short
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
        found = await context.finder.near(question, scope_sets, limit=_LOOKED_AT)
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
    """What a row says. `own`: who `I` is in it can be who asks; `spoken`: the same with a name in front of it."""

    ref: str
    scope_set: str
    text: str
    own: bool = True
    spoken: str | None = None


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
            ref=f"turn:{turn.id}",
            scope_set=turn.scope.id,
            text=turn.content,
            own=turn.role is Role.USER and turn.speaker is None,
            spoken=f"{turn.speaker}: {turn.content}" if turn.speaker else None,
        )
        for turn in (await store_sessions.turns_by_id(context.db, context.sets, turns, everywhere)).values()
        if turn.active and is_short(turn)
    }
    for ref, fact in (await store_facts.by_refs(context.db, context.sets, facts, everywhere)).items():
        if fact.clocks.forgotten_at is None:
            found[ref] = _Row(ref=ref, scope_set=fact.scope.id, text=fact.summary)
    return [found[ref] for ref in refs if ref in found and len(found[ref].text) <= MAX_CHARS]


def _saying(words: str, rows: Sequence[_Row]) -> tuple[str, ...]:
    """The rows that say what the words say; none of several that differ, unless some hold the very words."""
    asked = asked_by(words)
    alike = [(row, said) for row in rows if (said := _alike(asked, row)) is not None]
    exact = [(row, said) for row, said in alike if said.spelled == asked.spelled]
    chosen = exact or alike
    if torn([(said, row.scope_set) for row, said in chosen]):
        return ()
    return tuple(row.ref for row, _ in chosen)


def _alike(asked: Said, row: _Row) -> Said | None:
    """What a row says, when that is what is asked for."""
    said = Said.of(row.text)
    if same(asked, said) and (row.own or not said.points):
        return said
    spoken = Said.of(row.spoken) if row.spoken is not None else None
    return spoken if spoken is not None and same(asked, spoken) else None
