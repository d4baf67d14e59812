"""Words that replies carry for programs, said for people: each keeps its word in brackets, to look it up."""

from __future__ import annotations

from typing import Final

from keeps.core.policy import Drop
from keeps.core.runs import Inclusion, Reason

DROPPED: Final = {
    Drop.POLICY: "a rule, or what you allow this agent, keeps it out",
    Drop.SECRET: "it holds a secret",
    Drop.SUPPRESSED: "the same was turned down or deleted before",
    Drop.PAUSED: "saving is paused",
    Drop.OFF: "whoever runs this memory has switched saving off",
    Drop.TEMPORARY: "this is a temporary chat",
    Drop.KNOWN: "it is known already, or waits already",
    Drop.TOPIC_BLOCKED: "it is about what you do not want kept",
    Drop.INFERRED_SENSITIVE: "it is about something sensitive that you did not say yourself",
    Drop.RUN_FULL: "this run has proposed as much as it may",
    Drop.DAY_FULL: "this agent has proposed as much as it may today",
    Drop.INBOX_FULL: "too much waits already: decide about some of it with `keeps inbox`",
    Drop.STORED_FULL: "as many memories are kept as may be",
}
"""Why something was not stored."""

INCLUDED: Final = {
    Inclusion.INCLUDED: "stood in the prompt",
    Inclusion.DROPPED_BUDGET: "left out: no room was left",
    Inclusion.DROPPED_SCORE: "left out: not near enough",
    Inclusion.DROPPED_UNCONFIRMED: "left out: nobody confirmed it",
    Inclusion.DROPPED_TAINT: "left out: it rests on text from elsewhere",
    Inclusion.DROPPED_SENSITIVE: "left out: sensitive, and not asked about",
    Inclusion.DROPPED_KIND: "left out: its kind is not used here",
    Inclusion.DROPPED_MUTED: "left out: muted",
    Inclusion.DROPPED_PAUSED: "left out: use is paused",
    Inclusion.DROPPED_DUPLICATE: "left out: another says the same",
    Inclusion.WITHHELD_CONFLICT: "left out: another value contradicts it",
    Inclusion.DROPPED_QUARANTINE: "left out: held back",
}
"""Whether a memory stood in a prompt, and why not."""

LOOKED_AT: Final = {
    Reason.PINNED: "pinned",
    Reason.EXACT_SLOT: "named in the question",
    Reason.KEYWORD: "its words",
    Reason.SEMANTIC: "its meaning",
    Reason.GRAPH: "what it is related to",
    Reason.PROFILE: "about the person",
    Reason.INSTRUCTION: "how to behave",
    Reason.RECENT: "said last",
}
"""Why a memory was looked at."""

_ALL: Final[dict[str, str]] = {
    str(word): said for table in (DROPPED, INCLUDED, LOOKED_AT) for word, said in table.items()
}


def spoken(word: str) -> str:
    """A word of a reply for people, with the word itself in brackets; one that is not known as it is."""
    said = _ALL.get(word)
    return f"{said} ({word})" if said else word.replace("_", " ")
