"""The ledger: on disk before anything is erased, repaired after a torn write, refused after any other damage."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keeps.core.errors import StoreRefused, Unavailable
from keeps.store.ledger import Ledger, read_ledger

FILE = "tombstones.jsonl"


def filled(folder: Path, count: int = 3) -> tuple[int, str]:
    ledger = Ledger.open(folder)
    for number in range(1, count + 1):
        ledger.append("default", "purge", [f"turn:{number}"], number * 10, {"receipt": number})
    head = ledger.head
    ledger.close()
    return head


def test_lines_are_numbered_chained_and_read_back_by_context(tmp_path: Path) -> None:
    folder = tmp_path / "ledger"
    ledger = Ledger.open(folder)
    assert ledger.head == (0, "")
    assert ledger.append("default", "purge", ["turn:a", "fact:b"], 5, {"why": "forget"}) == 1
    assert ledger.append("other", "retire", ["fact:c"], 9) == 2
    assert ledger.append("default", "rescope", ["fact:d"], 11) == 3
    assert [(t.seq, t.kind, t.ids, t.change, t.detail) for t in ledger.since("default", 0)] == [
        (1, "purge", ("turn:a", "fact:b"), 5, {"why": "forget"}),
        (3, "rescope", ("fact:d",), 11, {}),
    ]
    assert [t.seq for t in ledger.since("default", 1)] == [3]
    assert [t.seq for t in ledger.since("other", 2)] == []
    assert ledger.verify() == 3
    head = ledger.head
    ledger.close()
    again = Ledger.open(folder)
    assert again.head == head
    assert again.append("default", "purge", ["turn:e"], 12) == 4
    assert again.contains(*head)
    assert again.contains(0, "")
    assert not again.contains(2, head[1])
    assert not again.contains(9, head[1])
    again.close()
    assert [t.seq for t in read_ledger(folder / FILE)] == [1, 2, 3, 4]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / FILE).stat().st_mode) == 0o600


@given(cut=st.integers(1, 400), junk=st.binary(max_size=8).filter(lambda b: b"\n" not in b))
def test_a_torn_last_line_is_cut_off(tmp_path_factory: pytest.TempPathFactory, cut: int, junk: bytes) -> None:
    folder = tmp_path_factory.mktemp("ledger")
    filled(folder)
    file = folder / FILE
    lines = file.read_bytes().splitlines(keepends=True)
    torn = lines[2][: min(cut, len(lines[2]) - 1)] + junk
    file.write_bytes(b"".join(lines[:2]) + torn)
    ledger = Ledger.open(folder)
    assert ledger.head[0] == 2
    assert ledger.append("default", "purge", ["turn:x"], 1) == 3
    assert ledger.verify() == 3
    ledger.close()
    assert file.read_bytes().startswith(b"".join(lines[:2]))


def _flip(lines: list[bytes]) -> list[bytes]:
    return [lines[0], lines[1].replace(b"turn:2", b"turn:9"), lines[2]]


def _drop(lines: list[bytes]) -> list[bytes]:
    return [lines[0], lines[2]]


def _swap(lines: list[bytes]) -> list[bytes]:
    return [lines[1], lines[0], lines[2]]


def _blank(lines: list[bytes]) -> list[bytes]:
    return [lines[0], b"\n", lines[1], lines[2]]


def _headless(lines: list[bytes]) -> list[bytes]:
    return lines[1:]


def _rewritten(lines: list[bytes]) -> list[bytes]:
    """A line changed together with its digest breaks the link of the next one."""
    line = json.loads(lines[1])
    line["digest"] = "0" * 64
    return [lines[0], json.dumps(line).encode() + b"\n", lines[2]]


def _last_line_broken(lines: list[bytes]) -> list[bytes]:
    return [lines[0], lines[1], b"{}\n"]


@pytest.mark.parametrize("damage", [_flip, _drop, _swap, _blank, _headless, _rewritten, _last_line_broken])
def test_any_other_damage_is_refused_with_the_ways_on(tmp_path: Path, damage: object) -> None:
    filled(tmp_path)
    file = tmp_path / FILE
    file.write_bytes(b"".join(damage(file.read_bytes().splitlines(keepends=True))))  # type: ignore[operator]
    before = file.read_bytes()
    with pytest.raises(StoreRefused, match=r"--ledger FILE(?s:.)*--new-ledger"):
        Ledger.open(tmp_path)
    assert file.read_bytes() == before


def test_lines_cut_off_at_the_end_are_seen_by_who_knows_the_head(tmp_path: Path) -> None:
    head = filled(tmp_path)
    file = tmp_path / FILE
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:2]))
    ledger = Ledger.open(tmp_path)
    assert not ledger.contains(*head)
    ledger.close()


def test_damage_while_open_is_found(tmp_path: Path) -> None:
    filled(tmp_path)
    ledger = Ledger.open(tmp_path)
    content = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(content.replace(b"turn:2", b"turn:9"))
    with pytest.raises(StoreRefused):
        ledger.verify()
    ledger.close()


def test_a_line_that_cannot_be_flushed_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(tmp_path)
    ledger = Ledger.open(tmp_path)
    real, calls = os.fsync, [0]

    def failing(file: int) -> None:
        calls[0] += 1
        if calls[0] == 1:
            raise OSError(28, "No space left on device")
        real(file)

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(Unavailable, match="nothing was erased"):
        ledger.append("default", "purge", ["turn:lost"], 1)
    assert ledger.append("default", "purge", ["turn:kept"], 1) == 4
    assert [t.ids for t in ledger.since("default", 3)] == [("turn:kept",)]
    assert ledger.verify() == 4
    ledger.close()
    assert b"turn:lost" not in (tmp_path / FILE).read_bytes()


def test_a_line_is_flushed_before_append_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger.open(tmp_path)
    real, seen = os.fsync, list[bytes]()

    def watching(file: int) -> None:
        seen.append((tmp_path / FILE).read_bytes())
        real(file)

    monkeypatch.setattr(os, "fsync", watching)
    ledger.append("default", "purge", ["turn:a"], 1)
    assert len(seen) == 1
    assert b"turn:a" in seen[0]
    ledger.close()


def test_parallel_threads_make_one_chain(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path)
    threads = [
        threading.Thread(target=lambda: [ledger.append("default", "purge", ["turn:x"], 1) for _ in range(10)])
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.verify() == 80
    ledger.close()


def test_long_ids_and_details_are_refused(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path)
    for ids, detail in ((["x" * 513], {}), ([""], {}), (["turn:a"], {"text": "x" * 5000})):
        with pytest.raises(ValueError):
            ledger.append("default", "purge", ids, 1, detail)
    assert ledger.head == (0, "")
    ledger.close()


def test_closing_again_does_no_harm(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path)
    ledger.close()
    other = os.open(tmp_path / FILE, os.O_RDONLY)  # takes the number that was let go
    ledger.close()
    os.close(other)
    with pytest.raises(Unavailable):
        ledger.append("default", "purge", ["turn:a"], 1)


def test_the_documented_line_stays_readable(tmp_path: Path) -> None:
    """The format is a promise: this file was written by the first version."""
    (tmp_path / FILE).write_bytes(Path(__file__).with_name("ledger_v1.jsonl").read_bytes())
    ledger = Ledger.open(tmp_path)
    assert ledger.head[0] == 2
    assert [t.ids for t in ledger.since("default", 0)] == [("turn:01J", "attribute:x\u00fc"), ("scope_set:ab",)]
    ledger.close()
