"""Nodes of the tree of scopes: registered, listed within one's region, taken out of use and back."""

from __future__ import annotations

import asyncio

import pytest

from keeps.core.access import Caller
from keeps.core.errors import Forbidden, Invalid, NotFound
from keeps.core.pages import FIRST_PAGE, PageRequest
from keeps.core.scopes import ROOT, parse_path, parse_scopes
from keeps.services import scopes
from keeps.services.remember import Message, Remember, remember
from keeps.services.runtime import Context, Runtime
from keeps.services.scopes import NewScope
from keeps.store.scopes import ScopeNode
from tests.services.conftest import caller
from tests.services.identity import Place


async def register(rt: Runtime, context: Context, who: Caller, path: str, **more: str) -> ScopeNode:
    return await scopes.register(rt, context, who, NewScope(path=parse_path(path), **more))


async def paths(rt: Runtime, context: Context, who: Caller) -> list[str]:
    return [node.path for node in (await scopes.list_page(rt, context, who, FIRST_PAGE)).rows]


async def test_registered_with_all_above(rt: Runtime, context: Context) -> None:
    who = caller()
    made = await register(rt, context, who, "org/acme/hr", display_name=" HR ", description="People\nand such")
    assert (made.path, made.display_name, made.description) == ("org/acme/hr", "HR", "People\nand such")
    assert await paths(rt, context, who) == ["/", "org", "org/acme", "org/acme/hr"]
    assert (await register(rt, context, who, "org")).display_name is None
    top = await register(rt, context, who, "team", display_name="Team")
    assert (top.path, top.display_name) == ("team", "Team")
    assert {"org", "org/acme", "org/acme/hr", "team"} <= context.nodes


async def test_registering_again_changes_nothing_that_is_said(rt: Runtime, context: Context) -> None:
    who = caller()
    first = await register(rt, context, who, "org", description="one")
    again = await register(rt, context, who, "org", display_name="Org", description="two")
    assert (again.display_name, again.description, again.created_at) == ("Org", "one", first.created_at)
    assert await register(rt, context, who, "org") == again
    made = await asyncio.gather(*(register(rt, context, who, "team/a", display_name=f"n{n}") for n in range(8)))
    assert len({node.display_name for node in made}) == 1


async def test_out_of_use_and_back(rt: Runtime, context: Context) -> None:
    who = caller()
    made = await register(rt, context, who, "org/a", display_name="A")
    await scopes.tombstone(rt, context, who, made.path)
    listed = {node.path: node for node in (await scopes.list_page(rt, context, who, FIRST_PAGE)).rows}
    since = listed[made.path].tombstoned_at
    assert since is not None
    await scopes.tombstone(rt, context, who, made.path)
    assert (await scopes.list_page(rt, context, who, FIRST_PAGE)).rows[-1].tombstoned_at == since
    back = await register(rt, context, who, "org/a", display_name="B")
    assert (back.tombstoned_at, back.display_name, back.created_at) == (None, "B", made.created_at)


async def test_who_may(rt: Runtime, context: Context) -> None:
    await register(rt, context, caller(), "org/a/x")
    some = caller("org/a/*")
    assert await paths(rt, context, some) == ["org/a", "org/a/x"]
    await register(rt, context, some, "org/a/y")
    for act in (
        register(rt, context, some, "org/b"),
        register(rt, context, some, "org"),
        scopes.tombstone(rt, context, some, parse_path("org")),
        scopes.tombstone(rt, context, some, parse_path("nowhere")),
        scopes.tombstone(rt, context, caller(), ROOT),
        scopes.register(rt, context, caller(), NewScope(path=ROOT)),
    ):
        with pytest.raises(Forbidden):
            await act
    with pytest.raises(NotFound):
        await scopes.tombstone(rt, context, some, parse_path("org/a/none"))
    with pytest.raises(Invalid):
        await register(rt, context, some, "org/a/z", display_name="x" * 200)


async def test_any_verb_shows_names_but_only_its_own_changes_them(rt: Runtime) -> None:
    place = await Place.of(rt)
    await register(rt, place.context, await place.owner(), "org/a")
    agent = await place.enter(place.made.agent_key)
    assert await paths(rt, place.context, agent) == ["user/owner"]
    with pytest.raises(Forbidden):
        await register(rt, place.context, agent, "user/owner/notes")
    nobody = await place.someone("nobody", None)
    assert await paths(rt, place.context, nobody) == []


async def test_pages(rt: Runtime, context: Context) -> None:
    who = caller()
    for n in range(5):
        await register(rt, context, who, f"t{n}")
    page = await scopes.list_page(rt, context, who, PageRequest(limit=4, count=True))
    assert page.total == 6
    rest = await scopes.list_page(rt, context, who, PageRequest(limit=4, after=page.next))
    assert [node.path for node in (*page.rows, *rest.rows)] == ["/", "t0", "t1", "t2", "t3", "t4"]
    assert rest.next is None


async def test_one_write_adds_so_many_nodes_and_no_more(rt: Runtime, context: Context) -> None:
    async def tell(*paths: str) -> None:
        scope = parse_scopes([[path] for path in paths])
        await remember(rt, context, caller(), Remember(messages=[Message(text="word")], scope=scope))

    deep = [f"top/{n}/" + "/".join("abcdefghijkl") for n in range(20)]
    with pytest.raises(Invalid, match="too many new scopes"):
        await tell(*deep)
    assert await paths(rt, context, caller()) == []
    await tell(*deep[:19])
    assert len(context.nodes) == 1 + 1 + 19 * 13
    # What is there already does not count.
    await tell(*deep)
