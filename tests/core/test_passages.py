"""A turn that is short is one passage."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from keeps.core.facts import RowId
from keeps.core.scopes import Scope
from keeps.core.sessions import CHUNK_CHARS, Role, Turn, cut, is_short

_AT = datetime(2026, 5, 1, tzinfo=UTC)


@given(st.integers(0, 3 * CHUNK_CHARS), st.text(alphabet="ab. \n。", min_size=1, max_size=50))
def test_a_turn_is_short_exactly_when_it_is_one_passage(length: int, piece: str) -> None:
    text = (piece * (length // len(piece) + 1))[:length]
    turn = Turn(
        id=RowId("t"),
        session=RowId("s"),
        seq=0,
        role=Role.USER,
        content=text,
        scope=Scope(),
        known_at=_AT,
        recorded_at=_AT,
    )
    assert is_short(turn) == (cut(text) == [(0, len(text))])
