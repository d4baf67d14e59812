"""Walking a list that changes meanwhile."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from keeps.core.pages import PageRequest, Place, number_key, page_of, time_key


def place(number: int) -> Place:
    return number_key(number // 3), number_key(number)


@given(st.sets(st.integers(0, 300)), st.sets(st.integers(0, 300)), st.integers(1, 9), st.booleans())
def test_a_walk_gives_each_row_once_while_others_come(
    rows: set[int], added: set[int], limit: int, newest_first: bool
) -> None:
    seen: list[int] = []
    request = PageRequest(limit=limit)
    waiting = sorted(added - rows)
    while True:
        listed = sorted(rows, reverse=newest_first)
        page = page_of(listed, place, request, newest_first=newest_first)
        assert len(page.rows) <= limit
        seen += page.rows
        if waiting:
            rows = rows | {waiting.pop()}
        if page.next is None:
            break
        request = PageRequest(limit=limit, after=page.next)
    assert len(seen) == len(set(seen))
    assert seen == sorted(seen, reverse=newest_first)
    assert rows - added <= set(seen)


def test_offset_and_count() -> None:
    page = page_of(range(10), place, PageRequest(limit=3, offset=4, count=True))
    assert (page.rows, page.total, page.next) == ((4, 5, 6), 10, place(6))
    assert page_of(range(3), place, PageRequest(limit=3)).next is None
    assert page_of([], place, PageRequest()).rows == ()


@given(st.datetimes(min_value=datetime(1900, 1, 2)), st.datetimes(min_value=datetime(1900, 1, 2)))
def test_keys_of_times_sort_as_times(one: datetime, two: datetime) -> None:
    west = timezone(timedelta(hours=-5))
    one, two = one.replace(tzinfo=west), two.replace(tzinfo=west)
    try:
        assert (time_key(one) < time_key(two)) == (one < two)
    except OverflowError:
        return
