"""An agent with memory: what it is told before it answers, and what of its answer's citations is true."""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar, cast

from keeps.core.citations import Verified, safe_part, verify_cites
from keeps.loop.attempts import attempt
from keeps.loop.offers import Message, Offer, Offered, Recall, text_in

log = logging.getLogger(__name__)

TIMEOUT_S: Final = 1.5
"""How long the agent waits for its memory, seconds; and how long its answer waits for the look at what it cites."""

CITE: Final = "When you rely on one of these, write its id in brackets behind the sentence, as [id]."

_REF: Final = (
    r"\b(?:attribute|fact|relates_to|relation|action|entity|turn|memory_chunk|passage|memory|proposal|instruction"
    r"|uncertainty):[\w/.-]*\w"
)
"""A reference as the service writes it, wherever it stands."""

_ID: Final = r"(?:[a-z_]{2,24}:[\w.-]*\w|(?=[a-z]*[0-9])[a-z0-9]{20})"
"""What else looks like an id, when it stands in brackets alone."""

_NEAR: Final = r"[^\[\]\n]{0,200}"
_MARK: Final = re.compile(
    rf"[ \t]*\[{_NEAR}?{_REF}{_NEAR}\](?:\([^()\n]*\))?"
    rf"|[ \t]*(?<![\w\])])\[\s*{_ID}(?:\s*[,;]\s*{_ID})*\s*\](?!\()"
    rf"|[ \t]*\(\s*(?:id:?\s*)?{_REF}\s*\)|[ \t]*{_REF}"
)
_IDS: Final = re.compile(rf"{_REF}|{_ID}")

ReplyT = TypeVar("ReplyT")
Place = Callable[[Sequence[Message], str], Sequence[Message]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """What of memory an answer rests on, ready to be shown.

    `memories`: what it cites, each once, in its order. `also`: what the agent was shown besides. `dropped`: cites that
    were not offered in this call, no longer hold, or came twice. `uncited`: it cites, and nothing of it is true.
    """

    memories: tuple[Offered, ...] = ()
    also: tuple[Offered, ...] = ()
    dropped: int = 0
    uncited: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(Generic[ReplyT]):
    """`reply`: what the agent returned, as it is. `text`: its text without any id, for people. `run`: the run that the
    memories were offered to, None when there is none."""

    reply: ReplyT
    text: str
    used: Used = Used()
    run: str | None = None


def with_memory(
    call_agent: Callable[..., Awaitable[ReplyT] | ReplyT],
    recall: Recall | None,
    *,
    agents: Collection[str],
    timeout_s: float = TIMEOUT_S,
    place: Place | None = None,
    text: Callable[[ReplyT], str] | None = None,
    cites: Callable[[ReplyT], Sequence[str]] | None = None,
) -> Callable[..., Awaitable[Answer[ReplyT]]]:
    """`call_agent(agent, messages, **options)` with memory for the agents that are named, and for no other.

    An agent that is not named gets the very objects it was called with. A named one gets a copy of the messages with a
    block beside the last one of the user; options, such as a system prompt or tools, are never touched. Without
    `recall`, and when it is slow (`timeout_s`), empty or fails, there is no block, and nothing is raised.

    `place(messages, block)`: messages with the block where the host wants it. `text`, `cites`: the text of a reply, and
    the ids it cites; else a reply is a string or holds `content`, and ids stand in it as `[id]`. An agent that is no
    coroutine function runs in a thread. What the agent raises passes through.
    """
    if isinstance(agents, str):
        raise TypeError("agents is a collection of names, not one name")
    named = frozenset(agents)
    after = _After(recall, timeout_s, text or cast("Callable[[ReplyT], str]", text_of), cites)

    async def call(agent: str, messages: Sequence[Message], **options: Any) -> Answer[ReplyT]:
        if agent not in named or recall is None:
            reply = await _called(call_agent, agent, messages, options)
            return Answer(reply=reply, text=await after.shown(reply))
        asked = await attempt(_asked(recall, agent, messages, place or beside), timeout_s=timeout_s)
        if asked.value is None:
            log.warning("no memory for this call: %s", asked.failed)
        offer, given = asked.value or (Offer(), messages)
        reply = await _called(call_agent, agent, given, options)
        return Answer(reply=reply, text=await after.shown(reply), used=await after.used(reply, offer), run=offer.run)

    return call


@dataclass(frozen=True, slots=True)
class _After(Generic[ReplyT]):
    """What is made of a reply."""

    recall: Recall | None
    timeout_s: float
    text: Callable[[ReplyT], str]
    cites: Callable[[ReplyT], Sequence[str]] | None

    async def shown(self, reply: ReplyT) -> str:
        """The text for people: a text that cannot be told holds no id either."""
        return (await attempt(self._text(reply), timeout_s=self.timeout_s)).value or ""

    async def used(self, reply: ReplyT, offer: Offer) -> Used:
        """What the reply rests on; when that cannot be looked up now, nothing is claimed."""
        cited = (await attempt(self._cites(reply), timeout_s=self.timeout_s)).value or []
        offered = {memory.id: memory for memory in offer.memories}
        asked_for = verify_cites(cited, offered).kept
        live: frozenset[str] | None = frozenset()
        if asked_for and self.recall is not None:
            live = (await attempt(_live(self.recall, asked_for), timeout_s=self.timeout_s)).value
        if offer.run is not None and self.recall is not None:
            noted = await attempt(_report(self.recall, offer.run, cited), timeout_s=self.timeout_s)
            if noted.failed:
                log.warning("run %s was not told what its answer names: %s", offer.run, noted.failed)
        verified = verify_cites(cited, offered, live or frozenset())
        _log_dropped(verified)
        return Used(
            memories=tuple(offered[id_] for id_ in verified.kept),
            also=tuple(memory for memory in offer.memories if memory.id not in verified.kept),
            dropped=len(verified.dropped),
            uncited=verified.uncited,
        )

    async def _text(self, reply: ReplyT) -> str:
        return without_marks(self.text(reply))

    async def _cites(self, reply: ReplyT) -> Sequence[str]:
        return marks_in(self.text(reply)) if self.cites is None else list(self.cites(reply))


async def _asked(
    recall: Recall, agent: str, messages: Sequence[Message], place: Place
) -> tuple[Offer, Sequence[Message]]:
    offer = await recall.offer(agent, messages)
    return offer, (place(messages, offer.block) if offer.block else messages)


async def _live(recall: Recall, ids: Sequence[str]) -> frozenset[str]:
    return frozenset(await recall.live(ids))


async def _report(recall: Recall, run: str, cites: Sequence[str]) -> None:
    await recall.report(run, [cite for cite in cites if type(cite) is str])


async def _called(
    call_agent: Callable[..., Awaitable[ReplyT] | ReplyT], agent: str, messages: Sequence[Message], options: Any
) -> ReplyT:
    if inspect.iscoroutinefunction(call_agent) or inspect.iscoroutinefunction(getattr(call_agent, "__call__", None)):  # noqa: B004
        reply = call_agent(agent, messages, **options)
    else:
        reply = await asyncio.to_thread(call_agent, agent, messages, **options)
    return await cast("Awaitable[ReplyT]", reply) if inspect.isawaitable(reply) else cast("ReplyT", reply)


def beside(messages: Sequence[Message], block: str) -> list[Message]:
    """New messages with the block in the last one of the user, or in one of its own behind them.

    Before a text, and behind the parts of a message in parts: results of tools have to come first there.
    """
    told = f"{block}\n{CITE}"
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if message.get("role") == "user":
            content: Any = message.get("content")
            within = f"{told}\n\n{content}" if isinstance(content, str) else [*(content or ()), _part(told)]
            return [*messages[:place], {**message, "content": within}, *messages[place + 1 :]]
    return [*messages, {"role": "user", "content": told}]


def _part(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def text_of(reply: object) -> str:
    """The text of a reply: a string, a mapping with `content` or `text`, parts of these; else empty."""
    return text_in(reply)


def marks_in(text: str) -> list[str]:
    """The ids that a text cites, in order, with repeats: in brackets, or as a reference such as `attribute:k7…`."""
    return [id_ for mark in _MARK.findall(text) for id_ in _IDS.findall(mark)]


def without_marks(text: str) -> str:
    """The text without ids and their brackets. What it rests on is shown under it instead."""
    return _MARK.sub("", text)


def _log_dropped(verified: Verified) -> None:
    for cite in verified.dropped:
        log.info("a cite was dropped: %s", safe_part(cite))
