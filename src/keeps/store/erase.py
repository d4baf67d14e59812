"""Erasing: what a retired, purged or given-up row takes along in every table that holds content.

One planner serves the verbs and the replay of tombstones, so that a restored record loses the same again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, LiteralString

from keeps.core.access import Region
from keeps.core.erasure import Gone, Order, holds, told_by, without_lines
from keeps.core.facts import Status
from keeps.core.inbox import SWEEP
from keeps.core.scopes import Pattern, Scope, parse_pattern
from keeps.core.sessions import RENDERED, Turn
from keeps.store import erase_facts, proposals, suppressions, tombstones, traces
from keeps.store import facts as store_facts
from keeps.store import sessions as store_sessions
from keeps.store.commit import ANEW, Batch
from keeps.store.db import Db, RecordID
from keeps.store.erasing import Plan, Work, read
from keeps.store.ledger import Tombstone
from keeps.store.rows import Record, key_of, turn_from_row
from keeps.store.scopes import ScopeSets

MEMORY_TABLES: Final = ("attribute", "relates_to", "action", "instruction", "turn", "proposal")
"""Tables whose rows a person can ask to forget."""

UNIT_TABLES: Final = ("attribute", "relates_to", "action", "instruction", "turn")
"""Tables whose rows a person would count as things remembered."""


async def plan(db: Db, sets: ScopeSets, order: Order, now: datetime) -> Plan:
    """What `order` does to the record as it stands; nothing is written. Rows that are not there are passed over."""
    work = Work(db, sets, order, now)
    work.records = await store_facts.records(db, list(order.rows))
    await erase_facts.plan(work)
    await _proposals(work)
    await _turns(work)
    await _windows(work)
    _sessions(work)
    await erase_facts.settle_presences(work)
    await _proposals(work)
    _sealed(work)
    await _uncertainties(work)
    await _source_clauses(work)
    await _replies_and_jobs(work)
    _vectors(work)
    await _names(work)
    await _questions(work)
    done = {ref: fate for ref, fate in work.fates.items() if ref in order.rows}
    work.plan.done = Order(rows=done, presences=work.plan.done.presences, nodes=work.plan.done.nodes)
    work.plan.scope_sets = {ref: work.records[ref]["scope_set"] for ref in done}
    return work.finish()


async def plan_replay(db: Db, sets: ScopeSets, tombstone: Tombstone, now: datetime) -> Batch:
    """The batch that carries out a tombstone on this record and notes its number; what is gone stays gone.

    Raises:
        StoreRefused: the tombstone is of a kind that this version does not know.
    """
    order = await tombstones.order_of(db, sets, tombstone)
    batch = (await plan(db, sets, order, now)).batch
    how = tombstones.discarded(tombstone)
    for ref in order.rows if how is not None else ():
        proposal = await proposals.find(db, sets, ref.partition(":")[2])
        if how is not None and proposal is not None:
            proposals.stays(batch, proposal)
            if proposal.is_open:
                closed = proposal.closed(how.status, by=SWEEP if how.by_itself else None, at=tombstone.at)
                proposals.write_over(batch, proposal, closed)
    marks = tombstones.marks_of(tombstone)
    held = await suppressions.holding(db, marks)
    batch.puts += [suppressions.restored(mark, at=tombstone.at) for mark in marks if mark not in held]
    note_tombstone(batch, tombstone.seq)
    batch.rows.append(ANEW)
    return batch


def note_tombstone(batch: Batch, seq: int) -> None:
    """Let the record say that it has carried out every tombstone up to `seq`."""
    batch.patch(RecordID("meta", "state"), tombstone=seq)


# ---------------------------------------------------------------------- turns and sessions
async def _turns(work: Work) -> None:
    for ref, fate in work.order.rows.items():
        row = work.records.get(ref)
        if row is None or row["id"].table_name != "turn":
            continue
        if fate is Gone.RETIRE and row.get("forgotten_at") is not None:
            continue
        work.decide(ref, row, fate)
        turn = turn_from_row(row, work.sets[row["scope_set"]])
        if isinstance(fate, Scope):
            work.patch(row["id"], scope_set=fate.id)
            work.plan.turns[turn.id] = replace(turn, scope=fate)
        else:
            _turn_goes(work, turn, fate)
    await _rendered(work)
    purged = [key for key, turn in work.plan.turns.items() if turn is None]
    for row in await read(work.db, "SELECT id FROM memory_chunk WHERE turn IN $ids TIMEOUT 30s;", purged):
        work.delete(row["id"])
        work.plan.gone["memory_chunk"] += 1


def _turn_goes(work: Work, turn: Turn, gone: Gone) -> None:
    """A turn leaves the index; retired, it stays in the record."""
    if gone is Gone.PURGE:
        work.plan.turns[turn.id] = None
        return
    work.patch(RecordID("turn", turn.id), status=str(Status.EXPIRED), forgotten_at=work.now)
    work.plan.turns[turn.id] = replace(turn, status=Status.EXPIRED, forgotten_at=work.now)


async def _rendered(work: Work) -> None:
    """A turn we wrote from facts loses the lines of those that go, and goes itself when none is left."""
    told: defaultdict[str, list[tuple[str, Gone]]] = defaultdict(list)
    for ref, fate in work.fates.items():
        row = work.records[ref]
        source = row.get("source_ref") or ""
        if isinstance(fate, Gone) and source.startswith("turn:") and (words := _words_of(work, row)):
            told[source].append((words, fate))
    for ref, row in (await store_facts.records(work.db, list(told))).items():
        turn = turn_from_row(row, work.sets[row["scope_set"]])
        work.records[ref] = row
        if RENDERED not in turn.flags or isinstance(work.fates.get(ref), Gone):
            continue
        if turn.forgotten_at is not None and all(gone is Gone.RETIRE for _, gone in told[ref]):
            continue
        left = without_lines(turn.content, (words for words, _ in told[ref]))
        if left == turn.content:
            continue
        if left.strip():
            # The hashes it can be named by are of the old text; its facts have their own.
            work.patch(row["id"], content=left, folds=[])
            work.batch.rows.append(ref)
            moved = work.plan.turns.get(turn.id) or turn
            work.plan.turns[turn.id] = replace(moved, content=left)
            work.plan.purges = True
            continue
        gone = Gone.PURGE if any(gone is Gone.PURGE for _, gone in told[ref]) else Gone.RETIRE
        work.decide(ref, row, gone)
        _turn_goes(work, turn, gone)


def _words_of(work: Work, row: Record) -> str | None:
    """The words that tell of a fact, or of one that waits as a proposal; None for other rows."""
    if row["id"].table_name == "proposal":
        return row["row"].get("value") or row["row"].get("summary")
    if row["id"].table_name in store_facts.FACT_TABLES:
        return told_by(store_facts.from_record(row, work.sets))
    return None


async def _windows(work: Work) -> None:
    """Turns whose window changes, as they will stand, and the edges between neighbours of one scope set."""
    changed = [work.records[f"turn:{key}"] for key in work.plan.turns]
    moved = {key for key in work.plan.turns if isinstance(work.fates.get(f"turn:{key}"), Scope)}
    seqs: defaultdict[str, set[int]] = defaultdict(set)
    for row in changed:
        seqs[row["session"]].add(row["seq"])
    for session, changed_seqs in seqs.items():
        around = {seq + step for seq in changed_seqs for step in (-1, 0, 1)}
        turns = await store_sessions.turns_at(work.db, work.sets, session, sorted(around - {-1}))
        at = {turn.seq: work.plan.turns.get(turn.id, turn) for turn in turns}
        _reindex(work, at, changed_seqs)
        _link_again(work, at, moved)
    for edge in await read(work.db, _EDGES, [RecordID("turn", key) for key in sorted(moved)]):
        work.delete(edge["id"])


_EDGES: Final[LiteralString] = (
    "SELECT id FROM array::flatten((SELECT VALUE array::concat(->follows, <-follows) FROM $ids)) TIMEOUT 30s;"
)


def _reindex(work: Work, at: Mapping[int, Turn | None], changed: Iterable[int]) -> None:
    wanted = sorted({place for seq in changed for place in (seq, seq + 1)})
    for seq in wanted:
        turn = at.get(seq)
        if turn is not None:
            work.plan.windows.append((turn, at.get(seq - 1)))


def _link_again(work: Work, at: Mapping[int, Turn | None], moved: set[str]) -> None:
    for seq, turn in at.items():
        previous = at.get(seq - 1)
        if turn is None or previous is None or previous.scope != turn.scope or not {turn.id, previous.id} & moved:
            continue
        ends = {"in": RecordID("turn", previous.id), "out": RecordID("turn", turn.id)}
        work.batch.follows.append(ends | {"strength": 1.0, "scope_set": turn.scope.id})


def _sessions(work: Work) -> None:
    for ref, fate in work.order.rows.items():
        row = work.records.get(ref)
        if row is None or row["id"].table_name != "session" or fate is Gone.RETIRE:
            continue
        work.decide(ref, row, fate)
        place = {"id": row["id"], "expected": row["next_seq"], "next": row["next_seq"]}
        work.batch.places.append(place | {"at": row.get("last_turn_at")})
        if isinstance(fate, Scope):
            work.patch(row["id"], scope_set=fate.id)


# ---------------------------------------------------------------------- what tells of erased rows
async def _uncertainties(work: Work) -> None:
    """Doubts about a row go the way of the row."""
    for ref, fate in work.order.rows.items():
        row = work.records.get(ref)
        if row is not None and row["id"].table_name == "uncertainty":
            _doubt(work, row, [fate])
    trimmed = _trimmed(work)
    gone = (work.records[ref] for ref, fate in work.fates.items() if fate is Gone.PURGE)
    words = [words for row in gone if (words := _words_of(work, row))]
    # A doubt names a proposal as the row it would become.
    named = {ref.replace("proposal:", "attribute:"): fate for ref, fate in work.fates.items()}
    refs = [*named, *trimmed]
    for row in await read(
        work.db,
        "SELECT * FROM uncertainty WHERE contenders CONTAINSANY $ids OR source_ref IN $ids TIMEOUT 30s;",
        refs,
    ):
        fates = [named[ref] for ref in row["contenders"] if ref in named]
        source = work.fates.get(row.get("source_ref") or "")
        if isinstance(source, Gone):
            fates.append(source)
        if row.get("source_ref") in trimmed and any(holds(row["about"], each) for each in words):
            fates.append(Gone.PURGE)
        if fates:
            _doubt(work, row, fates)


def _doubt(work: Work, row: Record, fates: Sequence[Gone | Scope]) -> None:
    ref = f"uncertainty:{key_of(row['id'])}"
    moved = next((fate for fate in fates if isinstance(fate, Scope)), None)
    if Gone.PURGE in fates:
        work.decide(ref, row, Gone.PURGE)
    elif moved is not None:
        work.decide(ref, row, moved)
        work.patch(row["id"], scope_set=moved.id)
    elif not row["resolved"]:
        work.patch(row["id"], resolved=True, resolved_at=work.now)
        work.batch.rows.append(ref)


async def _proposals(work: Work) -> None:
    """What waits for a person goes when it is named, or with the row or turn it stands on."""
    fates: dict[str, Gone | Scope] = {}
    rows: dict[str, Record] = {}
    refs = list(work.fates)
    for row in await read(
        work.db,
        "SELECT * FROM proposal WHERE conflicts_with IN $ids OR source_ref IN $ids TIMEOUT 30s;",
        refs,
    ):
        ref = f"proposal:{key_of(row['id'])}"
        along = (work.fates.get(row.get("conflicts_with") or ""), work.fates.get(row.get("source_ref") or ""))
        fate = Gone.PURGE if Gone.PURGE in along else next((f for f in along if isinstance(f, Scope)), None)
        if fate is not None:
            fates[ref], rows[ref] = fate, row
    for ref, fate in work.order.rows.items():
        row = work.records.get(ref)
        if row is not None and row["id"].table_name == "proposal" and fates.get(ref) is not Gone.PURGE:
            fates[ref], rows[ref] = fate, row
    for ref, fate in fates.items():
        if ref not in work.fates:
            _proposal(work, ref, rows[ref], fate)


def _proposal(work: Work, ref: str, row: Record, fate: Gone | Scope) -> None:
    if fate is Gone.RETIRE and not row["row"]:
        return
    work.decide(ref, row, fate)
    # Whoever decides about it meanwhile decides first: then it is planned again, with what it became.
    rev = row.get("rev")
    work.guard({"id": row["id"], "rev": rev})
    if fate is Gone.RETIRE:
        # What is not wanted any more says nothing from then on, only that it was there.
        rev = int(rev or 1)
        content: Record = {name: value for name, value in row.items() if name not in ("id", "names")}
        content |= {"status": str(Status.REJECTED), "status_at": work.now, "rev": rev + 1}
        content["row"] = {}
        work.batch.puts.append({"id": row["id"], "row": content})
        work.plan.purges = True
    elif isinstance(fate, Scope):
        moved = {"row": row["row"] | {"scope_set": fate.id}} if row["row"] else {}
        work.patch(row["id"], scope_set=fate.id, **moved)


def _sealed(work: Work) -> None:
    """What could still be brought back goes with the scope it lay in."""
    for ref, fate in work.order.rows.items():
        row = work.records.get(ref)
        if row is not None and row["id"].table_name == "sealed" and ref not in work.fates and fate is not Gone.RETIRE:
            work.decide(ref, row, Gone.PURGE)


async def _source_clauses(work: Work) -> None:
    """Facts that stay lose the words they quote from a turn that is purged."""
    turns = (ref for ref, fate in work.fates.items() if fate is Gone.PURGE and ref.startswith("turn:"))
    purged = {ref: work.records[ref] for ref in turns}
    for table in _QUOTING:
        for row in await read(work.db, table, list(purged)):
            ref = f"{row['id'].table_name}:{key_of(row['id'])}"
            if work.fates.get(ref) is Gone.PURGE:
                continue
            if not holds(purged[row["source_ref"]]["content"], row["source_clause"]):
                continue
            if ref not in work.fates:
                work.guard(row)
                work.patch(row["id"], rev=row["rev"] + 1)
                work.batch.rows.append(ref)
            work.patch(row["id"], source_clause=None)
            if row.get("forgotten_at") is None and work.fates.get(ref) is not Gone.RETIRE:
                known = work.plan.rows.get(ref) or store_facts.from_record(row, work.sets)
                work.plan.rows[ref] = replace(known, source_clause=None)


_QUOTING: Final[tuple[LiteralString, ...]] = (
    "SELECT * FROM attribute WHERE source_ref IN $ids AND source_clause != NONE TIMEOUT 30s;",
    "SELECT * FROM relates_to WHERE source_ref IN $ids AND source_clause != NONE TIMEOUT 30s;",
    "SELECT * FROM action WHERE source_ref IN $ids AND source_clause != NONE TIMEOUT 30s;",
)


async def _replies_and_jobs(work: Work) -> None:
    """A stored reply that tells of a row says only that it was erased; work waiting for a row drops it."""
    refs = [*work.fates, *_trimmed(work)]
    # A reply from when a row still waited names it as the proposal it was.
    before = (f"proposal:{ref.partition(':')[2]}" for ref in work.fates if ref.partition(":")[0] in _MEANT)
    refs += [ref for ref in before if ref not in work.fates]
    for row in await read(
        work.db, "SELECT id FROM reply WHERE rows CONTAINSANY $ids AND erased = false TIMEOUT 30s;", refs
    ):
        work.patch(row["id"], body="", erased=True)
    gone = {ref for ref in refs if isinstance(work.fates.get(ref), Gone)}
    for row in await read(work.db, "SELECT id, rows FROM job WHERE rows CONTAINSANY $ids TIMEOUT 30s;", sorted(gone)):
        left = [ref for ref in row["rows"] if ref not in gone]
        work.patch(row["id"], rows=left, updated_at=work.now, **({} if left else {"state": "cancelled"}))


def _vectors(work: Work) -> None:
    """Vectors go with what they are made of: rows that go, edges that get another id, turns that lose lines."""
    for ref, fate in work.fates.items():
        table = work.records[ref]["id"].table_name
        if table in _MEANT and (isinstance(fate, Gone) or table == "relates_to"):
            work.batch.vectors.append(ref)
    for key, turn in work.plan.turns.items():
        ref = f"turn:{key}"
        if turn is not None and turn.content != work.records[ref]["content"]:
            work.batch.vectors.append(ref)


_MEANT: Final = (*store_facts.FACT_TABLES, "turn")
"""Tables whose rows have vectors."""


def _trimmed(work: Work) -> list[str]:
    """Turns that lose some of their text and stay."""
    return [
        f"turn:{key}" for key, turn in work.plan.turns.items() if turn is not None and f"turn:{key}" not in work.fates
    ]


async def _names(work: Work) -> None:
    nodes = await read(
        work.db, "SELECT * FROM $ids TIMEOUT 30s;", [RecordID("scope", n) for n in sorted(work.order.nodes)]
    )
    named = {row["id"].id: row["id"] for row in nodes if row.get("display_name") or row.get("description")}
    for record_id in named.values():
        work.patch(record_id, display_name=None, description=None)
    work.plan.done = Order(presences=work.plan.done.presences, nodes=frozenset(named))


async def _questions(work: Work) -> None:
    """Traces of reads lose the text of a question that a row answered, or that was asked where the row or the scope
    that goes could be seen: a question may quote a row that it did not find."""
    named = {*work.order.rows, *work.fates}
    nodes = [Pattern(node, subtree=True) for node in work.order.nodes]
    gone = {ref for ref, fate in {**work.order.rows, **work.fates}.items() if isinstance(fate, Gone)}
    scopes = {work.sets[row["scope_set"]] for ref in gone if (row := work.records.get(ref)) and row.get("scope_set")}
    for trace in await traces.told(work.db):
        asked = Region(tuple(map(parse_pattern, trace.patterns)))
        reached = [node.path for node in nodes if asked.meets(node)]
        saw = any(scope.touches(pattern) for scope in scopes for pattern in asked.patterns)
        if reached or saw or not named.isdisjoint(trace.rows):
            work.patch(trace.id, **traces.EMPTIED)
            done = work.plan.done
            work.plan.done = Order(presences=done.presences, nodes=done.nodes.union(reached))
