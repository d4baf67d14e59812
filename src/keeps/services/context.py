"""The block of remembered things an agent puts beside its prompt."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace

from keeps.core import contexts as core_contexts
from keeps.core import fence
from keeps.core.access import Caller, Verb
from keeps.core.fence import Note
from keeps.core.sessions import Turn
from keeps.services.recall import Hit, Recall, Recalled, recall
from keeps.services.runtime import Context, Runtime
from keeps.store import proposals as store_proposals
from keeps.store.rows import ref_of


@dataclass(frozen=True, slots=True)
class Block:
    """The rendered block, empty when nothing answers, and the recall it came from.

    `pending`: how many proposals wait for a decision in what the caller may read."""

    text: str
    recalled: Recalled
    pending: int


async def block(rt: Runtime, context: Context, caller: Caller, request: Recall) -> Block:
    """What answers well enough, inside one fence that no memory can leave; facts before passages.

    How well is enough says the request, else the context. Raises: as `recall`.
    """
    found = await recall(rt, context, caller, with_floor(context, request))
    readable = context.sets.readable(caller.region(Verb.MEMORY_READ))
    waiting = await store_proposals.count_waiting(context.db, readable) if readable else 0
    return Block(fence.fence(notes(found), nonce=secrets.token_hex(8)), found, waiting)


def with_floor(context: Context, request: Recall) -> Recall:
    """The request with the floor that the context sets for what goes into a prompt, unless it has one of its own."""
    if request.min_score is not None:
        return request
    return replace(request, min_score=core_contexts.min_score_of(context.config))


async def count_waiting(rt: Runtime) -> int:
    """How many proposals wait for a decision in the contexts that are open."""
    return sum(
        [await store_proposals.count_waiting(context.db, context.sets.everything()) for context in rt.contexts.values()]
    )


def notes(found: Recalled) -> list[Note]:
    """What was found, ready to be rendered: facts before passages."""
    facts = [hit for hit in found.hits if not isinstance(hit.row, Turn)]
    passages = [hit for hit in found.hits if isinstance(hit.row, Turn)]
    return [_note(hit) for hit in (*facts, *passages)]


def _note(hit: Hit) -> Note:
    row = hit.row
    if isinstance(row, Turn):
        text = f"{row.speaker or row.role}: {hit.text}"
        return Note(id=hit.unit, kind="passage", label=fence.PASSAGE_LABEL, text=text, at=row.known_at)
    return Note(
        id=ref_of(row),
        kind=row.control.kind,
        label=fence.LABELS[row.control.origin],
        text=hit.text,
        at=row.clocks.known_at,
    )
