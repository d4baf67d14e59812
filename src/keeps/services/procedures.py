"""How single agents should behave: set by an admin, kept in versions, given to the agent with its context."""

from __future__ import annotations

from keeps.core import screen, text
from keeps.core.access import Caller, PrincipalId
from keeps.core.audit import Entry
from keeps.core.errors import Conflict, Forbidden, NotFound, StaleHead, Unprocessable
from keeps.core.procedures import MAX_CHARS, Procedure
from keeps.core.scopes import Scope
from keeps.services import audit, roles
from keeps.services.access import Authority
from keeps.services.runtime import Context, Runtime, new_id
from keeps.store import principals as store_principals
from keeps.store import procedures as store_procedures
from keeps.store import scopes as store_scopes
from keeps.store.commit import Batch
from keeps.store.db import Duplicate


async def get(rt: Runtime, context: Context, caller: Authority, agent: PrincipalId) -> list[Procedure]:
    """Every version for one agent, the newest first; the agent itself may see its own. Raises: Forbidden, NotFound."""
    if not (isinstance(caller, Caller) and caller.target is None and caller.principal_id == agent):
        await _check(rt, context, caller, "procedure.read", agent)
    await _named(context, agent)
    return await store_procedures.versions(context.db, agent)


async def put(rt: Runtime, context: Context, caller: Authority, agent: PrincipalId, said: str) -> Procedure:
    """Tell an agent how to behave from now on; what it was told before stays as an older version.

    Raises: Forbidden, NotFound, Unprocessable for a text that is empty or too long, SecretRefused, Conflict.
    """
    await _check(rt, context, caller, "procedure.set", agent)
    await _named(context, agent)
    cleaned = text.clean(said).text.strip()
    if not cleaned or len(cleaned) > MAX_CHARS:
        raise Unprocessable(f"the instructions of an agent are 1 to {MAX_CHARS} characters long")
    screen.refuse_secrets(cleaned, "the text")
    before = context.consent.procedures.get(agent)
    if before is not None and before.text == cleaned:
        return before
    older = await store_procedures.versions(context.db, agent)
    batch, who, scope = Batch(at=rt.clock()), roles.name_of(caller), Scope()
    made = Procedure(
        id=new_id(),
        agent=agent,
        text=cleaned,
        version=max((one.version for one in older), default=0) + 1,
        set_by=who,
        since=batch.at,
    )
    if scope.id not in context.sets:
        batch.scope_sets.append(store_scopes.scope_set_row(scope, batch.at))
    row = store_procedures.to_row(made, scope_set=scope.id, fingerprint=context.fold_key(cleaned))
    batch.creates.append({"id": row.pop("id"), "row": row})
    _close(batch, before, who)
    batch.entries.append(Entry(actor=who, action="procedure.set", target=f"principal:{agent}"))
    await _commit(context, batch)
    context.consent.procedures[agent] = made
    return made


async def delete(rt: Runtime, context: Context, caller: Authority, agent: PrincipalId) -> None:
    """Take back what an agent was told; its versions stay to be seen. Raises: Forbidden, NotFound, Conflict."""
    await _check(rt, context, caller, "procedure.delete", agent)
    before = context.consent.procedures.get(agent)
    if before is None:
        raise NotFound(f"no instructions are set for the principal {agent}")
    batch, who = Batch(at=rt.clock()), roles.name_of(caller)
    _close(batch, before, who)
    batch.entries.append(Entry(actor=who, action="procedure.delete", target=f"principal:{agent}"))
    await _commit(context, batch)
    context.consent.procedures.pop(agent, None)


def _close(batch: Batch, before: Procedure | None, who: str) -> None:
    if before is not None:
        record_id = store_procedures.record_id(before.id)
        batch.guards.append({"id": record_id, "rev": 1})
        batch.patch(record_id, **store_procedures.closing(batch.at, who))


async def _commit(context: Context, batch: Batch) -> None:
    try:
        await context.commit(batch)
    except (Duplicate, StaleHead):
        raise Conflict("the instructions of this agent changed meanwhile: read them again") from None


async def _named(context: Context, agent: PrincipalId) -> None:
    if await store_principals.find(context.db, agent) is None:
        raise NotFound(f"principal {agent} does not exist")


async def _check(rt: Runtime, context: Context, caller: Authority, action: str, agent: PrincipalId) -> None:
    if roles.is_admin(context, caller):
        return
    await audit.denied(rt, context, caller, action, f"principal:{agent}")
    raise Forbidden("how agents behave is set by owners and admins of the context")
