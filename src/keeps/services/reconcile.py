"""Triples meet the record: what each one opens, confirms, closes, or leaves for a person, as one plan to commit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from keeps.core import summaries
from keeps.core.cardinality import PREFERENCE_KEYS, chain_key
from keeps.core.entities import EntityRef
from keeps.core.facts import (
    CONTEXT_LIFE_DAYS,
    IMPORTANCE,
    Action,
    Category,
    Clocks,
    Control,
    Fact,
    Relation,
    Row,
    Source,
)
from keeps.core.scopes import Scope
from keeps.core.supersession import Doubt, plan
from keeps.core.triples import Family, Triple
from keeps.finder.base import Name
from keeps.services.chains import Chains
from keeps.services.index import Changes, entry_of
from keeps.services.runtime import Context, new_id
from keeps.services.twins import Objects, Twins
from keeps.store import entities as store_entities
from keeps.store import rows as store_rows
from keeps.store.commit import Batch
from keeps.store.db import RecordID


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """What a write says and under which conditions, before it meets the record.

    `observed`: the known time was given by the caller, so it may lie before what is there. `readable`: the scope
    sets the caller may see; whether an entity is new is told from these alone.
    """

    triples: Sequence[Triple]
    scope: Scope
    source: Source
    control: Control
    now: datetime
    known_at: datetime
    observed: bool
    readable: frozenset[str]
    proposed_by: str
    category: Category | None = None
    labels: tuple[str, ...] = ()
    metadata: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EntitySeen:
    """An entity a write named, as its caller may see it."""

    ref: EntityRef
    name: str
    category: Category
    is_new: bool


@dataclass(slots=True)
class Extraction:
    """What a write came to: rows as they stand afterwards, and what was left open."""

    entities: list[EntitySeen] = field(default_factory=list[EntitySeen])
    facts: list[Fact] = field(default_factory=list[Fact])
    relations: list[Relation] = field(default_factory=list[Relation])
    actions: list[Action] = field(default_factory=list[Action])
    doubts: list[Doubt] = field(default_factory=list[Doubt])
    questions: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    corrections: list[tuple[Fact, Fact]] = field(default_factory=list[tuple[Fact, Fact]])
    proposals: list[Fact] = field(default_factory=list[Fact])


_AT_ONCE: Final = 20
"""How many triples or rows are worked through before other requests get their turn."""


class Reconciliation:
    """One write against the record as it was read; `run` fills the batch, the index changes and the extraction."""

    def __init__(self, context: Context, incoming: Incoming, batch: Batch, changes: Changes) -> None:
        self._context = context
        self._in = incoming
        self._batch = batch
        self._changes = changes
        self._chains = Chains(incoming.scope, incoming.known_at if incoming.observed else None)
        self._twins = Twins()
        self._rows: dict[str, Row] = {}
        self._fresh: set[str] = set()
        self._read_revs: dict[str, int] = {}
        self._names: dict[EntityRef, str] = {}
        self._categories: dict[EntityRef, Category] = {}
        self.extraction = Extraction()

    async def run(self) -> Extraction:
        """Apply every triple in order; nothing is written until the batch is committed."""
        known = await self._read()
        objects = Objects(self._names)
        for number, triple in enumerate(self._in.triples, 1):
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
            self._question(triple)
            if triple.family is Family.ATTRIBUTE:
                self._fact(triple)
            elif triple.family is Family.RELATION:
                self._relation(triple)
            elif triple.family is Family.ACTION:
                self._action(triple, objects)
            else:
                self._weigh(triple.entity.ref, self._category_of(triple))
        self._write_entities(known)
        await self._write_rows()
        self._batch.chains += self._chains.rows()
        return self.extraction

    # ------------------------------------------------------------------ entities
    async def _read(self) -> dict[EntityRef, list[store_entities.Presence]]:
        """Read what the triples may touch, and where their entities are known."""
        for triple in self._in.triples:
            for named in (triple.entity, triple.target):
                if named is not None:
                    self._names.setdefault(named.ref, named.name)
        known = await self._chains.read(
            self._context, self._in.triples, list(self._names), self._in.readable | {self._in.scope.id}
        )
        await self._twins.read(self._context, self._in.scope, self._in.triples)
        for ref, seen in known.items():
            own = next((p for p in seen if p.scope_set == self._in.scope.id), None)
            if own is not None:
                self._names[ref] = own.display
        return known

    def _weigh(self, ref: EntityRef, category: Category) -> None:
        """An entity is as lasting as the most lasting thing said of it."""
        held = self._categories.get(ref)
        if held is None or IMPORTANCE[category] > IMPORTANCE[held]:
            self._categories[ref] = category

    def _write_entities(self, known: Mapping[EntityRef, Sequence[store_entities.Presence]]) -> None:
        for ref, name in self._names.items():
            category = self._categories.get(ref, Category.KNOWLEDGE)
            self._batch.entities.append(
                store_entities.to_row(ref, name, self._in.scope, category, IMPORTANCE[category], self._in.now)
            )
            self._changes.names.append(Name(entity=str(ref), scope_set=self._in.scope.id, name=ref.name))
            self.extraction.entities.append(
                EntitySeen(
                    ref=ref,
                    name=name,
                    category=category,
                    is_new=not any(p.scope_set in self._in.readable for p in known.get(ref, ())),
                )
            )

    # ------------------------------------------------------------------ facts
    def _fact(self, triple: Triple) -> None:
        fact = self._incoming_fact(triple)
        chain = self._chains.of(fact)
        standing = self._chains.standing(fact, chain)
        decided = plan(standing, fact, observed=self._in.observed)
        for changed in decided.changed:
            self._keep(changed)
        if decided.confirmed is not None:
            self._keep(decided.confirmed)
            self.extraction.facts.append(decided.confirmed)
        if decided.opened is not None:
            self._keep(decided.opened, fresh=True)
            self.extraction.facts.append(decided.opened)
        if decided.restored is not None:
            self._keep(decided.restored, fresh=True)
        chain.move(decided)
        self._doubts(decided.doubts)
        if decided.corrected is not None:
            self.extraction.corrections.append(decided.corrected)
        if decided.proposed is not None:
            self._propose(decided.proposed, standing.confirmed or chain.head)
        else:
            self._weigh(fact.entity, fact.category)

    def _incoming_fact(self, triple: Triple) -> Fact:
        assert triple.key is not None
        assert triple.value is not None
        name = self._names[triple.entity.ref]
        return Fact(
            **self._common(triple),
            summary=summaries.of_fact(name, triple.key, triple.value),
            entity=triple.entity.ref,
            key=triple.key,
            value=triple.value,
        )

    def _propose(self, fact: Fact, head: Fact | None) -> None:
        self.extraction.proposals.append(fact)
        self._batch.proposals.append(
            {
                "id": RecordID("proposal", fact.id),
                "target": "attribute",
                "row": _without_id(self._row(fact)),
                "scope_set": fact.scope.id,
                "status": "proposed",
                "reason": "conflict",
                "conflicts_with": f"attribute:{head.id}" if head else None,
                "proposed_by": self._in.proposed_by,
                "created_at": self._in.now,
                "fingerprint": fact.control.fingerprint,
                "source_ref": fact.source.ref,
            }
        )
        self._batch.rows.append(f"proposal:{fact.id}")

    def _doubts(self, doubts: Iterable[Doubt]) -> None:
        for doubt in doubts:
            self.extraction.doubts.append(doubt)
            self._ask(
                about=doubt.incoming.summary,
                reason=doubt.reason,
                kind=doubt.kind,
                subject=doubt.incoming,
                contenders=[f"attribute:{doubt.standing.id}", f"attribute:{doubt.incoming.id}"],
            )

    def _question(self, triple: Triple) -> None:
        """A phrase about time that means no certain day is asked about, never guessed."""
        if triple.unresolved_hint is None:
            return
        reason = "the time given for this could not be resolved to a day"
        self.extraction.questions.append((triple.unresolved_hint, reason))
        self._ask(about=triple.unresolved_hint, reason=reason, kind="unresolved-date", subject=None, contenders=[])

    def _ask(self, *, about: str, reason: str, kind: str, subject: Fact | None, contenders: list[str]) -> None:
        row_id = new_id()
        self._batch.uncertainties.append(
            {
                "id": RecordID("uncertainty", row_id),
                "about": about,
                "reason": reason,
                "kind": kind,
                "entity": str(subject.entity) if subject else None,
                "key": subject.key if subject else None,
                "contenders": contenders,
                "scope_set": self._in.scope.id,
                "labels": list(self._in.labels),
                "resolved": False,
                "created_at": self._in.now,
                "source_ref": self._in.source.ref,
            }
        )
        self._batch.rows.append(f"uncertainty:{row_id}")

    # ------------------------------------------------------------------ relations and actions
    def _relation(self, triple: Triple) -> None:
        assert triple.key is not None
        assert triple.target is not None
        subject, target = triple.entity, triple.target
        relation = Relation(
            **self._common(triple),
            summary=summaries.of_relation(self._names[subject.ref], triple.key, self._names[target.ref]),
            subject=subject.ref,
            label=triple.key,
            object=target.ref,
        )
        kept = self._twins.relation(relation)
        self._keep(kept, fresh=kept is relation)
        self.extraction.relations.append(kept)
        for named in (subject, target):
            self._weigh(named.ref, relation.category)

    def _action(self, triple: Triple, objects: Objects) -> None:
        assert triple.verb is not None
        known = objects.named(triple.object_text)
        said = self._names[known] if known else triple.object_text
        action = Action(
            **self._common(triple),
            summary=triple.summary or summaries.of_action(self._names[triple.entity.ref], triple.verb, said),
            actor=triple.entity.ref,
            verb=triple.verb,
            object=known,
            object_text=None if known else triple.object_text,
        )
        kept = self._twins.action(action)
        if kept is action:
            self._keep(action, fresh=True)
        self.extraction.actions.append(kept)
        self._weigh(triple.entity.ref, action.category)

    # ------------------------------------------------------------------ rows
    def _category_of(self, triple: Triple) -> Category:
        return triple.category or self._in.category or Category.KNOWLEDGE

    def _common(self, triple: Triple) -> dict[str, Any]:
        category = self._category_of(triple)
        known_at = self._in.known_at
        valid_until = triple.valid_until
        if category is Category.CONTEXT and valid_until is None:
            valid_until = known_at + timedelta(days=CONTEXT_LIFE_DAYS)
        flags = self._in.control.flags | frozenset({"hidden_chars"} if triple.hidden_chars else ())
        kind = self._in.control.kind
        return {
            "id": new_id(),
            "scope": self._in.scope,
            "clocks": Clocks(
                known_at=known_at,
                recorded_at=self._in.now,
                valid_from=triple.valid_from or known_at,
                valid_until=valid_until,
            ),
            "source": self._in.source,
            "category": category,
            "confidence": triple.confidence if triple.confidence is not None else self._in.source.trust,
            "importance": IMPORTANCE[category],
            "source_clause": triple.source_clause,
            "labels": self._in.labels,
            "control": replace(self._in.control, flags=flags, kind=kind or _kind_of(category, triple.key)),
            "metadata": self._in.metadata,
            "occurred_at": triple.occurred_at,
        }

    def _keep(self, row: Row, *, fresh: bool = False) -> None:
        ref = store_rows.ref_of(row)
        if fresh:
            self._fresh.add(ref)
        elif ref not in self._fresh:
            # Every rule that changes a row raises its revision by one: the row was read one below.
            self._read_revs.setdefault(ref, row.control.rev - 1)
        self._rows[ref] = row

    def _row(self, row: Row) -> store_rows.Record:
        folds = [self._context.fold_key(text) for text in texts_of(row)]
        if isinstance(row, Fact):
            return store_rows.fact_to_row(row, chain=chain_key(row.key, row.value, row.category, row.id), folds=folds)
        if isinstance(row, Relation):
            return store_rows.relation_to_row(row, folds=folds)
        assert isinstance(row, Action)
        return store_rows.action_to_row(row, folds=folds)

    async def _write_rows(self) -> None:
        lists: dict[type[Row], list[store_rows.Record]] = {
            Fact: self._batch.attributes,
            Relation: self._batch.relations,
            Action: self._batch.actions,
        }
        for number, (ref, row) in enumerate(self._rows.items(), 1):
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
            printed = replace(row, control=replace(row.control, fingerprint=fingerprint_of(self._context, row)))
            self._batch.rows.append(ref)
            self._changes.put.append(entry_of(printed))
            record = self._row(printed)
            if ref in self._fresh:
                lists[type(row)].append(record)
                continue
            self._batch.guards.append({"id": record["id"], "rev": self._read_revs[ref]})
            self._batch.patch(record["id"], **{k: v for k, v in record.items() if k not in ("id", "in", "out")})


def fingerprint_of(context: Context, row: Row) -> str:
    """A keyed hash of what a row says, by which the same is known when it comes again."""
    slot = row.key if isinstance(row, Fact) else ""
    return context.fold_key(f"{row.scope.id} {slot} {texts_of(row)[0]}")


def texts_of(row: Row) -> list[str]:
    """The texts a row may be named by in a forget: what it says first."""
    if isinstance(row, Fact):
        return [row.value, row.summary]
    return [row.summary]


def _kind_of(category: Category, key: str | None) -> str:
    """What a person would call this memory when the caller does not say."""
    if category is Category.CONTEXT:
        return "event"
    if category is Category.KNOWLEDGE and key in PREFERENCE_KEYS:
        return "preference"
    return "fact"


def _without_id(row: store_rows.Record) -> store_rows.Record:
    return {key: value for key, value in row.items() if key != "id"}
