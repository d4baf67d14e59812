"""What a request to forget would take, and what comes near it, told to those who may look at it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from keeps.core.access import Caller
from keeps.core.kinds import INSTRUCTION
from keeps.core.policy import Preset
from keeps.core.status import Actor
from keeps.core.validity import offered
from keeps.finder.base import FinderLost
from keeps.services import index, standing
from keeps.services.choosing import Choice, Unit, ref_of_row
from keeps.services.history import heard
from keeps.services.runtime import Context
from keeps.services.sight import presences, sight_of
from keeps.store import facts as store_facts
from keeps.store import sessions as store_sessions
from keeps.store.rows import Record, key_of, stored_ref

NEAR_MISSES: Final = 20

MATCHES: Final = 20
"""How many of the memories that would go are told with their text."""

MATCH_CHARS: Final = 200

_TURN: Final = "turn:"


@dataclass(frozen=True, slots=True, kw_only=True)
class NearMiss:
    """A row that comes near the words and stays. `score` 0..1: how much of the words it holds, or how near its meaning
    is, whichever is more."""

    ref: str
    text: str
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A memory that would go. `text`: on one line, at most 200 characters."""

    ref: str
    text: str


async def matches(context: Context, caller: Caller, choice: Choice, going: Collection[str]) -> tuple[Match, ...]:
    """The memories that would go and may be looked at now, each by its latest value, at most `MATCHES`."""
    told: list[Match] = []
    for unit in choice.units:
        if len(told) == MATCHES:
            break
        if (match := await _match(context, caller, unit, going)) is not None:
            told.append(match)
    return tuple(told)


async def _match(context: Context, caller: Caller, unit: Unit, going: Collection[str]) -> Match | None:
    if unit.presence is not None:
        ref, scope_set = unit.presence
        shown = await presences(context, sight_of(context, caller), [stored_ref(ref)])
        if not any(each.scope_set == scope_set for seen in shown.values() for each in seen):
            return None
        return Match(ref=f"entity:{ref}", text=ref[:MATCH_CHARS])
    standing_rows = [row for row in unit.rows if ref_of_row(row) in going and _stands(row)]
    texts = await _texts(context, caller, standing_rows)
    rows = [row for row in standing_rows if ref_of_row(row) in texts]
    if not rows:
        return None
    head = next((row for row in rows if row.get("superseded_by") is None), rows[0])
    return Match(ref=ref_of_row(head), text=" ".join(texts[ref_of_row(head)].split())[:MATCH_CHARS])


async def in_sight(context: Context, caller: Caller, units: Sequence[Unit]) -> list[Unit]:
    """Those of the memories that the caller may take away: people all they decide about, everybody else what they may
    look at, as if there were nothing else. Where everything is automatic nobody decides, and grants alone count."""
    if context.consent.settings.policy is Preset.AUTOMATIC:
        return list(units)
    rows = [row for unit in units for row in unit.rows]
    known = await _texts(context, caller, [row for row in rows if _stands(row)])
    kept: list[Unit] = []
    for unit in units:
        if unit.presence is not None:
            seen = decides(context, caller, unit.presence[1]) or await _match(context, caller, unit, ()) is not None
        else:
            seen = any(decides(context, caller, row["scope_set"]) or ref_of_row(row) in known for row in unit.rows)
        if seen:
            kept.append(unit)
    return kept


def decides(context: Context, caller: Caller, scope_set: str) -> bool:
    """True for who may delete for good in a scope set: its person, a curator of what is shared, an admin."""
    return standing.actor_of(context, caller, context.sets[scope_set]) is not Actor.AGENT


async def near_misses(
    context: Context, caller: Caller, query: str, choice: Choice, own: Collection[str]
) -> tuple[NearMiss, ...]:
    """What comes near the words in scope sets, best first, without what they name."""
    within = frozenset(own) & sight_of(context, caller).sets
    if not query.strip() or not within:
        return ()
    chosen = choice.order.rows
    try:
        hits = await context.finder.find(query, within, limit=NEAR_MISSES + len(chosen))
    except FinderLost:
        await index.catch_up(context.indexed)
        return ()
    scores = {hit.ref: hit.share for hit in hits}
    for ref, cosine in choice.meant.near:
        scores[ref] = max(cosine, scores.get(ref, 0.0))
    refs = sorted((ref for ref in scores if ref not in chosen), key=lambda ref: -scores[ref])[:NEAR_MISSES]
    found = await store_facts.records(context.db, refs)
    near = [row for row in found.values() if row["scope_set"] in within and row.get("forgotten_at") is None]
    texts = await _texts(context, caller, near)
    return tuple(NearMiss(ref=ref, text=texts[ref], score=min(1.0, scores[ref])) for ref in refs if ref in texts)


def _stands(row: Record) -> bool:
    """True for what was not taken out of every answer before."""
    return row.get("forgotten_at") is None and row.get("status") != "rejected"


async def _texts(context: Context, caller: Caller, rows: Sequence[Record]) -> Mapping[str, str]:
    """The texts of rows that the caller may look at, by `table:key`."""
    sight, now = sight_of(context, caller), context.clock()
    turns = [key_of(row["id"]) for row in rows if row["id"].table_name == "turn"]
    said = await store_sessions.turns_by_id(context.db, context.sets, turns, sight.sets)
    may_hear = await heard(context, caller, said.values())
    texts = {f"{_TURN}{key}": turn.content for key, turn in said.items() if turn.active and key in may_hear}
    for row in rows:
        table, scope_set = row["id"].table_name, row["scope_set"]
        if scope_set not in sight.sets or table == "turn":
            continue
        if table in store_facts.FACT_TABLES:
            fact = store_facts.from_record(row, context.sets)
            # A person is told of everything of theirs that would go, muted or not.
            if scope_set in sight.whole or (sight.shows(fact) and offered(fact.control, now)):
                texts[ref_of_row(row)] = fact.summary
        elif table == "proposal":
            decides = standing.actor_of(context, caller, context.sets[scope_set]) in standing.PEOPLE
            if decides or row["proposed_by"] == caller.principal_id:
                texts[ref_of_row(row)] = str(row["row"].get("summary", ""))
        elif scope_set in sight.whole or sight.shows_kind(context.sets[scope_set], INSTRUCTION):
            texts[ref_of_row(row)] = row.get("description") or row["summary"]
    return texts
