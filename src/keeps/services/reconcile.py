"""Triples meet the record: what each one opens, confirms, closes, or leaves for a person, as one plan to commit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from keeps.core import summaries
from keeps.core.cardinality import PREFERENCE_KEYS, chain_key
from keeps.core.entities import EntityRef, EntityType
from keeps.core.facts import (
    CONTEXT_LIFE_DAYS,
    IMPORTANCE,
    Action,
    Category,
    Clocks,
    Control,
    Fact,
    Pillar,
    Relation,
    Row,
    Source,
)
from keeps.core.scopes import Scope
from keeps.core.supersession import Doubt, Plan, Standing, plan
from keeps.core.text import fold
from keeps.core.triples import Family, Named, Triple
from keeps.finder.base import Name
from keeps.services.index import Changes, entry_of
from keeps.services.runtime import Context, new_id
from keeps.store import entities as store_entities
from keeps.store import facts as store_facts
from keeps.store import rows as store_rows
from keeps.store.commit import Batch
from keeps.store.db import RecordID
from keeps.store.facts import ChainState


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


@dataclass(slots=True)
class _Chain:
    """A chain while triples are applied to it one after another."""

    record: RecordID
    state: ChainState
    fact: Fact
    moved: bool = False


class Reconciliation:
    """One write against the record as it was read; `run` fills the batch, the index changes and the extraction."""

    def __init__(self, context: Context, incoming: Incoming, batch: Batch, changes: Changes) -> None:
        self._context = context
        self._in = incoming
        self._batch = batch
        self._changes = changes
        self._chains: dict[str, _Chain] = {}
        self._states: dict[str, ChainState] = {}
        self._rows: dict[str, Row] = {}
        self._fresh: set[str] = set()
        self._read_revs: dict[str, int] = {}
        self._names: dict[EntityRef, str] = {}
        self._categories: dict[EntityRef, Category] = {}
        self.extraction = Extraction()

    async def run(self) -> Extraction:
        """Apply every triple in order; nothing is written until the batch is committed."""
        known = await self._read()
        for triple in self._in.triples:
            self._question(triple)
            if triple.family is Family.ATTRIBUTE:
                await self._fact(triple)
            elif triple.family is Family.RELATION:
                await self._relation(triple)
            elif triple.family is Family.ACTION:
                await self._action(triple)
            else:
                self._weigh(triple.entity.ref, self._category_of(triple))
        self._write_entities(known)
        self._write_rows()
        self._write_chains()
        return self.extraction

    # ------------------------------------------------------------------ entities
    async def _read(self) -> dict[EntityRef, list[store_entities.Presence]]:
        """Read the chains the triples may touch, in both pillars, and where their entities are known."""
        for triple in self._in.triples:
            for named in (triple.entity, triple.target):
                if named is not None:
                    self._names.setdefault(named.ref, named.name)
        records = [
            store_rows.chain_record(
                triple.entity.ref,
                chain_key(triple.key or "", triple.value or "", self._category_of(triple), ""),
                self._in.scope.id,
                pillar,
            )
            for triple in self._in.triples
            if triple.family is Family.ATTRIBUTE
            for pillar in Pillar
        ]
        self._states, known = await store_facts.standing(
            self._context.db,
            self._context.sets,
            list({str(record): record for record in records}.values()),
            list(self._names),
            self._in.readable | {self._in.scope.id},
        )
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
    async def _fact(self, triple: Triple) -> None:
        fact = self._incoming_fact(triple)
        chain = self._chain(fact)
        other = self._chain(replace(fact, source=replace(fact.source, kind=_other_kind(fact.source.pillar))))
        standing = Standing(
            head=chain.state.head,
            contenders=chain.state.contenders,
            other_head=other.state.head,
            versions=await self._versions(fact, chain),
        )
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
        self._move(chain, decided)
        self._doubts(decided.doubts)
        if decided.corrected is not None:
            self.extraction.corrections.append(decided.corrected)
        if decided.proposed is not None:
            self._propose(decided.proposed, chain)
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

    def _chain(self, fact: Fact) -> _Chain:
        """The chain of a fact, as it stands in this write."""
        record = store_rows.chain_id(fact, chain_key(fact.key, fact.value, fact.category, fact.id))
        return self._chains.setdefault(str(record), _Chain(record, self._states.get(str(record), ChainState()), fact))

    async def _versions(self, fact: Fact, chain: _Chain) -> tuple[Fact, ...]:
        """All versions of the chain, only when the write may belong before one of them."""
        head = chain.state.head
        untouched = chain.state.rev == 0 and not chain.moved
        if not self._in.observed or untouched or (head and fact.clocks.known_at >= head.clocks.known_at):
            return ()  # The head itself is among what the plan knows.
        found = await store_facts.versions(
            self._context.db, self._context.sets, fact.entity, fact.key, frozenset({fact.scope.id})
        )
        mine = chain_key(fact.key, fact.value, fact.category, fact.id)
        current = {row.id: row for row in self._rows.values() if isinstance(row, Fact)}
        versions = {v.id: current.get(v.id, v) for v in found} | {
            row.id: row
            for row in current.values()
            if row.entity == fact.entity and row.key == fact.key and row.scope == fact.scope
        }
        return tuple(
            v
            for v in versions.values()
            if v.source.pillar is fact.source.pillar and chain_key(v.key, v.value, v.category, v.id) == mine
        )

    @staticmethod
    def _move(chain: _Chain, decided: Plan) -> None:
        """The chain as it stands after a decision."""
        state, opened = chain.state, decided.opened
        current = {row.id: row for row in (*decided.changed, *([decided.confirmed] if decided.confirmed else []))}
        head = current.get(state.head.id, state.head) if state.head else None
        closed = {row.id for row in decided.changed if row.superseded_by is not None}
        beside = tuple(current.get(c.id, c) for c in state.contenders if c.id not in closed)
        if decided.head is not None:
            head = decided.restored or opened
        elif opened is not None and opened.superseded_by is None:
            beside = (*beside, opened)
        chain.moved = chain.moved or opened is not None
        chain.state = ChainState(state.rev, head, beside)

    def _propose(self, fact: Fact, chain: _Chain) -> None:
        head = chain.state.head
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
    async def _relation(self, triple: Triple) -> None:
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
        twin = await self._twin(relation)
        kept = _again(twin, relation) if twin is not None else relation
        self._keep(kept, fresh=twin is None)
        self.extraction.relations.append(kept)
        for named in (subject, target):
            self._weigh(named.ref, relation.category)

    async def _action(self, triple: Triple) -> None:
        assert triple.verb is not None
        known = self._object_of(triple.object_text)
        said = self._names[known] if known else triple.object_text
        action = Action(
            **self._common(triple),
            summary=triple.summary or summaries.of_action(self._names[triple.entity.ref], triple.verb, said),
            actor=triple.entity.ref,
            verb=triple.verb,
            object=known,
            object_text=None if known else triple.object_text,
        )
        twin = await self._twin(action)
        kept = twin if twin is not None else action
        if twin is None:
            self._keep(action, fresh=True)
        self.extraction.actions.append(kept)
        self._weigh(triple.entity.ref, action.category)

    def _object_of(self, text: str | None) -> EntityRef | None:
        """The entity an action's object names: one that this same write names."""
        if text is None:
            return None
        folded = fold(text)
        return next((ref for ref, name in self._names.items() if folded in (fold(name), fold(ref.name))), None)

    async def _twin(self, row: Relation | Action) -> Any:
        """The live row that says the same, in this write or in the record."""
        candidates: list[Any] = [r for r in self._rows.values() if type(r) is type(row)]
        own_set = frozenset({row.scope.id})
        if isinstance(row, Relation):
            candidates += await store_facts.relations_of(self._context.db, self._context.sets, [row.subject], own_set)
        else:
            candidates += await store_facts.actions_of(self._context.db, self._context.sets, [row.actor], own_set)
        return next((c for c in candidates if _says(c) == _says(row) and c.clocks.valid_until is None), None)

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

    def _write_rows(self) -> None:
        lists: dict[type[Row], list[store_rows.Record]] = {
            Fact: self._batch.attributes,
            Relation: self._batch.relations,
            Action: self._batch.actions,
        }
        for ref, row in self._rows.items():
            printed = replace(row, control=replace(row.control, fingerprint=fingerprint_of(self._context, row)))
            self._batch.rows.append(ref)
            self._changes.put.append(entry_of(printed))
            record = self._row(printed)
            if ref in self._fresh:
                lists[type(row)].append(record)
                continue
            self._batch.guards.append({"id": record["id"], "rev": self._read_revs[ref]})
            self._batch.patch(record["id"], **{k: v for k, v in record.items() if k not in ("id", "in", "out")})

    def _write_chains(self) -> None:
        for chain in self._chains.values():
            state = chain.state
            if not chain.moved or chain.fact.category is Category.CONTEXT:
                continue
            members: list[str] = [*([state.head.id] if state.head else []), *(c.id for c in state.contenders)]
            row = store_rows.chain_to_row(chain.fact, state.head.id if state.head else None, members, state.rev + 1)
            self._batch.chains.append({"id": chain.record, "expected": state.rev, "set": row})


def fingerprint_of(context: Context, row: Row) -> str:
    """A keyed hash of what a row says, by which the same is known when it comes again."""
    slot = row.key if isinstance(row, Fact) else ""
    return context.fold_key(f"{row.scope.id} {slot} {texts_of(row)[0]}")


def texts_of(row: Row) -> list[str]:
    """The texts a row may be named by in a forget: what it says first."""
    if isinstance(row, Fact):
        return [row.value, row.summary]
    return [row.summary]


def _says(row: Relation | Action) -> tuple[object, ...]:
    if isinstance(row, Relation):
        return (row.subject, row.label, row.object, row.scope)
    said = fold(row.object_text) if row.object_text else None
    return (row.actor, row.verb, row.object, said, row.occurred_at, row.scope)


def _again(twin: Relation, again: Relation) -> Relation:
    labels = twin.labels + tuple(label for label in again.labels if label not in twin.labels)
    return replace(twin, labels=labels, control=replace(twin.control, rev=twin.control.rev + 1))


def _kind_of(category: Category, key: str | None) -> str:
    """What a person would call this memory when the caller does not say."""
    if category is Category.CONTEXT:
        return "event"
    if category is Category.KNOWLEDGE and key in PREFERENCE_KEYS:
        return "preference"
    return "fact"


def _other_kind(pillar: Pillar) -> str:
    return "turn" if pillar is Pillar.AUTHORITATIVE else "upsert"


def _without_id(row: store_rows.Record) -> store_rows.Record:
    return {key: value for key, value in row.items() if key != "id"}


def agent_entity(kind: str, display_name: str) -> Named:
    """The entity of a principal: `person/<name>` for a human, else `agent/<name>`."""
    type_ = EntityType.PERSON if kind == "human" else EntityType.AGENT
    return Named(EntityRef(type_, fold(display_name)), display_name)
