"""What a person rejected is known again, however it is written, and nothing else is."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from keeps.core.access import PrincipalId
from keeps.core.entities import entity_ref
from keeps.core.facts import Action, Clocks, Fact, Relation, RowId, Source
from keeps.core.scopes import ScopePath, parse_scopes
from keeps.services import suppression
from keeps.services.runtime import Context
from keeps.store.commit import Batch

NOW = datetime(2026, 5, 1, tzinfo=UTC)


def fact(value: str, *, key: str = "eats", scope: str = "user/mara") -> Fact:
    where = parse_scopes(scope)
    assert where is not None
    return Fact(
        id=RowId("a" * 20),
        scope=where,
        clocks=Clocks(known_at=NOW, recorded_at=NOW),
        source=Source(kind="upsert", trust=0.9),
        summary=value if key.startswith("note_") else f"Mara {key} {value}.",
        entity=entity_ref("person", "Mara"),
        key=key,
        value=value,
    )


SAID = "Crème brûlée on Sundays"


@pytest.mark.parametrize(
    ("again", "held"),
    [
        (fact(SAID), True),
        (fact(SAID.upper()), True),
        (fact(f"  {SAID.replace(' ', '   ')}. "), True),
        (fact(unicodedata.normalize("NFD", SAID)), True),
        (fact(SAID, key="note_abc"), True),
        (fact("Crème caramel on Sundays"), False),
        (fact(SAID, scope="user/ben"), False),
    ],
)
async def test_a6_the_rejected_text_is_known_again_in_other_letters_and_under_another_key(
    context: Context, again: Fact, held: bool
) -> None:
    batch = Batch(at=NOW)
    suppression.suppress(batch, context, [fact(SAID)], reason="rejected", by="owner")
    await context.commit(batch)
    assert await suppression.is_suppressed(context, [fact("rye bread"), again]) == ({1} if held else set())


async def test_what_is_shared_is_rejected_of_one_alone_and_what_is_ones_own_of_whomever(context: Context) -> None:
    batch = Batch(at=NOW)
    suppression.suppress(batch, context, [fact(SAID, scope="team/x")], reason="rejected", by="owner")
    context.consent.move_in({ScopePath("user/mara"): PrincipalId("mara")})
    suppression.suppress(batch, context, [fact(SAID)], reason="rejected", by="mara")
    await context.commit(batch)
    ben = entity_ref("person", "Ben")
    again = [
        fact(SAID, scope="team/x"),
        replace(fact(SAID, scope="team/x"), entity=ben),
        replace(fact(SAID, key="note_abc", scope="team/x"), entity=ben),
        replace(fact(SAID), entity=ben),
    ]
    assert await suppression.is_suppressed(context, again) == {0, 3}


async def test_a_short_value_is_not_held_back_under_another_key(context: Context) -> None:
    batch = Batch(at=NOW)
    suppression.suppress(batch, context, [fact("rye")], reason="rejected", by="owner")
    await context.commit(batch)
    rows = [fact("rye"), fact("rye", key="sells"), *(fact(f"bread {n}") for n in range(60))]
    assert await suppression.is_suppressed(context, rows) == {0}


async def test_what_was_suppressed_is_learned_again_once_it_is_lifted(context: Context) -> None:
    batch = Batch(at=NOW)
    suppression.suppress(batch, context, [fact(SAID), fact("rye")], reason="rejected", by="owner")
    await context.commit(batch)
    batch = Batch(at=NOW)
    await suppression.lift(batch, context, [fact(SAID.lower())])
    await context.commit(batch)
    assert await suppression.is_suppressed(context, [fact(SAID), fact("rye")]) == {1}


ANCHORS = "Collects old brass anchors at home"


def spoken(value: str, scope: str = "user/mara") -> Fact:
    return fact(value, key="note_x", scope=scope)


@pytest.mark.parametrize(
    "again",
    [
        "Collects old, brass anchors at home",
        "collects old brass-anchors at home",
        "Collects old brass anch\u043ers at home",
        "Collects old\u00adbrass anch\u00adors at home",
        "C\u00f2llects old brass anchors at home",
        "Collects old brass anchors at home (sic)",
        "* Collects old brass anchors at home",
        "Collects old brass anchors at home;",
        "Collects old brass anchors at home \U0001f642",
        "Collects_old_brass_anchors_at_home",
        "Collects old brass anchors at home\u3002",
        "\u217dollects old brass anchors at home",
        "Collects old brass anchor at homes",
    ],
)
async def test_m9_how_it_is_written_makes_no_difference(context: Context, again: str) -> None:
    batch = Batch(at=NOW)
    suppression.suppress(batch, context, [spoken(ANCHORS)], reason="rejected", by="owner")
    await context.commit(batch)
    assert await suppression.is_suppressed(context, [spoken(again), spoken("Collects old brass lamps at home")]) == {0}


async def test_m9_a_triple_is_known_as_a_relation_with_another_type_and_by_the_plural_of_its_key(
    context: Context,
) -> None:
    batch = Batch(at=NOW)
    hobby = fact("anchors", key="hobby")
    suppression.suppress(batch, context, [hobby], reason="rejected", by="owner")
    await context.commit(batch)
    edge = Relation(
        id=hobby.id,
        scope=hobby.scope,
        clocks=hobby.clocks,
        source=hobby.source,
        summary="Mara: anchors.",
        subject=hobby.entity,
        label="hobby",
        object=entity_ref("thing", "Anchors"),
    )
    deed = Action(
        id=hobby.id,
        scope=hobby.scope,
        clocks=hobby.clocks,
        source=hobby.source,
        summary="Mara did it.",
        actor=hobby.entity,
        verb="hobby",
        object_text="anchors!",
    )
    again = [
        replace(hobby, key="hobbies", summary="Mara hobbies anchors."),
        replace(hobby, entity=entity_ref("place", "mara."), summary="x"),
        edge,
        deed,
        replace(edge, label="sells"),
        replace(hobby, value="anchor chains", summary="y"),
    ]
    assert await suppression.is_suppressed(context, again) == {0, 1, 2, 3}


async def test_m9_a_no_holds_wherever_the_home_is_one_of_several(context: Context) -> None:
    context.consent.move_in({ScopePath("user/mara"): PrincipalId("mara"), ScopePath("user/ben"): PrincipalId("ben")})
    batch = Batch(at=NOW)
    suppression.suppress(batch, context, [spoken(ANCHORS)], reason="rejected", by="mara")
    await context.commit(batch)
    joint = parse_scopes([["user/mara", "user/ben"]])
    assert joint is not None
    both = replace(spoken(ANCHORS), scope=joint)
    rows = [spoken(ANCHORS, "user/ben"), both, spoken(ANCHORS, "user/mara/deep")]
    assert await suppression.is_suppressed(context, rows) == {1, 2}
    # What is said in both homes takes nothing of one person's no back.
    batch = Batch(at=NOW)
    await suppression.lift(batch, context, [both])
    await context.commit(batch)
    assert await suppression.is_suppressed(context, rows) == {1, 2}
