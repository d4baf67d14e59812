"""Memories on the wire: what a person saves, sees and decides about. Every member counts; unknown ones are refused."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, cast

from pydantic import ConfigDict, Field, model_validator

from keeps.core.errors import Invalid
from keeps.core.facts import Fact, Status
from keeps.core.memories import Memory, OnConflict
from keeps.core.pages import PageRequest
from keeps.core.runs import Uses
from keeps.core.scopes import parse_scopes
from keeps.wire.base import Instant, ScopeSets, StrictIn, WireOut, bare_id, example
from keeps.wire.late import Late
from keeps.wire.pages import PageMeta, PageQuery
from keeps.wire.rows import SourceRef

if TYPE_CHECKING:
    from keeps.services import edits, memories
    from keeps.services.memories import Edit, ListMemories, Save, Saved
else:
    edits = Late("keeps.services.edits")
    memories = Late("keeps.services.memories")

MAX_TEXT_CHARS = 8_192
"""A longer text is refused before anything reads it; what each kind allows is less."""

TABLES = ("attribute", "relates_to", "action", "proposal", "memory")
"""Prefixes an id may come with."""

_Text = Annotated[str, Field(max_length=MAX_TEXT_CHARS)]
_Word = Annotated[str, Field(max_length=128)]


class MemoryIn(StrictIn):
    """A memory to keep. `slot`: what it is about; the same slot again replaces it. Who says so, what it is worth and
    when it was known are never taken from a request."""

    model_config = example(kind="preference", text="Prefers short answers", slot="answer_length")
    also: ClassVar[Mapping[str, tuple[str, ...]]] = {"scopes": ("scope",)}

    kind: _Word
    text: _Text
    slot: Annotated[str, Field(max_length=128)] | None = None
    scopes: ScopeSets = None
    source: Literal["sheet", "api"] = "api"
    run_id: Annotated[str, Field(max_length=128)] | None = None

    def to_core(self) -> Save:
        """The memory this saves. Raises: Invalid for bad scopes."""
        return memories.Save(
            kind=self.kind,
            text=self.text,
            slot=self.slot,
            scope=parse_scopes(self.scopes),
            source=self.source,
            run=bare_id(self.run_id, "run"),
        )


class MemoryChangeIn(StrictIn):
    """What changes on a memory. `expiresAt` null: it lasts. Its slot stays: its history belongs to it."""

    model_config = example(text="Prefers short answers with examples", pinned=True)

    text: _Text | None = None
    kind: _Word | None = None
    muted: Annotated[bool, Field(strict=True)] | None = None
    pinned: Annotated[bool, Field(strict=True)] | None = None
    expires_at: Instant | None = None
    lasts: bool = False

    @model_validator(mode="before")
    @classmethod
    def _null_means_for_good(cls, data: object) -> object:
        if not isinstance(data, Mapping):
            return data
        members = cast("Mapping[str, object]", data)
        if "slot" in members:
            raise Invalid(
                "slot: a memory stays in the slot its history belongs to. Save the text under the other slot with "
                "POST /memories, then retire this one"
            )
        ends = [name for name in ("expiresAt", "expires_at") if name in members and members[name] is None]
        if not ends:
            return members
        return {name: value for name, value in members.items() if name not in ends} | {"lasts": True}

    def to_core(self) -> Edit:
        """The change. Raises: Invalid when nothing changes."""
        change = edits.Edit(
            text=self.text,
            kind=self.kind,
            muted=self.muted,
            pinned=self.pinned,
            expires_at=self.expires_at,
            lasts=self.lasts,
        )
        if change == edits.Edit():
            raise Invalid("say what changes: text, kind, muted, pinned or expiresAt")
        return change


class ConfirmIn(StrictIn):
    """A yes. `onConflict`: what becomes of a value that stands there; `text`: kept in these words instead."""

    model_config = example(onConflict="replace")

    on_conflict: OnConflict = OnConflict.REPLACE
    text: _Text | None = None


class RenewIn(StrictIn):
    """Until when it is in use again; without it for the life its kind has."""

    model_config = example(expiresAt="2027-03-02T09:04:00Z")

    expires_at: Instant | None = None


class NothingIn(StrictIn):
    """A decision that needs no further word."""

    model_config = ConfigDict(json_schema_extra={"examples": [{}]})


class MemoriesQuery(PageQuery):
    """Which memories: of a status, a kind, a slot, an agent that proposed them, or that hold the words `q`."""

    status: Status | None = None
    kind: _Word | None = None
    slot: _Word | None = None
    q: Annotated[str, Field(max_length=256)] | None = None
    agent: _Word | None = None

    def to_core(self, page: PageRequest) -> ListMemories:
        """The list this asks for. Raises: Invalid with a count or an offset: such a list has neither."""
        if page.count or page.offset:
            raise Invalid("this list is walked with its cursor: leave count and offset out")
        return memories.ListMemories(
            status=self.status,
            kind=self.kind,
            slot=self.slot,
            words=self.q,
            agent=bare_id(self.agent, "principal"),
            page=page,
        )


class UsesOut(WireOut):
    """How often a memory stood in a prompt and how often an answer cited it, once a run each; when, and in a run of
    which agent, it last was put into one."""

    offered: int
    cited: int
    last_at: datetime | None = None
    last_by: str | None = None

    @classmethod
    def of(cls, uses: Uses) -> Self:
        return cls(offered=uses.offered, cited=uses.cited, last_at=uses.last_at, last_by=uses.last_by)


class MemoryOut(WireOut):
    """One version of one remembered thing, kept or waiting. Without `text` that is gone. `sentence` is how it is put
    before a model. `rev` is what `If-Match` takes. Until `undoUntil` a deleted one can be brought back. `uses` is
    told to the person it belongs to, of what is kept."""

    id: str
    status: str
    kind: str
    rev: int
    scope: list[list[str]]
    text: str | None = None
    slot: str | None = None
    sentence: str | None = None
    entity: str | None = None
    origin: str | None = None
    user_confirmed: bool | None = None
    trust: float | None = None
    sensitivity: str | None = None
    topics: tuple[str, ...] = ()
    taint: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    muted: bool = False
    pinned: bool = False
    source: SourceRef | None = None
    proposed_by: str | None = None
    confirmed_by: str | None = None
    status_reason: str | None = None
    status_by: str | None = None
    status_at: datetime | None = None
    supersedes: str | None = None
    superseded_by: str | None = None
    conflicts_with: str | None = None
    reasons: tuple[str, ...] = ()
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    expires_at: datetime | None = None
    created_at: datetime | None = None
    undo_until: datetime | None = None
    uses: UsesOut | None = None

    @classmethod
    def of(cls, memory: Memory) -> Self:
        return cls(
            id=memory.id,
            status=str(memory.status),
            kind=memory.kind,
            rev=memory.rev,
            scope=memory.scope.to_wire(),
            text=memory.text,
            slot=memory.slot,
            created_at=memory.at,
            undo_until=memory.undo_until,
            uses=UsesOut.of(memory.uses) if memory.uses is not None else None,
            **(_of_row(memory) | _of_proposal(memory)),
        )


def _of_row(memory: Memory) -> dict[str, Any]:
    row = memory.row
    if row is None:
        return {}
    control = row.control
    fact = row if isinstance(row, Fact) else None
    return {
        "sentence": row.summary,
        "entity": fact.entity.wire if fact is not None else None,
        "origin": str(control.origin),
        "user_confirmed": control.user_confirmed,
        "trust": control.trust,
        "sensitivity": control.sensitivity,
        "topics": tuple(sorted(control.topics)),
        "taint": tuple(sorted(control.taint)),
        "flags": tuple(sorted(control.flags)),
        "muted": control.muted,
        "pinned": control.pinned,
        "source": SourceRef.of(row.source),
        "proposed_by": control.proposed_by,
        "confirmed_by": control.confirmed_by,
        "status_reason": control.status_reason,
        "status_by": control.status_by,
        "status_at": control.status_at,
        "supersedes": fact.supersedes if fact is not None else None,
        "superseded_by": fact.superseded_by if fact is not None else None,
        "valid_from": row.clocks.valid_from,
        "valid_until": row.clocks.valid_until,
        "expires_at": control.expires_at,
    }


def _of_proposal(memory: Memory) -> dict[str, Any]:
    proposal = memory.proposal
    if proposal is None:
        return {}
    return {
        "proposed_by": proposal.proposed_by,
        "status_reason": proposal.reason,
        "status_by": proposal.status_by,
        "status_at": proposal.status_at,
        "conflicts_with": proposal.conflicts_with,
        "reasons": proposal.reasons,
        "expires_at": proposal.ends_at,
    }


class SavedOut(MemoryOut):
    """The memory that was saved, or `dropped` and why nothing was stored."""

    id: str = ""
    status: str = "dropped"
    rev: int = 0
    scope: list[list[str]] = Field(default_factory=list[list[str]])
    dropped: bool = False
    reason: str | None = None

    @classmethod
    def of_saved(cls, done: Saved) -> Self:
        if done.memory is not None:
            return cls.of(done.memory)
        assert done.dropped is not None
        return cls(kind=done.dropped.kind, dropped=True, reason=str(done.dropped.why))


class MemoriesOut(WireOut):
    """A page of memories, the one written down last first."""

    memories: list[MemoryOut]
    page: PageMeta


class MemoryHistoryOut(WireOut):
    """Every version of a memory, the newest first."""

    versions: list[MemoryOut]
