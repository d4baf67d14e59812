"""Runs of agents: what they were offered, what they cited, how they ended."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from keeps.http.body import JsonBody
from keeps.http.deps import DataCall, reply
from keeps.http.params import QueryOf
from keeps.services import citations, runs
from keeps.services.runs import RunsWanted
from keeps.wire.base import bare_id
from keeps.wire.runs import CitedOut, CitesIn, NewRunIn, OutcomeIn, RunChangeIn, RunOut, RunRecord, RunsOut, RunsQuery

router = APIRouter(prefix="/api/v1/{context:segment}/runs", tags=["runs"])


@router.post("", status_code=201, response_model=RunRecord)
async def open_run(call: DataCall, body: Annotated[NewRunIn, Depends(JsonBody(NewRunIn))]) -> Response:
    """Open a run; name it as `runId` in what it asks and writes."""
    run = await runs.open_run(call.rt, call.context, call.caller, body.to_core())
    return reply(RunRecord.of(run), 201)


@router.get("", response_model=RunsOut)
async def list_runs(call: DataCall, query: Annotated[RunsQuery, Depends(QueryOf(RunsQuery))]) -> Response:
    """Your own runs, those that were given your memory, all of them for admins; the one that began last first."""
    wanted = RunsWanted(
        agent=bare_id(query.agent, "principal"),
        session=bare_id(query.session_id, "session"),
        memory=query.memory,
        page=call.cursors.request(query, route="runs"),
    )
    page = await runs.list_(call.rt, call.context, call.caller, wanted)
    meta = call.cursors.meta(page, query, route="runs")
    return reply(RunsOut(runs=[RunRecord.of(run) for run in page.rows], page=meta))


@router.get("/{run:segment}", response_model=RunOut)
async def get_run(run: str, call: DataCall) -> Response:
    """One run: which memories were weighed, why each stood in a prompt or did not, and what was relied on."""
    found = await citations.view(call.rt, call.context, call.caller, bare_id(run, "run") or run)
    return reply(RunOut.seen(found))


@router.patch("/{run:segment}", response_model=RunRecord)
async def change_run(
    run: str, call: DataCall, body: Annotated[RunChangeIn, Depends(JsonBody(RunChangeIn))]
) -> Response:
    """Say what became of your run; with `endReason` it is closed."""
    changed = await runs.change(call.rt, call.context, call.caller, bare_id(run, "run") or run, body.to_core())
    return reply(RunRecord.of(changed))


@router.post("/{run:segment}/citations", response_model=CitedOut)
async def cite(run: str, call: DataCall, body: Annotated[CitesIn, Depends(JsonBody(CitesIn))]) -> Response:
    """Verify the ids that an answer names: only what this run was offered, and what is still there, is kept."""
    done = await citations.cite(call.rt, call.context, call.caller, bare_id(run, "run") or run, body.cites)
    return reply(CitedOut.of(done))


@router.post("/{run:segment}/outcome", response_model=RunRecord)
async def judge(run: str, call: DataCall, body: Annotated[OutcomeIn, Depends(JsonBody(OutcomeIn))]) -> Response:
    """Say whether memory helped in this run, hurt, or neither."""
    judged = await runs.judge(call.rt, call.context, call.caller, bare_id(run, "run") or run, body.outcome)
    return reply(RunRecord.of(judged))
