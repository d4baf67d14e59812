"""SyncMemory: the memory for code without an event loop. Each call waits for the same verb of `Memory`."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Concatenate, Generic, Literal, ParamSpec, Self, TypeVar

from anyio.from_thread import BlockingPortal, start_blocking_portal

from keeps.client.calls import OnPending
from keeps.client.governing import Audit, Controls, Settings
from keeps.client.nouns import Keys, Memories, Principals, Runs, Scopes, Sessions, Traces
from keeps.config import Config
from keeps.core.errors import Invalid
from keeps.memory import DEFAULT_CONTEXT, DEFAULT_FOLDER, Memory

P = ParamSpec("P")
R = TypeVar("R")
InnerT = TypeVar("InnerT")


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self, portal: BlockingPortal) -> None:
        self._portal = portal
        self._ended = False

    def wait(self, work: Callable[[], Awaitable[R]]) -> R:
        """What `work` comes to. Raises: Invalid once the loop has ended; what `work` raises."""
        if self._ended:
            raise Invalid("this memory is closed: open another")
        return self._portal.call(work)

    def end(self) -> None:
        """Take no more work."""
        self._ended = True


class Waiting(Generic[InnerT]):
    """Something asynchronous, and the loop it belongs to."""

    def __init__(self, inner: InnerT, loop: Loop) -> None:
        self.inner = inner
        self.loop = loop


def _blocking(
    verb: Callable[Concatenate[InnerT, P], Awaitable[R]],
) -> Callable[Concatenate[Waiting[Any], P], R]:
    """The verb as a method that returns when it is done. Arguments, their types and the description stay."""

    @functools.wraps(verb)
    def call(self: Waiting[Any], /, *args: P.args, **kwargs: P.kwargs) -> R:
        async def run() -> R:
            return await verb(self.inner, *args, **kwargs)

        return self.loop.wait(run)

    return call


class SyncSessions(Waiting[Sessions]):
    """Conversations."""

    create = _blocking(Sessions.create)
    get = _blocking(Sessions.get)
    list = _blocking(Sessions.list)
    turns = _blocking(Sessions.turns)
    context = _blocking(Sessions.context)
    delete = _blocking(Sessions.delete)


class SyncScopes(Waiting[Scopes]):
    """The tree of scopes."""

    register = _blocking(Scopes.register)
    list = _blocking(Scopes.list)
    delete = _blocking(Scopes.delete)
    forget = _blocking(Scopes.forget)


class SyncPrincipals(Waiting[Principals]):
    """Who holds grants."""

    create = _blocking(Principals.create)
    get = _blocking(Principals.get)
    list = _blocking(Principals.list)
    change = _blocking(Principals.change)
    grant = _blocking(Principals.grant)
    revoke = _blocking(Principals.revoke)
    effective = _blocking(Principals.effective)


class SyncKeys(Waiting[Keys]):
    """Keys of the caller's own principal."""

    list = _blocking(Keys.list)
    create = _blocking(Keys.create)
    rotate = _blocking(Keys.rotate)
    delete = _blocking(Keys.delete)


class SyncTraces(Waiting[Traces]):
    """What reads left behind: which rows each weighed, and why."""

    list = _blocking(Traces.list)
    get = _blocking(Traces.get)
    stats = _blocking(Traces.stats)


class SyncRuns(Waiting[Runs]):
    """Runs of agents: what each was offered, what its answers relied on, and what came of it."""

    open = _blocking(Runs.open)
    close = _blocking(Runs.close)
    cite = _blocking(Runs.cite)
    outcome = _blocking(Runs.outcome)
    get = _blocking(Runs.get)
    list = _blocking(Runs.list)


class SyncMemories(Waiting[Memories]):
    """Memories as the person they belong to handles them."""

    save = _blocking(Memories.save)
    list = _blocking(Memories.list)
    get = _blocking(Memories.get)
    history = _blocking(Memories.history)
    edit = _blocking(Memories.edit)
    confirm = _blocking(Memories.confirm)
    reject = _blocking(Memories.reject)
    release = _blocking(Memories.release)
    renew = _blocking(Memories.renew)
    retire = _blocking(Memories.retire)
    withdraw = _blocking(Memories.withdraw)
    delete = _blocking(Memories.delete)
    undo = _blocking(Memories.undo)


class SyncSettings(Waiting[Settings]):
    """What an admin sets without a restart."""

    get = _blocking(Settings.get)
    patch = _blocking(Settings.patch)
    history = _blocking(Settings.history)
    revert = _blocking(Settings.revert)
    kill = _blocking(Settings.kill)
    agent = _blocking(Settings.agent)
    tell_agent = _blocking(Settings.tell_agent)
    untell_agent = _blocking(Settings.untell_agent)


class SyncControls(Waiting[Controls]):
    """The caller's own controls."""

    pauses = _blocking(Controls.pauses)
    set_pauses = _blocking(Controls.set_pauses)
    rules = _blocking(Controls.rules)
    set_rules = _blocking(Controls.set_rules)
    apps = _blocking(Controls.apps)
    set_apps = _blocking(Controls.set_apps)


class SyncAudit(Waiting[Audit]):
    """Who did what."""

    list = _blocking(Audit.list)
    verify = _blocking(Audit.verify)


class SyncMemory(Waiting[Memory]):
    """The memory in a folder, with the verbs of `Memory`, each of which waits until it is done.

    It may be used from several threads at once, and inside a program that has an event loop of its own (a
    notebook), which then stands still for the time of a call. Make one with `SyncMemory.open`.
    """

    def __init__(self, memory: Memory, loop: Loop) -> None:
        super().__init__(memory, loop)
        self.sessions = SyncSessions(memory.sessions, loop)
        self.scopes = SyncScopes(memory.scopes, loop)
        self.principals = SyncPrincipals(memory.principals, loop)
        self.keys = SyncKeys(memory.keys, loop)
        self.traces = SyncTraces(memory.traces, loop)
        self.runs = SyncRuns(memory.runs, loop)
        self.settings = SyncSettings(memory.settings, loop)
        self.controls = SyncControls(memory.controls, loop)
        self.audit = SyncAudit(memory.audit, loop)
        self.memories = SyncMemories(memory.memories, loop)

    @classmethod
    @contextmanager
    def open(
        cls,
        folder: Path | str = DEFAULT_FOLDER,
        *,
        context: str = DEFAULT_CONTEXT,
        key: str | None = None,
        saved_key: Literal["agent", "owner"] = "agent",
        config: Config | None = None,
        on_pending: OnPending | None = None,
    ) -> Generator[Self]:
        """The memory in `folder`, made when missing: `with SyncMemory.open("./memory") as memory:`.

        Arguments and errors are those of `Memory.open`.
        """
        opening = Memory.open(
            folder, context=context, key=key, saved_key=saved_key, config=config, on_pending=on_pending
        )
        with start_blocking_portal(name="keeps-memory") as portal, portal.wrap_async_context_manager(opening) as memory:
            loop = Loop(portal)
            try:
                yield cls(memory, loop)
            finally:
                loop.end()

    @property
    def context_id(self) -> str:
        """The context whose memory this is."""
        return self.inner.context_id

    @property
    def folder(self) -> Path:
        """Where it lies."""
        return self.inner.folder

    @property
    def created(self) -> bool:
        """Whether it was begun by this opening."""
        return self.inner.created

    @property
    def owner(self) -> bool:
        """Whether this process owns the folder."""
        return self.inner.owner

    @property
    def endpoint(self) -> str:
        """Where the memory can be reached by HTTP while its owner runs."""
        return self.inner.endpoint

    close = _blocking(Memory.close)
    remember = _blocking(Memory.remember)
    remember_many = _blocking(Memory.remember_many)
    recall = _blocking(Memory.recall)
    context = _blocking(Memory.context)
    forget = _blocking(Memory.forget)
    inbox = _blocking(Memory.inbox)
    decide = _blocking(Memory.decide)
    reconsider = _blocking(Memory.reconsider)
    promote = _blocking(Memory.promote)
    forget_scope = _blocking(Memory.forget_scope)
    entities = _blocking(Memory.entities)
    find_entities = _blocking(Memory.find_entities)
    entity = _blocking(Memory.entity)
    history = _blocking(Memory.history)
    neighbours = _blocking(Memory.neighbours)
    delete_entity = _blocking(Memory.delete_entity)
    facts = _blocking(Memory.facts)
    relations = _blocking(Memory.relations)
    actions = _blocking(Memory.actions)
    inspect = _blocking(Memory.inspect)
    index = _blocking(Memory.index)
    switch_index = _blocking(Memory.switch_index)
    whoami = _blocking(Memory.whoami)
    health = _blocking(Memory.health)
