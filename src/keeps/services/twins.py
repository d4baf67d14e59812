"""Relations and actions that say what the record, or this same write, says already."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from keeps.core.entities import EntityRef
from keeps.core.facts import Action, Relation
from keeps.core.scopes import Scope
from keeps.core.supersession import merged_labels
from keeps.core.text import fold
from keeps.core.triples import Family, Triple
from keeps.services.runtime import Context
from keeps.store import facts as store_facts

_Said = tuple[object, ...]


class Twins:
    """The rows without an end that a write's relations and actions may repeat, by what they say."""

    def __init__(self) -> None:
        self._relations: dict[_Said, Relation] = {}
        self._actions: dict[_Said, Action] = {}

    async def read(self, context: Context, scope: Scope, triples: Iterable[Triple]) -> None:
        """Read what `triples` may repeat in their scope set, once for all of them."""
        objects: dict[EntityRef, set[EntityRef]] = {}
        verbs: dict[EntityRef, set[str]] = {}
        for triple in triples:
            if triple.family is Family.RELATION and triple.target is not None:
                objects.setdefault(triple.entity.ref, set()).add(triple.target.ref)
            elif triple.family is Family.ACTION and triple.verb is not None:
                verbs.setdefault(triple.entity.ref, set()).add(triple.verb)
        for relation in await store_facts.open_relations(context.db, scope, objects):
            self._relations.setdefault(_says(relation), relation)
        for action in await store_facts.open_actions(context.db, scope, verbs):
            self._actions.setdefault(_says(action), action)

    def of(self, row: Relation | Action) -> Relation | Action | None:
        """What says the same in the record, or in this write before it."""
        return self._relations.get(_says(row)) if isinstance(row, Relation) else self._actions.get(_says(row))

    def relation(self, row: Relation) -> Relation:
        """The row to keep for `row`: itself, or its twin said once more."""
        said = _says(row)
        twin = self._relations.get(said)
        kept = row if twin is None else _again(twin, row)
        if kept.clocks.valid_until is None:
            self._relations[said] = kept
        return kept

    def action(self, row: Action) -> Action:
        """The row that stands for `row`: itself, or its twin as it is."""
        if row.clocks.valid_until is not None:
            return self._actions.get(_says(row), row)
        return self._actions.setdefault(_says(row), row)


class Objects:
    """The entities a write names, by each name they go by, folded; the first one named wins."""

    def __init__(self, names: Mapping[EntityRef, str]) -> None:
        self._refs: dict[str, EntityRef] = {}
        for ref, name in names.items():
            for called in (name, ref.name):
                self._refs.setdefault(fold(called), ref)

    def named(self, text: str | None) -> EntityRef | None:
        """The entity that the object of an action names."""
        return None if text is None else self._refs.get(fold(text))


def _says(row: Relation | Action) -> _Said:
    if isinstance(row, Relation):
        return (row.subject, row.label, row.object, row.scope.id)
    said = fold(row.object_text) if row.object_text else None
    return (row.actor, row.verb, row.object, said, row.occurred_at, row.scope.id)


def _again(twin: Relation, again: Relation) -> Relation:
    labels = merged_labels(twin.labels, again.labels)
    return replace(twin, labels=labels, control=replace(twin.control, rev=twin.control.rev + 1))
