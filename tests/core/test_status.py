"""The moves of a memory, all of them: what the table allows is made, everything else is refused."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keeps.core.facts import Status
from keeps.core.status import TRANSITIONS, Actor, Move, Refusal, Transition, move

NEW = None
U, C, A, D, S = Actor.SUBJECT, Actor.CURATOR, Actor.AGENT, Actor.ADMIN, Actor.SERVICE

# Written down a second time, from the rules and not from the table: from, to, who.
ALLOWED = {
    (NEW, Status.CONFIRMED): {U, C, S},
    (NEW, Status.PROPOSED): {U, A, S},
    (NEW, Status.QUARANTINED): {S},
    (Status.PROPOSED, Status.CONFIRMED): {U, C},
    (Status.PROPOSED, Status.REJECTED): {U, C, A},
    (Status.PROPOSED, Status.SUPERSEDED): {S},
    (Status.PROPOSED, Status.EXPIRED): {S},
    (Status.PROPOSED, Status.QUARANTINED): {S},
    (Status.QUARANTINED, Status.PROPOSED): {U, C},
    (Status.QUARANTINED, Status.REJECTED): {U, C, D, S},
    (Status.CONFIRMED, Status.CONFIRMED): {U, C},
    (Status.CONFIRMED, Status.SUPERSEDED): {S},
    (Status.CONFIRMED, Status.EXPIRED): {U, C, A, S},
    (Status.CONFIRMED, Status.PROPOSED): {S},
    (Status.EXPIRED, Status.CONFIRMED): {U, C},
    (Status.FORGOTTEN, None): {U, C},
    **{(status, Status.FORGOTTEN): {U, C, D, S} for status in Status if status is not Status.FORGOTTEN},
}


def reached(before: Status | None, actor: Actor) -> set[Status | None]:
    found = (move(what, before, actor) for what in Move)
    return {step.after for step in found if isinstance(step, Transition)}


@pytest.mark.parametrize("before", [NEW, *Status])
@pytest.mark.parametrize("actor", list(Actor))
def test_a10_from_everywhere_each_one_reaches_what_the_rules_allow_and_nothing_else(
    before: Status | None, actor: Actor
) -> None:
    assert reached(before, actor) == {
        after for (start, after), who in ALLOWED.items() if start == before and actor in who
    }


@given(st.sampled_from(list(Move)), st.sampled_from([NEW, *Status]), st.sampled_from(list(Actor)))
def test_a10_a_move_that_is_not_in_the_table_is_refused(what: Move, before: Status | None, actor: Actor) -> None:
    made = move(what, before, actor)
    step = TRANSITIONS.get((what, before))
    if isinstance(made, Transition):
        assert made is step
        assert actor in made.actors
    elif made is Refusal.ILLEGAL:
        assert step is None
    else:
        assert step is None or actor not in step.actors


def test_no_agent_confirms_releases_or_renews_from_anywhere() -> None:
    for what, before in product((Move.SAVE, Move.CONFIRM, Move.RELEASE, Move.RENEW, Move.EDIT, Move.FORGET), Status):
        assert move(what, before, Actor.AGENT) is Refusal.FORBIDDEN


def test_what_is_forgotten_comes_back_by_undo_alone() -> None:
    out = [step.move for step in TRANSITIONS.values() if step.before is Status.FORGOTTEN]
    assert out == [Move.UNDO]
