"""Which moves a memory may make, who may make each, and where it stands afterwards: one table, read by everything."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from keeps.core.facts import Status


class Actor(StrEnum):
    """As whom somebody acts on one memory: the person it belongs to, the curator of something shared, an agent (or
    anybody else with a grant), an admin, or the service itself."""

    SUBJECT = "subject"
    CURATOR = "curator"
    AGENT = "agent"
    ADMIN = "admin"
    SERVICE = "service"


class Move(StrEnum):
    """What is done to a memory. `REPLACE`, `EXPIRE`, `HOLD` and `TIGHTEN` are the service's own."""

    SAVE = "save"
    KEEP = "keep"
    PROPOSE = "propose"
    HOLD = "hold"
    CONFIRM = "confirm"
    REJECT = "reject"
    WITHDRAW = "withdraw"
    RELEASE = "release"
    EDIT = "edit"
    REPLACE = "replace"
    EXPIRE = "expire"
    RETIRE = "retire"
    TIGHTEN = "tighten"
    RENEW = "renew"
    FORGET = "forget"
    UNDO = "undo"


@dataclass(frozen=True, slots=True)
class Transition:
    """One allowed move. `before`: None for what is new. `after`: None where it stands again as it stood before."""

    move: Move
    before: Status | None
    after: Status | None
    actors: frozenset[Actor]


_PEOPLE: Final = frozenset({Actor.SUBJECT, Actor.CURATOR})
_SERVICE: Final = frozenset({Actor.SERVICE})
_AGENT: Final = frozenset({Actor.AGENT})
_ERASERS: Final = _PEOPLE | {Actor.ADMIN, Actor.SERVICE}


def _transitions() -> Iterator[Transition]:
    yield Transition(Move.SAVE, None, Status.CONFIRMED, _PEOPLE)
    yield Transition(Move.KEEP, None, Status.CONFIRMED, _SERVICE)
    yield Transition(Move.PROPOSE, None, Status.PROPOSED, frozenset({Actor.AGENT, Actor.SERVICE, Actor.SUBJECT}))
    yield Transition(Move.HOLD, None, Status.QUARANTINED, _SERVICE)
    yield Transition(Move.CONFIRM, Status.PROPOSED, Status.CONFIRMED, _PEOPLE)
    yield Transition(Move.REJECT, Status.PROPOSED, Status.REJECTED, _PEOPLE)
    yield Transition(Move.WITHDRAW, Status.PROPOSED, Status.REJECTED, _AGENT)
    yield Transition(Move.REPLACE, Status.PROPOSED, Status.SUPERSEDED, _SERVICE)
    yield Transition(Move.EXPIRE, Status.PROPOSED, Status.EXPIRED, _SERVICE)
    yield Transition(Move.HOLD, Status.PROPOSED, Status.QUARANTINED, _SERVICE)
    yield Transition(Move.RELEASE, Status.QUARANTINED, Status.PROPOSED, _PEOPLE)
    yield Transition(Move.REJECT, Status.QUARANTINED, Status.REJECTED, _PEOPLE | {Actor.ADMIN})
    yield Transition(Move.EXPIRE, Status.QUARANTINED, Status.REJECTED, _SERVICE)
    yield Transition(Move.EDIT, Status.CONFIRMED, Status.CONFIRMED, _PEOPLE)
    yield Transition(Move.REPLACE, Status.CONFIRMED, Status.SUPERSEDED, _SERVICE)
    yield Transition(Move.EXPIRE, Status.CONFIRMED, Status.EXPIRED, _SERVICE)
    # A person stops using something of theirs, and an agent what it may forget; only a person's word ends for good.
    yield Transition(Move.RETIRE, Status.CONFIRMED, Status.EXPIRED, _PEOPLE | _AGENT)
    yield Transition(Move.TIGHTEN, Status.CONFIRMED, Status.PROPOSED, _SERVICE)
    yield Transition(Move.RENEW, Status.EXPIRED, Status.CONFIRMED, _PEOPLE)
    for status in Status:
        if status is not Status.FORGOTTEN:
            yield Transition(Move.FORGET, status, Status.FORGOTTEN, _ERASERS)
    yield Transition(Move.UNDO, Status.FORGOTTEN, None, _PEOPLE)


TRANSITIONS: Final = {(step.move, step.before): step for step in _transitions()}
"""Every move there is, by what it is and where it begins. What is not here is refused."""


class Refusal(StrEnum):
    """Why a move is not made: nobody may make it from there, or not this one."""

    ILLEGAL = "illegal"
    FORBIDDEN = "forbidden"


def move(what: Move, before: Status | None, actor: Actor) -> Transition | Refusal:
    """The transition, or why there is none. One who may never make such a move is told so before anything about
    where the memory stands."""
    if not any(actor in step.actors for step in TRANSITIONS.values() if step.move is what):
        return Refusal.FORBIDDEN
    step = TRANSITIONS.get((what, before))
    if step is None:
        return Refusal.ILLEGAL
    return step if actor in step.actors else Refusal.FORBIDDEN
