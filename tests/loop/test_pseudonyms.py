"""Names that say nothing of who they are for, and forgetting everything under one in one call."""

from __future__ import annotations

import base64
import hmac
import logging
import re
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keeps.core.errors import Forbidden, Invalid
from keeps.core.scopes import parse_path
from keeps.loop import Pseudonyms, Template
from keeps.memory import Memory

KEY = bytes(range(32))
WHO = Pseudonyms(KEY, context="tutor", issuer="accounts")
DONE = Template("Proved {n:int} lemmas", key="result")


def test_d2_a_name_is_the_keyed_hash_of_context_issuer_and_user() -> None:
    digest = hmac.new(KEY, b"tutor\0accounts\0mara@x.example", sha256).digest()
    expected = base64.b32encode(digest).decode().lower()[:26]
    assert WHO.scope("mara@x.example") == f"user/p1-{expected}"
    assert WHO.entity("mara@x.example") == f"person/p1-{expected}"


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1))
def test_d2_every_user_has_a_scope_that_says_nothing(user: str) -> None:
    scope = WHO.scope(user)
    assert re.fullmatch("user/p1-[a-z2-7]{26}", scope)
    assert parse_path(scope) == scope
    assert WHO.scope(user) == scope


@given(st.text("ab", min_size=1), st.text("ab", min_size=1))
def test_d2_two_people_are_never_one(one: str, other: str) -> None:
    assert (WHO.scope(one) == WHO.scope(other)) is (one == other)


def test_d2_another_key_context_issuer_or_version_makes_another_name() -> None:
    others = [
        Pseudonyms(bytes(32), "tutor", "accounts"),
        Pseudonyms(KEY, "shop", "accounts"),
        Pseudonyms(KEY, "tutor", "school"),
        Pseudonyms(KEY, "tutoracc", "ounts"),
        Pseudonyms(KEY, "tutor", "accounts", "p2"),
    ]
    names = {who.scope("mara") for who in (WHO, *others)}
    assert len(names) == len(others) + 1
    assert others[-1].scope("mara").startswith("user/p2-")


@pytest.mark.parametrize(
    ("key", "context", "issuer", "version"),
    [
        (b"x" * 31, "tutor", "accounts", "p1"),
        (KEY, "", "accounts", "p1"),
        (KEY, "tutor\0a", "ccounts", "p1"),
        (KEY, "tutor", "", "p1"),
        (KEY, "tutor", "accounts", "p0"),
        (KEY, "tutor", "accounts", "v1"),
        (KEY, "tutor", "accounts", "p1/x"),
    ],
)
def test_d2_what_would_make_names_guessable_or_mixed_is_refused(
    key: bytes, context: str, issuer: str, version: str
) -> None:
    with pytest.raises(Invalid):
        Pseudonyms(key, context, issuer, version)


@pytest.mark.parametrize("user", ["", "a\0b", "\ud800"])
def test_d2_a_user_id_is_text(user: str) -> None:
    with pytest.raises(Invalid):
        WHO.scope(user)


def test_d2_nothing_is_said_of_key_or_user(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    WHO.scope("mara@x.example")
    assert caplog.text == ""
    assert KEY.hex() not in repr(WHO)
    assert repr(KEY) not in repr(WHO)


async def test_d2_forget_my_data_is_one_call_and_looks_afterwards(tmp_path: Path) -> None:
    mara, teal = "mara@x.example", "teal@x.example"
    async with Memory.open(tmp_path / "m", saved_key="owner") as memory:
        for user in (mara, teal):
            done = DONE(n=3)
            await memory.remember(triples=[done.triple(WHO.entity(user))], kind=done.kind, scopes=WHO.scope(user))
            await memory.remember("I like proofs by picture.", infer="none", scopes=WHO.scope(user))
        gone = await WHO.forget_me(memory, mara)
        assert (gone.memories, gone.left, gone.verified) == (2, 0, True)
        assert gone.rows >= 2
        lenses = {
            user: await memory.recall("proofs lemmas", lens=WHO.scope(user), min_score=0.0) for user in (mara, teal)
        }
        assert [len(found.hits) for found in lenses.values()] == [0, 2]
        again = await WHO.forget_me(memory, mara)
        assert (again.rows, again.memories, again.verified) == (0, 0, True)


async def test_d2_what_is_still_found_is_not_called_forgotten(tmp_path: Path) -> None:
    class Keeps(Memory):
        """Says that it erased, and did not."""

        async def forget_scope(self, path: str):  # type: ignore[no-untyped-def]
            return await super().forget_scope("user/nobody")

    async with Keeps.open(tmp_path / "m", saved_key="owner") as memory:
        await memory.remember("I like proofs.", infer="none", scopes=WHO.scope("mara"), speaker=WHO.name("mara"))
        gone = await WHO.forget_me(memory, "mara")
        assert not gone.verified


async def test_d2_without_the_grant_nothing_is_forgotten(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    async with Memory.open(folder, saved_key="owner") as memory:
        reading = await memory.keys.create("reading", grants={"memory:read": ["*"]})
    async with Memory.open(folder, key=reading.key) as memory:
        with pytest.raises(Forbidden):
            await WHO.forget_me(memory, "mara")
