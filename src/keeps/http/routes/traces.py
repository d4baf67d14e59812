"""What reads left behind."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Depends
from starlette.responses import Response

from keeps.http.deps import DataCall, reply
from keeps.http.params import QueryOf
from keeps.services import traces
from keeps.wire.base import bare_id
from keeps.wire.traces import TraceOut, TraceRecord, TracesOut, TracesQuery, TraceStatsOut, TraceStatsQuery

router = APIRouter(prefix="/api/v1/{context:segment}/traces", tags=["traces"])
_PREFIXES: Final = ("trace", "decision_trace", "retrieval_trace", "response_trace")


@router.get("", response_model=TracesOut)
async def list_traces(call: DataCall, query: Annotated[TracesQuery, Depends(QueryOf(TracesQuery))]) -> Response:
    """Reads that saw no more than the caller may see, newest first; all of them for who manages everything."""
    request = call.cursors.request(query, route="traces")
    if query.ref is None:
        page = await traces.list_(call.rt, call.context, call.caller, request)
    else:
        page = await traces.of_hit(call.rt, call.context, call.caller, query.ref, request)
    meta = call.cursors.meta(page, query, route="traces")
    return reply(TracesOut(traces=[TraceRecord.of(trace) for trace in page.rows], page=meta))


@router.get("/stats", response_model=TraceStatsOut)
async def trace_stats(call: DataCall, query: Annotated[TraceStatsQuery, Depends(QueryOf(TraceStatsQuery))]) -> Response:
    """Numbers about the reads of a window of time."""
    found = await traces.stats(call.rt, call.context, call.caller, window_hours=query.window_hours, since=query.since)
    return reply(TraceStatsOut.of(found))


@router.get("/{trace:segment}", response_model=TraceOut)
async def get_trace(trace: str, call: DataCall) -> Response:
    """One read: which rows it weighed, what spoke for each, and what it left out."""
    found = await traces.get(call.rt, call.context, call.caller, bare_id(trace, *_PREFIXES) or trace)
    return reply(TraceOut.seen(found))
