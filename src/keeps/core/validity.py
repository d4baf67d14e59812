"""Which rows answer a question about a time: the three clocks as one predicate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from keeps.core.facts import Clocks, Row, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """The time a question is about; all `None` means now.

    `as_of`: what was known then. `at_instant`: what the record held then. `valid_from`/`valid_until`: bounds on
    when a thing was true; without `as_of` or `at_instant` they look at every version.
    """

    as_of: datetime | None = None
    at_instant: datetime | None = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None

    @property
    def is_now(self) -> bool:
        """True when the question is about the present alone."""
        return self == NOW


NOW = When()


def live(clocks: Clocks, status: Status, now: datetime) -> bool:
    """True when a row answers questions about the present."""
    if status is not Status.CONFIRMED or clocks.forgotten_at is not None:
        return False
    return clocks.valid_until is None or clocks.valid_until > now


def answers(row: Row, when: When, now: datetime) -> bool:
    """True when `row` belongs to the answer for `when`. Retired rows never do, whatever time is asked."""
    clocks = row.clocks
    if clocks.forgotten_at is not None or row.control.status is Status.EXPIRED:
        return False
    if when.is_now:
        return live(clocks, row.control.status, now)
    if when.at_instant is not None:
        if clocks.recorded_at > when.at_instant:
            return False
        clocks = _reopened(clocks, closed=_after(clocks.close_recorded_at, when.at_instant))
    if when.as_of is not None:
        if clocks.known_at > when.as_of:
            return False
        clocks = _reopened(clocks, closed=_after(clocks.close_known_at, when.as_of))
    moment = when.as_of or when.at_instant
    return (moment is None or _holds(clocks, moment)) and _within(clocks, when)


def _after(closed_at: datetime | None, moment: datetime) -> bool:
    return closed_at is not None and closed_at > moment


def _reopened(clocks: Clocks, *, closed: bool) -> Clocks:
    """`clocks` as they stood before a closing that was not known yet."""
    if not closed:
        return clocks
    return replace(clocks, valid_until=None, close_known_at=None, close_recorded_at=None)


def _holds(clocks: Clocks, moment: datetime) -> bool:
    """A closed row is out even when its validity was left open; else the moment lies in [from, until)."""
    if clocks.close_known_at is not None:
        return False
    started = clocks.valid_from is None or clocks.valid_from <= moment
    return started and (clocks.valid_until is None or moment < clocks.valid_until)


def _within(clocks: Clocks, when: When) -> bool:
    since = clocks.valid_from or clocks.known_at
    if when.valid_from is not None and since < when.valid_from:
        return False
    return when.valid_until is None or (
        clocks.valid_until is not None and clocks.valid_until <= when.valid_until
    )
