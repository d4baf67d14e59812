"""Writes of many triples: what they come to, how often they read, and whose rows a read touches."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from typing import Any, LiteralString

import pytest

from keeps.core.access import PrincipalKind, Verb
from keeps.core.entities import EntityRef, EntityType
from keeps.core.facts import Fact
from keeps.core.scopes import ScopePath
from keeps.core.text import MAX_LABELS
from keeps.services import twins
from keeps.services.runtime import Context, Runtime
from keeps.store import facts as store_facts
from keeps.store.db import INDEXED_VALUES, Db
from tests.services.conftest import HandClock, caller
from tests.services.saying import action, fact, relation, say

MARA = EntityRef(EntityType.PERSON, "mara")
HOME = ScopePath("user/mara")
PERSON = caller("user/mara", kind=PrincipalKind.HUMAN, name="mara", home=HOME)
BOT = caller("user/mara")


class Counted:
    """A database that counts the scripts it runs."""

    def __init__(self, db: Db) -> None:
        self._db = db
        self.name = db.name
        self.scripts = 0

    async def run(self, surql: LiteralString, /, *, timeout_s: float = 5.0, **params: object) -> list[Any]:
        self.scripts += 1
        return await self._db.run(surql, timeout_s=timeout_s, **params)


@pytest.fixture
def counted(context: Context) -> Iterator[Counted]:
    plain = context.db
    context.db = counted = Counted(plain)
    yield counted
    context.db = plain


@pytest.mark.parametrize("again", [False, True])
async def test_a_write_reads_once_for_all_its_relations_and_actions(
    rt: Runtime, context: Context, counted: Counted, again: bool
) -> None:
    triples = [t for n in range(60) for t in (action("saw", f"Boje {n} größer"), relation("knows_of", f"Org {n}"))]
    first = await say(rt, context, BOT, *triples) if again else None
    counted.scripts = 0
    done = await say(rt, context, BOT, *triples)
    assert counted.scripts <= 8
    assert done.extraction is not None
    assert len({a.id for a in done.extraction.actions}) == len({r.id for r in done.extraction.relations}) == 60
    if first is not None and first.extraction is not None:
        assert [a.id for a in done.extraction.actions] == [a.id for a in first.extraction.actions]
        assert [r.id for r in done.extraction.relations] == [r.id for r in first.extraction.relations]


async def test_a_write_that_repeats_itself_keeps_one_row(rt: Runtime, context: Context) -> None:
    done = await say(rt, context, BOT, *[action("met", "Bo"), relation("knows", "Acme")] * 5)
    assert done.extraction is not None
    assert len({a.id for a in done.extraction.actions}) == len({r.id for r in done.extraction.relations}) == 1


async def test_each_text_is_folded_a_few_times_only(
    rt: Runtime, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    folded: list[str] = []
    fold = twins.fold
    monkeypatch.setattr(twins, "fold", lambda text: folded.append(text) or fold(text))
    await say(rt, context, BOT, *[action("saw", f"Boje {n}", name=f"Name {n}") for n in range(100)])
    assert len(folded) <= 500


async def test_an_action_names_an_entity_of_its_write_however_it_is_written(rt: Runtime, context: Context) -> None:
    done = await say(rt, context, BOT, fact("type", "boat", name="Möwe", type_="other"), action("steered", "  MÖWE. "))
    assert done.extraction is not None
    (steered,) = done.extraction.actions
    assert str(steered.object) == "other/möwe"
    assert steered.object_text is None


async def test_many_earlier_values_are_read_once_and_stand_in_order(
    rt: Runtime, context: Context, counted: Counted, clock: HandClock
) -> None:
    await say(rt, context, BOT, fact("role", "mate"))
    then = clock() - timedelta(days=3)
    counted.scripts = 0
    await say(rt, context, BOT, *[fact("role", f"role {n}") for n in range(40)], observed_at=then)
    assert counted.scripts <= 8
    versions = await store_facts.versions(context.db, context.sets, MARA, "role", context.sets.everything())
    assert [v.value for v in versions] == ["mate", *(f"role {n}" for n in reversed(range(40)))]
    for newer, older in pairwise(versions):
        assert newer.supersedes == older.id
        assert older.superseded_by == newer.id


async def test_few_and_many_readable_scope_sets_give_the_same(rt: Runtime, context: Context) -> None:
    for number in range(INDEXED_VALUES + 4):
        await say(
            rt,
            context,
            caller(),
            fact("role", f"r{number}"),
            relation("knows", f"O {number}"),
            scopes=f"user/u{number}",
        )
    everything = context.sets.everything()
    few = frozenset(sorted(everything)[:INDEXED_VALUES])
    for sets in (few, everything):
        args = (context.db, context.sets, MARA)
        assert {v.scope.id for v in await store_facts.versions(*args, "role", sets)} == sets
        assert {v.scope.id for v in await store_facts.of_entity(*args, sets)} == sets
        related = await store_facts.relations_of(*args, sets)
        assert {r.scope.id for r in related} == sets
        assert len(related) == len(sets)
    assert await store_facts.relations_of(context.db, context.sets, MARA, frozenset()) == []


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("SELECT * FROM attribute WITH INDEX attribute_entity WHERE entity = $x AND scope_set = $y AND key = $z", 3),
        ("SELECT * FROM attribute WITH INDEX attribute_entity WHERE entity = $x AND scope_set = $y", 2),
        ("SELECT * FROM relates_to WITH INDEX relation_subject WHERE subject = $x AND scope_set = $y", 2),
        ("SELECT * FROM relates_to WITH INDEX relation_object WHERE object = $x AND scope_set = $y", 2),
        ("SELECT * FROM action WITH INDEX action_actor WHERE actor = $x AND scope_set = $y", 2),
    ],
)
async def test_what_one_scope_set_says_of_an_entity_is_found_by_both(
    context: Context, query: LiteralString, columns: int
) -> None:
    (plan,) = await context.db.run(query + " EXPLAIN;", x="the entity", y="the set", z="the key")
    assert str(["the entity", "the set", "the key"][:columns]) in str(plan).replace("\\", "")


async def test_labels_of_a_relation_said_often_do_not_grow_without_end(rt: Runtime, context: Context) -> None:
    for part in range(3):
        labels = tuple(f"p{part}={n}" for n in range(MAX_LABELS - 4))
        done = await say(rt, context, BOT, relation("knows", "Acme"), labels=labels)
    assert done.extraction is not None
    (kept,) = done.extraction.relations
    assert len(kept.labels) == MAX_LABELS
    assert kept.labels[: MAX_LABELS - 4] == tuple(f"p0={n}" for n in range(MAX_LABELS - 4))


async def test_a_passing_value_does_not_get_round_what_a_person_confirmed(rt: Runtime, context: Context) -> None:
    context.consent.move_in({HOME: PERSON.principal_id})
    confirmed = await say(rt, context, PERSON, fact("city", "Lisbon"))
    passing = fact("city", "Porto", memory_category="context")
    done = await say(rt, context, BOT, passing)
    assert confirmed.extraction is not None
    assert done.extraction is not None
    assert done.extraction.facts == []
    assert [p.row.value for p in done.extraction.proposals if isinstance(p.row, Fact)] == ["Porto"]
    assert [d.standing.id for d in done.extraction.doubts] == [confirmed.extraction.facts[0].id]
    (proposal,) = (await context.db.run("SELECT * FROM proposal"))[0]
    assert proposal["conflicts_with"] == f"attribute:{confirmed.extraction.facts[0].id}"
    own = await say(rt, context, PERSON, passing)
    assert own.extraction is not None
    assert [f.value for f in own.extraction.facts] == ["Porto"]


@pytest.mark.parametrize("key", ["city", "likes"])
async def test_a_passing_value_stands_where_nothing_confirmed_does(rt: Runtime, context: Context, key: str) -> None:
    await say(rt, context, BOT, fact("city", "Lisbon"))
    await say(rt, context, PERSON, fact("likes", "tea"))
    both = [fact(key, "Porto", memory_category="context"), fact(key, "Faro")]
    done = await say(rt, context, BOT, *both)
    assert done.extraction is not None
    assert [f.value for f in done.extraction.facts] == ["Porto", "Faro"]
    versions = await store_facts.versions(context.db, context.sets, MARA, key, context.sets.everything())
    assert {v.value for v in versions if v.clocks.close_known_at is None} >= {"Porto", "Faro"}
    await say(rt, context, BOT, fact(key, "Braga"))  # The chain that both met still has its head.


async def test_anothers_rows_are_not_read(rt: Runtime, context: Context) -> None:
    await say(rt, context, caller(), *[fact("likes", f"t {n}") for n in range(30)], scopes="user/al")
    await say(rt, context, caller(), fact("likes", "mine"), scopes="user/bo")
    mine = context.sets.readable(caller("user/bo").region(Verb.MEMORY_READ))
    assert [f.value for f in await store_facts.of_entity(context.db, context.sets, MARA, mine)] == ["mine"]
    assert [f.value for f in await store_facts.versions(context.db, context.sets, MARA, "likes", mine)] == ["mine"]
