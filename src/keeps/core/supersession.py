"""What a new value does to its chain: opens, confirms, supersedes, stands beside, or waits for a person."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256

from keeps.core.facts import CONFIDENCE_FLOOR, TRUST, Clocks, Control, Fact, Origin, Pillar, RowId, Status
from keeps.core.text import MAX_LABELS, fold

TICK = timedelta(microseconds=1)
"""The smallest step between two values of one chain: the resolution of the clocks."""

CONFIDENCE_CAP = 0.99
"""Repetition alone never makes a thing certain."""

SAID_KEPT = 32
"""How many times at which a value was said again are kept, the last ones."""


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
    `restored`: a second row to insert, the value that had stood there and was said again after the opened one.
    `proposed`: the value waits for a person.
    """

    opened: Fact | None = None
    restored: Fact | None = None
    changed: tuple[Fact, ...] = ()
    confirmed: Fact | None = None
    head: RowId | None = None
    corrected: tuple[Fact, Fact] | None = None
    doubts: tuple[Doubt, ...] = ()
    proposed: Fact | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What a chain holds before a write: its head, the live contenders beside it, and the other pillar's head.

    `versions`: all of them in any order, closed ones and contenders too; needed only when the write's known time was
    given and lies before the head's, or when there is no head any more. `place` says the same more shortly, when it
    is known already. `contenders` may be left to those that hold the incoming value: no other one counts.
    `confirmed`: for a value of category `context`, which has no chain, the head of the chain of its key.
    """

    versions: tuple[Fact, ...] = ()
    head: Fact | None = None
    other_head: Fact | None = None
    contenders: tuple[Fact, ...] = ()
    place: Place | None = None
    confirmed: Fact | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value known at some moment belongs: the last version known by then, and the first known after."""

    earlier: Fact | None = None
    later: Fact | None = None


def place_at(versions: Iterable[Fact], head: Fact | None, known_at: datetime) -> Place:
    """The place in a chain of a value that became known at `known_at`; `versions` are all of the chain's."""
    line = _line(tuple(versions), head)
    return Place(
        next((v for v in reversed(line) if v.clocks.known_at <= known_at), None),
        next((v for v in line if v.clocks.known_at > known_at), None),
    )


def place_after(place: Place, decided: Plan) -> Place:
    """The place of the next value known at the same moment, once `decided` is carried out."""
    changed = {v.id: v for v in (*decided.changed, *([decided.confirmed] if decided.confirmed else []))}
    earlier = changed.get(place.earlier.id, place.earlier) if place.earlier else None
    later = changed.get(place.later.id, place.later) if place.later else None
    opened = decided.opened
    if opened is None or (decided.head is None and opened.superseded_by is None):
        return Place(earlier, later)  # Nothing was opened, or only beside the line.
    return Place(opened, decided.restored or later)


def plan(standing: Standing, incoming: Fact, *, observed: bool, floor: float = CONFIDENCE_FLOOR) -> Plan:
    """Decide what `incoming` does to its chain. `observed`: its known time was given, so it may belong to the past."""
    head = standing.head
    if not observed and head is not None:
        incoming = _after(head, incoming)
    if (waits := _waits_behind(standing.confirmed, incoming)) is not None:
        return waits
    if observed:
        known = incoming.clocks.known_at
        place = standing.place or place_at(standing.versions, head, known)
        earlier, later = place.earlier, place.later
        if later is not None or (earlier is not None and last_said(earlier) > known):
            return _insert(standing, earlier, incoming, later, floor)
    doubts = _cross_provenance(standing.other_head, incoming)
    if head is None:
        return Plan(opened=incoming, head=incoming.id, doubts=doubts)
    settled = None if _begins_again(head, incoming) else _settled_beside(standing, head, incoming, floor, doubts)
    if settled is not None:
        return settled
    twins = (c for c in standing.contenders if same_value(c, incoming))
    closed, opened = _link(head, incoming)
    closed_twins = tuple(close(twin, opened) for twin in twins)
    return Plan(
        opened=opened,
        changed=(closed, *closed_twins),
        head=opened.id,
        corrected=(head, opened),
        doubts=doubts,
    )


def _begins_again(head: Fact, incoming: Fact) -> bool:
    """True when `incoming` says anew what is not in use any more: its life is over, or it was retired. What a person
    retired only a person brings back."""
    control, ends_at = head.control, head.control.expires_at
    over = ends_at is not None and ends_at <= incoming.clocks.recorded_at
    if not same_value(head, incoming) or not (over or control.status is Status.EXPIRED):
        return False
    return incoming.control.user_confirmed or control.status_reason != "user"


def _settled_beside(
    standing: Standing, current: Fact, incoming: Fact, floor: float, doubts: tuple[Doubt, ...]
) -> Plan | None:
    """The plan when `incoming` leaves `current` as it is: repeats it, waits for a person, or stands beside it."""
    if same_value(current, incoming):
        return Plan(confirmed=reinforce(current, incoming))
    if (waits := _waits_behind(current, incoming)) is not None:
        return waits
    if (why_not := _stands_beside(current, incoming, floor)) is None:
        return None
    twin = next((c for c in standing.contenders if same_value(c, incoming)), None)
    if twin is not None:
        return Plan(confirmed=reinforce(twin, incoming))
    doubt = Doubt(kind="confidence-floor", standing=current, incoming=incoming, reason=why_not)
    return Plan(opened=incoming, doubts=(*doubts, doubt))


def current(standing: Iterable[Fact], floor: float = CONFIDENCE_FLOOR) -> Fact | None:
    """The one value to name when several stand: curated before conversation, a person's word before others.

    Then what is certain enough to have replaced something, the more trusted, the surer, and last the newer.
    """
    return max(
        standing,
        key=lambda fact: (
            fact.source.pillar is Pillar.AUTHORITATIVE,
            fact.control.user_confirmed,
            fact.confidence >= floor,
            fact.control.trust,
            fact.confidence,
            fact.clocks.known_at,
            fact.id,
        ),
        default=None,
    )


def same_value(one: Fact, other: Fact) -> bool:
    """True when two values are the same to a reader: compared folded."""
    return fold(one.value) == fold(other.value)


def reinforce(standing: Fact, again: Fact) -> Fact:
    """`standing` said once more: labels are merged, and a person's word confirms it.

    In conversation confidence joins as independent evidence. A curated value is an assertion: said twice it is no
    more certain, else the same source could not correct itself.
    """
    joined = again.confidence
    if standing.source.pillar is Pillar.EXPERIENTIAL:
        joined = min(CONFIDENCE_CAP, 1.0 - (1.0 - standing.confidence) * (1.0 - again.confidence))
    said_at = sorted({*standing.clocks.said_at, again.clocks.known_at} - {standing.clocks.known_at})
    return replace(
        standing,
        clocks=replace(standing.clocks, said_at=tuple(said_at[-SAID_KEPT:])),
        confidence=max(standing.confidence, joined),
        importance=max(standing.importance, again.importance),
        labels=merged_labels(standing.labels, again.labels),
        control=_backed(standing.control, again.control),
    )


def merged_labels(standing: tuple[str, ...], again: Iterable[str]) -> tuple[str, ...]:
    """Labels of a row said once more: new ones are added while there is room, the first ones stay."""
    return tuple(dict.fromkeys((*standing, *again)))[:MAX_LABELS]


def _backed(standing: Control, again: Control) -> Control:
    """`standing` with who stands behind it now: only a person's word confirms it, and only that raises its trust."""
    backed = replace(standing, rev=standing.rev + 1)
    if not again.user_confirmed or standing.user_confirmed:
        return backed
    return replace(
        backed,
        user_confirmed=True,
        confirmed_by=again.confirmed_by,
        origin=Origin.USER_CONFIRMED,
        trust=max(standing.trust, TRUST[Origin.USER_CONFIRMED]),
    )


def _waits_behind(standing: Fact | None, incoming: Fact) -> Plan | None:
    """The plan when the value has to wait for a person because another that a person confirmed stands, or `None`."""
    if standing is None or not standing.control.user_confirmed or incoming.control.user_confirmed:
        return None
    if same_value(standing, incoming):
        return None
    return Plan(proposed=incoming, doubts=(conflict(standing, incoming),))


def conflict(standing: Fact, incoming: Fact) -> Doubt:
    """The doubt that a value waits for a person because another that a person confirmed stands."""
    why = f"a value the person confirmed stands for {incoming.key}; the new one waits for approval"
    return Doubt(kind="conflict", standing=standing, incoming=incoming, reason=why)


def _stands_beside(head: Fact, incoming: Fact, floor: float) -> str | None:
    """Why the value may not replace the head though it may stand beside it, or `None`."""
    if incoming.control.user_confirmed:
        return None
    if incoming.confidence < max(floor, head.confidence):
        return f"a less certain value for {incoming.key} stands beside the current one"
    if incoming.control.trust < head.control.trust:
        return f"a value for {incoming.key} from a less trusted source stands beside the current one"
    return None


def _line(versions: tuple[Fact, ...], current: Fact | None) -> list[Fact]:
    """The versions that followed one another, first known first: the head and what was closed before it.

    Contenders never held the place, and one that its twin took along was not followed by it either.
    """
    found = {v.id: v for v in versions}
    if current is not None:
        found.setdefault(current.id, current)
    head = current.id if current is not None else None

    def held_the_place(fact: Fact) -> bool:
        if fact.superseded_by is None:
            return fact.id == head
        successor = found.get(fact.superseded_by)
        return successor is None or successor.supersedes == fact.id

    return oldest_first(fact for fact in found.values() if held_the_place(fact))


def oldest_first(versions: Iterable[Fact]) -> list[Fact]:
    """Versions by known time; of those known at one moment the one that closed another comes after it."""
    found = {v.id: v for v in versions}
    ranks = ranks_at_once(found)
    return sorted(found.values(), key=lambda fact: (fact.clocks.known_at, ranks[fact.id], fact.id))


def ranks_at_once(versions: Mapping[RowId, Fact]) -> dict[RowId, int]:
    """For each of `versions`, how many of them known at the same moment it followed, from 0."""
    ranks: dict[RowId, int] = {}
    for fact in versions.values():
        followed: list[Fact] = []
        seen: set[RowId] = set()
        current: Fact | None = fact
        while current is not None and current.id not in ranks and current.id not in seen:
            followed.append(current)
            seen.add(current.id)
            before = versions.get(current.supersedes or RowId(""))
            current = before if before is not None and before.clocks.known_at == fact.clocks.known_at else None
        rank = ranks.get(current.id, -1) if current is not None else -1
        for step, later in enumerate(reversed(followed), rank + 1):
            ranks[later.id] = step
    return ranks


def last_said(fact: Fact) -> datetime:
    """When a value was said last, as far as is kept."""
    return fact.clocks.said_at[-1] if fact.clocks.said_at else fact.clocks.known_at


def _insert(standing: Standing, earlier: Fact | None, incoming: Fact, later: Fact | None, floor: float) -> Plan:
    """Put a value that became known in the past into its place, after `earlier` and before what followed.

    What followed is `later`, or `earlier` said again: then that value gets a second row behind the new one.
    `earlier` is protected as a head is: by a person's word, by certainty, by trust.
    """
    if earlier is not None and (settled := _settled_beside(standing, earlier, incoming, floor, ())) is not None:
        return settled
    changed: list[Fact] = []
    restored = None
    if earlier is not None:
        restored = _said_after(earlier, incoming)
        closed, incoming = _link(earlier, incoming)
        said_at = tuple(said for said in earlier.clocks.said_at if said <= incoming.clocks.known_at)
        changed.append(replace(closed, clocks=replace(closed.clocks, said_at=said_at)))
    if restored is not None:
        incoming, restored = _link(incoming, restored)
    if later is not None:
        before = restored or incoming
        control = replace(later.control, rev=later.control.rev + 1)
        changed.append(replace(later, supersedes=before.id, control=control))
        incoming, restored = (incoming, close(restored, later)) if restored else (close(incoming, later), None)
    head = restored.id if restored is not None and restored.superseded_by is None else None
    return Plan(opened=incoming, restored=restored, changed=tuple(changed), head=head)


def _said_after(earlier: Fact, incoming: Fact) -> Fact | None:
    """The value of `earlier` as a new row from when it was said again after `incoming`; `None` when it was not."""
    said_at = [said for said in earlier.clocks.said_at if said > incoming.clocks.known_at]
    if not said_at:
        return None
    clocks = Clocks(
        known_at=said_at[0],
        recorded_at=incoming.clocks.recorded_at,
        valid_from=max(said_at[0], earlier.clocks.valid_from or said_at[0]),
        valid_until=_own_end(earlier),
        said_at=tuple(said_at[1:]),
    )
    return replace(
        earlier,
        id=RowId(sha256(f"{incoming.id} {earlier.id}".encode()).hexdigest()[:20]),
        clocks=clocks,
        control=replace(earlier.control, status=Status.CONFIRMED, rev=1),
        supersedes=None,
        superseded_by=None,
    )


def _own_end(fact: Fact) -> datetime | None:
    """The end a row has of its own, whatever closed it."""
    return fact.clocks.valid_until if fact.clocks.close_known_at is None else fact.clocks.open_until


def correct(old: Fact, decided: Plan) -> tuple[Fact, Plan] | None:
    """`old` closed by what a person put in its place, and the plan that says so too; None when the plan closes it
    already, or leaves it as the value itself.

    A value that stood before stays what it is; only a new one points back at what it took the place of.
    """
    new = decided.opened or decided.confirmed
    if new is None or old.id in {new.id, *(changed.id for changed in decided.changed)}:
        return None
    if decided.opened is not None and new.supersedes is None:
        closed, opened = _link(old, new)
        return closed, replace(decided, opened=opened, corrected=(old, opened))
    return close(old, new), decided


def _link(old: Fact, new: Fact) -> tuple[Fact, Fact]:
    """`old` closed by `new`, and `new` pointing back."""
    return close(old, new), replace(new, supersedes=old.id)


def close(old: Fact, new: Fact) -> Fact:
    """`old` ended where `new` begins, or at its own end when that comes first; an interval never runs backwards.

    A row closed a second time, by a value found later to have come in between, keeps the time at which the record
    first stored that it had ended.
    """
    own_end = _own_end(old)
    since = new.clocks.valid_from or new.clocks.known_at
    if old.clocks.valid_from is not None:
        since = max(since, old.clocks.valid_from)
    recorded_at = max(old.clocks.recorded_at, new.clocks.recorded_at)
    clocks = replace(
        old.clocks,
        valid_until=since if own_end is None else min(since, own_end),
        open_until=own_end,
        close_known_at=max(new.clocks.known_at, old.clocks.known_at),
        close_recorded_at=old.clocks.close_recorded_at or recorded_at,
    )
    control = replace(old.control, status=Status.SUPERSEDED, rev=old.control.rev + 1)
    return replace(old, clocks=clocks, control=control, superseded_by=new.id)


def _after(head: Fact, incoming: Fact) -> Fact:
    """`incoming` known strictly after `head`, also when the machine's clock went back."""
    earliest = last_said(head) + TICK
    if incoming.clocks.known_at >= earliest:
        return incoming
    moved = incoming.clocks.valid_from == incoming.clocks.known_at
    clocks = replace(incoming.clocks, known_at=earliest, valid_from=earliest if moved else incoming.clocks.valid_from)
    return replace(incoming, clocks=clocks)


def _cross_provenance(other: Fact | None, incoming: Fact) -> tuple[Doubt, ...]:
    if other is None or same_value(other, incoming):
        return ()
    reason = f"a curated source and a conversation disagree about {incoming.key}"
    return (Doubt(kind="cross-provenance", standing=other, incoming=incoming, reason=reason),)
