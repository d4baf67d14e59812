"""Windows keep secrets: whatever is said, labelled, shared and erased, a word is found only by those who may see
the turn it was said in, and not at all once that turn is gone."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keeps.core.access import Verb
from keeps.core.scopes import parse_scopes
from keeps.core.sessions import RENDERED, Turn, may_share_window
from keeps.core.triples import parse_triples
from keeps.services import index
from keeps.services.erase import Forget, delete_session, forget, forget_scope
from keeps.services.remember import Infer, Message, Remember, remember
from keeps.services.runtime import Context, Runtime
from keeps.store import sessions as store_sessions
from tests.services.conftest import caller

SCOPES = ("user/al", "user/bo", [["user/al"], ["user/bo"]], [["user/al", "team/x"]], [["user/al"], ["team/x"]])
READERS = (("user/al",), ("user/bo",), ("team/x",), ("user/al", "team/x"), ("/*",))
LABELS = ((), ("private",))

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Said:
    scope: int
    labels: int
    rendered: bool


@dataclass(frozen=True)
class Erased:
    """`turn`: which one; `by`: index of the reader who erases; `whole`: the scope `user/al`, or the session."""

    turn: int
    by: int
    purge: bool
    whole: str


said = st.builds(
    Said,
    scope=st.integers(0, len(SCOPES) - 1),
    labels=st.integers(0, 1),
    rendered=st.sampled_from([False] * 4 + [True]),
)
erased = st.builds(
    Erased,
    turn=st.integers(0, 7),
    by=st.integers(0, len(READERS) - 1),
    purge=st.booleans(),
    whole=st.sampled_from(["one"] * 6 + ["scope", "session"]),
)


def a_word(number: int) -> str:
    """A word unlike any other, of letters alone, that no stemmer shortens."""
    return "canary" + "".join("bcdfghjkmp"[int(digit)] for digit in str(number)) + "x"


class Place:
    """A runtime and a context, with a name short enough for a report."""

    def __init__(self, rt: Runtime, context: Context) -> None:
        self.rt = rt
        self.context = context


@pytest_asyncio.fixture
async def place(rt: Runtime, context: Context) -> Place:
    return Place(rt, context)


class Story:
    """One session, said and partly erased; every turn holds a word of its own."""

    def __init__(self, place: Place) -> None:
        self._rt = place.rt
        self._context = place.context
        self.session = ""
        self.turns: list[tuple[str, str]] = []

    async def say(self, what: Said) -> None:
        word = a_word(next(_numbers))
        text = f"{word} was said"
        triples = parse_triples(
            [{"entity": {"type": "person", "name": "Al"}, "key": f"note_{word}", "value": text}],
            anchor=self._rt.clock(),
        )
        request = Remember(
            infer=Infer.TRIPLES if what.rendered else Infer.NONE,
            triples=triples if what.rendered else (),
            messages=() if what.rendered else [Message(text=text, speaker="Al")],
            scope=parse_scopes(SCOPES[what.scope]),
            labels=LABELS[what.labels],
            session=self.session or None,
        )
        done = await remember(self._rt, self._context, caller(), request)
        self.session = done.session
        self.turns.append((done.turns[0], word))

    async def erase(self, what: Erased) -> None:
        if what.whole == "scope":
            await forget_scope(self._rt, self._context, caller(), "user/al")
        elif what.whole == "session":
            found = await store_sessions.find_session(
                self._context.db, self._context.sets, self.session, self._context.sets.everything()
            )
            if found is not None:
                await delete_session(self._rt, self._context, caller(), self.session)
        elif self.turns:
            turn, _ = self.turns[what.turn % len(self.turns)]
            order = Forget(ids=(f"turn:{turn}",), purge=what.purge)
            await forget(self._rt, self._context, caller(*READERS[what.by]), order)

    async def check(self) -> None:
        """Every word, for every reader, against the rule and the record."""
        everything = self._context.sets.everything()
        ids = [turn for turn, _ in self.turns]
        turns = await store_sessions.turns_by_id(self._context.db, self._context.sets, ids, everything)
        for place, (key, word) in enumerate(self.turns):
            mine = turns.get(key)
            later = turns.get(ids[place + 1]) if place + 1 < len(ids) else None
            for reader in READERS:
                region = caller(*reader).region(Verb.MEMORY_READ)
                readable = self._context.sets.readable(region)
                hits = await self._context.finder.find(word, readable, kinds={"passage"}, limit=50)
                found = {hit.ref for hit in hits}
                assert found == expected(mine, later, readable), (word, reader)


def expected(mine: Turn | None, later: Turn | None, readable: frozenset[str]) -> set[str]:
    """Which passages a word of `mine` may find; rendered turns have none of their own."""
    if mine is None or not mine.active or mine.scope.id not in readable:
        return set()
    found = set() if RENDERED in mine.flags else {f"turn:{mine.id}"}
    if later is not None and RENDERED not in later.flags and may_share_window(mine, later) and "canary" in mine.content:
        found.add(f"turn:{later.id}")
    return found


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(story=st.lists(said, min_size=2, max_size=7), gone=st.lists(erased, min_size=1, max_size=4))
async def test_a_word_is_found_by_those_alone_who_may_see_it(
    place: Place, story: list[Said], gone: list[Erased]
) -> None:
    told = Story(place)
    for what in story:
        await told.say(what)
    await told.check()
    for what in gone:
        await told.erase(what)
    await told.check()
    await index.rebuild(place.context.indexed)
    await told.check()
