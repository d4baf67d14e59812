"""What a new value does to its chain: opens, confirms, supersedes, stands beside, or waits for a person."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from keeps.core.facts import CONFIDENCE_FLOOR, Fact, Origin, RowId, Status
from keeps.core.text import fold

TICK = timedelta(microseconds=1)
"""The smallest step between two values of one chain: the resolution of the clocks."""

CONFIDENCE_CAP = 0.99
"""Repetition alone never makes a thing certain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """Two values that do not settle each other. `kind`: `confidence-floor`, `cross-provenance` or `conflict`."""

    kind: str
    standing: Fact
    incoming: Fact
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do with one incoming value, as values; the store performs it.

    `opened`: the row to insert, linked. `changed`: existing rows in their new form. `confirmed`: the existing row
    the value repeats, in its new form. `head`: the chain's head afterwards, `None` when it does not move.
    `proposed`: the value waits for a person.
    """

    opened: Fact | None = None
    changed: tuple[Fact, ...] = ()
    confirmed: Fact | None = None
    head: RowId | None = None
    corrected: tuple[Fact, Fact] | None = None
    doubts: tuple[Doubt, ...] = ()
    proposed: Fact | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What a chain holds before a write: its versions in order of known time, its head, and the other pillar's head."""

    versions: tuple[Fact, ...] = ()
    head: Fact | None = None
    other_head: Fact | None = None
    contenders: tuple[Fact, ...] = ()


def plan(standing: Standing, incoming: Fact, *, observed: bool, floor: float = CONFIDENCE_FLOOR) -> Plan:
    """Decide what `incoming` does to its chain. `observed`: its known time was given, so it may belong to the past."""
    head = standing.head
    if not observed and head is not None:
        incoming = _after(head, incoming)
    doubts = _cross_provenance(standing.other_head, incoming)
    if head is None:
        return Plan(opened=incoming, head=incoming.id, doubts=doubts)
    if observed and incoming.clocks.known_at < head.clocks.known_at:
        return _insert(standing.versions, incoming)
    if same_value(head, incoming):
        return Plan(confirmed=reinforce(head, incoming))
    if (why_not := _proposes(head, incoming)) is not None:
        doubt = Doubt(kind="conflict", standing=head, incoming=incoming, reason=why_not)
        return Plan(proposed=incoming, doubts=(doubt,))
    twins = tuple(c for c in standing.contenders if same_value(c, incoming))
    if (why_not := _stands_beside(head, incoming, floor)) is not None:
        if twins:
            return Plan(confirmed=reinforce(twins[0], incoming))
        doubt = Doubt(kind="confidence-floor", standing=head, incoming=incoming, reason=why_not)
        return Plan(opened=incoming, doubts=(*doubts, doubt))
    closed, opened = _link(head, incoming)
    closed_twins = tuple(_close(twin, opened, recorded_at=opened.clocks.recorded_at) for twin in twins)
    return Plan(
        opened=opened,
        changed=(closed, *closed_twins),
        head=opened.id,
        corrected=(head, opened),
        doubts=doubts,
    )


def same_value(one: Fact, other: Fact) -> bool:
    """True when two values are the same to a reader: compared folded."""
    return fold(one.value) == fold(other.value)


def reinforce(standing: Fact, again: Fact) -> Fact:
    """`standing` said once more: confidence joins as independent evidence, labels are merged."""
    joined = 1.0 - (1.0 - standing.confidence) * (1.0 - again.confidence)
    labels = standing.labels + tuple(label for label in again.labels if label not in standing.labels)
    control = replace(standing.control, rev=standing.control.rev + 1)
    if again.control.user_confirmed and not control.user_confirmed:
        control = replace(
            control,
            user_confirmed=True,
            origin=Origin.USER_CONFIRMED,
            trust=max(control.trust, again.control.trust),
        )
    return replace(
        standing,
        confidence=max(standing.confidence, min(CONFIDENCE_CAP, joined)),
        importance=max(standing.importance, again.importance),
        labels=labels,
        control=control,
    )


def _proposes(head: Fact, incoming: Fact) -> str | None:
    """Why the value has to wait for a person, or `None`."""
    if head.control.user_confirmed and not incoming.control.user_confirmed:
        return f"a value the person confirmed stands for {incoming.key}; the new one waits for approval"
    return None


def _stands_beside(head: Fact, incoming: Fact, floor: float) -> str | None:
    """Why the value may not replace the head though it may stand beside it, or `None`."""
    if incoming.control.user_confirmed:
        return None
    if incoming.confidence < max(floor, head.confidence):
        return f"a less certain value for {incoming.key} stands beside the current one"
    if incoming.control.trust < head.control.trust:
        return f"a value for {incoming.key} from a less trusted source stands beside the current one"
    return None


def _insert(versions: Sequence[Fact], incoming: Fact) -> Plan:
    """Put a value that became known before the head into its place; the head stays head."""
    known = incoming.clocks.known_at
    before = [v for v in versions if v.clocks.known_at <= known]
    after = [v for v in versions if v.clocks.known_at > known]
    earlier = max(before, key=_known, default=None)
    later = min(after, key=_known, default=None)
    if earlier is not None and same_value(earlier, incoming):
        return Plan(confirmed=reinforce(earlier, incoming))
    if earlier is not None and earlier.clocks.known_at == known:
        incoming = replace(incoming, clocks=replace(incoming.clocks, known_at=known + TICK))
    changed: list[Fact] = []
    if earlier is not None:
        closed, incoming = _link(earlier, incoming)
        changed.append(closed)
    if later is not None:
        incoming = _close(incoming, later, recorded_at=incoming.clocks.recorded_at)
        control = replace(later.control, rev=later.control.rev + 1)
        changed.append(replace(later, supersedes=incoming.id, control=control))
    return Plan(opened=incoming, changed=tuple(changed))


def _known(fact: Fact) -> datetime:
    return fact.clocks.known_at


def _link(old: Fact, new: Fact) -> tuple[Fact, Fact]:
    """`old` closed by `new`, and `new` pointing back."""
    return _close(old, new, recorded_at=new.clocks.recorded_at), replace(new, supersedes=old.id)


def _close(old: Fact, new: Fact, *, recorded_at: datetime) -> Fact:
    """`old` ended where `new` begins; an interval never runs backwards."""
    since = new.clocks.valid_from or new.clocks.known_at
    started = old.clocks.valid_from
    clocks = replace(
        old.clocks,
        valid_until=since if started is None else max(since, started),
        close_known_at=new.clocks.known_at,
        close_recorded_at=recorded_at,
    )
    control = replace(old.control, status=Status.SUPERSEDED, rev=old.control.rev + 1)
    return replace(old, clocks=clocks, control=control, superseded_by=new.id)


def _after(head: Fact, incoming: Fact) -> Fact:
    """`incoming` known strictly after `head`, also when the machine's clock went back."""
    earliest = head.clocks.known_at + TICK
    if incoming.clocks.known_at >= earliest:
        return incoming
    moved = incoming.clocks.valid_from == incoming.clocks.known_at
    clocks = replace(
        incoming.clocks, known_at=earliest, valid_from=earliest if moved else incoming.clocks.valid_from
    )
    return replace(incoming, clocks=clocks)


def _cross_provenance(other: Fact | None, incoming: Fact) -> tuple[Doubt, ...]:
    if other is None or same_value(other, incoming):
        return ()
    reason = f"a curated source and a conversation disagree about {incoming.key}"
    return (Doubt(kind="cross-provenance", standing=other, incoming=incoming, reason=reason),)
