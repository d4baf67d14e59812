"""The mode of a context, seen and switched while it runs: whether its texts have vectors, and what makes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from keeps.core.access import Caller, Verb
from keeps.core.errors import Forbidden
from keeps.core.generations import IndexStatus
from keeps.core.scopes import EVERYTHING
from keeps.services import contexts
from keeps.services.contexts import ContextChange
from keeps.services.runtime import Context, Runtime


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """Another mode or embedder; None leaves as it is."""

    mode: str | None = None
    embedder: str | None = None


async def seen_by(context: Context, caller: Caller) -> IndexStatus:
    """How far the vectors of a context are. Raises: Forbidden for who does not manage all of it, Unavailable."""
    _check(caller)
    return await context.vectors.status()


async def switch(rt: Runtime, context: Context, caller: Caller, wanted: Switch) -> IndexStatus:
    """Change mode or embedder; questions follow at once, the vectors behind it. How far they are now.

    Raises:
        Forbidden: the caller does not manage all of the context.
        Invalid: there is no such mode or embedder.
    """
    _check(caller)
    named = {"mode": wanted.mode, "embedder": wanted.embedder}
    config: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
    if config:
        await contexts.patch(rt, context.id, ContextChange(config=config), by=caller)
    return await context.vectors.status()


async def status(rt: Runtime, context_id: str) -> IndexStatus:
    """The same for who manages the whole service. Raises: NotFound, Unavailable."""
    return await (await rt.context(context_id)).vectors.status()


def _check(caller: Caller) -> None:
    if not caller.region(Verb.GRANT_MANAGE).covers_pattern(EVERYTHING):
        raise Forbidden("the mode of a context concerns all in it: it needs grant:manage over /*")
