"""Writing: one text or a list of triples, or a batch of messages, and what came of it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import ConfigDict, Field

from keeps.core.errors import Invalid, Unprocessable
from keeps.core.facts import Action, Fact, Relation
from keeps.core.modes import Infer
from keeps.core.proposals import Proposal
from keeps.core.replies import ReplyKey
from keeps.core.scopes import parse_scopes
from keeps.core.sessions import Role
from keeps.core.text import check_labels
from keeps.core.triples import parse_category, parse_triples
from keeps.wire.base import Instant, Labels, ScopeSets, WireIn, WireOut, bare_id, example
from keeps.wire.late import Late

if TYPE_CHECKING:
    from keeps.services import remember
    from keeps.services.incoming import EntitySeen, Extraction, Left
    from keeps.services.remember import Remember, Remembered
else:
    remember = Late("keeps.services.remember")


_SNAKE = ConfigDict(alias_generator=None)
_NAMED: Final = {
    "type": "object",
    "required": ["type", "name"],
    "properties": {"type": {"type": "string"}, "name": {"type": "string"}},
}
_MOMENT: Final = {"type": "string", "format": "date-time"}
_TRIPLES: Final[dict[str, Any]] = {
    "items": {
        "type": "object",
        "description": "One thing stated. One of value, target and verb says of which family it is; none of "
        "them: the entity itself.",
        "required": ["entity"],
        "properties": {
            "entity": _NAMED,
            "key": {"type": "string"},
            "value": {"type": "string"},
            "target": _NAMED,
            "verb": {"type": "string"},
            "object": {"type": "string"},
            "summary": {"type": "string"},
            "memory_category": {"type": "string"},
            "confidence": {"type": "number", "minimum": 0, "maximum": 1},
            "occurred_at": _MOMENT,
            "temporal_hint": {"type": "string"},
            "valid_from": _MOMENT,
            "valid_until": _MOMENT,
            "source_clause": {"type": "string"},
        },
    }
}
KINDS: Final = frozenset({"preference", "note", "topic", "insight", "fact", "goal", "event"})
"""What a caller may say a memory is."""

WAITING: Final = "waits for approval"
TURN: Final = "turn"
"""The kind of what was said, among what was not kept."""

_MAX_ADDRESSEES: Final = 8
_MAX_ADDRESSEE_CHARS: Final = 128
_MAX_ADDRESSEE_WORDS: Final = 8
_ADDRESSEE: Final = re.compile(r"[\w '.-]*[^\W_][\w '.-]*")


def check_addressees(names: Sequence[str]) -> tuple[str, ...]:
    """Who a message is spoken to: at most 8 names of at most 8 words and 128 characters, composed.

    Raises: Unprocessable.
    """
    if len(names) > _MAX_ADDRESSEES:
        raise Unprocessable(f"at most {_MAX_ADDRESSEES} addressees are accepted")
    # Before they are composed: the time that takes can grow with the square of the length.
    if any(len(name) > _MAX_ADDRESSEE_CHARS * 4 for name in names):
        raise Unprocessable(f"an addressee has at most {_MAX_ADDRESSEE_CHARS} characters")
    checked = tuple(unicodedata.normalize("NFC", name).strip() for name in names)
    for name in checked:
        fits = len(name) <= _MAX_ADDRESSEE_CHARS and len(name.split()) <= _MAX_ADDRESSEE_WORDS
        if not fits or not _ADDRESSEE.fullmatch(name) or name.casefold() == "self":
            raise Unprocessable("an addressee is a name of letters, digits, spaces and ' - . _, and not self")
    return checked


def check_kind(kind: str | None) -> str | None:
    """A kind a caller may give, None unchanged. Raises: Unprocessable."""
    if kind is not None and kind not in KINDS:
        raise Unprocessable(f"kind is one of {', '.join(sorted(KINDS))}")
    return kind


class FactsIn(WireIn):
    """A text to remember, or with `infer: triples` facts as given."""

    model_config = _SNAKE | example(
        infer="triples",
        triples=[
            {"entity": {"type": "person", "name": "Mara"}, "key": "role", "value": "harbour pilot"},
            {
                "entity": {"type": "person", "name": "Mara"},
                "key": "works_at",
                "target": {"type": "organisation", "name": "North Port"},
            },
        ],
        scopes=[["user/mara"]],
        observed_at="2026-03-02T09:04:00Z",
    )
    also: ClassVar[Mapping[str, tuple[str, ...]]] = {"scopes": ("scope",)}

    text: str | None = None
    infer: Infer = Infer.FULL
    session_id: str | None = None
    scopes: ScopeSets = None
    role: Role = Role.USER
    speaker: str | None = None
    memory_category: str | None = None
    labels: Labels = ()
    observed_at: Instant | None = None
    addressees: tuple[str, ...] = ()
    triples: Annotated[tuple[Any, ...], Field(json_schema_extra=_TRIPLES)] = ()
    kind: str | None = None
    metadata: dict[str, Any] | None = None
    run_id: str | None = None
    user_asked: bool = False

    def to_core(self, *, now: datetime, lenient: bool, reply: ReplyKey | None = None) -> Remember:
        """The write this asks for. `lenient`: an unknown category counts as `context`.

        Raises: Invalid, Unprocessable, Conflict for too many labels.
        """
        takes_triples = self.infer is Infer.TRIPLES
        if self.text is None and not takes_triples:
            raise Invalid("text is required")
        if self.triples and not takes_triples:
            raise Invalid("triples are taken only with infer: triples")
        listens = self.infer in {Infer.FULL, Infer.PREVIEW}
        addressees = check_addressees(self.addressees) if listens else ()
        said = remember.Message(text=self.text or "", role=self.role, speaker=self.speaker, addressees=addressees)
        category = None
        if self.memory_category is not None:
            category = parse_category(self.memory_category, lenient=lenient)
        return remember.Remember(
            infer=self.infer,
            messages=() if self.text is None else (said,),
            triples=parse_triples(self.triples, anchor=self.observed_at or now, lenient_category=lenient)
            if takes_triples
            else (),
            session=bare_id(self.session_id, "session"),
            scope=parse_scopes(self.scopes),
            labels=check_labels(self.labels),
            observed_at=self.observed_at,
            category=category,
            kind=check_kind(self.kind),
            metadata=self.metadata,
            run=bare_id(self.run_id, "run"),
            asked=self.user_asked,
            reply=reply,
        )


class MessageIn(WireIn):
    """One message of a conversation. `ts` is when it was said."""

    model_config = _SNAKE
    also: ClassVar[Mapping[str, tuple[str, ...]]] = {"content": ("text",)}

    role: Role = Role.USER
    content: str
    ts: Instant | None = None
    speaker: str | None = None
    addressees: tuple[str, ...] = ()


class BatchIn(WireIn):
    """Messages of one conversation, in order."""

    model_config = _SNAKE | example(
        messages=[
            {"role": "user", "speaker": "Mara", "content": "I work nights this week.", "ts": "2026-03-02T09:04:00Z"},
            {"role": "assistant", "content": "Then I will not call before noon."},
        ],
        infer="none",
        scopes=[["user/mara"]],
    )
    also: ClassVar[Mapping[str, tuple[str, ...]]] = {"scopes": ("scope",), "messages": ("items",)}

    messages: Annotated[list[MessageIn], Field(min_length=1, max_length=1000)]
    session_id: str | None = None
    scopes: ScopeSets = None
    extract: Literal["whole_conversation", "per_message"] = "whole_conversation"
    infer: Infer = Infer.FULL
    labels: Labels = ()
    metadata: dict[str, Any] | None = None
    run_id: str | None = None

    def to_core(self, *, reply: ReplyKey | None = None) -> Remember:
        """The write this asks for. Raises: Invalid, Unprocessable, Conflict for too many labels."""
        if self.infer is Infer.TRIPLES:
            raise Invalid("a batch holds messages: send triples to /facts")
        listens = self.infer in {Infer.FULL, Infer.PREVIEW}
        return remember.Remember(
            infer=self.infer,
            messages=tuple(
                remember.Message(
                    text=message.content,
                    role=message.role,
                    speaker=message.speaker,
                    observed_at=message.ts,
                    addressees=check_addressees(message.addressees) if listens else (),
                )
                for message in self.messages
            ),
            session=bare_id(self.session_id, "session"),
            scope=parse_scopes(self.scopes),
            labels=check_labels(self.labels),
            metadata=self.metadata,
            run=bare_id(self.run_id, "run"),
            reply=reply,
        )


class EntitySummary(WireOut):
    id: str
    name: str
    entity_type: str
    memory_category: str
    is_new: bool

    @classmethod
    def of(cls, seen: EntitySeen) -> Self:
        return cls(
            id=seen.ref.wire,
            name=seen.name,
            entity_type=seen.ref.type.value,
            memory_category=seen.category.value,
            is_new=seen.is_new,
        )


class AttributeSummary(WireOut):
    id: str
    entity_id: str
    key: str
    value: str
    memory_category: str

    @classmethod
    def of(cls, fact: Fact) -> Self:
        return cls(
            id=fact.id,
            entity_id=fact.entity.wire,
            key=fact.key,
            value=fact.value,
            memory_category=fact.category.value,
        )


class RelationSummary(WireOut):
    subject: str
    label: str
    object: str
    memory_category: str

    @classmethod
    def of(cls, relation: Relation) -> Self:
        return cls(
            subject=relation.subject.name,
            label=relation.label,
            object=relation.object.name,
            memory_category=relation.category.value,
        )


class ActionSummary(WireOut):
    actor: str
    verb: str
    summary: str
    memory_category: str
    object: str | None = None
    occurred_at: datetime | None = None

    @classmethod
    def of(cls, action: Action) -> Self:
        return cls(
            actor=action.actor.name,
            verb=action.verb,
            summary=action.summary,
            memory_category=action.category.value,
            object=action.object.name if action.object else action.object_text,
            occurred_at=action.occurred_at,
        )


class InstructionSummary(WireOut):
    id: str
    label: str
    description: str


class UncertaintySummary(WireOut):
    about: str
    reason: str


class CorrectionSummary(WireOut):
    entity_id: str
    key: str
    old_value: str
    new_value: str

    @classmethod
    def of(cls, old: Fact, new: Fact) -> Self:
        return cls(entity_id=new.entity.wire, key=new.key, old_value=old.value, new_value=new.value)


class ProposalSummary(WireOut):
    """What waits for a person. `text` is its sentence; `reason` why it waits, one word; `conflictsWith` the memory it
    would replace. Its id is the one the memory gets when a person says yes."""

    id: str
    status: str
    kind: str
    text: str
    reason: str
    key: str | None = None
    value: str | None = None
    conflicts_with: str | None = None
    expires_at: datetime | None = None

    @classmethod
    def of(cls, proposal: Proposal) -> Self:
        row = proposal.row
        return cls(
            id=proposal.id,
            status=str(proposal.status),
            kind=proposal.kind,
            text=row.summary if row is not None else "",
            reason=proposal.reason,
            key=row.key if isinstance(row, Fact) else None,
            value=row.value if isinstance(row, Fact) else None,
            conflicts_with=proposal.conflicts_with,
            expires_at=proposal.ends_at,
        )


class DroppedSummary(WireOut):
    """What was not stored, and why, one word. `index`: its place in `triples`; absent for what was said. Nothing of
    what it says is repeated: this reply may be kept, and nothing else of it is."""

    reason: str
    kind: str
    index: int | None = None

    @classmethod
    def of(cls, left: Left) -> Self:
        return cls(reason=str(left.why), kind=left.kind, index=left.number)


class ExtractionResult(WireOut):
    """What a write changed. `turnId` is empty when no turn was stored.

    What waits for a person stands in `uncertainties`, and as it is in `proposals`; it is never listed as stored.
    `dropped` names what was not stored at all.
    """

    turn_id: str
    entities: tuple[EntitySummary, ...] = ()
    attributes: tuple[AttributeSummary, ...] = ()
    relations: tuple[RelationSummary, ...] = ()
    actions: tuple[ActionSummary, ...] = ()
    instructions: tuple[InstructionSummary, ...] = ()
    uncertainties: tuple[UncertaintySummary, ...] = ()
    corrections: tuple[CorrectionSummary, ...] = ()
    proposals: tuple[ProposalSummary, ...] | None = None
    dropped: tuple[DroppedSummary, ...] | None = None

    @classmethod
    def of(cls, done: Extraction, turn_id: str) -> Self:
        doubts = [UncertaintySummary(about=d.incoming.summary, reason=d.reason) for d in done.doubts]
        asked = [UncertaintySummary(about=about, reason=reason) for about, reason in done.questions]
        rows = [proposal.row for proposal in done.proposals if proposal.row is not None]
        waiting = [UncertaintySummary(about=row.summary, reason=WAITING) for row in rows]
        return cls(
            turn_id=turn_id,
            entities=tuple(map(EntitySummary.of, done.entities)),
            attributes=tuple(map(AttributeSummary.of, done.facts)),
            relations=tuple(map(RelationSummary.of, done.relations)),
            actions=tuple(map(ActionSummary.of, done.actions)),
            uncertainties=(*doubts, *asked, *waiting),
            corrections=tuple(CorrectionSummary.of(old, new) for old, new in done.corrections),
            proposals=tuple(map(ProposalSummary.of, done.proposals)) or None,
            dropped=tuple(map(DroppedSummary.of, done.dropped)) or None,
        )


class FactsOut(WireOut):
    """The reply to a write. `chunkId` is the first passage of the turn. `dropped`: why what was said was not kept;
    `removed`: classes of secrets that were taken out of it."""

    mode: str
    session_id: str
    turn_id: str | None = None
    chunk_id: str | None = None
    preview: bool = False
    extraction: ExtractionResult | None = None
    dropped: tuple[DroppedSummary, ...] | None = None
    removed: tuple[str, ...] | None = None

    @classmethod
    def of(cls, done: Remembered) -> Self:
        turn_id = done.turns[0] if done.turns else None
        extraction = done.extraction
        return cls(
            mode=done.infer.value,
            session_id=done.session,
            turn_id=turn_id,
            chunk_id=done.chunks[0] if done.chunks else None,
            preview=done.infer is Infer.PREVIEW,
            extraction=None if extraction is None else ExtractionResult.of(extraction, turn_id or ""),
            dropped=_not_said(done),
            removed=done.removed or None,
        )


def _not_said(done: Remembered) -> tuple[DroppedSummary, ...] | None:
    """Why nothing of the conversation was kept, when it was not."""
    return None if done.stopped is None else (DroppedSummary(reason=str(done.stopped), kind=TURN),)


class BatchOut(WireOut):
    """The reply to a batch: one turn id a message, in order, and the first passage of each turn. When nothing of a
    conversation may be kept both are empty, and `dropped` says why."""

    session_id: str
    turn_ids: list[str]
    extractions: list[ExtractionResult]
    chunk_ids: list[str]
    dropped: tuple[DroppedSummary, ...] | None = None
    removed: tuple[str, ...] | None = None

    @classmethod
    def of(cls, done: Remembered, *, per_message: bool) -> Self:
        extractions: list[ExtractionResult] = []
        if done.extraction is not None:
            # Nothing is taken out of a text without a model, so each message of its own came to nothing.
            turns = done.turns if per_message else done.turns[:1]
            extractions = [ExtractionResult.of(done.extraction, turn) for turn in turns or [""]]
        return cls(
            session_id=done.session,
            turn_ids=list(done.turns),
            extractions=extractions,
            chunk_ids=[chunk for chunk in done.chunks if chunk is not None],
            dropped=_not_said(done),
            removed=done.removed or None,
        )
