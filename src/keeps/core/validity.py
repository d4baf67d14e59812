"""Which rows answer a question about a time: the three clocks as one predicate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from keeps.core.facts import Clocks, Control, Row, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """The time a question is about; all `None` means now.

    `as_of`: what was known then and true then. `at_instant`: what the record would have answered then.
    `valid_from`/`valid_until`: bounds on when a thing was true; alone they look at every version.
    Several together must all hold: first what the record held, then what was known, then the bounds.
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
    if when.is_now:
        return live(row.clocks, row.control.status, now)
    clocks = _as_known(row, when)
    if clocks is None:
        return False
    if when.as_of is not None:
        started = clocks.valid_from is None or clocks.valid_from <= when.as_of
        if not started or not _open(clocks, when.as_of):
            return False
    elif when.at_instant is not None and not _open(clocks, when.at_instant):
        return False
    return _within(clocks, when)


def known(row: Row, when: When) -> bool:
    """True when `row` belongs to the history as it stood at `when`, whether it was current then or not."""
    clocks = _as_known(row, when)
    return clocks is not None and _within(clocks, when)


def offered(control: Control, now: datetime) -> bool:
    """True unless a person, policy or a deadline keeps the row from being given out."""
    if control.muted or (control.taint and not control.user_confirmed):
        return False
    return control.expires_at is None or control.expires_at > now


def _as_known(row: Row, when: When) -> Clocks | None:
    """The clocks of a row as they stood, without closings that came later; `None` when it was not there yet."""
    clocks = row.clocks
    if clocks.forgotten_at is not None:
        return None
    if when.at_instant is not None:
        if clocks.recorded_at > when.at_instant:
            return None
        if clocks.close_recorded_at is not None and clocks.close_recorded_at > when.at_instant:
            clocks = _reopened(clocks)
    if when.as_of is not None:
        if clocks.known_at > when.as_of:
            return None
        if clocks.close_known_at is not None and clocks.close_known_at > when.as_of:
            clocks = _reopened(clocks)
    return clocks


def _reopened(clocks: Clocks) -> Clocks:
    return replace(clocks, valid_until=clocks.open_until, close_known_at=None, close_recorded_at=None)


def _open(clocks: Clocks, moment: datetime) -> bool:
    """A closed row is out even when its validity reaches further: the value that closed it answers instead."""
    return clocks.close_known_at is None and (clocks.valid_until is None or clocks.valid_until > moment)


def _within(clocks: Clocks, when: When) -> bool:
    since = clocks.valid_from or clocks.known_at
    if when.valid_from is not None and since < when.valid_from:
        return False
    return when.valid_until is None or (clocks.valid_until is not None and clocks.valid_until <= when.valid_until)
