"""Which files of conversations are read, and what their turns mean."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from keeps.cli.transcripts import read_talks
from keeps.core.errors import Invalid
from keeps.core.sessions import MAX_TURN_BYTES, Role


def written(tmp_path: Path, value: Any) -> Path:
    file = tmp_path / "talk"
    file.write_text(value if isinstance(value, str) else json.dumps(value), "utf-8")
    return file


ONE = {"role": "user", "content": "hello"}


@pytest.mark.parametrize(
    "whole",
    [
        [ONE],
        ONE,
        {"turns": [ONE]},
        {"messages": [ONE]},
        {"conversations": [{"id": "conversation", "turns": [ONE]}]},
        json.dumps(ONE) + "\n\n" + json.dumps({**ONE, "content": "again"}) + "\r\n",
        "\ufeff" + json.dumps([ONE]),
    ],
)
def test_forms_of_a_file(tmp_path: Path, whole: Any) -> None:
    (talk,) = read_talks(written(tmp_path, whole))
    assert talk.session == "conversation"
    assert talk.lines[0].kept == "hello"


@pytest.mark.parametrize(
    ("turn", "role", "speaker"),
    [
        ({"role": "assistant"}, Role.ASSISTANT, None),
        ({"role": "Human"}, Role.USER, None),
        ({"role": "user", "speaker": "Mara"}, Role.USER, "Mara"),
        ({"speaker": "assistant"}, Role.ASSISTANT, None),
        ({"speaker": "Mara"}, Role.USER, "Mara"),
        ({"speaker": ""}, Role.USER, None),
        ({"role": "tool", "name": "search"}, Role.TOOL, "search"),
        ({}, Role.USER, None),
    ],
)
def test_who_speaks(tmp_path: Path, turn: dict[str, str], role: Role, speaker: str | None) -> None:
    (talk,) = read_talks(written(tmp_path, [{"text": "hello", **turn}]))
    assert (talk.lines[0].role, talk.lines[0].speaker) == (role, speaker)


@pytest.mark.parametrize(
    "when",
    [
        "2026-03-02T09:04:00Z",
        "2026-03-02T10:04:00+01:00",
        "2026-03-02T09:04:00",
        "2026-03-02 09:04:00",
        1772442240,
    ],
)
def test_when_it_was_said(tmp_path: Path, when: Any) -> None:
    (talk,) = read_talks(written(tmp_path, [{"text": "hello", "ts": when}]))
    assert talk.lines[0].at == datetime(2026, 3, 2, 9, 4, tzinfo=UTC)


def test_sessions_are_told_apart_and_keep_their_order(tmp_path: Path) -> None:
    turns = [{"content": str(n), "session": "ab"[n % 2]} for n in range(4)]
    first, second = read_talks(written(tmp_path, {"conversations": [{"id": "c1", "turns": turns}]}))
    assert [line.kept for line in first.lines] == ["0", "2"]
    assert [line.kept for line in second.lines] == ["1", "3"]
    assert {first.conversation, second.conversation} == {"c1"}


@pytest.mark.parametrize(
    ("whole", "where"),
    [
        ("", "no turns"),
        ("[]", "no turns"),
        ("nonsense", "line 1"),
        ('{"content": "a"}\n{"content": ', "line 2"),
        ('{"content": "a"}\n7', "line 2"),
        ([ONE, {"role": "user"}], "turn 2"),
        ([ONE, {"content": 7}], "turn 2"),
        ([ONE, {"content": " "}], "turn 2"),
        ([ONE, {"content": "x", "role": "king"}], "turn 2"),
        ([ONE, {"content": "x", "ts": "yesterday"}], "turn 2"),
        ([ONE, {"content": "x", "ts": 1e300}], "turn 2"),
        ([ONE, {"content": "x\x00"}], "turn 2"),
        ([ONE, {"content": "x\ud800"}], "turn 2"),
        ([ONE, {"content": "x" * (MAX_TURN_BYTES + 1)}], "turn 2"),
        ([ONE, {"content": "x", "speaker": 7}], "turn 2"),
        ({"conversations": [{"id": "a", "turns": [ONE, 7]}]}, "conversation 1, turn 2"),
        ({"conversations": 7}, "conversations"),
        ("[" * 100_000, "nested"),
    ],
)
def test_a_bad_file_is_refused_whole_and_the_place_named(tmp_path: Path, whole: Any, where: str) -> None:
    with pytest.raises(Invalid) as caught:
        read_talks(written(tmp_path, whole))
    assert where in caught.value.message


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="cannot be read"):
        read_talks(tmp_path / "none")
    (tmp_path / "latin").write_bytes(b'[{"content": "\xe9"}]')
    with pytest.raises(Invalid, match="UTF-8"):
        read_talks(tmp_path / "latin")
