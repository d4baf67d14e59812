"""Memories as a person handles them: saved, looked at, decided about.

What is saved here enters the record where every write does, so that one policy holds for all of them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from keeps.core.access import Caller, Verb
from keeps.core.entities import display_name, entity_ref
from keeps.core.errors import NotFound
from keeps.core.facts import Fact, Status
from keeps.core.memories import SHOWN, Memory, check_kind, check_slot, check_text, of_proposal, of_row
from keeps.core.modes import Infer
from keeps.core.pages import FIRST_PAGE, Page, PageRequest, time_key
from keeps.core.runs import Uses
from keeps.core.scopes import Scope
from keeps.core.summaries import NOTE_PREFIX
from keeps.core.text import conceals
from keeps.core.triples import Family, Named, Triple
from keeps.services import facts, runs, standing, suppression
from keeps.services.confirming import confirm
from keeps.services.deletions import delete, finish_deletions, undo
from keeps.services.discarding import expire, expire_waiting, reject, withdraw
from keeps.services.edits import Edit, edit
from keeps.services.incoming import Left
from keeps.services.moves import release, renew, retire
from keeps.services.remember import Remember, Remembered, remember
from keeps.services.runtime import Context, Runtime, new_id
from keeps.services.sight import is_off, sight_of
from keeps.services.standing import PEOPLE
from keeps.store import memories as store_memories
from keeps.store import named as store_named
from keeps.store.commit import Batch
from keeps.store.facts import from_record, records

__all__ = [
    "Edit",
    "ListMemories",
    "Save",
    "Saved",
    "confirm",
    "delete",
    "edit",
    "expire",
    "expire_waiting",
    "finish_deletions",
    "get",
    "history",
    "list_",
    "reject",
    "release",
    "renew",
    "retire",
    "save",
    "saved",
    "undo",
    "withdraw",
]

SOURCES = frozenset({"sheet", "api"})
"""By which way a memory is saved here: on the sheet a person looks at, or by a program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Save:
    """A memory to keep. `slot`: what it is about; the same slot again replaces it. None makes a note of its own.
    `scope` None: the caller's home. `run`: the caller's run it belongs to."""

    kind: str
    text: str
    slot: str | None = None
    scope: Scope | None = None
    source: str = "api"
    run: str | None = None


@dataclass(frozen=True, slots=True)
class Saved:
    """What came of it: the memory as it stands, or why nothing was stored."""

    memory: Memory | None
    dropped: Left | None = None


async def save(rt: Runtime, context: Context, caller: Caller, request: Save) -> Saved:
    """Keep a memory. What a person saves under their own home is kept as theirs; what anybody else sends is judged as
    every write is: kept, put before a person, or dropped.

    Raises:
        Unprocessable: an unknown kind, a slot that cannot be one, a text longer than its kind allows.
        SecretRefused: the text holds a secret. Invalid: it is empty or cannot be stored.
        Forbidden: the scope lies outside what the caller may write. NotFound: a run that is not the caller's.
    """
    kind = check_kind(request.kind, context.consent.settings)
    text = check_text(request.text, kind)
    scope = request.scope or caller.default_scope()
    key = check_slot(request.slot) if request.slot is not None else NOTE_PREFIX + new_id()
    triple = Triple(
        family=Family.ATTRIBUTE,
        entity=await about(rt, context, caller, scope),
        key=key,
        value=text,
        hidden_chars=conceals(request.text),
    )
    wanted = Remember(
        infer=Infer.TRIPLES,
        triples=[triple],
        scope=scope,
        kind=kind.name,
        run=request.run,
        source_kind=request.source,
        audited="memory.save",
    )
    done = await remember(rt, context, caller, wanted)
    kept = saved(rt, context, done)
    if kept.memory is not None and kept.memory.row is not None and kept.memory.row.control.user_confirmed:
        await _lift(rt, context, kept.memory)
    return kept


def saved(rt: Runtime, context: Context, done: Remembered) -> Saved:
    """What a write of one memory came to."""
    extraction = done.extraction
    assert extraction is not None
    if extraction.facts:
        return Saved(of_row(extraction.facts[0], rt.clock()))
    if extraction.proposals:
        proposal = extraction.proposals[0]
        return Saved(of_proposal(proposal, context.sets[proposal.scope_set]))
    return Saved(None, extraction.dropped[0])


async def _lift(rt: Runtime, context: Context, memory: Memory) -> None:
    """What a person says themselves is no longer kept from being learned."""
    assert memory.row is not None
    batch = Batch(at=rt.clock())
    await suppression.lift(batch, context, [memory.row])
    if batch.deletes:
        await context.commit(batch)


async def about(rt: Runtime, context: Context, caller: Caller, scope: Scope) -> Named:
    """The entity a memory is about: the person under whose home it lies, else what the scope names."""
    person = context.consent.person_of(scope.nodes())
    if person is not None:
        known = await context.known.principal(context.db, person, rt.clock())
        name = known.display_name if known is not None else str(person)
        return Named(entity_ref("person", name), display_name(name))
    nodes = sorted(scope.nodes())
    *above, name = nodes[0].split("/") if nodes and nodes[0].strip("/") else [caller.display_name]
    type_ = above[-1] if above else "other"
    return Named(entity_ref(type_, name), display_name(name))


# ---------------------------------------------------------------------- looking
async def get(rt: Runtime, context: Context, caller: Caller, memory_id: str) -> Memory:
    """The memory of that id, as its reader may see it. Raises: NotFound."""
    held = await _found(rt, context, caller, memory_id)
    seen = await _as_seen(context, caller, [held.memory])
    return (await _with_uses(context, seen, told=held.actor in PEOPLE))[0]


async def _found(rt: Runtime, context: Context, caller: Caller, memory_id: str) -> standing.Held:
    """The memory to look at. While memory is switched off an agent takes back what it proposed without reading it.

    Raises: NotFound.
    """
    held = await standing.find(rt, context, caller, memory_id)
    if held.actor not in PEOPLE and is_off(context, caller):
        raise NotFound(f"memory {memory_id} does not exist")
    return held


async def history(rt: Runtime, context: Context, caller: Caller, memory_id: str) -> list[Memory]:
    """Every version of a memory, the newest first: for people of their own, for others what is in use alone.

    Raises: NotFound.
    """
    held = await _found(rt, context, caller, memory_id)
    row = held.memory.row
    if not isinstance(row, Fact) or held.memory.proposal is not None or held.actor not in PEOPLE:
        return await _as_seen(context, caller, [held.memory])
    now = rt.clock()
    stored = await records(context.db, [held.memory.ref])
    found = await store_named.versions_with(context.db, list(stored.values()))
    rows = [from_record(record, context.sets) for record in found if not record.get("forgotten_at")]
    newest = sorted(rows, key=lambda one: (one.clocks.known_at, one.id), reverse=True)
    return await _as_seen(context, caller, [of_row(one, now) for one in newest])


@dataclass(frozen=True, slots=True, kw_only=True)
class ListMemories:
    """Which memories: of a status, else all that are kept, wait or may be renewed; of a kind, a slot, an agent that
    proposed them; that hold some words."""

    status: Status | None = None
    kind: str | None = None
    slot: str | None = None
    words: str | None = None
    agent: str | None = None
    page: PageRequest = field(default=FIRST_PAGE)


async def list_(rt: Runtime, context: Context, caller: Caller, request: ListMemories) -> Page[Memory]:
    """Memories the caller may see, the one written down last first: of their own in every state, else what is in
    use."""
    now = rt.clock()
    readable = context.sets.readable(caller.region(Verb.MEMORY_READ))
    own = {id_ for id_ in readable if standing.actor_of(context, caller, context.sets[id_]) in PEOPLE}
    statuses = SHOWN if request.status is None else frozenset({request.status})
    page, before = request.page, facts.before_of(request.page.after)
    wanted = store_memories.Wanted(
        own=own,
        plain=sight_of(context, caller).within(readable - own),
        statuses=statuses,
        now=now,
        kind=request.kind,
        slot=request.slot,
        words=request.words.casefold() if request.words is not None else None,
        agent=request.agent,
        before=before,
        limit=page.limit + 1,
    )
    found = [of_row(row, now) for row in await store_memories.list_rows(context.db, context.sets, wanted)]
    found += [
        of_proposal(one, context.sets[one.scope_set])
        for one in await store_memories.list_proposals(context.db, context.sets, wanted)
    ]
    newest = sorted(found, key=_place, reverse=True)
    shown = newest[: page.limit]
    following = _place(shown[-1]) if len(newest) > len(shown) and shown else None
    used = await _with_uses(context, shown, told=bool(own), within=own)
    return Page(rows=tuple(await _as_seen(context, caller, used)), next=following)


def _place(memory: Memory) -> tuple[str, str]:
    assert memory.at is not None
    return time_key(memory.at), memory.id


async def _with_uses(
    context: Context, memories: list[Memory], *, told: bool, within: Collection[str] | None = None
) -> list[Memory]:
    """Memories with how often each stood in a prompt and was relied on: what is kept, for the people who decide about
    it. `within`: the scope sets of those; None for all."""
    kept = {
        memory.ref
        for memory in memories
        if memory.row is not None
        and memory.proposal is None
        and told
        and (within is None or memory.row.scope.id in within)
    }
    if not kept:
        return memories
    found = await runs.uses_of(context, kept)
    return [replace(each, uses=found.get(each.ref, Uses())) if each.ref in kept else each for each in memories]


async def _as_seen(context: Context, caller: Caller, memories: list[Memory]) -> list[Memory]:
    """Memories without other owners, and without links that their reader cannot follow."""
    region = caller.region(Verb.MEMORY_READ)
    rows = [memory.row for memory in memories if memory.row is not None]
    seen = {row.id: row for row in await facts.as_seen(context, rows, caller)}
    return [
        replace(
            memory,
            scope=memory.scope.seen_by(region),
            row=seen.get(memory.row.id) if memory.row is not None else None,
        )
        for memory in memories
    ]
