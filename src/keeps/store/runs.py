"""Runs of agents as rows, what each was offered, and how often a memory was used.

Saving is no numbered change of the record: nothing follows it, and saving the same again changes and counts nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, LiteralString

from keeps.core.runs import Candidate, EndReason, Inclusion, Outcome, Reason, Run, ToolCall
from keeps.store import uses as store_uses
from keeps.store.db import INDEXED_VALUES, Db, RecordID
from keeps.store.rows import Record, key_of
from keeps.store.traces import micros, moment

TABLE: Final = "run"
CANDIDATES: Final = "run_memory"

ROW_TABLES: Final = frozenset({"attribute", "relates_to", "action", "turn"})
"""Tables whose rows can stand in a prompt as they are, besides passages and what waits for a person."""

_NAMED: Final = ROW_TABLES | {"memory_chunk", "proposal"}

_READ_S: Final = 15.0
_SCAN_S: Final = 65.0
_AT_ONCE: Final = 500
_ROWS_AT_ONCE: Final = 100
"""Rows one transaction writes, about: one that writes many times as many takes far more than as many times as long."""

_FIRST_SPAN: Final = 600_000_000
_LAST_SPAN: Final = 64 * 86_400_000_000
"""Microseconds of time that a page is looked for in: the engine reads all that an index allows, whatever the limit."""

_BEGINNING: Final = -(2**62)
_END: Final = 2**62

Moment = tuple[datetime, str]
"""Where a run stands in the list: when it began, and its id among those of one time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """What of a run is to be saved: the run as it is, the candidates that stood in a prompt and are new, all that were
    left out, what was cited.

    `offered_at`, `cited_at`: when, by memory. `bad`: parts of cites that were dropped; `bad_at`: when the last was.
    """

    run: Run
    active_at: datetime
    candidates: Sequence[Candidate] = ()
    left_out: Sequence[Candidate] = ()
    offered_at: Mapping[str, datetime] = field(default_factory=dict[str, datetime])
    cited_at: Mapping[str, datetime] = field(default_factory=dict[str, datetime])
    bad: Sequence[str] = ()
    bad_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A run as it was saved. `cited`: which of its candidates an answer relied on."""

    run: Run
    active_at: datetime
    candidates: Sequence[Candidate] = ()
    cited: frozenset[str] = frozenset()
    bad: Sequence[str] = ()
    bad_at: datetime | None = None


_SAVE: Final[LiteralString] = (
    "BEGIN;"
    "FOR $r IN $runs { UPSERT $r.id CONTENT $r.row RETURN NONE };"
    "INSERT INTO run_memory $shown RETURN NONE;"
    "UPDATE $cited SET cited = true RETURN NONE;"
    "FOR $u IN $uses {"
    " UPSERT $u.id SET memory = $u.memory, agent = $u.agent, day = $u.day, offered = (offered ?? 0) + $u.offered,"
    " cited = (cited ?? 0) + $u.cited, last_us = math::max([last_us ?? 0, $u.last_us]) RETURN NONE };"
    "COMMIT;"
)


async def save(db: Db, runs: Sequence[Saved]) -> None:
    """Write runs, a hundred rows or so a transaction. What is counted is counted once a run and memory, however often
    it is saved; nobody else may save runs meanwhile."""
    part: list[Saved] = []
    rows = 0
    for one in runs:
        part.append(one)
        rows += 1 + 2 * len(one.offered_at) + 2 * len(one.cited_at)
        if rows >= _ROWS_AT_ONCE:
            await _save(db, part)
            part, rows = [], 0
    if part:
        await _save(db, part)


async def _save(db: Db, runs: Sequence[Saved]) -> None:
    named = {_candidate_id(one.run.id, memory) for one in runs for memory in (*one.offered_at, *one.cited_at)}
    there = await _there(db, sorted(named, key=key_of))
    uses: dict[RecordID, dict[str, Any]] = {}
    shown: list[Record] = []
    cited: list[RecordID] = []
    for one in runs:
        for each in one.candidates:
            key = _candidate_id(one.run.id, each.memory)
            if each.memory in one.offered_at and key.id not in there:
                is_cited = each.memory in one.cited_at
                shown.append(_candidate_row(one.run, each) | {"cited": is_cited})
                store_uses.count(
                    uses, one.run.agent, each.memory, one.offered_at[each.memory], offered=1, cited=int(is_cited)
                )
        for memory, at in one.cited_at.items():
            key = _candidate_id(one.run.id, memory)
            if there.get(str(key.id)) is False:
                cited.append(key)
                store_uses.count(uses, one.run.agent, memory, at, cited=1)
    await db.run(
        _SAVE,
        timeout_s=_READ_S,
        runs=[{"id": RecordID(TABLE, one.run.id), "row": to_row(one)} for one in runs],
        shown=shown,
        cited=cited,
        uses=list(uses.values()),
    )


async def _there(db: Db, ids: Sequence[RecordID]) -> dict[str, bool]:
    """Candidates that are saved, and whether each was cited."""
    if not ids:
        return {}
    (rows,) = await db.run("SELECT id, cited FROM $ids TIMEOUT 10s;", timeout_s=_READ_S, ids=list(ids))
    return {key_of(row["id"]): row["cited"] for row in rows}


async def find(db: Db, run_id: str) -> Stored | None:
    """The run with its candidates by rank; `None` when there is none of that id."""
    row = (await db.run("SELECT * FROM ONLY $id TIMEOUT 2s;", id=RecordID(TABLE, run_id)))[0]
    if not row:
        return None
    found = (await db.run("SELECT * FROM run_memory WHERE run = $run TIMEOUT 5s;", timeout_s=_READ_S, run=run_id))[0]
    shown = {row["memory"]: _shown(row) for row in found}
    left_out = [each for each in _left_out(row["left_out"]) if each.memory not in shown]
    return Stored(
        run=from_row(row),
        active_at=moment(row["active_us"]),
        candidates=sorted((*shown.values(), *left_out), key=lambda each: (each.rank, each.memory)),
        cited=frozenset(each["memory"] for each in found if each["cited"]),
        bad=tuple(row["bad"]),
        bad_at=None if row.get("bad_us") is None else moment(row["bad_us"]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which runs: of an agent, in a session, that were given one of these memories; all of them unless said."""

    agent: str | None = None
    session: str | None = None
    memories: Sequence[str] | None = None


_BY_TIME: Final[LiteralString] = (
    "SELECT * FROM run WHERE started_us >= $low AND started_us < $high"
    " AND (started_us < $before_us OR (started_us = $before_us AND id < $before_id))"
    " ORDER BY started_us DESC, id DESC LIMIT $limit TIMEOUT 10s;"
)
_BY_AGENT: Final[LiteralString] = (
    "SELECT * FROM run WHERE agent = $agent AND started_us >= $low AND started_us < $high"
    " AND (started_us < $before_us OR (started_us = $before_us AND id < $before_id))"
    " ORDER BY started_us DESC, id DESC LIMIT $limit TIMEOUT 10s;"
)
_BY_SESSION: Final[LiteralString] = (
    "SELECT * FROM run WHERE session = $of_session AND started_us >= $low AND started_us < $high"
    " AND (started_us < $before_us OR (started_us = $before_us AND id < $before_id))"
    " ORDER BY started_us DESC, id DESC LIMIT $limit TIMEOUT 10s;"
)


async def newest(
    db: Db, wanted: Wanted, sees: Callable[[Run], bool], *, before: Moment | None = None, limit: int, now: datetime
) -> list[Run]:
    """Up to `limit` runs that are wanted and seen, the one that began last first, from strictly before a place on."""
    if wanted.memories is not None:
        return await _of_memories(db, wanted, sees, before=before, limit=limit)
    query = _BY_AGENT if wanted.agent is not None else _BY_TIME
    query = _BY_SESSION if wanted.session is not None else query
    found: list[Run] = []
    high, span = _END, _FIRST_SPAN
    place = (micros(before[0]), before[1]) if before else (_END, "")
    low = (place[0] if before else micros(now)) - span
    while True:
        rows = (
            await db.run(
                query,
                timeout_s=_READ_S,
                low=low,
                high=min(high, place[0] + 1),
                agent=wanted.agent,
                of_session=wanted.session,
                before_us=place[0],
                before_id=RecordID(TABLE, place[1]),
                limit=limit,
            )
        )[0]
        found += [run for run in map(from_row, rows) if _is_wanted(run, wanted) and sees(run)]
        if len(found) >= limit:
            return found[:limit]
        if len(rows) == limit:
            place = (rows[-1]["started_us"], key_of(rows[-1]["id"]))
            continue
        if low == _BEGINNING:
            return found
        high, span = low, 2 * span
        low = _BEGINNING if span > _LAST_SPAN else low - span


def _is_wanted(run: Run, wanted: Wanted) -> bool:
    return wanted.agent in (None, run.agent) and wanted.session in (None, run.session)


async def _of_memories(
    db: Db, wanted: Wanted, sees: Callable[[Run], bool], *, before: Moment | None, limit: int
) -> list[Run]:
    place = (micros(before[0]), before[1]) if before else (_END, "")
    at: dict[str, int] = {}
    for memory in wanted.memories or ():
        rows = (
            await db.run(
                "SELECT run, at_us FROM run_memory WHERE memory = $memory AND at_us <= $before TIMEOUT 10s;",
                timeout_s=_READ_S,
                memory=memory,
                before=place[0],
            )
        )[0]
        at.update((row["run"], row["at_us"]) for row in rows)
    ids = [run for us, run in sorted(((us, run) for run, us in at.items()), reverse=True) if (us, run) < place]
    found: list[Run] = []
    for start in range(0, len(ids), limit):
        part = [RecordID(TABLE, run) for run in ids[start : start + limit]]
        rows = (await db.run("SELECT * FROM $ids TIMEOUT 5s;", timeout_s=_READ_S, ids=part))[0]
        runs = sorted(map(from_row, rows), key=lambda run: (run.started_at, run.id), reverse=True)
        found += [run for run in runs if _is_wanted(run, wanted) and sees(run)]
        if len(found) >= limit:
            break
    return found[:limit]


async def temporary(db: Db) -> list[tuple[str, str | None]]:
    """Every run of a temporary chat, with its session."""
    rows = (await db.run("SELECT id, session FROM run WHERE temporary = true TIMEOUT 30s;", timeout_s=_SCAN_S))[0]
    return [(key_of(row["id"]), row.get("session")) for row in rows]


async def left_open(db: Db, before: datetime) -> list[str]:
    """Runs, by id, that are open and were last heard of before a time; 500 at most."""
    rows = (
        await db.run(
            "SELECT VALUE id FROM run WHERE is_open = true AND active_us < $before LIMIT $most TIMEOUT 10s;",
            timeout_s=_READ_S,
            before=micros(before),
            most=_AT_ONCE,
        )
    )[0]
    return [key_of(row) for row in rows]


async def count_proposed(db: Db, run_id: str) -> int:
    """How many proposals a run left that the record still knows of."""
    (found,) = await db.run("SELECT count() FROM proposal WHERE run = $run GROUP ALL TIMEOUT 5s;", run=run_id)
    return int(found[0]["count"]) if found else 0


# ---------------------------------------------------------------------- what stood in prompts, as it is now
async def owners(db: Db, memories: Collection[str]) -> dict[str, str]:
    """The scope set that each memory lies in now; those that are gone are left out."""
    ids = [RecordID(*memory.split(":", 1)) for memory in sorted(memories) if _is_memory(memory)]
    if not ids:
        return {}
    (rows,) = await db.run(
        "SELECT id, scope_set, turn FROM $ids WHERE forgotten_at = NONE TIMEOUT 5s;", timeout_s=_READ_S, ids=ids
    )
    named = {f"{row['id'].table_name}:{key_of(row['id'])}": row for row in rows}
    turns = {row["turn"] for row in named.values() if row.get("turn")}
    spoken: dict[str, str] = {}
    if turns:
        (rows,) = await db.run(
            "SELECT id, scope_set FROM $ids WHERE forgotten_at = NONE TIMEOUT 5s;",
            timeout_s=_READ_S,
            ids=[RecordID("turn", turn) for turn in sorted(turns)],
        )
        spoken = {key_of(row["id"]): row["scope_set"] for row in rows}
    found = {memory: row.get("scope_set") or spoken.get(row.get("turn") or "") for memory, row in named.items()}
    return {memory: scope_set for memory, scope_set in found.items() if scope_set}


@dataclass(frozen=True, slots=True)
class Piece:
    """Where a passage lies: the turn, as `turn:<id>`, and from which character to which."""

    turn: str
    start: int
    end: int


async def pieces(db: Db, chunks: Collection[str]) -> dict[str, Piece]:
    """Where each passage lies; those that are gone are left out."""
    ids = [RecordID(*chunk.split(":", 1)) for chunk in sorted(chunks)]
    if not ids:
        return {}
    (rows,) = await db.run("SELECT id, turn, char_start, char_end FROM $ids TIMEOUT 5s;", timeout_s=_READ_S, ids=ids)
    return {
        f"memory_chunk:{key_of(row['id'])}": Piece(f"turn:{row['turn']}", row["char_start"], row["char_end"])
        for row in rows
    }


async def standing(db: Db, memories: Collection[str]) -> set[str]:
    """Those of the memories that are there and not forgotten."""
    return set(await owners(db, memories))


def _is_memory(memory: str) -> bool:
    table, separator, key = memory.partition(":")
    return bool(separator and key) and table in _NAMED


# ---------------------------------------------------------------------- what is over
async def prune(db: Db, before: datetime, bad_before: datetime) -> int:
    """Remove runs from before a time with their candidates, and what stood for ids in answers from before another;
    how many runs there were. That a session was temporary stays known."""
    await db.run(
        "UPDATE run SET bad = [], bad_us = NONE WHERE bad_us < $before AND bad_us > 0 RETURN NONE TIMEOUT 30s;",
        timeout_s=_SCAN_S,
        before=micros(bad_before),
    )
    removed = 0
    while True:
        ids = (
            await db.run(
                "SELECT VALUE id FROM run WHERE started_us >= $beginning AND started_us < $before"
                " AND is_open = false AND (temporary = false OR session = NONE) LIMIT $most TIMEOUT 30s;",
                timeout_s=_SCAN_S,
                beginning=_BEGINNING,
                before=micros(before),
                most=_AT_ONCE,
            )
        )[0]
        for start in range(0, len(ids), INDEXED_VALUES):
            part = ids[start : start + INDEXED_VALUES]
            await db.run(
                "BEGIN; DELETE run_memory WHERE run IN $names RETURN NONE; DELETE $ids RETURN NONE; COMMIT;",
                timeout_s=_SCAN_S,
                names=[key_of(each) for each in part],
                ids=part,
            )
        removed += len(ids)
        if len(ids) < _AT_ONCE:
            return removed


# ---------------------------------------------------------------------- rows
def to_row(saved: Saved) -> Record:
    """A run as a row."""
    run = saved.run
    return {
        "agent": run.agent,
        "on_behalf_of": run.on_behalf_of,
        "session": run.session,
        "region": list(run.region),
        "people": sorted(run.people),
        "mode": run.mode,
        "settings_version": run.settings_version,
        "started_us": micros(run.started_at),
        "active_us": micros(saved.active_at),
        "ended_us": None if run.ended_at is None else micros(run.ended_at),
        "is_open": run.end_reason is None,
        "end_reason": None if run.end_reason is None else str(run.end_reason),
        "temporary": run.temporary,
        "saving": run.saving,
        "tool_calls": [
            {"name": call.name, "ok": call.ok, "ms": call.ms, "contradicts": list(call.contradicts)}
            for call in run.tool_calls
        ],
        "tokens_memory": run.tokens_memory,
        "latency_ms": run.latency_ms,
        "cites_kept": run.cites_kept,
        "cites_dropped": run.cites_dropped,
        "left_out": _packed(saved.left_out),
        "bad": list(saved.bad),
        "bad_us": None if saved.bad_at is None else micros(saved.bad_at),
        "outcome": None if run.outcome is None else str(run.outcome),
        "cost": dict(run.cost),
        "tokens": run.tokens,
        "took_ms": run.took_ms,
        "degraded": list(run.degraded),
        "proposed": run.proposed,
        "text_traced": run.text_traced or None,
    }


def from_row(row: Record) -> Run:
    """The run a row holds."""
    ended = row.get("ended_us")
    reason, outcome = row.get("end_reason"), row.get("outcome")
    return Run(
        id=key_of(row["id"]),
        agent=row["agent"],
        on_behalf_of=row.get("on_behalf_of"),
        session=row.get("session"),
        region=tuple(row["region"]),
        people=frozenset(row["people"]),
        mode=row["mode"],
        settings_version=row["settings_version"],
        started_at=moment(row["started_us"]),
        ended_at=None if ended is None else moment(ended),
        end_reason=None if reason is None else EndReason(reason),
        temporary=row["temporary"],
        saving=row["saving"],
        tool_calls=tuple(
            ToolCall(name=call["name"], ok=call["ok"], ms=call["ms"], contradicts=tuple(call["contradicts"]))
            for call in row["tool_calls"]
        ),
        tokens_memory=row["tokens_memory"],
        latency_ms=row["latency_ms"],
        cites_kept=row["cites_kept"],
        cites_dropped=row["cites_dropped"],
        outcome=None if outcome is None else Outcome(outcome),
        cost=dict(row.get("cost") or {}),
        tokens=row.get("tokens"),
        took_ms=row.get("took_ms"),
        degraded=tuple(row["degraded"]),
        proposed=row["proposed"],
        text_traced=bool(row.get("text_traced")),
    )


def _shown(row: Record) -> Candidate:
    return Candidate(
        memory=row["memory"],
        rank=row["rank"],
        reason=Reason(row["reason"]),
        score=row["score"],
        inclusion=Inclusion.INCLUDED,
        origin=row["origin"],
    )


def _packed(left_out: Sequence[Candidate]) -> str:
    """What was weighed and left out, as one text: there are many of them, and nothing looks for one of them."""
    told = [[each.memory, each.rank, each.reason, each.score, each.inclusion, each.origin] for each in left_out]
    return json.dumps(told, separators=(",", ":"))


def _left_out(text: str) -> list[Candidate]:
    return [
        Candidate(
            memory=memory,
            rank=rank,
            reason=Reason(reason),
            score=score,
            inclusion=Inclusion(inclusion),
            origin=origin,
        )
        for memory, rank, reason, score, inclusion, origin in json.loads(text)
    ]


def _candidate_row(run: Run, each: Candidate) -> dict[str, Any]:
    return {
        "id": _candidate_id(run.id, each.memory),
        "run": run.id,
        "memory": each.memory,
        "rank": each.rank,
        "reason": str(each.reason),
        "score": float(each.score),
        "origin": each.origin,
        "at_us": micros(run.started_at),
    }


def _candidate_id(run: str, memory: str) -> RecordID:
    return RecordID(CANDIDATES, f"{run}|{memory}")
