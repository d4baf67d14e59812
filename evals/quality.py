"""How well it finds, measured with a benchmark kit that is not part of this project.

The kit is found by the environment: `KEEPS_BENCH_KIT` names its folder, `KEEPS_BENCH_PYTHON` a Python that has what
it imports. It brings the data and the measures and asks a server of ours over HTTP; each run gets a server with an
empty folder, and only its report is kept.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from evals.place import CONTEXT, served

from evals import precision, text_leg

CONVERSATIONS: Final = ("locomo", "realtalk", "locomo_plus", "beam100k")
MADE: Final = ("synth_paraphrase", "synth_updates")
SAFETY: Final = ("synth_scopes", "synth_forget", "synth_cites")
EMBEDDER: Final = "minilm"
BELIEFS: Final = "precision"
SETS: Final = (*CONVERSATIONS, *MADE, BELIEFS, *SAFETY)
MUSTS: Final = {
    "locomo": (0.69, 0.49),
    "realtalk": (0.51, 0.42),
    "beam100k": (0.55, 0.53),
    "locomo_plus": (0.115, 0.0),
    "synth_paraphrase": (0.96, 0.85),
}
"""recall@10 and MRR below which a version is not released."""

_RUN_S: Final = 1800


@dataclass(frozen=True, slots=True)
class Kit:
    """The folder of a kit and the Python to run it with."""

    folder: Path
    python: str


def find_kit() -> Kit | None:
    """The kit that the environment names; None without one."""
    folder = os.environ.get("KEEPS_BENCH_KIT")
    return Kit(Path(folder), os.environ.get("KEEPS_BENCH_PYTHON") or sys.executable) if folder else None


async def leg(kit: Kit, folder: Path, names: Sequence[str] = tuple(text_leg.REFERENCE)) -> dict[str, Any]:
    """The text leg alone on sets of conversations, beside the kit's BM25 with stemming."""
    datasets, metrics = _of_the_kit(kit, "datasets"), _of_the_kit(kit, "metrics")
    return {name: await text_leg.measure(name, folder / name, datasets, metrics) for name in names}


def beliefs(kit: Kit, folder: Path) -> dict[str, Any]:
    """Precision and recall of what stands above the floor, on the kit's set of beliefs."""
    return precision.measure(_of_the_kit(kit, "datasets").load(BELIEFS), folder)


def _of_the_kit(kit: Kit, name: str) -> Any:
    sys.path.insert(0, str(kit.folder))
    try:
        return importlib.import_module(f"memkit.{name}")
    finally:
        sys.path.remove(str(kit.folder))


def asked(kit: Kit, folder: Path, name: str) -> dict[str, Any]:
    """What the kit reports of our server on one of its sets: recall, MRR, times, and for some sets what leaked.

    Raises: RuntimeError with the end of what the kit said when it fails.
    """
    report = folder / f"{name}.json"
    data = folder / name
    with served(data, embedder=EMBEDDER) as server:
        environment = os.environ | {
            "MEMBENCH_URL": server.endpoint,
            "MEMBENCH_TOKEN": server.key,
            "MEMBENCH_CTX": CONTEXT,
            "MEMBENCH_INGEST": "batch",
            "MEMBENCH_PID": str(server.pid),
            "MEMBENCH_DATA": str(data),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        command = [kit.python, str(kit.folder / "run.py"), "--system", "http", "--dataset", name]
        command += ["--embedder", "hash", "--out", str(report)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_RUN_S, check=False)
    if done.returncode != 0 or not report.exists():
        raise RuntimeError(f"the kit failed on {name}: {done.stderr[-500:]}")
    return _summary(json.loads(report.read_text()))


def _summary(report: dict[str, Any]) -> dict[str, Any]:
    """The part of a report that says something about us."""
    overall = report.get("quality", {}).get("overall", {})
    summary: dict[str, Any] = {
        "items": report["n_items"],
        "questions": overall.get("n"),
        "recall@10": overall.get("recall@10"),
        "mrr": overall.get("mrr"),
        "query_ms": report.get("query_ms"),
        "query_errors": report.get("query_errors"),
        "items_per_s": report["ingest"]["items_per_s"],
        "unknown_hits": report.get("unknown_hits"),
        "rss_mb": report["rss_mb"]["end"],
    }
    summary |= {part: report[part] for part in ("special", "delete", "cites") if report.get(part)}
    return {name: value for name, value in summary.items() if value is not None}
