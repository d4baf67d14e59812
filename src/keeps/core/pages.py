"""Walking a long list: where to go on from, and one page of it."""

from __future__ import annotations

from dataclasses import dataclass
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
