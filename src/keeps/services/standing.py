"""One memory and as whom somebody acts on it: found, seen or not, and whether the move is theirs to make."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from keeps.core.access import Caller, Verb
from keeps.core.errors import Forbidden, IllegalTransition, NotFound, StaleRevision
from keeps.core.facts import Status
from keeps.core.memories import Memory, of_proposal, of_row
from keeps.core.scopes import Pattern, Scope
from keeps.core.status import Actor, Move, Refusal, Transition, move
from keeps.core.validity import live, offered
from keeps.services import audit, roles
from keeps.services.runtime import Context, Runtime
from keeps.services.sight import sight_of
from keeps.store import facts as store_facts
from keeps.store import memories as store_memories
from keeps.store import proposals as store_proposals

PEOPLE = frozenset({Actor.SUBJECT, Actor.CURATOR})
"""Those who decide: the person it belongs to, and the curator of what is shared."""


_ENDING = frozenset({Move.FORGET, Move.UNDO})


def actor_of(context: Context, caller: Caller, scope: Scope) -> Actor:
    """As whom a caller acts on what lies in a scope: the one answer to who decides.

    Only a person with a key of their own, acting for nobody else, counts as one: under their home and nobody else's,
    or as a curator of what is shared, under several homes or none, where they may write. Whatever else holds grants
    is an agent.
    """
    if caller.is_person:
        owners = {context.consent.homes[home] for home in context.consent.homes_of(scope)}
        if owners == {caller.principal_id}:
            return Actor.SUBJECT
        writable = scope.within(caller.region(Verb.MEMORY_WRITE))
        if len(owners) != 1 and writable and roles.is_curator(context, caller):
            return Actor.CURATOR
    return Actor.ADMIN if roles.is_admin(context, caller) else Actor.AGENT


@dataclass(frozen=True, slots=True)
class Held:
    """A memory as it stands, and as whom the caller acts on it."""

    memory: Memory
    actor: Actor


def sees(held: Held, caller: Caller, context: Context, now: datetime) -> bool:
    """True when the caller may know of it: people of their own in any state, everybody else what is in use, and what
    they proposed themselves."""
    memory = held.memory
    if not memory.scope.visible_to(caller.region(Verb.MEMORY_READ)):
        return False
    if held.actor in PEOPLE:
        return True
    if memory.proposal is not None:
        return memory.proposal.proposed_by == caller.principal_id
    row = memory.row
    if row is None or not live(row.clocks, row.control.status, now) or not offered(row.control, now):
        return False
    return sight_of(context, caller).shows(row)


async def find(rt: Runtime, context: Context, caller: Caller, memory_id: str, *, moves: bool = False) -> Held:
    """The memory as it stands. `moves`: it is to be changed, so an admin also reaches what they may not read.

    Raises: NotFound when there is none, or none for this caller.
    """
    now = rt.clock()
    memory = await look(context, memory_id, now)
    if memory is None:
        raise NotFound(f"memory {memory_id} does not exist")
    held = Held(memory, actor_of(context, caller, memory.scope))
    reached = moves and held.actor is Actor.ADMIN and memory.scope.visible_to(caller.region(Verb.MEMORY_READ))
    if not reached and not sees(held, caller, context, now):
        raise NotFound(f"memory {memory_id} does not exist")
    return held


async def look(context: Context, memory_id: str, now: datetime) -> Memory | None:
    """The memory of that id, whoever asks: what is kept before what waits. A proposal that a person said yes to and
    that only repeated what was there leads to that."""
    row = await store_memories.find_row(context.db, context.sets, memory_id)
    if row is not None:
        return of_row(row, now)
    proposal = await store_proposals.find(context.db, context.sets, memory_id)
    if proposal is None or proposal.status is Status.FORGOTTEN:
        return None
    if proposal.status is Status.CONFIRMED:
        became = (proposal.conflicts_with or "").partition(":")[2]
        row = await store_memories.find_row(context.db, context.sets, became) if became else None
        return of_row(row, now) if row is not None else None
    return of_proposal(proposal, context.sets[proposal.scope_set])


async def allowed(rt: Runtime, context: Context, caller: Caller, held: Held, what: Move) -> Transition:
    """The transition a move makes.

    Raises: Forbidden when it is not this caller's to make, IllegalTransition when nobody can make it from where the
    memory stands. Both are written down.
    """
    step = move(what, held.memory.status, held.actor)
    if isinstance(step, Transition) and held.actor in PEOPLE and not _may_move(context, caller, held, what):
        step = Refusal.FORBIDDEN
    if isinstance(step, Transition):
        return step
    await audit.denied(rt, context, caller, f"memory.{what}", held.memory.ref)
    if step is Refusal.FORBIDDEN:
        raise Forbidden(f"this key may not {what} this memory: only the person it belongs to decides about it")
    raise IllegalTransition(f"a memory that is {held.memory.status} cannot be taken through {what}: read it again")


def _may_move(context: Context, caller: Caller, held: Held, what: Move) -> bool:
    """True when the key a person came with may write what lies under their own home, or forget it where that is what
    is done: a key that was made to read decides nothing."""
    scope = held.memory.scope
    own = [home for home in context.consent.homes_of(scope) if context.consent.homes[home] == caller.principal_id]
    nodes = [node for node in scope.nodes() if not own or any(Pattern(home, subtree=True).covers(node) for home in own)]
    verb = Verb.MEMORY_FORGET if what in _ENDING else Verb.MEMORY_WRITE
    return all(caller.region(verb).covers(node) for node in nodes)


def check_rev(memory: Memory, rev: int | None) -> None:
    """Raises: StaleRevision when the caller read another revision than there is."""
    if rev is not None and rev != memory.rev:
        raise StaleRevision(f"this memory was changed since: it is at revision {memory.rev}, read it again")


def names_of(memory: Memory) -> set[str]:
    """What to hold alone while a memory moves: itself, and the entities that its row names."""
    refs = store_facts.entities_of(memory.row) if memory.row is not None else ()
    return {f"memory:{memory.id}", *map(str, refs)}
