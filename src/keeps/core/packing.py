"""How much memory may stand in one prompt, and which of it does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final, TypeVar

from keeps.core.errors import Invalid
from keeps.core.runs import Inclusion


class Unconfirmed(StrEnum):
    """Whether what nobody confirmed may stand in a prompt: never, marked as a guess, or marked and ranked alike."""

    NEVER = "never"
    LABEL = "label"
    ALLOW = "allow"


class Tainted(StrEnum):
    """Whether text from outside may stand in a prompt: never, or once a person confirmed it."""

    NEVER = "never"
    CONFIRMED_ONLY = "confirmed_only"


class SensitiveUse(StrEnum):
    """Whether sensitive matters may stand in a prompt: never, or when the question is about them."""

    NEVER = "never"
    ON_TOPIC = "on_topic"


UNLIMITED_KINDS: Final[frozenset[str] | None] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What one prompt may hold. `max_tokens` counts the whole block. `kinds` None: every kind that may be prompted.

    `max_per_source`: from one session, document, tool or agent. `min_score`, `min_trust` 0..1; `min_trust_guess` is
    the floor of what is marked as a guess. `timeout_ms`: after that there is no block.
    """

    max_memories: int = 8
    max_tokens: int = 600
    max_per_kind: int = 4
    max_per_source: int = 3
    kinds: frozenset[str] | None = UNLIMITED_KINDS
    allow_unconfirmed: Unconfirmed = Unconfirmed.NEVER
    allow_tainted: Tainted = Tainted.CONFIRMED_ONLY
    allow_sensitive: SensitiveUse = SensitiveUse.ON_TOPIC
    min_score: float = 0.25
    min_trust: float = 0.5
    min_trust_guess: float = 0.35
    max_age_days: int | None = None
    timeout_ms: int = 1500

    def narrowed(self, other: Budget) -> Budget:
        """The stricter of both in every field; it does not matter which comes first."""
        return Budget(
            max_memories=min(self.max_memories, other.max_memories),
            max_tokens=min(self.max_tokens, other.max_tokens),
            max_per_kind=min(self.max_per_kind, other.max_per_kind),
            max_per_source=min(self.max_per_source, other.max_per_source),
            kinds=_both(self.kinds, other.kinds),
            allow_unconfirmed=_stricter(self.allow_unconfirmed, other.allow_unconfirmed),
            allow_tainted=_stricter(self.allow_tainted, other.allow_tainted),
            allow_sensitive=_stricter(self.allow_sensitive, other.allow_sensitive),
            min_score=max(self.min_score, other.min_score),
            min_trust=max(self.min_trust, other.min_trust),
            min_trust_guess=max(self.min_trust_guess, other.min_trust_guess),
            max_age_days=_least(self.max_age_days, other.max_age_days),
            timeout_ms=min(self.timeout_ms, other.timeout_ms),
        )


RANGES: Final[Mapping[str, tuple[float, float]]] = {
    "max_memories": (0, 50),
    "max_tokens": (0, 8000),
    "max_per_kind": (0, 50),
    "max_per_source": (1, 50),
    "min_score": (0, 1),
    "min_trust": (0, 1),
    "min_trust_guess": (0, 1),
    "max_age_days": (0, 36_500),
    "timeout_ms": (50, 10_000),
}
"""The smallest and the largest value of each number of a budget."""

LOOSEST: Final = Budget(
    max_memories=50,
    max_tokens=8000,
    max_per_kind=50,
    max_per_source=50,
    allow_unconfirmed=Unconfirmed.ALLOW,
    min_score=0.0,
    min_trust=0.0,
    min_trust_guess=0.0,
    timeout_ms=10_000,
)
"""The budget that narrows no other: what a request that says nothing asks for."""


def check_budget(budget: Budget) -> Budget:
    """The budget itself. Raises: Invalid for a number outside of its range."""
    for name, (least, most) in RANGES.items():
        value = getattr(budget, name)
        if value is not None and not least <= value <= most:
            raise Invalid(f"bad budget: {name} must be {least:g} to {most:g}")
    return budget


_Choice = TypeVar("_Choice", Unconfirmed, Tainted, SensitiveUse)


def _stricter(one: _Choice, other: _Choice) -> _Choice:
    """The one that is declared first: the members stand from strict to loose."""
    order = list(type(one))
    return min(one, other, key=order.index)


def _both(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _least(one: int | None, other: int | None) -> int | None:
    return min((days for days in (one, other) if days is not None), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteBudget:
    """How much may be proposed and kept, counted in memories."""

    max_proposals_per_run: int = 5
    max_proposals_per_day: int = 50
    max_inbox: int = 100
    max_stored: int = 10_000


def tokens_of(text: str) -> int:
    """About how many tokens a model reads `text` as: a guess that needs no tokeniser, rather too high than too low.

    3.5 characters of ASCII make one (OpenAI says 4 of English, DeepSeek 3.3), and 3 bytes of UTF-8 of all else: that is
    one character of Chinese, for which DeepSeek counts .6. Of two texts together never more than of each, added up.
    """
    if text.isascii():
        return -(-len(text) * 2 // 7)
    plain = len(text.encode("ascii", "ignore"))
    other = len(text.encode("utf-8", "surrogatepass")) - plain
    return -(-(plain * 6 + other * 7) // 21)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One memory that may stand in the prompt. `score`: its place, the larger the better; `tokens`: of its line.

    `source`: the session, document, tool or agent it came from; None counts against no such limit. `guess`: nobody
    confirmed it. `section`: the part of the block it stands in. `slot`: names what it says something about, where only
    one value can be right.
    """

    id: str
    kind: str
    score: float
    at: datetime
    tokens: int
    source: str | None = None
    pinned: bool = False
    guess: bool = False
    trust: float = 1.0
    section: str = ""
    slot: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """What stands in the prompt, in order; why each of the others does not, by id; the tokens of the whole block."""

    chosen: tuple[Item, ...] = ()
    left_out: Mapping[str, Inclusion] = field(default_factory=dict[str, Inclusion])
    tokens: int = 0


def pack(items: Iterable[Item], budget: Budget, *, overhead: Mapping[str, int] | None = None) -> Packed:
    """What fits of the items: pinned ones first, then by score, the newest, the id; nothing is cut.

    What does not fit is left out and the next is tried. `overhead`: tokens that each section costs once it holds
    anything. Of items with one slot only the one with the highest trust enters. An id counts once. The order in which
    items are given makes no difference.
    """
    overhead = overhead or {}
    ranked = sorted(items, key=lambda item: _rank(item, budget), reverse=True)
    left_out: dict[str, Inclusion] = {}
    best = _best_of_slots(ranked)
    chosen: dict[str, Item] = {}
    kinds: Counter[str] = Counter()
    sources: Counter[str] = Counter()
    opened: set[str] = set()
    tokens = 0
    for item in ranked:
        if item.id in chosen or item.id in left_out:
            continue
        if item.slot is not None and best[item.slot] != item.id:
            left_out[item.id] = Inclusion.WITHHELD_CONFLICT
            continue
        cost = item.tokens + (0 if item.section in opened else overhead.get(item.section, 0))
        full = (
            len(chosen) >= budget.max_memories
            or kinds[item.kind] >= budget.max_per_kind
            or (item.source is not None and sources[item.source] >= budget.max_per_source)
            or tokens + cost > budget.max_tokens
        )
        if full:
            left_out[item.id] = Inclusion.DROPPED_BUDGET
            continue
        chosen[item.id] = item
        opened.add(item.section)
        kinds[item.kind] += 1
        if item.source is not None:
            sources[item.source] += 1
        tokens += cost
    return Packed(chosen=tuple(chosen.values()), left_out=left_out, tokens=tokens)


def _rank(item: Item, budget: Budget) -> tuple[bool, bool, float, datetime, str, float]:
    last = item.guess and budget.allow_unconfirmed is not Unconfirmed.ALLOW
    return item.pinned, not last, item.score, item.at, item.id, item.trust


def _best_of_slots(ranked: Iterable[Item]) -> dict[str, str]:
    """For each slot the item that may stand for it: the highest trust, then the best place."""
    best: dict[str, Item] = {}
    for item in ranked:
        if item.slot is not None and (item.slot not in best or item.trust > best[item.slot].trust):
            best[item.slot] = item
    return {slot: item.id for slot, item in best.items()}
