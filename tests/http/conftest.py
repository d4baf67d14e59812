"""A real server on loopback, in a thread of its own, over a record in memory."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import uvicorn

from keeps.config import Config
from keeps.http.app import create_app
from keeps.services import contexts
from keeps.services.runtime import Runtime, open_runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Where the server is, and the keys of its one context. `rt` belongs to `loop`, that of its thread."""

    endpoint: str
    context: str
    owner_key: str
    agent_key: str
    management_key: str
    rt: Runtime
    loop: asyncio.AbstractEventLoop

    @property
    def base(self) -> str:
        """The address of the context."""
        return f"{self.endpoint}/api/v1/{self.context}"


class _Thread(threading.Thread):
    """Runs a server until it is told to stop."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.ready = threading.Event()
        self.served: Served | None = None
        self.server: uvicorn.Server | None = None
        self.fault: BaseException | None = None

    def run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as fault:
            self.fault = fault
            self.ready.set()
            raise

    async def _serve(self) -> None:
        async with open_runtime(Config()) as rt:
            made = await contexts.bootstrap(rt, "harbour")
            config = uvicorn.Config(
                create_app(rt), host="127.0.0.1", port=0, log_level="critical", http="httptools", ws="none"
            )
            self.server = uvicorn.Server(config)
            running = asyncio.create_task(self.server.serve())
            while not self.server.started:
                await asyncio.sleep(0.01)
            port = self.server.servers[0].sockets[0].getsockname()[1]
            self.served = Served(
                endpoint=f"http://127.0.0.1:{port}",
                context=made.context,
                owner_key=made.owner_key,
                agent_key=made.agent_key,
                management_key=made.management_key,
                rt=rt,
                loop=asyncio.get_running_loop(),
            )
            self.ready.set()
            await running


@pytest.fixture(scope="session")
def served() -> Iterator[Served]:
    thread = _Thread()
    thread.start()
    assert thread.ready.wait(60)
    assert thread.served is not None, thread.fault
    assert thread.server is not None
    yield thread.served
    thread.server.should_exit = True
    thread.join(30)
