"""What words that equal nothing come near to, and which of that they can mean."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from keeps.core.meant import Said, differs, rivals
from keeps.core.sessions import is_short
from keeps.finder.base import FinderLost, Near
from keeps.finder.local import stemmer
from keeps.services import index, vectors
from keeps.services.runtime import Context
from keeps.store import sessions as store_sessions

NEAR_ENOUGH: Final = 0.8
"""The least cosine between words and what they may mean."""

WORTH_TELLING: Final = 0.5
"""The least cosine of what is told as a near miss."""

_LOOKED_AT: Final = 64
"""Rows that come near which are looked at: more than may go at once, so that it can be told how many are left."""

_DEADLINE_S: Final = 1.0
_CATCH_UP_S: Final = 1.0
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

    A row is meant when it comes near enough, holds every name and number that was said, and differs in nothing else
    that tells two things apart. Rows that do so with different names or numbers, which were not said, are all left:
    nobody said which. A text of several passages is never meant as a whole.
    """
    whole = await vectors.fill(context, scope_sets, budget_s=_CATCH_UP_S)
    question = await vectors.meaning_of(context, words, _DEADLINE_S)
    if question is None:
        return Meant(late=not whole or vectors.why_not(context) is not None)
    try:
        found = await context.finder.near(*question, scope_sets, limit=_LOOKED_AT)
        known = [name.name for name in await context.finder.names_in(words, scope_sets)]
    except FinderLost:
        return Meant(late=True)
    enough = [near for near in found if near.cosine >= NEAR_ENOUGH]
    refs = await _possible(context, words, enough, known) if enough else ()
    return Meant(
        refs=refs,
        near=tuple((near.ref, near.cosine) for near in found if near.cosine >= WORTH_TELLING),
        late=not whole,
    )


async def _possible(context: Context, words: str, found: list[Near], known: Collection[str]) -> tuple[str, ...]:
    """Of what comes near enough, what the words can mean."""
    texts = await index.read_meanings(context.indexed, [near.ref for near in found])
    turns = [near.ref.removeprefix("turn:") for near in found if near.ref.startswith("turn:")]
    said_in = await store_sessions.turns_by_id(context.db, context.sets, turns, context.sets.everything())
    long = {f"turn:{turn.id}" for turn in said_in.values() if not is_short(turn)}
    stem = stemmer()
    asked = Said.of(words, stem, known)
    possible: list[tuple[str, Said]] = []
    for near in found:
        text = texts.get(near.unit)
        if text is None or near.ref in long:
            continue
        said = Said.of(text, stem, known)
        if differs(asked, said) is None:
            possible.append((near.ref, said))
    torn = rivals([said for _, said in possible])
    return tuple(ref for place, (ref, _) in enumerate(possible) if place not in torn)
