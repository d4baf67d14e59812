"""After any mix of writes and erasures the record is whole: chains, entities, edges, and an index equal to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keeps.core.scopes import parse_scopes
from keeps.core.triples import parse_triples
from keeps.finder.base import Only
from keeps.services import index
from keeps.services.erase import Forget, delete_entity, forget, forget_scope
from keeps.services.remember import Infer, Message, Remember, remember
from keeps.services.runtime import Context, Runtime
from keeps.store.rows import entity_id, key_of, stored_ref
from tests.services.conftest import caller
from tests.services.embedding import check_vectors, embed

SCOPES = ("user/al", "user/bo", [["user/al"], ["user/bo"]], [["user/al", "team/x"]], [["user/al"], ["team/x"]])
CALLERS = ("user/al", "user/bo", "/*")
PEOPLE = ("Ann", "Ben")
KEYS = ("role", "likes", "city")
VALUES = ("pilot", "cook", "Lyon")
WORDS = (*PEOPLE, *KEYS, *VALUES, "person/ann", "Ann knows Ben", "we wait for the pilot")


@dataclass(frozen=True)
class Told:
    kind: str
    scope: int
    who: int
    key: int
    value: int


@dataclass(frozen=True)
class Gone:
    verb: str
    by: int
    words: int
    purge: bool


told = st.builds(
    Told,
    kind=st.sampled_from(["fact", "fact", "fact", "relation", "action", "turn", "entity"]),
    scope=st.integers(0, len(SCOPES) - 1),
    who=st.integers(0, 1),
    key=st.integers(0, 2),
    value=st.integers(0, 2),
)
gone = st.builds(
    Gone,
    verb=st.sampled_from(["forget"] * 5 + ["entity", "scope"]),
    by=st.integers(0, len(CALLERS) - 1),
    words=st.integers(0, len(WORDS) - 1),
    purge=st.booleans(),
)


class Place:
    """A runtime and a context, with a name short enough for a report."""

    def __init__(self, rt: Runtime, context: Context) -> None:
        self.rt = rt
        self.context = context
        self.alone: set[str] = set()
        """Entities of which it was only said that they exist."""

    async def tell(self, what: Told) -> None:
        scope, who = parse_scopes(SCOPES[what.scope]), {"type": "person", "name": PEOPLE[what.who]}
        other = {"type": "person", "name": PEOPLE[1 - what.who]}
        entry: dict[str, Any] = {
            "fact": {"key": KEYS[what.key], "value": VALUES[what.value]},
            "relation": {"key": "knows", "target": other},
            "action": {"verb": "met", "object": other["name"]},
            "turn": {},
            "entity": {},
        }[what.kind]
        if what.kind == "entity":
            self.alone.add(f"person/{PEOPLE[what.who].lower()}")
        if what.kind == "turn":
            request = Remember(messages=[Message(text="We wait for the pilot", speaker="Ann")], scope=scope)
        else:
            triples = parse_triples([{"entity": who} | entry], anchor=self.rt.clock())
            request = Remember(infer=Infer.TRIPLES, triples=triples, scope=scope)
        await remember(self.rt, self.context, caller(), request)
        await embed(self.context)

    async def lose(self, what: Gone) -> None:
        who = caller(CALLERS[what.by])
        if what.verb == "scope":
            await forget_scope(self.rt, self.context, caller(), "user/al")
        elif what.verb == "entity":
            ref = stored_ref("person/ann")
            known = {(row["ref"], row.get("forgotten_at")) for row in await self.rows("entity")}
            if (str(ref), None) in known:
                await delete_entity(self.rt, self.context, caller(), ref)
        else:
            order = {"query": WORDS[what.words], "purge": what.purge}
            told = await forget(self.rt, self.context, who, Forget(dry_run=True, **order))  # type: ignore[arg-type]
            done = await forget(self.rt, self.context, who, Forget(**order))  # type: ignore[arg-type]
            assert (told.rows, told.memories, told.released) == (done.rows, done.memories, done.released)
            assert set(told.refs) == set(done.refs)
            again = await forget(self.rt, self.context, who, Forget(dry_run=True, **order))  # type: ignore[arg-type]
            assert again.rows == 0 or done.remaining

    async def rows(self, table: str) -> list[dict[str, Any]]:
        return (await self.context.db.run("SELECT * FROM type::table($table);", table=table))[0]

    async def check(self) -> None:
        facts = await self.rows("attribute")
        await self._check_chains(facts)
        rows = facts + await self.rows("relates_to") + await self.rows("action")
        await self._check_entities(rows)
        for edge in await self.rows("relates_to"):
            scope = self.context.sets[edge["scope_set"]]
            assert (edge["in"], edge["out"]) == tuple(
                entity_id(stored_ref(edge[end]), scope) for end in ("subject", "object")
            )
        await check_vectors(self.context)
        before = await self._index()
        await index.rebuild(self.context.indexed)
        assert await self._index() == before
        await check_vectors(self.context)

    async def _check_chains(self, facts: list[dict[str, Any]]) -> None:
        by_id = {key_of(row["id"]): row for row in facts}
        seen: set[str] = set()
        for chain in await self.rows("chain"):
            members = [key_of(member) for member in chain["members"]]
            assert chain.get("head") is None or chain["head"] in members
            for member in members:
                row = by_id[member]
                place = [row["entity"], row["chain"], row["scope_set"], row["pillar"]]
                assert list(chain["id"].id) == place
                assert row["status"] == "confirmed"
            assert all(by_id[member].get("superseded_by") is None for member in members)
            seen |= set(members)
        live = {key for key, row in by_id.items() if row["status"] == "confirmed" and row.get("forgotten_at") is None}
        assert live == seen

    async def _check_entities(self, rows: list[dict[str, Any]]) -> None:
        wanted = {
            (row[name], row["scope_set"])
            for row in rows
            if row.get("forgotten_at") is None
            for name in ("entity", "subject", "object", "actor")
            if row.get(name)
        }
        shown = {(e["ref"], e["scope_set"]) for e in await self.rows("entity") if e.get("forgotten_at") is None}
        assert wanted <= shown
        assert {ref for ref, _ in shown - wanted} <= self.alone
        for scope_set in self.context.sets.everything():
            named = await self.context.finder.names_in("ann and ben", [scope_set])
            assert {name.entity for name in named} == {ref for ref, known_in in shown if known_in == scope_set}

    async def _index(self) -> dict[str, object]:
        found: dict[str, object] = {}
        for scope_set in sorted(self.context.sets.everything()):
            for words in WORDS:
                hits = await self.context.finder.find(words, [scope_set], only=Only(live=False))
                live = await self.context.finder.find(words, [scope_set])
                found[f"{scope_set} {words}"] = ({h.ref for h in hits}, {h.ref for h in live})
            names = await self.context.finder.names_in("ann and ben", [scope_set])
            found[f"{scope_set} names"] = {(name.entity, name.name) for name in names}
        return found


@pytest_asyncio.fixture
async def place(rt: Runtime, context: Context) -> Place:
    return Place(rt, context)


@pytest.mark.slow
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(told, told, gone), min_size=4, max_size=16))
async def test_the_record_stays_whole(place: Place, story: list[Told | Gone]) -> None:
    # What an example that failed left behind would fail all that follow.
    await forget_scope(place.rt, place.context, caller(), "/")
    place.alone.clear()
    for what in story:
        await (place.tell(what) if isinstance(what, Told) else place.lose(what))
    await place.check()
    await forget_scope(place.rt, place.context, caller(), "/")
    await place.check()
    content = ("attribute", "relates_to", "action", "turn", "session", "entity", "chain")
    for table in (*content, "memory_chunk", "follows", "vector"):
        assert await place.rows(table) == [], table


@pytest.mark.parametrize("way", ["followed", "caught up", "rebuilt"])
async def test_an_entity_without_facts_is_found_by_name(
    place: Place, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    async def behind(*_: object) -> None:
        """As when the process died between the commit and the index."""

    with monkeypatch.context() as patched:
        if way == "caught up":
            patched.setattr(index, "follow", behind)
        await place.tell(Told(kind="entity", scope=0, who=0, key=0, value=0))
    if way == "caught up":
        await index.catch_up(place.context.indexed)
    elif way == "rebuilt":
        await index.rebuild(place.context.indexed)
    names = await place.context.finder.names_in("where is ann?", place.context.sets.everything())
    assert [name.entity for name in names] == ["person/ann"]
