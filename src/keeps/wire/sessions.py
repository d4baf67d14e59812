"""Conversations and what was said in them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import ConfigDict

from keeps.core.errors import Invalid
from keeps.core.modes import Infer
from keeps.core.scopes import parse_scopes
from keeps.core.sessions import Role, Turn
from keeps.core.text import check_label
from keeps.wire.base import K_DEFAULT, Instant, Labels, ScopeSets, TopK, WireIn, WireOut, example
from keeps.wire.facts import FactsIn
from keeps.wire.late import Late
from keeps.wire.pages import PageMeta, PageQuery

if TYPE_CHECKING:
    from keeps.services import recall, sessions
    from keeps.services.recall import Recall
    from keeps.services.sessions import NewSession, SessionView
else:
    recall = Late("keeps.services.recall")
    sessions = Late("keeps.services.sessions")


class SessionIn(WireIn):
    """A session to begin. Without scopes it belongs where its writer's memories do."""

    model_config = example(scopes=[["user/mara"]], metadata={"channel": "phone"})
    also: ClassVar[Mapping[str, tuple[str, ...]]] = {"scopes": ("scope",)}

    scopes: ScopeSets = None
    metadata: dict[str, Any] | None = None

    def to_core(self) -> NewSession:
        """The session this asks for. Raises: Invalid for bad scopes."""
        return sessions.NewSession(scope=parse_scopes(self.scopes), metadata=self.metadata)


class SessionContextIn(WireIn):
    """A question asked in the middle of a conversation."""

    model_config = example(query="When does Mara work?", k=5)
    also: ClassVar[Mapping[str, tuple[str, ...]]] = {"k": ("limit",)}

    query: str
    k: TopK = K_DEFAULT
    labels: Labels = ()

    def to_core(self) -> Recall:
        """The question this asks. Raises: Invalid."""
        return recall.Recall(query=self.query, k=self.k, labels=frozenset(map(check_label, self.labels)))


class TurnIn(WireIn):
    """One message added to a session."""

    model_config = ConfigDict(alias_generator=None) | example(
        role="user", speaker="Mara", content="I work nights this week.", infer="none"
    )
    also: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "content": ("text",),
        "scopes": ("scope",),
        "observed_at": ("ts",),
    }

    role: Role = Role.USER
    content: str
    infer: Infer = Infer.FULL
    scopes: ScopeSets = None
    labels: Labels = ()
    observed_at: Instant | None = None
    speaker: str | None = None
    metadata: dict[str, Any] | None = None

    def facts(self, session: str) -> FactsIn:
        """The same as a write into `session`. Raises: Invalid for triples, which are no message."""
        if self.infer is Infer.TRIPLES:
            raise Invalid("a turn is a message: send triples to /facts")
        return FactsIn(
            text=self.content,
            role=self.role,
            infer=self.infer,
            session_id=session,
            scopes=self.scopes,
            labels=self.labels,
            observed_at=self.observed_at,
            speaker=self.speaker,
            metadata=self.metadata,
        )


class SessionsQuery(PageQuery):
    pass


class TurnsQuery(PageQuery):
    pass


class SessionOut(WireOut):
    id: str
    scopes: list[list[str]]
    created_at: datetime
    metadata: dict[str, Any] | None = None
    turn_count: int | None = None
    last_turn_at: datetime | None = None
    next_seq: int | None = None

    @classmethod
    def of(cls, view: SessionView) -> Self:
        session = view.session
        return cls(
            id=session.id,
            scopes=session.scope.to_wire(),
            created_at=session.created_at,
            metadata=None if session.metadata is None else dict(session.metadata),
            turn_count=view.turn_count,
            last_turn_at=view.last_turn_at,
            next_seq=view.next_seq,
        )


class SessionListOut(WireOut):
    sessions: list[SessionOut]
    page: PageMeta


class SessionContextOut(WireOut):
    context: str


class TurnOut(WireOut):
    """One message. `createdAt` is when it was said, `seq` its number from 0, `scope` whose it is for its reader."""

    id: str
    session: str
    role: str
    content: str
    seq: int
    created_at: datetime
    speaker: str | None = None
    labels: list[str] | None = None
    scope: list[list[str]] | None = None
    status: str | None = None
    origin: str | None = None
    metadata: dict[str, Any] | None = None

    @classmethod
    def of(cls, turn: Turn) -> Self:
        return cls(
            id=turn.id,
            session=turn.session,
            role=turn.role.value,
            content=turn.content,
            seq=turn.seq,
            created_at=turn.known_at,
            speaker=turn.speaker,
            labels=list(turn.labels),
            scope=turn.scope.to_wire(),
            status=turn.status.value,
            origin=turn.origin.value,
            metadata=None if turn.metadata is None else dict(turn.metadata),
        )


class TurnListOut(WireOut):
    turns: list[TurnOut]
    page: PageMeta
