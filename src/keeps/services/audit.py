"""Who did what: listed, checked, and refusals added. The rows themselves are written with the commits they tell of."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from keeps.core import audit as core_audit
from keeps.core.audit import Entry, Sealed
from keeps.core.errors import Forbidden, KeepsError
from keeps.core.pages import Page, PageRequest, number_key
from keeps.services import audit_chain, roles
from keeps.services.access import Authority
from keeps.services.audit_chain import Verdict
from keeps.services.runtime import Context, Runtime
from keeps.store import audit as store_audit
from keeps.store.commit import Batch

DENIED_EVERY: Final = timedelta(minutes=1)
"""A refusal that repeats itself is written once in this time, for each caller, act and target."""
_DENIALS_KEPT: Final = 4096

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Which rows: of an action or of all whose names begin with it and a dot, about a target, by an actor."""

    action: str | None = None
    target: str | None = None
    actor: str | None = None


async def denied(rt: Runtime, context: Context, caller: Authority, action: str, target: str) -> None:
    """Write down that something was refused, at most once a minute for each caller, act and target. Never raises."""
    now, key = rt.clock(), (roles.name_of(caller), action, target)
    last = context.denied_at.get(key)
    if last is not None and now - last < DENIED_EVERY:
        return
    if len(context.denied_at) >= _DENIALS_KEPT:
        context.denied_at.clear()
    context.denied_at[key] = now
    batch = Batch(at=now)
    batch.entries.append(Entry(actor=key[0], action=f"denied.{action}", target=target))
    try:
        await context.commit(batch)
    except KeepsError as error:
        context.denied_at.pop(key, None)
        _log.warning("a refusal in %s was not written down: %s", context.id, type(error).__name__)


async def list_(rt: Runtime, context: Context, caller: Authority, filters: Filters, page: PageRequest) -> Page[Sealed]:
    """A page of the audit, newest first. Raises: Forbidden unless the caller is an owner or an admin."""
    await _check(rt, context, caller, "audit.read")
    rows = await store_audit.page(
        context.db,
        action=filters.action,
        target=filters.target,
        actor=filters.actor,
        below=None if page.after is None else int(page.after[0]),
        limit=page.limit + 1,
    )
    shown = tuple(rows[: page.limit])
    last = shown[-1] if shown else None
    follows = len(rows) > len(shown) and last is not None
    return Page(rows=shown, next=(number_key(last.seq), str(last.seq)) if follows and last is not None else None)


async def verify(rt: Runtime, context: Context, caller: Authority) -> Verdict:
    """Check every row, and that none is missing at the end. Raises: Forbidden unless an owner or an admin asks."""
    await _check(rt, context, caller, "audit.verify")
    return await check(rt, context)


async def check(rt: Runtime, context: Context) -> Verdict:
    """The same for whoever serves the record: commits wait as long as it takes."""
    async with context.still():
        return await audit_chain.check(
            context.db, context.audit_secret, rt.folder / context.id, context.audit_head, rt.clock()
        )


async def keep_head(rt: Runtime, context: Context) -> None:
    """Write the end of the audit beside the record, so that rows cut off later are missed."""
    async with context.still():
        await audit_chain.keep_head(
            context.db, context.audit_secret, rt.folder / context.id, context.audit_head, rt.clock()
        )


async def put_back(rt: Runtime, context: Context, folder: Path) -> None:
    """Say in the audit that the record was put back, when the end that is kept in `folder` lies beyond it."""
    if await audit_chain.is_cut(context.db, context.audit_secret, folder):
        await restart(rt, context, why="restore", new_key=False)


async def restart(rt: Runtime, context: Context, *, why: str, new_key: bool) -> None:
    """Say in the audit that its record was put back, so that a shorter end is no fault.

    `new_key`: what stood before is sealed with a key that is lost.
    """
    batch = Batch(at=rt.clock())
    batch.entries.append(core_audit.restart_entry(why, new_key=new_key))
    await context.commit(batch)


async def _check(rt: Runtime, context: Context, caller: Authority, action: str) -> None:
    if not roles.is_admin(context, caller):
        await denied(rt, context, caller, action, "audit")
        raise Forbidden("the audit is for owners and admins of the context")
