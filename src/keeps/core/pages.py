"""Walking a long list: where to go on from, and one page of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Generic, TypeAlias, TypeVar

DEFAULT_LIMIT: Final = 100
MAX_LIMIT: Final = 500

RowT = TypeVar("RowT")

Place: TypeAlias = tuple[str, str]
"""Where a page ended: the sort key of its last row as text, and the row's id, which breaks ties."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """Which page: up to `limit` rows strictly after the row at `after`, or from row `offset`.

    `count` asks for the number of all rows too. `after` and `offset` are not used together.
    """

    limit: int = DEFAULT_LIMIT
    after: Place | None = None
    offset: int = 0
    count: bool = False


FIRST_PAGE: Final = PageRequest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[RowT]):
    """Rows in order. `next` is where the following page begins after; None on the last page.

    A page may hold fewer rows than asked for and still have a next one. `total` only when it was asked for.
    """

    rows: tuple[RowT, ...]
    next: Place | None = None
    total: int | None = None


def page_of(
    rows: Iterable[RowT], place: Callable[[RowT], Place], request: PageRequest, *, newest_first: bool = False
) -> Page[RowT]:
    """The page `request` asks for out of all `rows`, which stand in rising order of `place`.

    With `newest_first` they stand in falling order. A row added or removed while somebody walks the list
    neither repeats nor hides another one.
    """
    listed = list(rows)
    if request.after is None:
        rest = listed[request.offset :]
    elif newest_first:
        rest = [row for row in listed if place(row) < request.after]
    else:
        rest = [row for row in listed if place(row) > request.after]
    shown = tuple(rest[: request.limit])
    more = len(rest) > len(shown)
    return Page(
        rows=shown,
        next=place(shown[-1]) if more and shown else None,
        total=len(listed) if request.count else None,
    )


def time_key(moment: datetime) -> str:
    """A moment in UTC as text that sorts as moments do."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")


def number_key(number: int) -> str:
    """A number from 0 as text that sorts as numbers do."""
    return f"{number:020d}"
