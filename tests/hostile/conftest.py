"""One server for all hostile inputs; each check takes a context of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hostile.place import Place, serving


@pytest.fixture(scope="session")
def place() -> Iterator[Place]:
    with serving() as place:
        yield place
