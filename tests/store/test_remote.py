"""The seam to a server: the same answers and errors as the embedded engine, over a real socket to a double."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime

import pytest

from keeps.core.errors import Invalid, StaleHead, StoreRefused, Unavailable
from keeps.store.address import parse_store_url
from keeps.store.db import Db, Duplicate, Engine, RecordID, ScriptRejected, Thrown, open_engine
from keeps.store.migrate import migrate
from keeps.store.remote import RemoteEngine
from tests.store.server_double import PASSWORD, USER, ServerDouble, server_double


@pytest.fixture
async def server() -> AsyncIterator[ServerDouble]:
    async with server_double() as double:
        yield double


@pytest.fixture
async def engine(server: ServerDouble) -> AsyncIterator[Engine]:
    engine = await open_engine(server.url, namespace="team", user=USER, password=PASSWORD)
    yield engine
    await engine.close()


@pytest.fixture
async def db(engine: Engine) -> Db:
    db = await engine.database("context_a")
    await db.run("DEFINE TABLE IF NOT EXISTS t")
    return db


async def test_values_and_errors_are_those_of_the_embedded_engine(db: Db, engine: Engine) -> None:
    at, id_ = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC), RecordID("t", ["a", 1])
    assert (await db.run("CREATE $id SET at = $at, none = $none", id=id_, at=at, none=None))[0] == [
        {"id": id_, "at": at}
    ]
    assert type((await db.run("SELECT VALUE at FROM t"))[0][0]) is datetime
    with pytest.raises(Duplicate):
        await db.run("CREATE $id", id=id_)
    with pytest.raises(StaleHead):
        await db.run("BEGIN; THROW 'stale-head'; COMMIT;")
    with pytest.raises(Thrown, match="other"):
        await db.run("BEGIN; THROW 'other'; COMMIT;")
    with pytest.raises(ScriptRejected, match="Parse error"):
        await db.run("SELECT FROM WHERE")
    for value in ("\ud800", 2**63):
        with pytest.raises(Invalid):
            await db.run("RETURN $v", v=value)
    with pytest.raises(ScriptRejected, match="encode"):
        await db.run("RETURN $v", v=object())
    before = engine.commits
    assert (await db.run("BEGIN; CREATE t:1; RETURN 5; COMMIT;"))[-2] == 5
    assert engine.commits == before + 1


async def test_the_shipped_schema_applies(engine: Engine) -> None:
    assert await migrate(await engine.database("control"), "control") >= 1


async def test_every_database_keeps_a_connection_of_its_own(server: ServerDouble, engine: Engine) -> None:
    names = ["control", "context_a", "context_b"]
    dbs = [await engine.database(name) for name in names]
    for number, db in enumerate(dbs):
        await db.run("DEFINE TABLE t; CREATE t:1 SET n = $n", n=number)
    found = await asyncio.gather(*[db.run("SELECT VALUE n FROM t") for db in dbs for _ in range(5)])
    assert [result[0] for result in found] == [[n] for n in range(3) for _ in range(5)]
    assert server.connections == 3
    assert sorted(server.used) == sorted(("team", name) for name in names)


async def test_a_lost_connection_is_made_again_signed_in_and_on_its_database(server: ServerDouble, db: Db) -> None:
    await db.run("CREATE t:1")
    await server.drop_connections()
    with suppress(Unavailable):  # when the loss is noticed only while asking
        await db.run("RETURN 1")
    assert (await db.run("SELECT VALUE id FROM t"))[0] == [RecordID("t", 1)]
    assert server.used == [("team", "context_a")] * 2
    assert len(server.sign_ins) == 2


async def test_a_silent_server_is_given_up_in_time(server: ServerDouble, db: Db) -> None:
    server.silent = True
    with pytest.raises(Unavailable, match="does not answer"):
        await asyncio.wait_for(db.run("RETURN 1", timeout_s=0.1), 3)
    server.silent = False
    assert await db.run("RETURN 1") == [1]


async def test_lost_races_are_run_again_and_given_up_in_the_end(server: ServerDouble, db: Db) -> None:
    lost = "Transaction conflict: Write conflict. This transaction can be retried"
    server.fail_next = [lost] * 3
    assert await db.run("RETURN 1") == [1]
    server.fail_next = [lost] * 20
    with pytest.raises(Unavailable, match="Too many writers") as given_up:
        await db.run("RETURN 1")
    assert given_up.value.retry_after_s == 1
    assert len(server.fail_next) == 12
    with pytest.raises(Unavailable, match="Too many writers"):
        await db.run("CREATE t:1; CREATE t:2;")
    assert len(server.fail_next) == 11
    server.fail_next = [lost]
    await db.run("\n  BEGIN; CREATE t:1; CREATE t:2; COMMIT;")


@pytest.mark.parametrize("level", [{}, {"namespace": "team"}, {"namespace": "team", "database": "context_a"}])
async def test_a_user_of_any_level_is_signed_in(level: dict[str, str]) -> None:
    async with server_double(level) as server:
        engine = await open_engine(server.url, namespace="team", user=USER, password=PASSWORD)
        assert await (await engine.database("context_a")).run("RETURN 1") == [1]
        await engine.close()


async def test_wrong_credentials_are_refused_and_appear_nowhere(
    server: ServerDouble, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    engine = await open_engine(server.url, user=USER, password="wrong secret")
    with pytest.raises(StoreRefused, match="user and password") as refused:
        await engine.database("control")
    assert server.connections == 0 or await settled(server)
    await engine.close()
    for text in (caplog.text, str(refused.value), repr(engine), repr(refused.value.__context__)):
        assert "wrong secret" not in text
    assert "unencrypted" in caplog.text


async def settled(server: ServerDouble) -> bool:
    """True once the server has seen the client's goodbye."""
    for _ in range(200):
        if server.connections == 0:
            return True
        await asyncio.sleep(0.005)
    return False


async def test_no_server_is_unavailable(unused_tcp_port: int) -> None:
    engine = await open_engine(f"ws://127.0.0.1:{unused_tcp_port}")
    with pytest.raises(Unavailable):
        await engine.database("control")
    await engine.close()


async def test_after_close_calls_are_refused(engine: Engine, db: Db, server: ServerDouble) -> None:
    await engine.close()
    with pytest.raises(Unavailable, match="closed"):
        await db.run("RETURN 1")
    assert await settled(server)


async def test_a_removed_database_lets_its_connection_go(engine: Engine, db: Db, server: ServerDouble) -> None:
    await engine.remove_database("context_a")
    assert await settled(server)


def test_tls_is_the_scheme() -> None:
    engine = RemoteEngine(parse_store_url("wss://db.example.org"), namespace="team")
    assert engine.commits == 0
    with pytest.raises(Invalid):
        RemoteEngine(parse_store_url("wss://db.example.org"), namespace="../team")
