"""What a read leaves behind: which rows it weighed and why, by ids alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class Tier(StrEnum):
    """How far a read had to go: a slot that was asked for, the fused ranking, or a wider second look."""

    DIRECT = "direct"
    HYBRID = "hybrid"
    ESCALATED = "escalated"


class Classification(StrEnum):
    """What kind of question it was: a key of an entity, one for a search, or one about everything."""

    DIRECT_LOOKUP = "direct_lookup"
    HYBRID = "hybrid"
    FULL_CONTEXT = "full_context"


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """One row that a read looked at. `unit`: `table:key` as hits are named; `row`: the row it stands for, a turn
    for a passage. `rank`: 1 for the first hit, 0 for one that was not returned. `reason`: why it was, or was not,
    returned: a fixed word, never text of the memory.

    `signals`: by leg, what it said (text, share, cosine, graph), as far as it said anything.
    """

    unit: str
    row: str
    rank: int
    score: float
    reason: str
    signals: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """One leg of a read. `answered`: False when it was late, failed or had nothing to search in."""

    name: str
    found: int
    took_ms: float
    weight: float
    answered: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTrace:
    """One read. Texts are never in it but for `query_text`, empty unless the context asks to keep it.

    `patterns`: the region it was allowed to see, as patterns; who covers all of them may see the trace.
    `entities`: how many entities the question named. `hits`: in their order; `near_misses`: the best of what was
    weighed and not returned.
    """

    id: str
    at: datetime
    principal: str
    on_behalf_of: str | None
    key_id: str | None
    source: str
    mode: str
    tier: Tier
    classification: Classification
    reason: str
    took_ms: int
    k: int
    patterns: Sequence[str]
    session: str | None = None
    entities: int = 0
    legs: Sequence[Leg] = ()
    hits: Sequence[Weighed] = ()
    near_misses: Sequence[Weighed] = ()
    degraded: Sequence[str] = ()
    query_text: str = ""
