"""`keeps export`: complete, readable again, written a page at a time; no memory can forge a heading, link or image."""

from __future__ import annotations

import asyncio
import json
import re
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keeps.cli import export as module
from keeps.cli.export import _line
from keeps.cli.reach import Reach
from keeps.client import Client
from keeps.config import Config
from keeps.core.errors import Unavailable
from keeps.memory import Memory
from keeps.wire.pages import PageMeta
from keeps.wire.sessions import SessionListOut, SessionOut, TurnListOut, TurnOut
from tests.cli.conftest import Desk

WHEN = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
FORGED = [
    "# Heading",
    "text\n# Heading",
    "text\n\nHeading\n======",
    "![pixel](https://evil.example/p.png)",
    "[click](https://evil.example)",
    "<img src=x onerror=alert(1)>",
    "- item",
    "1. item",
    "--- ",
    "~~~\ncode",
    "```\ncode",
    "a &lt;b&gt; `c` $x$ | d",
    "\u2028# Heading",
]


async def fill(folder: Path) -> None:
    async with Memory.open(folder, saved_key="owner", config=Config(embedder="none")) as memory:
        mara = {"type": "person", "name": "Mara"}
        for role, at in (("deckhand", "2026-03-01T00:00:00Z"), ("pilot", "2026-04-01T00:00:00Z")):
            await memory.remember(
                f"Mara is a {role}",
                triples=[{"entity": mara, "key": "role", "value": role}],
                scopes="team/north",
                labels=["source=chat"],
                observed_at=at,
                metadata={"page": 3},
            )
        await memory.remember("said\u2028so", infer="none", scopes=[["team/north", "team/south"]], labels=["a=b"])


@pytest.mark.slow
def test_everything_there_is_to_know_of_a_row_is_written_and_read_again(tmp_path: Path) -> None:
    folder, file = tmp_path / "memory", tmp_path / "all"
    asyncio.run(fill(folder))
    desk = Desk(folder=folder, env={"KEEPS_EMBEDDER": "none"})
    lines = [json.loads(line) for line in desk("export").out.splitlines()]
    document = json.loads(desk("export", "--format", "json").out)
    assert document["format"] == "keeps-export"
    assert document["records"] == lines

    old, new = sorted((r for r in lines if r["record"] == "fact"), key=lambda r: r["createdAt"])
    assert (old["value"], new["value"]) == ("deckhand", "pilot")
    assert (old["supersededBy"], new["supersedes"]) == (new["id"], old["id"])
    assert old["validUntil"]
    for fact in (old, new):
        assert fact["source"]["ref"].startswith("turn:")
        assert fact["scope"] == [["team/north/"]]
        assert fact["labels"] == ["source=chat"]
        assert fact["status"]
        assert fact["origin"]
        assert fact["kind"]
        assert fact["metadata"] == {"page": 3}
    turns = {r["id"]: r for r in lines if r["record"] == "turn"}
    assert turns[new["source"]["ref"].removeprefix("turn:")]["content"]
    said = next(r for r in turns.values() if r["content"].startswith("said"))
    assert said["scope"] == [["team/north/", "team/south/"]]
    assert said["labels"] == ["a=b"]
    assert said["status"] == "confirmed"
    assert {r["session"] for r in turns.values()} == {r["id"] for r in lines if r["record"] == "session"}

    desk("export", str(file), "--format", "json")
    assert file.stat().st_mode & 0o777 == 0o600
    assert json.loads(file.read_text("utf-8")) == document


@pytest.mark.slow
def test_an_empty_memory_is_one_document_too(alone: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(memory: Client) -> AsyncIterator[Any]:
        for entry in ():
            yield entry

    alone.env["KEEPS_EMBEDDER"] = "none"
    alone("remember", "x")
    monkeypatch.setattr(module, "everything", nothing)
    assert json.loads(alone("export", "--format", "json").out)["records"] == []


@pytest.mark.slow
def test_a_file_is_replaced_whole_or_not_at_all(alone: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone.env["KEEPS_EMBEDDER"] = "none"
    alone("remember", "the plover is shy")
    file = tmp_path / "all.jsonl"
    file.write_text("before")
    assert "there already" in alone("export", str(file), code=1).err

    async def cut_off(memory: Client) -> AsyncIterator[Any]:
        raise Unavailable("cut off")
        yield

    with monkeypatch.context() as patched:
        patched.setattr(module, "everything", cut_off)
        alone("export", str(file), "--force", code=4)
    assert file.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    alone("export", str(file), "--force")
    assert "plover" in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", FORGED)
def test_what_a_memory_says_forges_nothing(text: str) -> None:
    shown = _line(text)
    assert "\n" not in shown
    bare = re.sub(r"\\.", "", shown)
    assert not re.search(r"[\[\]<>`*_#|~!&]", bare)
    assert not re.match(r"(\d+[.)]|[-+=]|#)", shown)


@given(st.text(alphabet=st.sampled_from(list("#-+=*_[]()!<>`~&|$\\ \n\r\u2028x1.)")), max_size=30))
def test_no_text_forges_anything(text: str) -> None:
    shown = _line(text)
    assert len(shown.splitlines()) <= 1
    assert not re.search(r"[\[\]<>`*_#|~!&$]", re.sub(r"\\.", "", shown))
    assert not re.match(r"(\d+[.)]|[-+=])", shown)


PAGES, TURNS = 200, 500


def many(pages: list[weakref.ref[Any]]) -> Any:
    """A memory with a session of 100,000 turns, which keeps watch over the pages it gave."""

    async def sessions(*, limit: int, cursor: str | None) -> SessionListOut:
        session = SessionOut(id="s", scopes=[["a"]], created_at=WHEN)
        return SessionListOut(sessions=[session], page=PageMeta(has_more=False))

    async def turns(session: str, *, limit: int, cursor: str | None) -> TurnListOut:
        page = int(cursor or 0)
        said = [
            TurnOut.model_construct(id=f"t{n}", session="s", role="user", content="x" * 200, seq=n, created_at=WHEN)
            for n in range(TURNS)
        ]
        more = page + 1 < PAGES
        meta = PageMeta(has_more=more, next_cursor=str(page + 1) if more else None)
        made = TurnListOut.model_construct(turns=said, page=meta)
        assert sum(given() is not None for given in pages) <= 2
        pages.append(weakref.ref(made))
        return made

    async def nothing(*, limit: int, cursor: str | None) -> Any:
        return SimpleNamespace(scopes=(), entities=(), relations=(), actions=(), page=None)

    return SimpleNamespace(
        scopes=SimpleNamespace(list=nothing),
        entities=nothing,
        relations=nothing,
        actions=nothing,
        sessions=SimpleNamespace(list=sessions, turns=turns),
    )


@pytest.mark.slow
def test_a_hundred_thousand_rows_pass_through_a_page_at_a_time(
    alone: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages: list[weakref.ref[Any]] = []

    @asynccontextmanager
    async def opened(reach: Reach, *, creates: bool = False) -> AsyncIterator[Any]:
        yield many(pages)

    monkeypatch.setattr(Reach, "opened", opened)
    file = tmp_path / "all.jsonl"
    alone("export", str(file))
    with file.open() as lines:
        assert sum(1 for _ in lines) == PAGES * TURNS + 1
    assert len(pages) == PAGES
