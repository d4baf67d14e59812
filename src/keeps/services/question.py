"""A question as the legs see it, and what a leg has to say of a row."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, ParamSpec, TypeVar

from keeps.core.entities import EntityRef
from keeps.core.fusion import Signals
from keeps.core.modes import Include, Mode
from keeps.core.sessions import Past
from keeps.core.validity import NOW, When
from keeps.finder.base import Kind, Only

P = ParamSpec("P")
R = TypeVar("R")

LONG_QUESTION: Final = 8 * 1024
"""Questions of more characters are taken apart in a thread: it would hold up other questions."""


async def off_loop(question: str, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """`call(*args)`, which takes `question` apart: in a thread where that is long."""
    if len(question) > LONG_QUESTION:
        return await asyncio.to_thread(call, *args, **kwargs)
    return call(*args, **kwargs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question as the legs see it. `asked`: its words as they are searched; `sets`: what may be read; `copies`: how
    many rows that say the same a leg may name, 0 for any number; `past`: which passages may be found, None for all."""

    text: str
    asked: frozenset[str]
    sets: frozenset[str]
    now: datetime
    mode: Mode = Mode.HYBRID
    include: frozenset[Include] = frozenset(Include)
    when: When = NOW
    labels: frozenset[str] = frozenset()
    subject: EntityRef | None = None
    copies: int = 0
    past: Past | None = None

    @property
    def only(self) -> Only:
        """What the finder may find among them."""
        return Only(labels=self.labels, live=self.when.is_now, past=self.past)

    @property
    def kinds(self) -> frozenset[Kind]:
        """What the finder is to look among."""
        kinds: set[Kind] = set()
        if Include.FACTS in self.include:
            kinds.add("fact")
        if Include.PASSAGES in self.include:
            kinds.add("passage")
        return frozenset(kinds)

    @property
    def is_narrowed(self) -> bool:
        """True when the record leaves out some of what a leg finds."""
        return not self.when.is_now or self.subject is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What the legs say of one row. `lead`: above 0 it comes before what is ranked, the larger first."""

    unit: str
    signals: Signals
    lead: float = 0.0

    def __or__(self, other: Mark) -> Mark:
        """Both as one, each signal at its larger."""
        one, two = self.signals, other.signals
        nearer = max(one, two, key=lambda said: -2.0 if said.cosine is None else said.cosine)
        signals = Signals(
            text=max(one.text, two.text),
            share=max(one.share, two.share),
            named=max(one.named, two.named),
            fact=one.fact or two.fact,
            cosine=nearer.cosine,
            usual=nearer.usual,
            graph=max(one.graph, two.graph),
            sparse=max(one.sparse, two.sparse),
            direct=one.direct or two.direct,
            assistant=one.assistant or two.assistant,
            asks=one.asks or two.asks,
            before=one.before or two.before,
        )
        best = max(self, other, key=lambda mark: max(mark.signals.share, mark.signals.cosine or 0.0))
        return Mark(unit=best.unit, signals=signals, lead=max(self.lead, other.lead))


Marks = Mapping[str, Mark]
"""What is said of rows, by ref."""
