"""A chain in memory: what the store does with a plan, without a store."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from keeps.core.entities import EntityRef, EntityType
from keeps.core.facts import TRUST, Clocks, Control, Fact, Origin, RowId, Source
from keeps.core.scopes import Scope
from keeps.core.supersession import Plan, Standing, plan
from keeps.core.validity import When, answers

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(minutes: float) -> datetime:
    """A moment some minutes after the start of the tests' time."""
    return START + timedelta(minutes=minutes)


def fact(
    value: str,
    known: float,
    *,
    recorded: float = 0.0,
    valid_from: float | None = None,
    valid_until: float | None = None,
    confidence: float = 0.95,
    kind: str = "upsert",
    origin: Origin = Origin.APP_WRITTEN,
    confirmed: bool = False,
    id_: str = "",
    labels: tuple[str, ...] = (),
) -> Fact:
    """A fact about one slot. Times in minutes; without `valid_from` it holds from when it became known."""
    return Fact(
        id=RowId(id_ or f"{value}-{known}-{recorded}"),
        scope=Scope(),
        clocks=Clocks(
            known_at=at(known),
            recorded_at=at(recorded),
            valid_from=at(known if valid_from is None else valid_from),
            valid_until=None if valid_until is None else at(valid_until),
        ),
        source=Source(kind=kind, trust=0.95),
        control=Control(origin=origin, trust=TRUST[origin], user_confirmed=confirmed),
        confidence=confidence,
        labels=labels,
        entity=EntityRef(EntityType.PERSON, "mara"),
        key="role",
        value=value,
    )


@dataclass(slots=True)
class Chain:
    """One chain and its rows, changed by plans alone."""

    rows: dict[RowId, Fact] = field(default_factory=dict[RowId, Fact])
    head: RowId | None = None
    other_head: Fact | None = None

    def standing(self) -> Standing:
        """What a writer reads before it plans."""
        return Standing(
            versions=tuple(self.rows.values()),
            head=self.rows[self.head] if self.head else None,
            other_head=self.other_head,
            contenders=tuple(r for r in self.rows.values() if r.superseded_by is None and r.id != self.head),
        )

    def write(self, incoming: Fact, *, observed: bool = True) -> Plan:
        """Plan a write and carry it out; every id is given once."""
        incoming = replace(incoming, id=RowId(f"{len(self.rows):03d}-{incoming.id}"))
        decided = plan(self.standing(), incoming, observed=observed)
        touched = [*decided.changed, *([decided.confirmed] if decided.confirmed else [])]
        for row in touched:
            assert row.control.rev == self.rows[row.id].control.rev + 1
            self.rows[row.id] = row
        for opened in (decided.opened, decided.restored):
            if opened is not None:
                assert opened.id not in self.rows
                self.rows[opened.id] = opened
        if decided.head is not None:
            self.head = decided.head
        return decided

    def live(self) -> list[Fact]:
        """Rows that answer the present."""
        return self.asked(When())

    def asked(self, when: When, now: datetime | None = None) -> list[Fact]:
        """Rows that answer for `when`."""
        return [row for row in self.rows.values() if answers(row, when, now or at(1e6))]

    def values(self, when: When) -> list[str]:
        """Values that answer for `when`, sorted."""
        return sorted(row.value for row in self.asked(when))
