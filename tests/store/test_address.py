"""Addresses: whatever the engine would misread without a word is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from keeps.core.errors import Invalid
from keeps.store.address import folder_url, parse_store_url


@pytest.mark.parametrize(
    "text",
    [
        "mem://",
        "surrealkv:///a/b",
        "surrealkv:///a b/ü%20#x",
        "surrealkv:///a?sync=every",
        "surrealkv:///a?sync=never",
        "surrealkv:///a?sync=500ms",
        "ws://localhost:8000",
        "wss://db.example.org",
    ],
)
def test_an_address_is_read_and_written(text: str) -> None:
    assert str(parse_store_url(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "memory",
        "mem://path",
        "mem:///tmp/x?aol=never",
        "mem://?sync=never",
        "surrealkv://relative/path",
        "surrealkv://",
        "surrealkv:///a?sync=bogus",
        "surrealkv:///a?sync=0s",
        "surrealkv:///a?sync=",
        "surrealkv:///a?",
        "surrealkv:///a?sync=every&versioned=true",
        "surrealkv:///a?versioned=true",
        "surrealkv:///a?b/c",
        "surrealkv:///a\0b",
        "surrealkv+versioned:///a",
        "file:///a",
        "rocksdb:///a",
        "tikv://host",
        "http://host",
        "ws://",
        "ws:///",
        "ws://user:password@host",
        "wss://host?x=1",
    ],
)
def test_what_the_engine_would_misread_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        parse_store_url(text)


def test_a_folder_becomes_an_absolute_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert str(folder_url(Path("a b"))) == f"surrealkv://{tmp_path}/a b"
    assert str(folder_url(Path("x"), sync="never")) == f"surrealkv://{tmp_path}/x?sync=never"
    assert str(folder_url(Path("x")).within("control")) == f"surrealkv://{tmp_path}/x/control"
    with pytest.raises(Invalid, match="question mark"):
        folder_url(Path("what?"))
