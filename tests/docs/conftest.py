"""A desk for each page: a folder of a reader, ended with its server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.examples import ROOT, Desk


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    desk = Desk(tmp_path)
    yield desk
    desk.leave()
