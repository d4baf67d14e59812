"""The block of remembered things an agent puts beside its prompt."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from keeps.core import contexts as core_contexts
from keeps.core import fence, words
from keeps.core.access import Caller
from keeps.core.facts import TRUST, Clocks, Control, Origin, Row, RowId, Source, Status
from keeps.core.kinds import INSTRUCTION
from keeps.core.modes import Include
from keeps.core.packing import LOOSEST, Budget, Unconfirmed, check_budget, tokens_of
from keeps.core.policy import Why
from keeps.core.runs import Candidate, Inclusion
from keeps.core.scopes import Lens, Scope
from keeps.core.sessions import Turn
from keeps.core.validity import answers
from keeps.finder.local import stemmer
from keeps.services import runs
from keeps.services.prompt import Entry, Prompt, said_note, told
from keeps.services.reading import Hit
from keeps.services.recall import Recall, Recalled, nothing, readable_sets, recall
from keeps.services.runtime import Context, Runtime
from keeps.store import facts as store_facts
from keeps.store import proposals as store_proposals
from keeps.store import standing as store_standing
from keeps.store.standing import Standing

SWITCHED_OFF = "memory is switched off"
TEMPORARY = "this is a temporary chat"
TOO_LATE = "memory did not answer in time"

_MOST_GUESSES = 200
"""Proposals that are looked through for guesses, at most, the newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question whose answer goes into a prompt. `budget`: what the prompt has room for; it only narrows what the
    context allows. `run`: the run of an agent it is for. `said`: turns that stand last in the block, as many of the
    newest as there is room for; no passage of them is looked for."""

    recall: Recall
    budget: Budget = LOOSEST
    run: str | None = None
    said: tuple[Turn, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Influence:
    """How many memories of a block nobody confirmed, and how many came from outside."""

    unconfirmed: int = 0
    tainted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """The rendered block, empty when nothing answers, and the recall it came from.

    `entries`: what stands in it, in order; `dropped`: by id, what answered and does not stand in it, and why.
    `pending`: how many proposals wait for a decision in what the caller may read. `tokens`: about as many as the block
    takes. `run`: the run it was noted for; None when nothing was.
    """

    text: str = ""
    recalled: Recalled
    pending: int = 0
    entries: Sequence[Entry] = ()
    dropped: Sequence[tuple[str, Inclusion]] = ()
    budget: Budget
    influence: Influence = field(default_factory=Influence)
    tokens: int = 0
    run: str | None = None
    settings_version: int = 0


async def block(rt: Runtime, context: Context, caller: Caller, asked: Asked) -> Block:
    """What answers well enough and may stand in a prompt: rules first, then facts, then passages, each section inside
    a fence that no memory can leave.

    Memory that is switched off, away or too slow gives an empty block and no error.
    Raises: as `recall`; Invalid for a budget outside of its ranges; NotFound for a run the caller does not have.
    """
    started = time.perf_counter()
    budget = budget_for(context, caller, asked)
    request = replace(asked.recall, k=max(1, budget.max_memories), min_score=budget.min_score)
    if asked.run is not None:
        await runs.of_caller(context, caller, asked.run)
    version = context.consent.settings.version
    if why := _shut(context, asked):
        found = nothing(rt, context, caller, asked.recall, why)
        run = asked.run
        return Block(recalled=found, budget=budget, run=run, settings_version=version)
    try:
        async with asyncio.timeout(budget.timeout_ms / 1000):
            prompt = Prompt(context, caller, query=request.query, now=rt.clock(), budget=budget)
            prompt.hide(turn.id for turn in asked.said)
            found, standing = await asyncio.gather(
                recall(rt, context, caller, request, prompt), _standing(rt, context, caller, request, budget)
            )
            prompt.stand(standing.hits)
    except TimeoutError:
        found = nothing(rt, context, caller, asked.recall, TOO_LATE, degraded=("memory",))
        run = await _note(rt, context, caller, asked, Noted(), started, found)
        return Block(recalled=found, budget=budget, run=run, settings_version=version)
    noted = _noted(prompt, found)
    text, tokens = _rendered(prompt, asked.said, budget)
    run = await _note(rt, context, caller, asked, noted, started, found)
    return Block(
        text=text,
        recalled=found,
        pending=standing.waiting,
        entries=prompt.chosen(),
        dropped=noted.dropped,
        budget=budget,
        influence=_influence(prompt.chosen()),
        tokens=tokens,
        run=run,
        settings_version=version,
    )


async def search(rt: Runtime, context: Context, caller: Caller, asked: Asked) -> Recalled:
    """Ranked hits out of what the caller may see, noted for the run that the question names.

    While memory is switched off people find what is their own, and nobody else anything; in a temporary chat nobody
    does. Raises: as `recall`; NotFound for a run the caller does not have.
    """
    started = time.perf_counter()
    if asked.run is not None:
        await runs.of_caller(context, caller, asked.run)
    why = _shut(context, asked)
    if why == TEMPORARY or (why and not caller.is_person):
        return nothing(rt, context, caller, asked.recall, why)
    found = await recall(rt, context, caller, asked.recall)
    if asked.run is not None:
        weighed = [told(hit, Inclusion.INCLUDED) for hit in found.hits]
        weighed += [told(one.hit, one.why) for one in found.left_out]
        noted = Noted(candidates=[replace(one, rank=rank) for rank, one in enumerate(weighed, 1)])
        await _note(rt, context, caller, asked, noted, started, found)
    return found


def budget_for(context: Context, caller: Caller, asked: Asked) -> Budget:
    """The strictest of what the context, the agent's own budget and the request allow. Raises: Invalid."""
    settings, request = context.consent.settings, asked.recall
    budget = settings.budget.narrowed(check_budget(asked.budget))
    for who in (caller.principal_id, caller.delegate):
        if who is not None:
            budget = budget.narrowed(settings.agents.get(who, LOOSEST))
    floor = core_contexts.min_score_of(context.config) if request.min_score is None else request.min_score
    return budget.narrowed(replace(LOOSEST, max_memories=request.k, min_score=floor))


def _shut(context: Context, asked: Asked) -> str:
    """Why no memory may be used at all; empty when it may."""
    if not context.consent.settings.may_prompt:
        return SWITCHED_OFF
    return TEMPORARY if runs.is_temporary(context, asked.run, asked.recall.session) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Standing:
    hits: Sequence[Hit] = ()
    waiting: int = 0


async def _standing(rt: Runtime, context: Context, caller: Caller, request: Recall, budget: Budget) -> _Standing:
    """What may stand in the prompt without being searched for: pinned rows, instructions, guesses that fit."""
    readable = readable_sets(context, caller, request.lens)
    # A lens narrows the question, not what there is to decide.
    deciding = readable_sets(context, caller, Lens())
    found: Standing = await store_standing.standing(context.db, context.sets, readable, waiting_in=deciding)
    now = rt.clock()
    rows = [row for row in found.rows if _stands(row, request, now)]
    hits = [Hit(row=row, unit="", text=row.summary, score=1.0) for row in (*_told(context, caller), *rows)]
    if found.waiting and request.when.is_now and budget.allow_unconfirmed is not Unconfirmed.NEVER:
        hits += await _guesses(context, readable, request, budget.min_score)
    return _Standing(hits=hits, waiting=found.waiting)


def _told(context: Context, caller: Caller) -> list[Row]:
    """What an admin told the agent that asks, as a row that no memory has."""
    procedure = context.consent.procedures.get(caller.principal_id)
    if procedure is None:
        return []
    origin = Origin.ADMIN_SET
    return [
        Row(
            id=RowId(procedure.id),
            scope=Scope(),
            clocks=Clocks(known_at=procedure.since, recorded_at=procedure.since),
            source=Source(kind="upsert", trust=TRUST[origin]),
            summary=procedure.text,
            control=Control(kind=INSTRUCTION, origin=origin, trust=TRUST[origin], user_confirmed=True),
        )
    ]


def _stands(row: Row, request: Recall, now: datetime) -> bool:
    """True when a pinned row or an instruction belongs to the answer, by everything but its words."""
    over = row.control.expires_at is not None and row.control.expires_at <= now
    return answers(row, request.when, now) and not over and _is_meant(row, request)


def _is_meant(row: Row, request: Recall) -> bool:
    """True when a row has the labels asked for, and is about whom it is asked. Instructions are about nobody."""
    if not request.labels <= set(row.labels):
        return False
    if row.control.kind == INSTRUCTION:
        return True
    about = request.subject is None or request.subject in store_facts.entities_of(row)
    return about and Include.FACTS in request.include


async def _guesses(context: Context, readable: Collection[str], request: Recall, floor: float) -> list[Hit]:
    """Proposals that hold enough of the question's words. The finder knows none of them: nobody agreed to them yet."""
    asked = frozenset(words.question(request.query, stemmer()))
    found = await store_proposals.list_open(
        context.db, context.sets, readable, status=Status.PROPOSED, limit=_MOST_GUESSES
    )
    hits: list[Hit] = []
    for proposal in found:
        row = proposal.row
        if row is None or proposal.reason == Why.RETIRE or not _is_meant(row, request):
            continue
        share = len(asked & words.bag(row.summary, stemmer()).counts.keys()) / max(1, len(asked))
        if share > 0.0 and share >= floor:
            waits = replace(row, control=replace(row.control, status=Status.PROPOSED))
            hits.append(Hit(row=waits, unit="", text=row.summary, score=round(share, 6)))
    return hits


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """What a run is told of a block."""

    candidates: Sequence[Candidate] = ()
    dropped: Sequence[tuple[str, Inclusion]] = ()
    tokens: int = 0


def _noted(prompt: Prompt, found: Recalled) -> Noted:
    """Everything that was weighed for the block, each once: what stands in it, then what does not."""
    weighed = [told(entry.hit, Inclusion.INCLUDED, entry.reason) for entry in prompt.chosen()]
    weighed += [told(entry.hit, why, entry.reason) for entry, why in prompt.left_out()]
    weighed += [told(one.hit, one.why) for one in found.left_out]
    weighed += [told(hit, why) for hit, why in prompt.refused]
    once = {one.memory: one for one in reversed(weighed)}
    places = dict.fromkeys(one.memory for one in weighed)
    candidates = [replace(once[name], rank=rank) for rank, name in enumerate(places, 1)]
    dropped = [(one.memory, one.inclusion) for one in candidates if one.inclusion is not Inclusion.INCLUDED]
    return Noted(candidates=candidates, dropped=dropped, tokens=prompt.packed.tokens)


async def _note(
    rt: Runtime, context: Context, caller: Caller, asked: Asked, noted: Noted, started: float, found: Recalled
) -> str:
    """Tell the run of the block, a new one when the request names none; the id of the run."""
    given = runs.Offer(
        candidates=noted.candidates,
        session=asked.recall.session,
        tokens=noted.tokens,
        latency_ms=round((time.perf_counter() - started) * 1000),
        degraded=found.degraded,
    )
    return await runs.offer(rt, context, caller, asked.run, given)


def _influence(entries: Sequence[Entry]) -> Influence:
    rows = [entry.hit.row for entry in entries]
    taints = [row.taint if isinstance(row, Turn) else row.control.taint for row in rows]
    return Influence(
        unconfirmed=sum(entry.unconfirmed for entry in entries), tainted=sum(1 for taint in taints if taint)
    )


def _rendered(prompt: Prompt, said: Sequence[Turn], budget: Budget) -> tuple[str, int]:
    """What was chosen as the sections of a block, rules, then facts, then passages, then what was just said; and about
    how many tokens that is."""
    entries, tokens = prompt.chosen(), prompt.packed.tokens
    rules = [entry.line for entry in entries if entry.item.section == fence.INSTRUCTIONS]
    notes = [entry for entry in entries if entry.item.section == fence.NOTES]
    lines = [entry.line for entry in notes if not isinstance(entry.hit.row, Turn)]
    lines += [entry.line for entry in notes if isinstance(entry.hit.row, Turn)]
    if recent := [fence.json_line(said_note(turn)) for turn in said if prompt.may_hear(turn)]:
        room = budget.max_tokens - tokens - (0 if lines else fence.OVERHEAD[fence.NOTES])
        costs = [tokens_of(line + "\n") for line in recent]
        while recent and sum(costs) > room:
            del recent[0], costs[0]
        tokens += sum(costs) + (fence.OVERHEAD[fence.NOTES] if recent and not lines else 0)
        lines += recent
    nonce = secrets.token_hex(8)
    parts = (fence.fenced(rules, nonce=nonce, section=fence.INSTRUCTIONS), fence.fenced(lines, nonce=nonce))
    return "\n".join(filter(None, parts)), tokens


async def count_waiting(rt: Runtime) -> int:
    """How many proposals wait for a decision in the contexts that are open."""
    return sum(
        [await store_proposals.count_waiting(context.db, context.sets.everything()) for context in rt.contexts.values()]
    )
