"""Backup, restore and what a ledger that lost lines means for a record."""

from __future__ import annotations

from pathlib import Path

import pytest

from keeps.config import Config
from keeps.core.errors import StoreRefused
from keeps.services import contexts
from keeps.services.runtime import LEDGER_FOLDER, open_runtime
from keeps.store.commit import Batch
from keeps.store.erase import note_tombstone
from keeps.store.ledger import FILE_NAME


async def test_a_record_is_not_served_with_a_ledger_that_lost_lines(tmp_path: Path) -> None:
    async with open_runtime(Config(data=tmp_path)) as rt:
        await contexts.bootstrap(rt, "acme")
        context = await rt.context("acme")
        number = rt.ledger.append("acme", "purge", ["turn:gone"], 1)
        batch = Batch(at=rt.clock())
        note_tombstone(batch, number)
        await context.commit(batch)
    (tmp_path / LEDGER_FOLDER / FILE_NAME).unlink()
    async with open_runtime(Config(data=tmp_path)) as rt:
        with pytest.raises(StoreRefused, match=r"ends at number 0, and the record has carried out number 1.*doctor"):
            await rt.context("acme")
