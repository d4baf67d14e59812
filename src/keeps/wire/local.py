"""Between processes of one user that share a data folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from keeps.services.archive import Backup, Restored
from keeps.services.contexts import Reissued
from keeps.services.doctor import Level, Report
from keeps.wire.base import WireIn, WireOut


class BackupIn(WireIn):
    """Where the owner of the folder is to write a backup; an absolute path of the same machine."""

    file: str
    force: bool = False


class BackupOut(WireOut):
    """What a backup holds. `ledger`: the number of its last tombstone."""

    file: str
    size_bytes: int
    rows: int
    contexts: tuple[str, ...]
    ledger: int
    digest: str

    @classmethod
    def of(cls, done: Backup) -> Self:
        return cls(
            file=str(done.file),
            size_bytes=done.size,
            rows=done.rows,
            contexts=done.contexts,
            ledger=done.ledger,
            digest=done.digest,
        )


class ReissuedOut(WireOut):
    """New keys of a context, shown once."""

    owner_key: str | None = None
    agent_key: str | None = None


class RestoredOut(WireOut):
    """What a restore did. `aside`: where the old record and ledger lie. Keys only when the old ones had to go."""

    folder: str
    rows: int
    contexts: tuple[str, ...]
    replayed: int
    left_out: tuple[str, ...] | None = None
    ledger: str
    aside: dict[str, str]
    keys: dict[str, ReissuedOut] | None = None
    management_key: str | None = None

    @classmethod
    def of(cls, done: Restored) -> Self:
        return cls(
            folder=str(done.folder),
            rows=sum(sum(tables.values()) for tables in done.counts.values()),
            contexts=done.contexts,
            replayed=done.replayed,
            left_out=done.left_out or None,
            ledger=done.ledger,
            aside={name: str(path) for name, path in done.aside.items()},
            keys=_shown(done.keys),
            management_key=done.management_key,
        )


class FindingOut(WireOut):
    """One thing that was looked at. `loss`: accepting the loss settles it."""

    level: Level
    check: str
    message: str
    where: str | None = None
    loss: bool | None = None


class ReportOut(WireOut):
    """What was found in a folder. `accepted`: losses that were accepted on request. Keys only when some were made."""

    folder: str
    sound: bool
    findings: tuple[FindingOut, ...]
    accepted: tuple[str, ...]
    keys: dict[str, ReissuedOut] | None = None
    management_key: str | None = None

    @classmethod
    def of(cls, report: Report) -> Self:
        findings = tuple(
            FindingOut(
                level=found.level,
                check=found.check,
                message=found.message,
                where=found.where or None,
                loss=found.loss or None,
            )
            for found in report.findings
        )
        return cls(
            folder=str(report.folder),
            sound=report.sound,
            findings=findings,
            accepted=report.accepted,
            keys=_shown(report.keys),
            management_key=report.management_key,
        )


def _shown(keys: Mapping[str, Reissued]) -> dict[str, ReissuedOut] | None:
    shown = {context: ReissuedOut(owner_key=new.owner_key, agent_key=new.agent_key) for context, new in keys.items()}
    return shown or None
