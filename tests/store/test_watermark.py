"""Marks: the last write wins, tears read as the one before or as unknown, only a store behind its mark is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keeps.core.errors import Invalid, StoreRefused
from keeps.store.watermark import Watermark, check


def test_the_last_number_is_read_back_also_by_another_process(tmp_path: Path) -> None:
    marks = Watermark.open(tmp_path / "marks")
    assert marks.read("control") is None
    for number in (1, 2, 3, 10_000_000_000):
        marks.write("control", number)
        assert Watermark.open(tmp_path / "marks").read("control") == number
    marks.write("context_a", 7)
    marks.close()
    again = Watermark.open(tmp_path / "marks")
    assert (again.read("control"), again.read("context_a")) == (10_000_000_000, 7)
    again.write("control", 5)
    assert again.read("control") == 5
    again.close()


def test_a_forgotten_mark_is_unknown(tmp_path: Path) -> None:
    marks = Watermark.open(tmp_path)
    marks.write("control", 9)
    marks.forget("control")
    marks.forget("control")
    assert marks.read("control") is None
    marks.write("control", 2)
    assert marks.read("control") == 2
    marks.close()


@given(cut=st.integers(0, 102), junk=st.binary(max_size=20), writes=st.integers(1, 4))
def test_a_torn_write_is_the_number_before_or_unknown(
    tmp_path_factory: pytest.TempPathFactory, cut: int, junk: bytes, writes: int
) -> None:
    folder = tmp_path_factory.mktemp("marks")
    marks = Watermark.open(folder)
    for number in range(1, writes + 1):
        marks.write("control", number * 10)
    marks.close()
    file = folder / "control.mark"
    content = file.read_bytes()
    damaged = content[:cut] + junk + content[cut + len(junk) :]
    file.write_bytes(damaged)
    allowed = {None, writes * 10, (writes - 1) * 10 or None}
    assert Watermark.open(folder).read("control") in allowed


def test_a_mark_without_room_only_lags(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    marks = Watermark.open(tmp_path / "marks")
    (tmp_path / "marks").rmdir()
    marks.write("control", 3)
    assert "control" in caplog.text
    assert marks.read("control") is None


def test_a_name_cannot_leave_the_folder(tmp_path: Path) -> None:
    marks = Watermark.open(tmp_path)
    for name in ("../x", "a/b", "", "A"):
        with pytest.raises(Invalid):
            marks.write(name, 1)


@given(stored=st.integers(0, 2**62), marked=st.none() | st.integers(0, 2**62))
def test_only_a_store_behind_its_mark_is_refused(stored: int, marked: int | None) -> None:
    if marked is None or stored >= marked:
        check(stored, marked)
    else:
        with pytest.raises(StoreRefused, match=r"keeps restore --data DIR FILE(?s:.)*keeps doctor --accept-loss"):
            check(stored, marked)
