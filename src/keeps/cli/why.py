"""`keeps why` and `keeps traces`: why a memory was found, what a run was offered, and what was asked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Final

import typer
from rich.console import Console

from keeps.cli import runs
from keeps.cli.look import shortened, tell, tell_facts, texts_of
from keeps.cli.reach import Reach, Reaching, counted, said
from keeps.client import Client
from keeps.core.errors import NotFound
from keeps.wire.base import WireOut
from keeps.wire.inspect import InspectOut
from keeps.wire.memories import UsesOut
from keeps.wire.traces import ReturnedOut, TraceOut, TraceRecord, TracesOut

app = typer.Typer()

LATEST: Final = 10
"""Reads that are shown of a memory, unless asked otherwise."""

_LISTED: Final = 20
_MOST: Final = 500
_TRACES: Final = frozenset({"trace", "decision_trace", "retrieval_trace", "response_trace"})
_RUN: Final = "run:"
_ROW_ID: Final = re.compile(r"[a-z0-9]{20}(_[0-9]{1,9})?")
_TIERS: Final = {
    "direct": "looked up by name",
    "hybrid": "searched",
    "escalated": "searched twice, the second time further",
}
_REASONS: Final = {
    "slot_named": "named in the question",
    "about_the_entity": "about what the question names",
    "ranked": "among the best",
    "below_k": "others were better",
    "below_floor": "not near enough",
    "duplicate": "says the same as a better one",
    "not_current": "no longer in force",
    "not_at_that_time": "not known or not true at that time",
    "withheld": "held back",
    "other_labels": "has other labels",
    "other_subject": "is about something else",
}
"""Why a row was returned, or was not, for people; other reasons are said as they are."""

_SEARCHES: Final = {
    "text": "the search by words",
    "vector": "the search by meaning, since texts had no vector yet, or there are none",
    "exact": "the search by names",
    "graph": "the search by relations",
}

_QUESTIONS: Final = {
    "direct_lookup": "asks for one thing by name",
    "hybrid": "is a search",
    "full_context": "asks for everything",
}


class Used(WireOut):
    """How a memory was used: `times` it was returned, the latest `traces` of that, what is known of the `row`, and, for
    the person it belongs to, its `uses` in prompts and answers."""

    ref: str
    times: int
    row: InspectOut
    uses: UsesOut | None = None
    traces: list[TraceRecord]


Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=_MOST, help="Reads at most, the newest first.")]


@app.command(cls=Reaching, epilog="Example: keeps why attribute:3v9c0k2m7x1q8d4f6h5j")
def why(
    ctx: typer.Context,
    what: Annotated[
        str,
        typer.Argument(
            metavar="TRACE|RUN|MEMORY", help="The trace of a read, a run, or a memory as `recall` names it."
        ),
    ],
    limit: Limit = LATEST,
) -> None:
    """Say why a read found what it found, what a run was offered, or when and why a memory was used."""
    reach = Reach.of(ctx)
    if what.strip().startswith(_RUN):
        runs.explain(reach, what.strip())
        return
    texts: dict[str, str] = {}

    async def work(memory: Client) -> TraceOut | Used:
        explained = await _explained(memory, what.strip(), limit)
        if isinstance(explained, TraceOut) and not reach.json:
            texts.update(await texts_of(memory, _shown(explained)))
        return explained

    try:
        found = reach.ask(work)
    except NotFound:
        # A bare id may be that of a run.
        if not _ROW_ID.fullmatch(what.strip()):
            raise
        runs.explain(reach, what.strip())
        return
    if isinstance(found, TraceOut):
        reach.show(found, lambda console: tell_trace(console, found, texts))
    else:
        reach.show(found, lambda console: tell_used(console, found))


@app.command(cls=Reaching, epilog="Example: keeps traces -n 5")
def traces(ctx: typer.Context, limit: Limit = _LISTED) -> None:
    """List what was asked of the memory, the newest first: never the questions themselves."""
    reach = Reach.of(ctx)
    found = reach.ask(lambda memory: memory.traces.list(limit=limit))
    reach.show(found, lambda console: tell_traces(console, found))


async def _explained(memory: Client, what: str, limit: int) -> TraceOut | Used:
    prefix, colon, _ = what.partition(":")
    if prefix in _TRACES or not (colon or "/" in what):
        try:
            return await memory.traces.get(what)
        except NotFound:
            # A bare id may be that of a memory.
            if colon or not _ROW_ID.fullmatch(what):
                raise
    page = await memory.traces.list(ref=what, limit=limit, count=True)
    row = await memory.inspect(what)
    uses = await _uses(memory, row)
    return Used(ref=what, times=page.page.total_size or 0, row=row, uses=uses, traces=page.traces)


async def _uses(memory: Client, found: InspectOut) -> UsesOut | None:
    row = found.attribute or found.current or found.relation or found.action
    if row is None:
        return None
    try:
        return (await memory.memories.get(row.id)).uses
    except NotFound:
        return None


def _shown(trace: TraceOut) -> list[str]:
    """The rows of a trace that are there, by id."""
    returned = [row for retrieval in trace.retrievals for row in retrieval.returned]
    return [row.id for row in (*returned, *trace.near_misses) if not row.gone]


def tell_trace(console: Console, trace: TraceOut, texts: Mapping[str, str]) -> None:
    """Print a read for people: who asked how, what came of it and why, and what nearly did. `texts`: what stands now
    in its rows, as far as the reader of it may know."""
    console.print(said(_headline(trace)))
    console.print(said(f"{_TIERS.get(trace.resolution_tier, trace.resolution_tier)}: {trace.tier_reason}"))
    kind = _QUESTIONS.get(trace.classification_kind or "", trace.classification_kind)
    named = f", and names {counted(trace.seed_entities, 'known thing')}" if trace.seed_entities else ""
    console.print(said(f"the question {kind}{named}", "dim"))
    if trace.query_text:
        console.print(said(f"“{trace.query_text}”"))
    returned = [row for retrieval in trace.retrievals for row in retrieval.returned]
    if not returned:
        console.print("It found nothing.")
    for row in returned:
        _tell_row(console, f"{row.rank:2}.", row, texts.get(row.id))
    if trace.near_misses:
        console.print("Near, and not returned:")
    for row in trace.near_misses:
        _tell_row(console, "  -", row, texts.get(row.id))
    for leg in trace.legs:
        state = f"found {leg.found} in {leg.took_ms:.0f} ms, weight {leg.weight:.2f}" if leg.answered else "no answer"
        console.print(said(f"by {leg.name}: {state}", "dim"))
    for name in trace.degraded or ():
        console.print(said(f"Could not answer in full: {_SEARCHES.get(name, name)}", "yellow"))


def tell_used(console: Console, used: Used) -> None:
    """Print for people what a memory rests on, and the latest reads that returned it."""
    fact = used.row.attribute or used.row.current
    if fact is not None:
        tell_facts(console, [fact])
    else:
        tell(console, used.row)
    console.print(
        f"Returned {counted(used.times, 'time')}." if used.times else "Not returned by any read that is kept."
    )
    if used.uses is not None and used.uses.offered:
        prompts, answers = counted(used.uses.offered, "prompt"), counted(used.uses.cited, "answer")
        last = f"; last for {used.uses.last_by}" if used.uses.last_by else ""
        console.print(said(f"Put into {prompts}, cited in {answers}{last}."))
    for trace in used.traces:
        console.print(said(f"    {_headline(trace)} · {trace.id}", "dim"))


def tell_traces(console: Console, found: TracesOut) -> None:
    """Print a list of reads for people."""
    if not found.traces:
        console.print("Nothing was asked yet.")
    for trace in found.traces:
        console.print(said(f"{trace.id} · {_headline(trace)}"))
        console.print(said(f"    {counted(trace.retrieved_count, 'hit')} · {trace.tier_reason}", "dim"))


def _headline(trace: TraceRecord) -> str:
    parts = [f"{trace.created_at:%Y-%m-%d %H:%M:%S}", f"asked by {trace.principal}"]
    if trace.on_behalf_of:
        parts.append(f"for {trace.on_behalf_of}")
    parts += [f"through {trace.source}", f"mode {trace.mode}", f"{trace.latency_ms} ms"]
    return " · ".join(parts)


def _tell_row(console: Console, mark: str, row: ReturnedOut, text: str | None) -> None:
    if row.gone:
        console.print(said(f"{mark} no longer there, or not yours to see", "dim"))
        return
    console.print(said(f"{mark} {row.ref or row.id} · score {row.score:.2f}"))
    if text is not None:
        console.print(said(f"    {shortened(text)}"))
    console.print(said("    " + " · ".join([*_spoke(row), *_reason(row), row.id]), "dim"))


def _reason(row: ReturnedOut) -> Iterable[str]:
    if row.reason:
        yield _REASONS.get(row.reason, row.reason.replace("_", " "))


def _spoke(row: ReturnedOut) -> Iterable[str]:
    """What spoke for a row, in words."""
    signals = row.signals
    if "text" in signals or "share" in signals:
        share = signals.get("share")
        yield "its words" if share is None else f"its words ({share:.0%} of the question)"
    if "cosine" in signals:
        yield f"its meaning ({signals['cosine']:.2f})"
    if "graph" in signals:
        yield f"what it is related to ({signals['graph']:.2f})"
