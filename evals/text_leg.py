"""How well the text leg finds, alone: recall@10 and MRR on open sets of conversations with known evidence.

    KEEPS_BENCH_KIT=KIT python -m evals.text_leg --data DIR

`KIT` is the folder of the benchmark kit (it brings the data and the measures, and is not part of this
project); `DIR` is where the index files are put. Every conversation is a scope set of its own.
Prints JSON, beside the figures of BM25 with stemming and without question words on the same turns. The
weights in `keeps.core.ranking` were fitted on these very questions, the reference was not fitted: read the
difference as an upper bound of what to expect on other conversations.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Final

from keeps.finder.base import Entry
from keeps.finder.local import LocalFinder

# recall@10 and MRR of bm25s with stemming and without question words, on the same turns.
REFERENCE: Final = {"locomo": (0.601, 0.447), "realtalk": (0.472, 0.396), "beam100k": (0.409, 0.384)}
TOLERANCE: Final = 0.01


def entries(items: list[Any]) -> list[Entry]:
    """One entry a turn, with the turn before it in the same session as its window."""
    made: list[Entry] = []
    last: dict[tuple[str, str], Any] = {}
    for item in items:
        previous = last.get((item.user, item.session))
        last[item.user, item.session] = item
        made.append(
            Entry(
                ref=f"turn:{item.id}",
                unit=f"memory_chunk:{item.id}",
                kind="passage",
                scope_set=item.user,
                text=item.text,
                before=previous.text if previous else "",
                window_of=f"turn:{previous.id}" if previous else None,
            )
        )
    return made


async def measure(name: str, folder: Path, kit: Any, metrics: Any) -> dict[str, Any]:
    """The measures of one data set."""
    data = kit.load(name)
    finder = await LocalFinder.open(folder / name, name)
    started = time.perf_counter()
    rows = entries(data.items)

    async def stream():
        for row in rows:
            yield row

    await finder.rebuild(name, stream(), 1)
    built_s = time.perf_counter() - started
    answers, times = [], []
    for probe in data.probes:
        started = time.perf_counter()
        found = await finder.find(probe.q, [probe.user], limit=20)
        times.append(time.perf_counter() - started)
        answers.append((probe.kind, [hit.ref.removeprefix("turn:") for hit in found], probe.gold))
    await finder.close()
    overall = metrics.table(answers)["overall"]
    recall, mrr = REFERENCE.get(name, (0.0, 0.0))
    return {
        "turns": len(rows),
        "questions": overall["n"],
        "recall@10": overall["recall@10"],
        "mrr": overall["mrr"],
        "reference": {"recall@10": recall, "mrr": mrr},
        "matched": overall["recall@10"] >= recall - TOLERANCE and overall["mrr"] >= mrr - TOLERANCE,
        "build_s": round(built_s, 3),
        "find_p50_ms": round(sorted(times)[len(times) // 2] * 1000, 3),
    }


def main() -> int:
    """0 when the reference is matched everywhere, 1 when not, 2 without a kit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True, help="folder for the index files")
    parser.add_argument("--sets", nargs="*", default=list(REFERENCE), help="names of data sets")
    given = parser.parse_args()
    folder = os.environ.get("KEEPS_BENCH_KIT")
    if not folder:
        print("set KEEPS_BENCH_KIT to the folder of the benchmark kit", file=sys.stderr)
        return 2
    sys.path.insert(0, folder)
    kit = importlib.import_module("memkit.datasets")
    metrics = importlib.import_module("memkit.metrics")
    results = {name: asyncio.run(measure(name, given.data, kit, metrics)) for name in given.sets}
    print(json.dumps(results, indent=2))
    return 0 if all(result["matched"] for result in results.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
