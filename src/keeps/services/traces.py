"""Traces of reads: kept beside the read, looked at by those who could have seen what it saw, removed when old."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from keeps.core import contexts as core_contexts
from keeps.core.access import Caller, Region, Verb
from keeps.core.errors import Invalid, NotFound
from keeps.core.facts import Action, Fact, Relation, Row
from keeps.core.pages import FIRST_PAGE, Page, PageRequest, Place, time_key
from keeps.core.policy import History
from keeps.core.references import KeyReference, RowReference, parse_reference
from keeps.core.scopes import EVERYTHING, parse_pattern
from keeps.core.sessions import Turn
from keeps.core.traces import ReadTrace, Weighed
from keeps.core.validity import offered
from keeps.services.facts import before_of, readable_by
from keeps.services.history import heard
from keeps.services.runtime import Context, Runtime
from keeps.services.sight import sight_of
from keeps.store import facts as store_facts
from keeps.store import hits as store_hits
from keeps.store import sessions as store_sessions
from keeps.store import traces as store_traces
from keeps.store.rows import ref_of
from keeps.store.traces import Tally

WINDOW_HOURS: Final = 24

OTHER_SOURCE: Final = "other"
"""What stands for a source that is no plain name: it could hold anything."""

_SOURCE: Final = re.compile(r"[a-z][a-z0-9._-]{0,31}")
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")
_OWN_ID: Final = re.compile(r"[a-z0-9]{20}")
_MOST_VERSIONS: Final = 32
_HIT_TABLES: Final = ("attribute", "relates_to", "action", "turn", "memory_chunk")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A row that a read weighed, as this reader may see it. `gone`: it cannot be seen, be it erased or elsewhere now;
    then its id, names and signals are not told. `label`: its key, label or verb; `ref`: a name to look it up by.
    """

    table: str
    rank: int
    score: float
    reason: str
    unit: str = ""
    label: str | None = None
    ref: str | None = None
    signals: Mapping[str, float] = field(default_factory=dict[str, float])
    gone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceView:
    """A trace with its rows as this reader may see them. `manages`: the reader may see whose key it was."""

    trace: ReadTrace
    returned: tuple[Shown, ...] = ()
    near_misses: tuple[Shown, ...] = ()
    manages: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """Reads of a window of time, all zero for who may not see everybody's. `window_hours`: how far back it goes."""

    window_hours: int
    tallies: tuple[Tally, ...] = ()


def keep(rt: Runtime, context: Context, trace: ReadTrace) -> None:
    """Leave the trace of a read behind: at once, and without waiting for the record.

    The text of the question goes along only where the context asks for it; a source or session that is no plain
    name, and so could hold text, does not.
    """
    source = trace.source.strip().lower()
    context.traces.put(
        replace(
            trace,
            source=source if _SOURCE.fullmatch(source) else OTHER_SOURCE,
            session=trace.session if trace.session and _OWN_ID.fullmatch(trace.session) else None,
            query_text=trace.query_text if keeps_text(context) else "",
        )
    )


def keeps_text(context: Context) -> bool:
    """True where the texts of questions are kept in traces."""
    return core_contexts.keeps_questions(context.config, context.clock())


def _as_kept(context: Context, caller: Caller, trace: ReadTrace) -> ReadTrace:
    """The trace without the text of its question once its time is over, also before that is removed; and without the
    session it was asked in for who may not find what was said there."""
    if trace.query_text and not keeps_text(context):
        trace = replace(trace, query_text="")
    if trace.session is None or trace.principal == caller.principal_id or _manages(caller):
        return trace
    return trace if context.consent.settings.history is History.ON else replace(trace, session=None)


def retention(context: Context) -> timedelta:
    """How long traces of reads are kept here."""
    return timedelta(days=core_contexts.effective(context.config)["trace_retention"]["retrieval_trace_days"])


def may_see(patterns: Iterable[str], region: Region) -> bool:
    """True for who can read all that a read could see; a read that could see nothing is nobody's but a manager's."""
    asked = list(map(parse_pattern, patterns))
    return bool(asked) and all(map(region.covers_pattern, asked))


async def get(rt: Runtime, context: Context, caller: Caller, trace_id: str) -> TraceView:
    """One trace. Raises: NotFound, also when the caller may not see it."""
    await context.traces.settle()
    trace = await store_traces.find(context.db, trace_id) if _ID.fullmatch(trace_id) else None
    manages = _manages(caller)
    if trace is None or not (manages or may_see(trace.patterns, caller.region(Verb.MEMORY_READ))):
        raise NotFound(f"trace {trace_id} does not exist")
    weighed = [*trace.hits, *trace.near_misses]
    shown = await _shown(rt, context, caller, weighed)
    split = len(trace.hits)
    trace = _as_kept(context, caller, trace)
    return TraceView(trace=trace, returned=tuple(shown[:split]), near_misses=tuple(shown[split:]), manages=manages)


async def list_(rt: Runtime, context: Context, caller: Caller, page: PageRequest = FIRST_PAGE) -> Page[ReadTrace]:
    """Traces the caller may see, newest first; an offset is counted from the newest."""
    await context.traces.settle()
    seen = await _seen(context, caller)
    wanted = page.offset + page.limit + 1
    found = await store_traces.newest(context.db, seen, before=before_of(page.after), limit=wanted, now=rt.clock())
    rest = found[page.offset :]
    return Page(
        rows=tuple(_as_kept(context, caller, trace) for trace in rest[: page.limit]),
        next=_place(rest[page.limit - 1]) if len(rest) > page.limit else None,
        total=await store_traces.count(context.db, seen) if page.count else None,
    )


async def of_hit(
    rt: Runtime, context: Context, caller: Caller, ref: str, page: PageRequest = FIRST_PAGE
) -> Page[ReadTrace]:
    """Traces the caller may see that returned a row, newest first: `attribute:<id>`, a passage's or turn's id, or
    `attribute:<type>/<name>/<key>` for any value of a key.

    Raises:
        Invalid: that names no row that a read returns.
        NotFound: the caller cannot see such a row.
    """
    refs = await _returned_as(rt, context, caller, ref)
    await context.traces.settle()
    seen = await _seen(context, caller)
    moments = await store_traces.returning(context.db, refs, seen.keys())
    after = before_of(page.after)
    rest = [moment for moment in moments if after is None or moment < after][page.offset :]
    shown = rest[: page.limit]
    found = await store_traces.by_ids(context.db, [key for _, key in shown], seen)
    return Page(
        rows=tuple(_as_kept(context, caller, trace) for trace in found),
        next=(time_key(shown[-1][0]), shown[-1][1]) if len(rest) > len(shown) else None,
        total=len(moments) if page.count else None,
    )


async def stats(
    rt: Runtime, context: Context, caller: Caller, *, window_hours: int = WINDOW_HOURS, since: datetime | None = None
) -> Stats:
    """Reads since a time, or of the last hours; nothing but zeros for who does not manage everything."""
    now = rt.clock()
    if since is not None:
        window_hours = max(0, round((now - since) / timedelta(hours=1)))
    if not _manages(caller):
        return Stats(window_hours=window_hours)
    await context.traces.settle()
    begin = since or now - timedelta(hours=window_hours)
    return Stats(window_hours=window_hours, tallies=tuple(await store_traces.tallies(context.db, begin)))


async def prune(rt: Runtime, context: Context) -> int:
    """Remove traces whose time is over, and texts where none are kept any more; how many traces there were."""
    if not keeps_text(context):
        await store_traces.empty_texts(context.db)
    return await store_traces.prune(context.db, rt.clock() - retention(context))


# ---------------------------------------------------------------------- who sees what
def _manages(caller: Caller) -> bool:
    return caller.region(Verb.GRANT_MANAGE).covers_pattern(EVERYTHING)


async def _seen(context: Context, caller: Caller) -> Mapping[str, Sequence[str]]:
    """The regions whose reads the caller may see."""
    known = await store_traces.regions(context.db)
    if _manages(caller):
        return known
    region = caller.region(Verb.MEMORY_READ)
    return {name: patterns for name, patterns in known.items() if may_see(patterns, region)}


async def _shown(rt: Runtime, context: Context, caller: Caller, weighed: Sequence[Weighed]) -> list[Shown]:
    """The rows as they may be seen now, in order."""
    refs = [each.row for each in weighed]
    found = await _visible(rt, context, caller, refs)
    return [_as_seen(each, found.get(each.row)) for each in weighed]


async def _visible(rt: Runtime, context: Context, caller: Caller, refs: Sequence[str]) -> dict[str, Row | Turn]:
    """Those of the rows that stand and that the caller may look at."""
    sight, now = sight_of(context, caller), rt.clock()
    found = await store_hits.by_refs(context.db, context.sets, refs, sight.sets)
    may_hear = await heard(context, caller, [row for row in found.values() if isinstance(row, Turn)])
    return {
        name: row
        for name, row in found.items()
        if _stands(row, now) and (row.id in may_hear if isinstance(row, Turn) else sight.shows(row))
    }


def _as_seen(weighed: Weighed, row: Row | Turn | None) -> Shown:
    table = weighed.unit.partition(":")[0]
    plain = Shown(table=table, rank=weighed.rank, score=weighed.score, reason=weighed.reason, gone=True)
    if row is None:
        return plain
    return replace(plain, unit=weighed.unit, label=_label(row), ref=_name(row), signals=weighed.signals, gone=False)


def _stands(row: Row | Turn, now: datetime) -> bool:
    if isinstance(row, Turn):
        return row.active
    return row.clocks.forgotten_at is None and offered(row.control, now)


def _label(row: Row | Turn) -> str | None:
    if isinstance(row, Fact):
        return row.key
    if isinstance(row, Relation):
        return row.label
    return row.verb if isinstance(row, Action) else None


def _name(row: Row | Turn) -> str:
    if isinstance(row, Turn):
        return f"turn:{row.id}"
    if isinstance(row, Fact):
        return f"attribute:{row.entity}/{row.key}"
    if isinstance(row, Relation):
        return f"relation:{row.subject}-[{row.label}]->{row.object}"
    return ref_of(row)


async def _returned_as(rt: Runtime, context: Context, caller: Caller, ref: str) -> list[str]:
    """The rows that a reference stands for among what reads return. Raises: Invalid, NotFound."""
    reference = parse_reference(ref)
    readable = readable_by(context, caller)
    if isinstance(reference, KeyReference):
        versions = await store_facts.versions(context.db, context.sets, reference.entity, reference.key, readable)
        refs = [ref_of(fact) for fact in store_facts.newest_first(versions)][:_MOST_VERSIONS]
    elif isinstance(reference, RowReference) and reference.table in (None, *_HIT_TABLES):
        refs = await _rows_named(context, reference)
    else:
        raise Invalid("name one row that a read can return: attribute:<id>, action:<id>, turn:<id>, memory_chunk:<id>")
    visible = list(await _visible(rt, context, caller, refs))
    if not visible:
        raise NotFound(f"{ref.strip()} does not exist")
    return visible


async def _rows_named(context: Context, reference: RowReference) -> list[str]:
    tables = _HIT_TABLES if reference.table is None else (reference.table,)
    refs = [f"{table}:{reference.id}" for table in tables if table != "memory_chunk"]
    if "memory_chunk" in tables and (found := await store_sessions.find_chunk(context.db, reference.id)):
        refs.append(f"turn:{found[0]}")
    return refs


def _place(trace: ReadTrace) -> Place:
    return time_key(trace.at), trace.id
