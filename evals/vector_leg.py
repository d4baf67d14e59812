"""How well each leg finds, and both together: recall@10 and MRR on open sets with known evidence, no server.

    KEEPS_BENCH_KIT=KIT python -m evals.vector_leg --data DIR [--sets NAME ...]

`KIT` is the folder of the benchmark kit (it brings the data and the measures, and is not part of this project); `DIR`
keeps the vectors, so that a second run need not make them again. Every conversation is a scope set of its own, and
questions go through the index and the fusion of the product. Prints JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import importlib
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from keeps.core.fusion import Signals, fuse
from keeps.core.sessions import cut
from keeps.core.spaces import Point, Space
from keeps.finder.base import Entry, Stored
from keeps.finder.local import LocalFinder
from keeps.models.base import Embedder
from keeps.models.opened import open_embedder

SETS: Final = ("locomo", "realtalk", "beam100k", "locomo_plus", "synth_paraphrase", "precision")
POOL: Final = 256
BEFORE_CHARS: Final = 2_000
_AT_ONCE: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One question, and what the legs say of each candidate. `gold`: the ids that answer it."""

    user: str
    text: str
    kind: str
    gold: tuple[str, ...]
    signals: Mapping[str, Signals]


class Vectors:
    """Vectors of texts, kept in a file. Close by `save`."""

    def __init__(self, file: Path, embedder: Embedder) -> None:
        self._file = file
        self._embedder = embedder
        self._known: dict[str, NDArray[np.float16]] = {}
        if file.exists():
            with np.load(file) as held:
                self._known = dict(zip(held["keys"].tolist(), held["vectors"], strict=True))

    async def of(self, texts: Sequence[str], *, asking: bool = False) -> NDArray[np.float16]:
        """One vector a text, as the index stores them."""
        keys = [hashlib.sha256(f"{asking}:{text}".encode()).hexdigest() for text in texts]
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._known}
        listed = list(missing)
        for start in range(0, len(listed), _AT_ONCE):
            some = listed[start : start + _AT_ONCE]
            made = await self._embedder.embed([missing[key] for key in some], asking=asking)
            self._known.update(zip(some, made.astype(np.float16), strict=True))
        if missing:
            self.save()
        return np.stack([self._known[key] for key in keys])

    def save(self) -> None:
        """Write what is known."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        np.savez(self._file, keys=np.array(list(self._known)), vectors=np.stack(list(self._known.values())))


def entries(items: Sequence[Any]) -> list[Entry]:
    """What the turns give the index: an entry a passage, with the turn before in the same session as the first's
    window, and the first passage as its meaning."""
    made: list[Entry] = []
    last: Any = None
    for number, item in enumerate(items):
        before = last if last is not None and (last.user, last.session) == (item.user, item.session) else None
        last = item
        for place, (start, end) in enumerate(cut(item.text)):
            window = before if place == 0 else None
            made.append(
                Entry(
                    ref=f"turn:{item.id}",
                    unit=f"memory_chunk:{item.id}_{place}",
                    kind="passage",
                    scope_set=item.user or "-",
                    text=item.text[start:end],
                    before=window.text[-BEFORE_CHARS:] if window is not None else "",
                    window_of=f"turn:{window.id}" if window is not None else None,
                    at=number,
                    meaning=item.text[start:end] if place == 0 else None,
                    assistant=item.speaker == "assistant",
                )
            )
    return made


async def indexed(name: str, items: Sequence[Any], folder: Path, vectors: Vectors, space: Space) -> LocalFinder:
    """A new index of turns with their vectors."""
    rows = entries(items)
    meant = {row.unit: row.meaning for row in rows if row.meaning is not None}
    made = await vectors.of(list(meant.values()))
    stored = {unit: vector.astype("<f2").tobytes() for unit, vector in zip(meant, made, strict=True)}
    shutil.rmtree(folder / name, ignore_errors=True)
    finder = await LocalFinder.open(folder / name, name)

    async def stream() -> AsyncIterator[Entry | Stored]:
        for row in rows:
            yield row
        yield Stored(space=space, vectors=stored)

    await finder.rebuild(name, stream(), 1)
    return finder


async def signals(
    finder: LocalFinder, space: Space, question: str, vector: NDArray[np.float16], user: str
) -> dict[str, Signals]:
    """What both legs say of their candidates, by ref."""
    sets = [user or "-"]
    found = {hit.ref: hit for hit in await finder.find(question, sets, limit=POOL)}
    asked = vector.astype("<f4")
    near = await finder.near(
        Point(space, (asked / np.linalg.norm(asked)).tobytes()), sets, limit=POOL, also=list(found)
    )
    nearest = {hit.ref: hit for hit in near}
    said: dict[str, Signals] = {}
    for ref in found | nearest:
        words, meaning = found.get(ref), nearest.get(ref)
        said[ref] = Signals(
            text=words.rank if words else 0.0,
            share=words.share if words else 0.0,
            named=words.named if words else 0.0,
            cosine=meaning.cosine if meaning else None,
            usual=meaning.usual if meaning else 0.0,
            assistant=any(hit.assistant for hit in (words, meaning) if hit),
            asks=any(hit.asks for hit in (words, meaning) if hit),
            before=next((hit.before for hit in (words, meaning) if hit and hit.before), None),
        )
    return said


async def asked(
    name: str, data: Any, folder: Path, vectors: Vectors, space: Space, unrelated: Sequence[str] = ()
) -> tuple[list[Asked], list[Asked]]:
    """The questions of a set with their candidates; and each of `unrelated` asked of each user."""
    finder = await indexed(name, data.items, folder, vectors, space)
    try:
        asked_of = await vectors.of([probe.q for probe in data.probes], asking=True)
        own = [
            Asked(
                user=probe.user,
                text=probe.q,
                kind=probe.kind,
                gold=tuple(f"turn:{one}" for one in probe.gold),
                signals=await signals(finder, space, probe.q, vector, probe.user),
            )
            for probe, vector in zip(data.probes, asked_of, strict=True)
        ]
        strange = await vectors.of(unrelated, asking=True) if unrelated else np.zeros((0, space.dims), np.float16)
        users = list(dict.fromkeys(item.user for item in data.items))
        foreign = [
            Asked(
                user=user,
                text=question,
                kind="unrelated",
                gold=(),
                signals=await signals(finder, space, question, vector, user),
            )
            for user in users
            for question, vector in zip(unrelated, strange, strict=True)
        ]
    finally:
        await finder.close()
    return own, foreign


def by_words(said: Mapping[str, Signals]) -> list[str]:
    """The order of the text leg alone."""
    return sorted((ref for ref in said if said[ref].text > 0.0), key=lambda ref: -said[ref].text)


def by_meaning(said: Mapping[str, Signals]) -> list[str]:
    """The order of the vector leg alone."""
    there = (ref for ref in said if said[ref].cosine is not None)
    return sorted(there, key=lambda ref: -(said[ref].cosine or 0.0))


def by_both(said: Mapping[str, Signals]) -> list[str]:
    """The order of the product."""
    return [fused.ref for fused in fuse(said)]


def figures(questions: Sequence[Asked], order: Any, metrics: Any) -> dict[str, float]:
    """recall@10 and MRR of an order over questions."""
    overall = metrics.table([(one.kind, order(one.signals)[:20], one.gold) for one in questions])["overall"]
    return {"recall@10": overall["recall@10"], "mrr": overall["mrr"]}


def the_kit() -> tuple[Any, Any] | None:
    """Data and measures of the kit that the environment names; None without one."""
    folder = os.environ.get("KEEPS_BENCH_KIT")
    if not folder:
        print("set KEEPS_BENCH_KIT to the folder of the benchmark kit", file=sys.stderr)
        return None
    sys.path.insert(0, folder)
    return importlib.import_module("memkit.datasets"), importlib.import_module("memkit.metrics")


async def measure(names: Sequence[str], folder: Path, kit: Any, metrics: Any) -> dict[str, Any]:
    """For each set the figures of words, of meaning, and of both."""
    embedder = open_embedder("minilm")
    assert embedder is not None
    results: dict[str, Any] = {}
    try:
        vectors, space = Vectors(folder / "vectors.npz", embedder), await embedder.space()
        for name in names:
            questions, _ = await asked(name, kit.load(name), folder, vectors, space)
            results[name] = {"questions": len(questions)} | {
                leg: figures(questions, order, metrics)
                for leg, order in (("words", by_words), ("meaning", by_meaning), ("both", by_both))
            }
    finally:
        await embedder.close()
    return results


def main() -> int:
    """0, or 2 without a kit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True, help="folder for vectors and index files")
    parser.add_argument("--sets", nargs="+", default=list(SETS), help="names of data sets")
    given = parser.parse_args()
    kit = the_kit()
    if kit is None:
        return 2
    print(json.dumps(asyncio.run(measure(given.sets, given.data, *kit)), indent=2))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
