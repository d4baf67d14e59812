"""Names of contexts: each is a segment of a path and a folder beside those of the record."""

from __future__ import annotations

import pytest

from keeps.core.contexts import check_context_id
from keeps.core.errors import Unprocessable
from keeps.store.swap import KEPT_ASIDE, NOTE, STAGING


@pytest.mark.parametrize("name", ["default", "Acme", "a.b", "records", "9", "x" * 128])
def test_ordinary_names_are_taken(name: str) -> None:
    check_context_id(name)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "health", "Ledger", "keys.json", NOTE, NOTE.upper(), STAGING, "x" * 129]
)
def test_names_with_a_meaning_are_refused(name: str) -> None:
    with pytest.raises(Unprocessable):
        check_context_id(name)


@pytest.mark.parametrize("piece", sorted(KEPT_ASIDE))
def test_no_context_sits_where_an_older_piece_is_laid_aside(piece: str) -> None:
    for suffix in (".before-restore-20260301T120000Z", ".damaged-20260301T120000Z"):
        with pytest.raises(Unprocessable):
            check_context_id(piece + suffix)
