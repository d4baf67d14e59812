"""A runtime let go: once, twice, by whoever comes first."""

from __future__ import annotations

import os
from pathlib import Path

from keeps.config import Config
from keeps.services.runtime import open_runtime
from tests.services.test_archive import opened


async def test_closing_again_does_no_harm(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with opened(home) as at:
        await at.say("The pilot boat leaves at six")
        await at.rt.close()
        others = [os.open(tmp_path, os.O_RDONLY) for _ in range(8)]  # take the numbers that were let go
        await at.rt.close()
        # Leaving the block closes once more.
    for other in others:
        os.close(other)
    async with open_runtime(Config(data=home)) as rt:
        assert rt.ledger.verify() == 0
        await rt.context("acme")
