"""Clients that write without pause, repeat what got no answer, and remember what was acknowledged."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any

import httpx

from tests.faults.server import Server, fact, ids_in, note

GIVE_UP_S = 60.0


class Writers:
    """Threads that write notes and facts, each write under a key of its own until it is acknowledged."""

    def __init__(self, server: Server, count: int = 4) -> None:
        self.acknowledged: list[set[str]] = []
        """The rows each acknowledged write says it made."""
        self.texts: list[str] = []
        self.values: list[str] = []
        self.statuses: Counter[int] = Counter()
        self.unwaited: list[int] = []
        """Refusals that do not say when to come back."""
        self.broken = 0
        """Requests whose connection ended without an answer."""
        self.faults: list[str] = []
        self._server = server
        self._end = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(count)]

    def __enter__(self) -> Writers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    def finish(self) -> None:
        """Let every writer get its last answer."""
        self._end.set()
        for thread in self._threads:
            thread.join(GIVE_UP_S * 2)
            assert not thread.is_alive()

    def done(self) -> int:
        """How many writes were acknowledged so far."""
        assert not self.faults, self.faults
        return len(self.acknowledged)

    def _run(self, writer: int) -> None:
        try:
            with self._server.client() as http:
                number = 0
                while not self._end.is_set():
                    self._write(http, writer, number)
                    number += 1
        except BaseException as fault:
            self.faults.append(repr(fault))
            raise

    def _write(self, http: httpx.Client, writer: int, number: int) -> None:
        name = f"w{writer}n{number}"
        match number % 3:
            case 0:
                body, said = note(f"the log of {name} says fair wind"), self.texts
            case 1:
                body, said = fact("role", f"role {name}"), self.values
            case _:
                body, said = fact("berth", f"berth {name}", name=f"Boat {writer}"), self.values
        reply = self._until_acknowledged(http, body, f"key {name}")
        with self._lock:
            said.append(body["text"] if "text" in body else body["triples"][0]["value"])
            self.acknowledged.append(ids_in(reply))

    def _until_acknowledged(self, http: httpx.Client, body: dict[str, Any], key: str) -> Any:
        limit = time.monotonic() + GIVE_UP_S
        while time.monotonic() < limit:
            try:
                url = f"{self._server.endpoint}/api/v1/default/facts"
                reply = http.post(url, json=body, headers={"Idempotency-Key": key})
            except httpx.TransportError:
                with self._lock:
                    self.broken += 1
                time.sleep(0.02)
                continue
            with self._lock:
                self.statuses[reply.status_code] += 1
            if reply.status_code == 200:
                return reply.json()
            wait = reply.headers.get("Retry-After", "")
            if reply.status_code != 503 or not wait.isdecimal():
                raise AssertionError((reply.status_code, reply.text))
            time.sleep(0.05)
        raise AssertionError(f"no answer to {key}")
