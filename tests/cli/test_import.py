"""Importing conversations: each turn once, whatever happens on the way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from keeps.cli import conversations
from keeps.cli.conversations import Aim, import_talks
from keeps.cli.transcripts import read_talks
from keeps.client import Client, walk
from keeps.core.errors import Conflict, Unavailable
from keeps.memory import Memory
from tests.cli.conftest import Desk

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "conversation.jsonl"


def talk(*texts: str, session: str = "s1", conversation: str = "c1") -> dict[str, Any]:
    turns = [{"id": f"t{n}", "session": session, "speaker": "Ada", "text": text} for n, text in enumerate(texts)]
    return {"conversations": [{"id": conversation, "turns": turns, "questions": [{"q": "ignored"}]}]}


def file_of(tmp_path: Path, whole: Any, name: str = "talk.json") -> Path:
    file = tmp_path / name
    file.write_text(json.dumps(whole), "utf-8")
    return file


async def contents(memory: Client) -> list[str]:
    found: list[str] = []
    async for page in walk(memory.sessions.list):
        for session in page.sessions:
            async for turns in walk(memory.sessions.turns, session.id):
                found += [turn.content for turn in turns.turns]
    return found


def test_the_example_is_imported_once(alone: Desk) -> None:
    first = alone("import", "conversation", str(EXAMPLE), "--json")
    assert first.json == {"sessions": 13, "turns": 213, "already": 0}
    assert first.err == f"Began a new memory in {alone.folder}.\n"
    assert "213 were there already" in alone("import", "conversation", str(EXAMPLE)).out
    top = alone("recall", "Who gave Sill four stitches in his paw?", "--json").json["hits"][0]
    assert "Dr Ahlgren" in top["text"]
    assert (top["speaker"], top["occurredAt"]) == ("Mara", "2026-04-09T07:24:25Z")


def test_the_layout_of_several_conversations(alone: Desk, tmp_path: Path) -> None:
    both = {
        "conversations": [
            *talk("the lamp is lit", conversation="north")["conversations"],
            *talk("the lamp is out", conversation="south")["conversations"],
        ]
    }
    file = file_of(tmp_path, both)
    alone("import", "conversation", str(file), "--scope", "talks/{conversation}", "--label", "set=1")
    hits = alone("recall", "lamp", "--lens", "talks/south", "--label", "set=1", "--json").json["hits"]
    assert [hit["text"] for hit in hits] == ["the lamp is out"]


def test_a_bad_file_changes_nothing(alone: Desk, tmp_path: Path) -> None:
    file = file_of(tmp_path, [{"content": "fine"}, {"content": ""}])
    assert "turn 2" in alone("import", "conversation", str(file), code=1).err
    assert not alone.folder.exists()


class Failing(Memory):
    """A memory that goes away after some batches."""

    batches = 0

    async def remember_many(self, messages: Sequence[Any], **about: Any) -> Any:
        if self.batches == 0:
            raise Unavailable("gone")
        self.batches -= 1
        return await super().remember_many(messages, **about)


async def test_an_interrupted_import_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversations, "BATCH_TURNS", 7)
    talks = read_talks(EXAMPLE)
    wanted = [line.kept for one in talks for line in one.lines]
    async with Failing.open(tmp_path / "m") as memory:
        for batches in (0, 1, 2, 10):
            memory.batches = batches
            with pytest.raises(Unavailable):
                await import_talks(memory, talks, Aim())
        memory.batches = 1000
        done = await import_talks(memory, talks, Aim())
        assert done.turns + done.already == len(wanted)
        assert done.already > 0
        assert sorted(await contents(memory)) == sorted(wanted)
        for one in talks:
            assert (await import_talks(memory, [one], Aim())).turns == 0


async def test_a_file_that_grew_adds_what_is_new(tmp_path: Path) -> None:
    async with Memory.open(tmp_path / "m") as memory:
        short = read_talks(file_of(tmp_path, talk("one", "two")))
        long = read_talks(file_of(tmp_path, talk("one", "two", "three")))
        assert (await import_talks(memory, short, Aim())).turns == 2
        assert (await import_talks(memory, long, Aim())).turns == 1
        assert (await import_talks(memory, short, Aim())).turns == 0
        assert await contents(memory) == ["one", "two", "three"]


async def test_other_turns_in_a_known_session_are_refused(tmp_path: Path) -> None:
    async with Memory.open(tmp_path / "m") as memory:
        await import_talks(memory, read_talks(file_of(tmp_path, talk("one", "two"))), Aim())
        with pytest.raises(Conflict, match="turn 2"):
            await import_talks(memory, read_talks(file_of(tmp_path, talk("one", "2", "three"))), Aim())
        assert await contents(memory) == ["one", "two"]


async def test_sessions_of_one_name_in_two_files_are_two(tmp_path: Path) -> None:
    async with Memory.open(tmp_path / "m") as memory:
        await import_talks(memory, read_talks(file_of(tmp_path, talk("one"))), Aim())
        await import_talks(memory, read_talks(file_of(tmp_path, talk("uno"))), Aim())
        assert sorted(await contents(memory)) == ["one", "uno"]


async def test_what_was_erased_does_not_come_back(tmp_path: Path) -> None:
    talks = read_talks(file_of(tmp_path, talk("keep the blue kettle", "burn the yellow letter")))
    async with Memory.open(tmp_path / "m") as memory:
        await import_talks(memory, talks, Aim())
        assert (await memory.forget("burn the yellow letter", purge=True)).deleted >= 1
        done = await import_talks(memory, talks, Aim())
        assert done.turns == 0
        assert (await memory.recall("yellow letter")).hits == ()
        assert "burn the yellow letter" not in await contents(memory)


def test_batches_fit_into_a_request(tmp_path: Path) -> None:
    texts = ["ü" * 100_000] * 12 + ["x"] * 500
    (one,) = read_talks(file_of(tmp_path, talk(*texts)))
    batches = list(conversations._batches(one.lines, 3))  # pyright: ignore[reportPrivateUsage]
    assert batches[0][0] == 3
    assert sum(len(lines) for _, lines in batches) == len(texts) - 3
    for start, lines in batches:
        assert lines == one.lines[start : start + len(lines)]
        assert len(lines) <= conversations.BATCH_TURNS
        assert len(json.dumps([line.message() for line in lines], ensure_ascii=False).encode()) < 700_000


async def test_two_imports_at_once_write_each_turn_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversations, "BATCH_TURNS", 7)
    talks = read_talks(EXAMPLE)
    async with Memory.open(tmp_path / "m") as first, Memory.open(tmp_path / "m") as second:
        await asyncio.gather(import_talks(first, talks, Aim()), import_talks(second, talks, Aim()))
        assert sorted(await contents(first)) == sorted(line.kept for one in talks for line in one.lines)
