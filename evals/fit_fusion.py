"""Fits the constants of `keeps.core.fusion` on open sets, and shows what each of them is worth.

    KEEPS_BENCH_KIT=KIT python -m evals.fit_fusion --data DIR [--fit]

`KIT` is the folder of the benchmark kit; `DIR` keeps the vectors between runs. Prints JSON: the figures of the
constants as they are; those with one constant moved at a time; what the score keeps and keeps out, also with one of
its constants moved; and with `--fit` (some minutes) constants fitted on half of the conversations, measured on the
other half.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from statistics import mean
from typing import Any, Final

from evals.vector_leg import SETS, Asked, Vectors, asked, by_both, figures, the_kit

from keeps.core import fusion
from keeps.models.opened import open_embedder

PRECISION: Final = "precision"

# Questions about the world that none of the sets says anything about.
UNRELATED: Final = tuple(
    """
    What is the boiling point of tungsten? | Which dynasty ruled before the Tang? | How do glaciers carve fjords?
    What is the derivative of the hyperbolic tangent? | Who proved the incompleteness theorems?
    How many moons orbit Neptune? | What does mitochondrial DNA encode? | Which enzyme unwinds the double helix?
    How is obsidian formed? | What caused the fall of Constantinople? | What is the capital of Burkina Faso?
    How does a torsion pendulum measure gravity? | Which treaty ended the Thirty Years War?
    What is the half-life of strontium-90? | How do cuttlefish change colour? | Who composed the Goldberg Variations?
    What is the tensile strength of spider silk? | How does a Wankel rotary piston seal?
    Which parasite causes sleeping sickness? | What is the Chandrasekhar limit?
    How were the pyramids of Meroe aligned?
    What is the pH of gastric acid? | Which alphabet did the Etruscans use? | How do tides resonate in the Bay of Fundy?
    What is the refractive index of sapphire? | Who discovered the noble gas xenon?
    How does the Coriolis force deflect hurricanes? | What is the atomic number of molybdenum?
    Which plague struck Justinian's empire? | How do stromatolites grow? | What does the Riemann hypothesis state?
    How deep is the Mariana Trench? | Which mineral is the hardest after diamond?
    How do neutrinos oscillate between flavours? | What is the exchange rate of the Mongolian tugrik?
    Which bird lays the largest egg? | How was the Antikythera mechanism geared?
    What is the orbital period of Halley's comet? | Who translated the Rosetta Stone?
    How does a tokamak confine plasma? | What is the legal drinking age in Iceland? | Which volcano buried Pompeii?
    How do lichens reproduce? | What is the melting temperature of gallium? | Who wrote the Epic of Gilgamesh?
    How many vertebrae does a giraffe's neck have? | What is Avogadro's constant?
    Which river drains the Okavango basin? | How do peat bogs preserve bodies?
    What is the Byzantine tax on silk called?
    """.replace("\n", "|").split("|")
)

Questions = Mapping[str, Sequence[Asked]]
Figures = dict[str, dict[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """One constant: how to set it for a while, the values to try, and the one that means it is not there."""

    turn: Callable[[float], Any]
    values: tuple[float, ...]
    off: float


@contextmanager
def _constant(name: str, value: Any) -> Generator[None]:
    before = getattr(fusion, name)
    setattr(fusion, name, value)
    try:
        yield
    finally:
        setattr(fusion, name, before)


def _text(**changes: Any) -> Any:
    """The table of legs with another leg of words."""
    return _constant("LEGS", tuple(replace(leg, **changes) if leg.name == "text" else leg for leg in fusion.LEGS))


def _share(value: float) -> Any:
    (rank, _), (share, _) = next(leg.parts for leg in fusion.LEGS if leg.name == "text")
    return _text(parts=((rank, 1.0 - value), (share, value)))


KNOBS: Final = {
    "text weight": Knob(turn=lambda v: _text(weight=v), values=(0.75, 1.0, 1.2, 1.5, 2.0), off=1.0),
    "text floor": Knob(turn=lambda v: _text(floor=v), values=(0.05, 0.1, 0.15, 0.2), off=0.0),
    "text full": Knob(turn=lambda v: _text(full=v), values=(0.3, 0.4, 0.5), off=0.25),
    "share in text": Knob(turn=_share, values=(0.0, 0.2, 1 / 3, 0.5), off=0.0),
    "usual": Knob(turn=lambda v: _constant("USUAL_PART", v), values=(0.0, 0.4, 0.7, 1.0), off=0.0),
    "beside": Knob(turn=lambda v: _constant("BESIDE_PART", v), values=(0.0, 0.05, 0.1, 0.2), off=0.0),
    "asks": Knob(turn=lambda v: _constant("ASKS_DEVIATIONS", v), values=(0.0, 0.25, 0.5, 1.0), off=0.0),
    "assistant": Knob(turn=lambda v: _constant("ASSISTANT_DEVIATIONS", v), values=(0.0, 1.0, 2.0, 3.0), off=0.0),
}

FLOOR_KNOBS: Final[Mapping[str, tuple[float, ...]]] = {
    "ENOUGH_EVIDENCE": (0.23, 0.238, 0.246, 0.252, 0.26),
    "STRANGE_EVIDENCE": (0.0, 1.0, 1.5, 1.75, 2.5),
    "AT_HOME": (0.04, 0.055, 0.06, 0.07, 0.08),
    "KNOWN_WORDS": (0.0, 0.03, 0.05, 0.07),
    "MOST_STRANGE": (0.06, 0.1, 0.15),
    "CROWD_EVIDENCE": (0.05, 0.07),
}
"""Constants of the score, and the values to try."""


@contextmanager
def _set_to(values: Mapping[str, float]) -> Generator[None]:
    with ExitStack() as stack:
        for name, value in values.items():
            stack.enter_context(KNOBS[name].turn(value))
        yield


def measured(questions: Questions, metrics: Any, values: Mapping[str, float] | None = None) -> Figures:
    """recall@10 and MRR of each set, with some constants at other values."""
    with _set_to(values or {}):
        return {name: figures(some, by_both, metrics) for name, some in questions.items()}


def worth(found: Figures) -> float:
    """One number for all sets: each counts the same, recall and MRR too."""
    return mean(at["recall@10"] + at["mrr"] for at in found.values())


def moved(questions: Questions, metrics: Any) -> dict[str, dict[str, Figures]]:
    """The figures with one constant at a time at each of its values."""
    return {
        name: {f"{value:.3g}": measured(questions, metrics, {name: value}) for value in knob.values}
        for name, knob in KNOBS.items()
    }


def fitted(questions: Questions, metrics: Any, rounds: int = 2) -> dict[str, float]:
    """Constants that suit `questions` best, from none of them on, one at a time."""
    values = {name: knob.off for name, knob in KNOBS.items()}
    for _ in range(rounds):
        for name, knob in KNOBS.items():
            tried = {value: worth(measured(questions, metrics, values | {name: value})) for value in knob.values}
            values[name] = max(tried, key=lambda value: tried[value])
    return values


def halves(questions: Questions) -> tuple[Questions, Questions]:
    """Every second conversation of each set, and the others; sets of one conversation are left out."""
    parts: tuple[dict[str, list[Asked]], dict[str, list[Asked]]] = ({}, {})
    for name, some in questions.items():
        users = list(dict.fromkeys(one.user for one in some))
        if len(users) > 1:
            for side in (0, 1):
                parts[side][name] = [one for one in some if users.index(one.user) % 2 == side]
    return parts


def held_out(questions: Questions, metrics: Any) -> list[dict[str, Any]]:
    """Fitted on one half, measured on the other, both ways, beside the constants as they are and beside none."""
    shown: list[dict[str, Any]] = []
    one, other = halves(questions)
    none = {name: knob.off for name, knob in KNOBS.items()}
    for fit_on, test_on in ((one, other), (other, one)):
        values = fitted(fit_on, metrics)
        shown.append(
            {
                "values": values,
                "where fitted": measured(fit_on, metrics, values),
                "held out": measured(test_on, metrics, values),
                "constants as they are": measured(test_on, metrics),
                "none": measured(test_on, metrics, none),
            }
        )
    return shown


def above(one: Asked) -> list[str]:
    """The candidates at or above the floor, once scores are made to fall along the order."""
    fused = fusion.fuse(one.signals)
    falling = accumulate((f.score for f in fused), min)
    return [f.ref for f, score in zip(fused, falling, strict=True) if score >= fusion.MIN_SCORE]


def kept(questions: Iterable[Asked]) -> dict[str, float]:
    """Of questions with answers: precision and recall above the floor, recall@10 with and without it."""
    rows = [
        (above(one), [f.ref for f in fusion.fuse(one.signals)][:10], set(one.gold)) for one in questions if one.gold
    ]
    return {
        "precision": round(
            mean(len(gold.intersection(high)) / len(high) if high else 0.0 for high, _, gold in rows), 4
        ),
        "recall": round(mean(len(gold.intersection(high)) / len(gold) for high, _, gold in rows), 4),
        "recall@10": round(mean(len(gold.intersection(ten)) / len(gold) for _, ten, gold in rows), 4),
        "recall@10 above": round(mean(len(gold.intersection(ten, high)) / len(gold) for high, ten, gold in rows), 4),
        "above each": round(mean(len(high) for high, _, _ in rows), 2),
    }


def kept_out(strange: Sequence[Asked]) -> dict[str, float]:
    """Of unrelated questions: how many find something above the floor."""
    return {"questions": len(strange), "find something": sum(bool(above(one)) for one in strange)}


def floors(own: Questions, strange: Questions) -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    """What the score keeps and keeps out of each set, with one of its constants at a time at each of its values."""
    shown: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
    for name, values in FLOOR_KNOBS.items():
        shown[name] = {}
        for value in values:
            with _constant(name, value):
                shown[name][f"{value:.3g}"] = {of: kept(own[of]) | kept_out(strange[of]) for of in own}
    return shown


async def _asked(names: Sequence[str], folder: Path, kit: Any) -> tuple[dict[str, list[Asked]], dict[str, list[Asked]]]:
    embedder = open_embedder("minilm")
    assert embedder is not None
    own: dict[str, list[Asked]] = {}
    strange: dict[str, list[Asked]] = {}
    unrelated = [text.strip() for text in UNRELATED if text.strip()]
    try:
        vectors, space = Vectors(folder / "vectors.npz", embedder), await embedder.space()
        for name in names:
            own[name], strange[name] = await asked(name, kit.load(name), folder, vectors, space, unrelated)
    finally:
        await embedder.close()
    return own, strange


def main() -> int:
    """0, or 2 without a kit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True, help="folder for vectors and index files")
    parser.add_argument("--sets", nargs="+", default=list(SETS), help="names of data sets")
    parser.add_argument("--fit", action="store_true", help="fit on half of the conversations, both ways")
    given = parser.parse_args()
    kit = the_kit()
    if kit is None:
        return 2
    data, metrics = kit
    own, strange = asyncio.run(_asked(given.sets, given.data, data))
    result: dict[str, Any] = {
        "as they are": measured(own, metrics),
        "none": measured(own, metrics, {name: knob.off for name, knob in KNOBS.items()}),
        "score": {name: kept(some) for name, some in own.items()},
        "unrelated": {name: kept_out(some) for name, some in strange.items()},
        "floor moved": floors(own, strange),
        "moved": moved(own, metrics),
    }
    if given.fit:
        result["held out"] = held_out(own, metrics)
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
