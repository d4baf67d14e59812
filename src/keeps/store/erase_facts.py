"""The part of an erasure about facts, relations, actions and instructions, their chains and their entities."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, LiteralString

from keeps.core.erasure import Fate, Gone, Order, Presence
from keeps.core.facts import Fact, Pillar, Row, RowId, Status
from keeps.core.scopes import Scope
from keeps.core.supersession import close
from keeps.store import facts as store_facts
from keeps.store.db import RecordID
from keeps.store.erasing import Work, read
from keeps.store.rows import ENTITY, Record, chain_record, entity_id, key_of, stored_ref

_ID_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz0123456789"


async def plan(work: Work) -> None:
    """Retire, purge or move the rows of the order; their chains follow. Entities are settled later."""
    facts: list[Record] = []
    for ref, fate in work.order.rows.items():
        row = work.records.get(ref)
        if row is None or row["id"].table_name not in (*store_facts.FACT_TABLES, "instruction"):
            continue
        if fate is Gone.RETIRE and row.get("forgotten_at") is not None:
            continue
        work.guard(row)
        work.decide(ref, row, fate)
        if row["id"].table_name == "instruction":
            _instruction(work, row, fate)
            continue
        _row(work, ref, row, fate)
        if row["id"].table_name == "attribute":
            facts.append(row)
    if facts:
        await _Chains(work, facts).plan()
    _insert_moved_relations(work)


def _instruction(work: Work, row: Record, fate: Fate) -> None:
    if fate is Gone.RETIRE:
        _retire(work, row)
        work.patch(row["id"], active=False, deactivated_at=work.now)
    elif isinstance(fate, Scope):
        work.patch(row["id"], scope_set=fate.id, rev=row["rev"] + 1)


def _row(work: Work, ref: str, row: Record, fate: Fate) -> None:
    remembered = store_facts.from_record(row, work.sets)
    work.plan.rows[ref] = None
    if fate is Gone.RETIRE:
        _retire(work, row)
    elif isinstance(fate, Scope):
        work.patch(row["id"], scope_set=fate.id, rev=row["rev"] + 1)
        if row.get("forgotten_at") is None:
            work.plan.rows[ref] = replace(remembered, scope=fate)
    for entity in store_facts.entities_of(remembered):
        work.touched[str(entity), row["scope_set"]].append((fate, row.get("forgotten_at") is None))


def _retire(work: Work, row: Record) -> None:
    until = row.get("valid_until")
    work.patch(
        row["id"],
        status=str(Status.EXPIRED),
        forgotten_at=work.now,
        valid_until=work.now if until is None else min(until, work.now),
        rev=row["rev"] + 1,
    )


def _insert_moved_relations(work: Work) -> None:
    """An edge names the entities of its own scope set and cannot be turned to others, so a moved one is deleted and
    inserted anew. In memory the engine makes no row twice in one transaction: the new id is drawn from the old one
    and the scope set, so that a replay comes to the same."""
    for ref, fate in list(work.fates.items()):
        row = work.records[ref]
        if not isinstance(fate, Scope) or row["id"].table_name != "relates_to":
            continue
        moved = work.patched(row) | {
            "id": RecordID("relates_to", moved_id(key_of(row["id"]), fate.id)),
            "in": entity_id(stored_ref(row["subject"]), fate),
            "out": entity_id(stored_ref(row["object"]), fate),
        }
        work.batch.relations.append(moved)
        work.replace(row["id"])
        work.batch.touch(moved["id"])
        known = work.plan.rows[ref]
        if known is not None:
            work.plan.rows[ref] = None
            work.plan.rows[f"relates_to:{key_of(moved['id'])}"] = replace(known, id=RowId(key_of(moved["id"])))


def moved_id(key: str, scope_set: str) -> str:
    """The id of an edge after it moved: 20 characters of a-z and 0-9."""
    number = int.from_bytes(hashlib.sha256(f"{key} {scope_set}".encode()).digest())
    letters = ""
    for _ in range(20):
        number, place = divmod(number, len(_ID_LETTERS))
        letters += _ID_LETTERS[place]
    return letters


class _Chains:
    """The chains of the rows that go or move."""

    def __init__(self, work: Work, rows: Sequence[Record]) -> None:
        self._work = work
        self._rows = rows
        self._heads: set[str] = set()
        self._moved: defaultdict[str, list[Record]] = defaultdict(list)

    async def plan(self) -> None:
        """Take the rows out of their chains, and moved ones into the chains of their new scope set."""
        ids: dict[str, RecordID] = {}
        groups: defaultdict[str, list[Record]] = defaultdict(list)
        for row in self._rows:
            chain = _chain_of(row, row["scope_set"])
            ids[str(chain)] = chain
            groups[str(chain)].append(row)
        left = await self._chains_with_others()
        for chain_row in await read(self._work.db, "SELECT * FROM $ids TIMEOUT 30s;", list(ids.values())):
            name = str(chain_row["id"])
            self._leave(chain_row, groups[name], empty=name not in left)
        await self._join()

    async def _chains_with_others(self) -> set[str]:
        """Chains, by the text of their ids, that keep a version in the record."""
        staying = {ref for ref, fate in self._work.fates.items() if fate is Gone.RETIRE}
        found = await read(
            self._work.db,
            "SELECT id, entity, chain, scope_set, pillar FROM attribute WHERE entity IN $ids TIMEOUT 30s;",
            sorted({row["entity"] for row in self._rows}),
        )
        refs = {f"attribute:{key_of(row['id'])}": row for row in found}
        return {
            str(_chain_of(row, row["scope_set"]))
            for ref, row in refs.items()
            if ref in staying or ref not in self._work.fates
        }

    def _leave(self, chain_row: Record, rows: Sequence[Record], *, empty: bool) -> None:
        out = {key_of(row["id"]) for row in rows}
        head = chain_row.get("head")
        members = {key_of(member) for member in chain_row["members"]}
        if head in out:
            self._heads.add(head)
        for row in rows:
            fate = self._fate(row)
            if isinstance(fate, Scope) and key_of(row["id"]) in members:
                self._moved[str(_chain_of(row, fate.id))].append(row)
        if empty:
            self._work.guard(chain_row)
            self._work.delete(chain_row["id"])
            return
        content = {name: chain_row[name] for name in ("entity", "key", "scope_set", "pillar")} | {
            "head": None if head in out else head,
            "members": [member for member in chain_row["members"] if key_of(member) not in out],
            "rev": chain_row["rev"] + 1,
        }
        self._set(chain_row["id"], chain_row["rev"], content)

    async def _join(self) -> None:
        """Members that moved join the chain of their new scope set; of several heads the last known stays head."""
        targets = {name: _chain_of(rows[0], self._new_set(rows[0])) for name, rows in self._moved.items()}
        states, _ = await store_facts.standing(self._work.db, self._work.sets, list(targets.values()), [], ())
        for name, rows in self._moved.items():
            state = states.get(name, store_facts.ChainState())
            facts = [fact for row in rows if isinstance(fact := self._standing(row), Fact)]
            rivals = [fact for fact in facts if fact.id in self._heads]
            if state.head is not None:
                rivals.append(state.head)
            winner = max(rivals, key=lambda fact: (fact.clocks.known_at, fact.id), default=None)
            losers = [fact for fact in rivals if winner is not None and fact.id != winner.id]
            for loser in losers:
                assert winner is not None
                self._close(loser, winner)
            members = [fact.id for fact in (*rivals, *facts, *state.contenders) if fact not in losers]
            row = rows[0]
            content = {
                "entity": row["entity"],
                "key": row["key"],
                "scope_set": self._new_set(row),
                "pillar": row["pillar"],
                "head": winner.id if winner else None,
                "members": [RecordID("attribute", member) for member in dict.fromkeys(members)],
                "rev": state.rev + 1,
            }
            self._set(targets[name], state.rev, content)

    def _set(self, chain: RecordID, rev: int, content: Record) -> None:
        self._work.batch.chains.append({"id": chain, "expected": rev, "set": content})

    def _close(self, loser: Fact, winner: Fact) -> None:
        ref, record_id = f"attribute:{loser.id}", RecordID("attribute", loser.id)
        closed = close(loser, winner)
        if ref not in self._work.fates:
            self._work.batch.guards.append({"id": record_id, "rev": loser.control.rev})
            self._work.batch.rows.append(ref)
        self._work.patch(
            record_id,
            status=str(closed.control.status),
            rev=closed.control.rev,
            valid_until=closed.clocks.valid_until,
            close_known_at=closed.clocks.close_known_at,
            close_recorded_at=self._work.now,
            open_until=closed.clocks.open_until,
            superseded_by=winner.id,
        )
        self._work.plan.rows[ref] = replace(closed, clocks=replace(closed.clocks, close_recorded_at=self._work.now))

    def _standing(self, row: Record) -> Row | None:
        return self._work.plan.rows[f"attribute:{key_of(row['id'])}"]

    def _fate(self, row: Record) -> Fate:
        return self._work.fates[f"attribute:{key_of(row['id'])}"]

    def _new_set(self, row: Record) -> str:
        fate = self._fate(row)
        assert isinstance(fate, Scope)
        return fate.id


def _chain_of(row: Record, scope_set: str) -> RecordID:
    return chain_record(stored_ref(row["entity"]), row["chain"], scope_set, Pillar(row["pillar"]))


# ---------------------------------------------------------------------- entities
async def settle_presences(work: Work) -> None:
    """Hide entities with nothing live left in a scope set, delete those with nothing left at all, and let entities
    of rows that moved be known where the rows are now."""
    fates: dict[Presence, list[tuple[Fate, bool]]] = {**work.touched}
    for presence, fate in work.order.presences.items():
        fates[presence] = [*fates.get(presence, ()), (fate, False)]
    if not fates:
        return
    support = await _support(work, {ref for ref, _ in fates})
    ids = [RecordID(ENTITY, list(presence)) for presence in fates]
    done: dict[Presence, Fate] = {}
    for row in await read(work.db, "SELECT * FROM $ids TIMEOUT 30s;", ids):
        presence = (row["ref"], row["scope_set"])
        shown = row.get("forgotten_at") is None
        moves = {
            fate.id: fate
            for fate, live in fates[presence]
            if isinstance(fate, Scope) and (live or (shown and fate == work.order.presences.get(presence)))
        }
        for scope in moves.values():
            _appear(work, row, scope)
        changed = _settle(work, row, support.get(presence, (False, False)), [fate for fate, _ in fates[presence]])
        if presence in work.order.presences and (changed or moves):
            done[presence] = work.order.presences[presence]
    work.plan.done = Order(presences=done, nodes=work.plan.done.nodes)


def _settle(work: Work, row: Record, support: tuple[bool, bool], fates: Sequence[Fate]) -> bool:
    """True when the entity is hidden or deleted. `support`: whether any row, and any live row, is left for it."""
    any_left, live_left = support
    presence = (row["ref"], row["scope_set"])
    if not any_left and any(fate is not Gone.RETIRE for fate in fates):
        work.delete(row["id"])
    elif live_left or row.get("forgotten_at") is not None:
        return False
    else:
        work.patch(row["id"], forgotten_at=work.now)
    work.plan.gone[ENTITY] += 1
    work.plan.dropped_names.add(presence)
    return True


def _appear(work: Work, row: Record, scope: Scope) -> None:
    ref = stored_ref(row["ref"])
    kept = {name: row[name] for name in ("ref", "type", "name", "display", "category", "importance", "created_at")}
    entity = kept | {"id": entity_id(ref, scope), "scope_set": scope.id, "updated_at": work.now}
    work.batch.entities.append(entity)
    work.register(scope)
    work.plan.names.add((row["ref"], scope.id))


async def _support(work: Work, refs: set[str]) -> dict[Presence, tuple[bool, bool]]:
    """For each entity and scope set with rows afterwards: (some row is left, some live row is left)."""
    support: dict[Presence, tuple[bool, bool]] = {}
    for surql in _SUPPORT:
        for row in await read(work.db, surql, sorted(refs)):
            fate = work.fates.get(f"{row['id'].table_name}:{key_of(row['id'])}")
            if fate is Gone.PURGE or isinstance(fate, Scope):
                continue
            live = fate is None and row.get("forgotten_at") is None
            for name in ("entity", "subject", "object", "actor"):
                if row.get(name) in refs:
                    presence = (row[name], row["scope_set"])
                    support[presence] = (True, live or support.get(presence, (False, False))[1])
    return support


_SUPPORT: Final[tuple[LiteralString, ...]] = (
    "SELECT id, entity, scope_set, forgotten_at FROM attribute WHERE entity IN $ids TIMEOUT 30s;",
    "SELECT id, subject, scope_set, forgotten_at FROM relates_to WHERE subject IN $ids TIMEOUT 30s;",
    "SELECT id, object, scope_set, forgotten_at FROM relates_to WHERE object IN $ids TIMEOUT 30s;",
    "SELECT id, actor, scope_set, forgotten_at FROM action WHERE actor IN $ids TIMEOUT 30s;",
    "SELECT id, object, scope_set, forgotten_at FROM action WHERE object IN $ids TIMEOUT 30s;",
)
