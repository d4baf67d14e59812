"""What may be kept without asking: rules in layers, of which the strictest wins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Final

from keeps.core import words
from keeps.core.facts import Origin, Status
from keeps.core.kinds import KINDS
from keeps.core.scopes import Pattern, ScopePath

if TYPE_CHECKING:
    from keeps.core.controls import Controls
    from keeps.core.settings import Settings

BY_HAND: Final = frozenset({Origin.USER_SAVED, Origin.USER_CONFIRMED, Origin.ADMIN_SET})
"""Who stands behind an explicit act of a person: saving it is saying yes to it."""

OPERATIONAL_KINDS: Final = frozenset({"fact", "event", "goal"})
"""What `operational` keeps unasked outside of what is under one person's home."""

SENSITIVE: Final = "sensitive"
PERSONAL: Final = "personal"


class Preset(StrEnum):
    """A policy by name: ask about everything, ask about people only, or ask about nothing."""

    DELIBERATE = "deliberate"
    OPERATIONAL = "operational"
    AUTOMATIC = "automatic"


class Decision(IntEnum):
    """What becomes of a candidate, the larger the stricter."""

    AUTO = 0
    ASK = 1
    NEVER = 2


class History(StrEnum):
    """What agents find of past conversations: nothing is kept, their own session, or all they may read."""

    OFF = "off"
    SESSION = "session"
    ON = "on"


class Drop(StrEnum):
    """Why a candidate was not stored at all."""

    POLICY = "policy_never"
    SECRET = "secret"
    SUPPRESSED = "suppressed"
    PAUSED = "paused"
    OFF = "memory_off"
    TEMPORARY = "temporary"
    KNOWN = "known"
    TOPIC_BLOCKED = "topic_blocked"
    INFERRED_SENSITIVE = "inferred_sensitive"
    RUN_FULL = "run_full"
    DAY_FULL = "day_full"
    INBOX_FULL = "inbox_full"
    STORED_FULL = "stored_full"


class Why(StrEnum):
    """Why a candidate waits for a person."""

    POLICY = "policy"
    CONFLICT = "conflict"
    KIND = "kind"
    SENSITIVE = "sensitive"
    PERSONAL = "personal"
    TAINTED = "tainted"
    QUARANTINE = "quarantine"
    DELETED_BEFORE = "deleted_before"
    RETIRE = "retire"
    IMPORTED = "imported"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule; what it leaves open fits everything. `layer`: deployment, context, scope, person or agent."""

    decision: Decision
    layer: str = "context"
    scope: Pattern | None = None
    kind: str | None = None
    origin: Origin | None = None
    agent: str | None = None
    sensitivity: str | None = None
    topic: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a policy must know of a candidate. `nodes`: the scope nodes it would belong to; `personal`: they are under
    the home of exactly one person. `stated`: the person said it, so it is not inferred. `blocked`: it is about what a
    person does not want kept. `held`: screening puts it into quarantine."""

    kind: str
    origin: Origin
    agent: str
    nodes: frozenset[ScopePath]
    personal: bool
    sensitivity: str = "normal"
    topics: frozenset[str] = frozenset()
    tainted: bool = False
    stated: bool = False
    blocked: bool = False
    held: bool = False

    @property
    def is_sensitive(self) -> bool:
        """True when it is about a sensitive matter."""
        return self.sensitivity == SENSITIVE or bool(self.topics)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Where a candidate goes: `CONFIRMED`, `PROPOSED`, `QUARANTINED`, or nowhere (`status` None, `drop` says why).
    `why`: why it waits. `rule`: the layer that decided, for `status_reason`."""

    status: Status | None
    why: Why | None = None
    drop: Drop | None = None
    rule: str = ""


def decide(
    subject: Subject, *, settings: Settings, controls: Sequence[Controls], now: datetime, trusted_writer: bool
) -> Verdict:
    """Where a candidate goes. `controls`: of everybody whose home it would belong to; all of them hold.

    First what must not be kept at all, in this order: the switch that stops saving, a pause, what a person allows the
    agent, a topic a person blocked, a rule that says never, a sensitive matter nobody stated. Then what a person must
    see: held back by screening, of a kind, sensitive, tainted, about personal data, or by the preset or a rule. What a
    person saves by hand is kept unless an admin's rule says never: their pauses and blocks are for others.
    """
    matching = [rule for rule in settings.rules if matches(rule, subject)]
    strictest = max(matching, key=lambda rule: rule.decision, default=None)
    forbidden = strictest is not None and strictest.decision is Decision.NEVER
    if subject.origin in BY_HAND:
        if strictest is not None and forbidden:
            return Verdict(None, drop=Drop.POLICY, rule=strictest.layer)
        return Verdict(Status.CONFIRMED, rule="person")
    if (dropped := _stopped(subject, settings, controls, now)) is not None:
        return dropped
    if strictest is not None and forbidden:
        return Verdict(None, drop=Drop.POLICY, rule=strictest.layer)
    if subject.is_sensitive and not subject.stated:
        return Verdict(None, drop=Drop.INFERRED_SENSITIVE, rule="sensitive")
    if subject.held:
        return Verdict(Status.QUARANTINED, Why.QUARANTINE, rule="screening")
    if (why := _always_asks(subject)) is not None:
        agreed = why is Why.SENSITIVE and _agreed(subject, settings, controls)
        return Verdict(Status.PROPOSED, why, rule="consent" if agreed else str(why))
    if preset_decision(subject, settings.policy, trusted_writer=trusted_writer) is Decision.ASK:
        return Verdict(Status.PROPOSED, Why.POLICY, rule=str(settings.policy))
    if strictest is not None and strictest.decision is Decision.ASK:
        return Verdict(Status.PROPOSED, Why.POLICY, rule=strictest.layer)
    return Verdict(Status.CONFIRMED, rule=str(settings.policy))


def matches(rule: Rule, subject: Subject) -> bool:
    """True when a rule speaks of a candidate: all it names must fit, its scope at least one of the nodes."""
    return (
        (rule.kind is None or rule.kind == subject.kind)
        and (rule.origin is None or rule.origin is subject.origin)
        and (rule.agent is None or rule.agent == subject.agent)
        and (rule.sensitivity is None or rule.sensitivity == (SENSITIVE if subject.topics else subject.sensitivity))
        and (rule.topic is None or rule.topic in subject.topics)
        and (rule.scope is None or any(rule.scope.covers(node) for node in subject.nodes))
    )


def preset_decision(subject: Subject, preset: Preset, *, trusted_writer: bool) -> Decision:
    """What a preset alone says to something an agent writes."""
    if preset is Preset.AUTOMATIC:
        return Decision.AUTO
    if subject.sensitivity == PERSONAL:
        return Decision.ASK
    if trusted_writer and subject.origin is Origin.APP_WRITTEN:
        return Decision.AUTO
    if preset is Preset.OPERATIONAL and not subject.personal and subject.kind in OPERATIONAL_KINDS:
        return Decision.AUTO
    return Decision.ASK


def _stopped(subject: Subject, settings: Settings, controls: Sequence[Controls], now: datetime) -> Verdict | None:
    """The verdict when a switch, a pause, or what a person said keeps it out, else None."""
    if not settings.may_write:
        return Verdict(None, drop=Drop.OFF, rule="kill")
    for held in controls:
        app = held.app(subject.agent)
        if any(pause.stops_saving(subject.agent, now) for pause in held.pauses):
            return Verdict(None, drop=Drop.PAUSED, rule="person")
        if not app.suggest or (app.kinds is not None and subject.kind not in app.kinds):
            return Verdict(None, drop=Drop.POLICY, rule="person")
        if subject.kind in held.never_kinds:
            return Verdict(None, drop=Drop.POLICY, rule="person")
    if subject.blocked:
        return Verdict(None, drop=Drop.TOPIC_BLOCKED, rule="person")
    return None


def _agreed(subject: Subject, settings: Settings, controls: Sequence[Controls]) -> bool:
    """True when everybody it would belong to agreed to such topics, or the product is about them."""
    consents = frozenset[str].intersection(*(held.consents for held in controls)) if controls else frozenset[str]()
    return bool(subject.topics) and subject.topics <= settings.home_topics | consents


def _always_asks(subject: Subject) -> Why | None:
    """Why no policy may keep it unasked, else None. To agree to a topic is not to say yes to what is said about it."""
    if subject.is_sensitive:
        return Why.SENSITIVE
    if subject.tainted:
        return Why.TAINTED
    kind = KINDS.get(subject.kind)
    return Why.KIND if kind is not None and kind.always_asks else None


def stops_history(agent: str, *, settings: Settings, controls: Sequence[Controls], now: datetime) -> Drop | None:
    """Why nothing an agent passes on of a conversation may be kept now, or None: saving is switched off or paused."""
    if not settings.may_write:
        return Drop.OFF
    paused = any(pause.stops_saving(agent, now) for held in controls for pause in held.pauses)
    return Drop.PAUSED if paused else None


_POINTERS: Final = frozenset(
    """about all always any anything block concerning don ever everything forget from information keep matters memories
    memory never no nothing of on please regarding related remember save store stuff thing things topic topics
    use""".split()
)
"""Words of a block that say that it is one, and not of what."""


def blocked_by(block: str, text: str, stem: words.Stem) -> bool:
    """True when a text is about what a person blocked in their own words: every word that says of what is in it.

    Compared folded and stemmed. A block without such a word blocks nothing.
    """
    meant = {term for term in words.question(block, stem) if term not in _POINTERS}
    meant -= {stem(word) for word in _POINTERS}
    return bool(meant) and meant <= words.bag(text, stem).counts.keys()
