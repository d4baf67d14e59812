"""A long write is read in a thread of its own; a short one is not worth it."""

from __future__ import annotations

import threading
from typing import Any

import httpx
import pytest

from keeps.client import Client
from keeps.config import Config
from keeps.core.errors import Unprocessable
from keeps.http.app import create_app
from keeps.http.routes.facts import AT_ONCE
from keeps.services import contexts
from keeps.services.runtime import open_runtime
from keeps.wire import facts


def triples(count: int) -> list[dict[str, Any]]:
    return [
        {"entity": {"type": "person", "name": f"Žofie {number}"}, "key": "schlüssel", "value": f"Straße {number}"}
        for number in range(count)
    ]


async def test_many_triples_are_read_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    readers: list[bool] = []

    def parse(*given: Any, parse: Any = facts.parse_triples, **how: Any) -> Any:
        readers.append(threading.current_thread() is threading.main_thread())
        return parse(*given, **how)

    monkeypatch.setattr(facts, "parse_triples", parse)
    async with open_runtime(Config(embedder="none")) as rt:
        made = await contexts.bootstrap(rt, "harbour")
        transport = httpx.ASGITransport(create_app(rt))
        async with Client(key=made.owner_key, context="harbour", transport=transport) as client:
            done = await client.remember(triples=triples(AT_ONCE))
            assert done.extraction is not None
            assert len(done.extraction.attributes) == AT_ONCE
            done = await client.remember(triples=triples(AT_ONCE + 1))
            assert done.extraction is not None
            assert readers == [True, False]
            bad = [*triples(AT_ONCE), {"entity": {"type": "person", "name": ""}, "key": "k", "value": "v"}]
            with pytest.raises(Unprocessable, match=rf"triples\[{AT_ONCE}\]"):
                await client.remember(triples=bad)
