"""Settings of a context, and their versions. The document itself is spelled in snake_case, as it is kept."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from pydantic import ConfigDict, RootModel

from keeps.core import setting_keys
from keeps.core.errors import Unprocessable
from keeps.core.settings import Kill
from keeps.wire.base import StrictIn, WireIn, WireOut, example
from keeps.wire.late import Late
from keeps.wire.pages import PageMeta, PageQuery

if TYPE_CHECKING:
    from keeps.services import settings
    from keeps.services.settings import Change, Changed, Current
    from keeps.store.settings import Version
else:
    settings = Late("keeps.services.settings")

REASON = "reason"


class SettingsQuery(WireIn):
    """`dry_run`: only say what would change."""

    dry_run: bool = False


class SettingsHistoryQuery(PageQuery):
    pass


def _described() -> dict[str, Any]:
    """Every setting and its range, as the schema of an object."""
    members: dict[str, Any] = {}
    for path, key in setting_keys.KEYS.items():
        place, (*above, last) = members, path.split(".")
        for part in above:
            place = place.setdefault(part, {"type": "object", "properties": {}})["properties"]
        place[last] = {"description": key.wanted}
    return members | {REASON: {"type": "string", "description": "why, in the words of who does it"}}


class SettingsIn(RootModel[dict[str, Any]]):
    """Settings to change, by their names; null takes one back."""

    model_config = ConfigDict(
        frozen=True,
        json_schema_extra={
            "properties": _described(),
            "additionalProperties": False,
            "examples": [{"budget": {"max_tokens": 400}, "proposal_ttl_days": 14, "reason": "fewer and fresher"}],
        },
    )

    def to_core(self, *, expected: int | None, dry_run: bool) -> Change:
        """The change this asks for. Raises: Unprocessable."""
        document, reason = dict(self.root), self.root.get(REASON)
        document.pop(REASON, None)
        if reason is not None and not isinstance(reason, str):
            raise Unprocessable("reason is a text")
        return settings.Change(document=document, expected=expected, dry_run=dry_run, reason=reason)


class ReasonIn(StrictIn):
    """Why, in the words of who does it."""

    model_config = example(reason="the new limits made answers worse")

    reason: str | None = None


class KillIn(StrictIn):
    """What to stop: `no_prompt`, `no_write`, `both`; `none` lets memory go on."""

    model_config = example(kill="no_prompt", reason="answers quote what nobody saved")

    kill: str
    reason: str | None = None

    def to_core(self) -> Kill:
        """The state of the switch. Raises: Unprocessable."""
        try:
            return Kill(self.kill)
        except ValueError:
            raise Unprocessable(f"kill must be one of {', '.join(Kill)}") from None


class SettingsOut(WireOut):
    """What holds. `settings`: everything, also what was never set; `own`: what was set for this context."""

    settings_version: int
    settings: dict[str, Any]
    own: dict[str, Any]

    @classmethod
    def of(cls, current: Current) -> Self:
        return cls(settings_version=current.version, settings=dict(current.document), own=dict(current.own))


class SettingsChangedOut(WireOut):
    """What changed, or would: by the path of each setting. `older`: how many memories in use are older than a new,
    shorter retention, by kind. `unasked`: how many in use nobody was asked about, where the policy now asks more."""

    settings_version: int
    applied: bool
    before: dict[str, Any]
    after: dict[str, Any]
    older: dict[str, int] | None = None
    unasked: int | None = None

    @classmethod
    def of(cls, changed: Changed) -> Self:
        return cls(
            settings_version=changed.version,
            applied=changed.applied,
            before=dict(changed.before),
            after=dict(changed.after),
            older=dict(changed.older) or None,
            unasked=changed.unasked or None,
        )


class SettingsVersion(WireOut):
    """One version: what it set, by whom, when and why. Version 0 is what held before anything was set."""

    version: int
    by: str
    at: datetime
    reason: str | None = None
    settings: dict[str, Any]

    @classmethod
    def of(cls, version: Version) -> Self:
        shown = {path: setting_keys.masked(path, value) for path, value in setting_keys.flat(version.document).items()}
        return cls(version=version.number, by=version.by, at=version.at, reason=version.reason, settings=shown)


class SettingsHistoryOut(WireOut):
    versions: list[SettingsVersion]
    page: PageMeta
