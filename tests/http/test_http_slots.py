"""Places among running requests are given back whatever becomes of a request."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Message, Receive, Scope

from keeps.core.errors import Unavailable
from keeps.http.routes import health
from keeps.http.shell import HEALTH_PATH
from keeps.http.slots import Slot, Slots

WHOLE: Message = {"type": "http.request", "body": b"{}", "more_body": False}
PART: Message = {"type": "http.request", "body": b"{", "more_body": True}
LEFT: Message = {"type": "http.disconnect"}


def scope(key: str) -> Scope:
    return {"type": "http", "headers": [(b"authorization", key.encode())]}


def giving(*messages: Message) -> Receive:
    left = list(messages)

    async def receive() -> Message:
        return left.pop(0)

    return receive


async def never() -> Message:
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


async def test_all_places_taken_is_said() -> None:
    slots = Slots(2)
    one, _ = Slot(slots, scope("a"), giving()), Slot(slots, scope("a"), giving())
    with pytest.raises(Unavailable):
        Slot(slots, scope("b"), giving())
    one.close()
    one.close()
    Slot(slots, scope("b"), giving())
    assert slots.running == 2


async def test_a_place_is_free_while_the_body_is_awaited_and_taken_again_after() -> None:
    slots = Slots(1)
    slot = Slot(slots, scope("a"), giving(PART, WHOLE, LEFT))
    await slot.receive()
    assert (slots.running, slots.sending) == (0, {b"a": 1})
    other = Slot(slots, scope("b"), giving())
    with pytest.raises(Unavailable):
        await slot.receive()
    other.close()
    assert (slots.running, slots.sending) == (0, {})
    slot.close()
    assert slots.running == 0


async def test_one_key_does_not_keep_others_from_sending() -> None:
    slots = Slots(8)
    for _ in range(2):
        await Slot(slots, scope("a"), giving(PART)).receive()
    third = Slot(slots, scope("a"), giving(PART))
    with pytest.raises(Unavailable, match="this key"):
        await third.receive()
    third.close()
    await Slot(slots, scope("b"), giving(PART)).receive()
    assert slots.running == 0


async def test_waiting_that_is_broken_off_gives_all_back() -> None:
    slots = Slots(4)
    slot = Slot(slots, scope("a"), never)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await slot.receive()
    slot.close()
    assert (slots.running, slots.sending) == (0, {})


@given(
    limit=st.integers(1, 6),
    bodies=st.lists(st.lists(st.sampled_from([PART, WHOLE, LEFT]), max_size=4), max_size=12),
    order=st.lists(st.integers(0, 11), max_size=60),
)
def test_nothing_is_lost_in_any_order(limit: int, bodies: Sequence[Sequence[Message]], order: Sequence[int]) -> None:
    async def run() -> None:
        slots = Slots(limit)
        open_: dict[int, tuple[Slot, int]] = {}
        for number in order:
            if number >= len(bodies):
                continue
            try:
                if number not in open_:
                    open_[number] = (Slot(slots, scope(str(number % 2)), giving(*bodies[number])), len(bodies[number]))
                    continue
                slot, left = open_[number]
                if left:
                    open_[number] = (slot, left - 1)
                    await slot.receive()
                else:
                    slot.close()
                    del open_[number]
            except Unavailable:
                if number in open_:
                    open_.pop(number)[0].close()
            assert 0 <= slots.running <= limit
            assert all(0 < count <= slots.most_sending for count in slots.sending.values())
        for slot, _ in open_.values():
            slot.close()
        assert (slots.running, slots.sending) == (0, {})

    asyncio.run(run())


def test_what_is_exempt_is_the_route_of_health() -> None:
    assert [route.path for route in health.router.routes] == [HEALTH_PATH]  # pyright: ignore[reportAttributeAccessIssue]
