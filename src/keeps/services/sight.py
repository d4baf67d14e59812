"""What a caller may look at without a question: the gates of every door but search and prompts.

A person sees all of their own, whatever they paused and whatever is switched off. Everybody else sees what its person
lets them use, and no sensitive matter: where nothing is asked, nothing can be on its topic.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from keeps.core import screen
from keeps.core.access import Caller, Verb
from keeps.core.entities import EntityRef
from keeps.core.scopes import ScopePath
from keeps.core.sessions import Turn
from keeps.core.sight import Sight
from keeps.core.uncertainties import Uncertainty
from keeps.core.validity import offered
from keeps.services.consent import NOTHING_SAID, Consent
from keeps.services.gates import PASSAGE, is_own, topics_in_passage
from keeps.services.runtime import Context
from keeps.store import entities as store_entities
from keeps.store import facts as store_facts
from keeps.store import proposals as store_proposals
from keeps.store import sight as store_sight
from keeps.store.entities import Presence


@dataclass(frozen=True, slots=True)
class _Let:
    """What may be seen below some homes. `kinds` None: every kind."""

    whole: bool = False
    kinds: frozenset[str] | None = None


def sight_of(context: Context, caller: Caller) -> Sight:
    """What the caller may look at now, of what it can read."""
    consent, now = context.consent, context.clock()
    known: dict[frozenset[ScopePath], _Let | None] = {}
    whole: set[str] = set()
    rest: dict[str, frozenset[str] | None] = {}
    for each in context.sets.readable(caller.region(Verb.MEMORY_READ)):
        homes = consent.homes_of(context.sets[each])
        if homes not in known:
            known[homes] = _let(consent, caller, homes, now)
        if (let := known[homes]) is None:
            continue
        if let.whole:
            whole.add(each)
        else:
            rest[each] = let.kinds
    return Sight(whole=frozenset(whole), rest=rest, home=consent.settings.home_topics)


def _let(consent: Consent, caller: Caller, homes: Collection[ScopePath], now: datetime) -> _Let | None:
    """What the caller may see below these homes; None for nothing."""
    if is_own(consent, caller, homes):
        return _Let(whole=True)
    agent = caller.principal_id
    over = [consent.controls.get(home, NOTHING_SAID) for home in homes]
    if not consent.settings.may_prompt or not all(controls.may_use(agent, now) for controls in over):
        return None
    chosen = [kinds for controls in over if (kinds := controls.app(agent).kinds) is not None]
    return _Let(kinds=frozenset[str].intersection(*chosen) if chosen else None)


def is_off(context: Context, caller: Caller) -> bool:
    """True while the switch keeps memory from everybody whose memory it is not."""
    return not context.consent.settings.may_prompt and not is_own(context.consent, caller, ())


def hears(sight: Sight, turn: Turn, *, own: bool) -> bool:
    """True when a turn may be seen. `own`: the caller began its session, so it was told all of it there."""
    if turn.scope.id in sight.whole:
        return True
    if not sight.shows_kind(turn.scope, PASSAGE):
        return False
    return own or (not turn.taint and not sight.hides_topics(topics_in_passage(turn.content)))


async def presences(context: Context, sight: Sight, refs: Sequence[EntityRef]) -> dict[EntityRef, list[Presence]]:
    """Where entities are known and something that is said of them may be seen, earliest first."""
    known = await store_entities.presences(context.db, refs, sight.sets)
    veiled = await store_sight.veiled(context.db, sight, list(known))
    if not veiled:
        return known
    shown = {ref: [each for each in seen if (ref, each.scope_set) not in veiled] for ref, seen in known.items()}
    return {ref: seen for ref, seen in shown.items() if seen}


async def doubts_shown(
    context: Context, caller: Caller, sight: Sight, doubts: Sequence[Uncertainty]
) -> list[Uncertainty]:
    """Of doubts that the caller can read those that tell of nothing it may not see."""
    guarded = [doubt for doubt in doubts if doubt.scope.id not in sight.whole]
    if not guarded:
        return list(doubts)
    refs = list(dict.fromkeys(ref for doubt in guarded for ref in doubt.contenders))
    everywhere = context.sets.everything()
    rows = await store_facts.by_refs(context.db, context.sets, refs, everywhere)
    now = context.clock()
    held_back = {ref for ref, row in rows.items() if not (sight.shows(row) and offered(row.control, now))}
    held_back |= {ref for ref in refs if ref not in rows and await _waits(context, caller, ref)}
    return [doubt for doubt in doubts if doubt.scope.id in sight.whole or _is_open(sight, doubt, held_back)]


def _is_open(sight: Sight, doubt: Uncertainty, held_back: Collection[str]) -> bool:
    if not sight.shows_kind(doubt.scope, "uncertainty") or any(ref in held_back for ref in doubt.contenders):
        return False
    return not sight.hides_topics(screen.topics_of(f"{doubt.about} {doubt.reason}"))


async def _waits(context: Context, caller: Caller, ref: str) -> bool:
    """True when what is in doubt is a proposal of somebody else."""
    proposal = await store_proposals.find(context.db, context.sets, ref.partition(":")[2])
    return proposal is not None and proposal.proposed_by != caller.principal_id
