"""`keeps backup`, `keeps restore`, `keeps doctor`: the record as one file, and back; a folder looked over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import httpx
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from keeps.cli.codes import FAILED, UNAVAILABLE
from keeps.cli.reach import (
    check_folder,
    check_memory,
    confirm,
    console,
    counted,
    errors,
    said,
    settings,
    show_json,
)
from keeps.client.calls import http_client, read, unreachable
from keeps.core.errors import Unavailable
from keeps.http.routes.local import BACKUP_PATH
from keeps.memory import DEFAULT_FOLDER
from keeps.owning import owning
from keeps.services import archive
from keeps.services.archive import Step
from keeps.services.doctor import doctor as look_over
from keeps.store.owner import Owner, read_owner
from keeps.store.secrets import PEPPER_NAME
from keeps.wire.base import WireOut
from keeps.wire.local import BackupOut, ReportOut, RestoredOut

app = typer.Typer()

_OWNER_TIMEOUT_S: Final = 3600.0
"""How long the owner of a folder may take to write a backup."""

_LOCK: Final = "lock"
"""The finding that says that another process uses the folder."""

_MARKS: Final = {"good": "ok  ", "note": "note", "problem": "BAD "}
_STYLES: Final = {"good": "dim", "note": "", "problem": "bold red"}

Data = Annotated[Path, typer.Option(metavar="DIR", envvar="KEEPS_DATA", help="The data folder.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else.")]


@app.command(epilog="Example: keeps backup memory.archive")
def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The archive to write.")],
    data: Data = DEFAULT_FOLDER,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    json: Json = False,
) -> None:
    """Write every context into one archive, without stopping a server that runs."""
    folder = data.expanduser()
    check_memory(folder)
    with _watched() as progress:
        done = asyncio.run(_backup(folder, file.expanduser().absolute(), force, progress))
    _show(done, json, lambda out: _tell_backup(out, done))


@app.command(epilog="Example: keeps restore memory.archive --data ./other --ledger memory/ledger/tombstones.jsonl")
def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The archive to read.")],
    data: Data = DEFAULT_FOLDER,
    ledger: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The ledger of erased rows of the machine it comes from.")
    ] = None,
    new_ledger: Annotated[
        str | None, typer.Option(metavar="REASON", help="Go on without that ledger, and say why.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json: Json = False,
) -> None:
    """Put the record of an archive in the place of the one in the folder; what was erased since stays erased."""
    folder = data.expanduser()
    if (folder / PEPPER_NAME).exists():
        confirm(f"Replace the record in {folder} by this archive? The old one is laid aside.", yes=yes)
    with _watched() as progress:
        work = archive.restore(
            folder, file.expanduser(), ledger=ledger, new_ledger_reason=new_ledger, progress=progress
        )
        done = RestoredOut.of(asyncio.run(work))
    _show(done, json, lambda out: _tell_restored(out, done))


@app.command(epilog="Example: keeps doctor --data ./memory")
def doctor(
    data: Data = DEFAULT_FOLDER,
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Go on without changes that are lost; the ledger says so.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json: Json = False,
) -> None:
    """Look a folder over, and say what is wrong with it and what to do. Ends with 1 when something is, and with 4 when
    another process uses the folder: then only its files were looked at."""
    folder = data.expanduser()
    check_folder(folder)
    if accept_loss:
        confirm(f"Take the record in {folder} as it is, without what it lost?", yes=yes)
    report = ReportOut.of(asyncio.run(look_over(folder, accept_loss=accept_loss)))
    _show(report, json, lambda out: _tell_report(out, report))
    if not report.sound:
        raise typer.Exit(FAILED)
    if _in_use(report):
        raise typer.Exit(UNAVAILABLE)


async def _backup(folder: Path, file: Path, force: bool, progress: archive.Watch) -> BackupOut:
    owner = read_owner(folder)
    if owner is not None:
        return await _through(owner, file, force)
    async with owning(settings(data=folder), context=None) as owned:
        return BackupOut.of(await archive.backup(owned.rt, file, force=force, progress=progress))


async def _through(owner: Owner, file: Path, force: bool) -> BackupOut:
    """A backup written by the process that owns the folder."""
    async with http_client(owner.endpoint, key=owner.token, timeout_s=_OWNER_TIMEOUT_S, direct=True) as http:
        try:
            answer = await http.post(BACKUP_PATH, json={"file": str(file), "force": force})
        except httpx.ConnectError:
            raise unreachable(owner.endpoint) from None
        except httpx.TransportError:
            raise Unavailable("the process that owns the folder went away: try again") from None
        return BackupOut.parse(read(answer))


@contextmanager
def _watched() -> Generator[Callable[[Step], None]]:
    """Shows steps on a terminal; each stage has a bar of its own."""
    screen = errors()
    with Progress(
        TextColumn("{task.description}"), BarColumn(), console=screen, transient=True, disable=not screen.is_terminal
    ) as bar:
        tasks: dict[tuple[str, str], Any] = {}

        def show(step: Step) -> None:
            at = (step.stage, step.where)
            if at not in tasks:
                tasks[at] = bar.add_task(f"{step.stage} {step.where}".strip(), total=None)
            bar.update(tasks[at], completed=step.done, total=step.total or None)

        yield show


def _show(done: WireOut, json: bool, people: Callable[[Console], None]) -> None:
    if json:
        show_json(done.model_dump(mode="json", exclude_none=True))
    else:
        people(console())


def _tell_backup(out: Console, done: BackupOut) -> None:
    what = f"{counted(done.rows, 'row')} of {counted(len(done.contexts), 'context')}"
    out.print(f"Wrote {what} to {done.file} ({done.size_bytes} bytes).")
    out.print(said(f"sha256 {done.digest}", "dim"))
    out.print("It holds every text in plain: keep it as safe as the folder.")


def _tell_report(out: Console, report: ReportOut) -> None:
    for finding in report.findings:
        where = f" ({finding.where})" if finding.where else ""
        out.print(said(f"{_MARKS[finding.level]} {finding.check}{where}: {finding.message}", _STYLES[finding.level]))
    for loss in report.accepted:
        out.print(said(f"Accepted: {loss}"))
    if report.keys or report.management_key:
        out.print("New keys, shown this once:")
        _tell_keys(out, report)
    if not report.sound:
        out.print("Something needs doing: see above.")
    elif _in_use(report):
        out.print("What was looked at is well. The record and the index were not: another process uses the folder.")
    else:
        out.print("All is well.")


def _in_use(report: ReportOut) -> bool:
    """Whether the record could not be looked at."""
    return any(finding.check == _LOCK for finding in report.findings)


def _tell_restored(out: Console, done: RestoredOut) -> None:
    what = f"{counted(done.rows, 'row')} of {counted(len(done.contexts), 'context')}"
    out.print(f"Restored {what} into {done.folder}.")
    if done.replayed:
        again = "1 erasure that is" if done.replayed == 1 else f"{done.replayed} erasures that are"
        out.print(f"Carried out again: {again} younger than the backup.")
    for context in done.left_out or ():
        out.print(f"Context {context} was deleted after the backup and was left out.")
    for what, place in done.aside.items():
        out.print(said(f"The old {what} lies in {place}; delete it when all is well.", "dim"))
    if done.management_key is not None:
        out.print("The pepper is another one, so all keys were revoked. New keys, shown this once:")
        _tell_keys(out, done)


def _tell_keys(out: Console, done: RestoredOut | ReportOut) -> None:
    if done.management_key is not None:
        out.print(f"managementKey  {done.management_key}")
    for context, keys in (done.keys or {}).items():
        out.print(f"context        {context}")
        for name, key in (("ownerKey", keys.owner_key), ("agentKey", keys.agent_key)):
            if key is not None:
                out.print(f"{name:<14} {key}")
