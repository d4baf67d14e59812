"""What admins and people decided in one context, as it is in force now."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from keeps.core.access import PrincipalId
from keeps.core.controls import Controls
from keeps.core.policy import Preset
from keeps.core.procedures import Procedure
from keeps.core.scopes import Pattern, Scope, ScopePath
from keeps.core.settings import Settings, parsed
from keeps.store import controls as store_controls
from keeps.store import principals as store_principals
from keeps.store import procedures as store_procedures
from keeps.store import settings as store_settings
from keeps.store.db import Db

NOTHING_SAID = Controls()


@dataclass(slots=True, kw_only=True)
class Consent:
    """The settings of a context, the controls of its people by their home, and whose home each is.

    `procedures`: how single agents should behave. `read_at`: when all this was last read from the record.
    """

    settings: Settings
    controls: dict[ScopePath, Controls] = field(default_factory=dict[ScopePath, Controls])
    homes: dict[ScopePath, PrincipalId] = field(default_factory=dict[ScopePath, PrincipalId])
    procedures: dict[PrincipalId, Procedure] = field(default_factory=dict[PrincipalId, Procedure])
    read_at: datetime | None = None
    _homes_of: dict[str, frozenset[ScopePath]] = field(default_factory=dict[str, frozenset[ScopePath]])

    def move_in(self, homes: Mapping[ScopePath, PrincipalId]) -> None:
        """Take the homes of people as they are now."""
        self.homes = dict(homes)
        self._homes_of.clear()

    def homes_of(self, scope: Scope) -> frozenset[ScopePath]:
        """The homes that something of a scope lies under."""
        found = self._homes_of.get(scope.id)
        if found is None:
            nodes = scope.nodes()
            found = frozenset(home for home in self.homes if any(_under(home, node) for node in nodes))
            self._homes_of[scope.id] = found
        return found

    def person_of(self, nodes: Collection[ScopePath]) -> PrincipalId | None:
        """Whose memory something at these nodes is: the one person under whose home one of them lies.

        None when it is under nobody's, or several people's: then it is shared.
        """
        owners = {who for home, who in self.homes.items() for node in nodes if _under(home, node)}
        return owners.pop() if len(owners) == 1 else None

    def of_person(self, who: PrincipalId) -> Controls:
        """The controls of one person."""
        return next(
            (self.controls[home] for home, of in self.homes.items() if of == who and home in self.controls),
            NOTHING_SAID,
        )

    def over(self, scope: Scope) -> tuple[Controls, ...]:
        """The controls of everybody whose home something of this scope lies under: all of them hold."""
        return tuple(self.controls.get(home, NOTHING_SAID) for home in sorted(self.homes_of(scope)))


def _under(home: ScopePath, node: ScopePath) -> bool:
    return Pattern(home, subtree=True).covers(node)


def settings_of(config: Mapping[str, Any], default: str, version: int = 0) -> Settings:
    """The settings a context's configuration comes to; `default`: the policy where it names none."""
    return parsed(config, version=version, default=Preset(default))


async def read(db: Db, config: Mapping[str, Any], default: str, now: datetime) -> tuple[Mapping[str, Any], Consent]:
    """The configuration in force and what it comes to, out of the record; `config` holds where nothing was set."""
    version, document = await store_settings.current(db) or (0, config)
    consent = Consent(
        settings=settings_of(document, default, version),
        controls=await store_controls.load(db),
        homes=await store_principals.homes(db),
        procedures=await store_procedures.load(db),
        read_at=now,
    )
    return document, consent
