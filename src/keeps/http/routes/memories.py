"""Memories: saved, looked at, and decided about by the person they belong to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from keeps.core.errors import StaleRevision
from keeps.core.facts import Status
from keeps.core.memories import Memory
from keeps.http.body import JsonBody
from keeps.http.deps import Call, DataCall, reply
from keeps.http.params import QueryOf
from keeps.http.revisions import expected_revision, tagged
from keeps.http.shell import PENDING_HEADER
from keeps.services import memories
from keeps.wire.base import bare_id
from keeps.wire.memories import (
    TABLES,
    ConfirmIn,
    MemoriesOut,
    MemoriesQuery,
    MemoryChangeIn,
    MemoryHistoryOut,
    MemoryIn,
    MemoryOut,
    NothingIn,
    RenewIn,
    SavedOut,
)

router = APIRouter(prefix="/api/v1/{context:segment}/memories", tags=["memories"])


def _bare(memory: str) -> str:
    return bare_id(memory, *TABLES) or memory


async def _moved(call: Call, act: Callable[[], Awaitable[Memory]], *, tells: bool = True) -> Response:
    """The reply to a move, kept for a repeat. `tells`: it holds the text, so that it goes when the memory does."""
    done: Memory | None = None

    async def once() -> Memory:
        nonlocal done
        done = await act()
        return done

    response = await call.once(
        once,
        lambda memory: MemoryOut.of(memory).to_json().decode(),
        rows=lambda memory: (memory.ref, f"attribute:{memory.id}") if tells else (),
    )
    if done is not None:
        response.headers.update(tagged(done.rev))
        if done.status in _WAITS:
            response.headers[PENDING_HEADER] = "1"
    return response


_WAITS = (Status.PROPOSED, Status.QUARANTINED)


@router.post("", status_code=201, response_model=SavedOut)
async def save(call: DataCall, body: Annotated[MemoryIn, Depends(JsonBody(MemoryIn))]) -> Response:
    """Keep a memory: yours is kept as yours, what an agent sends is kept, put before the person, or dropped."""

    done: memories.Saved | None = None

    async def act() -> memories.Saved:
        nonlocal done
        done = await memories.save(call.rt, call.context, call.caller, body.to_core())
        return done

    response = await call.once(
        act,
        lambda saved: SavedOut.of_saved(saved).to_json().decode(),
        status=lambda saved: 201 if saved.memory is not None else 200,
        rows=lambda saved: (saved.memory.ref, f"attribute:{saved.memory.id}") if saved.memory is not None else (),
    )
    if done is not None and done.memory is not None:
        response.headers.update(tagged(done.memory.rev))
        if done.memory.status in _WAITS:
            response.headers[PENDING_HEADER] = "1"
    return response


@router.get("", response_model=MemoriesOut)
async def list_memories(call: DataCall, query: Annotated[MemoriesQuery, Depends(QueryOf(MemoriesQuery))]) -> Response:
    """Your memories in every state, others' that are in use; the one written down last first."""
    request = query.to_core(call.cursors.request(query, route="memories"))
    page = await memories.list_(call.rt, call.context, call.caller, request)
    meta = call.cursors.meta(page, query, route="memories")
    return reply(MemoriesOut(memories=[MemoryOut.of(each) for each in page.rows], page=meta))


@router.get("/{memory:segment}", response_model=MemoryOut)
async def get_memory(memory: str, call: DataCall) -> Response:
    """One memory as it stands; its `ETag` is what a change of it names."""
    found = await memories.get(call.rt, call.context, call.caller, _bare(memory))
    return reply(MemoryOut.of(found), headers=tagged(found.rev))


@router.get("/{memory:segment}/history", response_model=MemoryHistoryOut)
async def get_history(memory: str, call: DataCall) -> Response:
    """Every version of a memory, the newest first."""
    versions = await memories.history(call.rt, call.context, call.caller, _bare(memory))
    return reply(MemoryHistoryOut(versions=[MemoryOut.of(each) for each in versions]))


@router.patch("/{memory:segment}", response_model=MemoryOut)
async def edit(
    memory: str, call: DataCall, body: Annotated[MemoryChangeIn, Depends(JsonBody(MemoryChangeIn))]
) -> Response:
    """Change a memory; needs `If-Match`. A new text is a new version with an id of its own."""
    rev, change = expected_revision(call.request), body.to_core()
    if rev is None:
        raise StaleRevision("say which revision you change: send its ETag as If-Match")
    return await _moved(call, lambda: memories.edit(call.rt, call.context, call.caller, _bare(memory), change, rev=rev))


@router.post("/{memory:segment}/confirm", response_model=MemoryOut)
async def confirm(memory: str, call: DataCall, body: Annotated[ConfirmIn, Depends(JsonBody(ConfirmIn))]) -> Response:
    """Say yes to what waits. Only the person it belongs to does, or the curator of what is shared."""

    async def act() -> Memory:
        return await memories.confirm(
            call.rt,
            call.context,
            call.caller,
            _bare(memory),
            rev=expected_revision(call.request),
            on_conflict=body.on_conflict,
            text=body.text,
        )

    return await _moved(call, act)


@router.post("/{memory:segment}/renew", response_model=MemoryOut)
async def renew(memory: str, call: DataCall, body: Annotated[RenewIn, Depends(JsonBody(RenewIn))]) -> Response:
    """Use again what had expired."""

    async def act() -> Memory:
        rev, until = expected_revision(call.request), body.expires_at
        return await memories.renew(call.rt, call.context, call.caller, _bare(memory), rev=rev, expires_at=until)

    return await _moved(call, act)


_Nothing = Annotated[NothingIn, Depends(JsonBody(NothingIn))]
_Decide = Callable[..., Awaitable[Memory]]


async def _decide(call: Call, memory: str, decide: _Decide, *, tells: bool = True) -> Response:
    rev = expected_revision(call.request)
    return await _moved(call, lambda: decide(call.rt, call.context, call.caller, _bare(memory), rev=rev), tells=tells)


@router.post("/{memory:segment}/reject", response_model=MemoryOut)
async def reject(memory: str, call: DataCall, body: _Nothing) -> Response:
    """Say no to what waits: its text goes at once, and it is not learned again unasked."""
    return await _decide(call, memory, memories.reject, tells=False)


@router.post("/{memory:segment}/release", response_model=MemoryOut)
async def release(memory: str, call: DataCall, body: _Nothing) -> Response:
    """Put what was held back among what waits, once you have seen it and why it was held back."""
    return await _decide(call, memory, memories.release)


@router.post("/{memory:segment}/retire", response_model=MemoryOut)
async def retire(memory: str, call: DataCall, body: _Nothing) -> Response:
    """Stop using a memory. An agent that asks for that of what a person said yes to leaves a question: see `status`."""
    return await _decide(call, memory, memories.retire)


@router.post("/{memory:segment}/withdraw", response_model=MemoryOut)
async def withdraw(memory: str, call: DataCall, body: _Nothing) -> Response:
    """Take back what you proposed, before anybody decided."""
    return await _decide(call, memory, memories.withdraw, tells=False)


@router.post("/{memory:segment}/undo", response_model=MemoryOut)
async def undo(memory: str, call: DataCall, body: _Nothing) -> Response:
    """Bring a deleted memory back, with the key that deleted it and until its `undoUntil`."""
    return await _moved(call, lambda: memories.undo(call.rt, call.context, call.caller, _bare(memory)))


@router.delete("/{memory:segment}", response_model=MemoryOut)
async def delete(memory: str, call: DataCall) -> Response:
    """Delete a memory with its history: nothing finds it any more when this returns."""
    return await _decide(call, memory, memories.delete, tells=False)
