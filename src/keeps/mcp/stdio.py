"""The protocol over stdin and stdout: one message a line, and nothing else on stdout."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import BinaryIO, Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.jsonrpc_dispatcher import cancelled_request_id_from_params
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse, jsonrpc_message_adapter
from pydantic import ValidationError

from keeps.client import Client
from keeps.mcp.server import server_for

DRAIN_S: Final = 5.0
"""How long calls under way may take to end once stdin has ended, seconds."""

_READ_AHEAD: Final = 16
"""Messages that are read before the server asks for them."""

_CANCELLED: Final = "notifications/cancelled"


@contextmanager
def taken() -> Generator[tuple[BinaryIO, BinaryIO]]:
    """Stdin and stdout for messages alone: until the block ends, all else that is printed goes to stderr."""
    sys.stdout.flush()
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    try:
        # Not closed: a thread may still wait for input, and must never find another file under its number.
        yield os.fdopen(source, "rb", closefd=False), os.fdopen(sink, "wb", closefd=False)
    finally:
        os.dup2(source, 0)
        os.dup2(sink, 1)


async def serve(memory: Client, source: BinaryIO, sink: BinaryIO) -> None:
    """Answers until `source` ends and what was asked is answered, or until it is cancelled."""
    server = server_for(lambda _: memory)
    into, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, out = anyio.create_memory_object_stream[SessionMessage](0)
    carrier = _Carrier(sink)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(carrier.bring, source, into)
            tasks.start_soon(carrier.take, out)
            await server.run(read, write, server.create_initialization_options())
            tasks.cancel_scope.cancel()
    finally:
        await carrier.flush()


class _Carrier:
    """Carries lines between two files and the server. The files are read and written in threads that a process
    does not wait for: neither a silent client nor one that stopped reading keeps it from ending."""

    def __init__(self, sink: BinaryIO) -> None:
        self._owed: set[str | int] = set()
        self._settled = asyncio.Event()
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()
        self._writer = threading.Thread(target=self._write, args=(sink,), name="keeps-mcp-out", daemon=True)
        self._writer.start()

    async def bring(self, source: BinaryIO, into: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        """Hands on what comes in; after the last line it waits until all is answered."""
        loop = asyncio.get_running_loop()
        lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        room = threading.Semaphore(_READ_AHEAD)

        def read() -> None:
            with suppress(RuntimeError):  # the loop has ended
                for line in source:
                    room.acquire()
                    loop.call_soon_threadsafe(lines.put_nowait, line)
                loop.call_soon_threadsafe(lines.put_nowait, None)

        threading.Thread(target=read, name="keeps-mcp-in", daemon=True).start()
        async with into:
            while (line := await lines.get()) is not None:
                room.release()
                if line.strip():
                    await into.send(self._heard(line))
            with anyio.move_on_after(DRAIN_S):
                while self._owed:
                    self._settled.clear()
                    await self._settled.wait()

    async def take(self, out: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Hands on what goes out."""
        async with out:
            async for sent in out:
                message = sent.message
                self._lines.put(message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id is not None:
                    self._settle(message.id)

    async def flush(self) -> None:
        """Writes what is left, unless nobody reads it."""
        self._lines.put(None)
        with anyio.CancelScope(shield=True):
            await asyncio.to_thread(self._writer.join, DRAIN_S)

    def _heard(self, line: bytes) -> SessionMessage | Exception:
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValidationError as error:
            return error
        if isinstance(message, JSONRPCRequest):
            self._owed.add(message.id)
        elif isinstance(message, JSONRPCNotification) and message.method == _CANCELLED:
            number = cancelled_request_id_from_params(message.params)
            if number is not None:
                self._settle(number)
        return SessionMessage(message)

    def _settle(self, number: str | int) -> None:
        self._owed.discard(number)
        self._settled.set()

    def _write(self, sink: BinaryIO) -> None:
        while (line := self._lines.get()) is not None:
            try:
                sink.write(line)
                sink.flush()
            except OSError:
                return  # nobody reads any more
