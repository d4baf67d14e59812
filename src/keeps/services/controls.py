"""A person's own controls: pauses, blocked topics, consents, and what each agent may do with their memory.

Only the person sets them, with a key of their own. They hold at once, and nothing an admin sets widens them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from keeps.core import screen, text
from keeps.core.access import Caller, Principal, PrincipalId, PrincipalKind, Verb, region_of
from keeps.core.audit import Entry
from keeps.core.controls import App, Controls, Pause
from keeps.core.errors import Forbidden, StaleHead, StaleRevision, Unprocessable
from keeps.core.kinds import KINDS
from keeps.core.scopes import Pattern, ScopePath
from keeps.services import audit, roles
from keeps.services.consent import NOTHING_SAID
from keeps.services.runtime import Context, Runtime
from keeps.store import controls as store_controls
from keeps.store import principals as store_principals
from keeps.store.commit import Batch
from keeps.store.db import Duplicate

MAX_PAUSES: Final = 50
MAX_BLOCKED: Final = 100
MAX_BLOCK_CHARS: Final = 200
MAX_APPS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """An agent that holds something over a person's memory, and what the person lets it do."""

    id: PrincipalId
    name: str
    app: App


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What may be kept about a person: topics in their own words that may not, sensitive topics that may, whether
    agents find passages of other sessions, and kinds that may never be kept."""

    blocked: tuple[str, ...]
    consents: frozenset[str]
    history: bool
    never_kinds: frozenset[str]


async def get(rt: Runtime, context: Context, caller: Caller) -> Controls:
    """The caller's own controls, pauses that are over left out. Raises: Forbidden for all but a person."""
    home = await _home(rt, context, caller, "controls.read")
    return _standing(context.consent.controls.get(home, NOTHING_SAID), rt.clock())


async def set_pauses(
    rt: Runtime, context: Context, caller: Caller, pauses: Collection[Pause], expected: int | None
) -> Controls:
    """Let these pauses hold and no others. Raises: Forbidden, StaleRevision, Unprocessable."""
    now = rt.clock()
    if len(pauses) > MAX_PAUSES:
        raise Unprocessable(f"at most {MAX_PAUSES} pauses are kept")
    for pause in pauses:
        if not pause.saving and not pause.using:
            raise Unprocessable("a pause is of saving, of using, or of both")
        if pause.until is not None and pause.until <= now:
            raise Unprocessable("a pause ends at a time that is still to come")
    chosen = tuple(pauses)
    return await _change(rt, context, caller, "controls.pause", expected, lambda held: replace(held, pauses=chosen))


async def set_rules(rt: Runtime, context: Context, caller: Caller, rules: Rules, expected: int | None) -> Controls:
    """Let these rules hold. Raises: Forbidden, StaleRevision, Unprocessable; SecretRefused for a secret in a block."""
    if len(rules.blocked) > MAX_BLOCKED:
        raise Unprocessable(f"at most {MAX_BLOCKED} topics can be blocked")
    blocked = tuple(dict.fromkeys(map(_block, rules.blocked)))
    if unknown := sorted(rules.consents - screen.TOPICS):
        raise Unprocessable(
            f"there is no sensitive topic {unknown[0]!a}: use some of {', '.join(sorted(screen.TOPICS))}"
        )
    _check_kinds(context, rules.never_kinds)
    return await _change(
        rt,
        context,
        caller,
        "controls.rules",
        expected,
        lambda held: replace(
            held,
            blocked=blocked,
            consents=rules.consents,
            history=rules.history,
            never_kinds=rules.never_kinds,
        ),
    )


async def set_apps(
    rt: Runtime, context: Context, caller: Caller, apps: Mapping[PrincipalId, App], expected: int | None
) -> Controls:
    """Let each of these agents do this much, and the others everything. Raises: as `set_rules`."""
    if len(apps) > MAX_APPS:
        raise Unprocessable(f"at most {MAX_APPS} agents can be named")
    for app in apps.values():
        _check_kinds(context, app.kinds or frozenset())
    said = {str(agent): app for agent, app in apps.items() if app != App()}
    return await _change(rt, context, caller, "controls.apps", expected, lambda held: replace(held, apps=said))


async def agents(rt: Runtime, context: Context, caller: Caller) -> list[Agent]:
    """The agents that hold something over the caller's memory, and those the caller said something about, by name."""
    home = await _home(rt, context, caller, "controls.read")
    controls = context.consent.controls.get(home, NOTHING_SAID)
    everyone = [stored.principal for stored in await store_principals.list_all(context.db)]
    found = [one for one in everyone if _is_app(one) and (one.id in controls.apps or _reaches(one, home))]
    return [
        Agent(id=one.id, name=one.display_name, app=controls.app(one.id))
        for one in sorted(found, key=lambda one: one.display_name)
    ]


def _is_app(principal: Principal) -> bool:
    return principal.kind is not PrincipalKind.HUMAN and principal.id not in roles.RESERVED


def _reaches(principal: Principal, home: ScopePath) -> bool:
    below = Pattern(home, subtree=True)
    return any(region_of(principal.grants, verb).meets(below) for verb in (Verb.MEMORY_READ, Verb.MEMORY_WRITE))


def _standing(controls: Controls, now: datetime) -> Controls:
    return replace(
        controls, pauses=tuple(pause for pause in controls.pauses if pause.until is None or now < pause.until)
    )


def _block(words: str) -> str:
    cleaned = text.clean(words).text.strip()
    screen.refuse_secrets(cleaned, "a topic to block")
    if not cleaned or len(cleaned) > MAX_BLOCK_CHARS:
        raise Unprocessable(f"a topic to block is 1 to {MAX_BLOCK_CHARS} characters long")
    return cleaned


def _check_kinds(context: Context, kinds: frozenset[str]) -> None:
    if unknown := sorted(kinds - KINDS.keys() - context.consent.settings.kinds):
        raise Unprocessable(f"there is no kind {unknown[0][:40]!a}")


async def _home(rt: Runtime, context: Context, caller: Caller, action: str) -> ScopePath:
    """The home of the person who asks. Raises: Forbidden for everybody else, and for a home that two share."""
    home = caller.home
    own = caller.is_person and caller.key_grants is None
    if own and home is not None and context.consent.homes.get(home) == caller.principal_id:
        return home
    await audit.denied(rt, context, caller, action, "controls")
    raise Forbidden("controls belong to the person whose memory it is, and are set with that person's own key")


async def _change(
    rt: Runtime,
    context: Context,
    caller: Caller,
    action: str,
    expected: int | None,
    changed: Callable[[Controls], Controls],
) -> Controls:
    """Change the caller's controls, if they are as the caller last saw them."""
    home = await _home(rt, context, caller, action)
    held = context.consent.controls.get(home, NOTHING_SAID)
    if expected is None:
        raise StaleRevision(f"say with If-Match which state of your controls this changes; {held.rev} is the last")
    if expected != held.rev:
        raise StaleRevision(f"your controls changed meanwhile: {held.rev} is the last state, this means {expected}")
    now = rt.clock()
    after = replace(_standing(changed(held), now), rev=held.rev + 1)
    batch = Batch(at=now)
    store_controls.add(batch, home, after, now)
    # How many and which kind, never the words a person blocked.
    batch.entries.append(Entry(actor=caller.principal_id, action=action, target=f"controls:{home}"))
    try:
        await context.commit(batch)
    except (Duplicate, StaleHead):
        raise StaleRevision("your controls changed meanwhile: read them again") from None
    context.consent.controls[home] = after
    return after
