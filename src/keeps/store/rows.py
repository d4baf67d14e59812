"""Values to rows and back: the one place that knows the columns of what is remembered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keeps.core.entities import EntityRef, EntityType
from keeps.core.facts import (
    Action,
    Category,
    Clocks,
    Control,
    Fact,
    Origin,
    Pillar,
    Relation,
    Row,
    RowId,
    Source,
    Status,
)
from keeps.core.scopes import Scope
from keeps.core.sessions import Chunk, Role, Session, Turn
from keeps.store.db import RecordID

Record = dict[str, Any]
"""A row as the engine takes and gives it."""

ENTITY = "entity"
TABLES: Mapping[type[Row], str] = {Fact: "attribute", Relation: "relates_to", Action: "action"}
"""Where each kind of remembered row lives."""


def key_of(record_id: Any) -> str:
    """The bare key of a row's id."""
    return str(record_id.id)


def table_of(row: Row) -> str:
    """The table of a remembered row."""
    return TABLES[type(row)]


def ref_of(row: Row) -> str:
    """The name of a remembered row everywhere outside its table: `attribute:<id>`."""
    return f"{table_of(row)}:{row.id}"


def stored_ref(text: str) -> EntityRef:
    """The reference a row holds: already in normal form, so only taken apart."""
    type_, _, name = text.partition("/")
    return EntityRef(EntityType(type_), name)


def entity_id(ref: EntityRef, scope: Scope) -> RecordID:
    """The row of an entity as one scope set knows it."""
    return RecordID(ENTITY, [str(ref), scope.id])


def _base_to_row(row: Row) -> Record:
    clocks, control, source = row.clocks, row.control, row.source
    return {
        "id": RecordID(table_of(row), row.id),
        "scope_set": row.scope.id,
        "labels": list(row.labels),
        "category": str(row.category),
        "confidence": float(row.confidence),
        "importance": float(row.importance),
        "summary": row.summary,
        "source_clause": row.source_clause,
        "source_kind": source.kind,
        "source_ref": source.ref,
        "source_session": source.session,
        "run": source.run,
        "source_trust": float(source.trust),
        "known_at": clocks.known_at,
        "recorded_at": clocks.recorded_at,
        "valid_from": clocks.valid_from,
        "valid_until": clocks.valid_until,
        "close_known_at": clocks.close_known_at,
        "close_recorded_at": clocks.close_recorded_at,
        "open_until": clocks.open_until,
        "said_at": list(clocks.said_at) or None,
        "forgotten_at": clocks.forgotten_at,
        "occurred_at": row.occurred_at,
        "metadata": dict(row.metadata) if row.metadata is not None else None,
        "kind": control.kind,
        "status": str(control.status),
        "origin": str(control.origin),
        "trust": float(control.trust),
        "user_confirmed": control.user_confirmed,
        "sensitivity": control.sensitivity,
        "taint": sorted(control.taint),
        "flags": sorted(control.flags),
        "muted": control.muted,
        "pinned": control.pinned,
        "expires_at": control.expires_at,
        "topics": sorted(control.topics) or None,
        "derived_from": list(control.derived_from) or None,
        "proposed_by": control.proposed_by,
        "confirmed_by": control.confirmed_by,
        "status_reason": control.status_reason,
        "status_by": control.status_by,
        "status_at": control.status_at,
        "rev": control.rev,
        "fingerprint": control.fingerprint,
    }


def _base_from_row(record: Record, scope: Scope) -> Record:
    return {
        "id": RowId(key_of(record["id"])),
        "scope": scope,
        "clocks": _clocks(record),
        "source": Source(
            kind=record["source_kind"],
            ref=record.get("source_ref"),
            session=record.get("source_session"),
            run=record.get("run"),
            trust=record["source_trust"],
        ),
        "category": Category(record["category"]),
        "confidence": record["confidence"],
        "importance": record["importance"],
        "summary": record["summary"],
        "source_clause": record.get("source_clause"),
        "labels": tuple(record["labels"]),
        "control": _control(record),
        "metadata": record.get("metadata"),
        "occurred_at": record.get("occurred_at"),
    }


def _clocks(record: Record) -> Clocks:
    return Clocks(
        known_at=record["known_at"],
        recorded_at=record["recorded_at"],
        valid_from=record.get("valid_from"),
        valid_until=record.get("valid_until"),
        close_known_at=record.get("close_known_at"),
        close_recorded_at=record.get("close_recorded_at"),
        open_until=record.get("open_until"),
        said_at=tuple(record.get("said_at") or ()),
        forgotten_at=record.get("forgotten_at"),
    )


def _control(record: Record) -> Control:
    return Control(
        kind=record["kind"],
        status=Status(record["status"]),
        origin=Origin(record["origin"]),
        trust=record["trust"],
        user_confirmed=record["user_confirmed"],
        sensitivity=record["sensitivity"],
        taint=frozenset(record["taint"]),
        flags=frozenset(record["flags"]),
        muted=record["muted"],
        pinned=record["pinned"],
        expires_at=record.get("expires_at"),
        topics=frozenset(record.get("topics") or ()),
        derived_from=tuple(record.get("derived_from") or ()),
        proposed_by=record.get("proposed_by"),
        confirmed_by=record.get("confirmed_by"),
        status_reason=record.get("status_reason"),
        status_by=record.get("status_by"),
        status_at=record.get("status_at"),
        rev=record["rev"],
        fingerprint=record["fingerprint"],
    )


def fact_to_row(fact: Fact, *, chain: str, folds: list[str]) -> Record:
    """A fact as a row. `folds`: keyed hashes of the folded texts it may be forgotten by."""
    return _base_to_row(fact) | {
        "entity": str(fact.entity),
        "key": fact.key,
        "value": fact.value,
        "chain": chain,
        "pillar": str(fact.source.pillar),
        "supersedes": fact.supersedes,
        "superseded_by": fact.superseded_by,
        "folds": folds,
    }


def fact_from_row(record: Record, scope: Scope) -> Fact:
    """The fact a row holds."""
    return Fact(
        **_base_from_row(record, scope),
        entity=stored_ref(record["entity"]),
        key=record["key"],
        value=record["value"],
        supersedes=_row_id(record.get("supersedes")),
        superseded_by=_row_id(record.get("superseded_by")),
    )


def relation_to_row(relation: Relation, *, folds: list[str]) -> Record:
    """A relation as an edge between the two entities as its own scope set knows them."""
    return _base_to_row(relation) | {
        "in": entity_id(relation.subject, relation.scope),
        "out": entity_id(relation.object, relation.scope),
        "subject": str(relation.subject),
        "object": str(relation.object),
        "label": relation.label,
        "folds": folds,
    }


def relation_from_row(record: Record, scope: Scope) -> Relation:
    """The relation an edge holds."""
    return Relation(
        **_base_from_row(record, scope),
        subject=stored_ref(record["subject"]),
        label=record["label"],
        object=stored_ref(record["object"]),
    )


def action_to_row(action: Action, *, folds: list[str]) -> Record:
    """An action as a row."""
    return _base_to_row(action) | {
        "actor": str(action.actor),
        "verb": action.verb,
        "object": str(action.object) if action.object is not None else None,
        "object_text": action.object_text,
        "folds": folds,
    }


def action_from_row(record: Record, scope: Scope) -> Action:
    """The action a row holds."""
    return Action(
        **_base_from_row(record, scope),
        actor=stored_ref(record["actor"]),
        verb=record["verb"],
        object=stored_ref(record["object"]) if record.get("object") else None,
        object_text=record.get("object_text"),
    )


def session_to_row(session: Session) -> Record:
    """A session as a row."""
    return {
        "id": RecordID("session", session.id),
        "scope_set": session.scope.id,
        "metadata": dict(session.metadata) if session.metadata is not None else None,
        "created_at": session.created_at,
        "last_turn_at": session.last_turn_at,
        "next_seq": session.next_seq,
        "opened_by": session.opened_by,
    }


def session_from_row(record: Record, scope: Scope) -> Session:
    """The session a row holds."""
    return Session(
        id=RowId(key_of(record["id"])),
        scope=scope,
        created_at=record["created_at"],
        next_seq=record["next_seq"],
        last_turn_at=record.get("last_turn_at"),
        metadata=record.get("metadata"),
        opened_by=record.get("opened_by"),
    )


def turn_to_row(turn: Turn, *, folds: list[str]) -> Record:
    """A turn as a row. `folds`: keyed hashes of its folded text."""
    return {
        "id": RecordID("turn", turn.id),
        "session": turn.session,
        "seq": turn.seq,
        "role": str(turn.role),
        "speaker": turn.speaker,
        "content": turn.content,
        "scope_set": turn.scope.id,
        "labels": list(turn.labels),
        "known_at": turn.known_at,
        "recorded_at": turn.recorded_at,
        "status": str(turn.status),
        "forgotten_at": turn.forgotten_at,
        "origin": str(turn.origin),
        "trust": float(turn.trust),
        "taint": sorted(turn.taint),
        "flags": sorted(turn.flags),
        "addressees": list(turn.addressees),
        "metadata": dict(turn.metadata) if turn.metadata is not None else None,
        "folds": folds,
    }


def turn_from_row(record: Record, scope: Scope) -> Turn:
    """The turn a row holds."""
    return Turn(
        id=RowId(key_of(record["id"])),
        session=RowId(record["session"]),
        seq=record["seq"],
        role=Role(record["role"]),
        content=record["content"],
        scope=scope,
        known_at=record["known_at"],
        recorded_at=record["recorded_at"],
        speaker=record.get("speaker"),
        labels=tuple(record["labels"]),
        status=Status(record["status"]),
        forgotten_at=record.get("forgotten_at"),
        origin=Origin(record["origin"]),
        trust=record["trust"],
        taint=frozenset(record["taint"]),
        flags=frozenset(record["flags"]),
        addressees=tuple(record["addressees"]),
        metadata=record.get("metadata"),
    )


def chunk_to_row(turn: RowId, chunk: Chunk) -> Record:
    """A passage as a row: places only, the text stays in the turn."""
    return {
        "id": RecordID("memory_chunk", chunk.id),
        "turn": turn,
        "position": chunk.position,
        "char_start": chunk.start,
        "char_end": chunk.end,
    }


def chunk_from_row(record: Record) -> Chunk:
    """The passage a row holds."""
    return Chunk(
        id=RowId(key_of(record["id"])),
        position=record["position"],
        start=record["char_start"],
        end=record["char_end"],
    )


def chain_id(fact: Fact, chain: str) -> RecordID:
    """The row that names the head of a fact's chain."""
    return chain_record(fact.entity, chain, fact.scope.id, fact.source.pillar)


def chain_record(entity: EntityRef, chain: str, scope_set: str, pillar: Pillar) -> RecordID:
    """The row that names the head of a chain."""
    return RecordID("chain", [str(entity), chain, scope_set, str(pillar)])


def chain_to_row(fact: Fact, head: str | None, members: list[str], rev: int) -> Record:
    """A chain as a row. `members`: its head and the live contenders beside it."""
    return {
        "entity": str(fact.entity),
        "key": fact.key,
        "scope_set": fact.scope.id,
        "pillar": str(fact.source.pillar),
        "head": head,
        "members": [RecordID("attribute", member) for member in members],
        "rev": rev,
    }


def _row_id(value: str | None) -> RowId | None:
    return RowId(value) if value else None
