"""Settings, a person's own controls, and the audit, as a client sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from keeps.client.calls import Call, path_of
from keeps.client.nouns import Noun
from keeps.wire.audit import AuditOut, AuditVerdictOut
from keeps.wire.controls import AppsOut, PausesOut, ProcedureOut, ProceduresOut, RulesOut
from keeps.wire.settings import SettingsChangedOut, SettingsHistoryOut, SettingsOut


class Settings(Noun):
    """What an admin sets without a restart. `version` is the one that was read: when another holds since, nothing is
    done and `StaleRevision` is raised."""

    async def get(self) -> SettingsOut:
        """What holds, and what of it was set here. Raises: Forbidden unless an owner or an admin asks."""
        return SettingsOut.parse(await self._get("/settings"))

    async def patch(
        self, change: Mapping[str, object], *, version: int, dry_run: bool = False, reason: str | None = None
    ) -> SettingsChangedOut:
        """Change some settings; None takes one back. `dry_run`: only say what would change.

        Raises: Unprocessable for a key or value that is not allowed, StaleRevision, Forbidden.
        """
        body = {**change, "reason": reason} if reason is not None else dict(change)
        params = {"dryRun": True} if dry_run else None
        call = Call(method="PATCH", path="/settings", body=body, params=params, revision=version, nulls=True)
        return SettingsChangedOut.parse(await self._ask(call))

    async def history(self, *, limit: int | None = None, cursor: str | None = None) -> SettingsHistoryOut:
        """A page of versions, the newest first. Raises: Forbidden."""
        return SettingsHistoryOut.parse(await self._get("/settings/history", limit=limit, cursor=cursor))

    async def revert(self, to: int, *, version: int, reason: str | None = None) -> SettingsChangedOut:
        """Let what held in a version hold again, as a new one. Raises: NotFound, StaleRevision, Forbidden."""
        path = path_of("settings", "revert", str(to))
        call = Call(method="POST", path=path, body={"reason": reason}, revision=version)
        return SettingsChangedOut.parse(await self._ask(call))

    async def kill(self, state: str, *, reason: str | None = None) -> SettingsChangedOut:
        """Stop memory at once: `no_prompt`, `no_write` or `both`; `none` lets it go on. Raises: Forbidden."""
        call = Call(method="POST", path="/settings/kill", body={"kill": state, "reason": reason}, repeatable=True)
        return SettingsChangedOut.parse(await self._ask(call))

    async def agent(self, principal: str) -> ProceduresOut:
        """How an agent was told to behave, now and before. Raises: NotFound, Forbidden."""
        return ProceduresOut.parse(await self._get(path_of("agents", principal, "instructions")))

    async def tell_agent(self, principal: str, text: str) -> ProcedureOut:
        """Tell an agent how to behave from now on. Raises: NotFound, Forbidden, Unprocessable, SecretRefused."""
        path = path_of("agents", principal, "instructions")
        call = Call(method="PUT", path=path, body={"text": text}, repeatable=True)
        return ProcedureOut.parse(await self._ask(call))

    async def untell_agent(self, principal: str) -> None:
        """Take back what an agent was told. Raises: NotFound, Forbidden."""
        await self._ask(Call(method="DELETE", path=path_of("agents", principal, "instructions")))


class Controls(Noun):
    """The caller's own controls, for a person with a key of their own. `rev` is the state that was read: when it
    changed since, nothing is done and `StaleRevision` is raised."""

    async def pauses(self) -> PausesOut:
        """The pauses that hold. Raises: Forbidden."""
        return PausesOut.parse(await self._get("/me/controls"))

    async def set_pauses(self, pauses: Sequence[Mapping[str, object]], *, rev: int) -> PausesOut:
        """Let these pauses hold and no others: `{"saving": True, "until": …, "agents": […]}`.

        Raises: StaleRevision, Unprocessable, Forbidden.
        """
        return PausesOut.parse(await self._put("/me/controls", {"pauses": pauses}, rev))

    async def rules(self) -> RulesOut:
        """What may be kept about the caller, and what may not. Raises: Forbidden."""
        return RulesOut.parse(await self._get("/me/rules"))

    async def set_rules(
        self,
        *,
        rev: int,
        blocked: Sequence[str] = (),
        consents: Sequence[str] = (),
        history: bool = False,
        never_kinds: Sequence[str] = (),
    ) -> RulesOut:
        """Let these rules hold; what is left out is not said any more.

        Raises: StaleRevision, Unprocessable, SecretRefused, Forbidden.
        """
        body = {"blocked": blocked, "consents": consents, "history": history, "neverKinds": never_kinds}
        return RulesOut.parse(await self._put("/me/rules", body, rev))

    async def apps(self) -> AppsOut:
        """The agents that reach the caller's memory, and what each may do. Raises: Forbidden."""
        return AppsOut.parse(await self._get("/me/apps"))

    async def set_apps(self, apps: Mapping[str, Mapping[str, object]], *, rev: int) -> AppsOut:
        """Say what agents may do, by their principals: `{"use": True, "suggest": False}`; others may do everything.

        Raises: StaleRevision, Unprocessable, Forbidden.
        """
        return AppsOut.parse(await self._put("/me/apps", {"apps": apps}, rev))

    async def _put(self, path: str, body: Mapping[str, object], rev: int) -> Any:
        return await self._ask(Call(method="PUT", path=path, body=body, revision=rev))


class Audit(Noun):
    """Who did what, for owners and admins."""

    async def list(
        self,
        *,
        action: str | None = None,
        target: str | None = None,
        actor: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> AuditOut:
        """A page of entries, the newest first. `action`: also those that begin with it and a dot. Raises: Forbidden."""
        asked = {"action": action, "target": target, "actor": actor}
        return AuditOut.parse(await self._get("/audit", **asked, limit=limit, cursor=cursor))

    async def verify(self) -> AuditVerdictOut:
        """Whether no entry was changed and none is missing. Raises: Forbidden."""
        return AuditVerdictOut.parse(await self._ask(Call(method="POST", path="/audit/verify", repeatable=True)))
