"""Runs of agents on the wire: opened, cited, judged, closed and looked at, by ids, numbers and fixed words."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

from pydantic import AfterValidator, Field

from keeps.core.citations import NOT_OFFERED
from keeps.core.runs import EndReason, Outcome, Run, ToolCall
from keeps.wire.base import StrictIn, WireOut, bare_id, example
from keeps.wire.late import Late
from keeps.wire.pages import PageMeta, PageQuery

if TYPE_CHECKING:
    from keeps.services import runs
    from keeps.services.citations import Cited, MemoriesUsed, RunView, UsedMemory, Weighed
    from keeps.services.runs import NewRun, RunChange
else:
    runs = Late("keeps.services.runs")

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,63}")
_MEMORY: Final = re.compile(r"[a-z_]{1,32}:[A-Za-z0-9_-]{1,128}")
_MOST_MS: Final = 7 * 86_400_000
_MOST_TOKENS: Final = 10**9
_MOST_COST: Final = 1e12


def _name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError("a name has 1 to 64 of the letters A-Z a-z, digits and _ . : / -")
    return value


def _memory(value: str) -> str:
    if not _MEMORY.fullmatch(value):
        raise ValueError("write the id of a memory as it was offered: attribute:<id>")
    return value


def _cost(value: float) -> float:
    if not math.isfinite(value) or not 0 <= value <= _MOST_COST:
        raise ValueError("a cost is a number from 0 to 10^12")
    return value


_Ms = Annotated[int, Field(strict=True, ge=0, le=_MOST_MS)]
_Name = Annotated[str, AfterValidator(_name)]


class NewRunIn(StrictIn):
    """A run to open. `temporary`: it reads no memory and keeps none, for good; `saving` false: it only keeps none."""

    model_config = example(sessionId="3v9c0k2m7x1q8d4f6h5j", saving=True)

    session_id: Annotated[str, Field(max_length=200)] | None = None
    temporary: bool = False
    saving: bool = True

    def to_core(self) -> NewRun:
        """The run this opens."""
        session = bare_id(self.session_id, "session")
        return runs.NewRun(session=session, temporary=self.temporary, saving=self.saving)


class ToolCallIn(StrictIn):
    """One call of a tool: its name, whether it went well, how long it took, which memories its result contradicts."""

    name: _Name
    ok: Annotated[bool, Field(strict=True)]
    ms: _Ms = 0
    contradicts: Annotated[tuple[Annotated[str, AfterValidator(_memory)], ...], Field(max_length=50)] = ()


class RunChangeIn(StrictIn):
    """What becomes of a run; with `endReason` it is closed. `temporary` and `saving` can only say again what is."""

    model_config = example(
        endReason="answered", toolCalls=[{"name": "search", "ok": True, "ms": 41}], cost={"usd": 0.004}
    )

    end_reason: EndReason | None = None
    tool_calls: Annotated[tuple[ToolCallIn, ...], Field(max_length=200)] | None = None
    cost: Annotated[Mapping[_Name, Annotated[float, AfterValidator(_cost)]], Field(max_length=20)] | None = None
    tokens: Annotated[int, Field(strict=True, ge=0, le=_MOST_TOKENS)] | None = None
    latency_ms: _Ms | None = None
    temporary: bool | None = None
    saving: bool | None = None

    def to_core(self) -> RunChange:
        """The change this asks for."""
        calls = None
        if self.tool_calls is not None:
            calls = tuple(
                ToolCall(name=call.name, ok=call.ok, ms=call.ms, contradicts=call.contradicts)
                for call in self.tool_calls
            )
        return runs.RunChange(
            end_reason=self.end_reason,
            tool_calls=calls,
            cost=self.cost,
            tokens=self.tokens,
            took_ms=self.latency_ms,
            temporary=self.temporary,
            saving=self.saving,
        )


class CitesIn(StrictIn):
    """The ids that an answer names, as the model wrote them."""

    model_config = example(cites=["attribute:3v9c0k2m7x1q8d4f6h5j"])

    cites: tuple[str, ...]


class OutcomeIn(StrictIn):
    """Whether memory helped."""

    model_config = example(outcome="helped")

    outcome: Outcome


class RunsQuery(PageQuery):
    """Which runs: of an agent's principal, in a session, that were given a memory (`attribute:<id>`)."""

    agent: Annotated[str, Field(max_length=200)] | None = None
    session_id: Annotated[str, Field(max_length=200)] | None = None
    memory: Annotated[str, Field(max_length=200)] | None = None


class ToolCallOut(WireOut):
    """One call of a tool."""

    name: str
    ok: bool
    ms: int
    contradicts: tuple[str, ...] = ()


class RunRecord(WireOut):
    """One run. `tokensMemory`, `memoryMs`: what memory put into its prompts, and took; `tokens`, `latencyMs`, `cost`:
    what the host said of the whole run. `textTraced`: texts of what it asked were kept for
    a while."""

    id: str
    agent_id: str
    on_behalf_of: str | None = None
    session_id: str | None = None
    mode: str
    settings_version: int
    started_at: datetime
    ended_at: datetime | None = None
    end_reason: EndReason | None = None
    temporary: bool
    saving: bool
    tool_calls: tuple[ToolCallOut, ...] = ()
    tokens_memory: int
    memory_ms: int
    tokens: int | None = None
    latency_ms: int | None = None
    cost: dict[str, float] = Field(default_factory=dict[str, float])
    cites_kept: int
    cites_dropped: int
    degraded: tuple[str, ...] = ()
    outcome: Outcome | None = None
    text_traced: bool | None = None

    @classmethod
    def of(cls, run: Run) -> Self:
        return cls(**_record(run))


def _record(run: Run) -> dict[str, Any]:
    return {
        "id": run.id,
        "agent_id": run.agent,
        "on_behalf_of": run.on_behalf_of,
        "session_id": run.session,
        "mode": run.mode,
        "settings_version": run.settings_version,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "end_reason": run.end_reason,
        "temporary": run.temporary,
        "saving": run.saving,
        "tool_calls": tuple(
            ToolCallOut(name=call.name, ok=call.ok, ms=call.ms, contradicts=tuple(call.contradicts))
            for call in run.tool_calls
        ),
        "tokens_memory": run.tokens_memory,
        "memory_ms": run.latency_ms,
        "tokens": run.tokens,
        "latency_ms": run.took_ms,
        "cost": dict(run.cost),
        "cites_kept": run.cites_kept,
        "cites_dropped": run.cites_dropped,
        "degraded": tuple(run.degraded),
        "outcome": run.outcome,
        "text_traced": run.text_traced or None,
    }


class RunMemoryOut(WireOut):
    """One memory that was weighed, why, and whether it stood in the prompt. `gone`: there is nothing of it to be seen
    now, erased or not yours; then `id` is empty."""

    id: str
    rank: int
    retrieval_reason: str
    retrieval_score: float
    prompt_inclusion: str
    origin: str
    cited: bool = False
    gone: bool | None = None

    @classmethod
    def of(cls, weighed: Weighed) -> Self:
        each = weighed.candidate
        return cls(
            id="" if weighed.gone else each.memory,
            rank=each.rank,
            retrieval_reason=each.reason.value,
            retrieval_score=each.score,
            prompt_inclusion=each.inclusion.value,
            origin=each.origin,
            cited=weighed.cited,
            gone=weighed.gone or None,
        )


class UsedMemoryOut(WireOut):
    """A memory as a person is shown it. `label`: who stands behind it; `date`: since when it is known."""

    id: str
    kind: str
    text: str
    origin: str
    label: str
    date: datetime

    @classmethod
    def of(cls, used: UsedMemory) -> Self:
        return cls(id=used.id, kind=used.kind, text=used.text, origin=used.origin, label=used.label, date=used.at)


class MemoriesUsedOut(WireOut):
    """What an answer relied on, and what else stood in its prompt. Where both are empty there is nothing to show."""

    cited: tuple[UsedMemoryOut, ...] = ()
    also_shown: tuple[UsedMemoryOut, ...] = ()

    @classmethod
    def of(cls, used: MemoriesUsed) -> Self:
        return cls(
            cited=tuple(map(UsedMemoryOut.of, used.cited)), also_shown=tuple(map(UsedMemoryOut.of, used.also_shown))
        )


class RunOut(RunRecord):
    """One run in full. `memoriesUsed` only for its agent and for the person, and where the context shows it."""

    selected_memory_ids: tuple[str, ...] = ()
    memories: tuple[RunMemoryOut, ...] = ()
    proposed: int = 0
    bad_cites: tuple[str, ...] = ()
    memories_used: MemoriesUsedOut | None = None

    @classmethod
    def seen(cls, view: RunView) -> Self:
        """The run as its reader sees it."""
        weighed = tuple(map(RunMemoryOut.of, view.weighed))
        return cls(
            **_record(view.run),
            selected_memory_ids=tuple(each.id for each in weighed if each.id and each.prompt_inclusion == "included"),
            memories=weighed,
            proposed=view.run.proposed,
            bad_cites=view.bad,
            memories_used=None if view.memories_used is None else MemoriesUsedOut.of(view.memories_used),
        )


class RunsOut(WireOut):
    """Runs, the one that began last first."""

    runs: list[RunRecord]
    page: PageMeta


class CitedOut(WireOut):
    """What became of cites. `dropped`: how many are not kept, for the one `reason`; `uncited`: none is kept."""

    kept: tuple[str, ...]
    dropped: int
    reason: str | None = None
    uncited: bool | None = None
    memories_used: MemoriesUsedOut | None = None

    @classmethod
    def of(cls, cited: Cited) -> Self:
        verified = cited.verified
        return cls(
            kept=verified.kept,
            dropped=len(verified.dropped),
            reason=NOT_OFFERED if verified.dropped else None,
            uncited=verified.uncited or None,
            memories_used=None if cited.memories_used is None else MemoriesUsedOut.of(cited.memories_used),
        )
