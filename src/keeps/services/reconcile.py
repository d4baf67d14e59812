"""Triples meet the record: what each one opens, confirms, closes, or leaves for a person, as one plan to commit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
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
    Fact,
    Relation,
    Row,
    Status,
)
from keeps.core.policy import Drop, Why
from keeps.core.supersession import Doubt, conflict, correct, plan, same_value
from keeps.core.triples import Family, Triple
from keeps.core.validity import live
from keeps.finder.base import Name
from keeps.services import suppression
from keeps.services.chains import Chains
from keeps.services.incoming import DoubtRow, EntitySeen, Extraction, Incoming, Left, Wait, Waiting, add_doubt
from keeps.services.index import Changes, entry_of
from keeps.services.runtime import Context, new_id
from keeps.services.twins import Objects, Twins
from keeps.store import entities as store_entities
from keeps.store import rows as store_rows
from keeps.store.commit import Batch

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
        self._drops = dict(incoming.drops)
        self.extraction = Extraction()

    async def run(self) -> Extraction:
        """Apply every triple in order; nothing is written until the batch is committed."""
        known = await self._read()
        made = await self._made()
        for number, triple in enumerate(self._in.triples):
            if number % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)
            if number in self._drops:
                self._drop(number, self._drops[number])
                continue
            if number not in self._in.waits:
                self._question(triple)
                self.extraction.kept.add(number)
            row = made.get(number)
            if isinstance(row, Fact):
                self._fact(number, row)
            elif row is not None:
                self._once(number, row)
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
            self._context,
            self._in.triples,
            list(self._names),
            self._in.readable | {self._in.scope.id},
            list(self._in.corrects.values()),
        )
        await self._twins.read(self._context, self._in.scope, self._in.triples)
        for ref, seen in known.items():
            own = next((p for p in seen if p.scope_set == self._in.scope.id), None)
            if own is not None:
                self._names[ref] = own.display
        return known

    async def _made(self) -> dict[int, Row]:
        """The rows that the triples come to, by their places, before they meet what is there."""
        objects = Objects(self._kept_names())
        made: dict[int, Row] = {}
        for number, triple in enumerate(self._in.triples):
            if number % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)
            if number not in self._drops and triple.family is not Family.ENTITY:
                made[number] = self._row_of(number, triple, objects)
        if self._in.unasked and made:
            places = list(made)
            for place in await suppression.is_suppressed(self._context, list(made.values())):
                self._drops[places[place]] = Drop.SUPPRESSED
        return made

    def _row_of(self, number: int, triple: Triple, objects: Objects) -> Row:
        if triple.family is Family.ATTRIBUTE:
            return self._incoming_fact(number, triple)
        if triple.family is Family.RELATION:
            return self._incoming_relation(number, triple)
        return self._incoming_action(number, triple, objects)

    def _drop(self, number: int, why: Drop) -> None:
        self.extraction.kept.discard(number)
        self.extraction.dropped.append(Left(number, self._in.controls.get(number, self._in.control).kind, why))

    def _kept_names(self) -> dict[EntityRef, str]:
        """The entities that the triples name which do not wait."""
        kept = (t for n, t in enumerate(self._in.triples) if n not in self._in.waits and n not in self._drops)
        refs = {named.ref for t in kept for named in (t.entity, t.target) if named is not None}
        return {ref: name for ref, name in self._names.items() if ref in refs}

    def _weigh(self, ref: EntityRef, category: Category) -> None:
        """An entity is as lasting as the most lasting thing said of it."""
        held = self._categories.get(ref)
        if held is None or IMPORTANCE[category] > IMPORTANCE[held]:
            self._categories[ref] = category

    def _write_entities(self, known: Mapping[EntityRef, Sequence[store_entities.Presence]]) -> None:
        for ref, name in self._names.items():
            category = self._categories.get(ref)
            if category is None:
                continue  # Only what waits names it: it leaves no trace before a person says yes.
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
    def _fact(self, number: int, fact: Fact) -> None:
        chain = self._chains.of(fact)
        standing = self._chains.standing(fact, chain)
        if (wait := self._in.waits.get(number)) is not None:
            head = standing.confirmed or chain.head
            beside = head if head is not None and live(head.clocks, head.control.status, self._in.now) else None
            if (beside is not None and same_value(beside, fact)) or chain.twins(fact.value):
                self._drop(number, Drop.KNOWN)
            else:
                self._wait(number, fact, wait, beside)
            return
        decided = plan(standing, fact, observed=self._in.observed)
        if decided.confirmed is not None and store_rows.ref_of(decided.confirmed) in self._in.offered:
            self._drop(number, Drop.KNOWN)  # An echo: heard again it would be no evidence.
            return
        corrected = None
        if (old := self._in.corrects.get(number)) is not None and (found := correct(old, decided)) is not None:
            corrected, decided = found
            self._keep(corrected)
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
        if corrected is not None and corrected.category is not Category.CONTEXT:
            self._chains.of(corrected).leave(corrected)
        if decided.corrected is not None:
            self.extraction.corrections.append(decided.corrected)
        if decided.proposed is not None:
            self.extraction.kept.discard(number)
            self._wait(number, decided.proposed, Wait(why=Why.CONFLICT), standing.confirmed or chain.head)
            return
        self._doubts(decided.doubts)
        self._weigh(fact.entity, fact.category)

    def _incoming_fact(self, number: int, triple: Triple) -> Fact:
        assert triple.key is not None
        assert triple.value is not None
        name = self._names[triple.entity.ref]
        return Fact(
            **self._common(number, triple),
            summary=summaries.of_fact(name, triple.key, triple.value),
            entity=triple.entity.ref,
            key=triple.key,
            value=triple.value,
        )

    def _wait(self, number: int, row: Row, wait: Wait, beside: Fact | None = None) -> None:
        """Leave a row for a person. It becomes a proposal once it is known whether there is room for it."""
        doubt = None
        if beside is not None and isinstance(row, Fact) and beside.control.user_confirmed:
            doubt = conflict(beside, row)
            if wait.status is Status.PROPOSED and wait.why is Why.POLICY:
                wait = replace(wait, why=Why.CONFLICT)
        control = replace(row.control, status=wait.status, fingerprint=fingerprint_of(self._context, row))
        row = replace(row, control=control, source=self._in.waiting_source or row.source)
        names = {str(ref): self._names[ref] for ref in entities_of(row) if ref in self._names}
        self.extraction.waiting.append(
            Waiting(number=number, row=row, wait=wait, names=names, beside=beside, doubt=doubt)
        )

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
        doubt = DoubtRow(about, reason, kind, subject, tuple(contenders))
        add_doubt(self._batch, self._in, doubt)

    # ------------------------------------------------------------------ relations and actions
    def _incoming_relation(self, number: int, triple: Triple) -> Relation:
        assert triple.key is not None
        assert triple.target is not None
        subject, target = triple.entity, triple.target
        return Relation(
            **self._common(number, triple),
            summary=summaries.of_relation(self._names[subject.ref], triple.key, self._names[target.ref]),
            subject=subject.ref,
            label=triple.key,
            object=target.ref,
        )

    def _incoming_action(self, number: int, triple: Triple, objects: Objects) -> Action:
        assert triple.verb is not None
        known = objects.named(triple.object_text)
        said = self._names[known] if known else triple.object_text
        return Action(
            **self._common(number, triple),
            summary=triple.summary or summaries.of_action(self._names[triple.entity.ref], triple.verb, said),
            actor=triple.entity.ref,
            verb=triple.verb,
            object=known,
            object_text=None if known else triple.object_text,
        )

    def _once(self, number: int, row: Row) -> None:
        """A relation or an action: one row says it, however often it is said."""
        assert isinstance(row, Relation | Action)
        twin = self._twins.of(row)
        echo = twin is not None and store_rows.ref_of(twin) in self._in.offered
        if (wait := self._in.waits.get(number)) is not None and twin is None:
            self._wait(number, row, wait)
        elif wait is not None or echo:
            self._drop(number, Drop.KNOWN)
        elif isinstance(row, Relation):
            self._relation(row)
        else:
            self._action(row)

    def _relation(self, relation: Relation) -> None:
        kept = self._twins.relation(relation)
        self._keep(kept, fresh=kept is relation)
        self.extraction.relations.append(kept)
        for ref in (relation.subject, relation.object):
            self._weigh(ref, relation.category)

    def _action(self, action: Action) -> None:
        kept = self._twins.action(action)
        if kept is action:
            self._keep(action, fresh=True)
        self.extraction.actions.append(kept)
        self._weigh(action.actor, action.category)

    # ------------------------------------------------------------------ rows
    def _category_of(self, triple: Triple) -> Category:
        return triple.category or self._in.category or Category.KNOWLEDGE

    def _common(self, number: int, triple: Triple) -> dict[str, Any]:
        category = self._category_of(triple)
        known_at = self._in.known_at
        valid_until = triple.valid_until
        if category is Category.CONTEXT and valid_until is None:
            valid_until = known_at + timedelta(days=CONTEXT_LIFE_DAYS)
        given = self._in.controls.get(number, self._in.control)
        flags = given.flags | frozenset({"hidden_chars"} if triple.hidden_chars else ())
        return {
            "id": self._in.ids.get(number) or new_id(),
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
            "control": replace(given, flags=flags, kind=given.kind or kind_of(category, triple.key)),
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


def entities_of(row: Row) -> tuple[EntityRef, ...]:
    """The entities a row names."""
    if isinstance(row, Fact):
        return (row.entity,)
    if isinstance(row, Relation):
        return (row.subject, row.object)
    assert isinstance(row, Action)
    return (row.actor,) if row.object is None else (row.actor, row.object)


def fingerprint_of(context: Context, row: Row) -> str:
    """A keyed hash of what a row says and of whom, by which the same is known when it comes again. The key of a note
    says nothing: each has one of its own."""
    slot = row.key if isinstance(row, Fact) and not row.key.startswith(summaries.NOTE_PREFIX) else ""
    named = " ".join(map(str, entities_of(row)))
    return context.fold_key(f"{row.scope.id} {named} {slot} {texts_of(row)[0]}")


def texts_of(row: Row) -> list[str]:
    """The texts a row may be named by in a forget: what it says first."""
    if isinstance(row, Fact):
        return [row.value, row.summary]
    return [row.summary]


def kind_of(category: Category, key: str | None) -> str:
    """What a person would call this memory when the caller does not say."""
    if category is Category.CONTEXT:
        return "event"
    if category is Category.KNOWLEDGE and key in PREFERENCE_KEYS:
        return "preference"
    return "fact"
