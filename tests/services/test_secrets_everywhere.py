"""A secret is refused wherever it may be written, and what says of a matter is seen wherever it stands."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from keeps.core.controls import Controls
from keeps.core.entities import entity_ref
from keeps.core.errors import SecretRefused
from keeps.core.facts import Fact
from keeps.core.policy import Drop
from keeps.core.scopes import ScopePath
from keeps.services import candidates, erase, memories, settings
from keeps.services.memories import Edit, Save
from keeps.services.settings import Change
from tests.services.governing import House, house
from tests.services.saying import action, fact, relation, say

# Put together here, so that no scanner takes this file for a leak.
GH = "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"
AWS = "AKIA" + "Q3EGRRTTZZ55QQ7X"
WORD = "hunter2Xq"


@pytest.fixture
async def at(rt: Any) -> House:
    return await house(rt)


@pytest.mark.parametrize(
    "triple",
    [
        fact(GH, "x"),
        fact(AWS, "x"),
        fact(GH, "word " * 150),
        fact("password", WORD + "!" * 600),
        relation(GH, "Harbour"),
        action(GH, "boat"),
        fact("note_" + GH, "nothing"),
    ],
    ids=lambda triple: str(next(iter(set(triple) - {"entity"}))),
)
async def test_m4_a_key_a_label_or_a_verb_that_is_a_secret_is_refused(at: House, triple: dict[str, Any]) -> None:
    with pytest.raises(SecretRefused) as refused:
        await say(at.rt, at.context, at.owner, triple, scopes="user/owner")
    assert GH not in refused.value.message


async def test_m4_the_slot_of_a_memory_is_screened(at: House) -> None:
    with pytest.raises(SecretRefused):
        await memories.save(at.rt, at.context, at.owner, Save(kind="note", text="Plain words", slot=GH))


@pytest.mark.parametrize(
    "metadata",
    [
        {GH: {"a": 1}},
        {AWS: True},
        {"a": [{AWS: None}]},
        {"x": {"4111111111111111": False}},
        {"password": {"value": WORD}},
        {"Password": [{"deep": {"deeper": [WORD]}}]},
        {"pin": {"is": 4821}},
        {"card": 4111111111111111},
    ],
)
async def test_m4_keys_of_metadata_are_screened_and_say_what_lies_below_them(
    at: House, metadata: dict[str, Any]
) -> None:
    with pytest.raises(SecretRefused, match="metadata"):
        await say(at.rt, at.context, at.owner, fact("likes", "rye"), scopes="user/owner", metadata=metadata)


async def test_plain_metadata_passes(at: House) -> None:
    plain = {"password_policy": {"chars": 12, "rotated": True}, "page": {"number": 4821}, "key": {"of": "C major"}}
    await say(at.rt, at.context, at.owner, fact("likes", "rye"), scopes="user/owner", metadata=plain)


@pytest.mark.parametrize(
    "change",
    [{"webhook_url": f"https://hooks.example/x?k={GH}"}, {"webhook_url": f"https://hooks.example/ghp%5F{GH[4:]}"}],
)
async def test_m4_a_setting_holds_no_secret(at: House, change: dict[str, Any]) -> None:
    version = at.context.consent.settings.version
    with pytest.raises(SecretRefused):
        await settings.patch(at.rt, at.context, at.owner, Change(document=change, expected=version))
    with pytest.raises(SecretRefused):
        await settings.manage(at.rt, at.context, at.owner, change)
    again = Change(document={"policy": "deliberate"}, expected=version, reason=f"because {GH}")
    with pytest.raises(SecretRefused):
        await settings.patch(at.rt, at.context, at.owner, again)
    assert at.context.consent.settings.version == version


async def test_m5_an_edit_in_other_letters_is_screened_too(at: House) -> None:
    saved = await memories.save(at.rt, at.context, at.owner, Save(kind="note", text=f"{AWS.lower()} is a word"))
    assert saved.memory is not None
    kept = saved.memory
    with pytest.raises(SecretRefused):
        await memories.edit(at.rt, at.context, at.owner, kept.id, Edit(text=f"{AWS} is a word"))
    row = (await memories.get(at.rt, at.context, at.owner, kept.id)).row
    assert isinstance(row, Fact)
    assert row.value == f"{AWS.lower()} is a word"


BLOCKED = "nothing about my harvest"


@pytest.mark.parametrize(
    ("triple", "more"),
    [
        (fact("harvest", "final " * 120), {}),
        (fact("note_harvest", "it is final"), {}),
        (fact("note_x", "my h\u0430rvest is in"), {}),
        (relation("harvest_from", "Ben", to_type="person"), {}),
        (fact("state", "final"), {"labels": ("topic=harvest",)}),
        (fact("state", "final"), {"metadata": {"x": ["harvest"]}}),
        (fact("state", "final"), {"metadata": {"harvest": True}}),
    ],
)
async def test_m6_what_a_person_blocked_is_looked_for_in_keys_labels_and_metadata(
    at: House, triple: dict[str, Any], more: dict[str, Any]
) -> None:
    at.context.consent.controls[ScopePath("user/owner")] = Controls(blocked=(BLOCKED,))
    done = await say(at.rt, at.context, at.agent, triple, scopes="user/owner", **more)
    assert done.extraction is not None
    assert [each.why for each in done.extraction.dropped] == [Drop.TOPIC_BLOCKED]


@pytest.mark.parametrize("more", [{"labels": ("topic=divorce",)}, {"metadata": {"divorce": True}}])
async def test_m6_a_label_makes_a_memory_sensitive(at: House, more: dict[str, Any]) -> None:
    done = await say(at.rt, at.context, at.owner, fact("state", "final"), scopes="user/owner", **more)
    assert done.extraction is not None
    assert done.extraction.facts[0].control.topics == {"family"}


async def test_h5_a_write_of_many_texts_is_screened_beside_the_loop(at: House, monkeypatch: pytest.MonkeyPatch) -> None:
    beside: list[int] = []
    to_thread = asyncio.to_thread

    async def counted(act: Any, *given: Any, **more: Any) -> Any:
        if act is candidates._screen:  # pyright: ignore[reportPrivateUsage]
            beside.append(len(given[0]))
        return await to_thread(act, *given, **more)

    monkeypatch.setattr(asyncio, "to_thread", counted)
    await say(at.rt, at.context, at.owner, fact("likes", "rye"), scopes="user/owner")
    assert beside == []
    many = [fact(f"k{number}", "e" * 700 + "é") for number in range(30)]
    await say(at.rt, at.context, at.owner, *many, scopes="user/owner")
    assert beside == [30]


async def test_m9_what_a_person_deleted_with_an_entity_is_not_learned_again(at: House) -> None:
    boat = fact("owner", "the man from the town", name="Anna", type_="place")
    await say(at.rt, at.context, at.owner, boat, scopes="user/owner")
    await erase.delete_entity(at.rt, at.context, at.owner, entity_ref("place", "Anna"))
    again = await say(at.rt, at.context, at.agent, boat, scopes="user/owner")
    assert again.extraction is not None
    assert [each.why for each in again.extraction.dropped] == [Drop.SUPPRESSED]
