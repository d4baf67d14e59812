"""A folder nobody uses, read whole: is every row of a write there, and does the index say what the record says?

Shares nothing with the product's own checks but the way in.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from keeps.finder.local import LocalFinder
from keeps.services import index
from keeps.services.index import Indexed
from keeps.store import meta as store_meta
from keeps.store.address import folder_url
from keeps.store.contexts import database_of
from keeps.store.db import Db, open_engine
from keeps.store.scopes import ScopeSets

RENDERED = "rendered"
TABLES = ("turn", "memory_chunk", "session", "attribute", "relates_to", "action", "chain", "change", "follows")
STATED = ("attribute", "relates_to", "action")


@dataclass(slots=True)
class Audit:
    """What a record holds. `faults` is empty when it is sound."""

    rows: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict[str, dict[str, dict[str, Any]]])
    faults: list[str] = field(default_factory=list[str])

    @property
    def refs(self) -> set[str]:
        """Every row, as `table:key`."""
        return {f"{table}:{key}" for table, rows in self.rows.items() for key in rows}

    def contents(self) -> Counter[str]:
        """How often each text was said."""
        return Counter(row["content"] for row in self.rows["turn"].values())

    def expect(self, true: bool, fault: str) -> None:
        if not true:
            self.faults.append(fault)


async def audit(folder: Path, context: str = "default") -> Audit:
    """The record of a context, and what is wrong with it."""
    engine = await open_engine(str(folder_url(folder / "record")))
    try:
        db = await engine.database(database_of(context))
        found = Audit()
        for table in TABLES:
            (rows,) = await db.run("SELECT * FROM type::table($table)", timeout_s=60, table=table)
            found.rows[table] = {str(row["id"].id): row for row in rows}
        _changes(found, (await db.run("SELECT VALUE seq FROM ONLY meta:state"))[0] or 0)
        _turns(found)
        _facts(found)
        await _index(found, db, folder / context / "finder")
        return found
    finally:
        await engine.close()


def _changes(found: Audit, last: int) -> None:
    numbers = sorted(map(int, found.rows["change"]))
    found.expect(numbers == list(range(1, last + 1)), f"changes {numbers[:3]}…{numbers[-3:]} do not end at {last}")
    for number, change in found.rows["change"].items():
        tables = {ref: ref.partition(":")[0] for ref in change["rows"]}
        gone = {ref for ref, table in tables.items() if table in found.rows} - found.refs
        found.expect(not gone, f"change {number} names rows that are not there: {gone}")


def _turns(found: Audit) -> None:
    with_chunk = {chunk["turn"] for chunk in found.rows["memory_chunk"].values() if chunk["position"] == 0}
    # What a write states may have been known: then its change names the row that was confirmed.
    with_fact = {
        ref
        for change in found.rows["change"].values()
        for ref in change["rows"]
        if any(other.partition(":")[0] in STATED for other in change["rows"])
    }
    seqs: dict[str, list[int]] = {session: [] for session in found.rows["session"]}
    for key, turn in found.rows["turn"].items():
        found.expect(turn["session"] in seqs, f"turn {key} has no session")
        seqs.setdefault(turn["session"], []).append(turn["seq"])
        torn = key not in with_chunk if RENDERED not in turn["flags"] else f"turn:{key}" not in with_fact
        found.expect(not torn, f"turn {key} is there without what was written with it")
    for key, chunk in found.rows["memory_chunk"].items():
        found.expect(chunk["turn"] in found.rows["turn"], f"passage {key} has no turn")
    for session, numbers in seqs.items():
        wanted = list(range(found.rows["session"].get(session, {}).get("next_seq", 0)))
        found.expect(sorted(numbers) == wanted, f"session {session} has turns {sorted(numbers)}, not {wanted}")
    follows = {(str(edge["in"].id), str(edge["out"].id)) for edge in found.rows["follows"].values()}
    for session in seqs:
        line = sorted((t["seq"], key) for key, t in found.rows["turn"].items() if t["session"] == session)
        for (_, before), (_, after) in pairwise(line):
            found.expect((before, after) in follows, f"turn {after} does not follow {before}")


def _facts(found: Audit) -> None:
    facts = found.rows["attribute"]
    groups: dict[tuple[str, ...], set[str]] = {}
    for key, fact in facts.items():
        groups.setdefault(tuple(fact[name] for name in ("entity", "chain", "scope_set", "pillar")), set()).add(key)
        found.expect(fact["source_ref"].partition(":")[2] in found.rows["turn"], f"fact {key} has no turn")
        after = fact.get("superseded_by")
        found.expect(after is None or facts.get(after, {}).get("supersedes") == key, f"fact {key} points nowhere")
    chains = {tuple(chain["id"].id): chain for chain in found.rows["chain"].values()}
    found.expect(groups.keys() == chains.keys(), f"facts without a chain: {groups.keys() ^ chains.keys()}")
    for name in groups.keys() & chains.keys():
        head, members = chains[name].get("head"), {str(member.id) for member in chains[name]["members"]}
        kept = {key for key in groups[name] if facts[key].get("forgotten_at") is None}
        live = {key for key in kept if facts[key].get("superseded_by") is None}
        found.expect(live == members, f"chain {name} holds {members}, in force are {live}")
        found.expect(head in live or not live, f"chain {name}: its head {head} is not in force")
        times = [facts[key]["known_at"] for key in _from_head(facts, head)]
        found.expect(times == sorted(times, reverse=True), f"chain {name} is not in the order of time")
        told = set(_from_head(facts, head)) | live
        found.expect(told == kept, f"chain {name}: {kept - told} hang nowhere")


def _from_head(facts: dict[str, dict[str, Any]], head: str | None) -> list[str]:
    line: list[str] = []
    while head is not None and head in facts and head not in line:
        line.append(head)
        head = facts[head].get("supersedes")
    return line


async def _index(found: Audit, db: Db, folder: Path) -> None:
    """Compare the index as it lies there with one built anew."""
    uid = await store_meta.uid(db)
    with tempfile.TemporaryDirectory() as place:
        finder = await LocalFinder.open(Path(place), uid)
        await index.rebuild(Indexed(db, finder, ScopeSets(), uid))
        await finder.close()
        wanted, there = _entries(Path(place)), _entries(folder)
    for name, rows in wanted.items():
        found.expect(rows == there.get(name), f"index: {name} differs by {set(rows) ^ set(there.get(name, ()))}")


def _entries(folder: Path) -> dict[str, list[Any]]:
    """What an index says, apart from the numbers it gives its rows."""
    files = sorted(folder.glob("text-*.sqlite3"))
    if not files:
        return {}
    with closing(sqlite3.connect(files[-1])) as db:
        return {
            "entries": sorted(
                db.execute(
                    "SELECT unit, ref, name, kind, live, coalesce(labels, ''), coalesce(window_of, ''), words, before,"
                    " terms FROM entry JOIN scope_set ON number = scope_set"
                )
            ),
            "names": sorted(
                db.execute(
                    "SELECT key, scope_set.name, entity, name.name FROM name JOIN scope_set ON number = scope_set"
                )
            ),
            "meta": [*db.execute("SELECT key, value FROM meta WHERE key IN ('applied', 'context') ORDER BY key")],
        }
