"""A write before it meets the record: its texts are screened, and the policy says what may become of each triple."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, cast

from keeps.core import screen as screening
from keeps.core.access import Caller
from keeps.core.errors import SecretRefused
from keeps.core.facts import TRUST, Category, Control, Origin, Status
from keeps.core.folding import in_latin
from keeps.core.kinds import INSTRUCTION, NOT_FOLLOWED, NOTE
from keeps.core.memories import life_of
from keeps.core.policy import BY_HAND, Drop, Subject, Verdict, blocked_by, decide, stops_history
from keeps.core.policy import History as HistoryKept
from keeps.core.scopes import Scope
from keeps.core.screen import Screened
from keeps.core.sessions import Role
from keeps.core.summaries import NOTE_PREFIX, words_of
from keeps.core.text import fold
from keeps.core.triples import Family, Triple
from keeps.core.trust import trust_of
from keeps.finder.local import stemmer
from keeps.services import standing
from keeps.services.incoming import Wait
from keeps.services.reconcile import kind_of
from keeps.services.runtime import Context
from keeps.store import facts as store_facts

_LONG_CHARS: Final = 16_384
"""Above this what one write gives is looked through beside the loop, so that other requests need not wait for it."""

_BESIDE_CHARS: Final = 500
"""So much of a value is also looked at beside its key, which says what a short one is."""

_OWN_KEY: Final = re.compile(rf"{NOTE_PREFIX}[a-z0-9]{{20}}")
"""The key a note is given here: letters and digits by chance, which now and then pass for a number of an account."""

_EXAMPLES: Final = ("Zq8Lr2Vt6Xn4Kp0Wm3Sd7Gh1", "4821")
"""What a password or a key may look like, and a PIN."""

_FROM_OUTSIDE: Final[Mapping[Role, str]] = {Role.TOOL: "tool"}
"""Roles whose words nobody here vouches for, and the taint of what comes from them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What the triples of a write have in common. `heard`: what the person said in the same write, as it stands there.
    `taint`: where the words came from that they were taken from. `kind`: what the caller says they are."""

    scope: Scope
    origin: Origin
    agent: str
    heard: str = ""
    taint: frozenset[str] = frozenset()
    kind: str | None = None
    category: Category | None = None
    confirmed_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What becomes of the triples of a write, by their places: each has a control, and may wait or be dropped."""

    controls: Mapping[int, Control]
    waits: Mapping[int, Wait]
    drops: Mapping[int, Drop]


# ---------------------------------------------------------------------- who
def behind(context: Context, caller: Caller, scope: Scope) -> Origin:
    """Who stands behind what a caller writes into a scope.

    Whoever decides about what lies there does: the person at home, and a curator of what is shared. Their word is an
    act of their own. Whatever else comes is an agent's, or the app's when an admin vouches for its code.
    """
    if standing.actor_of(context, caller, scope) in standing.PEOPLE:
        return Origin.USER_SAVED
    return Origin.APP_WRITTEN if caller.principal.trusted_writer else Origin.AGENT_INFERRED


def taken_from(origin: Origin, roles: Iterable[Role]) -> Origin:
    """Who stands behind facts that come with what these roles said: a person's key does not make an assistant's words,
    or what a tool returned, theirs."""
    return Origin.AGENT_INFERRED if origin in BY_HAND and any(role is not Role.USER for role in roles) else origin


def kept_as(origin: Origin) -> Origin:
    """The origin of something that was kept: what an agent inferred and nobody looked at was accepted by a rule."""
    return Origin.AUTO_ACCEPTED if origin is Origin.AGENT_INFERRED else origin


def taint_of(roles: Iterable[Role]) -> frozenset[str]:
    """The taint of something taken from what these roles said."""
    return frozenset(_FROM_OUTSIDE[role] for role in roles if role in _FROM_OUTSIDE)


def history_stopped(context: Context, scope: Scope, given_by: Origin, agent: str, now: datetime) -> Drop | None:
    """Why nothing of a conversation may be kept in a scope now, or None."""
    consent = context.consent
    if consent.settings.history is HistoryKept.OFF:
        return Drop.POLICY
    if given_by in BY_HAND:
        return None
    return stops_history(agent, settings=consent.settings, controls=consent.over(scope), now=now)


# ---------------------------------------------------------------------- secrets
async def without_secrets(text: str) -> tuple[str, tuple[str, ...]]:
    """The text with each secret replaced by what it was, and the classes that were found."""
    if len(text) > _LONG_CHARS:
        return await asyncio.to_thread(screening.without_secrets, text)
    return screening.without_secrets(text)


async def refuse_secrets(
    triples: Sequence[Triple], labels: Sequence[str], metadata: Mapping[str, Any] | None
) -> list[Screened]:
    """What screening finds in each triple; a label or the metadata adds its topics to every one.

    Raises: SecretRefused when a triple, a label or the metadata holds a secret; it names the class alone.
    """
    written = list(_leaves(metadata)) if metadata else []
    chars = sum(map(len, written)) + sum(len(said_by(triple)) for triple in triples)
    if chars > _LONG_CHARS:
        return await asyncio.to_thread(_screen, triples, labels, written)
    return _screen(triples, labels, written)


def _screen(triples: Sequence[Triple], labels: Sequence[str], written: Sequence[str]) -> list[Screened]:
    _refuse(screening.find_secrets("\n".join(labels)) if labels else (), "a label")
    _refuse(screening.find_secrets("\n".join(written)) if written else (), "the metadata")
    beside = "\n".join((*labels, *written))
    around = screening.topics_of(beside) if beside else frozenset[str]()
    found: list[Screened] = []
    for number, triple in enumerate(triples):
        keys = _keys_of(triple)
        where = "the text" if len(triples) == 1 else f"triples[{number}]"
        _refuse(screening.find_secrets("\n".join(_spellings(keys))), where)
        screened = screening.screen(said_by(triple), hidden=triple.hidden_chars)
        _refuse(screened.secrets, where)
        topics = screened.topics | around | screening.topics_of("\n".join(map(words_of, keys)))
        found.append(replace(screened, topics=topics, beside=beside))
    return found


def _keys_of(triple: Triple) -> list[str]:
    return [key for key in (triple.key, triple.verb) if key and not _OWN_KEY.fullmatch(key)]


def _spellings(keys: Iterable[str]) -> Iterator[str]:
    """Keys as they are and as they may have been written, before they were made small and their signs underscores."""
    for key in keys:
        for each in dict.fromkeys((key, key.replace("_", "-"), key.replace("_", "."))):
            yield each
            yield each.upper()


def _refuse(secrets: Sequence[screening.SecretFound], where: str) -> None:
    if secrets:
        names = ", ".join(sorted({secret.name for secret in secrets}))
        raise SecretRefused(
            f"{where} holds a secret ({names}): secrets are never remembered, and nothing of this was stored. Keep it "
            "in a secret store, and remember at most where it is kept"
        )


def said_by(triple: Triple) -> str:
    """All the words of a triple as they are screened: what it gives, in a sentence with what it is given for, and by
    itself, for an order stands at the beginning."""
    named = triple.target.name if triple.target else triple.object_text
    of = words_of(triple.key or triple.verb or "")
    if triple.value is None:
        sentence = f"{triple.entity.name} {of} {named or ''}"
    elif triple.key is not None and not triple.key.startswith(NOTE_PREFIX):
        sentence = f"the {of} is {triple.value[:_BESIDE_CHARS]}"
    else:
        sentence = ""
    alone = (triple.value, named, triple.entity.name, triple.summary, triple.source_clause, triple.unresolved_hint)
    return "\n".join(part for part in (sentence, *alone) if part)


def _leaves(value: object, key: str = "", over: str = "") -> Iterator[str]:
    """Every key, text and number of a document; what stands under a key in a sentence with it, and with `over`, the
    nearest key above that says of a secret."""
    if isinstance(value, Mapping):
        for name, inner in cast("Mapping[str, object]", value).items():
            yield str(name)
            nested = isinstance(inner, Mapping | list | tuple)
            yield from _leaves(inner, str(name), str(name) if nested and _tells_of_secret(str(name)) else over)
    elif isinstance(value, list | tuple):
        for inner in cast("Sequence[object]", value):
            yield from _leaves(inner, key, over)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield f"{words_of(key)} is {value}" if key else str(value)
        if over and over != key:
            yield f"{words_of(over)} is {value}"


def _tells_of_secret(key: str) -> bool:
    """True for a key whose value is a secret when it looks like one: `password`, `api_key`, `pin`."""
    return any(screening.find_secrets(f"{words_of(key)} is {example}") for example in _EXAMPLES)


# ---------------------------------------------------------------------- policy
def judge(
    context: Context, given: Given, triples: Sequence[Triple], screened: Sequence[Screened], now: datetime
) -> Judged:
    """What the policy in force makes of each triple."""
    consent = context.consent
    controls = consent.over(given.scope)
    nodes = given.scope.nodes()
    personal = consent.person_of(nodes) is not None
    blocks = [block for held in controls for block in held.blocked] if given.origin not in BY_HAND else []
    stem = stemmer() if blocks else None
    heard = fold(given.heard)
    judged = Judged(controls=(made := {}), waits=(waits := {}), drops=(drops := {}))
    for number, (triple, found) in enumerate(zip(triples, screened, strict=True)):
        kind = given.kind or kind_of(triple.category or given.category or Category.KNOWLEDGE, triple.key)
        subject = Subject(
            kind=kind,
            origin=given.origin,
            agent=given.agent,
            nodes=nodes,
            personal=personal,
            sensitivity=found.sensitivity,
            topics=found.topics,
            tainted=bool(given.taint),
            stated=_stated(triple, heard),
            blocked=stem is not None and any(_blocks(block, found, triple, stem) for block in blocks),
            held=found.held and given.origin not in BY_HAND,
        )
        verdict = decide(
            subject,
            settings=consent.settings,
            controls=controls,
            now=now,
            trusted_writer=given.origin is Origin.APP_WRITTEN,
        )
        control = _control(given, subject, found, verdict, now)
        if kind == INSTRUCTION and not screening.may_instruct(triple.value or triple.object_text or ""):
            # Nothing that acts may be an instruction, whoever says it: it is kept as a note that nobody follows.
            control = replace(control, kind=NOTE, flags=control.flags | {NOT_FOLLOWED})
        if verdict.status is Status.CONFIRMED:
            ends = life_of(control.kind, consent.settings, now, until=triple.valid_until)
            control = replace(control, expires_at=ends)
        made[number] = control
        if verdict.status is None:
            drops[number] = verdict.drop or Drop.POLICY
        elif verdict.status is not Status.CONFIRMED:
            if triple.family is Family.ENTITY:
                drops[number] = Drop.POLICY  # A name alone is nothing that a person could say yes to.
            else:
                assert verdict.why is not None
                waits[number] = Wait(why=verdict.why, status=verdict.status, reasons=found.reasons)
    return judged


def _blocks(block: str, found: Screened, triple: Triple, stem: Any) -> bool:
    text = in_latin("\n".join((said_by(triple), *map(words_of, _keys_of(triple)), found.beside)))
    return blocked_by(block, text, stem) or not found.topics.isdisjoint(screening.topics_of(block))


def _stated(triple: Triple, heard: str) -> bool:
    """True when the person said it in this write: the sentence it was taken from, or what it says, stands there."""
    said = triple.source_clause or triple.value or triple.summary or triple.object_text
    return bool(said) and bool(heard) and fold(said or "") in heard


def _control(given: Given, subject: Subject, found: Screened, verdict: Verdict, now: datetime) -> Control:
    by_hand = given.origin in BY_HAND
    origin = kept_as(given.origin) if verdict.status is Status.CONFIRMED else given.origin
    return Control(
        kind=subject.kind,
        origin=origin,
        trust=TRUST[origin] if by_hand else trust_of(origin, taint=given.taint),
        user_confirmed=by_hand,
        sensitivity=found.sensitivity,
        topics=found.topics,
        taint=given.taint,
        flags=found.flags,
        proposed_by=None if by_hand else given.agent,
        confirmed_by=given.confirmed_by if by_hand else None,
        status_reason="user" if by_hand else f"policy:{verdict.rule}",
        status_by=given.confirmed_by if by_hand and given.confirmed_by else "policy",
        status_at=now,
    )


# ---------------------------------------------------------------------- room
async def with_room(context: Context, given: Given, judged: Judged, triples: int) -> Judged:
    """The same, without what an agent would keep above the most memories a scope may hold."""
    wanted = [n for n in range(triples) if n not in judged.drops and n not in judged.waits]
    if given.origin in BY_HAND or not wanted:
        return judged
    most = context.consent.settings.writes.max_stored
    stored = context.stored.get(given.scope.id)
    if stored is None or stored + len(wanted) > most:
        stored = await store_facts.count_stored(context.db, given.scope.id)
    room = max(0, most - stored)
    context.stored[given.scope.id] = stored + min(room, len(wanted))
    full = dict.fromkeys(wanted[room:], Drop.STORED_FULL)
    return replace(judged, drops={**judged.drops, **full}) if full else judged
