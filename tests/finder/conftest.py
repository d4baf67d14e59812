from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from keeps.finder.local import LocalFinder
from tests.finder.making import stream


@pytest.fixture
async def finder(tmp_path: Path) -> AsyncIterator[LocalFinder]:
    """An empty, usable finder."""
    finder = await LocalFinder.open(tmp_path / "finder", "context-1")
    await finder.rebuild("context-1", stream(), 0)
    yield finder
    await finder.close()
