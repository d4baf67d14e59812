"""What reads leave behind, as rows: saved many at once, listed newest first, removed when they are old.

Saving is no numbered change of the record: nothing follows it, and it may be done again with the same traces.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, LiteralString

from keeps.core.traces import Classification, Leg, ReadTrace, Tier, Weighed
from keeps.store.db import INDEXED_VALUES, Db, RecordID
from keeps.store.rows import Record, key_of

TABLE: Final = "retrieval_trace"
REGIONS: Final = "trace_region"

_READ_S: Final = 15.0
_SCAN_S: Final = 65.0
"""How long what looks at many traces may take, seconds: longer than the engine's own limit in the statement."""

_PRUNED_AT_ONCE: Final = 500
_FIRST_SPAN: Final = 600_000_000
_LAST_SPAN: Final = 64 * 86_400_000_000
"""Microseconds of time that a page is looked for in: ten minutes at first, and wider while too little is found; past
64 days all that is left."""

_1970: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_BEGINNING: Final = -(2**62)
_END: Final = 2**62

Moment = tuple[datetime, str]
"""Where a trace stands in the list: its time, and its id among those of one time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Reads of one tier and classification. `candidates`: rows their legs found, in all and at most in one read."""

    tier: Tier
    classification: Classification
    count: int
    took_ms: float
    candidates: int
    most_candidates: int


def region_id(patterns: Sequence[str]) -> str:
    """The name of a set of patterns: equal exactly when the sets are."""
    text = json.dumps(sorted(set(patterns)), separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]


async def save(db: Db, traces: Sequence[ReadTrace]) -> None:
    """Write traces in one transaction; those that are there already stay as they are."""
    regions = {region_id(trace.patterns): sorted(set(trace.patterns)) for trace in traces}
    await db.run(
        "BEGIN;"
        "INSERT IGNORE INTO trace_region $regions RETURN NONE;"
        "INSERT IGNORE INTO retrieval_trace $traces RETURN NONE;"
        "COMMIT;",
        timeout_s=_READ_S,
        regions=[{"id": RecordID(REGIONS, name), "patterns": patterns} for name, patterns in regions.items()],
        traces=[to_row(trace) for trace in traces],
    )


async def find(db: Db, trace_id: str) -> ReadTrace | None:
    """The trace; `None` when there is none of that id."""
    row = (await db.run("SELECT * FROM ONLY $id TIMEOUT 2s;", id=RecordID(TABLE, trace_id)))[0]
    if not row:
        return None
    region = (await db.run("SELECT * FROM ONLY $id TIMEOUT 2s;", id=RecordID(REGIONS, row["region"])))[0]
    return from_row(row, region["patterns"] if region else ())


async def regions(db: Db) -> dict[str, tuple[str, ...]]:
    """What could be seen by those who asked: patterns by the name of the set."""
    rows = (await db.run("SELECT * FROM trace_region TIMEOUT 10s;", timeout_s=_READ_S))[0]
    return {key_of(row["id"]): tuple(row["patterns"]) for row in rows}


async def newest(
    db: Db, seen: Mapping[str, Sequence[str]], *, before: Moment | None = None, limit: int, now: datetime
) -> list[ReadTrace]:
    """Up to `limit` traces of the regions `seen`, newest first, from strictly before a place on."""
    if not seen:
        return []
    found: list[Record] = []
    # The engine reads all that a condition on an index allows, whatever the limit: so only a span of time is asked for.
    high, span = _END, _FIRST_SPAN
    before_us = micros(before[0]) if before else _END
    low = (before_us if before else micros(now)) - span
    while True:
        part = await db.run(
            "SELECT * FROM retrieval_trace WHERE at_us >= $low AND at_us < $high AND region IN $regions"
            " AND (at_us < $before_us OR (at_us = $before_us AND id < $before_id))"
            " ORDER BY at_us DESC, id DESC LIMIT $limit TIMEOUT 10s;",
            timeout_s=_READ_S,
            low=low,
            high=min(high, before_us + 1),
            regions=sorted(seen),
            before_us=before_us,
            before_id=RecordID(TABLE, before[1] if before else ""),
            limit=limit - len(found),
        )
        found += part[0]
        if len(found) >= limit or low == _BEGINNING:
            return [from_row(row, seen[row["region"]]) for row in found]
        high, span = low, 2 * span
        low = _BEGINNING if span > _LAST_SPAN else low - span


async def count(db: Db, seen: Collection[str]) -> int:
    """How many traces of the regions `seen` there are."""
    found = await db.run(
        "SELECT count() FROM retrieval_trace WHERE region IN $regions GROUP ALL TIMEOUT 30s;",
        timeout_s=_SCAN_S,
        regions=sorted(seen),
    )
    return int(found[0][0]["count"]) if found[0] else 0


async def returning(db: Db, refs: Sequence[str], seen: Collection[str]) -> list[Moment]:
    """Where the traces stand, of the regions `seen`, that returned one of the rows, newest first."""
    found: dict[str, int] = {}
    for start in range(0, len(refs), INDEXED_VALUES):
        part = await db.run(
            "SELECT id, at_us, region FROM retrieval_trace WHERE rows CONTAINSANY $refs TIMEOUT 15s;",
            timeout_s=_SCAN_S,
            refs=list(refs[start : start + INDEXED_VALUES]),
        )
        found.update((key_of(row["id"]), row["at_us"]) for row in part[0] if row["region"] in seen)
    return [(moment(at_us), key) for at_us, key in sorted(((us, key) for key, us in found.items()), reverse=True)]


async def by_ids(db: Db, ids: Sequence[str], seen: Mapping[str, Sequence[str]]) -> list[ReadTrace]:
    """Traces of the regions `seen` by their ids, newest first; those that are gone are left out."""
    rows = (
        await db.run(
            "SELECT * FROM $ids TIMEOUT 5s;", timeout_s=_READ_S, ids=[RecordID(TABLE, trace_id) for trace_id in ids]
        )
    )[0]
    traces = [from_row(row, seen[row["region"]]) for row in rows if row["region"] in seen]
    return sorted(traces, key=lambda trace: (trace.at, trace.id), reverse=True)


async def tallies(db: Db, since: datetime) -> list[Tally]:
    """How many reads there were since a time, and what they cost, by tier and classification."""
    rows = (
        await db.run(
            "SELECT tier, classification, count() AS reads, math::sum(took_ms) AS took,"
            " math::sum(candidates) AS candidates, math::max(candidates) AS most"
            " FROM retrieval_trace WHERE at_us >= $since AND at_us < $end GROUP BY tier, classification TIMEOUT 30s;",
            timeout_s=_SCAN_S,
            since=micros(since),
            end=_END,
        )
    )[0]
    return [
        Tally(
            tier=Tier(row["tier"]),
            classification=Classification(row["classification"]),
            count=int(row["reads"]),
            took_ms=float(row["took"]),
            candidates=int(row["candidates"]),
            most_candidates=int(row["most"]),
        )
        for row in rows
    ]


async def prune(db: Db, before: datetime) -> int:
    """Remove traces from before a time, a few hundred a commit; how many there were."""
    removed = 0
    while True:
        ids = (
            await db.run(
                "SELECT VALUE id FROM retrieval_trace WHERE at_us >= $beginning AND at_us < $before"
                " LIMIT $most TIMEOUT 30s;",
                timeout_s=_SCAN_S,
                beginning=_BEGINNING,
                before=micros(before),
                most=_PRUNED_AT_ONCE,
            )
        )[0]
        if ids:
            await db.run("DELETE $ids RETURN NONE;", timeout_s=_SCAN_S, ids=ids)
        removed += len(ids)
        if len(ids) < _PRUNED_AT_ONCE:
            return removed


# ---------------------------------------------------------------------- texts of questions, where they are kept
@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A trace that holds the text of its question: which rows it returned, and what it was asked over."""

    id: RecordID
    rows: frozenset[str]
    patterns: tuple[str, ...]


async def told(db: Db) -> list[Told]:
    """Every trace that holds the text of its question."""
    rows = (
        await db.run(
            "SELECT id, rows, region FROM retrieval_trace WHERE with_text = true TIMEOUT 30s;", timeout_s=_SCAN_S
        )
    )[0]
    if not rows:
        return []
    known = await regions(db)
    return [Told(id=row["id"], rows=frozenset(row["rows"]), patterns=known.get(row["region"], ())) for row in rows]


EMPTIED: Final[Mapping[str, object]] = {"query_text": "", "with_text": False}
"""What a trace that held the text of its question changes to."""


async def empty_texts(db: Db) -> int:
    """Drop the texts of all questions; how many there were."""
    changed = await db.run(
        "UPDATE retrieval_trace MERGE $emptied WHERE with_text = true RETURN VALUE id TIMEOUT 30s;",
        timeout_s=_SCAN_S,
        emptied=dict(EMPTIED),
    )
    return len(changed[0])


async def standing(db: Db, refs: Sequence[str]) -> set[str]:
    """Those of the rows that are there and not forgotten."""
    wanted: LiteralString = "SELECT VALUE id FROM $ids WHERE forgotten_at = NONE TIMEOUT 5s;"
    ids = [RecordID(*ref.split(":", 1)) for ref in refs]
    return {str_of(found) for found in (await db.run(wanted, timeout_s=_READ_S, ids=ids))[0]}


def str_of(record_id: RecordID) -> str:
    """`table:key` of a row."""
    return f"{record_id.table_name}:{key_of(record_id)}"


# ---------------------------------------------------------------------- rows
def micros(at: datetime) -> int:
    """Microseconds since 1970: the order of these is kept by an index, that of times within a second is not."""
    return (at - _1970) // _MICROSECOND


def moment(at_us: int) -> datetime:
    """The time that `micros` gave, UTC."""
    return _1970 + at_us * _MICROSECOND


def to_row(trace: ReadTrace) -> Record:
    """A trace as a row."""
    detail = {
        "hits": [_packed(hit) for hit in trace.hits],
        "near": [_packed(miss) for miss in trace.near_misses],
        "legs": [[leg.name, leg.found, leg.took_ms, leg.weight, leg.answered] for leg in trace.legs],
    }
    return {
        "id": RecordID(TABLE, trace.id),
        "at_us": micros(trace.at),
        "principal": trace.principal,
        "on_behalf_of": trace.on_behalf_of,
        "key_id": trace.key_id,
        "source": trace.source,
        "mode": trace.mode,
        "tier": str(trace.tier),
        "classification": str(trace.classification),
        "reason": trace.reason,
        "took_ms": trace.took_ms,
        "k": trace.k,
        "region": region_id(trace.patterns),
        "session": trace.session,
        "entities": trace.entities,
        "candidates": sum(leg.found for leg in trace.legs),
        "rows": list(dict.fromkeys(hit.row for hit in trace.hits)),
        "detail": json.dumps(detail, separators=(",", ":")),
        "degraded": list(trace.degraded),
        "query_text": trace.query_text,
        "with_text": bool(trace.query_text),
    }


def from_row(row: Record, patterns: Sequence[str]) -> ReadTrace:
    """The trace a row holds. `patterns`: what its region is."""
    detail: dict[str, list[list[Any]]] = json.loads(row["detail"])
    return ReadTrace(
        id=key_of(row["id"]),
        at=moment(row["at_us"]),
        principal=row["principal"],
        on_behalf_of=row.get("on_behalf_of"),
        key_id=row.get("key_id"),
        source=row["source"],
        mode=row["mode"],
        tier=Tier(row["tier"]),
        classification=Classification(row["classification"]),
        reason=row["reason"],
        took_ms=row["took_ms"],
        k=row["k"],
        patterns=tuple(patterns),
        session=row.get("session"),
        entities=row["entities"],
        legs=tuple(
            Leg(name=name, found=found, took_ms=took_ms, weight=weight, answered=answered)
            for name, found, took_ms, weight, answered in detail["legs"]
        ),
        hits=tuple(map(_unpacked, detail["hits"])),
        near_misses=tuple(map(_unpacked, detail["near"])),
        degraded=tuple(row["degraded"]),
        query_text=row["query_text"],
    )


def _packed(weighed: Weighed) -> list[object]:
    row = "" if weighed.row == weighed.unit else weighed.row
    return [weighed.unit, row, weighed.rank, weighed.score, weighed.reason, dict(weighed.signals)]


def _unpacked(packed: Sequence[Any]) -> Weighed:
    unit, row, rank, score, reason, signals = packed
    return Weighed(unit=unit, row=row or unit, rank=rank, score=score, reason=reason, signals=signals)
