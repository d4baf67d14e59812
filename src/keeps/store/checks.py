"""Questions about the soundness of a context's record. Each answer is a few ids and a count, never text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from keeps.store.db import Db, RecordID
from keeps.store.rows import Record, key_of
from keeps.store.tables import tables

SHOWN: Final = 5
"""How many ids a fault names."""

_SCAN_S: Final = 120.0
_AT_ONCE: Final = 1_000
_UNSCOPED: Final = frozenset({"scope_set", "chain"})
"""Tables with a field of that name that are looked at elsewhere."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Rows that ought not to be as they are: how many, and some of their ids."""

    what: str
    count: int
    ids: tuple[str, ...]


async def scope_sets(db: Db) -> list[Fault]:
    """Rows of scoped tables whose scope set is missing, or that have none."""
    known = set(map(key_of, await _ids(db, "scope_set")))
    faults: list[Fault] = []
    for table in await tables(db):
        if table.name in _UNSCOPED or not await _has_field(db, table.name, "scope_set"):
            continue
        rows = await _scan(db, table.name, ("id", "scope_set"))
        bad = [_ref(row) for row in rows if row.get("scope_set") not in known and not _is_mark(row)]
        faults += _fault(f"{table.name}: rows whose scope set is not known", bad)
    return faults


def _is_mark(row: Record) -> bool:
    """True for a mark that came back from the ledger: it says what is not learned again, and not for whom."""
    return row["id"].table_name == "suppression" and not row.get("scope_set")


async def chains(db: Db) -> list[Fault]:
    """Chains whose head is gone, closed or of another chain; values in force that no chain names."""
    rows = await _scan(db, "attribute", ("id", "entity", "scope_set", "superseded_by", "status", "forgotten_at"))
    facts = {key_of(row["id"]): row for row in rows}
    dangling: list[str] = []
    closed: list[str] = []
    foreign: list[str] = []
    strays: list[str] = []
    for chain in await _scan(db, "chain", ("id", "entity", "scope_set", "head", "members")):
        head, members = chain.get("head"), [key_of(member) for member in chain["members"]]
        named = {*members, *([head] if head else [])}
        if not named <= facts.keys():
            dangling.append(_ref(chain))
            continue
        if head and not _may_head(facts[head]):
            closed.append(_ref(chain))
        if any((facts[m]["entity"], facts[m]["scope_set"]) != (chain["entity"], chain["scope_set"]) for m in named):
            foreign.append(_ref(chain))
        if head and head not in members:
            strays.append(_ref(chain))
    return [
        *_fault("chain: names a value that does not exist", dangling),
        *_fault("chain: its head is closed or erased", closed),
        *_fault("chain: names a value of another entity or scope set", foreign),
        *_fault("chain: its head is not among its members", strays),
    ]


async def turns(db: Db) -> tuple[list[Fault], Fault | None]:
    """Turns out of place; then, apart, missing numbers, which a purge leaves behind as well."""
    sessions = {key_of(row["id"]): row for row in await _scan(db, "session", ("id", "next_seq"))}
    seen: dict[str, list[int]] = {}
    outside: list[str] = []
    for row in await _scan(db, "turn", ("id", "session", "seq")):
        session = sessions.get(row["session"])
        if session is None or not 0 <= row["seq"] < session["next_seq"]:
            outside.append(_ref(row))
        else:
            seen.setdefault(row["session"], []).append(row["seq"])
    gaps = {
        session: missing
        for session, row in sessions.items()
        if (missing := row["next_seq"] - len(set(seen.get(session, [])))) > 0
    }
    chunks = await _scan(db, "memory_chunk", ("id", "turn"))
    there = set(map(key_of, await _ids(db, "turn")))
    orphans = [_ref(row) for row in chunks if row["turn"] not in there]
    missing = _fault("session: numbers without a turn", [f"session:{session}" for session in gaps])
    return [
        *_fault("turn: its session is missing or ends before it", outside),
        *_fault("memory_chunk: its turn is missing", orphans),
    ], (Fault(missing[0].what, sum(gaps.values()), missing[0].ids) if missing else None)


async def edges(db: Db) -> list[Fault]:
    """Edges that join nothing."""
    faults: list[Fault] = []
    for table in await tables(db):
        if not table.edges:
            continue
        rows = await _scan(db, table.name, ("id", "in", "out"))
        ends = {str(end): end for row in rows for end in (row["in"], row["out"])}
        found = await db.run("SELECT VALUE id FROM $ids TIMEOUT 60s;", timeout_s=_SCAN_S, ids=list(ends.values()))
        there = {str(end) for end in found[0]}
        bad = [_ref(row) for row in rows if not {str(row["in"]), str(row["out"])} <= there]
        faults += _fault(f"{table.name}: edges to a row that is missing", bad)
    return faults


async def numbers(db: Db) -> list[Fault]:
    """Changes above the number the record says it ends at."""
    last = int((await db.run("SELECT VALUE seq FROM ONLY meta:state;"))[0] or 0)
    return _fault("change: above the last number", [_ref({"id": i}) for i in await _ids(db, "change") if i.id > last])


async def vectors(db: Db) -> list[Fault]:
    """Vectors of rows that are gone or forgotten, of spaces that are not noted, and of another length."""
    if "vector" not in {table.name for table in await tables(db)}:
        return []
    rows = await _scan(db, "vector", ("of", "model", "dims"))
    spaces = {(row["model"], row["dims"]) for row in await _scan(db, "space", ("model", "dims"))}
    refs = list({row["of"] for row in rows})
    there: set[str] = set()
    for start in range(0, len(refs), _AT_ONCE):
        ids = [RecordID(*ref.split(":", 1)) for ref in refs[start : start + _AT_ONCE]]
        found = await db.run("SELECT VALUE id FROM $ids WHERE forgotten_at = NONE TIMEOUT 60s;", ids=ids)
        there |= {_ref({"id": each}) for each in found[0]}
    wrong = "SELECT VALUE of FROM vector WHERE bytes::len(bytes) != dims * 2 TIMEOUT 60s;"
    return [
        *_fault("vector: its row is missing or was forgotten", [row["of"] for row in rows if row["of"] not in there]),
        *_fault("vector: its space is missing", [r["of"] for r in rows if (r["model"], r["dims"]) not in spaces]),
        *_fault("vector: of another length than its space", (await db.run(wrong, timeout_s=_SCAN_S))[0]),
    ]


def _may_head(row: Record) -> bool:
    """True for a value in force, and for one that rests: it may be renewed where it stands."""
    closed = row.get("superseded_by") is not None or row.get("forgotten_at") is not None
    return row["status"] in ("confirmed", "expired") and not closed


async def _has_field(db: Db, table: str, field: str) -> bool:
    info = (await db.run("INFO FOR TABLE $table;", table=table))[0]
    return field in info["fields"]


async def _ids(db: Db, table: str) -> list[Any]:
    found = await db.run("SELECT VALUE id FROM type::table($table) TIMEOUT 60s;", timeout_s=_SCAN_S, table=table)
    return found[0]


async def _scan(db: Db, table: str, fields: tuple[str, ...]) -> list[Record]:
    found = await db.run(
        "SELECT type::fields($fields) FROM type::table($table) TIMEOUT 120s;",
        timeout_s=_SCAN_S,
        table=table,
        fields=list(fields),
    )
    return found[0]


def _ref(row: Record) -> str:
    return f"{row['id'].table_name}:{key_of(row['id'])}"


def _fault(what: str, ids: list[str]) -> list[Fault]:
    return [Fault(what, len(ids), tuple(ids[:SHOWN]))] if ids else []
