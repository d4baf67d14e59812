"""Measure speed, growth and quality; print a table and keep the figures as JSON.

    python -m evals.bench                    writes, batches, 1,000 and 5,000 rows: about two minutes
    python -m evals.bench --rows 10000       other sizes
    python -m evals.bench --large            1,000, 10,000 and 100,000 rows: half an hour
    python -m evals.bench --only quality     with the kit that KEEPS_BENCH_KIT names

What the figures mean, and how to take them so that they mean something: docs/explanation/performance.md.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from evals.place import machine, save
from rich.console import Console
from rich.table import Table

from evals import growth, quality, speed, text_leg

PARTS: Final = ("writes", "batches", "vectors", "growth", "quality")
SMALL: Final = (1_000, 5_000)
LARGE: Final = (1_000, 10_000, 100_000)

_NEVER_ACCEPTED: Final = frozenset({"deleted", "made-up"})

Line = tuple[str, str, str]
"""What was measured, the figure, what is aimed at."""

# Milliseconds a recall in the library may take by the number of rows in its scope; twice the steps between.
_RECALL_AIM_MS: Final = {1_000: 8, 10_000: 12, 100_000: 40}


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when everything that was asked for ran and nothing leaked, 1 when something leaked, 2 without a kit."""
    given = _parsed(arguments)
    kit = quality.find_kit()
    parts = given.only or [part for part in PARTS if part != "quality" or given.quality]
    if "quality" in parts and kit is None:
        Console(stderr=True).print("set KEEPS_BENCH_KIT to the folder of the benchmark kit")
        return 2
    given.out.mkdir(parents=True, exist_ok=True)
    now = datetime.now(UTC)
    result: dict[str, Any] = {"version": version("keeps"), "at": now.isoformat(), "machine": machine()}
    # On the disk of the results, since a folder for temporary files may lie in memory, where a flush costs nothing.
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=given.out, ignore_cleanup_errors=True) as place:
        for part in parts:
            result[part] = _measured(part, given, Path(place) / part, kit)
    result["machine"]["load_at_end"] = machine()["load"]
    path = save(given.out, f"bench-{now:%Y%m%dT%H%M%SZ}", result)
    console = Console()
    console.print(_table(result))
    console.print(f"figures: {path}")
    return 1 if list(leaks(result)) else 0


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="evals.bench", description="Measure speed, growth and quality.")
    parser.add_argument("--only", nargs="+", choices=PARTS, help="only these parts")
    parser.add_argument("--quality", action="store_true", help="also the quality of answers, with the kit")
    parser.add_argument("--large", action="store_true", help="growth up to 100,000 rows")
    parser.add_argument("--rows", type=int, nargs="+", help="growth at these numbers of rows")
    parser.add_argument("--rounds", type=int, default=100, help="single writes of each kind")
    parser.add_argument("--batch", type=int, default=200, help="messages in a batch")
    parser.add_argument("--batches", type=int, default=10, help="batches")
    parser.add_argument("--questions", type=int, default=200, help="questions timed at each size")
    parser.add_argument("--recalls", type=int, default=1_000, help="questions asked before memory is read")
    parser.add_argument("--sets", nargs="+", default=list(quality.SETS), help="sets of the kit")
    parser.add_argument("--out", type=Path, default=Path("bench-out"), help="where figures and data are put")
    return parser.parse_args(arguments)


def _measured(part: str, given: argparse.Namespace, place: Path, kit: quality.Kit | None) -> Any:
    """The figures of one part."""
    Console(stderr=True).print(f"measuring {part} …")
    if part == "writes":
        return asyncio.run(speed.writes(place, given.rounds))
    if part == "batches":
        return asyncio.run(speed.batches(place, given.batch, given.batches))
    if part == "vectors":
        return asyncio.run(speed.vectors(place, given.batch, given.batches))
    if part == "growth":
        sizes = given.rows or (LARGE if given.large else SMALL)
        return [
            asyncio.run(growth.growth(place / str(rows), rows, questions=given.questions, recalls=given.recalls))
            for rows in sizes
        ]
    assert kit is not None
    alone = [name for name in given.sets if name in text_leg.REFERENCE]
    place.mkdir(parents=True)
    figures: dict[str, Any] = {
        "text_leg": asyncio.run(quality.leg(kit, place / "leg", alone)),
        "server": {name: quality.asked(kit, place, name) for name in given.sets if name != quality.BELIEFS},
    }
    if quality.BELIEFS in given.sets:
        figures[quality.BELIEFS] = quality.beliefs(kit, place / quality.BELIEFS)
    return figures


def leaks(result: dict[str, Any]) -> Iterator[str]:
    """What was found that nobody may find; a made-up or deleted id that was taken for one of ours.

    The kit asks with the owner's key for everything, so it cannot tell whether a stranger may read an id.
    """
    for name, run in result.get("quality", {}).get("server", {}).items():
        if run.get("special", {}).get("forbidden_hits"):
            yield f"{name}: forbidden hits"
        cites = run.get("cites")
        if isinstance(cites, dict) and any(cites[kind]["accepted"] for kind in _NEVER_ACCEPTED & cites.keys()):
            yield f"{name}: ids accepted that name nothing"


def _table(result: dict[str, Any]) -> Table:
    where = result["machine"]
    table = Table(
        title=f"keeps {result['version']}, {where['cpus']} CPUs, load {where['load'][0]}, {result['at'][:10]}"
    )
    table.add_column("what")
    table.add_column("measured", justify="right")
    table.add_column("aim", justify="right")
    shown = zip(PARTS, (_writes, _batches, _vectors, _growth, _quality), strict=True)
    for part, lines in shown:
        if part in result:
            for line in lines(result[part]):
                table.add_row(*line)
            table.add_section()
    return table


def _writes(figures: dict[str, Any]) -> Iterator[Line]:
    for name, figure in figures.items():
        shown = f"{figure['p50_ms']} / {figure['p95_ms']} ms"
        aim = ""
        if name in ("none", "triples"):
            flushes = figure["flushes_each"]
            shown += f", {figure['ratio_p50']}x bare, 1 commit, "
            shown += "flushes not measured" if flushes is None else f"{flushes:g} flushes"
            aim = "≤ 3x, 1 commit"
        elif name.startswith("http_"):
            shown += f", {figure['over_library_ms']:+} ms"
            aim = "≤ + 3 ms"
        yield f"write {name.replace('_', ' ')}, p50 / p95", shown, aim


def _batches(figures: dict[str, Any]) -> Iterator[Line]:
    for name, place in (("library", "library"), ("http", "HTTP")):
        shown = f"{figures[f'{name}_messages_per_s']:,} messages/s, {figures[f'{name}_cpu_ms']} ms CPU each"
        yield f"batches of {figures['batch']}, {place}", shown, "≥ 1,500"


def _vectors(figures: dict[str, Any]) -> Iterator[Line]:
    shown = f"{figures['messages_per_s']:,} messages/s, {figures['ratio']:.0%} of the embedder alone"
    yield f"batches of {figures['batch']}, until each has its vector", shown, "≥ 85 %"


def _growth(sizes: Sequence[dict[str, Any]]) -> Iterator[Line]:
    for at in sizes:
        rows = at["rows"]
        recall, http, find = at["recall"], at["http_recall"], at["find"]
        aim = _RECALL_AIM_MS.get(rows)
        yield f"{rows:,} rows: find, p50 / p95", f"{find['p50_ms']} / {find['p95_ms']} ms", ""
        inside = f"{recall['p50_ms']} / {recall['p95_ms']} ms, {recall['cpu_ms']} ms CPU"
        yield "recall, library", inside, f"≤ {aim} ms" if aim else ""
        over = f"{http['p50_ms']} / {http['p95_ms']} ms, {http['over_library_ms']:+} ms"
        yield "recall, HTTP", over, "≤ + 3 ms"
        yield "start to first answer", f"{at['start_to_first_answer_s']} s", "≤ 3 s" if rows == 10_000 else ""
        held = f"{at['resident_mb']} MB after {at['recalls']:,} recalls"
        yield "memory, all processes", held, "≤ 1,229 MB" if rows == 100_000 else ""
        yield "record", f"{at['record_bytes'] / 2**20:.1f} MB", ""
        yield "finder", f"{at['finder_bytes_a_row']:,} bytes a row", "≤ 2,048"
        yield "index built anew", f"{at['rebuild_s']} s", "≤ 90 s" if rows == 100_000 else ""


def _quality(figures: dict[str, Any]) -> Iterator[Line]:
    for name, run in figures["text_leg"].items():
        aim = run["reference"]
        yield f"{name}, text leg", _found(run), f"{aim['recall@10']} / {aim['mrr']}"
    for name, run in figures["server"].items():
        if run.get("recall@10") is not None:
            must = quality.MUSTS.get(name)
            yield f"{name}, server: recall@10 / MRR", _found(run), f"≥ {must[0]} / {must[1]}" if must else ""
        special = run.get("special", {})
        if "forbidden_hits" in special:
            yield f"{name}: forbidden hits", str(special["forbidden_hits"]), "0"
        cites = run.get("cites")
        if isinstance(cites, dict):
            counted = ", ".join(f"{kind} {row['accepted']}/{row['n']}" for kind, row in cites.items())
            yield f"{name}: ids accepted", counted, "deleted, made-up 0"

    beliefs = figures.get(quality.BELIEFS)
    if beliefs:
        yield (
            f"{quality.BELIEFS}: precision / recall above {beliefs['floor']}",
            f"{beliefs['precision']} / {beliefs['recall']}",
            "≥ 0.6 / 0.9",
        )
        unrelated = beliefs["unrelated"]
        yield f"hits of {unrelated['questions']} unrelated questions above it", str(unrelated["hits"]), "0"


def _found(run: dict[str, Any]) -> str:
    return f"{run['recall@10']} / {run['mrr']}"


if __name__ == "__main__":
    raise SystemExit(main())
