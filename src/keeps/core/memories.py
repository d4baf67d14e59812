"""Memories as people see them: something kept or something that waits, with where it stands."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from keeps.core.errors import Invalid, Unprocessable
from keeps.core.facts import Action, Fact, Relation, Row, RowId, Status
from keeps.core.kinds import GOAL_GRACE_DAYS, KINDS, Kind
from keeps.core.proposals import Proposal
from keeps.core.runs import Uses
from keeps.core.scopes import Scope
from keeps.core.settings import Settings
from keeps.core.summaries import NOTE_PREFIX
from keeps.core.text import clean

_SLOT: Final = re.compile(r"[a-z0-9_]{1,64}")

MAX_PINNED: Final = 5
"""How many memories of one scope may be pinned."""

SHOWN: Final = frozenset({Status.CONFIRMED, Status.PROPOSED, Status.QUARANTINED, Status.EXPIRED})
"""What a list holds that asks for no status: what is kept, what waits, and what a person may still renew."""

_TABLES: Final = {Fact: "attribute", Relation: "relates_to", Action: "action"}


class OnConflict(StrEnum):
    """What becomes of two values for one thing when a person decides on the new one."""

    REPLACE = "replace"
    KEEP_BOTH = "keep_both"
    DISCARD = "discard"


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """One version of one remembered thing, kept or waiting. `row` None: its text is gone. `rev` changes with every
    change. `undo_until`: a deleted one can be brought back until then. `uses`: told to people, of what is kept."""

    id: RowId
    status: Status
    scope: Scope
    kind: str
    rev: int
    row: Row | None
    proposal: Proposal | None = None
    undo_until: datetime | None = None
    uses: Uses | None = None

    @property
    def ref(self) -> str:
        """Where it lies, as `table:id`."""
        if self.proposal is not None:
            return f"proposal:{self.id}"
        table = next((name for kind, name in _TABLES.items() if isinstance(self.row, kind)), "attribute")
        return f"{table}:{self.id}"

    @property
    def at(self) -> datetime | None:
        """When it was written down, or proposed."""
        if self.proposal is not None:
            return self.proposal.created_at
        return self.row.clocks.recorded_at if self.row is not None else None

    @property
    def text(self) -> str | None:
        """What it says, as it was written: the value of a fact, else its sentence."""
        if self.row is None:
            return None
        return self.row.value if isinstance(self.row, Fact) else self.row.summary

    @property
    def slot(self) -> str | None:
        """What it is about; None for a note, whose key says nothing."""
        if not isinstance(self.row, Fact) or self.row.key.startswith(NOTE_PREFIX):
            return None
        return self.row.key


def of_row(row: Row, now: datetime) -> Memory:
    """A kept row. One whose time is over counts as expired from that moment on."""
    control = row.control
    over = control.status is Status.CONFIRMED and control.expires_at is not None and control.expires_at <= now
    return Memory(
        id=row.id,
        status=Status.EXPIRED if over else control.status,
        scope=row.scope,
        kind=control.kind,
        rev=control.rev,
        row=row,
    )


def of_proposal(proposal: Proposal, scope: Scope) -> Memory:
    """A proposal; it stays to be seen, without its text, when it was decided."""
    return Memory(
        id=proposal.id,
        status=proposal.status,
        scope=scope,
        kind=proposal.kind,
        rev=proposal.rev,
        row=proposal.row,
        proposal=proposal,
    )


def check_slot(slot: str) -> str:
    """The slot. Raises: Unprocessable unless it is 1 to 64 of a-z, 0-9 and _, and not kept for notes."""
    if _SLOT.fullmatch(slot) is None or slot.startswith(NOTE_PREFIX):
        raise Unprocessable("slot is 1 to 64 of a-z, 0-9 and _, and does not begin with note_")
    return slot


def check_kind(kind: str, settings: Settings) -> Kind:
    """The kind of that name, one of ours or one the settings add. Raises: Unprocessable for an unknown one."""
    found = KINDS.get(kind)
    if found is not None and found.name != "uncertainty":
        return found
    if kind in settings.kinds:
        return Kind(name=kind, max_chars=_ADDED_MAX_CHARS)
    known = sorted({*KINDS, *settings.kinds} - {"uncertainty"})
    raise Unprocessable(f"kind is one of {', '.join(known)}")


_ADDED_MAX_CHARS: Final = 500


def check_text(text: str, kind: Kind) -> str:
    """The text as it is kept. Raises: Invalid for an empty one or one that cannot be stored, Unprocessable for one
    that is longer than its kind allows."""
    cleaned = clean(text).text
    if not cleaned:
        raise Invalid("text is empty: say what to remember")
    if len(cleaned) > kind.max_chars:
        raise Unprocessable(f"text has {len(cleaned)} characters: a {kind.name} has at most {kind.max_chars}")
    return cleaned


def life_of(kind: str, settings: Settings, now: datetime, *, until: datetime | None = None) -> datetime | None:
    """Until when something of a kind that begins now stays in use; None for good. `until`: when what it says ends of
    itself; a goal stays a while after its date."""
    if kind == _GOAL and until is not None:
        return until + timedelta(days=GOAL_GRACE_DAYS)
    known = KINDS.get(kind)
    days = settings.retention_days.get(kind, known.life_days if known is not None else None)
    return now + timedelta(days=days) if days is not None else None


_GOAL: Final = "goal"
