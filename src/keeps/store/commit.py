"""One durable commit: everything a write changes, in one transaction, numbered."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Final, LiteralString

from keeps.core.audit import Entry
from keeps.core.facts import Status
from keeps.store.db import Db, RecordID
from keeps.store.rows import Record, key_of

ANEW: Final = "finder:anew"
"""Among the rows of a change: an index that missed it is built anew, so that it keeps nothing of what was erased."""


_OUT_OF_USE: Final = frozenset({Status.SUPERSEDED, Status.EXPIRED})


@dataclass(slots=True, kw_only=True)
class Batch:
    """What one commit writes. Every list may stay empty; `at` and `rows` tell followers what changed.

    `places`: `{id, expected, next, at}`, the next turn number of a session, compared and set.
    `chains`: `{id, expected, set}`, a chain whose revision must be `expected` (0: none yet), written whole.
    `guards`: `{id, rev}`, rows that must still be as they were read.
    `needs`: ids of rows that must be there and not forgotten, for what is made from them later.
    `patches`: `{id, set}`, rows that change; a field set to `None` is removed.
    `puts`: whole rows written over what was there; `deletes`: ids of rows that go, with their edges.
    `vectors`: rows, as `table:id`, whose vectors go, also those that come while this is prepared.
    `settled`: rows, as `table:id`, that go out of use: whoever asked whether to stop using them has the answer.
    `entries`: what the audit says of this commit; `audits`: the same as sealed rows, made when it is its turn.
    """

    at: datetime
    rows: list[str] = field(default_factory=list[str])
    scopes: list[Record] = field(default_factory=list[Record])
    scope_sets: list[Record] = field(default_factory=list[Record])
    sessions: list[Record] = field(default_factory=list[Record])
    places: list[Record] = field(default_factory=list[Record])
    turns: list[Record] = field(default_factory=list[Record])
    chunks: list[Record] = field(default_factory=list[Record])
    follows: list[Record] = field(default_factory=list[Record])
    entities: list[Record] = field(default_factory=list[Record])
    attributes: list[Record] = field(default_factory=list[Record])
    relations: list[Record] = field(default_factory=list[Record])
    actions: list[Record] = field(default_factory=list[Record])
    guards: list[Record] = field(default_factory=list[Record])
    needs: list[RecordID] = field(default_factory=list[RecordID])
    patches: list[Record] = field(default_factory=list[Record])
    chains: list[Record] = field(default_factory=list[Record])
    uncertainties: list[Record] = field(default_factory=list[Record])
    proposals: list[Record] = field(default_factory=list[Record])
    creates: list[Record] = field(default_factory=list[Record])
    puts: list[Record] = field(default_factory=list[Record])
    deletes: list[RecordID] = field(default_factory=list[RecordID])
    vectors: list[str] = field(default_factory=list[str])
    jobs: list[Record] = field(default_factory=list[Record])
    settled: list[str] = field(default_factory=list[str])
    audits: list[Record] = field(default_factory=list[Record])
    entries: list[Entry] = field(default_factory=list[Entry])

    def patch(self, record_id: RecordID, **changes: Any) -> None:
        """Change some fields of a row."""
        self.patches.append({"id": record_id, "set": changes})
        if changes.get("status") in _OUT_OF_USE:
            self.settled.append(f"{record_id.table_name}:{key_of(record_id)}")

    def touch(self, record_id: RecordID) -> None:
        """Name a row that followers must look at again."""
        self.rows.append(f"{record_id.table_name}:{key_of(record_id)}")


# Checks first, so that a lost race costs nothing; each part is sent only when the batch holds something for it.
_PARTS: Final[tuple[tuple[str, LiteralString], ...]] = (
    (
        "places",
        "FOR $p IN $places {"
        " IF (SELECT VALUE next_seq FROM ONLY $p.id) != $p.expected { THROW 'stale-head' };"
        " UPDATE $p.id SET next_seq = $p.next, last_turn_at = $p.at RETURN NONE };",
    ),
    (
        "guards",
        "FOR $g IN $guards { IF (SELECT VALUE rev FROM ONLY $g.id) != $g.rev { THROW 'stale-head' } };",
    ),
    (
        "needs",
        "FOR $n IN $needs {"
        " IF !record::exists($n) OR (SELECT VALUE forgotten_at FROM ONLY $n) != NONE { THROW 'stale-head' } };",
    ),
    (
        "chains",
        "FOR $c IN $chains {"
        " IF ((SELECT VALUE rev FROM ONLY $c.id) ?? 0) != $c.expected { THROW 'stale-head' };"
        " UPSERT $c.id CONTENT $c.set RETURN NONE };",
    ),
    # In memory the engine makes no row that it deleted in the same transaction: no id may stand here and in an insert.
    ("deletes", "DELETE $deletes RETURN NONE;"),
    ("vectors", "FOR $of IN $vectors { DELETE vector WHERE of = $of RETURN NONE };"),
    ("scopes", "INSERT IGNORE INTO scope $scopes RETURN NONE;"),
    ("scope_sets", "INSERT IGNORE INTO scope_set $scope_sets RETURN NONE;"),
    ("sessions", "INSERT INTO session $sessions RETURN NONE;"),
    ("turns", "INSERT INTO turn $turns RETURN NONE;"),
    ("chunks", "INSERT INTO memory_chunk $chunks RETURN NONE;"),
    ("follows", "INSERT RELATION INTO follows $follows RETURN NONE;"),
    (
        "entities",
        "FOR $e IN $entities { UPSERT $e.id SET ref = $e.ref, type = $e.type, name = $e.name,"
        " scope_set = $e.scope_set, updated_at = $e.updated_at,"
        " display = display ?? $e.display, created_at = created_at ?? $e.created_at,"
        " category = IF $e.importance > (importance ?? 0) { $e.category } ELSE { category },"
        " importance = IF $e.importance > (importance ?? 0) { $e.importance } ELSE { importance },"
        " forgotten_at = NONE"
        " RETURN NONE };",
    ),
    ("attributes", "INSERT INTO attribute $attributes RETURN NONE;"),
    ("relations", "INSERT RELATION INTO relates_to $relations RETURN NONE;"),
    ("actions", "INSERT INTO action $actions RETURN NONE;"),
    ("patches", "FOR $x IN $patches { UPDATE $x.id MERGE $x.set RETURN NONE };"),
    (
        "settled",
        "UPDATE proposal SET status = 'superseded', row = {}, names = NONE, status_by = 'service', status_at = $at,"
        " rev = (rev ?? 1) + 1 WHERE conflicts_with IN $settled AND reason = 'retire' AND status = 'proposed'"
        " RETURN NONE;",
    ),
    ("uncertainties", "INSERT INTO uncertainty $uncertainties RETURN NONE;"),
    ("proposals", "INSERT INTO proposal $proposals RETURN NONE;"),
    ("creates", "FOR $x IN $creates { CREATE $x.id CONTENT $x.row RETURN NONE };"),
    ("puts", "FOR $x IN $puts { UPSERT $x.id CONTENT $x.row RETURN NONE };"),
    ("jobs", "INSERT INTO job $jobs RETURN NONE;"),
    ("audits", "INSERT INTO audit $audits RETURN NONE;"),
)

_BEGIN: Final[LiteralString] = "BEGIN;"
_NUMBER: Final[LiteralString] = (
    "LET $number = (UPSERT ONLY meta:state SET seq = (seq ?? 0) + 1 RETURN VALUE seq);"
    "CREATE type::record('change', $number) SET rows = $rows, at = $at RETURN NONE;"
    "RETURN $number;"
    "COMMIT;"
)

COMMIT_TIMEOUT_S: Final = 30.0
"""How long a commit may take before its process counts as hung."""


async def commit(db: Db, batch: Batch) -> int:
    """Write `batch` in one transaction; the number of this change, from 1 without gaps.

    Raises:
        StaleHead: a chain, a session or a guarded row moved since it was read. Nothing was written.
        Duplicate: a row of that id or unique name exists.
        Unavailable: the record cannot answer. Nothing was acknowledged.
    """
    script: LiteralString = _BEGIN
    params: dict[str, object] = {"rows": batch.rows, "at": batch.at}
    for name, part in _PARTS:
        content = getattr(batch, name)
        if content:
            script = script + part
            params[name] = content
    results = await db.run(script + _NUMBER, timeout_s=COMMIT_TIMEOUT_S, **params)
    return int(results[-2])


async def last_change(db: Db) -> int:
    """The number of the last commit; 0 in a new database."""
    return int((await db.run("SELECT VALUE seq FROM ONLY meta:state TIMEOUT 2s;"))[0] or 0)


async def changes_since(db: Db, number: int, *, limit: int = 1000) -> list[tuple[int, list[str]]]:
    """Changes after `number`, oldest first, at most `limit`. Empty also when they were trimmed: compare numbers."""
    ids = [RecordID("change", n) for n in range(number + 1, number + 1 + limit)]
    found = await db.run("SELECT id, rows FROM $ids TIMEOUT 10s;", timeout_s=15.0, ids=ids)
    return [(int(row["id"].id), list(row["rows"])) for row in found[0]]


def _checked() -> None:
    known = {f.name for f in fields(Batch)}
    assert {name for name, _ in _PARTS} | {"at", "rows", "entries"} == known


_checked()
