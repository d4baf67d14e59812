"""Contexts: made whole, refused by name, configured, removed with all they hold."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from keeps.config import Config
from keeps.core.access import PrincipalKind, Verb, grants_to_wire
from keeps.core.errors import (
    Conflict,
    Invalid,
    NotFound,
    NotImplementedYet,
    StoreRefused,
    Unauthenticated,
    Unavailable,
    Unprocessable,
)
from keeps.core.policy import Preset
from keeps.services import access, contexts
from keeps.services.contexts import ContextChange, NewContext
from keeps.services.runtime import Runtime, open_runtime
from keeps.store import meta as store_meta
from keeps.store import principals as store_principals
from keeps.store import secrets as store_secrets
from tests.services.conftest import HandClock


async def test_bootstrap_makes_three_keys_that_work(rt: Runtime) -> None:
    made = await contexts.bootstrap(rt, "acme")
    owner = (await access.authenticate(rt, "acme", made.owner_key, None)).caller
    agent = (await access.authenticate(rt, "acme", made.agent_key, None)).caller
    assert owner.kind is PrincipalKind.HUMAN
    assert owner.home == agent.home == "user/owner"
    assert grants_to_wire(owner.effective()) == {str(verb): ["/*"] for verb in Verb}
    assert agent.kind is PrincipalKind.AGENT
    assert grants_to_wire(agent.effective()) == {
        "memory:read": ["user/owner/*"],
        "memory:write": ["user/owner/*"],
        "memory:forget": ["user/owner/*"],
    }
    assert (await access.authenticate_management(rt, made.management_key)).key_id
    assert len({made.management_key, made.owner_key, made.agent_key}) == 3


async def test_bootstrap_seeds_the_reserved_principals(rt: Runtime) -> None:
    await contexts.bootstrap(rt, "acme")
    context = await rt.context("acme")
    held = {stored.principal.id: stored.principal for stored in await store_principals.list_all(context.db)}
    assert set(held) == {"system", "admin", "owner", "agent"}
    assert not held[access.SYSTEM].grants
    assert grants_to_wire(held[access.ADMIN].grants) == {str(verb): ["/*"] for verb in Verb}
    assert {"/", "user", "user/owner"} <= context.nodes


async def test_no_secret_is_stored(rt: Runtime) -> None:
    made = await contexts.bootstrap(rt, "acme")
    context = await rt.context("acme")
    rows = repr(await context.db.run("SELECT * FROM api_key; SELECT * FROM change;"))
    rows += repr(await rt.control.run("SELECT * FROM management_key; SELECT * FROM change;"))
    for key in (made.management_key, made.owner_key, made.agent_key):
        assert key.rsplit("-", 1)[1] not in rows
        assert key not in repr(made)


async def test_keys_beside_the_folder_are_private(rt: Runtime) -> None:
    made = await contexts.bootstrap(rt, "acme")
    kept = store_secrets.saved_keys(rt.folder, "acme")
    assert kept == {"owner": made.owner_key, "agent": made.agent_key}
    assert stat.S_IMODE((rt.folder / "keys.json").stat().st_mode) == 0o600
    assert made.management_key not in (rt.folder / "keys.json").read_text()


async def test_bootstrap_of_an_existing_context_is_refused_and_changes_nothing(rt: Runtime) -> None:
    made = await contexts.bootstrap(rt, "acme")
    with pytest.raises(Conflict):
        await contexts.bootstrap(rt, "acme")
    with pytest.raises(Conflict):
        await contexts.create(rt, NewContext(id="ACME"))
    await access.authenticate(rt, "acme", made.owner_key, None)
    assert store_secrets.saved_keys(rt.folder, "acme")["owner"] == made.owner_key


async def test_parallel_bootstraps_make_one_context(rt: Runtime) -> None:
    results = await asyncio.gather(
        *(contexts.bootstrap(rt, name) for name in ("acme", "Acme", "ACME", "acme")), return_exceptions=True
    )
    made = [one for one in results if isinstance(one, contexts.Bootstrapped)]
    assert len(made) == 1
    assert sum(isinstance(one, Conflict) for one in results) == 3
    await access.authenticate(rt, made[0].context, made[0].owner_key, None)


async def test_a_policy_there_is_not_is_refused(rt: Runtime) -> None:
    with pytest.raises(Invalid, match="deliberate"):
        await contexts.bootstrap(rt, "acme", policy="whatever")
    assert await contexts.list_all(rt) == []
    await contexts.bootstrap(rt, "acme", policy="operational")
    assert (await contexts.get(rt, "acme")).config["policy"] == "operational"
    assert (await rt.context("acme")).consent.settings.policy is Preset.OPERATIONAL


REFUSED_IDS = (
    "", ".", "..", "-a", "_a", "a b", "a/b", "a\n", "ä", "x" * 129,
    "record", "ledger", "Watermark", "PEPPER", "lock", "keys.json", "owner.json",
    "health", "contexts", "verbs", "migrations",
)  # fmt: skip


async def test_ids_with_a_meaning_of_their_own_are_refused(rt: Runtime) -> None:
    for name in REFUSED_IDS:
        with pytest.raises(Unprocessable):
            await contexts.create(rt, NewContext(id=name))
        with pytest.raises(Unprocessable):
            await contexts.bootstrap(rt, name)
    assert await contexts.list_all(rt) == []


async def test_ids_of_every_form_work(rt: Runtime) -> None:
    for name in ("a", "A.b_c-d", "x" * 128, "0", "records"):
        made = await contexts.bootstrap(rt, name)
        await access.authenticate(rt, name, made.owner_key, None)


async def test_configuration_is_merged_and_holds_at_once(rt: Runtime) -> None:
    made = await contexts.create(rt, NewContext(id="acme", config={"response_cache": {"enabled": False}}))
    assert made.config["allow_self_service_keys"] is True
    assert made.config["providers_configured"] == []
    opened = await rt.context("acme")
    change = ContextChange(
        description="ours",
        config={"response_cache": {"similarity_threshold": 0.5}, "allow_self_service_keys": False},
        enforcement_blocked=True,
    )
    changed = await contexts.patch(rt, "acme", change)
    assert changed.config["response_cache"] == {"enabled": False, "similarity_threshold": 0.5}
    assert (changed.description, changed.enforcement_blocked) == ("ours", True)
    assert opened.config["allow_self_service_keys"] is False
    assert opened.enforcement_blocked
    assert await contexts.get(rt, "acme") == changed == (await contexts.list_all(rt))[0]
    back = await contexts.patch(rt, "acme", ContextChange(config={"allow_self_service_keys": None}))
    assert back.config["allow_self_service_keys"] is True
    assert back.description == "ours"


async def test_bad_configuration_is_refused(rt: Runtime) -> None:
    bad: list[tuple[dict[str, object], type[Exception]]] = [
        ({"max_token_ttl_seconds": 0}, Invalid),
        ({"max_token_ttl_seconds": True}, Invalid),
        ({"reconciliation": {"confidence_floor": 1.5}}, Invalid),
        ({"reconciliation": 7}, Invalid),
        ({"allow_self_service_keys": "yes"}, Invalid),
        ({"models": {"embedding": "openai/other"}}, Invalid),
        ({"policy": "lenient"}, Invalid),
        ({"policy": ["automatic"]}, Invalid),
        ({"note": "x" * 70_000}, Invalid),
        ({"providers": {"openai": {"api_key": "s"}}}, NotImplementedYet),
    ]
    await contexts.create(rt, NewContext(id="acme"))
    for config, error in bad:
        with pytest.raises(error):
            await contexts.create(rt, NewContext(id="other", config=config))
        with pytest.raises(error):
            await contexts.patch(rt, "acme", ContextChange(config=config))
    assert [row.id for row in await contexts.list_all(rt)] == ["acme"]


async def test_reserved_namespace_and_admin_name(rt: Runtime) -> None:
    with pytest.raises(Unprocessable):
        await contexts.create(rt, NewContext(id="acme", namespace="spectron"))
    with pytest.raises(Conflict):
        await contexts.create(rt, NewContext(id="acme", admin_display_name="system"))
    made = await contexts.create(
        rt, NewContext(id="acme", namespace="ours", admin_external_id="x1", admin_display_name="Root")
    )
    assert made.namespace == "ours"
    context = await rt.context("acme")
    found = await store_principals.find_external(context.db, "x1")
    assert found is not None
    assert (found.principal.id, found.principal.display_name) == ("admin", "Root")


async def test_unknown_context(rt: Runtime) -> None:
    for act in (
        contexts.get(rt, "none"),
        contexts.patch(rt, "none", ContextChange()),
        contexts.delete(rt, "none"),
        contexts.reissue(rt, "none"),
    ):
        with pytest.raises(NotFound):
            await act


async def test_deleted_context_is_gone_and_its_name_free(rt: Runtime) -> None:
    made = await contexts.bootstrap(rt, "acme")
    await rt.context("acme")
    await contexts.delete(rt, "acme")
    with pytest.raises(Unauthenticated):
        await access.authenticate(rt, "acme", made.owner_key, None)
    assert await contexts.list_all(rt) == []
    assert store_secrets.saved_keys(rt.folder, "acme") == {}
    assert not (rt.folder / "acme").exists()
    again = await contexts.bootstrap(rt, "acme")
    with pytest.raises(Unauthenticated):
        await access.authenticate(rt, "acme", made.owner_key, None)
    await access.authenticate(rt, "acme", again.owner_key, None)


async def test_what_was_erased_in_an_earlier_context_of_the_name_does_not_touch_the_new_one(rt: Runtime) -> None:
    await contexts.bootstrap(rt, "acme")
    rt.ledger.append("acme", "purge", ["turn:t1"], 1)
    await contexts.delete(rt, "acme")
    await contexts.bootstrap(rt, "acme")
    opened = await rt.context("acme")
    assert await store_meta.applied_tombstone(opened.db) == rt.ledger.head[0] == 2


async def test_a_deletion_is_in_the_ledger_first_and_names_nobody(rt: Runtime) -> None:
    await contexts.bootstrap(rt, "acme")
    uid = (await rt.context("acme")).uid
    await contexts.delete(rt, "acme")
    (line,) = rt.ledger.since("acme", 0)
    assert (line.kind, len(line.ids)) == ("context", 1)
    assert uid not in line.ids[0]  # whoever had it could guess the names in other lines


@pytest.mark.parametrize("point", ["registry", "rows"])
async def test_a_deletion_cut_short_is_completed_at_the_next_start(
    tmp_path: Path, clock: HandClock, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    async def broken(*args: object) -> None:
        del args
        raise Unavailable("out of room")

    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    async with open_runtime(Config(data=data), clock=clock) as rt:
        await contexts.bootstrap(rt, "acme")
        await contexts.bootstrap(rt, "other")
        await rt.context("acme")
        with monkeypatch.context() as patched:
            patched.setattr(Runtime, "commit_control" if point == "registry" else "clear", broken)
            with pytest.raises(Unavailable):
                await contexts.delete(rt, "acme")
        with pytest.raises(NotFound):
            await rt.context("acme")
    async with open_runtime(Config(data=data), clock=clock) as rt:
        assert [row.id for row in await contexts.list_all(rt)] == ["other"]
        await contexts.bootstrap(rt, "acme")
    async with open_runtime(Config(data=data), clock=clock) as rt:
        assert [row.id for row in await contexts.list_all(rt)] == ["acme", "other"]
        await rt.context("acme")


async def test_nothing_is_removed_when_the_ledger_cannot_be_written(
    rt: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object) -> int:
        del args
        raise Unavailable("out of room")

    await contexts.bootstrap(rt, "acme")
    with monkeypatch.context() as patched:
        patched.setattr(rt.ledger, "append", full)
        with pytest.raises(Unavailable):
            await contexts.delete(rt, "acme")
    await rt.context("acme")


async def test_reissue_revokes_all_keys(rt: Runtime) -> None:
    made = await contexts.bootstrap(rt, "acme")
    await access.authenticate(rt, "acme", made.owner_key, None)
    fresh = await contexts.reissue(rt, "acme")
    for old in (made.owner_key, made.agent_key):
        with pytest.raises(Unauthenticated):
            await access.authenticate(rt, "acme", old, None)
    assert (await access.authenticate(rt, "acme", fresh.owner_key, None)).caller.principal_id == "owner"
    assert (await access.authenticate(rt, "acme", fresh.agent_key, None)).caller.principal_id == "agent"
    assert store_secrets.saved_keys(rt.folder, "acme") == {"owner": fresh.owner_key, "agent": fresh.agent_key}


async def test_reissue_of_management_keys(rt: Runtime) -> None:
    made = await contexts.bootstrap(rt, "acme")
    fresh = await contexts.reissue_management(rt)
    with pytest.raises(Unauthenticated):
        await access.authenticate_management(rt, made.management_key)
    assert (await access.authenticate_management(rt, fresh)).key_id


@pytest_asyncio.fixture
async def data(tmp_path: Path) -> AsyncIterator[Path]:
    yield tmp_path / "data"


async def test_keys_survive_a_restart_and_die_with_their_pepper(data: Path, clock: HandClock) -> None:
    config = Config(data=data)
    async with open_runtime(config, clock=clock) as rt:
        made = await contexts.bootstrap(rt, "acme")
    async with open_runtime(config, clock=clock) as rt:
        await access.authenticate(rt, "acme", made.owner_key, None)
    pepper = (data / "pepper").read_bytes()
    (data / "pepper").unlink()
    for wrong in ("missing", "not the one"):
        with pytest.raises(StoreRefused, match=f"{wrong}.*Put the file back.*keeps restore.*--accept-loss"):
            async with open_runtime(config, clock=clock):
                pass
        assert (data / "pepper").exists() == (wrong != "missing")  # none is made silently
        (data / "pepper").write_bytes(b"another")
    (data / "pepper").write_bytes(pepper)
    async with open_runtime(config, clock=clock) as rt:
        await access.authenticate(rt, "acme", made.owner_key, None)
    (data / "pepper").unlink()
    async with open_runtime(config, clock=clock, any_pepper=True) as rt:
        with pytest.raises(Unauthenticated):
            await access.authenticate(rt, "acme", made.owner_key, None)
        fresh = await contexts.reissue(rt, "acme")
        await access.authenticate(rt, "acme", fresh.owner_key, None)
        await contexts.delete(rt, "acme")
        assert not (data / "acme").exists()
        assert (data / "ledger").exists()
