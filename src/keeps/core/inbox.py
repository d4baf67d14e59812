"""What waits for a person, as they see it: each thing once, why it waits, and what may be done about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from keeps.core.facts import Status
from keeps.core.policy import Why
from keeps.core.proposals import Proposal

SWEEP: Final = "sweep"
"""Who moves what nobody decided on."""


class Choice(StrEnum):
    """What a person may do about something that waits."""

    KEEP = "keep"
    EDIT = "edit"
    REPLACE = "replace"
    KEEP_BOTH = "keep_both"
    RELEASE = "release"
    DISCARD = "discard"
    DISCARD_AND_BLOCK = "discard_and_block"


_PLAIN: Final = (Choice.KEEP, Choice.EDIT, Choice.DISCARD, Choice.DISCARD_AND_BLOCK)
_AGAINST: Final = (Choice.REPLACE, Choice.KEEP_BOTH, Choice.EDIT, Choice.DISCARD, Choice.DISCARD_AND_BLOCK)
_HELD: Final = (Choice.DISCARD, Choice.DISCARD_AND_BLOCK, Choice.RELEASE)
_RETIRING: Final = (Choice.KEEP, Choice.DISCARD)

BECAUSE: Final[Mapping[str, str]] = {
    Why.POLICY: "nothing is kept here before somebody agrees",
    Why.CONFLICT: "another value is saved",
    Why.KIND: "this kind of memory is never kept unasked",
    Why.SENSITIVE: "it is about something sensitive",
    Why.PERSONAL: "it holds personal data",
    Why.TAINTED: "it rests on text from elsewhere that nobody vouches for",
    Why.QUARANTINE: "it looks like words to the assistant, not like something to remember",
    Why.DELETED_BEFORE: "you deleted this before",
    Why.RETIRE: "an assistant asks to use this no longer",
    Why.IMPORTED: "it was imported",
}
"""Why something waits, for people."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """One thing that waits, however often it was proposed. `newest` stands for all; `others`: the same, earlier."""

    newest: Proposal
    others: tuple[Proposal, ...] = ()

    @property
    def all(self) -> tuple[Proposal, ...]:
        """Every proposal of it."""
        return (self.newest, *self.others)

    @property
    def times(self) -> int:
        """How often it was proposed."""
        return 1 + len(self.others)

    @property
    def agents(self) -> tuple[str, ...]:
        """Who proposed it, each once, the latest first."""
        return tuple(dict.fromkeys(proposal.proposed_by for proposal in self.all))


def each_once(proposals: Iterable[Proposal]) -> list[Waiting]:
    """Proposals, given newest first, with those that say the same in the same place put together.

    What is held back is never put together with what is not. A proposal without a fingerprint stands alone.
    """
    groups: dict[tuple[str, ...], list[Proposal]] = {}
    for proposal in proposals:
        said = proposal.row.summary if proposal.row is not None else ""
        kind = "retire" if proposal.reason == Why.RETIRE else proposal.status.value
        same = (proposal.scope_set, proposal.fingerprint, kind, said)
        key = same if proposal.fingerprint else (proposal.id,)
        groups.setdefault(key, []).append(proposal)
    return [Waiting(found[0], tuple(found[1:])) for found in groups.values()]


def choices_of(proposal: Proposal) -> tuple[Choice, ...]:
    """What may be done about it, the safe choice first when it is held back."""
    if proposal.status is Status.QUARANTINED:
        return _HELD
    if proposal.reason == Why.RETIRE:
        return _RETIRING
    return _AGAINST if proposal.conflicts_with else _PLAIN


def one_by_one(proposal: Proposal) -> bool:
    """True for what nobody may decide on together with other things: held back, sensitive, or resting on text that
    nobody vouches for."""
    if proposal.status is Status.QUARANTINED or proposal.reason in (Why.SENSITIVE, Why.TAINTED, Why.QUARANTINE):
        return True
    row = proposal.row
    return row is not None and (row.control.sensitivity == "sensitive" or bool(row.control.taint))


def because(reason: str) -> str:
    """Why something waits, for people; a word that is not known as it is."""
    return BECAUSE.get(reason) or words_of(reason)


def words_of(name: str) -> str:
    """The name of a rule as plain words."""
    return name.replace("_", " ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """What became of an agent's proposals: `kept` of those `decided` on by a person; `expired` unanswered; `waiting`
    still."""

    agent: str
    kept: int = 0
    decided: int = 0
    expired: int = 0
    waiting: int = 0

    @property
    def share(self) -> float | None:
        """Of what was decided on, how much was kept, 0..1; None before anything was."""
        return self.kept / self.decided if self.decided else None


@dataclass(frozen=True, slots=True)
class Tally:
    """How many proposals of one agent ended in one status, and by whose hand."""

    agent: str
    status: Status
    by: str | None
    count: int


def rates(tallies: Iterable[Tally]) -> list[Rate]:
    """What became of each agent's proposals, by agent.

    What an agent withdrew itself, and what time ended, was decided by nobody.
    """
    found: dict[str, dict[str, int]] = {}
    for tally in tallies:
        counts = found.setdefault(tally.agent, dict.fromkeys(("kept", "decided", "expired", "waiting"), 0))
        for name in _counted_as(tally):
            counts[name] += tally.count
    return [Rate(agent=agent, **found[agent]) for agent in sorted(found)]


def _counted_as(tally: Tally) -> Sequence[str]:
    if tally.status is Status.CONFIRMED:
        return ("kept", "decided")
    if tally.status is Status.EXPIRED or (tally.status is Status.REJECTED and tally.by == SWEEP):
        return ("expired",)
    if tally.status is Status.REJECTED and tally.by != tally.agent:
        return ("decided",)
    return ("waiting",) if tally.status in (Status.PROPOSED, Status.QUARANTINED) else ()
