"""The order of what several legs found, and one absolute score: how likely a candidate answers the question.

The order is a sum of deviations: each leg says how far a candidate stands above what is usual among the candidates
of this question, and legs weigh as much as they can tell here. The score is made of the same signals as they are,
not set against other candidates. Two things of the whole are taken off all of them alike: how many there are, because
the best of many is good by chance, and how far the question is from being at home among them.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

# The constants were fitted on the open halves of public sets, one set of constants for all: long conversations
# between people (LoCoMo, REALTALK), hints that share almost no word with what they point at (LoCoMo-plus), assistant
# chats (BEAM), short beliefs with exact answers, and made-up paraphrases. `evals/fit_fusion.py` fits and shows them.

SMALL_POOL: Final = 32
"""Below this many candidates there is no telling what is usual: the absolute score alone orders them.

With 30 candidates MRR is .93 by the score and .87 by deviations (precision), with 65 and more they are alike.
"""

FULL_LEG: Final = 256
"""As many candidates as one leg names at first."""

FULL_POOL: Final = 2 * FULL_LEG
"""As many candidates as two legs can name; more do not make the best of them better by chance."""

MIN_SCORE: Final = 0.25
"""The score from which on a candidate is taken to answer the question."""

SHARE_IN_TEXT: Final = 1 / 3
"""How much of the text leg is the part of the question that was found; the rest is the rank.

The rank alone overrates repeated words: with a third of share REALTALK gains .01 recall and .005 MRR.
"""

ASSISTANT_DEVIATIONS: Final = 2.0
"""How many deviations what an assistant said stands below what a person said.

BEAM's recall@10: .514 at 0, .555 at 1, .566 at 2, .585 at 3; 2 leaves an assistant's far better answer in front.
"""

FACT_DEVIATIONS: Final = 2.0
"""How many deviations a fact stands above a passage: it was stated to be kept. Not fitted: no open set holds facts.

Below 2 a note that answers stands behind old talk that shares a chance word with the question.
"""

ENOUGH_DEVIATIONS: Final = 1.0
"""How many deviations those whose score is at least `MIN_SCORE` stand above the rest, so that none of them is buried.

Recall@10 / MRR from 0 to 1: LoCoMo .713/.529 to .714/.532, REALTALK .552/.493 to .550/.495, BEAM .609/.595 to
.609/.592, LoCoMo-plus .192/.132 to .189/.125; from 1.5 on BEAM and LoCoMo-plus lose more.
"""

ASKS_DEVIATIONS: Final = 0.5
"""How many deviations a passage in which something is asked stands below one that tells.

Recall@10 / MRR from 0 to .5: LoCoMo .711/.526 to .716/.535, REALTALK .547/.494 to .554/.497, BEAM .604/.574 to
.609/.586, LoCoMo-plus .162/.115 to .189/.127; at 1 BEAM falls.
"""

LEAST_TEXT_SPREAD: Final = 0.8
LEAST_SHARE_SPREAD: Final = 0.05
"""What the spread of rank and share is taken to be, at least.

Where few candidates hold any word of the question the spread is small, and one chance word would be many deviations.
With both, MRR of BEAM rises from .592 to .595 and of paraphrases from .925 to .941; LoCoMo falls from .715/.532 to
.713/.529, and further when either is larger.
"""

USUAL_PART: Final = 0.7
"""How much of its nearness to everything is taken off the nearness of a candidate to the question.

Some texts are near to any question, small talk above all. Flat from .4 to 1.0, and better on every set: REALTALK
.540 to .548, BEAM .566 to .582, paraphrases .96 to .99, LoCoMo-plus .117 to .149.
"""

BESIDE_PART: Final = 0.1
"""What a candidate gets of the deviations of what was said right before and right after it.

Recall@10 of LoCoMo .707 to .710, of REALTALK .547 to .550, of BEAM .601 to .606; at twice as much MRR falls.
"""

TEXT_EVIDENCE: Final = 0.02
"""What one unit of rank by words is worth, in units of cosine, whatever part of the question was found."""

WHOLE_EVIDENCE: Final = 0.04
"""What one unit of rank is worth beyond that when all of the question was found.

Both by precision and by how few unrelated questions find something; flat from .02 to .06.
"""

GRAPH_EVIDENCE: Final = 0.35
"""What nearness 1 in the graph is worth, in units of cosine. Not fitted: no open set holds facts."""

SPARSE_EVIDENCE: Final = 0.25
"""The same for a sparse leg. Not fitted: there is none yet."""

WORDS_ALONE: Final = 0.5
"""What all of the question stands for, in units of cosine, in a candidate that has no vector: half of it is enough.

By words alone the floor keeps out less: a chance word of four is a quarter of a question.
"""

ASSISTANT_EVIDENCE: Final = 0.08
"""What is taken off what an assistant said, in units of cosine."""

ASKS_EVIDENCE: Final = 0.03
"""What is taken off a passage in which something is asked, in units of cosine."""

NAME_EVIDENCE: Final = 0.4
"""What is taken off a passage that shares nothing with a question but the name of who speaks, in units of cosine.

The name in front of a text alone makes it near, a short one most. Of 45 passages above the floor for one question 27
are left (LoCoMo), of 63 there are 24 (REALTALK); recall@10 above it falls from .717 to .708 and from .537 to .530.
"""

FACT_NAME_EVIDENCE: Final = 0.125
"""The same for a fact: its name says whom it is about. Not fitted: no open set holds facts."""

_NO_SHARE: Final = 0.01
"""A part of the question below this is none."""

CROWD_EVIDENCE: Final = 0.07
"""What each e-fold more candidates than `CROWD_FROM` takes off, in units of cosine.

Facts and passages are counted apart: the best of few facts is not good by chance because much was said beside them.
One foreign question in ten comes nearer than .23 to one of 30 rows, than .29 to one of 600, than .35 to one of 1,000.
"""

CROWD_FROM: Final = 30

COMPANY: Final = 9
"""How many candidates, after the nearest, tell whether a question is at home; of fewer than 30, a third of them."""

AT_HOME: Final = 0.06
"""How much nearer than rows are to each other that company is to a question at home, in units of cosine.

One row may be near to anything by chance; nine are near when the memory is about such things. Flat from .055 to .07.
"""

KNOWN_WORDS: Final = 0.05
"""What it is worth for being at home that words of the question are known, in units of cosine; flat from .03 to .12."""

KNOWN_SHARE: Final = 0.1
"""The part of the question, in the candidate that holds most of it, that counts as words that are known."""

STRANGE_EVIDENCE: Final = 1.75
"""What each unit that a question lacks for being at home takes off; flat from 1.25 to 3.75."""

MOST_STRANGE: Final = 0.1
"""The most that is taken off for it, in units of cosine: a row that is near enough is found in any company."""

ENOUGH_EVIDENCE: Final = 0.246
"""The evidence whose score is `MIN_SCORE`: where the answers to exact questions part from the rest.

From .238 to .252 the set of exact questions has the same answers above it, and none for unrelated questions.
"""

STEEPNESS: Final = 10.0
"""How fast the score rises with the evidence: .45 of evidence scores .71, .65 scores .95."""

DIRECT_SCORE: Final = 1.0
"""The score of the value of a key that the question asks for."""

# What the cosine of a candidate without a vector is taken to be in the order: its mean at this rank and share (BEAM,
# LoCoMo and REALTALK together), so that a row that was just written does not stand behind for want of a vector.
_COSINE_BASE: Final = 0.3
_COSINE_OF_TEXT: Final = 0.006
_COSINE_OF_SHARE: Final = 0.09
_COSINE_UNFOUND: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """What the legs say of one candidate.

    `text`: rank by words, > 0, 0 when the leg did not find it; `share`: how much of the question it holds, 0..1;
    `named`: the part of `share` that is names of speakers; `fact`: it is a fact, not a passage of what was said;
    `cosine`: nearness of meaning, None without a vector; `graph`: nearness to what the question names, 0..1;
    `direct`: it is the value of a key that the question asks for; `assistant`: an assistant said it;
    `asks`: a question is asked in it; `sparse`: place of a further leg.
    `usual`: nearness of its meaning to the mean of what may be found; `before`: the key of what was said before it.
    """

    text: float = 0.0
    share: float = 0.0
    named: float = 0.0
    fact: bool = False
    cosine: float | None = None
    graph: float = 0.0
    sparse: float = 0.0
    direct: bool = False
    assistant: bool = False
    asks: bool = False
    usual: float = 0.0
    before: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fused:
    """One candidate in the order of the whole. `order`: comparable within one answer only; `score`: 0..1, absolute.

    `weights`: what each leg weighed in this answer."""

    ref: str
    order: float
    score: float
    weights: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Leg:
    """One leg. `parts`: what is set in deviations, with its part of the whole (given a candidate and what `usual` is on
    average); `best`: what says if it can tell; `least`: what the spread of each part is taken to be, at least.

    Its weight is 0 while the best candidate is at `floor` or below, and `weight` from `full` on.
    """

    name: str
    weight: float
    floor: float
    full: float
    parts: tuple[tuple[Callable[[Signals, float], float], float], ...]
    best: Callable[[Signals], float]
    least: tuple[float, ...] = (0.0,)

    def weighs(self, signals: Sequence[Signals]) -> float:
        """The weight of the leg in this answer."""
        best = max(map(self.best, signals), default=0.0)
        return self.weight * min(1.0, max(0.0, (best - self.floor) / (self.full - self.floor)))


def _cosine(s: Signals) -> float:
    if s.cosine is not None:
        return s.cosine
    if s.text > 0.0:
        return _COSINE_BASE + _COSINE_OF_TEXT * s.text + _COSINE_OF_SHARE * s.share
    return _COSINE_UNFOUND


def _unusual(s: Signals, usual: float) -> float:
    return _cosine(s) - USUAL_PART * (usual if s.cosine is None else s.usual)


# Text: the weight falls when even the best candidate holds little of the question; hints that share almost no word
# with what they point at are led astray by chance words (LoCoMo-plus .12 at full weight .04, words alone .03).
# The weights have a flat optimum: between .75 and 2 no set moves by .01, but BEAM and the hints like less text.
LEGS: Final = (
    _Leg(
        name="text",
        weight=1.2,
        floor=0.15,
        full=0.4,
        parts=((lambda s, _: s.text, 1.0 - SHARE_IN_TEXT), (lambda s, _: s.share, SHARE_IN_TEXT)),
        best=lambda s: s.share,
        least=(LEAST_TEXT_SPREAD, LEAST_SHARE_SPREAD),
    ),
    _Leg(name="vector", weight=1.0, floor=0.1, full=0.2, parts=((_unusual, 1.0),), best=lambda s: s.cosine or 0.0),
    _Leg(name="graph", weight=1.0, floor=0.0, full=0.5, parts=((lambda s, _: s.graph, 1.0),), best=lambda s: s.graph),
    _Leg(
        name="sparse", weight=1.0, floor=0.0, full=0.2, parts=((lambda s, _: s.sparse, 1.0),), best=lambda s: s.sparse
    ),
)


def fuse(candidates: Mapping[str, Signals]) -> Sequence[Fused]:
    """The candidates, best first: direct ones before all others, equal ones by their keys."""
    refs, signals = list(candidates), list(candidates.values())
    weights = {leg.name: leg.weighs(signals) for leg in LEGS}
    found = _evidence(signals)
    order = found if len(refs) < SMALL_POOL else _beside(refs, signals, _deviations(signals, weights, found))
    fused = [
        Fused(ref=ref, order=place, score=DIRECT_SCORE if s.direct else _absolute(speaks), weights=weights)
        for ref, s, place, speaks in zip(refs, signals, order, found, strict=True)
    ]
    return sorted(fused, key=lambda f: (not candidates[f.ref].direct, -f.order, f.ref))


def _evidence(signals: Sequence[Signals]) -> list[float]:
    """What speaks for each candidate among the others, in units of cosine."""
    strange = strangeness(signals)
    facts = sum(s.fact for s in signals)
    off = {True: strange + _crowding(facts), False: strange + _crowding(len(signals) - facts)}
    named = any(s.named > 0.0 for s in signals)
    cut = named and sum(s.text > 0.0 for s in signals) >= FULL_LEG
    return [_found(s) - off[s.fact] - _name_alone(s, cut=cut) for s in signals]


def score(s: Signals, crowd: int, strange: float = 0.0) -> float:
    """How likely a candidate among `crowd` of them answers the question, 0..1. `strange`: their `strangeness`."""
    return DIRECT_SCORE if s.direct else _absolute(_found(s) - _crowding(crowd) - strange)


def apart(one: float, other: float) -> float:
    """How far apart the evidence of two scores is, in units of cosine; scores near 0 and 1 differ by little."""
    return abs(_logit(one) - _logit(other)) / STEEPNESS


def strangeness(signals: Sequence[Signals]) -> float:
    """How foreign the question is to what was found, in units of cosine: 0 when it is at home, to `MOST_STRANGE`.

    A question is at home when several candidates are nearer to it than rows are to each other, not one alone. Company
    that a small memory lacks says nothing for or against it.
    """
    near = [s for s in signals if s.cosine is not None]
    company = min(COMPANY, len(near) // 3)
    if company == 0:
        return 0.0
    cosines = heapq.nlargest(company + 1, (_cosine(s) for s in near))[1:]
    lack = company * (_likeness(near) + AT_HOME) - math.fsum(cosines)
    known = max(max(s.share / KNOWN_SHARE, s.graph) for s in signals)
    return min(MOST_STRANGE, max(0.0, STRANGE_EVIDENCE * (lack / COMPANY - KNOWN_WORDS * min(1.0, known))))


def _likeness(near: Sequence[Signals]) -> float:
    """How near two different rows are to each other, on average; at least two rows, each with a vector.

    The mean row is near to every row by what that row shares with itself, too; that is no likeness.
    """
    itself = 1.0 / len(near)
    return max(0.0, (math.fsum(s.usual for s in near) / len(near) - itself) / (1.0 - itself))


def _absolute(evidence: float) -> float:
    steep = STEEPNESS * (evidence - ENOUGH_EVIDENCE)
    return 1.0 / (1.0 + (1.0 - MIN_SCORE) / MIN_SCORE * math.exp(-steep))


def _logit(score: float) -> float:
    within = min(1.0 - 1e-15, max(1e-15, score))
    return math.log(within / (1.0 - within))


def _found(s: Signals) -> float:
    """What speaks for a candidate, in units of cosine."""
    near = WORDS_ALONE * s.share if s.cosine is None else s.cosine
    found = near + (TEXT_EVIDENCE + WHOLE_EVIDENCE * s.share) * s.text
    found += GRAPH_EVIDENCE * s.graph + SPARSE_EVIDENCE * s.sparse
    return found - ASSISTANT_EVIDENCE * s.assistant - ASKS_EVIDENCE * s.asks


def _name_alone(s: Signals, *, cut: bool) -> float:
    """What is taken off a candidate that shares nothing with a question but names of speakers. `cut`: more hold a name
    than the text leg could say, so one of which it says nothing may hold it too."""
    if s.share - s.named >= _NO_SHARE or not (s.named > 0.0 or cut):
        return 0.0
    return FACT_NAME_EVIDENCE if s.fact else NAME_EVIDENCE


def _crowding(crowd: int) -> float:
    """What the number of candidates takes off each of them."""
    return CROWD_EVIDENCE * math.log(min(max(crowd, CROWD_FROM), FULL_POOL) / CROWD_FROM)


def _deviations(signals: Sequence[Signals], weights: Mapping[str, float], found: Sequence[float]) -> list[float]:
    """For each candidate the weighted sum of how far it stands above what is usual, by what it is, and whether what
    was found of it is enough."""
    order = [
        FACT_DEVIATIONS * s.fact
        + ENOUGH_DEVIATIONS * (speaks >= ENOUGH_EVIDENCE)
        - ASSISTANT_DEVIATIONS * s.assistant
        - ASKS_DEVIATIONS * s.asks
        for s, speaks in zip(signals, found, strict=True)
    ]
    near = [s.usual for s in signals if s.cosine is not None]
    usual = sum(near) / len(near) if near else 0.0
    for leg in LEGS:
        if weights[leg.name] <= 0.0:
            continue
        for (value, part), least in zip(leg.parts, leg.least, strict=True):
            values = [value(s, usual) for s in signals]
            mean = sum(values) / len(values)
            spread = max(least, math.sqrt(sum((v - mean) ** 2 for v in values) / len(values)))
            if spread > 0.0:
                scale = weights[leg.name] * part / spread
                order = [o + scale * (v - mean) for o, v in zip(order, values, strict=True)]
    return order


def _beside(refs: Sequence[str], signals: Sequence[Signals], order: Sequence[float]) -> list[float]:
    """The order, with what candidates get of those that were said right before and right after them."""
    places = {ref: place for place, ref in enumerate(refs)}
    joined = list(order)
    for place, s in enumerate(signals):
        before = places.get(s.before) if s.before is not None else None
        if before is not None:
            joined[place] += BESIDE_PART * max(0.0, order[before])
            joined[before] += BESIDE_PART * max(0.0, order[place])
    return joined
