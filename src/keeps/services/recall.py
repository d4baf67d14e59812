"""Recall: legs find ids, the record decides what may be shown, and only then is anything read out."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from keeps.core import access, fusion, words
from keeps.core.access import Caller, Verb
from keeps.core.entities import EntityRef
from keeps.core.errors import Invalid
from keeps.core.fusion import Fused
from keeps.core.modes import Include, Mode
from keeps.core.scopes import Lens
from keeps.core.text import check_bytes, clean
from keeps.core.traces import Classification, ReadTrace, Tier
from keeps.core.validity import NOW, When
from keeps.finder.local import stemmer
from keeps.services import legs, traces
from keeps.services.gates import Gates
from keeps.services.history import past_of
from keeps.services.legs import Looked, Search
from keeps.services.question import Question, off_loop
from keeps.services.reading import MOST_ROWS, Answer, Hit, LeftOut, Reader, candidates, kind_of
from keeps.services.runtime import Context, Runtime, new_id

__all__ = ["DEFAULT_K", "Hit", "Include", "Mode", "Recall", "Recalled", "kind_of", "nothing", "readable_sets", "recall"]

MAX_K: Final = 50
MAX_QUERY_BYTES: Final = 64 * 1024
DEFAULT_K: Final = 10

ENOUGH: Final = 0.40
"""An answer whose best score is below this is looked for again, and further."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """A question. `k` hits at most, 1..50; `lens` narrows what the caller may see; `labels` must all be there.

    `min_score`: what scores less is left out, 0..1; None leaves it to the verb. `source`: where it was asked, for its
    trace.
    """

    query: str
    k: int = DEFAULT_K
    mode: Mode = Mode.HYBRID
    include: frozenset[Include] = frozenset(Include)
    when: When = NOW
    labels: frozenset[str] = frozenset()
    lens: Lens = field(default_factory=Lens)
    session: str | None = None
    include_duplicates: bool = False
    subject: EntityRef | None = None
    min_score: float | None = None
    source: str = "query"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """The answer: hits by falling score, and how they were found. `degraded` names legs that did not answer in full,
    `left_out` what answers and may not be given."""

    hits: Sequence[Hit]
    trace: ReadTrace
    seeds: Sequence[str] = ()
    left_out: Sequence[LeftOut] = ()

    @property
    def trace_id(self) -> str:
        """The id of the trace of this read."""
        return self.trace.id

    @property
    def took_ms(self) -> int:
        """How long it took, milliseconds."""
        return self.trace.took_ms

    @property
    def reason(self) -> str:
        """Why these hits, in fixed words."""
        return self.trace.reason

    @property
    def degraded(self) -> Sequence[str]:
        """Legs that did not answer in full."""
        return self.trace.degraded

    @property
    def direct(self) -> bool:
        """True when a slot that the question names was found."""
        return self.trace.classification is Classification.DIRECT_LOOKUP


async def recall(
    rt: Runtime, context: Context, caller: Caller, request: Recall, gates: Gates | None = None
) -> Recalled:
    """What the caller may see that answers the question; nothing readable gives no hits and no error.

    `gates`: what else may not be given, and how many are; those of a search unless given.

    Raises:
        Invalid: an empty question, `k` above 50, or `min_score` outside of 0..1.
        TooLarge: a question of more than 64 KiB.
        Forbidden: a strict key with a lens outside its region.
    """
    started = time.perf_counter()
    query = _checked(request)
    sets = readable_sets(context, caller, request.lens)
    now = rt.clock()
    question = Question(
        text=query,
        asked=frozenset(await off_loop(query, words.question, query, stemmer())),
        sets=sets,
        now=now,
        mode=request.mode,
        include=request.include,
        when=request.when,
        labels=request.labels,
        subject=request.subject,
        copies=0 if request.include_duplicates else legs.COPIES,
        past=await past_of(context, caller, sets, request.session),
    )
    gates = gates or Gates(context, caller, query=query, now=now, k=request.k)
    found = await _found(context, question, request, gates)
    trace = _trace(question, caller, request, found, started)
    traces.keep(rt, context, trace)
    answer = found.answer
    return Recalled(hits=answer.hits, left_out=answer.left_out, seeds=found.looked.seeds, trace=trace)


def nothing(
    rt: Runtime, context: Context, caller: Caller, request: Recall, reason: str, *, degraded: Sequence[str] = ()
) -> Recalled:
    """No hits, and a trace that says why, but never what was asked. Raises: Invalid, as `recall`."""
    started = time.perf_counter()
    question = Question(text=_checked(request), asked=frozenset(), sets=frozenset(), now=rt.clock(), mode=request.mode)
    trace = _trace(question, caller, request, _Found(reason=reason), started)
    trace = replace(trace, degraded=tuple(degraded), query_text="")
    traces.keep(rt, context, trace)
    return Recalled(hits=(), trace=trace)


def readable_sets(context: Context, caller: Caller, lens: Lens) -> frozenset[str]:
    """The scope sets a read may touch: the caller's region first, then the lens. Raises: Forbidden for strict keys."""
    region = caller.region(Verb.MEMORY_READ)
    if lens and caller.strict:
        access.check_lens(lens, region)
    readable = context.sets.readable(region)
    if not lens:
        return readable
    return frozenset(s for s in readable if lens.keeps(context.sets[s], region))


def _checked(request: Recall) -> str:
    check_bytes(request.query, limit_bytes=MAX_QUERY_BYTES)
    query = clean(request.query).text
    if not query:
        raise Invalid("query is empty: ask something")
    if not 1 <= request.k <= MAX_K:
        raise Invalid(f"k must be 1 to {MAX_K}")
    if request.min_score is not None and not 0.0 <= request.min_score <= 1.0:
        raise Invalid("min_score must be 0 to 1")
    return query


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    answer: Answer = field(default_factory=Answer)
    looked: Looked = field(default_factory=Looked)
    weights: Mapping[str, float] = field(default_factory=dict[str, float])
    tier: Tier = Tier.HYBRID
    reason: str = "nothing may be read here"


async def _found(context: Context, question: Question, request: Recall, gates: Gates) -> _Found:
    """Look, and where the best is not good enough, once more and further: bounded in time, joined by ref."""
    if not question.sets:
        return _Found()
    search = Search(context, question)
    reader = Reader(
        context,
        question,
        gates,
        k=request.k,
        floor=request.min_score or 0.0,
        duplicates_too=request.include_duplicates,
    )
    looked = search.found
    await search.look()
    fused = _fused(looked, {})
    answer = await reader.answer(candidates(looked.marks, fused))
    tier, reason = _enough(answer, looked, search)
    if not reason:
        tier, reason = Tier.ESCALATED, _WIDER if answer.best < ENOUGH else _CROWDED
        await search.look_further()
        fused = _fused(looked, {one.ref: one.score for one in fused})
        answer = await reader.answer(candidates(looked.marks, fused))
    return _Found(answer=answer, looked=looked, weights=fused[0].weights if fused else {}, tier=tier, reason=reason)


def _enough(answer: Answer, looked: Looked, search: Search) -> tuple[Tier, str]:
    """Why there is no need, or no way, to look further; an empty reason when there is."""
    if answer.direct:
        return Tier.DIRECT, _SLOT
    if looked.broad:
        return Tier.HYBRID, _EVERYTHING
    if answer.best >= ENOUGH and not (answer.crowded and looked.full):
        return Tier.HYBRID, _ABOVE
    return Tier.HYBRID, "" if search.can_look_further else _NOTHING_WIDER


def _fused(looked: Looked, before: Mapping[str, float]) -> list[Fused]:
    """The order of all that was found; a row keeps the larger of its scores."""
    fused = fusion.fuse({ref: mark.signals for ref, mark in looked.marks.items()})
    if not before:
        return list(fused)
    return [replace(one, score=max(one.score, before.get(one.ref, 0.0))) for one in fused]


def _trace(question: Question, caller: Caller, request: Recall, found: _Found, started: float) -> ReadTrace:
    looked = found.looked
    if found.tier is Tier.DIRECT:
        classification = Classification.DIRECT_LOOKUP
    else:
        classification = Classification.FULL_CONTEXT if looked.broad else Classification.HYBRID
    return ReadTrace(
        id=new_id(),
        at=question.now,
        principal=caller.principal_id,
        on_behalf_of=caller.delegate,
        key_id=caller.key_id,
        source=request.source,
        mode=request.mode.value,
        tier=found.tier,
        classification=classification,
        reason=found.reason + _CUT * found.answer.cut,
        took_ms=round((time.perf_counter() - started) * 1000),
        k=request.k,
        patterns=tuple(map(str, caller.region(Verb.MEMORY_READ).patterns)),
        session=request.session,
        entities=len(looked.seeds),
        legs=legs.with_weights(looked.legs, found.weights),
        hits=found.answer.reasons,
        near_misses=found.answer.near_misses,
        degraded=list(looked.degraded),
        query_text=question.text,
    )


_SLOT: Final = "an entity and one of its keys are named in the question"
_EVERYTHING: Final = "everything about an entity is asked for"
_ABOVE: Final = "the fused ranking is above the floor"
_NOTHING_WIDER: Final = "nothing above the floor, and nothing further to look at"
_CROWDED: Final = "most of what was found says the same: looked again, wider and further"
_CUT: Final = f"; {MOST_ROWS} rows were read, and those behind them were not"
_WIDER: Final = "nothing above the floor: looked again, wider and further"
