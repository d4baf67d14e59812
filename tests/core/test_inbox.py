"""What waits is shown once, held back things are decided on one by one, and rates count people's decisions."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keeps.core import inbox
from keeps.core.facts import RowId, Status
from keeps.core.inbox import Choice, Tally
from keeps.core.policy import Why
from keeps.core.proposals import Proposal

AT = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)


def proposal(number: int = 0, **parts: object) -> Proposal:
    made = Proposal(
        id=RowId(f"p{number}"),
        row=None,
        status=Status.PROPOSED,
        reason=Why.POLICY,
        proposed_by="coach",
        created_at=AT - timedelta(seconds=number),
        scope_set="mara",
        kind="fact",
        fingerprint="same",
    )
    return replace(made, **parts)  # pyright: ignore[reportArgumentType]


def test_the_same_thing_proposed_by_several_agents_is_one_item_that_counts_them() -> None:
    (item,) = inbox.each_once([proposal(0), proposal(1, proposed_by="hint"), proposal(2)])
    assert (item.newest.id, item.times, item.agents) == ("p0", 3, ("coach", "hint"))


@pytest.mark.parametrize(
    "other",
    [
        {"scope_set": "jon"},
        {"fingerprint": "other"},
        {"status": Status.QUARANTINED},
        {"reason": Why.RETIRE},
    ],
)
def test_other_places_texts_and_states_are_other_items(other: dict[str, object]) -> None:
    assert len(inbox.each_once([proposal(0), proposal(1, **other)])) == 2


def test_without_a_fingerprint_nothing_is_the_same() -> None:
    assert len(inbox.each_once([proposal(0, fingerprint=""), proposal(1, fingerprint="")])) == 2


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["mara", "jon"]))))
def test_putting_together_loses_nothing_and_keeps_the_order(made: list[tuple[str, str]]) -> None:
    given_ = [proposal(n, fingerprint=print_, scope_set=place) for n, (print_, place) in enumerate(made)]
    items = inbox.each_once(given_)
    assert sorted(p.id for item in items for p in item.all) == sorted(p.id for p in given_)
    newest = [item.newest.created_at for item in items]
    assert newest == sorted(newest, reverse=True)
    assert len({(item.newest.fingerprint, item.newest.scope_set) for item in items}) == len(items)


def test_choices_by_what_waits() -> None:
    assert inbox.choices_of(proposal())[0] is Choice.KEEP
    assert set(inbox.choices_of(proposal(conflicts_with="attribute:x"))) >= {Choice.REPLACE, Choice.KEEP_BOTH}
    assert Choice.KEEP not in inbox.choices_of(proposal(conflicts_with="attribute:x"))
    held = inbox.choices_of(proposal(status=Status.QUARANTINED))
    assert held[0] is Choice.DISCARD
    assert not {Choice.KEEP, Choice.EDIT, Choice.REPLACE} & set(held)
    assert inbox.choices_of(proposal(reason=Why.RETIRE, conflicts_with="attribute:x")) == (Choice.KEEP, Choice.DISCARD)


@pytest.mark.parametrize("reason", [Why.SENSITIVE, Why.TAINTED, Why.QUARANTINE])
def test_held_back_sensitive_and_tainted_things_are_decided_on_one_by_one(reason: Why) -> None:
    assert inbox.one_by_one(proposal(reason=reason))
    assert inbox.one_by_one(proposal(status=Status.QUARANTINED))
    assert not inbox.one_by_one(proposal())


def test_every_reason_has_words() -> None:
    assert set(inbox.BECAUSE) == set(Why)
    assert inbox.because("policy") == inbox.BECAUSE[Why.POLICY]
    assert inbox.because("some_rule") == "some rule"


def test_a_rate_counts_what_people_decided() -> None:
    (rate,) = inbox.rates(
        [
            Tally("coach", Status.CONFIRMED, "user", 3),
            Tally("coach", Status.REJECTED, "user", 1),
            Tally("coach", Status.REJECTED, "coach", 5),
            Tally("coach", Status.REJECTED, inbox.SWEEP, 2),
            Tally("coach", Status.EXPIRED, inbox.SWEEP, 4),
            Tally("coach", Status.SUPERSEDED, "coach", 7),
            Tally("coach", Status.PROPOSED, None, 6),
            Tally("coach", Status.QUARANTINED, None, 1),
        ]
    )
    assert (rate.kept, rate.decided, rate.expired, rate.waiting, rate.share) == (3, 4, 6, 7, 0.75)
    assert inbox.rates([Tally("hint", Status.PROPOSED, None, 1)])[0].share is None
