"""The inbox: what waits for a person, shown once each with what they need to decide, and their decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from keeps.core.access import Caller, Verb
from keeps.core.errors import Forbidden, KeepsError, NotFound, Unprocessable
from keeps.core.facts import Row, RowId, Status
from keeps.core.inbox import Choice, Rate, Waiting, choices_of, each_once, one_by_one, rates
from keeps.core.memories import Memory, OnConflict
from keeps.core.pages import Page, PageRequest, page_of, time_key
from keeps.core.proposals import Proposal
from keeps.core.scopes import Scope
from keeps.core.sessions import RENDERED, Turn
from keeps.services import audit, confirming, discarding, moves, roles, standing
from keeps.services.runtime import Context, Runtime
from keeps.services.standing import PEOPLE
from keeps.store import facts as store_facts
from keeps.store import inbox as store_inbox
from keeps.store import proposals as store_proposals
from keeps.store import sessions as store_sessions

MOST: Final = 2_000
"""Proposals that are looked at, the newest: inboxes are capped well below, imports may go beyond."""

SENTENCE_CHARS: Final = 300
"""How much of what was said is shown, when it is not known which part of it was meant."""

_TURN: Final = "turn:"
_FOR_PEOPLE: Final = "the inbox is for people: an agent withdraws what it proposed, and decides on nothing"
_KEEPING: Final = frozenset({Choice.KEEP, Choice.EDIT, Choice.REPLACE, Choice.KEEP_BOTH, Choice.RELEASE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One thing that waits. `row`: as it would be written; `scope`: as its reader sees it. `sentence`: what was said,
    as far as it is there; `deleted`: it is not there any more. `conflict`: the saved value beside it."""

    waiting: Waiting
    row: Row
    scope: Scope
    sentence: str | None = None
    deleted: bool = False
    conflict: Row | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inbox:
    """What waits for one caller. `waiting`, `held`: how many proposals in all; `elsewhere`: those of others, for an
    admin. `rates`: what became of what each agent proposed."""

    page: Page[Item]
    waiting: int
    held: int
    elsewhere: int | None
    rates: Sequence[Rate]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a person decides about one thing. `text`: its new words, with `EDIT`. `rev`: only as it was seen."""

    id: str
    choice: Choice
    text: str | None = None
    rev: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What came of one decision: the memory as it stands, or what kept it from being done."""

    decision: Decision
    memory: Memory | None = None
    error: KeepsError | None = None


async def list_inbox(
    rt: Runtime, context: Context, caller: Caller, page: PageRequest, *, held: bool | None = None
) -> Inbox:
    """What waits for a person, newest first; to an admin also how much waits elsewhere, as numbers alone.

    `held`: only what is held back, or only what is not. Raises: Forbidden for who is neither a person nor an admin.
    """
    admin, person = roles.is_admin(context, caller), caller.is_person
    if not person and not admin:
        raise Forbidden(_FOR_PEOPLE)
    own = decided_by(context, caller) if person else frozenset[str]()
    counts = await store_inbox.counts(context.db, own)
    everywhere = await store_inbox.counts(context.db, context.sets.everything()) if admin else None
    tallies = await store_inbox.tallies(context.db, None if admin else own)
    return Inbox(
        page=await _page(context, caller, own, page, held) if own else Page(rows=()),
        waiting=counts[Status.PROPOSED],
        held=counts[Status.QUARANTINED],
        elsewhere=None if everywhere is None else sum(everywhere.values()) - sum(counts.values()),
        rates=rates(tallies),
    )


async def count(context: Context, caller: Caller) -> int:
    """How many proposals wait for the caller, those that are held back apart."""
    return (await store_inbox.counts(context.db, decided_by(context, caller)))[Status.PROPOSED]


def decided_by(context: Context, caller: Caller) -> frozenset[str]:
    """The scope sets in which the caller decides on what waits: those of its own, and shared ones it curates."""
    readable = context.sets.readable(caller.region(Verb.MEMORY_READ))
    return frozenset(each for each in readable if standing.actor_of(context, caller, context.sets[each]) in PEOPLE)


async def _page(
    context: Context, caller: Caller, own: frozenset[str], page: PageRequest, held: bool | None
) -> Page[Item]:
    status = None if held is None else Status.QUARANTINED if held else Status.PROPOSED
    found = await store_proposals.list_open(context.db, context.sets, own, status=status, limit=MOST)
    things = each_once(proposal for proposal in found if proposal.row is not None)
    part = page_of(things, lambda thing: (time_key(thing.newest.created_at), thing.newest.id), page, newest_first=True)
    items = await _items(context, caller, part.rows)
    return Page(rows=tuple(items), next=part.next, total=part.total)


async def _items(context: Context, caller: Caller, things: Sequence[Waiting]) -> list[Item]:
    region = caller.region(Verb.MEMORY_READ)
    readable = context.sets.readable(region)
    conflicts = [ref for thing in things if (ref := thing.newest.conflicts_with) is not None]
    saved = await store_facts.by_refs(context.db, context.sets, conflicts, readable)
    said = await store_sessions.turns_by_id(context.db, context.sets, list(_turns(things)), readable)
    items: list[Item] = []
    for thing in things:
        row = thing.newest.row
        assert row is not None
        sentence, deleted = _sentence(row, said)
        conflict = saved.get(thing.newest.conflicts_with or "")
        items.append(
            Item(
                waiting=thing,
                row=row,
                scope=row.scope.seen_by(region),
                sentence=sentence,
                deleted=deleted,
                conflict=conflict if conflict is not None and conflict.clocks.forgotten_at is None else None,
            )
        )
    return items


def _turns(things: Iterable[Waiting]) -> Iterable[str]:
    for thing in things:
        row = thing.newest.row
        if row is not None and row.source.ref is not None and row.source.ref.startswith(_TURN):
            yield row.source.ref.removeprefix(_TURN)


def _sentence(row: Row, said: Mapping[str, Turn]) -> tuple[str | None, bool]:
    """What was said, and whether that was deleted."""
    ref = row.source.ref
    if ref is None or not ref.startswith(_TURN):
        return None, False
    turn = said.get(ref.removeprefix(_TURN))
    if turn is None or not turn.active:
        return None, True
    if row.source_clause and row.source_clause in turn.content:
        return row.source_clause, False
    if RENDERED in turn.flags:  # written from what was given: nobody said it so
        return None, False
    text = " ".join(turn.content.split())
    return (text if len(text) <= SENTENCE_CHARS else text[: SENTENCE_CHARS - 1].rstrip() + "…") or None, False


# ---------------------------------------------------------------------- deciding
async def decide(rt: Runtime, context: Context, caller: Caller, decisions: Sequence[Decision]) -> list[Settled]:
    """What came of each decision, in their order: one that cannot be done keeps no other from being done.

    Raises: Forbidden for who is no person; that is written down.
    """
    if not caller.is_person:
        await audit.denied(rt, context, caller, "inbox.decide", "inbox")
        raise Forbidden(_FOR_PEOPLE)
    settled: list[Settled] = []
    for decision in decisions:
        try:
            memory = await _decide(rt, context, caller, decision, alone=len(decisions) == 1)
        except KeepsError as error:
            settled.append(Settled(decision=decision, error=error))
        else:
            settled.append(Settled(decision=decision, memory=memory))
    return settled


async def _decide(rt: Runtime, context: Context, caller: Caller, decision: Decision, *, alone: bool) -> Memory:
    own = decided_by(context, caller)
    proposal = await store_proposals.find(context.db, context.sets, decision.id)
    if proposal is None or proposal.scope_set not in own:
        raise NotFound(f"{decision.id} does not wait for you")
    choice = decision.choice
    if proposal.is_open and choice not in choices_of(proposal):
        allowed = ", ".join(choices_of(proposal))
        raise Unprocessable(f"{choice} cannot be said about this: say one of {allowed}")
    if choice in _KEEPING and not alone and one_by_one(proposal):
        raise Unprocessable("this is held back, sensitive or of doubtful origin: look at it, and decide on it alone")
    same = await _same(context, proposal) if proposal.is_open and choice is not Choice.RELEASE else ()
    for other in same:  # first, so that the yes to one of them stands over the no to the others
        await discarding.reject(rt, context, caller, other)
    if choice is Choice.RELEASE:
        return await moves.release(rt, context, caller, proposal.id, rev=decision.rev)
    if choice in _KEEPING:
        on_conflict = OnConflict.KEEP_BOTH if choice is Choice.KEEP_BOTH else OnConflict.REPLACE
        return await confirming.confirm(
            rt, context, caller, proposal.id, rev=decision.rev, on_conflict=on_conflict, text=decision.text
        )
    blocks = choice is Choice.DISCARD_AND_BLOCK
    return await discarding.reject(rt, context, caller, proposal.id, rev=decision.rev, blocks=blocks)


async def _same(context: Context, proposal: Proposal) -> tuple[RowId, ...]:
    """The other proposals that say the same and are shown as one with it."""
    found = await store_inbox.like(context.db, context.sets, proposal)
    things = each_once(each for each in found if each.row is not None)
    ids = next((tuple(p.id for p in one.all) for one in things if any(p.id == proposal.id for p in one.all)), ())
    return tuple(each for each in ids if each != proposal.id)


# ---------------------------------------------------------------------- the webhook
def webhook_key(context: Context, caller: Caller) -> str:
    """What messages about proposals are signed with. Raises: Forbidden unless an owner or an admin asks."""
    if not roles.is_admin(context, caller):
        raise Forbidden("the key of the webhook is for owners and admins of the context")
    return context.webhook.key
