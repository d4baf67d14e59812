"""Limits and cursors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keeps.core.errors import Invalid
from keeps.core.pages import Page
from keeps.wire.base import validated
from keeps.wire.pages import Cursors, PageQuery, binding

CURSORS = Cursors(b"secret")


class Filtered(PageQuery):
    type: str | None = None


@pytest.mark.parametrize(
    ("sent", "kept"), [("0", 100), ("1", 1), ("500", 500), ("9999", 500), ("9" * 30, None), (None, 100)]
)
def test_limits_are_cut_down_rather_than_refused(sent: str | None, kept: int | None) -> None:
    if kept is None:
        with pytest.raises(Invalid):
            validated(PageQuery, {"limit": sent})
    else:
        assert validated(PageQuery, {"limit": sent}).limit == kept


@pytest.mark.parametrize("query", [{"limit": "-1"}, {"limit": "x"}, {"offset": "-1"}, {"count": "maybe"}])
def test_what_is_no_number_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(Invalid):
        validated(PageQuery, query)


@given(st.text(), st.text(min_size=1))
def test_a_cursor_leads_back_to_its_place(key: str, row: str) -> None:
    key, row = (text.encode("utf-8", "ignore").decode() for text in (key, row))
    assert CURSORS.decode(CURSORS.encode((key, row), "b"), "b") == (key, row)


def test_a_page_leads_to_the_next_request() -> None:
    query = validated(Filtered, {"type": "person", "limit": 1, "count": "true"})
    meta = CURSORS.meta(Page(rows=(1,), next=("k", "i"), total=9), query, route="/entities")
    assert (meta.has_more, meta.total_size) == (True, 9)
    again = validated(Filtered, {"type": "person", "limit": 7, "cursor": meta.next_cursor})
    assert CURSORS.request(again, route="/entities").after == ("k", "i")


@pytest.mark.parametrize(("query", "route"), [({"type": "place"}, "/entities"), ({"type": "person"}, "/attributes")])
def test_a_cursor_of_another_list_is_refused(query: dict[str, str], route: str) -> None:
    bound = binding("/entities", Filtered(type="person").filters())
    cursor = CURSORS.encode(("k", "i"), bound)
    with pytest.raises(Invalid, match="another list"):
        CURSORS.request(validated(Filtered, {**query, "cursor": cursor}), route=route)


@given(st.text(max_size=60))
def test_made_up_cursors_are_refused(cursor: str) -> None:
    with pytest.raises(Invalid):
        CURSORS.decode(cursor, "b")


def test_a_changed_cursor_is_refused() -> None:
    cursor = CURSORS.encode(("key", "id"), "b")
    for at in range(len(cursor) - 1):
        changed = cursor[:at] + ("A" if cursor[at] != "A" else "B") + cursor[at + 1 :]
        with pytest.raises(Invalid):
            CURSORS.decode(changed, "b")


def test_another_secret_is_another_server() -> None:
    with pytest.raises(Invalid):
        Cursors(b"other").decode(CURSORS.encode(("k", "i"), "b"), "b")


def test_the_last_page_has_no_cursor() -> None:
    assert CURSORS.meta(Page(rows=()), PageQuery(), route="/r").to_json() == b'{"hasMore":false}'
