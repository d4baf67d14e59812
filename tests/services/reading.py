"""Traces as a read leaves them, for the tests of traces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keeps.core.access import Caller, Verb
from keeps.core.traces import Classification, Leg, ReadTrace, Tier, Weighed
from keeps.services import traces
from keeps.services.recall import Hit
from keeps.services.runtime import Context, Runtime, new_id
from keeps.store.rows import ref_of


def weighed(row: str, rank: int = 1, unit: str | None = None, **more: Any) -> Weighed:
    """A row that was returned first, because of its words."""
    given = {"score": 0.5, "reason": "its words", "signals": {"text": 0.5}} | more
    return Weighed(unit=unit or row, row=row, rank=rank, **given)


def trace_of(rt: Runtime, who: Caller, *hits: Weighed, near: Sequence[Weighed] = (), **more: Any) -> ReadTrace:
    """The trace of a read by somebody that returned `hits`."""
    given: dict[str, Any] = {
        "id": new_id(),
        "at": rt.clock(),
        "principal": who.principal_id,
        "on_behalf_of": who.delegate,
        "key_id": who.key_id,
        "source": "query",
        "mode": "hybrid",
        "tier": Tier.HYBRID,
        "classification": Classification.HYBRID,
        "reason": "ranked by the words of the question",
        "took_ms": 7,
        "k": 10,
        "patterns": tuple(map(str, who.region(Verb.MEMORY_READ).patterns)),
        "entities": 1,
        "legs": (Leg(name="text", found=4, took_ms=1.5, weight=1.0),),
        "hits": hits,
        "near_misses": tuple(near),
    }
    return ReadTrace(**given | more)


def keep(rt: Runtime, context: Context, who: Caller, *hits: Weighed, **more: Any) -> ReadTrace:
    """The same, kept."""
    trace = trace_of(rt, who, *hits, **more)
    traces.keep(rt, context, trace)
    return trace


def as_weighed(hits: Sequence[Hit]) -> list[Weighed]:
    """Hits of a recall as a trace names them."""
    return [weighed(ref_of(hit.row), rank) for rank, hit in enumerate(hits, 1)]  # type: ignore[arg-type]
