"""What an answer may hold: every row that was found passes here, before the best few are taken.

A gate narrows what somebody may read anyway; it never opens anything.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from keeps.core import screen
from keeps.core.access import Caller
from keeps.core.facts import Row
from keeps.core.packing import LOOSEST, Budget, SensitiveUse
from keeps.core.runs import Inclusion
from keeps.core.scopes import Scope, ScopePath
from keeps.core.sessions import Turn
from keeps.services.consent import Consent
from keeps.services.runtime import Context

if TYPE_CHECKING:
    from keeps.services.reading import Hit

PASSAGE = "passage"
"""The kind of what was said, where kinds are counted and chosen."""


class Gates:
    """The gates for one question of one caller.

    Somebody who asks about their own memory finds what they keep from agents: what is paused, and sensitive matters.
    """

    def __init__(self, context: Context, caller: Caller, *, query: str, now: datetime, k: int) -> None:
        self._consent = context.consent
        self._caller = caller
        self._query = query
        self._now = now
        self._k = k
        self._asked_topics: frozenset[str] | None = None
        self._own: dict[str, bool] = {}
        self._used: dict[str, Inclusion | None] = {}

    def refuses(self, row: Row | Turn, text: str, score: float) -> Inclusion | None:
        """Why the row may not be given to the caller; None when it may. `score`: how well it answers, 0..1."""
        if not isinstance(row, Turn) and row.control.muted:
            return Inclusion.DROPPED_MUTED
        if _is_tainted(row):
            return Inclusion.DROPPED_TAINT
        if self._is_own(row.scope):
            return None
        if (stopped := self._stopped(row.scope, kind_in(row))) is not None:
            return stopped
        if is_sensitive(row, text) and not self.on_topic(topics_of(row, text), score):
            return Inclusion.DROPPED_SENSITIVE
        return None

    def may_hear(self, turn: Turn) -> bool:
        """True when the person a turn belongs to lets the caller use memory, and nothing from outside is in it."""
        return not turn.taint and (self._is_own(turn.scope) or self._stopped(turn.scope, PASSAGE) is None)

    def choose(self, hits: Sequence[Hit]) -> Sequence[int]:
        """Places of those that make the answer, among hits given best first."""
        return range(min(self._k, len(hits)))

    def full(self, hits: Sequence[Hit]) -> bool:
        """True when these are enough to choose from."""
        return len(hits) >= self._k

    def on_topic(self, topics: frozenset[str], score: float, budget: Budget = LOOSEST) -> bool:
        """True when the question is about one of the topics, and what has them answers it well enough."""
        if budget.allow_sensitive is SensitiveUse.NEVER or score < self._consent.settings.sensitive_min_score:
            return False
        if self._asked_topics is None:
            self._asked_topics = screen.topics_of(self._query)
        return not topics.isdisjoint(self._asked_topics)

    def _stopped(self, scope: Scope, kind: str) -> Inclusion | None:
        """Whether a person whose memory this is keeps it from the caller."""
        if scope.id not in self._used:
            agent, now = self._caller.principal_id, self._now
            uses = all(controls.may_use(agent, now) for controls in self._consent.over(scope))
            self._used[scope.id] = None if uses else Inclusion.DROPPED_PAUSED
        if (paused := self._used[scope.id]) is not None:
            return paused
        for controls in self._consent.over(scope):
            kinds = controls.app(self._caller.principal_id).kinds
            if kinds is not None and kind not in kinds:
                return Inclusion.DROPPED_KIND
        return None

    def _is_own(self, scope: Scope) -> bool:
        """True when the caller is the one person whose memory this is, with a key of their own, or it is shared."""
        if scope.id not in self._own:
            consent = self._consent
            self._own[scope.id] = is_own(consent, self._caller, consent.homes_of(scope))
        return self._own[scope.id]


def is_own(consent: Consent, caller: Caller, homes: Collection[ScopePath]) -> bool:
    """True for the one person under whose homes something lies, and for every person when it is under nobody's."""
    return caller.is_person and all(consent.homes[home] == caller.principal_id for home in homes)


def kind_in(row: Row | Turn) -> str:
    """The kind of a row, where kinds are counted and chosen."""
    return PASSAGE if isinstance(row, Turn) else row.control.kind


def topics_of(row: Row | Turn, text: str) -> frozenset[str]:
    """The sensitive topics of a row; those of what was said are in its text alone."""
    return topics_in_passage(text) if isinstance(row, Turn) else row.control.topics


_PASSAGES_KNOWN: Final = 16_384
_KEY: Final = secrets.token_bytes(16)
_known: dict[bytes, frozenset[str]] = {}
"""Topics of passages that were looked at, by a keyed hash of their text: the text itself is not kept here."""


def topics_in_passage(text: str) -> frozenset[str]:
    """The sensitive topics of a passage. Looking for them costs more than all else that is done with a hit."""
    name = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16, key=_KEY).digest()
    found = _known.get(name)
    if found is None:
        found = _known[name] = screen.topics_of(text)
        if len(_known) > _PASSAGES_KNOWN:
            _known.pop(next(iter(_known)))
    return found


def is_sensitive(row: Row | Turn, text: str) -> bool:
    """True for what comes up only where the question is about it."""
    if not isinstance(row, Turn) and row.control.sensitivity == "sensitive":
        return True
    return bool(topics_of(row, text))


def _is_tainted(row: Row | Turn) -> bool:
    """True for text from outside that no person agreed to."""
    if isinstance(row, Turn):
        return bool(row.taint)
    return bool(row.control.taint) and not row.control.user_confirmed
