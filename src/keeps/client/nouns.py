"""Sessions, scopes, principals, keys, traces, runs and memories, as a client sees them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from keeps.client.calls import Call, path_of
from keeps.client.given import check_k
from keeps.wire.keys import KeyListOut, MintedKey
from keeps.wire.memories import MemoriesOut, MemoryHistoryOut, MemoryOut, SavedOut
from keeps.wire.principals import EffectiveOut, PrincipalListOut, PrincipalOut
from keeps.wire.runs import CitedOut, RunOut, RunRecord, RunsOut
from keeps.wire.scopes import ScopeForgetOut, ScopeListOut, ScopeNode
from keeps.wire.sessions import SessionContextOut, SessionListOut, SessionOut, TurnListOut
from keeps.wire.traces import TraceOut, TracesOut, TraceStatsOut

Ask = Callable[[Call], Awaitable[Any]]
ScopeSpelling = str | Sequence[str | Sequence[str]]
"""Scopes: a path, a list of paths of which one suffices, or a list of lists: an OR of ANDs."""

Grants = Mapping[str, Sequence[str]]
"""Patterns of scopes by verb: `{"memory:read": ["org/north/*"]}`."""


class Noun:
    """What can be asked about one kind of thing."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def _get(self, path: str, /, **params: object) -> Any:
        return await self._ask(Call(method="GET", path=path, params=params, repeatable=True))

    async def _post(self, path: str, body: Mapping[str, object], *, key: str | None = None) -> Any:
        call = Call(method="POST", path=path, body=body, idempotency_key=key, repeatable=key is not None)
        return await self._ask(call)


class Sessions(Noun):
    """Conversations."""

    async def create(
        self,
        *,
        scopes: ScopeSpelling | None = None,
        metadata: Mapping[str, object] | None = None,
        idempotency_key: str | None = None,
    ) -> SessionOut:
        """A new session; without scopes it belongs where the caller's memories do. Raises: Forbidden."""
        body = {"scopes": scopes, "metadata": metadata}
        return SessionOut.parse(await self._post("/sessions", body, key=idempotency_key))

    async def get(self, session: str) -> SessionOut:
        """One session. Raises: NotFound."""
        return SessionOut.parse(await self._get(path_of("sessions", session)))

    async def list(
        self, *, limit: int | None = None, cursor: str | None = None, count: bool | None = None
    ) -> SessionListOut:
        """A page of sessions, newest first."""
        return SessionListOut.parse(await self._get("/sessions", limit=limit, cursor=cursor, count=count))

    async def turns(
        self, session: str, *, limit: int | None = None, cursor: str | None = None, count: bool | None = None
    ) -> TurnListOut:
        """A page of what was said, oldest first. Raises: NotFound."""
        found = await self._get(path_of("sessions", session, "turns"), limit=limit, cursor=cursor, count=count)
        return TurnListOut.parse(found)

    async def context(self, session: str, query: str, *, k: int | None = None) -> str:
        """What of one session answers a question, as a block for a prompt. Raises: NotFound."""
        check_k(k)
        path = path_of("sessions", session, "context")
        call = Call(method="POST", path=path, body={"query": query, "k": k}, repeatable=True)
        return SessionContextOut.parse(await self._ask(call)).context

    async def delete(self, session: str) -> None:
        """Erase a session and its turns; facts that were learned from it stay. Raises: NotFound, Forbidden."""
        await self._ask(Call(method="DELETE", path=path_of("sessions", session)))


class Scopes(Noun):
    """The tree of scopes."""

    async def register(
        self, path: str, *, display_name: str | None = None, description: str | None = None
    ) -> ScopeNode:
        """A scope and its missing ancestors; one that exists is returned. Raises: Invalid, Forbidden."""
        body = {"path": path, "displayName": display_name, "description": description}
        return ScopeNode.parse(await self._post("/scopes", body))

    async def list(
        self, *, limit: int | None = None, cursor: str | None = None, count: bool | None = None
    ) -> ScopeListOut:
        """A page of scopes the caller sees, removed names too; a page may be short without being the last."""
        return ScopeListOut.parse(await self._get("/scopes", limit=limit, cursor=cursor, count=count))

    async def delete(self, path: str) -> None:
        """Remove the name of a scope; its rows stay readable. Raises: NotFound, Forbidden."""
        await self._ask(Call(method="DELETE", path="/scopes", params={"path": path}))

    async def forget(self, path: str) -> ScopeForgetOut:
        """Erase all that belongs to a scope and the ones below it. Raises: Forbidden."""
        return ScopeForgetOut.parse(await self._post("/scopes/forget", {"path": path}))


class Principals(Noun):
    """Who holds grants."""

    async def create(
        self,
        display_name: str,
        *,
        external_id: str | None = None,
        kind: str | None = None,
        grants: Grants | None = None,
        home: str | None = None,
        roles: Sequence[str] | None = None,
        trusted_writer: bool | None = None,
    ) -> PrincipalOut:
        """A new principal, or the one that has `external_id`. `roles`: owner, admin, curator; only an owner gives them.
        `trusted_writer`: what its code writes counts as written by the app.

        Raises: Conflict for a name in use, Forbidden.
        """
        body = {
            "displayName": display_name,
            "externalId": external_id,
            "kind": kind,
            "grants": grants,
            "home": home,
            "roles": roles,
            "trustedWriter": trusted_writer,
        }
        return PrincipalOut.parse(await self._post("/principals", body))

    async def get(self, principal: str) -> PrincipalOut:
        """One principal. Raises: NotFound, Forbidden."""
        return PrincipalOut.parse(await self._get(path_of("principals", principal)))

    async def list(
        self, *, limit: int | None = None, cursor: str | None = None, count: bool | None = None
    ) -> PrincipalListOut:
        """A page of principals. Raises: Forbidden."""
        return PrincipalListOut.parse(await self._get("/principals", limit=limit, cursor=cursor, count=count))

    async def change(
        self, principal: str, *, roles: Sequence[str] | None = None, trusted_writer: bool | None = None
    ) -> PrincipalOut:
        """The principal with these roles, or vouched for as a writer. Raises: NotFound, Forbidden, Invalid."""
        body = {"roles": roles, "trustedWriter": trusted_writer}
        return PrincipalOut.parse(
            await self._ask(Call(method="PATCH", path=path_of("principals", principal), body=body))
        )

    async def grant(self, principal: str, path: str, verbs: Sequence[str]) -> PrincipalOut:
        """The principal with more verbs over a pattern of scopes. Raises: NotFound, Forbidden, Invalid."""
        body = {"path": path, "verbs": verbs}
        return PrincipalOut.parse(await self._post(path_of("principals", principal, "grants"), body))

    async def revoke(self, principal: str, path: str, verbs: Sequence[str]) -> PrincipalOut:
        """The principal with fewer. Raises: NotFound, Forbidden, Invalid."""
        body = {"path": path, "verbs": verbs}
        call = Call(method="DELETE", path=path_of("principals", principal, "grants"), body=body)
        return PrincipalOut.parse(await self._ask(call))

    async def effective(self, principal: str, path: str) -> EffectiveOut:
        """Which verbs the principal holds over one scope. Raises: NotFound, Forbidden."""
        found = await self._get(path_of("principals", principal, "effective"), path=path)
        return EffectiveOut.parse(found)


class Keys(Noun):
    """Keys of the caller's own principal."""

    async def list(
        self, *, limit: int | None = None, cursor: str | None = None, count: bool | None = None
    ) -> KeyListOut:
        """The key in use, or all keys for who may manage everything; never their secrets."""
        return KeyListOut.parse(await self._get("/keys", limit=limit, cursor=cursor, count=count))

    async def create(
        self,
        name: str | None = None,
        *,
        grants: Grants | None = None,
        strict: bool | None = None,
        ttl_s: int | None = None,
    ) -> MintedKey:
        """A further key; its secret is in this reply and nowhere else. Raises: Conflict, Invalid, Forbidden."""
        body = {"name": name, "grants": grants, "strict": strict}
        call = Call(method="POST", path="/keys", body=body, params={"ttlSeconds": ttl_s})
        return MintedKey.parse(await self._ask(call))

    async def rotate(self, name: str, *, ttl_s: int | None = None) -> MintedKey:
        """A new secret for a key; the old one stops working. Raises: NotFound."""
        call = Call(method="POST", path=path_of("keys", name, "rotate"), body={}, params={"ttlSeconds": ttl_s})
        return MintedKey.parse(await self._ask(call))

    async def delete(self, name: str) -> None:
        """Revoke a key. Raises: NotFound."""
        await self._ask(Call(method="DELETE", path=path_of("keys", name)))


class Traces(Noun):
    """What reads left behind: which rows each weighed, and why."""

    async def list(
        self,
        *,
        ref: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        count: bool | None = None,
    ) -> TracesOut:
        """A page of reads, newest first; with `ref` only those that returned that row: `attribute:<id>` …

        Raises: NotFound, Invalid for a `ref` that names no such row.
        """
        return TracesOut.parse(await self._get("/traces", ref=ref, limit=limit, cursor=cursor, count=count))

    async def get(self, trace: str) -> TraceOut:
        """One read in full. Raises: NotFound."""
        return TraceOut.parse(await self._get(path_of("traces", trace)))

    async def stats(self, *, window_hours: int | None = None, since: datetime | str | None = None) -> TraceStatsOut:
        """Numbers about the reads of the last hours, or since a time; zero for who does not manage everything."""
        return TraceStatsOut.parse(await self._get("/traces/stats", windowHours=window_hours, since=since))


class Runs(Noun):
    """Runs of agents: what each was offered, what its answers relied on, and what came of it."""

    async def open(
        self, *, session: str | None = None, temporary: bool | None = None, saving: bool | None = None
    ) -> RunRecord:
        """A new run; give its `id` as `run` to what it asks and writes.

        A `temporary` one reads no memory and keeps none, for good; with `saving` false it uses memory and keeps none.

        Raises: NotFound for a session there is not, Conflict for a temporary chat in one that has turns.
        """
        body = {"sessionId": session, "temporary": temporary, "saving": saving}
        return RunRecord.parse(await self._post("/runs", body))

    async def close(
        self,
        run: str,
        end_reason: str = "answered",
        *,
        tool_calls: Sequence[Mapping[str, object]] | None = None,
        cost: Mapping[str, float] | None = None,
        tokens: int | None = None,
        latency_ms: int | None = None,
    ) -> RunRecord:
        """Close a run, with what it took. A tool call is `{"name": "search", "ok": True, "ms": 41}`.

        Raises: NotFound, Conflict when it ended otherwise already.
        """
        body = {"toolCalls": tool_calls, "cost": cost, "tokens": tokens, "latencyMs": latency_ms}
        given = {name: value for name, value in body.items() if value is not None} | {"endReason": end_reason}
        call = Call(method="PATCH", path=path_of("runs", run), body=given, repeatable=True)
        return RunRecord.parse(await self._ask(call))

    async def cite(self, run: str, cites: Sequence[str]) -> CitedOut:
        """Verify the ids that an answer names: only what this run was offered, and what is still there, is kept.

        Raises: NotFound.
        """
        call = Call(method="POST", path=path_of("runs", run, "citations"), body={"cites": cites}, repeatable=True)
        return CitedOut.parse(await self._ask(call))

    async def outcome(self, run: str, outcome: Literal["helped", "hurt", "neutral"]) -> RunRecord:
        """Say whether memory helped. Raises: NotFound."""
        call = Call(method="POST", path=path_of("runs", run, "outcome"), body={"outcome": outcome}, repeatable=True)
        return RunRecord.parse(await self._ask(call))

    async def get(self, run: str) -> RunOut:
        """One run in full. Raises: NotFound."""
        return RunOut.parse(await self._get(path_of("runs", run)))

    async def list(
        self,
        *,
        agent: str | None = None,
        session: str | None = None,
        memory: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> RunsOut:
        """A page of runs, the one that began last first: of an agent, in a session, that were given a memory."""
        found = await self._get("/runs", agent=agent, sessionId=session, memory=memory, limit=limit, cursor=cursor)
        return RunsOut.parse(found)


class Memories(Noun):
    """Memories as the person they belong to handles them. `rev` is the revision that was read: when it was changed
    since, nothing is done and `StaleRevision` is raised."""

    async def save(
        self,
        text: str,
        *,
        kind: str = "note",
        slot: str | None = None,
        scopes: ScopeSpelling | None = None,
        source: Literal["sheet", "api"] | None = None,
        run: str | None = None,
        idempotency_key: str | None = None,
    ) -> SavedOut:
        """Keep a memory; in the same `slot` it replaces what stood there. Look at `status`: what an agent saves may
        wait for the person, and what was not stored at all is `dropped`.

        Raises: Unprocessable, SecretRefused, Forbidden.
        """
        body = {"text": text, "kind": kind, "slot": slot, "scopes": scopes, "source": source, "runId": run}
        return SavedOut.parse(await self._post("/memories", body, key=idempotency_key))

    async def list(
        self,
        *,
        status: str | None = None,
        kind: str | None = None,
        slot: str | None = None,
        q: str | None = None,
        agent: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> MemoriesOut:
        """A page of memories, the one written down last first: your own in every state, others' that are in use."""
        asked = {"status": status, "kind": kind, "slot": slot, "q": q, "agent": agent}
        return MemoriesOut.parse(await self._get("/memories", **asked, limit=limit, cursor=cursor))

    async def get(self, memory: str) -> MemoryOut:
        """One memory as it stands. Raises: NotFound."""
        return MemoryOut.parse(await self._get(path_of("memories", memory)))

    async def history(self, memory: str) -> MemoryHistoryOut:
        """Every version of a memory, the newest first. Raises: NotFound."""
        return MemoryHistoryOut.parse(await self._get(path_of("memories", memory, "history")))

    async def edit(
        self,
        memory: str,
        *,
        rev: int,
        text: str | None = None,
        kind: str | None = None,
        muted: bool | None = None,
        pinned: bool | None = None,
        expires_at: datetime | str | None = None,
        lasts: bool | None = None,
    ) -> MemoryOut:
        """Change a memory; a new text is a new version with an id of its own. `lasts` takes the end it has away.

        Raises: StaleRevision, NotFound, Forbidden, IllegalTransition, Unprocessable, Conflict for too many pins.
        """
        said = {"text": text, "kind": kind, "muted": muted, "pinned": pinned}
        body = said | {"expiresAt": expires_at, "lasts": lasts}
        call = Call(method="PATCH", path=path_of("memories", memory), body=body, revision=rev)
        return MemoryOut.parse(await self._ask(call))

    async def confirm(
        self,
        memory: str,
        *,
        on_conflict: Literal["replace", "keep_both", "discard"] | None = None,
        text: str | None = None,
        rev: int | None = None,
    ) -> MemoryOut:
        """Say yes to what waits. Raises: NotFound, Forbidden, IllegalTransition, StaleRevision."""
        return await self._move(memory, "confirm", rev, onConflict=on_conflict, text=text)

    async def reject(self, memory: str, *, rev: int | None = None) -> MemoryOut:
        """Say no: its text goes at once. Raises: NotFound, Forbidden, IllegalTransition, StaleRevision."""
        return await self._move(memory, "reject", rev)

    async def release(self, memory: str, *, rev: int | None = None) -> MemoryOut:
        """Put what was held back among what waits. Raises: NotFound, Forbidden, IllegalTransition, StaleRevision."""
        return await self._move(memory, "release", rev)

    async def renew(
        self, memory: str, *, expires_at: datetime | str | None = None, rev: int | None = None
    ) -> MemoryOut:
        """Use again what had expired. Raises: NotFound, Forbidden, IllegalTransition, StaleRevision."""
        return await self._move(memory, "renew", rev, expiresAt=expires_at)

    async def retire(self, memory: str, *, rev: int | None = None) -> MemoryOut:
        """Stop using a memory; an agent may be answered with the question that it left for the person.

        Raises: NotFound, Forbidden, IllegalTransition, StaleRevision.
        """
        return await self._move(memory, "retire", rev)

    async def withdraw(self, memory: str, *, rev: int | None = None) -> MemoryOut:
        """Take back what the caller proposed. Raises: NotFound, Forbidden, IllegalTransition, StaleRevision."""
        return await self._move(memory, "withdraw", rev)

    async def delete(self, memory: str, *, rev: int | None = None) -> MemoryOut:
        """Delete a memory with its history; `undo` brings it back until its `undo_until`.

        Raises: NotFound, Forbidden, StaleRevision.
        """
        call = Call(method="DELETE", path=path_of("memories", memory), revision=rev)
        return MemoryOut.parse(await self._ask(call))

    async def undo(self, memory: str) -> MemoryOut:
        """Bring a deleted memory back, with the key that deleted it. Raises: NotFound, Gone when it is too late."""
        return await self._move(memory, "undo", None)

    async def _move(self, memory: str, move: str, rev: int | None, **body: object) -> MemoryOut:
        call = Call(method="POST", path=path_of("memories", memory, move), body=body, revision=rev)
        return MemoryOut.parse(await self._ask(call))
