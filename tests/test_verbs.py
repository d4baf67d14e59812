"""Every verb of the client against the real application: each arrives, and comes back as what it says."""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from keeps.client import Client
from keeps.client.governing import Audit, Controls, Settings
from keeps.client.nouns import Keys, Memories, Noun, Principals, Runs, Scopes, Sessions, Traces
from keeps.core.errors import Forbidden, IllegalTransition, NotFound, StaleRevision, Unauthenticated
from keeps.memory import Memory

NOUNS: dict[str, type[Noun]] = {
    "sessions": Sessions,
    "scopes": Scopes,
    "principals": Principals,
    "keys": Keys,
    "traces": Traces,
    "runs": Runs,
    "settings": Settings,
    "controls": Controls,
    "audit": Audit,
    "memories": Memories,
}


def fact(name: str, key: str, value: str) -> dict[str, object]:
    return {"entity": {"type": "person", "name": name}, "key": key, "value": value}


def relation(name: str, label: str, other: str) -> dict[str, object]:
    return {
        "entity": {"type": "person", "name": name},
        "key": label,
        "target": {"type": "organisation", "name": other},
    }


class Heard:
    """A memory that notes which verbs were called."""

    def __init__(self, memory: Client) -> None:
        self.memory = memory
        self.called: set[str] = set()

    async def __call__(self, verb: str, *args: Any, **options: Any) -> Any:
        self.called.add(verb)
        target: Any = self.memory
        for part in verb.split("."):
            target = getattr(target, part)
        return await target(*args, **options)


@pytest_asyncio.fixture
async def heard(tmp_path: Path) -> AsyncIterator[Heard]:
    async with Memory.open(tmp_path / "m", saved_key="owner") as memory:
        yield Heard(memory)


def every_verb() -> set[str]:
    verbs = {name for name, _ in inspect.getmembers(Client, inspect.iscoroutinefunction) if name[0] != "_"}
    for noun, kind in NOUNS.items():
        verbs |= {
            f"{noun}.{name}" for name, _ in inspect.getmembers(kind, inspect.iscoroutinefunction) if name[0] != "_"
        }
    return verbs - {"close"}


async def test_every_noun_is_known_here() -> None:
    async with Client() as client:
        assert {name: type(noun) for name, noun in vars(client).items() if isinstance(noun, Noun)} == NOUNS


def test_every_verb_is_on_the_page_and_none_besides() -> None:
    page = (Path(__file__).resolve().parents[1] / "docs" / "reference" / "library.md").read_text("utf-8")
    rows = page.partition("## Verbs")[2].partition("\n## ")[0].splitlines()
    shown = [name for row in rows if row.startswith("| `") for name in re.findall(r"`([\w.]+)`", row.split("|")[1])]
    assert sorted(shown) == sorted(every_verb() | {"close"})


async def test_every_verb(heard: Heard) -> None:
    await _writing_and_asking(heard)
    await _looking(heard)
    await _traces(heard)
    await _runs(heard)
    await _inbox(heard)
    await _memories(heard)
    await _sessions(heard)
    await _scopes(heard)
    await _principals_and_keys(heard)
    await _governing(heard)
    await _forgetting(heard)
    assert every_verb() - heard.called == set()


async def _writing_and_asking(heard: Heard) -> None:
    assert (await heard("health")).status == "ok"
    assert (await heard("whoami")).display_name == "Owner"
    said = await heard("remember", "The lighthouse is striped", infer="none", speaker="Mara", labels=["a=1"])
    assert (await heard("inspect", f"turn:{said.turn_id}")).turn.speaker == "Mara"
    done = await heard("remember_many", [{"content": "one"}, {"content": "two", "role": "assistant"}], infer="none")
    assert len(done.turn_ids) == 2
    triples = [fact("Mara", "role", "pilot"), relation("Mara", "works_at", "North Port")]
    action = {"entity": {"type": "person", "name": "Mara"}, "verb": "docked", "object": "MV Teal"}
    await heard("remember", triples=[*triples, action], observed_at="2026-03-01T00:00:00Z", category="knowledge")
    found = await heard("recall", "striped lighthouse", k=1, labels=["a=1"], include=["passages"], mode="bm25")
    assert [hit.speaker for hit in found.hits] == ["Mara"]
    assert "Mara's role is pilot." in str(await heard("context", "role", subject="person/mara"))


async def _looking(heard: Heard) -> None:
    people = await heard("entities", "person", count=True)
    assert (people.entities[0].name, people.page.total_size) == ("Mara", 1)
    assert (await heard("find_entities", "mara")).matches[0].entity.id == "entity:person/mara"
    mara = await heard("entity", "person/Mara", as_of="2026-04-01T00:00:00Z")
    assert [row.value for row in mara.attributes] == ["pilot"]
    assert [row.value for row in (await heard("history", "person/mara", "role")).history] == ["pilot"]
    assert [near.label for near in (await heard("neighbours", "person/mara")).neighbours] == ["works_at"]
    assert [row.key for row in (await heard("facts", entity="person/mara")).attributes] == ["role"]
    assert [row.label for row in (await heard("relations")).relations] == ["works_at"]
    assert [row.verb for row in (await heard("actions")).actions] == ["docked"]
    assert (await heard("index")).mode == "hybrid"
    assert (await heard("switch_index", mode="durable")).mode == "durable"


async def _traces(heard: Heard) -> None:
    found = await heard("recall", "What is Mara's role?")
    trace = await heard("traces.get", found.trace.trace_id)
    assert trace.id == found.trace.trace_id
    assert trace.id in [row.id for row in (await heard("traces.list", limit=10)).traces]
    assert (await heard("traces.stats", window_hours=1)).total_queries > 0


async def _runs(heard: Heard) -> None:
    session = await heard("sessions.create")
    run = await heard("runs.open", session=session.id)
    told = await heard("remember", triples=[fact("Mara", "hobby", "sailing")], run=run.id)
    ref = f"attribute:{told.extraction.attributes[0].id}"
    block = await heard("context", "What is Mara's hobby?", run=run.id)
    assert (block.run_id, ref in block.context) == (run.id, True)
    done = await heard("runs.cite", run.id, [ref, "attribute:made-up"])
    assert (done.kept, done.dropped, done.reason) == ((ref,), 1, "not_offered")
    assert [used.id for used in done.memories_used.cited] == [ref]
    assert (await heard("runs.outcome", run.id, "helped")).outcome == "helped"
    calls = [{"name": "search", "ok": True, "ms": 41}]
    closed = await heard("runs.close", run.id, tool_calls=calls, cost={"usd": 0.01}, tokens=700, latency_ms=900)
    assert (closed.end_reason, closed.tool_calls[0].name, closed.cost) == ("answered", "search", {"usd": 0.01})
    found = await heard("runs.get", run.id)
    assert [each.id for each in found.memories if each.cited] == [ref]
    assert run.id in [each.id for each in (await heard("runs.list", memory=ref, limit=5)).runs]
    assert [each.id for each in (await heard("runs.list", session=session.id)).runs] == [run.id]


async def _memories(heard: Heard) -> None:
    memory = heard.memory
    saved = await heard("memories.save", "Keeps bees", kind="fact", slot="town", idempotency_key="bees")
    assert (saved.status, saved.origin, saved.rev) == ("confirmed", "user_saved", 1)
    assert (await heard("memories.get", saved.id)).text == "Keeps bees"
    assert saved.id in [each.id for each in (await heard("memories.list", q="bees", limit=5)).memories]
    muted = await heard("memories.edit", saved.id, rev=1, muted=True, expires_at="2099-01-01T00:00:00Z")
    assert (muted.rev, muted.muted) == (2, True)
    changed = await heard("memories.edit", saved.id, rev=2, text="Keeps hens", lasts=True)
    versions = (await heard("memories.history", changed.id)).versions
    assert [each.text for each in versions] == ["Keeps hens", "Keeps bees"]
    assert (await heard("memories.retire", changed.id)).status == "expired"
    assert (await heard("memories.renew", changed.id)).status == "confirmed"
    assert (await heard("memories.delete", changed.id)).undo_until is not None
    assert (await heard("memories.undo", changed.id)).text == "Keeps hens"
    for move in ("confirm", "reject", "release"):
        with pytest.raises(IllegalTransition):
            await heard(f"memories.{move}", changed.id)
    with pytest.raises(Forbidden):
        await heard("memories.withdraw", changed.id)
    with pytest.raises(StaleRevision):
        await memory.memories.edit(changed.id, rev=99, muted=True)


async def _inbox(heard: Heard) -> None:
    said = await heard("remember", "The mole was quiet. I mend nets on Fridays.", infer="none")
    kept = await heard("promote", turn=said.turn_id, text="I mend nets on Fridays.", idempotency_key="p1")
    assert (
        await heard("promote", turn=said.turn_id, text="I mend nets on Fridays.", idempotency_key="p1")
    ).id == kept.id
    assert (kept.kind, kept.source.start) == ("note", len("The mole was quiet. "))
    waiting = await heard("inbox", limit=5, count=True)
    assert (waiting.items, waiting.page.total_size) == ([], 0)
    done = await heard("decide", [{"id": "z" * 20, "decision": "keep"}])
    assert [each.error for each in done.decided] == ["not-found"]
    assert (await heard("reconsider", dry_run=True)).moved == 0


async def _sessions(heard: Heard) -> None:
    made = await heard("sessions.create", metadata={"a": 1}, idempotency_key="s1")
    assert (await heard("sessions.create", metadata={"a": 1}, idempotency_key="s1")).id == made.id
    await heard("remember", "The anchor is rusty", infer="none", session=made.id)
    assert (await heard("sessions.get", made.id)).turn_count == 1
    assert made.id in [row.id for row in (await heard("sessions.list", limit=50)).sessions]
    assert [row.content for row in (await heard("sessions.turns", made.id)).turns] == ["The anchor is rusty"]
    assert "The anchor is rusty" in await heard("sessions.context", made.id, "anchor")
    await heard("sessions.delete", made.id)
    with pytest.raises(NotFound):
        await heard("sessions.get", made.id)


async def _scopes(heard: Heard) -> None:
    assert (await heard("scopes.register", "org/east", description="the east")).path == "org/east/"
    await heard("remember", "The east is windy", infer="none", scopes="org/east")
    assert (await heard("recall", "windy", lens="org/*")).hits
    assert "org/east/" in [node.path for node in (await heard("scopes.list")).scopes]
    assert (await heard("forget_scope", "org/east")).forgotten > 0
    assert (await heard("recall", "windy")).hits == ()
    await heard("scopes.forget", "org/east")
    await heard("scopes.delete", "org/east")


async def _principals_and_keys(heard: Heard) -> None:
    bot = await heard("principals.create", "Bot", kind="agent", grants={"memory:read": ["org/*"]})
    assert (await heard("principals.get", bot.id)).display_name == "Bot"
    assert bot.id in [row.id for row in (await heard("principals.list")).principals]
    assert (await heard("principals.change", bot.id, trusted_writer=True)).trusted_writer
    granted = await heard("principals.grant", bot.id, "org/*", ["memory:write"])
    assert "memory:write" in granted.grants
    assert (await heard("principals.effective", bot.id, "org/east")).verbs == ["memory:read", "memory:write"]
    assert "memory:write" not in (await heard("principals.revoke", bot.id, "org/*", ["memory:write"])).grants
    made = await heard("keys.create", "reader", grants={"memory:read": ["/*"]}, strict=True, ttl_s=60)
    assert made.valid_until is not None
    async with Client(heard.memory.endpoint, key=made.key) as reader:
        assert (await reader.recall("pilot")).hits
        with pytest.raises(Forbidden):
            await reader.remember("no", infer="none")
    assert "reader" in [key.name for key in (await heard("keys.list")).keys]
    assert (await heard("keys.rotate", "reader", ttl_s=60)).key != made.key
    await heard("keys.delete", "reader")
    async with Client(heard.memory.endpoint, key=made.key) as reader:
        with pytest.raises(Unauthenticated):
            await reader.whoami()


async def _governing(heard: Heard) -> None:
    version = (await heard("settings.get")).settings_version
    change = {"retrieval_limit": 5, "proposal_ttl": 7}
    shown = await heard("settings.patch", change, version=version, dry_run=True)
    assert (shown.applied, shown.after["budget.max_memories"]) == (False, 5)
    done = await heard("settings.patch", change, version=version, reason="fewer")
    assert done.settings_version == version + 1
    back = await heard("settings.patch", {"retrieval_limit": None}, version=version + 1)
    assert back.before == {"budget.max_memories": 5}
    with pytest.raises(StaleRevision):
        await heard("settings.patch", change, version=version)
    reverted = await heard("settings.revert", version, version=version + 2, reason="as it was")
    assert reverted.applied
    assert [row.version for row in (await heard("settings.history", limit=1)).versions] == [version + 3]
    await heard("settings.kill", "no_write", reason="trying it")
    assert (await heard("settings.kill", "none")).before == {"kill": "no_write"}
    told = await heard("settings.tell_agent", "agent", "Be brief.")
    assert (await heard("settings.agent", "agent")).current.text == told.text
    await heard("settings.untell_agent", "agent")
    paused = await heard("controls.set_pauses", [{"using": True}], rev=(await heard("controls.pauses")).rev)
    rules = await heard("controls.set_rules", rev=paused.rev, blocked=["my back"], history=True)
    assert (await heard("controls.rules")).blocked == ["my back"]
    apps = await heard("controls.set_apps", {"agent": {"suggest": False}}, rev=rules.rev)
    assert [(app.name, app.suggest) for app in (await heard("controls.apps")).apps] == [("Agent", False)]
    apps = await heard("controls.set_apps", {}, rev=apps.rev)
    await heard("controls.set_pauses", [], rev=apps.rev)
    assert (await heard("audit.list", action="setting.kill", limit=5)).entries[0].action == "setting.kill"
    assert (await heard("audit.verify")).ok


async def _forgetting(heard: Heard) -> None:
    assert (await heard("forget", "The lighthouse is striped", dry_run=True)).deleted >= 1
    assert (await heard("forget", "The lighthouse is striped", purge=True)).deleted >= 1
    assert (await heard("recall", "striped")).hits == ()
    await heard("delete_entity", "person/mara")
    with pytest.raises(NotFound):
        await heard("entity", "person/mara")
