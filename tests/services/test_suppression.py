"""What a person rejected is known again, however it is written, and nothing else is."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from keeps.core.access import PrincipalId
from keeps.core.entities import entity_ref
from keeps.core.facts import Clocks, Fact, RowId, Source
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
