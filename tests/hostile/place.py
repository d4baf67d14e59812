"""A real server on loopback, and people with keys to harm it with."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx
import uvicorn
from fastapi import FastAPI

from keeps.config import Config
from keeps.core.access import Verb
from keeps.http.app import create_app
from keeps.http.routes import mcp
from keeps.owning import speaking
from keeps.services import contexts
from keeps.services.runtime import Runtime, open_runtime

R = TypeVar("R")

MEMORY_VERBS = (Verb.MEMORY_READ, Verb.MEMORY_WRITE, Verb.MEMORY_FORGET)
PROBLEM_MEMBERS = {"type", "title", "status", "detail", "instance", "message", "retry_after"}


@dataclass(frozen=True, slots=True)
class Someone:
    """Whoever holds a key, in one context."""

    http: httpx.Client
    context: str
    key: str

    def send(self, method: str, path: str, *, headers: dict[str, str] | None = None, **kw: Any) -> httpx.Response:
        """The reply to one request below the context."""
        auth = {"Authorization": f"Bearer {self.key}"}
        return self.http.request(method, f"/api/v1/{self.context}{path}", headers=auth | (headers or {}), **kw)

    def get(self, path: str, /, **params: str) -> httpx.Response:
        return self.send("GET", path, params=params or None)

    def post(self, path: str, body: object = None, **kw: Any) -> httpx.Response:
        return self.send("POST", path, json=body, **kw)

    def post_bytes(self, path: str, body: bytes) -> httpx.Response:
        """The reply to a body written by hand."""
        return self.send("POST", path, content=body, headers={"Content-Type": "application/json"})

    def save(self, text: str, **more: Any) -> httpx.Response:
        """Keep a text as it is."""
        return self.post("/facts", {"text": text, "infer": "none", **more})

    def save_once(self, text: str, key: dict[str, str]) -> httpx.Response:
        """The same under an idempotency key."""
        return self.post("/facts", {"text": text, "infer": "none"}, headers=key)

    def state(self, key: str, value: str, name: str = "Mara", **more: Any) -> httpx.Response:
        """Write a value of a key of a person."""
        triple = {"entity": {"type": "person", "name": name}, "key": key, "value": value, **more.pop("triple", {})}
        return self.post("/facts", {"infer": "triples", "triples": [triple], **more})

    def ask(self, query: str, **more: Any) -> list[dict[str, Any]]:
        """What is found."""
        reply = self.post("/query", {"query": query, "k": 50, **more})
        assert reply.status_code == 200, reply.text
        return reply.json()["hits"]

    def texts(self, query: str, **more: Any) -> set[str]:
        """The texts of what is found."""
        return {hit["text"] for hit in self.ask(query, **more)}

    def everything(self) -> tuple[int, int]:
        """How many facts and turns can be seen; every list must answer, whatever was tried before."""
        facts = self.get("/attributes", limit="500")
        sessions = self.get("/sessions", limit="500")
        assert facts.status_code == sessions.status_code == 200
        assert self.get("/entities").status_code == self.get("/scopes").status_code == 200
        return len(facts.json()["attributes"]), sum(session["turnCount"] for session in sessions.json()["sessions"])


class Harbour:
    """One fresh context with an owner and an agent."""

    def __init__(self, place: Place, made: contexts.Bootstrapped) -> None:
        self.place = place
        self.id = made.context
        self.management_key = made.management_key
        self.owner = Someone(place.http, self.id, made.owner_key)
        self.agent = Someone(place.http, self.id, made.agent_key)

    def someone(
        self, name: str, *patterns: str, verbs: Sequence[Verb] = MEMORY_VERBS, kind: str = "agent", **more: Any
    ) -> Someone:
        """A principal that holds `verbs` over `patterns`, with a key."""
        grants = {str(verb): list(patterns) for verb in verbs}
        made = self.manage("POST", "/principals", {"displayName": name, "kind": kind, "grants": grants, **more})
        assert made.status_code == 201, made.text
        minted = self.manage("POST", f"/principals/{made.json()['id']}/keys/{name}", {})
        assert minted.status_code == 201, minted.text
        return Someone(self.place.http, self.id, minted.json()["key"])

    def manage(self, method: str, path: str, body: object = None) -> httpx.Response:
        """The reply to a management request about this context."""
        headers = {"Authorization": f"Bearer {self.management_key}"}
        return self.place.http.request(method, f"/api/v1/contexts/{self.id}{path}", json=body, headers=headers)

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Every row of a table, read from the record itself."""

        async def read() -> list[dict[str, Any]]:
            context = await self.place.rt.context(self.id)
            (rows,) = await context.db.run("SELECT * FROM type::table($table)", table=table)
            return rows

        return self.place.run(read())

    def stored(self, table: str, field: str) -> list[Any]:
        """One field of every row of a table, read from the record itself."""
        return [row.get(field) for row in self.rows(table)]


class Place:
    """The server. `rt` belongs to the loop of its thread: use it through `run`."""

    def __init__(self, rt: Runtime, app: FastAPI, endpoint: str, loop: asyncio.AbstractEventLoop) -> None:
        self.rt = rt
        self.app = app
        self.endpoint = endpoint
        self.http = httpx.Client(base_url=endpoint, timeout=30, trust_env=False)
        self._loop = loop
        self._names = itertools.count(1)
        self._beside = ThreadPoolExecutor(4)

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        """What `work` gives, run where the server runs."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def aside(self, work: Callable[[], R]) -> Future[R]:
        """What `work` gives, run in a thread beside this one."""
        return self._beside.submit(work)

    @contextmanager
    def held(self, lock: AbstractAsyncContextManager[None]) -> Iterator[None]:
        """The lock of the server, held while the block runs."""
        self.run(lock.__aenter__())
        try:
            yield
        finally:
            self.run(lock.__aexit__(None, None, None))

    def until(self, true: Callable[[], bool]) -> None:
        """Wait until it is true; at most 10 s."""
        limit = time.monotonic() + 10
        while not true():
            assert time.monotonic() < limit
            time.sleep(0.005)

    def harbour(self, policy: str | None = None) -> Harbour:
        """A fresh context, with a policy of its own when one is named."""
        return Harbour(self, self.run(contexts.bootstrap(self.rt, f"harbour{next(self._names)}", policy=policy)))

    @contextmanager
    def configured(self, **settings: Any) -> Iterator[None]:
        """Other settings while the block runs."""
        before = self.rt.config
        self.rt.config = before.model_copy(update=settings)
        try:
            yield
        finally:
            self.rt.config = before


class _Thread(threading.Thread):
    """Runs a server until it is told to stop."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.ready = threading.Event()
        self.place: Place | None = None
        self.server: uvicorn.Server | None = None

    def run(self) -> None:
        try:
            asyncio.run(self._serve())
        finally:
            self.ready.set()

    async def _serve(self) -> None:
        async with open_runtime(Config()) as rt:
            app = create_app(rt)
            app.include_router(mcp.router(speaking()))
            config = uvicorn.Config(
                app, host="127.0.0.1", port=0, log_level="critical", http="httptools", ws="none", timeout_keep_alive=60
            )
            self.server = uvicorn.Server(config)
            running = asyncio.create_task(self.server.serve())
            while not self.server.started:
                await asyncio.sleep(0.01)
            port = self.server.servers[0].sockets[0].getsockname()[1]
            self.place = Place(rt, app, f"http://127.0.0.1:{port}", asyncio.get_running_loop())
            self.ready.set()
            await running


@contextmanager
def serving() -> Iterator[Place]:
    """A server over a record in memory."""
    thread = _Thread()
    thread.start()
    assert thread.ready.wait(60)
    assert thread.place is not None
    assert thread.server is not None
    try:
        yield thread.place
    finally:
        thread.place.http.close()
        thread.server.should_exit = True
        thread.join(30)


def refused(reply: httpx.Response, *statuses: int) -> None:
    """The reply is a refusal in the one form every client reads."""
    assert reply.status_code in statuses, (reply.status_code, reply.text)
    body = reply.json()
    assert set(body) == PROBLEM_MEMBERS
    assert body["status"] == reply.status_code
    assert body["message"] == body["detail"] != ""
    assert reply.headers["X-Trace-Id"]
